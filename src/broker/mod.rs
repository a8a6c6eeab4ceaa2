//! The broker's rules: topics, groups, clients, offsets, locks, holds, delays, and what may be sent and pulled.
//!
//! Plain state machines. None of them waits, reads a clock or touches a file: time comes in as `Millis`, what is to be
//! done goes out as an [`Effect`]. Two clocks are told apart by name: `now` is monotonic time and decides about leases
//! and time-outs, so that a corrected wall clock expires nothing; `wall` is wall-clock time and only where a format asks
//! for it.

pub mod admin;
pub mod attributes;
pub mod clients;
pub mod delay;
pub mod directory;
mod effect;
pub mod errors;
pub mod flow;
pub mod groups;
pub mod locks;
pub mod metadata_sync;
pub mod offsets;
pub mod pull;
pub mod role;
pub mod send;
pub mod send_back;
pub mod timer;
pub mod topics;
pub mod transaction;

use std::sync::Arc;

pub use crate::env::ConnectionId;
pub use effect::{Effect, Report};
pub use errors::BrokerError;

/// One queue of one topic on this broker.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueKey {
    /// The topic.
    pub topic: Arc<str>,
    /// The queue's number in the topic.
    pub queue_id: i32,
}

impl QueueKey {
    /// The queue `queue_id` of `topic`.
    pub fn new(topic: impl Into<Arc<str>>, queue_id: i32) -> QueueKey {
        QueueKey { topic: topic.into(), queue_id }
    }
}
