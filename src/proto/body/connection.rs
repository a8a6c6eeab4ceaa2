//! Who is connected.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::heartbeat::{ConsumeFromWhere, ConsumeType, MessageModel};
use crate::proto::filter::SubscriptionData;

/// Answer of GET_CONSUMER_CONNECTION_LIST (203). Tools take every member for granted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ConsumerConnection {
    /// The members.
    pub connection_set: Vec<Connection>,
    /// Where they begin.
    pub consume_from_where: ConsumeFromWhere,
    /// Who asks for messages.
    pub consume_type: ConsumeType,
    /// Whether they share the messages.
    pub message_model: MessageModel,
    /// Subscription by topic.
    pub subscription_table: BTreeMap<String, SubscriptionData>,
}

/// Answer of GET_PRODUCER_CONNECTION_LIST (204).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ProducerConnection {
    /// The members.
    pub connection_set: Vec<Connection>,
}

/// One client's connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Connection {
    /// Its address, `ip:port`.
    pub client_addr: String,
    /// Its id.
    pub client_id: String,
    /// The name of its language, `JAVA`.
    pub language: String,
    /// Its version number.
    pub version: i32,
}

/// Answer of GET_ALL_PRODUCER_INFO (328).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct ProducerTableInfo {
    /// Members by group.
    pub data: BTreeMap<String, Vec<ProducerInfo>>,
}

/// One member of a producer group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ProducerInfo {
    /// Its id.
    pub client_id: String,
    /// The name of its language.
    pub language: String,
    /// When it was last heard of, in ms.
    pub last_update_timestamp: i64,
    /// Its address.
    #[serde(rename = "remoteIP")]
    pub remote_ip: String,
    /// Its version number.
    pub version: i32,
}
