//! Time.

use std::time::Duration;

use futures::future::BoxFuture;

/// A wall-clock time: milliseconds since 1970-01-01 UTC. RocketMQ's formats hold it as a signed 64-bit integer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Millis(pub i64);

impl Millis {
    /// Milliseconds from `earlier` to this time; 0 if `earlier` is later.
    pub fn since(self, earlier: Millis) -> u64 {
        self.0.saturating_sub(earlier.0).max(0) as u64
    }

    /// This time moved by `millis`, which may be negative.
    pub fn plus(self, millis: i64) -> Millis {
        Millis(self.0.saturating_add(millis))
    }
}

/// The time of one node.
pub trait Clock: Send + Sync + 'static {
    /// Wall-clock time. It may jump in both directions; measure waits with [`Clock::monotonic`].
    fn now(&self) -> Millis;

    /// Time since an arbitrary start; never goes backwards.
    fn monotonic(&self) -> Duration;

    /// What to add to UTC to get this node's local time now, in seconds: retention hours and index file names are local.
    fn local_offset_seconds(&self) -> i32 {
        0
    }

    /// Completes once `duration` of monotonic time has passed. Resolution 1 ms.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}
