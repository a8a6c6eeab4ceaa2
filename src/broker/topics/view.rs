//! One topic as sessions see it.

use std::sync::Arc;

use crate::broker::attributes::DEDUPLICATION_WINDOW;
use crate::proto::body::{permission, TopicConfig};
use crate::proto::message::names;
use crate::proto::message::system::is_system_topic;

/// An immutable handle of a topic's configuration. A change publishes a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicView {
    name: Arc<str>,
    config: TopicConfig,
    deduplication: Option<i64>,
}

impl TopicView {
    pub(in crate::broker) fn new(config: TopicConfig) -> TopicView {
        TopicView { name: config.topic_name.as_str().into(), deduplication: own_window(&config), config }
    }

    /// The topic's name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The whole configuration.
    pub fn config(&self) -> &TopicConfig {
        &self.config
    }

    /// Queues that consumers see.
    pub fn read_queues(&self) -> i32 {
        self.config.read_queue_nums
    }

    /// Queues that producers see.
    pub fn write_queues(&self) -> i32 {
        self.config.write_queue_nums
    }

    /// All its queues: read or written.
    pub fn queues(&self) -> i32 {
        self.read_queues().max(self.write_queues())
    }

    /// Whether it has a queue of this number.
    pub fn has_queue(&self, queue_id: i32) -> bool {
        (0..self.queues()).contains(&queue_id)
    }

    /// The read bit.
    pub fn is_readable(&self) -> bool {
        self.config.perm & permission::READ != 0
    }

    /// The write bit.
    pub fn is_writable(&self) -> bool {
        self.config.perm & permission::WRITE != 0
    }

    /// Topics may be made after it.
    pub fn is_template(&self) -> bool {
        self.config.perm & permission::INHERIT != 0
    }

    /// Its order counts more than its availability.
    pub fn is_order(&self) -> bool {
        self.config.order
    }

    /// For how many ms a send is known by its key, 0 for none, where `usual` is the broker's setting.
    pub fn deduplication_ms(&self, usual: i64) -> i64 {
        self.deduplication.unwrap_or(usual)
    }

    /// Only the newest message of each key is kept.
    pub fn is_compaction(&self) -> bool {
        self.config.attributes.get("cleanup.policy").is_some_and(|policy| policy == "COMPACTION")
    }
}

/// For how many ms the sends to a topic are known by their keys, as [`TopicView::deduplication_ms`] says it.
pub fn deduplication_ms(config: &TopicConfig, usual: i64) -> i64 {
    own_window(config).unwrap_or(usual)
}

/// A topic's own window. Messages of retry topics keep their key from try to try, and what lies in system topics is not a
/// client's own.
fn own_window(config: &TopicConfig) -> Option<i64> {
    let topic = &config.topic_name;
    if names::is_retry_topic(topic) || names::is_dlq_topic(topic) || is_system_topic(topic) {
        return Some(0);
    }
    config.attributes.get(DEDUPLICATION_WINDOW)?.parse().ok()
}
