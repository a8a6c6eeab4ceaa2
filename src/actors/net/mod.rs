//! Connections: a listener actor accepts, one plain task per connection moves bytes, a [`Service`] decides.

mod calls;
mod client;
mod connection;
mod listener;
mod output;
mod room;
mod session;

pub use client::{connect, NoRequests};
pub use connection::{CallError, ConnectionHandle, Request};
pub use listener::{ListenerActor, ListenerHandle, ListenerMessage, ListenerOptions};
pub use output::{Answer, Output};
pub use session::Malformed;

use std::net::SocketAddr;
use std::task::Context;

use crate::proto::remoting::{Head, RawFrame};

/// What one end of connections does with requests. One value serves all connections of a listener.
pub trait Service: Send + Sync + 'static {
    /// State of one connection, such as its cached handles and the sends gathered from one read.
    type Connection: Send + 'static;

    /// A connection was accepted.
    fn connected(&self, handle: ConnectionHandle, peer: SocketAddr) -> Self::Connection;

    /// A request came. The answer goes into `output` at once, or later as an [`Answer`] future given to it.
    ///
    /// # Errors
    /// What leaves no request to answer to: the connection is closed and the text logged.
    fn request(
        &self,
        connection: &mut Self::Connection,
        head: &Head<'_>,
        frame: &RawFrame<'_>,
        output: &mut Output,
    ) -> Result<(), String>;

    /// All complete requests of one read were handed over: submit what was gathered.
    fn submit(&self, connection: &mut Self::Connection, output: &mut Output);

    /// Writes answers that do not come by `output`'s futures, and has the task woken when there are more; `false` if there
    /// was none. Called whenever the session is woken.
    fn answer(&self, _connection: &mut Self::Connection, _cx: &mut Context<'_>, _output: &mut Output) -> bool {
        false
    }

    /// The connection is gone; called exactly once.
    fn disconnected(&self, connection: Self::Connection);
}
