//! Every request code with fields that are missing, of the wrong type, or out of any range, and with bodies that are
//! none: each request has an answer soon, one that cannot be read is refused with a reason, the connection lives, and
//! what comes next works.

use std::time::Duration;

use metaq::actors::nameserver::NameServerHandle;
use metaq::config::nameserver::NameServerSettings;
use metaq::env::real;
use metaq::proto::body::{from_slice, to_vec, HeartbeatData, LockBatchRequestBody, TopicConfig, TopicConfigList};
use metaq::proto::remoting::{request, response, Command};
use tempfile::TempDir;

use super::support::{Broker, Client};

/// A second is meant; a loaded machine that syncs a file meanwhile gets a few more.
const SOON: Duration = Duration::from_secs(10);

/// What a field may hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    Number,
    Truth,
}
use Kind::{Number, Text, Truth};

/// Name, kind, whether a request without it cannot be understood, and a value that is fine.
pub type Field = (&'static str, Kind, bool, &'static str);

const TOPIC: Field = ("topic", Text, true, "Orders");
const QUEUE: Field = ("queueId", Number, true, "0");
const GROUP: Field = ("consumerGroup", Text, true, "cg");

/// What a request of a code to a broker consists of; `None` if brokers do not know the code.
pub fn broker_request(code: i32) -> Option<(&'static [Field], Vec<u8>)> {
    const PULL: &[Field] = &[
        GROUP,
        TOPIC,
        QUEUE,
        ("queueOffset", Number, true, "0"),
        ("maxMsgNums", Number, true, "32"),
        ("sysFlag", Number, true, "4"),
        ("commitOffset", Number, false, "0"),
        ("suspendTimeoutMillis", Number, false, "0"),
        ("subscription", Text, false, "*"),
        ("subVersion", Number, false, "0"),
        ("expressionType", Text, false, "TAG"),
        ("maxMsgBytes", Number, false, "1000"),
    ];
    const SEND: &[Field] = &[
        ("producerGroup", Text, true, "pg"),
        TOPIC,
        ("defaultTopic", Text, true, "TBW102"),
        ("defaultTopicQueueNums", Number, true, "1"),
        QUEUE,
        ("sysFlag", Number, true, "0"),
        ("bornTimestamp", Number, true, "1"),
        ("flag", Number, true, "0"),
        ("properties", Text, false, ""),
        ("reconsumeTimes", Number, false, "0"),
        ("unitMode", Truth, false, "false"),
        ("maxReconsumeTimes", Number, false, "16"),
        ("batch", Truth, false, "false"),
    ];
    const SEND_SHORT: &[Field] = &[
        ("a", Text, true, "pg"),
        ("b", Text, true, "Orders"),
        ("c", Text, true, "TBW102"),
        ("d", Number, true, "1"),
        ("e", Number, true, "0"),
        ("f", Number, true, "0"),
        ("g", Number, true, "1"),
        ("h", Number, true, "0"),
        ("i", Text, false, ""),
        ("j", Number, false, "0"),
        ("k", Truth, false, "false"),
        ("l", Number, false, "16"),
        ("m", Truth, false, "false"),
    ];
    let fields: &'static [Field] = match code {
        request::SEND_MESSAGE | request::SEND_REPLY_MESSAGE => SEND,
        request::SEND_MESSAGE_V2 | request::SEND_BATCH_MESSAGE | request::SEND_REPLY_MESSAGE_V2 => SEND_SHORT,
        request::PULL_MESSAGE | request::LITE_PULL_MESSAGE => PULL,
        request::QUERY_MESSAGE => &[
            TOPIC,
            ("key", Text, true, "k"),
            ("maxNum", Number, true, "32"),
            ("beginTimestamp", Number, true, "0"),
            ("endTimestamp", Number, true, "9999999999999"),
        ],
        request::QUERY_CONSUMER_OFFSET => &[GROUP, TOPIC, QUEUE, ("setZeroIfNotFound", Truth, false, "true")],
        request::UPDATE_CONSUMER_OFFSET => &[GROUP, TOPIC, QUEUE, ("commitOffset", Number, true, "0")],
        request::UPDATE_AND_CREATE_TOPIC => &[
            TOPIC,
            ("defaultTopic", Text, false, "TBW102"),
            ("readQueueNums", Number, true, "1"),
            ("writeQueueNums", Number, true, "1"),
            ("perm", Number, true, "6"),
            ("topicFilterType", Text, false, "SINGLE_TAG"),
            ("topicSysFlag", Number, false, "0"),
            ("order", Truth, false, "false"),
            ("attributes", Text, false, ""),
        ],
        request::SEARCH_OFFSET_BY_TIMESTAMP => {
            &[TOPIC, QUEUE, ("timestamp", Number, true, "0"), ("boundaryType", Text, false, "LOWER")]
        }
        request::GET_MAX_OFFSET | request::GET_MIN_OFFSET | request::GET_EARLIEST_MSG_STORETIME => &[TOPIC, QUEUE],
        request::RECALL_MESSAGE => {
            &[("producerGroup", Text, false, "pg"), TOPIC, ("recallHandle", Text, true, "djEgVG9waWM=")]
        }
        request::VIEW_MESSAGE_BY_ID => &[("offset", Number, true, "0")],
        request::UNREGISTER_CLIENT => {
            &[("clientID", Text, true, "c"), ("producerGroup", Text, false, "pg"), ("consumerGroup", Text, false, "g")]
        }
        request::CONSUMER_SEND_MSG_BACK => &[
            ("offset", Number, true, "0"),
            ("group", Text, true, "cg"),
            ("delayLevel", Number, true, "3"),
            ("unitMode", Truth, false, "false"),
            ("maxReconsumeTimes", Number, false, "16"),
        ],
        request::END_TRANSACTION => &[
            ("producerGroup", Text, true, "pg"),
            ("tranStateTableOffset", Number, true, "0"),
            ("commitLogOffset", Number, true, "0"),
            ("commitOrRollback", Number, true, "8"),
            ("fromTransactionCheck", Truth, false, "false"),
            ("transactionId", Text, false, "K"),
        ],
        request::RESUME_CHECK_HALF_MESSAGE => &[("msgId", Text, true, "7F00000100002A9F0000000000000000")],
        request::GET_CONSUMER_LIST_BY_GROUP | request::GET_CONSUMER_CONNECTION_LIST => &[GROUP],
        request::GET_PRODUCER_CONNECTION_LIST => &[("producerGroup", Text, true, "pg")],
        request::GET_CONSUME_STATS => &[GROUP, ("topic", Text, false, "Orders"), ("topicList", Text, false, "Orders;")],
        request::GET_TOPIC_STATS_INFO
        | request::DELETE_TOPIC_IN_BROKER
        | request::GET_TOPIC_CONFIG
        | request::QUERY_TOPIC_CONSUME_BY_WHO => &[TOPIC],
        request::DELETE_SUBSCRIPTIONGROUP => {
            &[("groupName", Text, true, "gone"), ("cleanOffset", Truth, false, "true")]
        }
        request::INVOKE_BROKER_TO_RESET_OFFSET => &[
            TOPIC,
            ("group", Text, true, "cg"),
            ("timestamp", Number, true, "0"),
            ("isForce", Truth, false, "true"),
            ("queueId", Number, false, "-1"),
            ("offset", Number, false, "-1"),
        ],
        request::INVOKE_BROKER_TO_GET_CONSUMER_STATUS => {
            &[TOPIC, ("group", Text, true, "cg"), ("clientAddr", Text, false, "c")]
        }
        request::QUERY_CONSUME_TIME_SPAN => &[TOPIC, ("group", Text, true, "cg")],
        request::GET_CONSUMER_RUNNING_INFO => {
            &[GROUP, ("clientId", Text, true, "c"), ("jstackEnable", Truth, false, "false")]
        }
        request::CONSUME_MESSAGE_DIRECTLY => {
            &[GROUP, ("clientId", Text, false, "c"), ("msgId", Text, false, "0"), ("topic", Text, false, "Orders")]
        }
        request::QUERY_CORRECTION_OFFSET => {
            &[TOPIC, ("compareGroup", Text, true, "cg"), ("filterGroups", Text, false, "a,b")]
        }
        request::CLONE_GROUP_OFFSET => &[
            ("srcGroup", Text, true, "cg"),
            ("destGroup", Text, true, "clone"),
            ("topic", Text, false, "Orders"),
            ("offline", Truth, false, "true"),
        ],
        request::VIEW_BROKER_STATS_DATA => {
            &[("statsName", Text, true, "TOPIC_PUT_NUMS"), ("statsKey", Text, true, "Orders")]
        }
        request::GET_BROKER_CONSUME_STATS => &[("isOrder", Truth, false, "false")],
        request::QUERY_CONSUME_QUEUE => &[
            TOPIC,
            QUEUE,
            ("index", Number, true, "0"),
            ("count", Number, true, "10"),
            ("consumerGroup", Text, false, "cg"),
        ],
        request::QUERY_TOPICS_BY_CONSUMER | request::GET_SUBSCRIPTIONGROUP_CONFIG => &[("group", Text, true, "cg")],
        request::QUERY_SUBSCRIPTION_BY_CONSUMER => &[("group", Text, true, "cg"), ("topic", Text, false, "Orders")],
        request::UPDATE_AND_GET_GROUP_FORBIDDEN => {
            &[("group", Text, true, "cg"), TOPIC, ("readable", Truth, false, "true")]
        }
        request::EXCHANGE_BROKER_HA_INFO => {
            &[("masterHaAddress", Text, false, ""), ("masterFlushOffset", Number, false, "0")]
        }
        request::GET_TIMER_CHECK_POINT
        | request::GET_TIMER_METRICS
        | request::SET_MESSAGE_REQUEST_MODE
        | request::GET_ALL_MESSAGE_REQUEST_MODE => &[],
        request::UPDATE_AND_CREATE_TOPIC_LIST
        | request::GET_ALL_TOPIC_CONFIG
        | request::UPDATE_BROKER_CONFIG
        | request::GET_BROKER_CONFIG
        | request::GET_BROKER_RUNTIME_INFO
        | request::GET_BROKER_HA_STATUS
        | request::HEART_BEAT
        | request::LOCK_BATCH_MQ
        | request::UNLOCK_BATCH_MQ
        | request::GET_ALL_CONSUMER_OFFSET
        | request::GET_ALL_DELAY_OFFSET
        | request::CHECK_CLIENT_CONFIG
        | request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        | request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
        | request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        | request::GET_SYSTEM_TOPIC_LIST_FROM_BROKER
        | request::CLEAN_EXPIRED_CONSUMEQUEUE
        | request::CLEAN_UNUSED_TOPIC
        | request::DELETE_EXPIRED_COMMITLOG
        | request::GET_ALL_PRODUCER_INFO => &[],
        _ => return None,
    };
    Some((fields, broker_body(code)))
}

fn broker_body(code: i32) -> Vec<u8> {
    match code {
        request::UPDATE_AND_CREATE_TOPIC_LIST => {
            to_vec(&TopicConfigList { topic_config_list: vec![TopicConfig::new("Listed", 1, 6)] })
        }
        request::UPDATE_BROKER_CONFIG => b"traceOn=true\n".to_vec(),
        request::SET_MESSAGE_REQUEST_MODE => br#"{"topic":"Orders","consumerGroup":"cg","mode":"PULL"}"#.to_vec(),
        request::HEART_BEAT => to_vec(&HeartbeatData { client_id: "c".into(), ..HeartbeatData::default() }),
        request::LOCK_BATCH_MQ | request::UNLOCK_BATCH_MQ => to_vec(&LockBatchRequestBody::default()),
        request::CHECK_CLIENT_CONFIG => {
            br#"{"clientId":"c","group":"g","subscriptionData":{"topic":"Orders","subString":"*"}}"#.to_vec()
        }
        request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP => br#"{"groupName":"made"}"#.to_vec(),
        request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST => br#"{"groupConfigList":[]}"#.to_vec(),
        request::SEND_BATCH_MESSAGE => {
            [&31_u32.to_be_bytes()[..], &[0; 12], &4_u32.to_be_bytes(), b"body\0\x05K\x01v\x02."].concat()
        }
        request::SEND_MESSAGE
        | request::SEND_MESSAGE_V2
        | request::SEND_REPLY_MESSAGE
        | request::SEND_REPLY_MESSAGE_V2 => b"body".to_vec(),
        _ => Vec::new(),
    }
}

/// The codes whose body is JSON: one that is none has to be refused.
fn has_json_body(code: i32) -> bool {
    matches!(
        code,
        request::UPDATE_AND_CREATE_TOPIC_LIST
            | request::HEART_BEAT
            | request::LOCK_BATCH_MQ
            | request::UNLOCK_BATCH_MQ
            | request::CHECK_CLIENT_CONFIG
            | request::SET_MESSAGE_REQUEST_MODE
            | request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
            | request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
            | request::QUERY_DATA_VERSION
            | request::REGISTER_TOPIC_IN_NAMESRV
    )
}

/// What a request of a code to a NameServer consists of.
fn nameserver_request(code: i32) -> Option<(&'static [Field], Vec<u8>)> {
    const BROKER: Field = ("brokerName", Text, true, "b");
    const ADDRESS: Field = ("brokerAddr", Text, true, "127.0.0.1:1");
    const CLUSTER: Field = ("clusterName", Text, true, "C");
    const ID: Field = ("brokerId", Number, true, "0");
    const NAMESPACE: Field = ("namespace", Text, true, "n");
    const KEY: Field = ("key", Text, true, "k");
    let fields: &'static [Field] = match code {
        request::PUT_KV_CONFIG => &[NAMESPACE, KEY, ("value", Text, true, "v")],
        request::GET_KV_CONFIG | request::DELETE_KV_CONFIG => &[NAMESPACE, KEY],
        request::REGISTER_BROKER => &[
            BROKER,
            ADDRESS,
            CLUSTER,
            ("haServerAddr", Text, true, "127.0.0.1:2"),
            ID,
            ("compressed", Truth, false, "false"),
            ("bodyCrc32", Number, false, "0"),
            ("heartbeatTimeoutMillis", Number, false, "1000"),
        ],
        request::UNREGISTER_BROKER => &[BROKER, ADDRESS, CLUSTER, ID],
        request::GET_ROUTEINFO_BY_TOPIC | request::DELETE_TOPIC_IN_NAMESRV => &[TOPIC],
        request::REGISTER_TOPIC_IN_NAMESRV => &[TOPIC],
        request::WIPE_WRITE_PERM_OF_BROKER | request::ADD_WRITE_PERM_OF_BROKER => &[BROKER],
        request::GET_KVLIST_BY_NAMESPACE => &[NAMESPACE],
        request::GET_TOPICS_BY_CLUSTER => &[("cluster", Text, true, "C")],
        request::QUERY_DATA_VERSION => &[BROKER, ADDRESS, CLUSTER, ID],
        request::GET_BROKER_MEMBER_GROUP => &[CLUSTER, BROKER],
        request::BROKER_HEARTBEAT => &[CLUSTER, BROKER, ADDRESS],
        request::GET_BROKER_CLUSTER_INFO
        | request::GET_ALL_TOPIC_LIST_FROM_NAMESERVER
        | request::GET_SYSTEM_TOPIC_LIST_FROM_NS
        | request::GET_UNIT_TOPIC_LIST
        | request::GET_HAS_UNIT_SUB_TOPIC_LIST
        | request::GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST
        | request::UPDATE_NAMESRV_CONFIG
        | request::GET_NAMESRV_CONFIG => &[],
        _ => return None,
    };
    let body: &[u8] = match code {
        request::REGISTER_BROKER | request::REGISTER_TOPIC_IN_NAMESRV => b"{}",
        request::QUERY_DATA_VERSION => br#"{"counter":1,"stateVersion":0,"timestamp":1}"#,
        _ => b"",
    };
    Some((fields, body.to_vec()))
}

fn with(code: i32, fields: &[Field], changed: &str, value: Option<&str>, body: &[u8]) -> Command {
    let mut command = Command::request(code).with_body(body);
    for (name, _, _, valid) in fields {
        let value = if *name == changed { value } else { Some(*valid) };
        command.ext.extend(value.map(|value| (*name, value)));
    }
    command
}

/// One connection, and what was wrong with the answers over it.
struct Walk {
    client: Client,
    findings: Vec<String>,
}

impl Walk {
    /// Asks; the answer has to come in time, and to say what is wrong if something is. Gives its code.
    async fn ask(&mut self, command: Command, what: &str) -> Option<i32> {
        let code = command.code;
        match self.client.handle.call(&*self.client.env.clock, command, SOON).await {
            Ok(answer) => {
                let says = answer.remark.as_deref().is_some_and(|remark| !remark.is_empty());
                if answer.code != response::SUCCESS && !says {
                    self.findings.push(format!("{code} with {what}: code {} says nothing", answer.code));
                }
                Some(answer.code)
            }
            Err(error) => {
                self.findings.push(format!("{code} with {what}: {error}"));
                None
            }
        }
    }

    async fn refused(&mut self, command: Command, what: &str) {
        let code = command.code;
        if self.ask(command, what).await == Some(response::SUCCESS) {
            self.findings.push(format!("{code} with {what} was taken"));
        }
    }

    async fn unknown(&mut self, code: i32) {
        let answer = self.ask(with(code, &[TOPIC, QUEUE, GROUP], "", None, b"{}"), "anything").await;
        if answer != Some(response::REQUEST_CODE_NOT_SUPPORTED) {
            self.findings.push(format!("{code} is unknown and answered {answer:?}"));
        }
    }

    /// All that can be wrong with a request of one code.
    async fn all(&mut self, code: i32, fields: &[Field], body: &[u8]) {
        for (name, kind, required, _) in fields {
            let missing = with(code, fields, name, None, body);
            match required {
                true => self.refused(missing, &format!("no {name}")).await,
                false => drop(self.ask(missing, &format!("no {name}")).await),
            }
            if *kind == Number {
                for value in ["abc", "1.5", " 1", "99999999999999999999"] {
                    self.refused(with(code, fields, name, Some(value), body), &format!("{name}={value}")).await;
                }
            }
            for value in odd_values() {
                let shown: String = value.chars().take(40).collect();
                self.ask(with(code, fields, name, Some(&value), body), &format!("{name}={shown}")).await;
            }
        }
        for odd in odd_bodies() {
            let shown = format!("body {:?}", String::from_utf8_lossy(&odd[..odd.len().min(20)]));
            let command = with(code, fields, "", None, &odd);
            let is_json = from_slice::<serde_json::Value>(&odd).is_ok_and(|value| value.is_object());
            match has_json_body(code) && !is_json {
                true => self.refused(command, &shown).await,
                false => drop(self.ask(command, &shown).await),
            }
        }
    }
}

/// Values of no use in most fields.
fn odd_values() -> Vec<String> {
    let mut values: Vec<String> =
        ["", " ", "-1", "-2", "7", "99999", "2147483647", "-2147483648", "9223372036854775807"]
            .into_iter()
            .map(str::to_owned)
            .collect();
    let names =
        ["-9223372036854775808", "a b", "../../x", "/", "\u{0}\u{1}\u{2}", "ü中", "%RETRY%", "%DLQ%x", "unknown"];
    values.extend(names.map(str::to_owned));
    values.extend(["SCHEDULE_TOPIC_XXXX".to_owned(), "x".repeat(70_000)]);
    values
}

fn odd_bodies() -> Vec<Vec<u8>> {
    let texts =
        ["{", "[]", "null", "1", "\"x\"", "{\"a\":", "{\"clientID\":{}}", "{\"mqSet\":[{\"queueId\":-1}]}", "=", "\\"];
    let mut bodies: Vec<Vec<u8>> = texts.map(|text| text.as_bytes().to_vec()).to_vec();
    bodies.extend([vec![0; 64], vec![0xFF; 64], vec![b'['; 100_000], "{\"a\":".repeat(50_000).into_bytes()]);
    bodies
}

fn codes() -> impl Iterator<Item = i32> {
    (0..=200_200).filter(|code| request::name(*code).is_some())
}

#[tokio::test]
async fn every_request_to_a_broker_with_bad_input_is_answered() {
    let broker = Broker::start("").await;
    let mut walk = Walk { client: broker.client().await, findings: Vec::new() };
    for code in codes() {
        walk.client.send("Orders", "before", &[]).await;
        match broker_request(code) {
            Some((fields, body)) => walk.all(code, fields, &body).await,
            None => walk.unknown(code).await,
        }
        assert!(!walk.client.handle.is_closed(), "{code} closed the connection");
    }
    assert!(walk.findings.is_empty(), "{}", walk.findings.join("\n"));
    assert_eq!(broker.client().await.wait_messages("cg", "Orders", 0).await[0].body, "before");
    let restarted = broker.restarted().await;
    restarted.client().await.send("Orders", "after", &[]).await;
}

#[tokio::test]
async fn every_request_to_a_nameserver_with_bad_input_is_answered() {
    let (env, directory) = (real::env(), TempDir::new().unwrap());
    let any_port = "127.0.0.1:0".parse().unwrap();
    let nameserver =
        NameServerHandle::start(&env, NameServerSettings::default(), any_port, directory.path()).await.unwrap();
    let mut walk = Walk { client: Client::connect(&env, nameserver.address()).await, findings: Vec::new() };
    for code in codes() {
        match nameserver_request(code) {
            Some((fields, body)) => walk.all(code, fields, &body).await,
            None => walk.unknown(code).await,
        }
        walk.client.get(Command::request(request::GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).await;
    }
    assert!(walk.findings.is_empty(), "{}", walk.findings.join("\n"));
    nameserver.stop().await;
}
