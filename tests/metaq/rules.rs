//! The broker's rules on frames that real clients sent and records that an Apache broker stored.

use std::sync::Arc;

use metaq::broker::clients::{on_heartbeat, Clients, Connection, HeartbeatTables};
use metaq::broker::groups::{GroupRules, GroupTable};
use metaq::broker::offsets::{OffsetTable, PullStep, QueueFacts, Who};
use metaq::broker::pull::{self, Expressions, PullRequest, PullRules, Read, ReadStatus, Verdict};
use metaq::broker::role::Role;
use metaq::broker::send::{stamps, BatchItem, EntryCode, SendRequest, SendRules};
use metaq::broker::send_back::{self, SendBackRequest};
use metaq::broker::topics::{FirstSend, TopicRules, TopicTable};
use metaq::broker::{BrokerError, ConnectionId, Effect};
use metaq::env::Millis;
use metaq::proto::body::{self, HeartbeatData, SubscriptionGroupWrapper, TopicConfigSerializeWrapper};
use metaq::proto::filter::Filter;
use metaq::proto::message::properties::{edited, iterate};
use metaq::proto::message::record::{self, BodyCrc, Parsed, RecordView};
use metaq::proto::message::system::BootOptions;
use metaq::proto::message::{batch, hash, ids, DelayLevels};
use metaq::proto::remoting::requests::{ConsumerSendMsgBack, PullHeader, SendHeader};
use metaq::proto::remoting::{frame, Command, Language};

use crate::vectors::{store, store_json, wire};

const WALL: Millis = Millis(1_700_000_000_000);
const NOW: Millis = Millis(1000);

fn command(name: &str) -> Command {
    let bytes = wire(name);
    let frame = frame::next(&bytes).expect("a frame").expect("a whole one");
    Command::decode(&frame).expect("a header")
}

fn peer() -> std::net::SocketAddr {
    "192.168.1.20:51234".parse().expect("an address")
}

/// All tables of a broker that has just started for the first time.
struct Broker {
    topics: TopicTable,
    groups: GroupTable,
    clients: Clients,
    offsets: OffsetTable,
    send: SendRules,
    pull: PullRules,
}

impl Broker {
    fn new() -> Self {
        let boot = BootOptions {
            cluster: "DefaultCluster",
            broker: "broker-a",
            auto_create_topic: true,
            default_topic_queues: 8,
            cluster_topic: true,
            broker_topic: true,
            trace_topic: false,
            trace_topic_name: "RMQ_SYS_TRACE_TOPIC",
            timer: false,
            revive_queues: 8,
        };
        let topic_rules = TopicRules { auto_create: true, validate_system: true, topics_max: 1000 };
        let group_rules = GroupRules { auto_create: true, groups_max: 1000 };
        let out = &mut Vec::new();
        Broker {
            topics: TopicTable::new(topic_rules, &boot, TopicConfigSerializeWrapper::default(), WALL, out),
            groups: GroupTable::new(group_rules, SubscriptionGroupWrapper::default(), WALL, out),
            clients: Clients::new(1000, 600_000),
            offsets: OffsetTable::new(500, 1000),
            send: SendRules {
                timer: metaq::broker::timer::TimerRules { enabled: true, delay_ms_max: 259_200_000 },
                cluster: "DefaultCluster".to_owned(),
                region: "DefaultRegion".to_owned(),
                trace_on: true,
                stamps: stamps("DefaultRegion", true, "DefaultCluster"),
                address: "10.0.0.1".to_owned(),
                body_bytes_max: 4 << 20,
                writable: true,
                role: Role::master(),
                accept_from: Millis(0),
                reject_transactions: false,
                levels: DelayLevels::default(),
            },
            pull: PullRules {
                address: "10.0.0.1".to_owned(),
                readable: true,
                lite_pull: true,
                property_filter: false,
                slave_read: false,
                offset_check_in_slave: false,
                role: Role::master(),
            },
        }
    }

    fn heartbeat(&mut self, id: u64, name: &str) -> (bool, Vec<Effect>) {
        let command = command(name);
        let data: HeartbeatData = body::from_slice(&command.body).expect("a heartbeat");
        let connection =
            Connection { id: ConnectionId(id), peer: peer(), language: Language::Java, version: command.version };
        let mut out = Vec::new();
        let mut tables = HeartbeatTables {
            topics: &mut self.topics,
            groups: &mut self.groups,
            clients: &mut self.clients,
            reject_pull_consumers: false,
        };
        let reply = on_heartbeat(&mut tables, connection, &data, (NOW, WALL), &mut out);
        (reply.sub_change, out)
    }

    /// A send as its vector has it; what is stored, its properties in the order of their names.
    fn send(&mut self, name: &str) -> Result<(String, i32, EntryCode, Vec<String>), BrokerError> {
        let command = command(name);
        let header = SendHeader::decode(command.code, &command.ext_fields().expect("fields")).expect("a send");
        let properties = header.properties.str();
        let request = SendRequest {
            topic: &header.topic,
            queue_id: header.queue_id,
            sys_flag: header.sys_flag,
            properties: &properties,
            reconsume_times: header.reconsume_times,
            max_reconsume_times: header.max_reconsume_times,
            body: &command.body,
            client_version: command.version,
            peer: peer(),
        };
        self.send.precheck(&request, || WALL)?;
        let first = FirstSend {
            topic: &header.topic,
            default_topic: &header.default_topic,
            default_topic_queue_nums: header.default_topic_queue_nums,
            sys_flag: 0,
        };
        let topic = self.topics.create_on_send(first, WALL, &mut Vec::new())?;
        let plan = self.send.plan(&request, &topic, None, 0, || WALL)?;
        let (place, queue_id) = plan.target.place();
        let mut stored = sorted(&edited(&properties, &plan.edits(&self.send, "MADE")));
        stored.dedup();
        Ok((place.to_owned(), queue_id, plan.entry_code, stored))
    }

    /// A pull as its vector has it: its filter, or the refusal.
    fn pull(&self, id: u64, name: &str) -> Result<Arc<Filter>, BrokerError> {
        let command = command(name);
        let header = PullHeader::decode(&command.ext_fields().expect("fields")).expect("a pull");
        let request = PullRequest {
            lite: command.code == 361,
            group: &header.consumer_group,
            topic: &header.topic,
            queue_id: header.queue_id,
            sys_flag: header.sys_flag,
            subscription: header.subscription.as_deref(),
            sub_version: header.sub_version,
            expression_type: header.expression_type.as_deref(),
            connection: ConnectionId(id),
            peer: peer(),
        };
        let group = self.groups.get(request.group).map(|group| &**group);
        let topic = self.topics.get(request.topic).map(|topic| &**topic);
        pull::check(&self.pull, &request, group, topic, &self.clients.consumers, &mut Expressions::default())
    }
}

fn sorted(text: &str) -> Vec<String> {
    let mut pairs: Vec<String> = iterate(text).map(|(name, value)| format!("{name}={value}")).collect();
    pairs.sort();
    pairs
}

#[test]
fn the_first_heartbeat_makes_group_and_retry_topic_and_tells_the_member() {
    let mut broker = Broker::new();
    let (sub_change, out) = broker.heartbeat(1, "11_heartbeat_request_json");
    assert!(sub_change, "a heartbeat v1 always");
    let told = Effect::NotifyIdsChanged { group: "cg_demo".into(), connections: vec![ConnectionId(1)] };
    assert_eq!(out, [Effect::PersistGroups, Effect::PersistTopics, Effect::Register, told]);
    let retry = broker.topics.get("%RETRY%cg_demo").expect("its retry topic");
    assert_eq!((retry.read_queues(), retry.write_queues(), retry.config().perm), (1, 1, 6));
    let ids = broker.clients.consumers.client_ids("cg_demo");
    assert_eq!(ids.iter().map(|id| &**id).collect::<Vec<_>>(), ["192.168.1.20@6699#1234567890"]);
    assert!(broker.clients.producers.pick("pg_demo", 3).is_some());
    assert_eq!(broker.heartbeat(1, "11_heartbeat_request_json"), (true, vec![]), "the second changes nothing");
}

/// A short heartbeat v2 that this broker has not heard in full asks for the full one; Apache's answer to one it knows
/// is `false`, as in vector 46.
#[test]
fn a_short_heartbeat_is_enough_only_for_who_is_known() {
    let mut broker = Broker::new();
    assert!(broker.heartbeat(1, "45_real_heartbeat_v2_short_request").0);
    assert_eq!(command("46_real_heartbeat_v2_response").ext("IS_SUB_CHANGE"), Some("false"));
}

#[test]
fn real_sends_are_stored_with_what_apache_adds() {
    let mut broker = Broker::new();
    for (vector, own) in [
        ("07_send_message_v2_request_json", 4),
        ("08_send_message_v2_request_rocketmq", 4),
        ("28_send_message_request_go_style", 0),
        ("35_real_send_v2_request", 0),
        ("37_real_send_v2_request_rocketmq", 0),
    ] {
        let (topic, _, entry_code, stored) = broker.send(vector).unwrap_or_else(|error| panic!("{vector}: {error}"));
        assert!(!topic.is_empty() && stored.len() >= own + 3, "{vector}: {stored:?}");
        for added in ["CLUSTER=DefaultCluster", "MSG_REGION=DefaultRegion", "TRACE_ON=true"] {
            assert!(stored.iter().any(|pair| pair == added), "{vector}: {added}");
        }
        assert!(stored.iter().any(|pair| pair.starts_with("UNIQ_KEY=")), "{vector}");
        let tag = stored.iter().find_map(|pair| pair.strip_prefix("TAGS=")).map_or(0, hash::tags_code);
        assert_eq!(entry_code, EntryCode::Tag(tag), "{vector}");
    }
    assert_eq!(broker.topics.get("TopicTest").map(|topic| topic.queues()), Some(4), "made by the first of them");
    let (_, _, _, json) = broker.send("07_send_message_v2_request_json").expect("stored");
    let (_, _, _, binary) = broker.send("08_send_message_v2_request_rocketmq").expect("stored");
    assert_eq!(json, binary);
}

#[test]
fn items_of_a_real_batch_keep_their_keys() {
    let broker = Broker::new();
    let command = command("38_real_batch_request");
    let header = SendHeader::decode(command.code, &command.ext_fields().expect("fields")).expect("a send");
    let properties = header.properties.str();
    let request = SendRequest {
        topic: "BenchmarkTest",
        queue_id: header.queue_id,
        sys_flag: header.sys_flag,
        properties: &properties,
        reconsume_times: 0,
        max_reconsume_times: None,
        body: &command.body,
        client_version: command.version,
        peer: peer(),
    };
    let topic = broker.topics.get("BenchmarkTest").expect("a boot topic");
    let plan = broker.send.plan_batch(&request, topic, 0).expect("a plan");
    let mut keys = 0;
    for item in batch::items(&command.body) {
        let item = item.expect("an item");
        let BatchItem { entry_code: code, edits, .. } = plan.item(&broker.send, item.properties, || "MADE");
        let (before, after) = (sorted(item.properties), sorted(&edited(item.properties, &edits)));
        assert!(before.iter().all(|pair| after.contains(pair)), "{before:?} in {after:?}");
        assert_eq!(after.iter().filter(|pair| pair.starts_with("UNIQ_KEY=")).count(), 1);
        assert_ne!(code, EntryCode::Tag(0));
        keys += 1;
    }
    assert_eq!(keys, 2);
}

#[test]
fn refusals_read_as_apaches() {
    let illegal = command("39_real_send_response_illegal_topic");
    let remark = illegal.remark.clone().unwrap_or_default();
    let broker = Broker::new();
    let request = SendRequest {
        topic: "a b",
        queue_id: 0,
        sys_flag: 0,
        properties: "",
        reconsume_times: 0,
        max_reconsume_times: None,
        body: b"x",
        client_version: 479,
        peer: peer(),
    };
    let error = broker.send.precheck(&request, || WALL).expect_err("refused");
    assert_eq!((error.code(), error.to_string()), (illegal.code, remark));
    let not_found = command("47_real_query_offset_not_found");
    assert_eq!(BrokerError::OffsetNotFound.code(), not_found.code);
    assert_eq!(Some(BrokerError::OffsetNotFound.to_string()), not_found.remark);
}

#[test]
fn a_registered_consumer_pulls_by_its_heartbeat() {
    let mut broker = Broker::new();
    broker.send("07_send_message_v2_request_json").expect("the topic is made");
    assert_eq!(broker.pull(1, "12_pull_message_request_json").map_err(|error| error.code()), Err(26));
    broker.heartbeat(1, "11_heartbeat_request_json");
    let filter = broker.pull(1, "12_pull_message_request_json").expect("it may");
    assert!(filter.matches_code(hash::tags_code("TagA")) && !filter.matches_code(hash::tags_code("TagB")));
    broker.clients.on_connection_closed(ConnectionId(1), &mut Vec::new());
    assert_eq!(broker.pull(1, "12_pull_message_request_json").map_err(|error| error.code()), Err(24));
}

#[test]
fn a_new_groups_first_questions_and_pulls() {
    let mut broker = Broker::new();
    let facts = QueueFacts { topic_exists: true, min: 0, max: 0, first_is_recent: false };
    assert_eq!(broker.offsets.query("cg_demo", ("TopicTest", 0), true, facts), Some(0));
    let (topic, client) = ("TopicTest".into(), "c".into());
    let by = Who::Member(&client);
    let step = PullStep { group: "cg_demo", topic: &topic, queue_id: 0, from: 0, commit: None, by, holder: None };
    assert_eq!(broker.offsets.pull(step, NOW, &mut Vec::new()), None);
    let read =
        Read { status: ReadStatus::NoMatchedMessage, from: 0, examined_to: 8, min: 0, max: 8, far_behind: false };
    let Verdict::Answer(answer) = pull::verdict(&read, true, false) else { panic!("an answer") };
    let apache = command("44_real_pull_response_no_match");
    assert_eq!((answer.code, Some(answer.remark)), (apache.code, apache.remark.as_deref()));
}

fn view(bytes: &[u8]) -> RecordView<'_> {
    match record::parse(bytes, BodyCrc::Verify) {
        Ok(Parsed::Record(view)) => view,
        other => panic!("{other:?}"),
    }
}

/// What our rules make of a record that was handed back, beside what Apache's made of it.
#[test]
fn handed_back_records_become_what_apache_stored() {
    let (bytes, described) = (store("captured/records.bin"), store_json("captured/records.json"));
    let place = |note: &str| {
        let found = described.as_array().into_iter().flatten().find(|record| record["note"] == note);
        found.and_then(|record| record["offset"].as_u64()).unwrap_or_else(|| panic!("no record `{note}`")) as usize
    };
    let (waiting, dead) = (
        view(&bytes[place("send-back waiting at level 1")..]),
        view(&bytes[place("send-back with level -1: DLQ, DELAY=0")..]),
    );
    let mut broker = Broker::new();
    let group = broker.groups.find_or_create("cg1", WALL, &mut Vec::new()).expect("made");
    let retry = broker.topics.ensure("%RETRY%cg1", 1, false, 0, WALL, &mut Vec::new()).expect("made");
    let header = command("48_real_send_msg_back_request");
    let real = ConsumerSendMsgBack::decode(&header.ext_fields().expect("fields")).expect("a hand-back");
    for (delay_level, stored) in [(real.delay_level, waiting), (-1, dead)] {
        // The record as it was before it was handed back: what the broker added is taken off again.
        let before = RecordBefore::of(&stored);
        let request = SendBackRequest {
            offset: 0,
            group: "cg1",
            delay_level,
            max_reconsume_times: real.max_reconsume_times,
            client_version: header.version,
        };
        let original = before.bytes();
        let id = ids::offset_message_id(stored.store_host(), metaq::proto::PhysicalOffset(0x1C04));
        let plan = send_back::plan(&broker.send, &request, &group, &retry, &view(&original), &id, 0).expect("a plan");
        assert_eq!((plan.topic.as_str(), plan.reconsume_times), (&*stored.topic(), stored.reconsume_times()));
        let unlike = |pairs: Vec<String>| -> Vec<String> {
            // Apache does not wait for the disk and says so in the record; the level is the request's.
            let ours = |pair: &String| !pair.starts_with("WAIT=") && !pair.starts_with("DELAY=");
            pairs.into_iter().filter(ours).collect()
        };
        assert_eq!(unlike(sorted(&plan.properties)), unlike(sorted(&stored.properties())));
    }
}

/// A copy of a stored hand-back with the broker's additions removed.
struct RecordBefore<'a> {
    stored: &'a RecordView<'a>,
    properties: String,
}

impl<'a> RecordBefore<'a> {
    fn of(stored: &'a RecordView<'a>) -> Self {
        use metaq::proto::message::Edit::Remove;
        let added = ["RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "DELAY", "REAL_TOPIC", "REAL_QID"].map(Remove);
        RecordBefore { stored, properties: edited(&stored.properties(), &added) }
    }

    fn bytes(&self) -> Vec<u8> {
        let copy = metaq::proto::message::NewRecord::copy_of(self.stored, "TopicTest", &self.properties);
        let mut out = Vec::new();
        let before = metaq::proto::message::NewRecord { reconsume_times: self.stored.reconsume_times() - 1, ..copy };
        metaq::proto::message::encode_record(&mut out, &before).expect("a record");
        out
    }
}
