//! Pulls that wait on their queues.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use super::shared::Shared;
use crate::store::{ConsumeQueue, WaiterId};

/// A waiter in a queue; taken out again however the wait ends, also when its connection closes.
pub struct Parked {
    queue: Arc<ConsumeQueue>,
    id: WaiterId,
    shared: Arc<Shared>,
}

impl Parked {
    /// Counts a waiter that was just put there.
    pub fn new(queue: Arc<ConsumeQueue>, id: WaiterId, shared: Arc<Shared>) -> Self {
        shared.parked_pulls.fetch_add(1, Ordering::Relaxed);
        Parked { queue, id, shared }
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        self.queue.remove_waiter(self.id);
        let parked: &AtomicUsize = &self.shared.parked_pulls;
        parked.fetch_sub(1, Ordering::Relaxed);
    }
}
