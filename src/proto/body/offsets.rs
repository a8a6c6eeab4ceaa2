//! Offsets of groups and delay levels.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::queue::MessageQueue;
use super::DataVersion;

/// Between topic and group in the keys of an offset table.
pub const TOPIC_GROUP_SEPARATOR: char = '@';

/// All offsets of a broker: answer of GET_ALL_CONSUMER_OFFSET (43) and `consumerOffset.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ConsumerOffsetSerializeWrapper {
    /// Version of the table; absent before 5.0.
    pub data_version: Option<DataVersion>,
    /// Topics by group; follows from the table and is written by 5.3 brokers only.
    pub group_topic_map: Option<BTreeMap<String, Vec<String>>>,
    /// The next offset to consume by `topic@group` (or `topic@group@broadcast`) and queue.
    pub offset_table: BTreeMap<String, BTreeMap<i32, i64>>,
    /// Where groups were reset to that have not taken it up yet, by the same keys. Ours: RocketMQ passes over it, and
    /// forgets a reset when it restarts.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reset_table: BTreeMap<String, BTreeMap<i32, i64>>,
}

impl ConsumerOffsetSerializeWrapper {
    /// The key of a group's offsets for a topic.
    pub fn key(topic: &str, group: &str) -> String {
        format!("{topic}{TOPIC_GROUP_SEPARATOR}{group}")
    }

    /// Takes a key apart, at the first separator: a broadcast group's name goes on behind a second one.
    pub fn split_key(key: &str) -> Option<(&str, &str)> {
        key.split_once(TOPIC_GROUP_SEPARATOR)
    }

    /// Fills `group_topic_map` from the table, without broadcast groups.
    pub fn derive_group_topic_map(&mut self) {
        let mut topics: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (topic, group) in self.offset_table.keys().filter_map(|key| Self::split_key(key)) {
            if !group.contains(TOPIC_GROUP_SEPARATOR) {
                topics.entry(group.to_owned()).or_default().insert(topic.to_owned());
            }
        }
        let listed = topics.into_iter().map(|(group, topics)| (group, topics.into_iter().collect()));
        self.group_topic_map = Some(listed.collect());
    }
}

/// Progress of delayed delivery: answer of GET_ALL_DELAY_OFFSET (45) and `delayOffset.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DelayOffsetSerializeWrapper {
    /// Version of the table; absent before 5.0.
    pub data_version: Option<DataVersion>,
    /// The next offset to deliver by delay level, counted from 1.
    pub offset_table: BTreeMap<i32, i64>,
}

/// Body of RESET_CONSUMER_CLIENT_OFFSET (220) to Java and Go, answer of 222. The queues are objects in the place of
/// keys; Go reads this form only because it is no JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResetOffsetBody {
    /// The new offset of each queue.
    pub offset_table: BTreeMap<MessageQueue, i64>,
}

/// Body of RESET_CONSUMER_CLIENT_OFFSET (220) to C++ clients: a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResetOffsetBodyForC {
    /// The new offset of each queue.
    pub offset_table: Vec<MessageQueueForC>,
}

/// A queue and its offset in one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MessageQueueForC {
    /// The broker that has the queue.
    pub broker_name: String,
    /// The new offset.
    pub offset: i64,
    /// The queue's number there.
    pub queue_id: i32,
    /// The topic.
    pub topic: String,
}

impl From<&ResetOffsetBody> for ResetOffsetBodyForC {
    fn from(body: &ResetOffsetBody) -> ResetOffsetBodyForC {
        let list = body.offset_table.iter().map(|(queue, offset)| MessageQueueForC {
            broker_name: queue.broker_name.clone(),
            offset: *offset,
            queue_id: queue.queue_id,
            topic: queue.topic.clone(),
        });
        ResetOffsetBodyForC { offset_table: list.collect() }
    }
}

/// A client's answer to 221 and the broker's to 223.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GetConsumerStatusBody {
    /// In 223: offsets by client and queue.
    pub consumer_table: BTreeMap<String, BTreeMap<MessageQueue, i64>>,
    /// In 221: offsets by queue.
    pub message_queue_table: BTreeMap<MessageQueue, i64>,
}

/// Answer of QUERY_CORRECTION_OFFSET (308).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct QueryCorrectionOffsetBody {
    /// The smallest offset of the other groups by queue.
    pub correction_offsets: BTreeMap<i32, i64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::body::to_vec;

    #[test]
    fn keys_split_at_the_first_separator() {
        let split = ConsumerOffsetSerializeWrapper::split_key;
        assert_eq!(split("T@g"), Some(("T", "g")));
        assert_eq!(split("T@g@broadcast"), Some(("T", "g@broadcast")));
        assert_eq!(split("T"), None);
    }

    #[test]
    fn topics_of_groups_follow_from_the_table() {
        let mut offsets = ConsumerOffsetSerializeWrapper::default();
        for key in ["A@g", "B@g", "B@h@broadcast"] {
            offsets.offset_table.insert(key.into(), BTreeMap::from([(0, 1)]));
        }
        offsets.derive_group_topic_map();
        assert_eq!(offsets.group_topic_map, Some(BTreeMap::from([("g".into(), vec!["A".into(), "B".into()])])));
    }

    #[test]
    fn cpp_clients_get_a_list() {
        let queue = MessageQueue { broker_name: "broker-a".into(), queue_id: 2, topic: "TopicTest".into() };
        let body = ResetOffsetBody { offset_table: BTreeMap::from([(queue, 100)]) };
        let list = br#"{"offsetTable":[{"brokerName":"broker-a","offset":100,"queueId":2,"topic":"TopicTest"}]}"#;
        assert_eq!(to_vec(&ResetOffsetBodyForC::from(&body)), list);
    }
}
