//! Bodies about one client.

use serde::{Deserialize, Serialize};

use super::json::known_or_default;
use crate::proto::filter::SubscriptionData;

/// Body of CHECK_CLIENT_CONFIG (46).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CheckClientRequestBody {
    /// Who asks.
    pub client_id: String,
    /// Its group.
    pub group: String,
    /// Its namespace.
    pub namespace: Option<String>,
    /// The subscription to check.
    pub subscription_data: SubscriptionData,
}

/// Answer of QUERY_SUBSCRIPTION_BY_CONSUMER (345).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct QuerySubscriptionResponseBody {
    /// The group.
    pub group: String,
    /// Its subscription, absent if it has none.
    pub subscription_data: Option<SubscriptionData>,
    /// The topic.
    pub topic: String,
}

/// A client's answer to CONSUME_MESSAGE_DIRECTLY (309). A broker relays the bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ConsumeMessageDirectlyResult {
    /// Whether an orderly listener commits by itself.
    pub auto_commit: bool,
    /// What the listener said.
    #[serde(deserialize_with = "known_or_default")]
    pub consume_result: ConsumeResult,
    /// Whether the listener is an orderly one.
    pub order: bool,
    /// The text of an exception.
    pub remark: Option<String>,
    /// Milliseconds it took.
    pub spent_time_mills: i64,
}

/// What a listener said about a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ConsumeResult {
    /// Done.
    #[default]
    CrSuccess,
    /// Again later.
    CrLater,
    /// Take back (orderly, without auto-commit).
    CrRollback,
    /// Keep (orderly, without auto-commit).
    CrCommit,
    /// It threw.
    CrThrowException,
    /// It said nothing.
    CrReturnNull,
}
