//! Answers to tools, from real tables and a real store.

use metaq::broker::admin::progress::{self, Wanted};
use metaq::broker::admin::queues::{asked_subscription, entries, EntryQuery};
use metaq::broker::admin::runtime::{
    broker_config, runtime_info, stats_data, Copies, Copy, DelayProgress, RuntimeFacts, TimerFacts,
};
use metaq::broker::admin::statistics::Statistics;
use metaq::broker::admin::{clients, offsets, topics, Answer};
use metaq::broker::clients::{Clients, Connection, Registration};
use metaq::broker::offsets::{OffsetTable, PullStep, Who};
use metaq::broker::topics::{TopicRules, TopicTable};
use metaq::config::broker::BrokerConfig;
use metaq::env::{ConnectionId, Millis, Space};
use metaq::proto::body::{
    from_slice, ConsumeStats, ConsumerData, DataVersion, KvTable, TopicConfig, TopicConfigSerializeWrapper,
};
use metaq::proto::filter::{ExpressionType, SubscriptionData};
use metaq::proto::message::hash::java_hash;
use metaq::proto::message::system::BootOptions;
use metaq::proto::remoting::{response, Language};
use metaq::store::FlushMode;
use serde_json::Value;

use super::store::support::{Running, World, START};

const WALL: Millis = Millis(START + 60_000);

/// A broker's tables around an open store: topic T with 2 queues, 5 messages in queue 0; group g consumed 3 of them and
/// pulled 4.
struct Broker {
    topics: TopicTable,
    clients: Clients,
    offsets: OffsetTable,
    statistics: Statistics,
    running: Running,
    _world: World,
}

async fn broker() -> Broker {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    for body in 0..5u8 {
        world.clock.0.fetch_add(1_000, std::sync::atomic::Ordering::Relaxed);
        running.send("T", 0, &[body; 10]).await.unwrap();
    }
    let rules = TopicRules { auto_create: true, validate_system: true, topics_max: 100 };
    let boot = BootOptions {
        cluster: "C",
        broker: "broker-a",
        auto_create_topic: true,
        default_topic_queues: 8,
        cluster_topic: true,
        broker_topic: true,
        trace_topic: false,
        trace_topic_name: "",
        timer: false,
        revive_queues: 8,
    };
    let mut topics = TopicTable::new(rules, &boot, TopicConfigSerializeWrapper::default(), WALL, &mut Vec::new());
    let order = TopicConfig { order: true, ..TopicConfig::new("Ordered", 1, 6) };
    topics.update(vec![TopicConfig::new("T", 2, 6), order], WALL, &mut Vec::new()).unwrap();
    let mut offsets = OffsetTable::new(1, 100);
    offsets.commit("g", ("T", 0), 3, (Who::Other, None), Millis(0), &mut Vec::new());
    let pull = PullStep {
        group: "g",
        topic: topics.get("T").unwrap().name(),
        queue_id: 0,
        from: 4,
        commit: None,
        by: Who::Other,
        holder: None,
    };
    offsets.pull(pull, Millis(0), &mut Vec::new());
    let statistics = Statistics::new(Millis(0), 10);
    Broker { topics, clients: Clients::new(100, 1000), offsets, statistics, running, _world: world }
}

impl Broker {
    fn join(&mut self, group: &str, subscriptions: &[(&str, &str)]) {
        let subscription = |(topic, tags): &(&str, &str)| SubscriptionData::new(topic, ExpressionType::Tag, tags, 1);
        let data = ConsumerData {
            group_name: group.to_owned(),
            subscription_data_set: subscriptions.iter().map(|pair| subscription(pair).unwrap()).collect(),
            ..ConsumerData::default()
        };
        let registration = Registration {
            connection: connection(7),
            client: "client-1",
            data: &data,
            fingerprint: 0,
            without_subscriptions: false,
            notify: true,
        };
        self.clients.consumers.register(&registration, Millis(500), &mut Vec::new());
    }

    fn progress(&self, group: &str, wanted: Wanted<'_>) -> Vec<progress::Progress> {
        progress::progress(group, wanted, self.topics.directory(), &self.clients, &self.offsets)
    }

    fn consume_stats(&self, wanted: Wanted<'_>) -> String {
        let progress = self.progress("g", wanted);
        text(progress::consume_stats("broker-a", &self.running.store, &self.statistics, &progress))
    }
}

fn connection(id: u64) -> Connection {
    let peer = "10.0.0.9:55555".parse().unwrap();
    Connection { id: ConnectionId(id), peer, language: Language::Java, version: 479 }
}

fn text(answer: Answer) -> String {
    String::from_utf8(answer.unwrap().body).unwrap()
}

fn refusal(answer: Answer) -> (i32, String) {
    let error = answer.unwrap_err();
    (error.code(), error.to_string())
}

const QUEUE_0: &str = r#"{"brokerName":"broker-a","queueId":0,"topic":"T"}"#;
const QUEUE_1: &str = r#"{"brokerName":"broker-a","queueId":1,"topic":"T"}"#;

#[tokio::test]
async fn a_topics_statistics_list_every_queue() {
    let broker = broker().await;
    broker.statistics.topic("T").puts.add(50);
    broker.statistics.on_tick(Millis(10_000), 1);
    let stats = |topic| {
        let view = broker.topics.get(topic).map(|view| &**view);
        topics::topic_stats("broker-a", topic, view, &broker.running.store, &broker.statistics)
    };
    let expected = format!(
        r#"{{"offsetTable":{{{QUEUE_0}:{{"lastUpdateTimestamp":{},"maxOffset":5,"minOffset":0}},{QUEUE_1}:{{"lastUpdateTimestamp":0,"maxOffset":0,"minOffset":0}}}},"topicPutTps":5.0}}"#,
        START + 5_000
    );
    assert_eq!(text(stats("T")), expected);
    assert_eq!(refusal(stats("U")), (response::TOPIC_NOT_EXIST, "topic[U] not exist".into()));
}

#[tokio::test]
async fn consume_stats_say_how_far_a_group_is() {
    let broker = broker().await;
    broker.statistics.group("T", "g").gets.add(20);
    broker.statistics.on_tick(Millis(10_000), 1);
    let expected = format!(
        r#"{{"consumeTps":2.0,"offsetTable":{{{QUEUE_0}:{{"brokerOffset":5,"consumerOffset":3,"lastTimestamp":{},"pullOffset":4}},{QUEUE_1}:{{"brokerOffset":0,"consumerOffset":0,"lastTimestamp":0,"pullOffset":0}}}}}}"#,
        START + 3_000
    );
    for wanted in [Wanted::All, Wanted::Topic("T"), Wanted::List("Gone;T;")] {
        assert_eq!(broker.consume_stats(wanted), expected, "{wanted:?}");
    }
    let nothing = r#"{"consumeTps":0.0,"offsetTable":{}}"#;
    assert_eq!(broker.consume_stats(Wanted::Topic("Gone")), nothing);
    let read: ConsumeStats = from_slice(expected.as_bytes()).unwrap();
    assert_eq!((read.total_diff(), read.total_inflight_diff()), (2, 1));
}

#[tokio::test]
async fn topics_that_nobody_subscribes_to_any_more_are_left_out() {
    let mut broker = broker().await;
    broker.join("g", &[("Ordered", "*")]);
    assert_eq!(broker.consume_stats(Wanted::All), r#"{"consumeTps":0.0,"offsetTable":{}}"#);
    broker.join("g", &[("Ordered", "*"), ("T", "*")]);
    assert!(broker.consume_stats(Wanted::All).contains(QUEUE_0));
}

#[test]
fn what_the_fields_ask_for() {
    for (topic, list, wanted) in [
        (None, None, Wanted::All),
        (Some(""), Some(" "), Wanted::All),
        (Some("T"), Some("U"), Wanted::Topic("T")),
        (None, Some("T;U"), Wanted::List("T;U")),
    ] {
        assert_eq!(Wanted::of(topic, list), wanted);
    }
}

#[tokio::test]
async fn the_whole_brokers_groups() {
    let broker = broker().await;
    let all = broker.progress("g", Wanted::All);
    let stats = |ordered_only| {
        let (store, statistics) = (&broker.running.store, &broker.statistics);
        text(progress::broker_consume_stats("broker-a", "a:1", store, statistics, &all, ordered_only))
    };
    let body: Value = serde_json::from_str(&stats(true)).unwrap();
    assert_eq!(body["consumeStatsList"], Value::Array(Vec::new()), "T is not ordered");
    let body = stats(false);
    assert!(body.starts_with(r#"{"brokerAddr":"a:1","consumeStatsList":[{"g":[{"consumeTps":0.0,"#), "{body}");
    assert!(body.ends_with(r#""totalDiff":2,"totalInflightDiff":1}"#), "{body}");
}

#[tokio::test]
async fn time_spans_of_a_group() {
    let broker = broker().await;
    let progress = broker.progress("g", Wanted::Topic("T"));
    let body = text(progress::consume_time_span("broker-a", &broker.running.store, &progress[0], WALL));
    let body: Value = serde_json::from_str(&body).unwrap();
    let times = |queue: usize| {
        let span = &body["consumeTimeSpanSet"][queue];
        ["minTimeStamp", "maxTimeStamp", "consumeTimeStamp", "delayTime"].map(|name| span[name].as_i64().unwrap())
    };
    assert_eq!(times(0), [START + 1_000, START + 5_000, START + 3_000, 56_000]);
    assert_eq!(times(1), [-1, -1, -1, 0], "an empty queue");
}

#[tokio::test]
async fn connections_of_groups() {
    let mut broker = broker().await;
    let refused = (response::CONSUMER_NOT_ONLINE, "the consumer group[g] not online".to_owned());
    assert_eq!(refusal(clients::consumer_connections("g", &broker.clients)), refused);
    broker.join("g", &[("T", "TagA")]);
    let body = text(clients::consumer_connections("g", &broker.clients));
    let connections = r#"{"connectionSet":[{"clientAddr":"10.0.0.9:55555","clientId":"client-1","language":"JAVA","version":479}],"consumeFromWhere":""#;
    assert!(body.starts_with(connections), "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["subscriptionTable"]["T"]["tagsSet"], serde_json::json!(["TagA"]));
    for name in ["consumeType", "messageModel"] {
        assert!(body[name].is_string(), "{name}");
    }

    let refused = (response::SYSTEM_ERROR, "the producer group[p] not exist".to_owned());
    assert_eq!(refusal(clients::producer_connections("p", &broker.clients)), refused);
    broker.clients.producers.register("p", "client-2", connection(8), Millis(1_000));
    let body = text(clients::producer_connections("p", &broker.clients));
    assert!(body.contains(r#""clientId":"client-2""#), "{body}");
    let body = text(clients::all_producers(&broker.clients, Millis(3_000), WALL));
    let expected = format!(
        r#"{{"data":{{"p":[{{"clientId":"client-2","language":"JAVA","lastUpdateTimestamp":{},"remoteIP":"10.0.0.9","version":479}}]}}}}"#,
        WALL.0 - 2_000
    );
    assert_eq!(body, expected);
}

#[tokio::test]
async fn who_consumes_what() {
    let mut broker = broker().await;
    broker.join("online", &[("T", "*")]);
    broker.clients.pull_subscriptions.note("puller", "T", (ExpressionType::Tag, "TagB", 1), Millis(0));
    let body = text(topics::groups_of_topic("T", &broker.clients, &broker.offsets));
    assert_eq!(body, r#"{"groupList":["g","online","puller"]}"#);
    let body = text(topics::topics_of_group("g", "a:1", &broker.offsets));
    assert_eq!(body, r#"{"brokerAddr":"a:1","topicList":["T"]}"#);
    for (group, expression) in [("online", Some("*")), ("puller", Some("TagB")), ("g", None)] {
        let body: Value = serde_json::from_str(&text(clients::subscription(group, "T", &broker.clients))).unwrap();
        assert_eq!(body["group"], group);
        assert_eq!(body["subscriptionData"]["subString"].as_str(), expression);
    }
}

#[tokio::test]
async fn system_topics_and_unused_ones() {
    let mut broker = broker().await;
    let body: Value = serde_json::from_str(&text(topics::system_topics(&broker.topics))).unwrap();
    let names: Vec<&str> = body["topicList"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(names.contains(&"C") && names.contains(&"broker-a") && names.contains(&"TBW102"), "{names:?}");
    assert!(!names.contains(&"T"), "{names:?}");
    broker.running.send("SCHEDULE_TOPIC_XXXX", 1, b"later").await.unwrap();
    broker.running.send("Unused", 0, b"left over").await.unwrap();
    let unused = topics::unused_topics(&broker.running.store.topics(), &broker.topics);
    assert_eq!(unused.iter().map(|topic| &**topic).collect::<Vec<_>>(), ["Unused"]);
}

#[tokio::test]
async fn offsets_beside_each_other() {
    let mut broker = broker().await;
    broker.offsets.commit("h", ("T", 0), 1, (Who::Other, None), Millis(0), &mut Vec::new());
    broker.offsets.commit("h", ("T", 1), 0, (Who::Other, None), Millis(0), &mut Vec::new());
    let correction = |compare, filter| {
        text(offsets::correction_offsets("T", compare, filter, &broker.offsets, &broker.running.store))
    };
    assert_eq!(correction("g", "x"), r#"{"correctionOffsets":{"0":1,"1":0}}"#);
    assert_eq!(correction("h", "h"), format!(r#"{{"correctionOffsets":{{"0":{max},"1":{max}}}}}"#, max = i64::MAX));
}

#[tokio::test]
async fn a_group_goes_on_where_another_is() {
    let mut broker = broker().await;
    broker.join("g", &[("Ordered", "*")]);
    let mut clone = |topic, offline| {
        let tables = (&**broker.topics.directory(), &broker.clients);
        offsets::clone_offsets("g", "copy", (topic, offline), tables, &mut broker.offsets, &mut Vec::new())
    };
    assert_eq!(clone(Some("T"), false), 0, "g does not subscribe to T any more");
    assert_eq!(clone(Some("Gone"), true), 0);
    assert_eq!(clone(None, true), 1, "all topics if none is named");
    assert_eq!(broker.offsets.committed_offset("copy", "T", 0), Some(3));
}

#[tokio::test]
async fn entries_of_a_queue() {
    let mut broker = broker().await;
    broker.join("g", &[("T", "TagA")]);
    let query = EntryQuery { topic: "T", queue_id: 0, index: 3, count: 10, group: Some("g") };
    let ask = |query: EntryQuery<'_>| {
        let subscription = asked_subscription(&query, &broker.clients);
        entries(&query, subscription, &broker.running.store).unwrap()
    };
    let body: Value = serde_json::from_slice(&ask(query).body).unwrap();
    assert_eq!((body["minQueueIndex"].as_i64(), body["maxQueueIndex"].as_i64()), (Some(0), Some(5)));
    let found = body["queueData"].as_array().unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(found[0]["tagsCode"].as_i64(), Some(i64::from(java_hash("TagA"))));
    assert_eq!(found[0]["eval"], true);
    assert!(found[1]["physicOffset"].as_i64() > found[0]["physicOffset"].as_i64());
    let body: Value = serde_json::from_slice(&ask(EntryQuery { count: 1, group: Some("h"), ..query }).body).unwrap();
    assert_eq!(body["queueData"].as_array().unwrap().len(), 1);
    assert_eq!(body["filterData"], "h@T is not online!");
    for (query, remark) in [
        (EntryQuery { queue_id: 9, ..query }, "9@T is not exist!"),
        (EntryQuery { queue_id: -1, ..query }, "-1@T is not exist!"),
        (EntryQuery { index: 5, ..query }, "Index 5 of 0@T is not exist!"),
        (EntryQuery { index: -1, ..query }, "Index -1 of 0@T is not exist!"),
    ] {
        let answer = ask(query);
        assert_eq!((answer.code, answer.remark.as_deref()), (response::SYSTEM_ERROR, Some(remark)));
    }
    assert_eq!(ask(EntryQuery { count: i32::MIN, ..query }).code, response::SUCCESS);
    assert_eq!(ask(EntryQuery { count: i32::MAX, ..query }).code, response::SUCCESS);
}

#[tokio::test]
async fn runtime_info_has_every_key_that_tools_read() {
    let broker = broker().await;
    broker.statistics.broker.puts.add(5);
    broker.statistics.on_tick(Millis(10_000), 1);
    let space = Some(Space { total: 200 << 30, available: 50 << 30 });
    let config = BrokerConfig::default();
    let copy = |name: &str, behind, behind_ms, in_sync| Copy { name: name.into(), behind, behind_ms, in_sync };
    let slaves = [copy("1", Some(1536), 2500, true), copy("2", None, 0, false)];
    let facts = RuntimeFacts {
        config: &config,
        started: Millis(START),
        wall: WALL,
        space: (space, space),
        delays: &[DelayProgress { level: 3, delivered: 7, max: 9 }],
        parked_pulls: 4,
        copies: Some(Copies { needed: 2, in_sync: 2, slaves: &slaves }),
        timer: TimerFacts { seconds_behind: 1, not_taken_in: 2, under_way: 3 },
    };
    let body = text(runtime_info(&facts, &broker.running.store, &broker.statistics));
    let KvTable { table } = from_slice(body.as_bytes()).unwrap();
    for key in "brokerVersionDesc putTps getTransferredTps getTransferedTps getTotalTps getFoundTps getMissTps \
        msgPutTotalYesterdayMorning msgPutTotalTodayMorning msgPutTotalTodayNow msgGetTotalYesterdayMorning \
        msgGetTotalTodayMorning msgGetTotalTodayNow sendThreadPoolQueueSize sendThreadPoolQueueHeadWaitTimeMills \
        pullThreadPoolQueueSize pullThreadPoolQueueHeadWaitTimeMills ackThreadPoolQueueSize \
        ackThreadPoolQueueHeadWaitTimeMills litePullThreadPoolQueueCapacity queryThreadPoolQueueSize \
        EndTransactionQueueSize pageCacheLockTimeMills earliestMessageTimeStamp commitLogDiskRatio \
        consumeQueueDiskRatio timerReadBehind timerOffsetBehind timerCongestNum timerEnqueueTps timerDequeueTps \
        brokerActive putMessageDistributeTime putLatency999 remainHowManyDataToFlush dispatchBehindBytes"
        .split_whitespace()
    {
        assert!(table.contains_key(key), "{key}");
    }
    for (key, value) in [
        ("brokerVersionDesc", "V5_3_3"),
        ("bootTimestamp", "1700000000000"),
        ("runtime", "[ 0 days, 0 hours, 1 minutes, 0 seconds ]"),
        ("putTps", "0.0 0.0 0.0"),
        ("msgPutTotalTodayNow", "5"),
        ("putMessageTimesTotal", "5"),
        ("commitLogDiskRatio", "0.75"),
        ("haNodesNeeded", "2"),
        ("haNodesInSync", "2"),
        ("haSlaveInSync_1", "true"),
        ("haSlaveLagBytes_1", "1536"),
        ("haSlaveLagSeconds_1", "2.5"),
        ("haSlaveInSync_2", "false"),
        ("haSlaveLagBytes_2", "-1"),
        ("commitLogDirCapacity", "Total : 200.0 GiB, Free : 50.0 GiB."),
        ("earliestMessageTimeStamp", "1700000001000"),
        ("scheduleMessageOffset_3", "7,9"),
        ("pullThreadPoolQueueSize", "4"),
    ] {
        assert_eq!(table[key], value, "{key}");
    }
}

#[test]
fn settings_and_single_statistics() {
    let answer =
        broker_config(&BrokerConfig::default(), &DataVersion { counter: 2, ..DataVersion::default() }).unwrap();
    assert_eq!(answer.ext, [("version".into(), r#"{"counter":2,"stateVersion":0,"timestamp":0}"#.to_owned())]);
    assert!(String::from_utf8(answer.body).unwrap().contains("brokerClusterName=DefaultCluster\n"));
    let statistics = Statistics::new(Millis(0), 10);
    let answer = stats_data("TOPIC_PUT_NUMS", "T", "C", &statistics).unwrap();
    let remark = answer.remark.as_deref();
    assert_eq!((answer.code, remark), (response::SYSTEM_ERROR, Some("The stats <TOPIC_PUT_NUMS> <T> not exist")));
    statistics.topic("T");
    let body = text(stats_data("TOPIC_PUT_NUMS", "T", "C", &statistics));
    let empty = r#"{"avgpt":0.0,"sum":0,"tps":0.0}"#;
    assert_eq!(body, format!(r#"{{"statsDay":{empty},"statsHour":{empty},"statsMinute":{empty}}}"#));
}
