//! The part of async-std that ractor calls, dispatched at run time: inside a madsim runtime to madsim, elsewhere to
//! tokio. So one build of the product's library runs in the simulator and over real TCP.

#[cfg(not(madsim))]
compile_error!(
    "the simulator needs `--cfg madsim`, which .cargo/config.toml sets: a RUSTFLAGS variable in the environment \
     replaces it, so unset RUSTFLAGS"
);

use std::sync::OnceLock;
use std::time::Duration;

/// True while the calling thread runs inside a simulation.
fn simulated() -> bool {
    madsim::runtime::Handle::try_current().is_ok()
}

/// How much simulated time passes while the machine that runs the present task counts a duration.
type Pace = fn(Duration) -> Duration;

static PACE: OnceLock<Pace> = OnceLock::new();

/// Lets timers inside simulations go as fast as the clocks of their machines. The first call counts.
pub fn set_pace(pace: Pace) {
    let _ = PACE.set(pace);
}

fn paced(duration: Duration) -> Duration {
    PACE.get().map_or(duration, |pace| pace(duration))
}

/// Time-outs.
pub mod future {
    pub use std::future::Future;
    use std::time::Duration;

    /// The time passed before the future was ready.
    #[derive(Debug)]
    pub struct TimeoutError;

    /// Awaits `future` for at most `limit`.
    pub async fn timeout<F: Future>(limit: Duration, future: F) -> Result<F::Output, TimeoutError> {
        if crate::simulated() {
            madsim::time::timeout(crate::paced(limit), future).await.map_err(|_| TimeoutError)
        } else {
            tokio::time::timeout(limit, future).await.map_err(|_| TimeoutError)
        }
    }
}

/// Tasks.
pub mod task {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use std::time::Duration;

    /// A spawned task. As in async-std it has no error: a task that was killed never completes.
    pub enum JoinHandle<T> {
        /// Runs in a simulation.
        Sim(madsim::task::JoinHandle<T>),
        /// Runs on tokio.
        Real(tokio::task::JoinHandle<T>),
        /// Was killed.
        Gone,
    }

    impl<T> JoinHandle<T> {
        /// Stops the task at its next await.
        pub async fn cancel(self) {
            match self {
                JoinHandle::Sim(handle) => handle.abort(),
                JoinHandle::Real(handle) => handle.abort(),
                JoinHandle::Gone => {}
            }
        }
    }

    impl<T> Future for JoinHandle<T> {
        type Output = T;

        fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
            let finished = match &mut *self {
                JoinHandle::Sim(handle) => match Pin::new(handle).poll(cx) {
                    Poll::Ready(result) => result.ok(),
                    Poll::Pending => return Poll::Pending,
                },
                JoinHandle::Real(handle) => match Pin::new(handle).poll(cx) {
                    Poll::Ready(Ok(value)) => Some(value),
                    Poll::Ready(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                    Poll::Ready(Err(_)) => None,
                    Poll::Pending => return Poll::Pending,
                },
                JoinHandle::Gone => return Poll::Pending,
            };
            match finished {
                Some(value) => Poll::Ready(value),
                None => {
                    *self = JoinHandle::Gone;
                    Poll::Pending
                }
            }
        }
    }

    /// Starts a task on the runtime the caller runs on.
    pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        if crate::simulated() {
            JoinHandle::Sim(madsim::task::spawn(future))
        } else {
            JoinHandle::Real(tokio::task::spawn(future))
        }
    }

    /// Starts a task that stays on the calling thread.
    pub fn spawn_local<F>(future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        if crate::simulated() {
            JoinHandle::Sim(madsim::task::spawn_local(future))
        } else {
            JoinHandle::Real(tokio::task::spawn_local(future))
        }
    }

    /// Waits.
    pub async fn sleep(duration: Duration) {
        if crate::simulated() {
            madsim::time::sleep(crate::paced(duration)).await
        } else {
            tokio::time::sleep(duration).await
        }
    }

    /// Starts named tasks; the name is not kept.
    #[derive(Default)]
    pub struct Builder;

    impl Builder {
        /// A builder without settings.
        pub fn new() -> Self {
            Builder
        }

        /// Takes a name and forgets it.
        pub fn name(self, _name: String) -> Self {
            self
        }

        /// As [`spawn`]; never fails.
        pub fn spawn<F>(self, future: F) -> std::io::Result<JoinHandle<F::Output>>
        where
            F: Future + Send + 'static,
            F::Output: Send + 'static,
        {
            Ok(spawn(future))
        }
    }

    /// Runs a future to its end on a runtime of its own. Panics inside a simulation, which has one already.
    pub fn block_on<F: Future>(future: F) -> F::Output {
        assert!(!crate::simulated(), "block_on inside a simulation");
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a tokio runtime starts")
            .block_on(future)
    }
}

// ractor re-exports an item of this name.
pub use madsim::test;
