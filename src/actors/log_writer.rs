//! The log writer: the one actor that assigns offsets and writes the log.
//!
//! Its mailbox is first in, first out, which gives group commit without a timer: a `Commit` sent to itself runs after
//! every append that was queued before it, and while one sync is under way the next group gathers.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::sync::oneshot;

use crate::env::{BuggifySite, Canary, Env, Millis};
use crate::proto::PhysicalOffset;
use crate::store::{AppendBatch, AppendResult, FlushMode, LogWriter, Store, StoreError, SyncDone};

/// What became of an appended batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It is as durable as the flush mode promises.
    AsPromised,
    /// It is stored, but the sync did not end within `syncFlushTimeout`.
    SyncTimedOut,
    /// The sync failed: the bytes may or may not survive.
    SyncFailed,
}

/// The answer to [`LogMessage::Append`]: one result per item, and the batch back for its buffers.
pub struct Appended {
    /// The batch, with its offsets filled in.
    pub batch: AppendBatch,
    /// One per item of the batch, in its order.
    pub results: Vec<AppendResult>,
    /// Holds for those items whose result is `Ok`.
    pub durability: Durability,
}

/// What the log writer is told.
pub enum LogMessage {
    /// Append these records and answer once they are as durable as promised.
    Append {
        /// The records.
        batch: AppendBatch,
        /// Gets the results.
        reply: oneshot::Sender<Appended>,
    },
    /// Start a sync for everything appended so far.
    Commit,
    /// A sync has ended.
    Synced {
        /// What it covered, and whether it went well.
        done: SyncDone,
    },
    /// Look for batches that have waited too long.
    Deadline,
    /// Prepare the next segment, write gathered queue entries, save the checkpoint.
    Maintain,
    /// Flush everything and mark the store as cleanly closed; the writer takes nothing afterwards.
    Close {
        /// Gets the outcome.
        reply: RpcReplyPort<Result<(), StoreError>>,
    },
}

/// Settings of the log writer.
#[derive(Clone, Copy, Debug)]
pub struct LogWriterOptions {
    /// When a send counts as done.
    pub flush: FlushMode,
    /// How long a send waits for its sync (`syncFlushTimeout`).
    pub sync_timeout: Duration,
    /// How often gathered work is done and, under ASYNC_FLUSH, the log is synced (`flushIntervalCommitLog`).
    pub flush_interval: Duration,
}

/// Sends batches to the log writer. Cheap to clone.
#[derive(Clone)]
pub struct LogWriterHandle {
    actor: ActorRef<LogMessage>,
}

impl LogWriterHandle {
    /// Starts the log writer. Its end is reported to `supervisor`.
    ///
    /// # Errors
    /// If the actor cannot be spawned.
    pub async fn start<M: ractor::Message>(
        env: &Env,
        store: Arc<Store>,
        writer: LogWriter,
        options: LogWriterOptions,
        supervisor: &ActorRef<M>,
    ) -> anyhow::Result<Self> {
        let arguments = Arguments { env: env.clone(), store, writer, options };
        let (actor, _) = Actor::spawn_linked(None, LogWriterActor, arguments, supervisor.get_cell()).await?;
        Ok(LogWriterHandle { actor })
    }

    /// Hands a batch over. The receiver fails if the writer has stopped: then nothing is known about the batch.
    pub fn append(&self, batch: AppendBatch) -> oneshot::Receiver<Appended> {
        let (reply, appended) = oneshot::channel();
        // If the writer is gone the message is dropped, and the receiver says so.
        let _ = self.actor.cast(LogMessage::Append { batch, reply });
        appended
    }

    /// Flushes everything and marks the store as cleanly closed. No append succeeds afterwards.
    ///
    /// # Errors
    /// The store's error, or a text that says that the writer did not answer within `limit`.
    pub async fn close(&self, limit: Duration) -> anyhow::Result<()> {
        match self.actor.call(|reply| LogMessage::Close { reply }, Some(limit)).await? {
            ractor::rpc::CallResult::Success(result) => Ok(result?),
            _ => anyhow::bail!("the log writer did not close the store within {limit:?}"),
        }
    }
}

struct LogWriterActor;

struct Arguments {
    env: Env,
    store: Arc<Store>,
    writer: LogWriter,
    options: LogWriterOptions,
}

/// A batch that waits for its sync.
struct Waiting {
    /// The log's end right behind the batch.
    end: PhysicalOffset,
    deadline: Millis,
    appended: Appended,
    reply: oneshot::Sender<Appended>,
}

struct State {
    env: Env,
    store: Arc<Store>,
    writer: LogWriter,
    options: LogWriterOptions,
    /// In the order of their ends.
    waiting: std::collections::VecDeque<Waiting>,
    commit_queued: bool,
    syncing: bool,
    deadline_armed: bool,
    closed: bool,
}

impl Actor for LogWriterActor {
    type Msg = LogMessage;
    type State = State;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        arguments: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        let Arguments { env, store, writer, options } = arguments;
        myself.send_interval(options.flush_interval, || LogMessage::Maintain);
        Ok(State {
            env,
            store,
            writer,
            options,
            waiting: Default::default(),
            commit_queued: false,
            syncing: false,
            deadline_armed: false,
            closed: false,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            LogMessage::Append { batch, reply } => state.append(&myself, batch, reply)?,
            LogMessage::Commit => {
                state.commit_queued = false;
                state.start_sync(&myself);
            }
            LogMessage::Synced { done } => state.synced(&myself, done)?,
            LogMessage::Deadline => state.deadline(&myself),
            LogMessage::Maintain => state.maintain(&myself).await,
            LogMessage::Close { reply } => {
                let result = state.close().await;
                let _ = reply.send(result);
            }
        }
        Ok(())
    }
}

impl State {
    fn append(
        &mut self,
        myself: &ActorRef<LogMessage>,
        mut batch: AppendBatch,
        reply: oneshot::Sender<Appended>,
    ) -> Result<(), ActorProcessingErr> {
        let mut results = Vec::with_capacity(batch.items.len());
        self.writer.append(&mut batch, &mut results);
        let appended = Appended { batch, results, durability: Durability::AsPromised };
        let must_sync = self.options.flush == FlushMode::Sync && appended.results.iter().any(Result::is_ok);
        if !must_sync || self.env.canary(Canary::AcknowledgeBeforeSync) {
            wake_readers(&appended.batch);
            // A session that has ended needs no answer.
            let _ = reply.send(appended);
            if !must_sync {
                return Ok(());
            }
        } else {
            let deadline = self.env.clock.now().plus(self.options.sync_timeout.as_millis() as i64);
            self.waiting.push_back(Waiting { end: self.writer.end(), deadline, appended, reply });
            self.arm_deadline(myself);
        }
        if self.env.buggify(BuggifySite::ShortBatch) {
            self.start_sync(myself);
        } else if !std::mem::replace(&mut self.commit_queued, true) {
            myself.cast(LogMessage::Commit)?;
        }
        Ok(())
    }

    /// Starts a sync unless one is under way; the end of that one starts the next.
    fn start_sync(&mut self, myself: &ActorRef<LogMessage>) {
        if self.syncing {
            return;
        }
        if let Some(sync) = self.writer.start_sync() {
            self.syncing = true;
            let myself = myself.clone();
            ractor::concurrency::spawn(async move {
                let done = sync.await;
                // If the writer is gone nobody waits for this any more.
                let _ = myself.cast(LogMessage::Synced { done });
            });
        }
    }

    fn synced(&mut self, myself: &ActorRef<LogMessage>, done: SyncDone) -> Result<(), ActorProcessingErr> {
        self.syncing = false;
        match self.writer.finish_sync(done) {
            Ok(flushed) => {
                while self.waiting.front().is_some_and(|waiting| waiting.end <= flushed) {
                    let waiting = self.waiting.pop_front().expect("a front was seen");
                    wake_readers(&waiting.appended.batch);
                    let _ = waiting.reply.send(waiting.appended);
                }
                if !self.waiting.is_empty() {
                    self.start_sync(myself);
                }
            }
            Err(error) => {
                tracing::error!(%error, "a sync failed: the store takes no more writes until the broker is restarted");
                for mut waiting in self.waiting.drain(..) {
                    waiting.appended.durability = Durability::SyncFailed;
                    let _ = waiting.reply.send(waiting.appended);
                }
            }
        }
        Ok(())
    }

    /// Answers batches whose sync takes too long. Their records stay and are seen once the sync has ended.
    fn deadline(&mut self, myself: &ActorRef<LogMessage>) {
        self.deadline_armed = false;
        let now = self.env.clock.now();
        for waiting in self.waiting.iter_mut().filter(|waiting| waiting.deadline <= now) {
            // The batch is kept for its queues' readers; the answer goes out with a copy of what it needs.
            let (kept, _) = oneshot::channel();
            let reply = std::mem::replace(&mut waiting.reply, kept);
            if !reply.is_closed() {
                let _ = reply.send(Appended {
                    batch: waiting.appended.batch.clone(),
                    results: waiting.appended.results.clone(),
                    durability: Durability::SyncTimedOut,
                });
            }
            waiting.deadline = Millis(i64::MAX);
        }
        self.arm_deadline(myself);
    }

    fn arm_deadline(&mut self, myself: &ActorRef<LogMessage>) {
        if self.deadline_armed {
            return;
        }
        let Some(next) = self.waiting.iter().map(|waiting| waiting.deadline).find(|deadline| deadline.0 != i64::MAX)
        else {
            return;
        };
        self.deadline_armed = true;
        let wait = Duration::from_millis(next.since(self.env.clock.now()) + 1);
        myself.send_after(wait, || LogMessage::Deadline);
    }

    async fn maintain(&mut self, myself: &ActorRef<LogMessage>) {
        let now = self.env.clock.now();
        if let Err(error) = self.writer.maintain(now).await {
            tracing::error!(%error, "upkeep of the log failed");
        }
        self.start_sync(myself);
    }

    async fn close(&mut self) -> Result<(), StoreError> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        let result = self.writer.close().await;
        for waiting in self.waiting.drain(..) {
            wake_readers(&waiting.appended.batch);
            let _ = waiting.reply.send(waiting.appended);
        }
        let _ = &self.store;
        result
    }
}

/// Tells parked pulls that the batch's queues have grown.
fn wake_readers(batch: &AppendBatch) {
    for item in &batch.items {
        item.queue.wake_waiters();
    }
}
