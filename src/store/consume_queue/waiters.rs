//! Readers that wait for the next message of a queue.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::proto::QueueOffset;

/// Called once with the queue's new maximum. It runs in the log writer, so it only passes word on.
pub type Waiter = Box<dyn FnOnce(QueueOffset) + Send>;

/// Names a parked reader of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaiterId(u64);

#[derive(Default)]
pub(super) struct Waiters {
    /// Number of parked readers, to be read without the lock.
    count: AtomicU32,
    parked: Mutex<Parked>,
}

#[derive(Default)]
struct Parked {
    next_id: u64,
    readers: Vec<(WaiterId, QueueOffset, Waiter)>,
}

impl Waiters {
    pub(super) fn add(&self, from: QueueOffset, waiter: Waiter) -> WaiterId {
        let mut parked = self.parked();
        let id = WaiterId(parked.next_id);
        parked.next_id += 1;
        parked.readers.push((id, from, waiter));
        self.count.store(parked.readers.len() as u32, Ordering::SeqCst);
        id
    }

    pub(super) fn remove(&self, id: WaiterId) -> Option<Waiter> {
        let mut parked = self.parked();
        let at = parked.readers.iter().position(|(parked, ..)| *parked == id)?;
        let (.., waiter) = parked.readers.remove(at);
        self.settle(&mut parked);
        Some(waiter)
    }

    pub(super) fn take_all(&self) -> Vec<Waiter> {
        let mut parked = self.parked();
        let taken = parked.readers.drain(..).map(|(.., waiter)| waiter).collect();
        self.settle(&mut parked);
        taken
    }

    pub(super) fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed) as usize
    }

    /// Calls those who wait for an entry below `max`, in the order in which they were parked, without the lock.
    pub(super) fn wake(&self, max: QueueOffset) {
        let woken: Vec<_> = {
            let mut parked = self.parked();
            let woken = parked.readers.extract_if(.., |(_, from, _)| *from < max).collect();
            self.settle(&mut parked);
            woken
        };
        for (_, _, waiter) in woken {
            waiter(max);
        }
    }

    /// An idle queue keeps no memory for readers it once had.
    fn settle(&self, parked: &mut Parked) {
        if parked.readers.is_empty() {
            parked.readers = Vec::new();
        }
        self.count.store(parked.readers.len() as u32, Ordering::SeqCst);
    }

    fn parked(&self) -> MutexGuard<'_, Parked> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
