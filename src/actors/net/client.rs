//! Connections that this process opens. They are served like accepted ones: both sides may send requests.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{select, Either};

use super::listener::next_connection_id;
use super::room::Room;
use super::session::Session;
use super::{ConnectionHandle, Output, Service};
use crate::env::Env;
use crate::proto::remoting::frame::MAX_FRAME_LEN;
use crate::proto::remoting::{Head, RawFrame};

/// A service for connections on which the peer sends no requests: they are ignored.
pub struct NoRequests;

impl Service for NoRequests {
    type Connection = ();

    fn connected(&self, _: ConnectionHandle, _: SocketAddr) {}

    fn request(&self, _: &mut (), _: &Head<'_>, _: &RawFrame<'_>, _: &mut Output) -> Result<(), String> {
        Ok(())
    }

    fn submit(&self, _: &mut (), _: &mut Output) {}

    fn disconnected(&self, _: ()) {}
}

/// Connects to `host:port` within `limit` and serves the connection in a task of its own.
///
/// # Errors
/// The operating system's, or `TimedOut`.
pub async fn connect<S: Service>(
    env: &Env,
    address: &str,
    service: Arc<S>,
    limit: Duration,
) -> io::Result<ConnectionHandle> {
    let stream = match select(env.net.connect(address), env.clock.sleep(limit)).await {
        Either::Left((stream, _)) => stream?,
        Either::Right(_) => return Err(io::ErrorKind::TimedOut.into()),
    };
    let (handle, outbound) = ConnectionHandle::new(next_connection_id());
    let session = Session {
        stream,
        service,
        handle: handle.clone(),
        outbound,
        clock: Arc::clone(&env.clock),
        last_active: Arc::new(AtomicU64::new(0)),
        // Whoever is connected to is trusted with one frame.
        room: Room::new(MAX_FRAME_LEN).for_connection(),
    };
    let address = address.to_owned();
    ractor::concurrency::spawn(async move {
        let end = session.run().await;
        tracing::debug!(address, %end, "connection ended");
    });
    Ok(handle)
}
