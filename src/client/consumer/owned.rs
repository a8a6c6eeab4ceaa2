//! One queue, from the moment it is given to this consumer until it is taken away. If it comes back, it is another one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;

use crate::client::message::Received;
use crate::client::rules::process_queue::ProcessQueue;
use crate::client::MessageQueue;

/// See the module's text.
pub(super) struct OwnedQueue {
    pub queue: MessageQueue,
    process: Mutex<ProcessQueue>,
    /// Taken away: nothing may be begun any more, and nothing moves its offset.
    dropped: AtomicBool,
    paused: AtomicBool,
    /// Wakes the pull loop: room, resumed, dropped.
    pub room: Notify,
    /// Wakes the worker: messages, dropped.
    pub arrived: Notify,
    /// Wakes whoever must know that the lock is lost.
    pub lost: Notify,
    /// Held by an orderly worker while a batch is with the application.
    pub busy: tokio::sync::Mutex<()>,
    /// Held while an offset is on its way to the broker, so that a later one cannot arrive before; the last that did.
    pub committed: tokio::sync::Mutex<Option<i64>>,
    /// Until when this client may act as the owner of the broker's lock, by its monotonic clock.
    locked_until: Mutex<Option<Duration>>,
}

impl OwnedQueue {
    /// `committed` is what the broker has already.
    pub fn new(queue: MessageQueue, start: i64, committed: Option<i64>, locked_until: Option<Duration>) -> OwnedQueue {
        OwnedQueue {
            queue,
            process: Mutex::new(ProcessQueue::starting_at(start)),
            dropped: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            room: Notify::new(),
            arrived: Notify::new(),
            lost: Notify::new(),
            busy: tokio::sync::Mutex::default(),
            committed: tokio::sync::Mutex::new(committed),
            locked_until: Mutex::new(locked_until),
        }
    }

    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// Takes the queue away; true if it was there until now.
    pub fn take_away(&self) -> bool {
        let first = !self.dropped.swap(true, Ordering::AcqRel);
        self.room.notify_one();
        self.arrived.notify_one();
        first
    }

    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Acquire)
    }

    pub fn set_paused(&self, paused: bool) {
        self.paused.store(paused, Ordering::Release);
        self.room.notify_one();
    }

    pub fn process(&self) -> MutexGuard<'_, ProcessQueue> {
        self.process.lock().expect("no holder panics")
    }

    /// Messages came, and the next pull begins at `next`.
    pub fn put(&self, messages: Vec<Arc<Received>>, next: i64) {
        let any = !messages.is_empty();
        self.process().put(messages, next);
        if any {
            self.arrived.notify_one();
        }
    }

    /// Messages are consumed. Those of a queue that was taken away are their new owner's.
    pub fn done(&self, offsets: impl IntoIterator<Item = i64>) {
        let mut process = self.process();
        offsets.into_iter().for_each(|offset| process.done(offset));
        drop(process);
        self.room.notify_one();
    }

    /// The application has consumed what it took.
    pub fn taken_done(&self) {
        self.process().taken_done();
        self.room.notify_one();
    }

    /// Until when the lock may be relied on; `None` if it was lost, or there is none.
    pub fn locked_until(&self) -> Option<Duration> {
        *self.locked_until.lock().expect("no holder panics")
    }

    /// The broker renewed the lock, or refused to.
    pub fn set_locked(&self, until: Option<Duration>) {
        *self.locked_until.lock().expect("no holder panics") = until;
        if until.is_none() {
            self.lost.notify_one();
        }
    }

    /// Whether this client may act as the lock's owner.
    pub fn is_locked(&self, now: Duration) -> bool {
        self.locked_until().is_some_and(|until| now < until)
    }
}
