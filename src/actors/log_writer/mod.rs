//! The log writer: the one actor that assigns offsets and writes the log.
//!
//! Batches gather in a row beside its mailbox, and the first of them sends one `Write`: by the time that is handled,
//! all sessions that had something to read have added theirs. The same gives group commit without a timer: a `Commit`
//! sent to itself runs after every write that was queued before it, and while one sync is under way the next group
//! gathers.

mod following;
mod handle;
mod reply;
mod waiting;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

use super::broker::housekeeper::DispatchSignal;
use super::ha::{LogSignal, Quorum};
use crate::env::{BuggifySite, Canary, Env, Millis};
use crate::store::{
    AppendBatch, AppendItem, AppendResult, Deduplication, FlushMode, GroupId, JobDone, LogWriter, Progress, StoreError,
    SyncDone,
};

use following::Surgery;
pub use following::{Change, Replicate, Replicated};
use handle::Gathered;
pub use handle::LogWriterHandle;
use reply::Reply;
pub use reply::{Appended, Durability, Inbox, Ticket};
use waiting::Waiting;

/// How long upkeep goes on after the last append: queue files are synced, and the checkpoint with them, within a minute.
const UPKEEP_AFTER_APPEND: Duration = Duration::from_secs(70);

/// What the log writer is told.
pub enum LogMessage {
    /// Write the batches gathered so far.
    Write,
    /// Start a sync for everything appended so far.
    Commit,
    /// A sync has ended.
    Synced {
        /// What it covered, and whether it went well.
        done: SyncDone,
    },
    /// Slaves have said up to where they have the log.
    Replicated,
    /// Look for batches that have waited too long.
    Deadline,
    /// A master's log goes on.
    Replicate(Replicate),
    /// The log is to be changed in another way than by growing, once no sync and no job is under way.
    Operate {
        /// How.
        change: Change,
        /// Gets the outcome.
        reply: tokio::sync::oneshot::Sender<Result<(), StoreError>>,
    },
    /// Whether this log follows a master's from now on.
    SetFollowing {
        /// If it does, nothing is appended but what the master has.
        following: bool,
    },
    /// Sends that are in this table are answered with what they got first.
    SetDeduplication {
        /// It.
        table: Box<Deduplication>,
    },
    /// Prepare the next segment, write gathered queue entries, save the checkpoint.
    Maintain,
    /// A piece of that work has ended.
    JobDone {
        /// Which, and how.
        done: JobDone,
    },
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
    /// How long a send waits for slaves (`slaveTimeout`).
    pub slave_timeout: Duration,
    /// How often gathered work is done and, under ASYNC_FLUSH, the log is synced (`flushIntervalCommitLog`).
    pub flush_interval: Duration,
}

struct LogWriterActor;

struct Arguments {
    env: Env,
    writer: LogWriter,
    gathered: Arc<Mutex<Vec<Gathered>>>,
    options: LogWriterOptions,
    dispatch: DispatchSignal,
    quorum: Quorum,
    signal: LogSignal,
}

/// Bytes of batches that are joined for one write; a larger batch is written alone.
const JOINED_BYTES_MAX: usize = 256 * 1024;

struct State {
    env: Env,
    /// `None` once the store is closed.
    writer: Option<LogWriter>,
    options: LogWriterOptions,
    dispatch: DispatchSignal,
    /// Shared with the handles: batches in the order they came.
    gathered: Arc<Mutex<Vec<Gathered>>>,
    /// Room for those that are being written.
    writing: Vec<Gathered>,
    /// Several batches as one, while they are written.
    joined: AppendBatch,
    /// Something was written that the flush mode promises to sync.
    must_sync: bool,
    waiting: Waiting,
    quorum: Quorum,
    /// Tells slaves' sessions, and the one that follows a master.
    signal: LogSignal,
    /// What is to be done to the log once no sync and no job is under way.
    surgery: Option<Surgery>,
    commit_queued: bool,
    deadline_armed: bool,
    upkeep_armed: bool,
    /// Upkeep goes on until then.
    upkeep_until: Millis,
    /// Jobs of the writer that have not come back.
    jobs: usize,
    closing: Option<RpcReplyPort<Result<(), StoreError>>>,
}

impl Drop for State {
    /// Nobody will write what has gathered: dropping the replies says so.
    fn drop(&mut self) {
        lock(&self.gathered).clear();
    }
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
        let Arguments { env, writer, gathered, options, dispatch, quorum, signal } = arguments;
        quorum.set_writer(myself.clone());
        // The first segment and its pages are prepared before the first send comes.
        myself.cast(LogMessage::Maintain)?;
        Ok(State {
            env,
            writer: Some(writer),
            options,
            dispatch,
            gathered,
            writing: Vec::new(),
            joined: AppendBatch::default(),
            must_sync: false,
            waiting: Waiting::default(),
            quorum,
            signal,
            surgery: None,
            commit_queued: false,
            deadline_armed: false,
            upkeep_armed: true,
            upkeep_until: Millis(0),
            jobs: 0,
            closing: None,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            LogMessage::Write => state.write(&myself).await?,
            LogMessage::Commit => {
                state.commit_queued = false;
                state.start_sync(&myself);
            }
            LogMessage::Synced { done } => state.synced(&myself, done),
            LogMessage::Replicated => state.replicated(),
            LogMessage::Deadline => state.deadline(&myself),
            LogMessage::Replicate(part) => state.replicate(&myself, part).await?,
            // A log that follows nobody is a master's, and nobody takes any of it back: dropping the reply says so.
            LogMessage::Operate { change, reply } if state.is_following() => {
                state.surgery = Some(Surgery { change, reply });
            }
            LogMessage::Operate { .. } => {}
            LogMessage::SetFollowing { following } => state.set_following(following),
            LogMessage::SetDeduplication { table } => {
                if let Some(writer) = &mut state.writer {
                    writer.set_deduplication(*table);
                }
            }
            LogMessage::Maintain => {
                state.upkeep_armed = false;
                state.maintain(&myself);
            }
            LogMessage::JobDone { done } => {
                state.jobs -= 1;
                if let Some(writer) = &mut state.writer {
                    writer.finish_job(done);
                }
            }
            LogMessage::Close { reply } => state.closing = Some(reply),
        }
        state.operate_if_idle().await;
        state.close_if_idle().await;
        Ok(())
    }
}

impl State {
    /// Writes what has gathered.
    async fn write(&mut self, myself: &ActorRef<LogMessage>) -> Result<(), ActorProcessingErr> {
        let mut writing = std::mem::take(&mut self.writing);
        std::mem::swap(&mut writing, &mut *lock(&self.gathered));
        if let Some(refusal) = self.quorum.refusal() {
            writing.drain(..).for_each(|batch| batch.refuse(&refusal));
        }
        let mut rest = writing.drain(..).peekable();
        while let Some(first) = rest.next() {
            // Through the mapping one write is as good as another.
            let joins = |bytes: usize, next: &Gathered| {
                self.options.flush == FlushMode::Sync && bytes + next.batch.bytes.len() <= JOINED_BYTES_MAX
            };
            if !rest.peek().is_some_and(|next| joins(first.batch.bytes.len(), next)) {
                self.write_one(myself, first).await;
                continue;
            }
            let mut parts = vec![first];
            self.joined.clear();
            join(&mut self.joined, &parts[0].batch);
            while let Some(next) = rest.next_if(|next| joins(self.joined.bytes.len(), next)) {
                join(&mut self.joined, &next.batch);
                parts.push(next);
            }
            self.write_joined(myself, parts).await;
        }
        drop(rest);
        self.writing = writing;
        self.after_write(myself)
    }

    /// Writes a batch by itself.
    async fn write_one(&mut self, myself: &ActorRef<LogMessage>, gathered: Gathered) {
        // A closed store answers by dropping the reply: nothing was stored.
        let Some(writer) = &mut self.writer else { return };
        let Gathered { mut batch, mut results, wait, reply } = gathered;
        append(writer, &mut batch, &mut results).await;
        self.appended(myself, Appended { batch, results, durability: Durability::AsPromised }, wait, reply);
    }

    /// Writes the batches that have been joined.
    async fn write_joined(&mut self, myself: &ActorRef<LogMessage>, parts: Vec<Gathered>) {
        let Some(writer) = &mut self.writer else { return };
        let mut all = Vec::with_capacity(self.joined.items.len());
        append(writer, &mut self.joined, &mut all).await;
        let mut all = all.into_iter();
        for Gathered { batch, mut results, wait, reply } in parts {
            results.extend(all.by_ref().take(batch.items.len()));
            self.appended(myself, Appended { batch, results, durability: Durability::AsPromised }, wait, reply);
        }
    }

    /// Answers a batch that has been written, or has it wait for its sync and for slaves.
    fn appended(&mut self, myself: &ActorRef<LogMessage>, appended: Appended, wait: bool, reply: Reply) {
        let Some(writer) = &self.writer else { return };
        let end = writer.end();
        let stored = appended.results.iter().any(Result::is_ok);
        self.must_sync |= self.options.flush == FlushMode::Sync && stored;
        if stored && wait {
            self.wait_or_answer(myself, end, appended, reply);
        } else {
            reply.send(appended);
        }
    }

    /// What follows a write: the sync, the index, the next segment.
    fn after_write(&mut self, myself: &ActorRef<LogMessage>) -> Result<(), ActorProcessingErr> {
        let must_sync = std::mem::take(&mut self.must_sync);
        if must_sync && self.env.buggify(BuggifySite::ShortBatch) {
            self.start_sync(myself);
        } else if must_sync && !std::mem::replace(&mut self.commit_queued, true) {
            myself.cast(LogMessage::Commit)?;
        }
        if self.options.flush == FlushMode::Async {
            self.dispatch.notify();
        }
        self.signal.notify();
        if self.writer.as_ref().is_some_and(LogWriter::wants_upkeep) {
            self.start_jobs(myself);
        }
        self.upkeep_until = self.env.clock.now().plus(UPKEEP_AFTER_APPEND.as_millis() as i64);
        self.arm_upkeep(myself);
        Ok(())
    }

    /// Starts a sync unless one is under way; the end of that one starts the next.
    fn start_sync(&mut self, myself: &ActorRef<LogMessage>) {
        if self.surgery.is_some() {
            return;
        }
        if let Some(sync) = self.writer.as_mut().and_then(LogWriter::start_sync) {
            let myself = myself.clone();
            ractor::concurrency::spawn(async move {
                let done = sync.await;
                // If the writer is gone nobody waits for this any more.
                let _ = myself.cast(LogMessage::Synced { done });
            });
        }
    }

    fn synced(&mut self, myself: &ActorRef<LogMessage>, done: SyncDone) {
        let Some(writer) = &mut self.writer else { return };
        match writer.finish_sync(done) {
            Ok(flushed) => {
                self.dispatch.notify();
                self.signal.notify();
                if self.waiting.on_flushed(flushed, self.quorum_position()) {
                    self.start_sync(myself);
                }
            }
            Err(error) => {
                tracing::error!(%error, "a sync failed: the store takes no more writes until the broker is restarted");
                self.waiting.fail();
            }
        }
    }

    fn maintain(&mut self, myself: &ActorRef<LogMessage>) {
        self.start_jobs(myself);
        if self.options.flush == FlushMode::Sync || !self.env.canary(Canary::NeverSynced) {
            self.start_sync(myself);
        }
        if self.env.clock.now() < self.upkeep_until {
            self.arm_upkeep(myself);
        }
    }

    /// Has the writer's work that may wait for the device done beside it.
    fn start_jobs(&mut self, myself: &ActorRef<LogMessage>) {
        let Some(writer) = self.writer.as_mut().filter(|_| self.surgery.is_none()) else { return };
        for job in writer.maintain(self.env.clock.now()) {
            self.jobs += 1;
            let myself = myself.clone();
            ractor::concurrency::spawn(async move {
                let done = job.await;
                let _ = myself.cast(LogMessage::JobDone { done });
            });
        }
    }

    /// Upkeep follows appends; an idle broker has none.
    fn arm_upkeep(&mut self, myself: &ActorRef<LogMessage>) {
        if !std::mem::replace(&mut self.upkeep_armed, true) {
            myself.send_after(self.options.flush_interval, || LogMessage::Maintain);
        }
    }

    /// Closes the store once it was asked for and no work of the writer is under way.
    async fn close_if_idle(&mut self) {
        let busy = !lock(&self.gathered).is_empty()
            || self.jobs > 0
            || self.writer.as_ref().is_some_and(LogWriter::is_syncing);
        if busy || self.closing.is_none() {
            return;
        }
        let result = match self.writer.take() {
            Some(writer) => writer.close().await,
            None => Ok(()),
        };
        match &result {
            // Everything is on disk now, so what still waited is as durable as promised.
            Ok(()) => self.waiting.finish(),
            Err(_) => self.waiting.fail(),
        }
        if let Some(reply) = self.closing.take() {
            let _ = reply.send(result);
        }
    }
}

/// Appends a batch, waiting for a new segment if it needs one. One result per item.
async fn append(writer: &mut LogWriter, batch: &mut AppendBatch, results: &mut Vec<AppendResult>) {
    if writer.append(batch, results) == Progress::NeedsSegment {
        writer.finish_append(batch, results).await;
    }
}

/// Adds the records of `batch` to `joined`, its units behind those that are there.
fn join(joined: &mut AppendBatch, batch: &AppendBatch) {
    let base = joined.bytes.len();
    let (first, before) = (joined.next_group().0, batch.items.first().map_or(0, |item| item.group.0));
    joined.bytes.extend_from_slice(&batch.bytes);
    joined.items.extend(batch.items.iter().map(|item| AppendItem {
        start: base + item.start,
        group: GroupId(first.wrapping_add(item.group.0.wrapping_sub(before))),
        ..item.clone()
    }));
}

/// The row of batches, whatever became of a thread that held it.
fn lock(gathered: &Mutex<Vec<Gathered>>) -> MutexGuard<'_, Vec<Gathered>> {
    gathered.lock().unwrap_or_else(PoisonError::into_inner)
}
