//! Judges of a run. Each looks at the whole history and knows nothing of the product.
//!
//! A checker is itself tested with histories it must reject and histories it must accept.

mod confirmed;
mod delayed;
mod delivered;
mod kept;
mod offsets;
mod once;
mod retried;
#[cfg(test)]
mod testing;

use std::fmt;

pub use confirmed::nothing_read_early;
pub use delayed::delayed_on_time;
pub use delivered::all_delivered;
pub use kept::acknowledged_kept;
pub use offsets::offsets_dense;
pub use once::stored_once;
pub use retried::handed_back_again;

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
