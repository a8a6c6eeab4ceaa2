//! Queues as clients name them: locks, assignments.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::heartbeat::MessageModel;
use super::json::known_or_default;

/// One queue of a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MessageQueue {
    /// The broker that has it.
    pub broker_name: String,
    /// Its number there.
    pub queue_id: i32,
    /// The topic.
    pub topic: String,
}

/// Body of LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LockBatchRequestBody {
    /// Who wants the locks.
    pub client_id: String,
    /// For which group.
    pub consumer_group: String,
    /// The queues.
    pub mq_set: BTreeSet<MessageQueue>,
    /// Not to ask the other brokers of a group; has no effect.
    pub only_this_broker: bool,
}

/// Answer of LOCK_BATCH_MQ (41): the queues the client now holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct LockBatchResponseBody {
    /// The queues held.
    #[serde(rename = "lockOKMQSet")]
    pub lock_ok_mq_set: BTreeSet<MessageQueue>,
}

/// Body of QUERY_ASSIGNMENT (400).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct QueryAssignmentRequestBody {
    /// Who asks.
    pub client_id: String,
    /// The group.
    pub consumer_group: String,
    /// Whether members share the messages.
    #[serde(deserialize_with = "known_or_default")]
    pub message_model: MessageModel,
    /// `AVG` or `AVG_BY_CIRCLE`.
    pub strategy_name: String,
    /// The topic.
    pub topic: String,
}

/// Answer of QUERY_ASSIGNMENT (400).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct QueryAssignmentResponseBody {
    /// The queues the client is to consume.
    pub message_queue_assignments: Vec<MessageQueueAssignment>,
}

/// A queue and how to get its messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MessageQueueAssignment {
    /// Further properties.
    pub attachments: Option<BTreeMap<String, String>>,
    /// The queue; for pop −1 may stand for all of the broker.
    pub message_queue: MessageQueue,
    /// Pull or pop.
    pub mode: MessageRequestMode,
}

/// How a consumer gets messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum MessageRequestMode {
    /// By PULL_MESSAGE.
    #[default]
    Pull,
    /// By POP_MESSAGE.
    Pop,
}

/// Body of SET_MESSAGE_REQUEST_MODE (401).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SetMessageRequestModeRequestBody {
    /// The group.
    pub consumer_group: String,
    /// Its mode for the topic.
    pub mode: MessageRequestMode,
    /// For pop: queues shared with the neighbours.
    pub pop_share_queue_num: i32,
    /// The topic.
    pub topic: String,
}
