//! Finding a queue offset by store time.

use super::consume_queue::search::{first_reached, Probe};
use super::consume_queue::ConsumeQueue;
use super::error::StoreError;
use super::handle::Store;
use crate::env::Millis;
use crate::proto::QueueOffset;

/// Which message is meant by a time between two messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// The first message stored at or after the time; the maximum if there is none.
    Lower,
    /// The last message stored at or before the time; the minimum if there is none.
    Upper,
}

impl Store {
    /// The offset that belongs to a time: always between the queue's minimum and maximum. A binary search that reads
    /// one record per step; store times never fall along a queue.
    pub fn offset_by_time(
        &self,
        queue: &ConsumeQueue,
        time: Millis,
        boundary: Boundary,
    ) -> Result<QueueOffset, StoreError> {
        let (min, max) = (queue.min().0, queue.max().0);
        let before = |stored: Millis| match boundary {
            Boundary::Lower => stored < time,
            Boundary::Upper => stored <= time,
        };
        let reached = first_reached(min, max, |number| {
            let stored = self.store_time(queue, QueueOffset(number))?;
            Ok(stored.map_or(Probe::Hole, |stored| if before(stored) { Probe::Before } else { Probe::Reached }))
        })?;
        Ok(QueueOffset(match boundary {
            Boundary::Lower => reached,
            Boundary::Upper => reached.saturating_sub(1).max(min),
        }))
    }
}
