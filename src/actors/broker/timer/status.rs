//! What others may know of the timer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::broker::admin::runtime::TimerFacts;
use crate::broker::timer::DueSecond;
use crate::env::Millis;
use crate::proto::QueueOffset;

/// How many messages may be taken back in one second: their names are in memory while it is delivered.
pub const RECALLS_PER_SECOND_MAX: u32 = 65_536;

/// Shared between the timer, which writes it, and sessions.
#[derive(Debug)]
pub struct TimerStatus {
    /// Deliveries have begun up to this second.
    frontier: AtomicI64,
    pending: AtomicU64,
    next: AtomicU64,
    /// The first second that somebody waits for; `i64::MAX` if nobody does.
    first: AtomicI64,
    /// Messages that are being delivered.
    under_way: AtomicU64,
    /// Messages to take back, by second.
    recalls: Mutex<BTreeMap<i64, u32>>,
}

impl Default for TimerStatus {
    fn default() -> TimerStatus {
        TimerStatus {
            frontier: AtomicI64::new(0),
            pending: AtomicU64::new(0),
            next: AtomicU64::new(0),
            first: AtomicI64::new(i64::MAX),
            under_way: AtomicU64::new(0),
            recalls: Mutex::default(),
        }
    }
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

    /// How far the timer is; `first` is the first second that somebody waits for.
    pub fn set_progress(&self, pending: u64, next: QueueOffset, first: Option<i64>, under_way: u64) {
        self.pending.store(pending, Ordering::Relaxed);
        self.next.store(next.0, Ordering::Relaxed);
        self.first.store(first.unwrap_or(i64::MAX), Ordering::Relaxed);
        self.under_way.store(under_way, Ordering::Relaxed);
    }

    /// What waits for times below this one, as `TIMER_OUT_MS` counts them, is delivered.
    pub fn read_ms(&self) -> i64 {
        let begun = self.frontier.load(Ordering::SeqCst);
        DueSecond(begun.min(self.first.load(Ordering::Relaxed))).out_ms()
    }

    /// What tools are told, with the timer topic's end.
    pub fn facts(&self, wall: Millis, end: QueueOffset) -> TimerFacts {
        let first = self.first.load(Ordering::Relaxed);
        let late = if first == i64::MAX { 0 } else { wall.0 - DueSecond(first).begins().0 };
        TimerFacts {
            seconds_behind: late.max(0) / 1000,
            not_taken_in: end.0.saturating_sub(self.next().0),
            under_way: self.under_way.load(Ordering::Relaxed),
        }
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
