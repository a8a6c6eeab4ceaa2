//! Taking queues and giving them back.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tracing::Instrument;

use super::core::{Core, Handler};
use super::owned::OwnedQueue;
use super::rebalance::State;
use super::{orderly, pull, scheduled};
use crate::client::error::Error;
use crate::client::rules::start::{start, Start};
use crate::client::timing::within;
use crate::client::MessageQueue;
use crate::proto::message::names::is_retry_topic;

/// How long a queue that is taken away waits for its listener before it is left for later.
const LISTENER_LIMIT: Duration = Duration::from_millis(500);

/// A queue that was taken away while its listener still runs, and the offset to keep for it, if not the one it got to.
pub(super) struct Leaving {
    pub owned: Arc<OwnedQueue>,
    pub offset: Option<i64>,
}

impl State {
    /// Takes queues: locks them if they are consumed in order, finds where to begin, and begins. False if some could not
    /// be had; nothing begins before its start is known for certain (OFF-1).
    pub async fn acquire(&mut self, queues: Vec<MessageQueue>) -> bool {
        let wanted = queues.len();
        let locked = if self.core.needs_locks() { self.locked(&queues).await } else { unlocked(queues) };
        let starts = locked.into_iter().map(|(queue, until)| {
            let (core, seek) = (Arc::clone(&self.core), self.seeks.get(&queue).copied());
            async move {
                let found = match seek {
                    Some(offset) => Ok((offset, None)),
                    None => find_start(&core, &queue).await,
                };
                (queue, until, found)
            }
        });
        let mut taken = 0;
        for (queue, until, found) in join_all(starts.collect::<Vec<_>>()).await {
            match found {
                Ok((offset, committed)) => {
                    taken += 1;
                    self.seeks.remove(&queue);
                    tracing::debug!(?queue, offset, "a queue is taken");
                    if let Some(recorder) = self.core.recorder() {
                        recorder.began(&self.core.group, &queue, offset);
                    }
                    self.begin(OwnedQueue::new(queue, offset, committed, until));
                }
                Err(error) => tracing::debug!(?queue, %error, "where to begin in a queue is not known yet"),
            }
        }
        taken == wanted
    }

    async fn locked(&self, queues: &[MessageQueue]) -> Vec<(MessageQueue, Option<Duration>)> {
        let mut locked = Vec::new();
        for (asked, answer) in self.core.lock(queues).await {
            match answer {
                Ok(granted) => {
                    let both = asked.intersection(&granted.queues);
                    locked.extend(both.map(|queue| (queue.clone(), Some(granted.until))));
                }
                Err(error) => tracing::debug!(%error, "queues could not be locked"),
            }
        }
        locked
    }

    fn begin(&self, owned: OwnedQueue) {
        let owned = Arc::new(owned);
        self.core.owned().insert(owned.queue.clone(), Arc::clone(&owned));
        let core = Arc::clone(&self.core);
        let MessageQueue { topic, broker_name: broker, queue_id } = &owned.queue;
        // It outlives the rebalance that it comes of.
        let span = tracing::debug_span!(parent: None, "queue", group = core.group, topic, broker, queue_id);
        if let Handler::Scheduled(_) = self.core.handler {
            ractor::concurrency::spawn(scheduled::run(core, owned).instrument(span));
            return;
        }
        if let Handler::Orderly(_) = self.core.handler {
            let worker = orderly::run(Arc::clone(&core), Arc::clone(&owned));
            ractor::concurrency::spawn(worker.instrument(span.clone()));
        }
        ractor::concurrency::spawn(pull::run(core, owned).instrument(span));
    }

    /// Gives queues back: nothing begins in them any more; where a listener still runs in order, the rest waits for it.
    pub async fn release(&mut self, queues: Vec<(Arc<OwnedQueue>, Option<i64>)>) {
        let mut leaving = Vec::new();
        for (owned, offset) in queues {
            if owned.take_away() {
                let mut table = self.core.owned();
                if table.get(&owned.queue).is_some_and(|current| Arc::ptr_eq(current, &owned)) {
                    table.remove(&owned.queue);
                }
                leaving.push(Leaving { owned, offset });
            }
        }
        self.part(leaving, LISTENER_LIMIT).await;
    }

    /// Tries again to give back queues whose listener ran on; false if some still do.
    pub async fn finish_leaving(&mut self) -> bool {
        let leaving = std::mem::take(&mut *self.core.leaving()).into_values().collect();
        self.part(leaving, Duration::ZERO).await;
        self.core.leaving().is_empty()
    }

    async fn part(&mut self, leaving: Vec<Leaving>, limit: Duration) {
        let core = &self.core;
        let parted = leaving.into_iter().map(|leaving| async move {
            let idle = match limit {
                Duration::ZERO => leaving.owned.busy.try_lock().is_ok(),
                limit => within(&*core.client.env.clock, limit, leaving.owned.busy.lock()).await.is_some(),
            };
            if idle {
                core.part_with(&leaving).await;
            }
            (leaving, idle)
        });
        let parted = join_all(parted.collect::<Vec<_>>()).await;
        let mut unlocked = Vec::new();
        for (leaving, idle) in parted {
            if !idle {
                self.core.leaving().insert(leaving.owned.queue.clone(), leaving);
            } else if self.core.may_act(&leaving.owned) && self.core.needs_locks() {
                unlocked.push(leaving.owned.queue.clone());
            }
        }
        if !unlocked.is_empty() {
            self.core.unlock(&unlocked).await;
        }
    }

    /// Ends the consumer: waits for calls of the listener that run, at most `grace`, then drops them, commits what is done,
    /// gives the locks back and leaves the group (OFF-10, REB-4).
    pub async fn stop(&mut self, grace: Duration) {
        let core = Arc::clone(&self.core);
        core.life.stop();
        if within(&*core.client.env.clock, grace, core.life.idle()).await.is_none() {
            tracing::warn!(group = core.group, "listeners still run and are dropped; their messages come again");
            // A broker frees the locks of a member that leaves: nothing may run on.
            core.life.end_calls();
        }
        let owned: Vec<_> = core.owned().values().cloned().collect();
        self.release(owned.into_iter().map(|owned| (owned, None)).collect()).await;
        let leaving = std::mem::take(&mut *self.core.leaving()).into_values().collect();
        self.part(leaving, LISTENER_LIMIT).await;
        core.life.end_calls();
        if let Err(error) = core.offsets.save().await {
            tracing::error!(%error, "offsets are not saved");
        }
        core.client.leave_consumers(&core.group).await;
    }
}

impl Core {
    /// Whether what this consumer did in a queue counts: always, but for a queue whose lock it lost.
    pub fn may_act(&self, owned: &OwnedQueue) -> bool {
        !self.needs_locks() || owned.is_locked(self.now())
    }

    async fn part_with(&self, leaving: &Leaving) {
        if self.may_act(&leaving.owned) && self.commits() {
            if let Err(error) = self.commit(&leaving.owned, leaving.offset).await {
                tracing::debug!(queue = ?leaving.owned.queue, %error, "the last offset was not committed");
            }
        }
    }

    /// Commits how far all owned queues are.
    pub async fn commit_owned(&self) {
        if !self.commits() {
            return;
        }
        let owned: Vec<_> = self.owned().values().cloned().collect();
        let commits = owned.iter().filter(|owned| self.may_act(owned) && !owned.is_dropped());
        let commits = commits.map(|owned| async move { (owned, self.commit(owned, None).await) });
        for (owned, result) in join_all(commits).await {
            if let Err(error) = result {
                tracing::debug!(queue = ?owned.queue, %error, "an offset was not committed");
            }
        }
        if let Err(error) = self.offsets.save().await {
            tracing::error!(%error, "offsets are not saved");
        }
    }
}

fn unlocked(queues: Vec<MessageQueue>) -> Vec<(MessageQueue, Option<Duration>)> {
    queues.into_iter().map(|queue| (queue, None)).collect()
}

/// Where to begin in a queue, and what is committed for it. A start that was chosen just now is committed at once: what
/// comes in between now and the first commit would be skipped by the next start (OFF-8).
async fn find_start(core: &Core, queue: &MessageQueue) -> Result<(i64, Option<i64>), Error> {
    let committed = core.offsets.read(&core.client, &core.group, queue).await?;
    if let Some(recorder) = core.recorder() {
        recorder.told_offset(&core.group, queue, committed);
    }
    let offset = match start(core.settings.consume_from, committed, is_retry_topic(&queue.topic)) {
        Start::At(offset) => return Ok((offset, committed)),
        Start::End => core.client.max_offset(queue).await?,
        Start::Search(time) => core.client.search_offset(queue, time).await?,
    };
    if core.commits() {
        core.write_offset(queue, offset).await?;
        return Ok((offset, Some(offset)));
    }
    Ok((offset, None))
}
