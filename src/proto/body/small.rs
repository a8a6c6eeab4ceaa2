//! Bodies of one or two members.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Topic names: answer of 206, 224, 304, 305, 311 to 313 and 343.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopicList {
    /// An address of some broker, in 304 and 343.
    pub broker_addr: Option<String>,
    /// The names.
    pub topic_list: BTreeSet<String>,
}

/// Names and texts: answer of 28, 103 and 219.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct KvTable {
    /// The pairs.
    pub table: BTreeMap<String, String>,
}

/// Group names: answer of QUERY_TOPIC_CONSUME_BY_WHO (300).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GroupList {
    /// The names.
    pub group_list: BTreeSet<String>,
}

/// Answer of GET_CONSUMER_LIST_BY_GROUP (38).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GetConsumerListByGroupResponseBody {
    /// The members' client ids.
    pub consumer_id_list: Vec<String>,
}
