//! How batches get to the log writer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ractor::{Actor, ActorRef};
use tokio::sync::oneshot;

use super::reply::{Appended, Inbox, Reply, Ticket};
use super::{lock, Arguments, LogMessage, LogWriterActor, LogWriterOptions};
use crate::actors::broker::housekeeper::DispatchSignal;
use crate::env::Env;
use crate::store::{AppendBatch, AppendResult, LogWriter};

/// A batch that waits to be written.
pub(super) struct Gathered {
    pub batch: AppendBatch,
    /// Room for the results.
    pub results: Vec<AppendResult>,
    /// Whether the answer waits for what the flush mode promises.
    pub wait: bool,
    pub reply: Reply,
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
        supervisor: &ActorRef<M>,
    ) -> anyhow::Result<Self> {
        let gathered = Arc::default();
        let arguments = Arguments { env: env.clone(), writer, gathered: Arc::clone(&gathered), options, dispatch };
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
