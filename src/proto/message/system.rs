//! Topics and groups that are there without anybody creating them.

use super::names;
use crate::proto::body::permission::{INHERIT, READ, WRITE};

/// Template for topics created by the first send.
pub const AUTO_CREATE_TOPIC: &str = "TBW102";
/// Holds delayed messages, one queue per level.
pub const SCHEDULE_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";
/// Queues of [`SCHEDULE_TOPIC`] in its topic configuration.
pub const SCHEDULE_TOPIC_QUEUES: i32 = 18;
/// For measuring.
pub const BENCHMARK_TOPIC: &str = "BenchmarkTest";
/// Half messages.
pub const TRANS_HALF_TOPIC: &str = "RMQ_SYS_TRANS_HALF_TOPIC";
/// Marks of half messages that are done.
pub const TRANS_OP_HALF_TOPIC: &str = "RMQ_SYS_TRANS_OP_HALF_TOPIC";
/// Half messages whose producer never decided.
pub const TRANS_CHECK_MAX_TIME_TOPIC: &str = "TRANS_CHECK_MAX_TIME_TOPIC";
/// Traces of clients.
pub const TRACE_TOPIC: &str = "RMQ_SYS_TRACE_TOPIC";
/// Legacy of self tests.
pub const SELF_TEST_TOPIC: &str = "SELF_TEST_TOPIC";
/// News of offsets that were moved.
pub const OFFSET_MOVED_EVENT: &str = "OFFSET_MOVED_EVENT";
/// Legacy of pop.
pub const CHECKPOINT_TOPIC: &str = "CHECKPOINT_TOPIC";
/// Messages with a delay of their own.
pub const TIMER_TOPIC: &str = "rmq_sys_wheel_timer";
/// Begins every other topic of the system.
pub const SYSTEM_TOPIC_PREFIX: &str = "rmq_sys_";
/// Begins every other group of the system.
pub const SYSTEM_GROUP_PREFIX: &str = "CID_RMQ_SYS_";
/// The group that reads half and op messages.
pub const TRANS_CONSUMER_GROUP: &str = "CID_RMQ_SYS_TRANS";

const SYSTEM_TOPICS: [&str; 10] = [
    AUTO_CREATE_TOPIC,
    SCHEDULE_TOPIC,
    BENCHMARK_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRACE_TOPIC,
    SELF_TEST_TOPIC,
    OFFSET_MOVED_EVENT,
    CHECKPOINT_TOPIC,
];

const SYSTEM_GROUPS: [&str; 13] = [
    "DEFAULT_PRODUCER",
    "DEFAULT_CONSUMER",
    "TOOLS_CONSUMER",
    "SCHEDULE_CONSUMER",
    "FILTERSRV_CONSUMER",
    "__MONITOR_CONSUMER",
    "CLIENT_INNER_PRODUCER",
    "SELF_TEST_P_GROUP",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_ONSAPI_PULL",
];

/// Groups a broker has from its first start.
pub const BOOT_GROUPS: [&str; 8] = [
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    TRANS_CONSUMER_GROUP,
];

/// Topics that belong to the system whatever the names of cluster and brokers; those belong to it too, see
/// [`boot_topics`]. They cannot be created or deleted by admin requests.
pub fn is_system_topic(topic: &str) -> bool {
    SYSTEM_TOPICS.contains(&topic) || topic.starts_with(SYSTEM_TOPIC_PREFIX)
}

/// Topics that a client may not send to; the others of the system are open.
pub fn is_forbidden_to_send(topic: &str) -> bool {
    let forbidden = [
        SCHEDULE_TOPIC,
        TRANS_HALF_TOPIC,
        TRANS_OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_EVENT,
    ];
    forbidden.contains(&topic)
}

/// Groups that are usable without being created.
pub fn is_system_group(group: &str) -> bool {
    SYSTEM_GROUPS.contains(&group) || group.starts_with(SYSTEM_GROUP_PREFIX)
}

/// What a broker's boot topics depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootOptions<'a> {
    /// `brokerClusterName`.
    pub cluster: &'a str,
    /// `brokerName`.
    pub broker: &'a str,
    /// `autoCreateTopicEnable`.
    pub auto_create_topic: bool,
    /// `defaultTopicQueueNums`.
    pub default_topic_queues: i32,
    /// `clusterTopicEnable`.
    pub cluster_topic: bool,
    /// `brokerTopicEnable`.
    pub broker_topic: bool,
    /// `traceTopicEnable`.
    pub trace_topic: bool,
    /// `msgTraceTopicName`.
    pub trace_topic_name: &'a str,
    /// `timerWheelEnable`.
    pub timer: bool,
    /// `reviveQueueNum`.
    pub revive_queues: i32,
}

/// A topic that a broker makes at its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootTopic {
    /// Its name.
    pub name: String,
    /// Its read and write queues.
    pub queues: i32,
    /// Its permission bits.
    pub permission: i32,
}

/// The topics a broker makes at its start, if they are not there yet.
pub fn boot_topics(options: &BootOptions<'_>) -> Vec<BootTopic> {
    const READ_WRITE: i32 = READ | WRITE;
    let topic = |name: &str, queues, permission| BootTopic { name: name.to_owned(), queues, permission };
    let inherit_or_all = |open: bool| if open { INHERIT | READ_WRITE } else { INHERIT };
    let mut topics = vec![
        topic(SELF_TEST_TOPIC, 1, READ_WRITE),
        topic(BENCHMARK_TOPIC, 1024, READ_WRITE),
        topic(options.cluster, 16, inherit_or_all(options.cluster_topic)),
        topic(options.broker, 1, inherit_or_all(options.broker_topic)),
        topic(OFFSET_MOVED_EVENT, 1, READ_WRITE),
        topic(SCHEDULE_TOPIC, SCHEDULE_TOPIC_QUEUES, READ_WRITE),
        topic(&names::reply_topic(options.cluster), 1, READ_WRITE),
        topic(&format!("rmq_sys_REVIVE_LOG_{}", options.cluster), options.revive_queues, READ_WRITE),
        topic(&format!("rmq_sys_SYNC_BROKER_MEMBER_{}", options.broker), 1, INHERIT),
        topic(TRANS_HALF_TOPIC, 1, READ_WRITE),
        topic(TRANS_OP_HALF_TOPIC, 1, READ_WRITE),
    ];
    if options.auto_create_topic {
        topics.push(topic(AUTO_CREATE_TOPIC, options.default_topic_queues, INHERIT | READ_WRITE));
    }
    if options.trace_topic {
        topics.push(topic(options.trace_topic_name, 1, READ_WRITE));
    }
    if options.timer {
        topics.push(topic(TIMER_TOPIC, 1, READ_WRITE));
    }
    topics
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_the_system() {
        assert!(is_system_topic("TBW102") && is_system_topic("rmq_sys_anything"));
        assert!(!is_system_topic("TopicTest") && !is_system_topic("RMQ_SYS_other"));
        assert!(is_system_group("CID_RMQ_SYS_TRANS") && is_system_group("TOOLS_CONSUMER") && !is_system_group("cg"));
        assert!(BOOT_GROUPS.iter().all(|group| is_system_group(group)));
    }

    #[test]
    fn most_system_topics_take_messages() {
        assert!(!is_forbidden_to_send("TBW102") && !is_forbidden_to_send("rmq_sys_wheel_timer"));
        assert!(is_forbidden_to_send("SCHEDULE_TOPIC_XXXX") && is_forbidden_to_send("SELF_TEST_TOPIC"));
    }

    #[test]
    fn boot_topics_of_a_default_broker() {
        let options = BootOptions {
            cluster: "DefaultCluster",
            broker: "broker-a",
            auto_create_topic: true,
            default_topic_queues: 8,
            cluster_topic: true,
            broker_topic: true,
            trace_topic: false,
            trace_topic_name: TRACE_TOPIC,
            timer: true,
            revive_queues: 8,
        };
        let topics = boot_topics(&options);
        let of = |name: &str| topics.iter().find(|t| t.name == name).map(|t| (t.queues, t.permission));
        assert_eq!(of("TBW102"), Some((8, 7)));
        assert_eq!(of("DefaultCluster"), Some((16, 7)));
        assert_eq!(of("broker-a"), Some((1, 7)));
        assert_eq!(of("DefaultCluster_REPLY_TOPIC"), Some((1, 6)));
        assert_eq!(of("rmq_sys_SYNC_BROKER_MEMBER_broker-a"), Some((1, 1)));
        assert_eq!(of(TRACE_TOPIC), None);
    }
}
