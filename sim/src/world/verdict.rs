//! The first broken promise of a run.

use std::future::poll_fn;
use std::sync::{MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use super::{NodeId, World};
use crate::checkers::Violation;

/// The first broken promise, and who waits for it.
#[derive(Default)]
pub(super) struct Verdict {
    pub(super) violation: Option<Violation>,
    pub(super) waker: Option<Waker>,
}

impl World {
    /// Reports a broken promise from anywhere in the run; the first one counts, and ends the run.
    pub fn violated(&self, violation: Violation) {
        self.note(NodeId::WORLD, "violated", &[], &violation.to_string());
        let mut verdict = self.verdict();
        verdict.violation.get_or_insert(violation);
        if let Some(waker) = verdict.waker.take() {
            waker.wake();
        }
    }

    /// Completes with the first broken promise.
    pub async fn first_violation(&self) -> Violation {
        poll_fn(|cx| {
            let mut verdict = self.verdict();
            verdict.waker = Some(cx.waker().clone());
            verdict.violation.clone().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// The first broken promise that was reported.
    pub fn violation(&self) -> Option<Violation> {
        self.verdict().violation.clone()
    }

    fn verdict(&self) -> MutexGuard<'_, Verdict> {
        self.0.verdict.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
