//! Ending a consumer.

use std::time::Duration;

use tokio::sync::oneshot;

use super::core::Core;
use super::rebalance::RebalanceMessage;

impl Core {
    /// Gives back all queues, waiting at most `grace` for calls of the listener that run, and leaves the group.
    pub async fn stop(&self, grace: Duration) {
        let (done, stopped) = oneshot::channel();
        self.tell(RebalanceMessage::Stop { grace, done });
        // An actor that is gone has nothing left to give back.
        let _ = stopped.await;
    }

    /// The same, without waiting for it.
    pub fn abandon(&self) {
        let (done, _) = oneshot::channel();
        self.tell(RebalanceMessage::Stop { grace: Duration::ZERO, done });
    }
}
