//! Every refusal of the broker, with the code and the remark clients get.
//!
//! The texts are those of a RocketMQ 5.3.2 broker, which users search for; so they do not follow the house style. Where
//! RocketMQ has none, because it does not refuse, the text is ours.

use crate::proto::filter::FilterError;
use crate::proto::message::names::NameError;
use crate::proto::remoting::codes::response as code;

use super::transaction::Decision;

const FAQ: &str = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.";

/// Why a request is refused. Its `Display` is the remark.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant's remark says what it is, its fields are the values in the remark")]
pub enum BrokerError {
    // Sending.
    #[error("{}", .0.remark())]
    Name(NameError),
    #[error("Sending message to topic[{topic}] is forbidden.")]
    TopicForbidden { topic: String },
    #[error("topic[{topic}] not exist, apply first please!{faq}", faq = FAQ)]
    TopicNotExist { topic: String },
    #[error("request queueId[{queue_id}] is illegal, {config} Producer: {peer}")]
    SendQueueId { queue_id: i32, config: String, peer: String },
    #[error("the broker[{address}] sending message is forbidden")]
    BrokerNotWritable { address: String },
    #[error("the topic[{topic}] sending message is forbidden")]
    TopicNotWritable { topic: String },
    #[error(
        "the message is illegal, maybe msg body or properties length not matched. msg body length limit \
         {body_bytes_max}B, msg properties length limit 32KB."
    )]
    MessageIllegal { body_bytes_max: u32 },
    #[error("batch request does not support retry group {topic}")]
    BatchToRetryTopic { topic: String },
    #[error("the batch body cannot be read: {what}")]
    BatchBody { what: String },
    #[error("the broker[{address}] sending transaction message is forbidden")]
    TransactionForbidden { address: String },
    #[error("accurate timer message is not enabled, timerWheelEnable is false")]
    TimerNotEnabled,
    #[error(
        "timer message illegal, the delay time should not be bigger than the max delay {delay_ms_max}ms; or if set del \
         msg, the delay time should be bigger than the current time"
    )]
    TimerIllegal { delay_ms_max: i64 },
    #[error("too many messages are taken back in this second, at most {limit}")]
    TimerRecallsFull { limit: u32 },
    #[error("recall failed, operation is forbidden")]
    RecallDisabled,
    #[error("recall failed, broker service not available")]
    RecallOnSlave,
    #[error("broker unable to service, until {until_ms}")]
    RecallTooEarly { until_ms: i64 },
    #[error("recall failed, the topic[{topic}] not exist")]
    RecallTopicNotExist { topic: String },
    #[error("{what}")]
    RecallIllegal { what: &'static str },
    #[error("subscription group not exist, {group} {faq}", faq = FAQ)]
    SendGroupNotExist { group: String },
    #[error("[REJECTREQUEST]system busy, start flow control for a while")]
    Rejected,
    #[error("[OVERLOAD]system busy, start flow control for a while")]
    Overload,
    #[error("broker unable to service, until {until_ms}")]
    NotAcceptingYet { until_ms: i64 },
    #[error(
        "service not available now. It may be caused by one of the following reasons: the broker's disk is full \
         [{disk}], messages are put to the slave, message store has been shut down, etc."
    )]
    ServiceNotAvailable { disk: String },
    #[error("store failed: {what}")]
    StoreFailed { what: String },

    // Ending transactions.
    #[error("Find prepared transaction message failed")]
    NoHalfMessage,
    #[error("The producer group wrong")]
    HalfOfOtherGroup,
    #[error("The transaction state table offset wrong")]
    HalfOffset,
    #[error("the transaction is not {asked}: its id is another one")]
    HalfOfOtherTransaction { asked: String },
    #[error("the transaction {id} has been {decision}: the first decision stands")]
    TransactionEnded { id: String, decision: Decision },
    #[error("the transaction {id} has ended before: the first decision stands")]
    TransactionEndedBefore { id: String },
    #[error("the immunity time of transaction {id} is over: its producer decides when it is asked")]
    TransactionImmune { id: String },
    #[error("the half message names no topic and queue")]
    HalfWithoutDestination,
    #[error("the transaction of the half message is open, or it has none")]
    NothingToResume,
    #[error("the broker is a slave: its master decides about transactions")]
    TransactionOnSlave,

    // Pulling.
    #[error("the broker[{address}] pulling message is forbidden")]
    BrokerNotReadable { address: String },
    #[error("the broker[{address}] for lite pull consumer is forbidden")]
    LitePullForbidden { address: String },
    #[error("subscription group [{group}] does not exist, {faq}", faq = FAQ)]
    PullGroupNotExist { group: String },
    #[error("subscription group no permission, {group}")]
    GroupDisabled { group: String },
    #[error("topic[{topic}] not exist, apply first please! {faq}", faq = FAQ)]
    PullTopicNotExist { topic: String },
    #[error("the topic[{topic}] pulling message is forbidden")]
    TopicNotReadable { topic: String },
    #[error(
        "queueId[{queue_id}] is illegal, topic:[{topic}] topicConfig.readQueueNums:[{read_queues}] consumer:[/{peer}]"
    )]
    PullQueueId { queue_id: i32, topic: String, read_queues: i32, peer: String },
    #[error("parse the consumer's subscription failed, {0}")]
    Expression(FilterError),
    #[error("the consumer's group info not exist{faq}", faq = FAQ)]
    GroupNotRegistered,
    #[error("the consumer's subscription not exist{faq}", faq = FAQ)]
    SubscriptionMissing,
    #[error("the consumer group[{group}] can not consume by broadcast way")]
    BroadcastForbidden { group: String },
    #[error("the consumer group[{group}] is forbidden for topic[{topic}]")]
    GroupTopicForbidden { group: String, topic: String },
    #[error("the consumer's subscription not latest")]
    SubscriptionNotLatest,
    #[error("The broker does not support consumer to filter message by SQL92")]
    Sql92Disabled,
    #[error("offset[{offset}] is before the first one of this slave, {min}, and the master is away")]
    NotOnThisSlave { offset: i64, min: i64 },

    // On a slave.
    #[error("this broker is a slave: {what} its master's, change them there")]
    ChangeOnSlave { what: &'static str },
    #[error("this broker is not the master")]
    NotAMaster,
    #[error("this slave has not heard from its master yet, ask again later")]
    NotSyncedYet,

    // Handing back.
    #[error("look message by offset failed, {offset}")]
    NoRecord { offset: i64 },
    #[error("the topic[{topic}] is not writable")]
    RetryTopicNotWritable { topic: String },

    // Offsets.
    #[error("Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")]
    OffsetNotFound,
    #[error("Not found, do not set to zero, maybe this group boot first")]
    OffsetNotFoundNotZero,
    #[error("Group {group} not exist!")]
    CommitGroupNotExist { group: String },
    #[error("Topic {topic} not exist!")]
    CommitTopicNotExist { topic: String },
    #[error("Offset is null, topic is {topic}")]
    CommitOffsetMissing { topic: String },
    #[error("offset[{offset}] of topic[{topic}] queueId[{queue_id}] is illegal, it can be -1 to {max}")]
    CommitOffset { topic: String, queue_id: i32, offset: i64, max: i64 },
    #[error("queueId[{queue_id}] of topic[{topic}] is locked by {holder}: only its commits count, use a reset")]
    CommitLocked { topic: String, queue_id: i32, holder: String },
    #[error("queueId[{queue_id}] is illegal, topic[{topic}] has {queues} queues")]
    QueueId { topic: String, queue_id: i32, queues: i32 },
    #[error("Topic {topic} does not exist")]
    ResetTopicNotExist { topic: String },
    #[error("Group {group} does not exist")]
    ResetGroupNotExist { group: String },
    #[error("Target offset {offset} not in consume queue range [{min}-{max}]")]
    ResetOffsetOutOfRange { offset: i64, min: i64, max: i64 },
    #[error("Can not reset offset in slave broker")]
    ResetOnSlave,
    #[error("Consumer not online, so can not reset offset, Group: {group} Topic: {topic} Timestamp: {timestamp}")]
    ResetNotOnline { group: String, topic: String, timestamp: i64 },
    #[error("THe consumer group <{group}> not exist")]
    ResetGroupWithoutOffsets { group: String },

    // Clients.
    #[error("no consumer for this group, {group}")]
    NoConsumer { group: String },
    #[error("the consumer group[{group}] not online")]
    ConsumerNotOnline { group: String },
    #[error("the producer group[{group}] not exist")]
    NoProducer { group: String },
    #[error("The Consumer <{group}> <{client}> not online")]
    ClientNotOnline { group: String, client: String },
    #[error("consumer <{group}> <{client}> Timeout: {timeout_ms}ms")]
    ClientTimeout { group: String, client: String, timeout_ms: u64 },
    #[error("The Consumer <{client}> Version <{version}> too low to finish, please upgrade it to V3_1_8_SNAPSHOT")]
    ClientTooOld { client: String, version: String },
    #[error("{what}")]
    ClientConfig { what: String },

    // Topics, groups, settings.
    #[error("The topic[{topic}] is conflict with system topic.")]
    SystemTopic { topic: String },
    #[error("topic[{topic}] not exist")]
    StatsTopicNotExist { topic: String },
    #[error("No topic in this broker. topic: {topic}")]
    TopicConfigMissing { topic: String },
    #[error("{what}")]
    TopicConfig { what: String },
    #[error("the group[{group}] not exist")]
    GroupConfigMissing { group: String },
    #[error("{what}")]
    GroupConfig { what: String },
    #[error("Can not update config in black list.")]
    ProtectedKey,
    #[error("{what}")]
    Setting { what: String },
    #[error("too many {what}: {setting} is {limit}")]
    TableFull { what: &'static str, setting: &'static str, limit: usize },

    // Messages.
    #[error("can not find message, maybe time range not correct")]
    NoMessageByKey,
    #[error("can not find message by the offset, {offset}")]
    NoMessageAtOffset { offset: i64 },
}

impl BrokerError {
    /// RocketMQ's response code.
    pub fn code(&self) -> i32 {
        use BrokerError::*;
        match self {
            Name(_)
            | SendQueueId { .. }
            | PullQueueId { .. }
            | CommitOffsetMissing { .. }
            | CommitOffset { .. }
            | QueueId { .. }
            | SystemTopic { .. } => code::INVALID_PARAMETER,
            TopicForbidden { .. }
            | BrokerNotWritable { .. }
            | TopicNotWritable { .. }
            | TransactionForbidden { .. }
            | BrokerNotReadable { .. }
            | LitePullForbidden { .. }
            | GroupDisabled { .. }
            | TopicNotReadable { .. }
            | BroadcastForbidden { .. }
            | GroupTopicForbidden { .. }
            | RetryTopicNotWritable { .. }
            | RecallDisabled
            | ProtectedKey => code::NO_PERMISSION,
            TopicNotExist { .. }
            | PullTopicNotExist { .. }
            | CommitTopicNotExist { .. }
            | ResetTopicNotExist { .. }
            | StatsTopicNotExist { .. }
            | RecallTopicNotExist { .. }
            | TopicConfigMissing { .. } => code::TOPIC_NOT_EXIST,
            SendGroupNotExist { .. }
            | PullGroupNotExist { .. }
            | CommitGroupNotExist { .. }
            | ResetGroupNotExist { .. }
            | GroupConfigMissing { .. } => code::SUBSCRIPTION_GROUP_NOT_EXIST,
            MessageIllegal { .. } | TimerIllegal { .. } | BatchToRetryTopic { .. } | BatchBody { .. } => {
                code::MESSAGE_ILLEGAL
            }
            Rejected | Overload | TableFull { .. } | NotOnThisSlave { .. } | NotSyncedYet => code::SYSTEM_BUSY,
            TransactionEnded { .. }
            | TransactionEndedBefore { .. }
            | TransactionImmune { .. }
            | RecallIllegal { .. } => code::ILLEGAL_OPERATION,
            TransactionOnSlave | RecallOnSlave => code::SLAVE_NOT_AVAILABLE,
            ServiceNotAvailable { .. } | RecallTooEarly { .. } => code::SERVICE_NOT_AVAILABLE,
            Expression(_) => code::SUBSCRIPTION_PARSE_FAILED,
            GroupNotRegistered | SubscriptionMissing => code::SUBSCRIPTION_NOT_EXIST,
            SubscriptionNotLatest => code::SUBSCRIPTION_NOT_LATEST,
            OffsetNotFound | OffsetNotFoundNotZero | NoMessageByKey => code::QUERY_NOT_FOUND,
            ResetNotOnline { .. } | ConsumerNotOnline { .. } => code::CONSUMER_NOT_ONLINE,
            ClientTimeout { .. } => code::CONSUME_MSG_TIMEOUT,
            NoHalfMessage
            | HalfOfOtherGroup
            | HalfOffset
            | HalfOfOtherTransaction { .. }
            | HalfWithoutDestination
            | NothingToResume
            | TimerNotEnabled
            | TimerRecallsFull { .. }
            | NotAcceptingYet { .. }
            | StoreFailed { .. }
            | Sql92Disabled
            | NoRecord { .. }
            | CommitLocked { .. }
            | ResetOffsetOutOfRange { .. }
            | ResetOnSlave
            | ChangeOnSlave { .. }
            | NotAMaster
            | ResetGroupWithoutOffsets { .. }
            | NoConsumer { .. }
            | NoProducer { .. }
            | ClientNotOnline { .. }
            | ClientTooOld { .. }
            | ClientConfig { .. }
            | TopicConfig { .. }
            | GroupConfig { .. }
            | Setting { .. }
            | NoMessageAtOffset { .. } => code::SYSTEM_ERROR,
        }
    }

    /// The ext field `forbiddenType` of a refused pull.
    pub fn forbidden_type(&self) -> Option<i32> {
        match self {
            BrokerError::BrokerNotReadable { .. } | BrokerError::LitePullForbidden { .. } => Some(1),
            BrokerError::GroupDisabled { .. } => Some(2),
            BrokerError::TopicNotReadable { .. } => Some(3),
            BrokerError::BroadcastForbidden { .. } => Some(4),
            BrokerError::GroupTopicForbidden { .. } => Some(5),
            _ => None,
        }
    }
}

impl From<NameError> for BrokerError {
    fn from(error: NameError) -> BrokerError {
        BrokerError::Name(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_are_rocketmqs() {
        let topic = || "t".to_owned();
        let faq = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.";
        for (error, code, remark) in [
            (
                BrokerError::TopicNotExist { topic: topic() },
                17,
                format!("topic[t] not exist, apply first please!{faq}"),
            ),
            (
                BrokerError::PullTopicNotExist { topic: topic() },
                17,
                format!("topic[t] not exist, apply first please! {faq}"),
            ),
            (
                BrokerError::TopicForbidden { topic: topic() },
                16,
                "Sending message to topic[t] is forbidden.".to_owned(),
            ),
            (
                BrokerError::MessageIllegal { body_bytes_max: 4_194_304 },
                13,
                "the message is illegal, maybe msg body or properties length not matched. msg body length limit \
                 4194304B, msg properties length limit 32KB."
                    .to_owned(),
            ),
            (
                BrokerError::PullQueueId { queue_id: 9, topic: topic(), read_queues: 4, peer: "1.2.3.4:5".to_owned() },
                29,
                "queueId[9] is illegal, topic:[t] topicConfig.readQueueNums:[4] consumer:[/1.2.3.4:5]".to_owned(),
            ),
            (
                BrokerError::SendGroupNotExist { group: "g".to_owned() },
                26,
                format!("subscription group not exist, g {faq}"),
            ),
            (
                BrokerError::PullGroupNotExist { group: "g".to_owned() },
                26,
                format!("subscription group [g] does not exist, {faq}"),
            ),
            (BrokerError::Rejected, 2, "[REJECTREQUEST]system busy, start flow control for a while".to_owned()),
            (
                BrokerError::ClientNotOnline { group: "g".to_owned(), client: "c".to_owned() },
                1,
                "The Consumer <g> <c> not online".to_owned(),
            ),
        ] {
            assert_eq!(error.code(), code, "{error}");
            assert_eq!(error.to_string(), remark);
        }
    }

    #[test]
    fn refused_pulls_tell_what_forbade_them() {
        assert_eq!(BrokerError::GroupDisabled { group: "g".to_owned() }.forbidden_type(), Some(2));
        assert_eq!(BrokerError::SubscriptionMissing.forbidden_type(), None);
    }
}
