//! Judges of a history. Each looks at the whole of it and knows nothing else of what was judged.
//!
//! A checker is itself tested with histories it must reject and histories it must accept.

mod confirmed;
mod dead;
mod delayed;
mod delivered;
mod filtered;
mod follow;
mod intact;
mod kept;
mod linear;
mod locks;
mod names;
mod offsets;
mod once;
mod order;
mod progress;
mod ranges;
mod retried;
mod skipped;
mod soon;
#[cfg(test)]
pub(super) mod testing;
mod timed;
mod transactions;

use std::fmt;

pub use confirmed::nothing_read_early;
pub use dead::dead_letters;
pub use delayed::delayed_on_time;
pub use delivered::all_delivered;
pub use filtered::{filtered, Wants};
pub use follow::follow;
pub use intact::messages_intact;
pub use kept::{acknowledged_kept, synced_kept};
pub use linear::linearizable;
pub use locks::{locks_come_free, one_lock_holder};
pub use names::{members_true, routes_sound, routes_true, topics_kept};
pub use offsets::offsets_dense;
pub use once::stored_once;
pub use order::stored_in_order;
pub use progress::offsets_committed;
pub use ranges::ranges_grow;
pub use retried::handed_back_again;
pub use skipped::nothing_skipped;
pub use soon::{delayed_soon, delivered_soon, sends_end, works_again};
pub use timed::{timed_kept, timed_on_time};
pub use transactions::{transactions_as_decided, Promises};

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The checker that found it.
    pub checker: &'static str,
    /// What was promised and what was found.
    pub finding: String,
}

impl Violation {
    /// A finding of `checker`.
    pub fn new(checker: &'static str, finding: impl Into<String>) -> Violation {
        Violation { checker, finding: finding.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.checker, self.finding)
    }
}
