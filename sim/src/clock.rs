//! Time of one node: simulated time plus the node's own error.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use futures::future::BoxFuture;
use metaq::env::{Clock, Millis};

use crate::agenda::Agenda;

/// The clock of one node. Its wall-clock error can be changed while it runs; waits are not affected by it.
pub struct SimClock {
    agenda: Arc<Agenda>,
    error_millis: Arc<AtomicI64>,
}

impl SimClock {
    /// A clock that is wrong by `error_millis`.
    pub fn new(agenda: Arc<Agenda>, error_millis: Arc<AtomicI64>) -> SimClock {
        SimClock { agenda, error_millis }
    }
}

impl Clock for SimClock {
    fn now(&self) -> Millis {
        let wall = self.agenda.wall().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis(wall.as_millis() as i64).plus(self.error_millis.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        self.agenda.now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(self.agenda.sleep(duration))
    }
}
