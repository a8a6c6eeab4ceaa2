//! What clients did and saw.

use std::sync::Arc;

use crate::trace::Trace;

/// The history of one run.
pub struct History {
    _trace: Arc<Trace>,
}

impl History {
    /// An empty history.
    pub fn new(trace: Arc<Trace>) -> History {
        History { _trace: trace }
    }
}
