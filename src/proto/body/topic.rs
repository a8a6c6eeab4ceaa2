//! Topics as brokers keep and announce them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::json::known_or_default;
use super::{permission, DataVersion};

/// Queues of a topic whose configuration names no number.
pub const DEFAULT_QUEUES: i32 = 16;
/// Attribute that says how a topic's messages are used: NORMAL, FIFO, DELAY, TRANSACTION, MIXED or UNSPECIFIED.
pub const ATTRIBUTE_MESSAGE_TYPE: &str = "message.type";

/// One topic on one broker.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopicConfig {
    /// Named properties of the topic, without the `+` that requests write before them.
    pub attributes: BTreeMap<String, String>,
    /// Whether the topic's order is kept when brokers are missing.
    pub order: bool,
    /// Permission bits, [`permission`].
    pub perm: i32,
    /// Queues that consumers read.
    pub read_queue_nums: i32,
    /// Whether messages have one tag or several.
    #[serde(deserialize_with = "known_or_default")]
    pub topic_filter_type: TopicFilterType,
    /// Its name.
    pub topic_name: String,
    /// Bit 0 unit, bit 1 unit subscription.
    pub topic_sys_flag: i32,
    /// Queues that producers write.
    pub write_queue_nums: i32,
}

/// How many tags a message of a topic may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TopicFilterType {
    /// One.
    #[default]
    SingleTag,
    /// Several; unused today.
    MultiTag,
}

impl TopicFilterType {
    /// RocketMQ's name for it.
    pub fn name(self) -> &'static str {
        match self {
            TopicFilterType::SingleTag => "SINGLE_TAG",
            TopicFilterType::MultiTag => "MULTI_TAG",
        }
    }

    /// The type of that name; of an unknown one, single.
    pub fn of_name(name: &str) -> TopicFilterType {
        if name == TopicFilterType::MultiTag.name() {
            TopicFilterType::MultiTag
        } else {
            TopicFilterType::SingleTag
        }
    }
}

impl Default for TopicConfig {
    fn default() -> TopicConfig {
        TopicConfig::new(String::new(), DEFAULT_QUEUES, permission::READ | permission::WRITE)
    }
}

impl TopicConfig {
    /// A topic with as many queues to write as to read.
    pub fn new(name: impl Into<String>, queues: i32, perm: i32) -> TopicConfig {
        TopicConfig {
            attributes: BTreeMap::new(),
            order: false,
            perm,
            read_queue_nums: queues,
            topic_filter_type: TopicFilterType::SingleTag,
            topic_name: name.into(),
            topic_sys_flag: 0,
            write_queue_nums: queues,
        }
    }
}

/// RocketMQ's text for a topic in remarks.
impl std::fmt::Display for TopicConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let attributes: Vec<_> = self.attributes.iter().map(|(name, value)| format!("{name}={value}")).collect();
        write!(
            f,
            "TopicConfig [topicName={}, readQueueNums={}, writeQueueNums={}, perm={}, topicFilterType={}, \
             topicSysFlag={}, order={}, attributes={{{}}}]",
            self.topic_name,
            self.read_queue_nums,
            self.write_queue_nums,
            permission::text(self.perm),
            self.topic_filter_type.name(),
            self.topic_sys_flag,
            self.order,
            attributes.join(", ")
        )
    }
}

/// All topics of a broker: answer of GET_ALL_TOPIC_CONFIG (21), part of a registration, and `topics.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopicConfigSerializeWrapper {
    /// Version of the table.
    pub data_version: DataVersion,
    /// Topic by name.
    pub topic_config_table: BTreeMap<String, TopicConfig>,
}

/// Answer of our own GET_DELETED_TOPICS (70005).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeletedTopics {
    /// Topics that were deleted, and where the master's log ended then.
    pub deleted: BTreeMap<String, u64>,
}

/// Body of UPDATE_AND_CREATE_TOPIC_LIST (18).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopicConfigList {
    /// The topics to create or change.
    pub topic_config_list: Vec<TopicConfig>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::body::{from_slice, to_vec};

    #[test]
    fn the_wire_form_is_javas() {
        let json = br#"{"attributes":{"message.type":"FIFO"},"order":false,"perm":6,"readQueueNums":8,"topicFilterType":"SINGLE_TAG","topicName":"TopicTest","topicSysFlag":0,"writeQueueNums":8}"#;
        let mut topic = TopicConfig::new("TopicTest", 8, 6);
        topic.attributes.insert(ATTRIBUTE_MESSAGE_TYPE.into(), "FIFO".into());
        assert_eq!(to_vec(&topic), json);
        assert_eq!(from_slice(json), Ok(topic));
    }

    #[test]
    fn missing_members_have_the_beans_defaults() {
        let read: TopicConfig = from_slice(br#"{"topicName":"T","topicFilterType":null}"#).unwrap();
        assert_eq!(read, TopicConfig::new("T", 16, 6));
    }

    #[test]
    fn the_remarks_text() {
        let text = "TopicConfig [topicName=T, readQueueNums=4, writeQueueNums=4, perm=RW-, \
                    topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false, attributes={}]";
        assert_eq!(TopicConfig::new("T", 4, 6).to_string(), text);
    }
}
