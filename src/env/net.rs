//! Network connections.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::task::{Context, Poll};

use futures::future::BoxFuture;

/// Names a connection for the life of the process; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// The network of one node.
pub trait Net: Send + Sync + 'static {
    /// Listens on `address`; port 0 picks a free one (see [`Listener::local_addr`]).
    fn listen(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>>;

    /// An address by which other machines reach this one; loopback if it has no other.
    fn own_address(&self) -> IpAddr {
        Ipv4Addr::LOCALHOST.into()
    }

    /// The name of this machine; empty if it has none.
    fn own_name(&self) -> String {
        String::new()
    }

    /// Connects to `host:port`, an address or a name. It may wait for minutes if nobody answers: bound it by a time-out.
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Stream>>>;
}

/// A listening socket.
pub trait Listener: Send + 'static {
    /// The address it listens on, with the real port.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// Waits for the next connection. After an error (too many open files, say) the listener still works.
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Box<dyn Stream>, SocketAddr)>>;
}

/// One connection: bytes in order in both directions, sent at once (no delay to coalesce).
///
/// `0` from `poll_read` into a non-empty buffer is the peer's end of stream. Dropping closes the connection.
pub trait Stream: Send + Unpin + 'static {
    /// Address of the peer.
    fn peer_addr(&self) -> io::Result<SocketAddr>;

    /// Address of this side.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// Reads at least one byte unless the stream has ended.
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Writes at least one byte; it waits while the peer does not read.
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    /// Ends this side's stream; the peer may still send.
    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}
