//! What others may know of the timer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::broker::timer::DueSecond;
use crate::proto::QueueOffset;

/// How many messages may be taken back in one second: their names are in memory while it is delivered.
pub const RECALLS_PER_SECOND_MAX: u32 = 65_536;

/// Shared between the timer, which writes it, and sessions.
#[derive(Debug, Default)]
pub struct TimerStatus {
    /// Deliveries have begun up to this second.
    frontier: AtomicI64,
    pending: AtomicU64,
    next: AtomicU64,
    /// Messages to take back, by second.
    recalls: Mutex<BTreeMap<i64, u32>>,
}

impl TimerStatus {
    /// From now on messages of seconds up to this one may come out. Told before the timer looks for the last messages
    /// to take back.
    pub fn begin(&self, second: DueSecond) {
        self.frontier.fetch_max(second.0, Ordering::SeqCst);
        let mut recalls = self.recalls.lock().unwrap_or_else(PoisonError::into_inner);
        while recalls.first_entry().is_some_and(|first| *first.key() <= second.0) {
            recalls.pop_first();
        }
    }

    /// Whether messages of a second may have come out.
    pub fn has_begun(&self, second: DueSecond) -> bool {
        self.frontier.load(Ordering::SeqCst) >= second.0
    }

    /// Takes note of a message that takes another one back; `false` if its second has too many.
    pub fn admit_recall(&self, second: DueSecond) -> bool {
        let mut recalls = self.recalls.lock().unwrap_or_else(PoisonError::into_inner);
        let count = recalls.entry(second.0).or_default();
        let admitted = *count < RECALLS_PER_SECOND_MAX;
        *count += u32::from(admitted);
        admitted
    }

    /// What the timer log says at the start.
    pub fn set_recalls(&self, known: impl Iterator<Item = (i64, u32)>) {
        self.recalls.lock().unwrap_or_else(PoisonError::into_inner).extend(known);
    }

    /// How far the timer is.
    pub fn set_progress(&self, pending: u64, next: QueueOffset) {
        self.pending.store(pending, Ordering::Relaxed);
        self.next.store(next.0, Ordering::Relaxed);
    }

    /// Messages that wait, of those taken in.
    pub fn pending(&self) -> u64 {
        self.pending.load(Ordering::Relaxed)
    }

    /// The first record of the timer topic that is not taken in.
    pub fn next(&self) -> QueueOffset {
        QueueOffset(self.next.load(Ordering::Relaxed))
    }
}
