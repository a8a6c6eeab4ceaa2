//! What applications do with messages.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{CatchUnwind, OptionFuture};
use futures::FutureExt;

use crate::client::message::Received;
use crate::client::trace::ConsumeCode;
use crate::env::BoxFuture;

/// What becomes of a message, or batch, that a concurrent listener got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is consumed.
    Done,
    /// It failed and comes again; each time later than the last, from 10 s to 2 h.
    Retry,
    /// It failed and comes again after the delay of this level: 1 is 1 s, 3 is 10 s, 5 is 1 min.
    RetryAtLevel(u8),
    /// It is hopeless: to the group's dead letters, at once.
    DeadLetter,
}

/// What becomes of a message that an orderly listener got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderlyAction {
    /// It is consumed.
    Done,
    /// It failed: its queue stands still a moment (a second, unless set otherwise), then it comes again.
    Suspend,
    /// It failed: its queue stands still so long, 10 ms to 30 s, then it comes again.
    SuspendFor(Duration),
    /// It is hopeless: to the group's dead letters, and its queue goes on.
    DeadLetter,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Done,
    /// 0: the broker chooses when; negative: never.
    Retry(i32),
    /// `None`: as long as the consumer's settings say.
    Suspend(Option<Duration>),
    DeadLetter,
}

impl From<Action> for Verdict {
    fn from(action: Action) -> Verdict {
        match action {
            Action::Done => Verdict::Done,
            Action::Retry => Verdict::Retry(0),
            Action::RetryAtLevel(level) => Verdict::Retry(i32::from(level)),
            Action::DeadLetter => Verdict::DeadLetter,
        }
    }
}

impl From<OrderlyAction> for Verdict {
    fn from(action: OrderlyAction) -> Verdict {
        match action {
            OrderlyAction::Done => Verdict::Done,
            OrderlyAction::Suspend => Verdict::Suspend(None),
            OrderlyAction::SuspendFor(pause) => Verdict::Suspend(Some(pause)),
            OrderlyAction::DeadLetter => Verdict::DeadLetter,
        }
    }
}

impl ConsumeCode {
    /// What became of a call; `None`: it took too long.
    pub(super) fn of(verdict: Option<Verdict>) -> ConsumeCode {
        match verdict {
            Some(Verdict::Done) => ConsumeCode::Success,
            Some(_) => ConsumeCode::Failed,
            None => ConsumeCode::TimedOut,
        }
    }
}

/// An application's listener.
pub(super) type Listener = Arc<dyn Fn(Vec<Arc<Received>>) -> BoxFuture<'static, Verdict> + Send + Sync>;

/// A call of the application that may panic, at once or later. Only `Some(Ok(_))` is what it gives.
pub(super) fn guarded<F: Future>(call: impl FnOnce() -> F) -> OptionFuture<CatchUnwind<AssertUnwindSafe<F>>> {
    let future = std::panic::catch_unwind(AssertUnwindSafe(call)).ok();
    future.map(|future| AssertUnwindSafe(future).catch_unwind()).into()
}

/// A listener of batches. One that panics has failed to consume.
pub(super) fn of_batches<F, A>(listen: impl Fn(Vec<Arc<Received>>) -> F + Send + Sync + 'static, failed: A) -> Listener
where
    F: Future<Output = A> + Send + 'static,
    A: Into<Verdict> + Copy + Send + Sync + 'static,
{
    Arc::new(move |batch| {
        let call = guarded(|| listen(batch));
        Box::pin(async move {
            let action = call.await.and_then(Result::ok).unwrap_or_else(|| {
                tracing::error!("a listener panicked; its messages count as failed");
                failed
            });
            action.into()
        })
    })
}

/// A listener of single messages.
pub(super) fn of_messages<F, A>(listen: impl Fn(Arc<Received>) -> F + Send + Sync + 'static, failed: A) -> Listener
where
    F: Future<Output = A> + Send + 'static,
    A: Into<Verdict> + Copy + Send + Sync + 'static,
{
    let listen = Arc::new(listen);
    of_batches(
        move |batch: Vec<Arc<Received>>| {
            let listen = Arc::clone(&listen);
            async move {
                let mut last = None;
                for message in batch {
                    last = Some(listen(message).await);
                }
                last.unwrap_or(failed)
            }
        },
        failed,
    )
}
