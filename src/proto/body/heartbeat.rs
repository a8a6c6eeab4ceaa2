//! What clients tell a broker about themselves every 30 seconds.

use serde::{Deserialize, Serialize};

use super::json::known_or_default;
use crate::proto::filter::SubscriptionData;

/// Body of HEART_BEAT (34).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HeartbeatData {
    /// The client within its groups.
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// The consumer groups it is in.
    pub consumer_data_set: Vec<ConsumerData>,
    /// A number that stays while the subscriptions stay; 0: a client that makes none.
    pub heartbeat_fingerprint: i32,
    /// The producer groups it is in.
    pub producer_data_set: Vec<ProducerData>,
    /// The subscriptions are left out, the broker has them.
    pub without_sub: bool,
}

/// A client's membership in a producer group.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ProducerData {
    /// The group.
    pub group_name: String,
}

/// A client's membership in a consumer group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ConsumerData {
    /// Where it begins in a queue it has no offset for.
    #[serde(deserialize_with = "known_or_default")]
    pub consume_from_where: ConsumeFromWhere,
    /// Who asks for messages.
    #[serde(deserialize_with = "known_or_default")]
    pub consume_type: ConsumeType,
    /// The group.
    pub group_name: String,
    /// Whether members share the messages.
    #[serde(deserialize_with = "known_or_default")]
    pub message_model: MessageModel,
    /// Its topics, the retry topic among them.
    pub subscription_data_set: Vec<SubscriptionData>,
    /// Whether the client lives in a unit of a divided system.
    pub unit_mode: bool,
}

/// Who asks for messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ConsumeType {
    /// The application.
    ConsumeActively,
    /// The client library, which hands them to a listener.
    #[default]
    ConsumePassively,
    /// The client library by pop.
    ConsumePop,
}

/// Whether the members of a group share its messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum MessageModel {
    /// Each gets all.
    Broadcasting,
    /// Each message goes to one.
    #[default]
    Clustering,
}

/// Where a consumer begins in a queue its group has no offset for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ConsumeFromWhere {
    /// At the end.
    #[default]
    ConsumeFromLastOffset,
    /// Old name; as the last offset.
    ConsumeFromLastOffsetAndFromMinWhenBootFirst,
    /// Old name; as the first offset.
    ConsumeFromMinOffset,
    /// Old name; as the last offset.
    ConsumeFromMaxOffset,
    /// At the first message there is.
    ConsumeFromFirstOffset,
    /// At the first message of a time.
    ConsumeFromTimestamp,
}
