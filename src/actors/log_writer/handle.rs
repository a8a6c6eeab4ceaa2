//! How batches get to the log writer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ractor::{Actor, ActorRef};
use tokio::sync::oneshot;

use super::following::{Change, Replicate, Replicated};
use super::reply::{Appended, Durability, Inbox, Reply, Ticket};
use super::{lock, Arguments, LogMessage, LogWriterActor, LogWriterOptions};
use crate::actors::broker::housekeeper::DispatchSignal;
use crate::actors::ha::{LogSignal, Quorum};
use crate::env::Env;
use crate::proto::PhysicalOffset;
use crate::store::{AppendBatch, AppendResult, Deduplication, LogWriter, StoreError};

/// A batch that waits to be written.
pub(super) struct Gathered {
    pub batch: AppendBatch,
    /// Room for the results.
    pub results: Vec<AppendResult>,
    /// Whether the answer waits for what the flush mode promises.
    pub wait: bool,
    pub reply: Reply,
}

impl Gathered {
    /// Answers that none of it is stored.
    pub(super) fn refuse(self, error: &StoreError) {
        let Gathered { batch, mut results, reply, .. } = self;
        results.resize_with(batch.items.len(), || Err(error.clone()));
        reply.send(Appended { batch, results, durability: Durability::AsPromised });
    }
}

/// Sends batches to the log writer. Cheap to clone.
#[derive(Clone)]
pub struct LogWriterHandle {
    actor: ActorRef<LogMessage>,
    gathered: Arc<Mutex<Vec<Gathered>>>,
}

impl LogWriterHandle {
    /// Starts the log writer. Its end is reported to `supervisor`.
    ///
    /// # Errors
    /// If the actor cannot be spawned.
    pub async fn start<M: ractor::Message>(
        env: &Env,
        writer: LogWriter,
        options: LogWriterOptions,
        dispatch: DispatchSignal,
        (quorum, signal): (Quorum, LogSignal),
        supervisor: &ActorRef<M>,
    ) -> anyhow::Result<Self> {
        let gathered = Arc::default();
        let (env, row) = (env.clone(), Arc::clone(&gathered));
        let arguments = Arguments { env, writer, gathered: row, options, dispatch, quorum, signal };
        let (actor, _) = Actor::spawn_linked(None, LogWriterActor, arguments, supervisor.get_cell()).await?;
        Ok(LogWriterHandle { actor, gathered })
    }

    /// Hands a batch over; with `wait` it is answered once it is as durable as the flush mode promises, else once it is
    /// written. The receiver fails if the writer has stopped: then nothing is known about the batch.
    pub fn append(&self, batch: AppendBatch, wait: bool) -> oneshot::Receiver<Appended> {
        let (reply, appended) = oneshot::channel();
        self.gather(Gathered { batch, results: Vec::new(), wait, reply: Reply::Once(reply) });
        appended
    }

    /// [`LogWriterHandle::append`] for who has many batches on their way: nothing is allocated, and the answer comes to
    /// `inbox` under `ticket`. `results` is room for the results.
    pub fn append_for(
        &self,
        inbox: &Arc<Inbox>,
        ticket: Ticket,
        batch: AppendBatch,
        results: Vec<AppendResult>,
        wait: bool,
    ) {
        self.gather(Gathered { batch, results, wait, reply: Reply::to_inbox(inbox, ticket) });
    }

    fn gather(&self, batch: Gathered) {
        let mut gathered = lock(&self.gathered);
        gathered.push(batch);
        let first = gathered.len() == 1;
        drop(gathered);
        if first && self.actor.cast(LogMessage::Write).is_err() {
            // The writer is gone: dropping the replies says so.
            lock(&self.gathered).clear();
        }
    }

    /// Appends the whole records at the start of `bytes`, which a master has at `at`, where this log ends; the rest comes
    /// back. `confirmed` is up to where the master lets consumers read. `None` if the writer has stopped.
    pub async fn replicate(
        &self,
        at: PhysicalOffset,
        bytes: Vec<u8>,
        confirmed: Option<PhysicalOffset>,
    ) -> Option<Replicated> {
        let (reply, replicated) = oneshot::channel();
        self.actor.cast(LogMessage::Replicate(Replicate { at, bytes, confirmed, reply })).ok()?;
        replicated.await.ok()
    }

    /// Changes the log in another way than by making it longer. `None` if the writer has stopped.
    ///
    /// # Errors
    /// The store's.
    pub async fn operate(&self, change: Change) -> Option<Result<(), StoreError>> {
        let (reply, done) = oneshot::channel();
        self.actor.cast(LogMessage::Operate { change, reply }).ok()?;
        done.await.ok()
    }

    /// Whether the log follows a master's from now on: nothing is appended then but what the master has.
    pub fn set_following(&self, following: bool) {
        // A writer that is gone takes nothing anyway.
        let _ = self.actor.cast(LogMessage::SetFollowing { following });
    }

    /// Sends that are in this table are answered with what they got first, from the next one on.
    pub fn set_deduplication(&self, table: Deduplication) {
        // A writer that is gone takes nothing anyway.
        let _ = self.actor.cast(LogMessage::SetDeduplication { table: Box::new(table) });
    }

    /// The log is this broker's own from when this returns on: no byte of a former master's is appended any more.
    pub async fn stop_following(&self) {
        self.set_following(false);
        // Its mailbox is FIFO: the answer to this, a refusal, comes after the change.
        let _ = self.replicate(PhysicalOffset(0), Vec::new(), None).await;
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
