//! How the rest of the process reaches a connected peer.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::calls::Call;
use crate::env::{Clock, ConnectionId};
use crate::proto::remoting::Command;

/// Requests to the peer that wait to be written; above this they are refused.
const QUEUED_MAX: usize = 1024;

/// A request of ours to the peer.
pub(super) enum Outbound {
    /// Nobody waits for an answer.
    OneWay(Request),
    /// Somebody does.
    Call(Request, Call),
    /// End the connection once everything before is written.
    Close,
}

/// A request, and the body it travels with.
pub struct Request {
    pub(super) command: Command,
    /// What stands in the body's place.
    shared: Option<Arc<Vec<u8>>>,
}

impl Request {
    /// A request whose body the caller keeps, as it may send it again.
    pub fn with_shared_body(command: Command, body: Arc<Vec<u8>>) -> Request {
        Request { command, shared: Some(body) }
    }

    pub(super) fn body(&self) -> &[u8] {
        self.shared.as_ref().map_or(&self.command.body, |body| body)
    }
}

impl From<Command> for Request {
    fn from(command: Command) -> Request {
        Request { command, shared: None }
    }
}

/// Why a request to a peer got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The connection is closed.
    #[error("the connection is closed")]
    Closed,
    /// Too many requests to this peer wait already.
    #[error("{QUEUED_MAX} requests to this peer wait already")]
    Busy,
    /// No answer came in time.
    #[error("no answer came in time")]
    TimedOut,
}

/// Sends requests to one connected peer. Cheap to clone; useless but harmless once the connection is closed.
#[derive(Clone)]
pub struct ConnectionHandle {
    id: ConnectionId,
    outbound: mpsc::Sender<Outbound>,
    closed: Arc<AtomicBool>,
}

impl ConnectionHandle {
    /// A handle and what the session needs to serve it.
    pub(super) fn new(id: ConnectionId) -> (Self, mpsc::Receiver<Outbound>) {
        let (outbound, receiver) = mpsc::channel(QUEUED_MAX);
        (ConnectionHandle { id, outbound, closed: Arc::default() }, receiver)
    }

    /// The connection's name.
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// True once the session has ended.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire) || self.outbound.is_closed()
    }

    /// Sends a request that is not answered.
    ///
    /// # Errors
    /// [`CallError::Closed`] or [`CallError::Busy`]; the request is dropped.
    pub fn send_one_way(&self, request: impl Into<Request>) -> Result<(), CallError> {
        self.queue(Outbound::OneWay(request.into()))
    }

    /// Sends a request and waits for its answer, at most for `limit`. The session gives the request its number.
    ///
    /// # Errors
    /// Any [`CallError`].
    pub async fn call(&self, clock: &dyn Clock, command: Command, limit: Duration) -> Result<Command, CallError> {
        self.call_until(command.into(), clock.monotonic().saturating_add(limit)).await
    }

    /// As [`ConnectionHandle::call`], until a time of the node's monotonic clock. The session keeps the time.
    ///
    /// # Errors
    /// Any [`CallError`].
    pub async fn call_until(&self, request: Request, until: Duration) -> Result<Command, CallError> {
        let (reply, answer) = oneshot::channel();
        self.queue(Outbound::Call(request, Call { until, reply }))?;
        answer.await.unwrap_or(Err(CallError::Closed))
    }

    /// Ends the connection after what is queued has been written.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // A full queue means that the peer does not read: the session then notices `closed` when it next wakes.
        let _ = self.outbound.try_send(Outbound::Close);
    }

    pub(super) fn close_requested(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn queue(&self, outbound: Outbound) -> Result<(), CallError> {
        self.outbound.try_send(outbound).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => CallError::Busy,
            mpsc::error::TrySendError::Closed(_) => CallError::Closed,
        })
    }
}

impl fmt::Debug for ConnectionHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connection {}", self.id.0)
    }
}
