//! What comes back from the log writer, and how.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Context;

use futures::task::AtomicWaker;
use tokio::sync::oneshot;

use crate::store::{AppendBatch, AppendResult};

/// What became of an appended batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It is as durable as the flush mode promises.
    AsPromised,
    /// It is stored, but the sync did not end within `syncFlushTimeout`.
    SyncTimedOut,
    /// The sync failed: the bytes may or may not survive.
    SyncFailed,
    /// It is stored here, but slaves did not say within `slaveTimeout` that they have it.
    ReplicationTimedOut,
    /// It is stored here, and too few slaves are there to have it.
    NotReplicated,
}

/// The answer to an append: one result per item, and the batch back for its buffers.
pub struct Appended {
    /// The batch, for its buffers.
    pub batch: AppendBatch,
    /// One per item of the batch, in its order.
    pub results: Vec<AppendResult>,
    /// Holds for those items whose result is `Ok`.
    pub durability: Durability,
}

/// The number under which a session remembers a batch on its way.
pub type Ticket = usize;

/// Where the answers to one session's batches arrive.
#[derive(Default)]
pub struct Inbox {
    arrived: Mutex<Vec<(Ticket, Option<Appended>)>>,
    session: AtomicWaker,
}

impl Inbox {
    /// Moves what has arrived to the end of `out`, and has the task woken when more does. `None` instead of an answer
    /// says that the writer has stopped: nothing is known about the batch.
    pub fn take(&self, cx: &mut Context<'_>, out: &mut Vec<(Ticket, Option<Appended>)>) {
        self.session.register(cx.waker());
        out.append(&mut self.arrived.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn put(&self, ticket: Ticket, appended: Option<Appended>) {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner).push((ticket, appended));
        self.session.wake();
    }
}

/// How a batch is answered. Dropping it says that nobody will.
pub(super) enum Reply {
    /// To the one who waits for it.
    Once(oneshot::Sender<Appended>),
    /// To the session that knows it by its ticket.
    Session(SessionReply),
}

/// A place in a session's inbox, until it is used.
pub(super) struct SessionReply {
    inbox: Option<Arc<Inbox>>,
    ticket: Ticket,
}

impl Reply {
    pub(super) fn to_inbox(inbox: &Arc<Inbox>, ticket: Ticket) -> Reply {
        Reply::Session(SessionReply { inbox: Some(Arc::clone(inbox)), ticket })
    }

    /// Answers. A session that has ended needs no answer.
    pub(super) fn send(self, appended: Appended) {
        match self {
            Reply::Once(sender) => drop(sender.send(appended)),
            Reply::Session(mut reply) => {
                if let Some(inbox) = reply.inbox.take() {
                    inbox.put(reply.ticket, Some(appended));
                }
            }
        }
    }
}

impl Drop for SessionReply {
    fn drop(&mut self) {
        if let Some(inbox) = self.inbox.take() {
            inbox.put(self.ticket, None);
        }
    }
}
