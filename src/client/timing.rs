//! Waits that end.

use std::future::{poll_fn, Future};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::env::Clock;

/// What `future` gives, unless `limit` passes first.
pub(super) async fn within<T>(clock: &dyn Clock, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut timer) = (pin!(future), None);
    poll_fn(|cx| {
        if let Poll::Ready(value) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(value));
        }
        // Most of what is waited for is there at once, and a timer costs more than that.
        timer.get_or_insert_with(|| clock.sleep(limit)).as_mut().poll(cx).map(|()| None)
    })
    .await
}

/// The moment after which nobody waits any more, on a node's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Duration);

impl Deadline {
    pub fn after(clock: &dyn Clock, limit: Duration) -> Deadline {
        Deadline(clock.monotonic().saturating_add(limit))
    }

    /// The moment itself.
    pub fn at(self) -> Duration {
        self.0
    }

    /// What is left, at least zero.
    pub fn left(self, clock: &dyn Clock) -> Duration {
        self.0.saturating_sub(clock.monotonic())
    }
}
