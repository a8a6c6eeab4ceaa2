//! Ending a consumer.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::core::Core;
use super::rebalance::RebalanceMessage;

/// A consumer as its application has it: dropped, it ends without waiting for what its listener has begun.
pub(super) struct Held(pub Arc<Core>);

impl Deref for Held {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.is_stopping() {
            self.abandon();
        }
    }
}

impl Core {
    /// Gives back all queues, waiting at most `grace` for calls of the listener that run, and leaves the group.
    pub async fn stop(&self, grace: Duration) {
        let (done, stopped) = oneshot::channel();
        self.tell(RebalanceMessage::Stop { grace, done });
        // An actor that is gone has nothing left to give back.
        let _ = stopped.await;
    }

    /// The same, without waiting for it.
    fn abandon(&self) {
        let (done, _) = oneshot::channel();
        self.tell(RebalanceMessage::Stop { grace: Duration::ZERO, done });
    }
}
