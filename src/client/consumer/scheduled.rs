//! Pulls on a schedule: the application says after each when the next one of that queue is.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::core::{Core, Handler};
use super::listener::guarded;
use super::owned::OwnedQueue;
use super::poll::PullConsumerBuilder;
use super::pull::{after_error, pull, taken_away, Pulled};
use super::rebalance::RebalanceMessage;
use super::stop::Held;
use crate::client::error::Error;
use crate::client::message::Received;
use crate::client::timing::within;
use crate::client::MessageQueue;
use crate::env::BoxFuture;

/// When messages come again whose call panicked.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// What comes after a scheduled pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextPull {
    /// The messages are consumed; the queue is asked for more after this time.
    After(Duration),
    /// The messages are not consumed; the same come again after this time.
    Again(Duration),
}

/// An application's part in it.
pub(super) type Task = Arc<dyn Fn(MessageQueue, Vec<Arc<Received>>) -> BoxFuture<'static, NextPull> + Send + Sync>;

/// A member of a consumer group that asks each of its queues for messages when its task wants it to, made by
/// [`PullConsumerBuilder::scheduled`].
///
/// Queues come and go as members do; a call that runs when its queue is taken away is waited for up to half a second, and
/// what it did counts if it was in time. There are no retries and no dead letters.
///
/// ```no_run
/// # use metaq::client::{Client, NextPull};
/// # use std::time::Duration;
/// # async fn example(client: Client) -> Result<(), metaq::client::Error> {
/// let task = |_queue, messages: Vec<_>| async move {
///     let pause = if messages.is_empty() { Duration::from_secs(60) } else { Duration::ZERO };
///     NextPull::After(pause)
/// };
/// let consumer = client.pull_consumer("archive").subscribe("Orders", "*").poll_max(500).scheduled(task).await?;
/// consumer.stop(Duration::from_secs(10)).await;
/// # Ok(())
/// # }
/// ```
pub struct ScheduledConsumer {
    core: Held,
}

impl PullConsumerBuilder {
    /// Starts with a task that is called for each queue this consumer has, with what a pull of it brought: up to
    /// [`poll_max`](PullConsumerBuilder::poll_max) messages in order, none if there are none. The task says when the next
    /// pull is. Calls for one queue never overlap; 20 run at a time. A call that panics counts as `Again` after 1 s.
    ///
    /// # Errors
    /// As [`PullConsumerBuilder::start`].
    pub async fn scheduled<F>(
        mut self,
        task: impl Fn(MessageQueue, Vec<Arc<Received>>) -> F + Send + Sync + 'static,
    ) -> Result<ScheduledConsumer, Error>
    where
        F: Future<Output = NextPull> + Send + 'static,
    {
        self.setup.settings.limits.span = None;
        self.setup.settings.pull_batch = self.poll_max.min(1024) as i32;
        let task: Task = Arc::new(move |queue, messages| {
            let call = guarded(|| task(queue, messages));
            Box::pin(async move {
                call.await.and_then(Result::ok).unwrap_or_else(|| {
                    tracing::error!("a scheduled pull's task panicked; its messages come again");
                    NextPull::Again(AFTER_PANIC)
                })
            })
        });
        Ok(ScheduledConsumer { core: self.setup.start(Handler::Scheduled(task)).await? })
    }
}

impl ScheduledConsumer {
    /// The queues it has now.
    pub fn queues(&self) -> Vec<MessageQueue> {
        self.core.owned().keys().cloned().collect()
    }

    /// Ends: begins no call, waits at most `grace` for those that run and then drops them, commits, and leaves the group.
    pub async fn stop(self, grace: Duration) {
        self.core.stop(grace).await;
    }
}

/// Pulls and calls until the queue is taken away.
pub(super) async fn run(core: Arc<Core>, owned: Arc<OwnedQueue>) {
    let mut broker_id = 0;
    loop {
        let pause = match fetch(&core, &owned, &mut broker_id).await {
            Ok(()) => match turn(&core, &owned).await {
                Some(pause) => pause,
                None => return,
            },
            Err(Stop::Moved { next }) => return core.tell(RebalanceMessage::Moved { owned, next }),
            Err(Stop::Failed(Error::Closed)) => return,
            Err(Stop::Failed(error)) => after_error(&core, &owned, &error),
        };
        within(&*core.client.env.clock, pause, taken_away(&owned)).await;
    }
}

/// Why there is nothing to call the task with.
enum Stop {
    Moved { next: i64 },
    Failed(Error),
}

/// Brings the next messages, unless some are left of an earlier pull: as many as one pull gives, or none at the queue's
/// end.
async fn fetch(core: &Arc<Core>, owned: &OwnedQueue, broker_id: &mut i64) -> Result<(), Stop> {
    while !owned.is_dropped() && !owned.process().has_more() {
        let before = owned.process().pulled_to();
        let subscription = core.subscription(&owned.queue.topic).unwrap_or_default();
        match pull(core, owned, *broker_id, &subscription).await.map_err(Stop::Failed)? {
            Pulled::Moved { next } => return Err(Stop::Moved { next }),
            Pulled::Messages { messages, next, broker_id: id } => {
                *broker_id = id;
                owned.put(messages, next);
                // A pull may pass over messages that are not wanted, and there may be others behind them.
                if next <= before {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// Calls the task with what is there; how long until the next pull. `None`: the queue was taken away, or the consumer
/// stops.
async fn turn(core: &Core, owned: &OwnedQueue) -> Option<Duration> {
    let Handler::Scheduled(task) = &core.handler else { return None };
    let _permit = core.life.turn().await?;
    // Whoever takes the queue away waits for this, then commits what is done.
    let _busy = owned.busy.lock().await;
    let _running = core.life.begin();
    if owned.is_dropped() || core.is_stopping() {
        return None;
    }
    let messages = owned.process().take(core.settings.pull_batch as usize);
    let next = core.life.unless_ended(task(owned.queue.clone(), messages.clone())).await?;
    match next {
        NextPull::After(pause) => {
            if let Some(recorder) = core.recorder().filter(|_| !messages.is_empty()) {
                // Before anything can be committed.
                recorder.consumed(&core.group, &messages);
            }
            owned.taken_done();
            Some(pause)
        }
        NextPull::Again(pause) => {
            owned.process().put_back();
            Some(pause)
        }
    }
}
