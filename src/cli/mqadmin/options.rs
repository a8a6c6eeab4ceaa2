//! The options of RocketMQ's tools: short and long names as there. Hidden ones are taken and change nothing.

use clap::Args;

/// Options that hidden fields accept without effect: changes are always made in the whole cluster.
#[derive(Debug, Args)]
pub struct Ignored {
    #[arg(short = 'c', long = "clusterName", num_args = 0..=1, default_missing_value = "", hide = true)]
    pub _cluster: Option<String>,
    #[arg(short = 'b', long = "brokerAddr", hide = true)]
    pub _broker: Option<String>,
}

#[derive(Debug, Args)]
pub struct OfTopic {
    #[arg(short = 't', long = "topic")]
    pub topic: String,
    #[arg(short = 'c', long = "clusterName", hide = true)]
    pub _cluster: Option<String>,
}

#[derive(Debug, Args)]
pub struct OfGroup {
    #[arg(short = 'g', long = "consumerGroup", alias = "groupName")]
    pub group: String,
    #[arg(short = 'b', long = "brokerAddr", hide = true)]
    pub _broker: Option<String>,
}

#[derive(Debug, Args)]
pub struct UpdateTopic {
    #[arg(short = 't', long = "topic")]
    pub topic: String,
    #[arg(short = 'c', long = "clusterName", hide = true)]
    pub _cluster: Option<String>,
    #[arg(short = 'b', long = "brokerAddr")]
    pub broker: Option<String>,
    #[arg(short = 'r', long = "readQueueNums")]
    pub read: Option<i32>,
    #[arg(short = 'w', long = "writeQueueNums")]
    pub write: Option<i32>,
    #[arg(short = 'p', long = "perm")]
    pub perm: Option<String>,
    #[arg(short = 'o', long = "order")]
    pub order: Option<bool>,
    #[arg(short = 'a', long = "attributes")]
    pub attributes: Option<String>,
}

#[derive(Debug, Args)]
pub struct UpdateOrderConf {
    #[arg(short = 't', long = "topic")]
    pub topic: String,
    #[arg(short = 'v', long = "orderConf")]
    pub value: Option<String>,
    #[arg(short = 'm', long = "method")]
    pub method: String,
}

#[derive(Debug, Args)]
pub struct OfBroker {
    #[arg(short = 'b', long = "brokerAddr")]
    pub broker: String,
    #[arg(short = 'c', long = "clusterName", hide = true)]
    pub _cluster: Option<String>,
}

#[derive(Debug, Args)]
pub struct ProducerConnection {
    #[arg(short = 'g', long = "producerGroup")]
    pub group: String,
    #[arg(short = 't', long = "topic")]
    pub topic: String,
}

#[derive(Debug, Args)]
pub struct UpdateSubGroup {
    #[arg(short = 'g', long = "groupName")]
    pub group: String,
    #[arg(short = 'c', long = "clusterName", hide = true)]
    pub _cluster: Option<String>,
    #[arg(short = 'b', long = "brokerAddr")]
    pub broker: Option<String>,
    #[arg(short = 's', long = "consumeEnable")]
    pub consume: Option<bool>,
    #[arg(short = 'm', long = "consumeFromMinEnable")]
    pub from_min: Option<bool>,
    #[arg(short = 'd', long = "consumeBroadcastEnable")]
    pub broadcast: Option<bool>,
    #[arg(short = 'o', long = "consumeMessageOrderly")]
    pub orderly: Option<bool>,
    #[arg(short = 'q', long = "retryQueueNums")]
    pub retry_queues: Option<i32>,
    #[arg(short = 'r', long = "retryMaxTimes")]
    pub retries: Option<i32>,
    #[arg(short = 'i', long = "brokerId")]
    pub read_from: Option<i64>,
    #[arg(short = 'w', long = "whichBrokerWhenConsumeSlowly")]
    pub read_slowly_from: Option<i64>,
    #[arg(short = 'a', long = "notifyConsumerIdsChanged")]
    pub notify: Option<bool>,
}

#[derive(Debug, Args)]
pub struct StatsAll {
    #[arg(short = 't', long = "topic")]
    pub topic: Option<String>,
    #[arg(short = 'a', long = "activeTopic", hide = true)]
    pub _active: bool,
}

#[derive(Debug, Args)]
pub struct ClusterList {
    #[arg(short = 'm', long = "moreStats")]
    pub more: bool,
    #[arg(short = 'c', long = "clusterName", hide = true)]
    pub _cluster: Option<String>,
}

#[derive(Debug, Args)]
pub struct ConsumerProgress {
    #[arg(short = 'g', long = "groupName")]
    pub group: Option<String>,
    #[arg(short = 't', long = "topicName")]
    pub topic: Option<String>,
    #[arg(short = 's', long = "showClientIP", num_args = 0..=1, default_missing_value = "true", hide = true)]
    pub _show_client: Option<String>,
}

#[derive(Debug, Args)]
pub struct DeleteSubGroup {
    #[arg(short = 'g', long = "groupName")]
    pub group: String,
    #[arg(short = 'c', long = "clusterName", hide = true)]
    pub _cluster: Option<String>,
    #[arg(short = 'r', long = "removeOffset", num_args = 0..=1, default_missing_value = "true")]
    pub remove_offset: Option<bool>,
}

#[derive(Debug, Args)]
pub struct ResetOffsetByTime {
    #[arg(short = 'g', long = "group")]
    pub group: String,
    #[arg(short = 't', long = "topic")]
    pub topic: String,
    /// `now`, `currentTimeMillis`, milliseconds, or `2026-11-30#12:30:05:123`
    #[arg(short = 's', long = "timestamp", allow_hyphen_values = true)]
    pub time: String,
    #[arg(short = 'f', long = "force", num_args = 0..=1, hide = true)]
    pub _force: Option<String>,
    #[arg(short = 'b', long = "broker")]
    pub broker: Option<String>,
    #[arg(short = 'q', long = "queue")]
    pub queue: Option<i32>,
    #[arg(short = 'o', long = "offset")]
    pub offset: Option<i64>,
}

#[derive(Debug, Args)]
pub struct ResetToEnd {
    #[arg(short = 'g', long = "group")]
    pub group: String,
    #[arg(short = 't', long = "topic")]
    pub topic: String,
    #[arg(short = 'f', long = "force", num_args = 0..=1, hide = true)]
    pub _force: Option<String>,
}

#[derive(Debug, Args)]
pub struct CloneGroupOffset {
    #[arg(short = 's', long = "srcGroup")]
    pub from: String,
    #[arg(short = 'd', long = "destGroup")]
    pub to: String,
    #[arg(short = 't', long = "topic")]
    pub topic: Option<String>,
    #[arg(short = 'o', long = "offline", num_args = 0..=1, hide = true)]
    pub _offline: Option<String>,
}

#[derive(Debug, Args)]
pub struct QueryMsg {
    #[arg(short = 'i', long = "msgId")]
    pub id: String,
    #[arg(short = 't', long = "topic")]
    pub topic: Option<String>,
    #[arg(short = 'g', long = "consumerGroup")]
    pub group: Option<String>,
    #[arg(short = 'd', long = "clientId")]
    pub client: Option<String>,
}

#[derive(Debug, Args)]
pub struct QueryMsgByKey {
    #[arg(short = 't', long = "topic")]
    pub topic: String,
    #[arg(short = 'k', long = "msgKey")]
    pub key: String,
    #[arg(short = 'b', long = "beginTimestamp")]
    pub begin: Option<String>,
    #[arg(short = 'e', long = "endTimestamp")]
    pub end: Option<String>,
    #[arg(short = 'm', long = "maxNum")]
    pub max: Option<u32>,
}

#[derive(Debug, Args)]
pub struct QueryMsgByOffset {
    #[arg(short = 't', long = "topic")]
    pub topic: String,
    #[arg(short = 'b', long = "brokerName")]
    pub broker: String,
    #[arg(short = 'i', long = "queueId")]
    pub queue: i32,
    #[arg(short = 'o', long = "offset")]
    pub offset: i64,
}

#[derive(Debug, Args)]
pub struct SendMessage {
    #[arg(short = 't', long = "topic")]
    pub topic: String,
    #[arg(short = 'p', long = "body", allow_hyphen_values = true)]
    pub body: String,
    #[arg(short = 'k', long = "key")]
    pub key: Option<String>,
    #[arg(short = 'c', long = "tags")]
    pub tags: Option<String>,
}

#[derive(Debug, Args)]
pub struct PrintMsg {
    #[arg(short = 't', long = "topic")]
    pub topic: String,
    #[arg(short = 's', long = "subExpression")]
    pub tags: Option<String>,
    #[arg(short = 'b', long = "beginTimestamp")]
    pub begin: Option<String>,
    #[arg(short = 'e', long = "endTimestamp")]
    pub end: Option<String>,
    #[arg(short = 'd', long = "printBody", num_args = 0..=1, hide = true)]
    pub _body: Option<String>,
}

#[derive(Debug, Args)]
pub struct ConsumeMessage {
    #[arg(short = 't', long = "topic")]
    pub topic: String,
    #[arg(short = 'b', long = "brokerName", requires = "queue")]
    pub broker: Option<String>,
    #[arg(short = 'i', long = "queueId")]
    pub queue: Option<i32>,
    #[arg(short = 'o', long = "offset")]
    pub offset: Option<i64>,
    #[arg(short = 'g', long = "consumerGroup")]
    pub group: Option<String>,
    #[arg(short = 'c', long = "MessageNumber")]
    pub max: Option<u64>,
    #[arg(short = 's', long = "beginTimestamp")]
    pub begin: Option<String>,
    #[arg(short = 'e', long = "endTimestamp")]
    pub end: Option<String>,
}
