//! Judges of a run.

use std::fmt;

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
