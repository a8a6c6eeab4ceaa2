//! Calls of the listener: how many run, and how they end with the consumer.

use std::future::{poll_fn, Future};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

use tokio::sync::{Notify, Semaphore, SemaphorePermit};

/// See the module's text.
pub(super) struct Life {
    permits: Semaphore,
    /// Nothing new begins; what runs may end.
    stopping: AtomicBool,
    /// Calls that still run are dropped.
    ended: AtomicBool,
    end: Notify,
    running: AtomicUsize,
    idle: Notify,
}

impl Life {
    /// Lets `concurrency` calls run at a time.
    pub fn new(concurrency: usize) -> Life {
        Life {
            permits: Semaphore::new(concurrency.clamp(1, Semaphore::MAX_PERMITS)),
            stopping: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            end: Notify::new(),
            running: AtomicUsize::new(0),
            idle: Notify::new(),
        }
    }

    /// Waits for a call's turn; `None` once the consumer stops.
    pub async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.permits.acquire().await.ok()
    }

    /// Counts a call, and what has to be done after it, until it is dropped. Whoever stops the consumer either waits for
    /// it or is seen by it: look at [`Life::is_stopping`] after this.
    pub fn begin(&self) -> Running<'_> {
        self.running.fetch_add(1, Ordering::AcqRel);
        Running(self)
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Nothing new begins from now on.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.permits.close();
    }

    /// Completes once no call runs. For one waiter.
    pub async fn idle(&self) {
        while self.running.load(Ordering::Acquire) > 0 {
            self.idle.notified().await;
        }
    }

    /// Drops all calls that still run, at their next await.
    pub fn end_calls(&self) {
        self.ended.store(true, Ordering::Release);
        self.end.notify_waiters();
    }

    /// Whether no call runs any more, nor ever will.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// What a call gives; `None` if it was dropped.
    pub async fn unless_ended<T>(&self, call: impl Future<Output = T>) -> Option<T> {
        // From here on no notification is missed.
        let (mut end, mut call) = (pin!(self.end.notified()), pin!(call));
        poll_fn(|cx| {
            if self.has_ended() {
                return Poll::Ready(None);
            }
            if let Poll::Ready(given) = call.as_mut().poll(cx) {
                return Poll::Ready(Some(given));
            }
            end.as_mut().poll(cx).map(|()| None)
        })
        .await
    }
}

/// See [`Life::begin`].
pub(super) struct Running<'a>(&'a Life);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if self.0.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.idle.notify_one();
        }
    }
}
