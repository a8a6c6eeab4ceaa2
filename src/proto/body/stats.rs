//! Numbers about topics, groups and queues.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::queue::MessageQueue;

/// Answer of GET_CONSUME_STATS (208).
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ConsumeStats {
    /// Messages per second.
    pub consume_tps: f64,
    /// Offsets by queue; the queues are objects in the place of keys.
    pub offset_table: BTreeMap<MessageQueue, OffsetWrapper>,
}

impl ConsumeStats {
    /// Messages the group has not consumed yet.
    pub fn total_diff(&self) -> i64 {
        self.offset_table.values().map(|offset| offset.broker_offset.saturating_sub(offset.consumer_offset)).sum()
    }

    /// Messages the group has pulled and not yet consumed.
    pub fn total_inflight_diff(&self) -> i64 {
        self.offset_table.values().map(|offset| offset.pull_offset.saturating_sub(offset.consumer_offset)).sum()
    }
}

/// How far a group is in one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OffsetWrapper {
    /// The queue's maximum.
    pub broker_offset: i64,
    /// What the group committed.
    pub consumer_offset: i64,
    /// Store time of the last message consumed, 0 if not known.
    pub last_timestamp: i64,
    /// What the group pulled up to.
    pub pull_offset: i64,
}

/// Answer of GET_TOPIC_STATS_INFO (202).
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopicStatsTable {
    /// Offsets by queue; the queues are objects in the place of keys.
    pub offset_table: BTreeMap<MessageQueue, TopicOffset>,
    /// Messages per second.
    pub topic_put_tps: f64,
}

/// The ends of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopicOffset {
    /// Store time of the newest message, 0 if there is none.
    pub last_update_timestamp: i64,
    /// The next offset.
    pub max_offset: i64,
    /// The first offset.
    pub min_offset: i64,
}

/// Answer of GET_BROKER_CONSUME_STATS (317).
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ConsumeStatsList {
    /// The broker.
    pub broker_addr: String,
    /// Per topic: statistics by group.
    pub consume_stats_list: Vec<BTreeMap<String, Vec<ConsumeStats>>>,
    /// Messages not consumed.
    pub total_diff: i64,
    /// Messages pulled and not consumed.
    pub total_inflight_diff: i64,
}

/// Answer of VIEW_BROKER_STATS_DATA (315).
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BrokerStatsData {
    /// Of the last day.
    pub stats_day: BrokerStatsItem,
    /// Of the last hour.
    pub stats_hour: BrokerStatsItem,
    /// Of the last minute.
    pub stats_minute: BrokerStatsItem,
}

/// One number over a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct BrokerStatsItem {
    /// Average per call.
    pub avgpt: f64,
    /// Sum.
    pub sum: i64,
    /// Per second.
    pub tps: f64,
}

/// Answer of QUERY_CONSUME_TIME_SPAN (303).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct QueryConsumeTimeSpanBody {
    /// One entry per queue.
    pub consume_time_span_set: Vec<QueueTimeSpan>,
}

/// The times of one queue, in ms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct QueueTimeSpan {
    /// Store time of the message consumed last.
    pub consume_time_stamp: i64,
    /// Age of the oldest message not yet consumed.
    pub delay_time: i64,
    /// Store time of the newest message.
    pub max_time_stamp: i64,
    /// The queue.
    pub message_queue: MessageQueue,
    /// Store time of the oldest message.
    pub min_time_stamp: i64,
}
