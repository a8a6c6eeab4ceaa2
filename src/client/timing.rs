//! Waits that end.

use std::future::Future;
use std::time::Duration;

use futures::future::{select, Either};
use futures::pin_mut;

use crate::env::Clock;

/// What `future` gives, unless `limit` passes first.
pub(super) async fn within<T>(clock: &dyn Clock, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    pin_mut!(future);
    match select(future, clock.sleep(limit)).await {
        Either::Left((value, _)) => Some(value),
        Either::Right(_) => None,
    }
}

/// The moment after which nobody waits any more, on a node's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Duration);

impl Deadline {
    pub fn after(clock: &dyn Clock, limit: Duration) -> Deadline {
        Deadline(clock.monotonic().saturating_add(limit))
    }

    /// What is left, at least zero.
    pub fn left(self, clock: &dyn Clock) -> Duration {
        self.0.saturating_sub(clock.monotonic())
    }
}
