//! Tells tasks that the log has grown, at the cost of one atomic operation where none waits.

use std::sync::atomic::{fence, AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// See the module's text. Cheap to clone.
#[derive(Clone, Default)]
pub struct LogSignal(Arc<Inner>);

#[derive(Default)]
struct Inner {
    changes: AtomicU64,
    any: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
}

impl LogSignal {
    /// Something is new: more is in the log, on disk or confirmed.
    pub fn notify(&self) {
        self.0.changes.fetch_add(1, Ordering::Release);
        // Here the change comes before the look for waiters, there the waiter before the look for changes.
        fence(Ordering::SeqCst);
        if self.0.any.load(Ordering::Relaxed) && self.0.any.swap(false, Ordering::AcqRel) {
            let waiting = std::mem::take(&mut *self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner));
            waiting.into_iter().for_each(Waker::wake);
        }
    }

    /// Ready if there was something new since `seen`, which it updates; else the task is woken when there is.
    pub fn poll_changed(&self, seen: &mut u64, cx: &mut Context<'_>) -> Poll<()> {
        if self.look(seen) {
            return Poll::Ready(());
        }
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            waiting.push(cx.waker().clone());
        }
        drop(waiting);
        self.0.any.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        match self.look(seen) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    fn look(&self, seen: &mut u64) -> bool {
        let changes = self.0.changes.load(Ordering::Acquire);
        std::mem::replace(seen, changes) != changes
    }
}
