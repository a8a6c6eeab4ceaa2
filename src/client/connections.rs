//! Connections by address, made when they are needed and made again when they broke.
//!
//! Frames, the table of requests that wait for answers, and requests of the server are carried by
//! [`actors::net`](crate::actors::net).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tracing::Instrument;

use super::error::Error;
use super::instance::Shared;
use super::rules::backoff::Backoff;
use super::server_requests::ServerRequests;
use super::timing::{within, Deadline};
use crate::actors::net::{connect, CallError, ConnectionHandle, Request};
use crate::env::Env;
use crate::proto::remoting::Command;

/// Requests of one connection that may wait for their answers.
const IN_FLIGHT_MAX: usize = 65_535;

/// All connections of one client.
pub(super) struct Connections {
    env: Env,
    service: Arc<ServerRequests>,
    client: Weak<Shared>,
    links: Mutex<BTreeMap<String, Arc<Link>>>,
}

/// One server and the connection to it.
struct Link {
    address: String,
    /// The live connection, if there is one.
    handle: Mutex<Option<ConnectionHandle>>,
    /// Held by whoever connects, so that callers at the same time share one attempt.
    connecting: tokio::sync::Mutex<Backoff>,
    in_flight: AtomicUsize,
    /// Monotonic ms at which an answer came last.
    heard_at: AtomicU64,
}

impl Connections {
    pub fn new(env: &Env, client: Weak<Shared>) -> Connections {
        let service = Arc::new(ServerRequests::new(Weak::clone(&client)));
        Connections { env: env.clone(), service, client, links: Mutex::default() }
    }

    /// Sends a request and waits for its answer, whatever its code, for `limit` in all.
    pub async fn call(&self, address: &str, command: Command, limit: Duration) -> Result<Command, Error> {
        self.call_with_body(address, command, None, limit).await
    }

    /// As [`Connections::call`], with a body that is kept here.
    pub async fn call_with_body(
        &self,
        address: &str,
        command: Command,
        body: Option<Arc<Vec<u8>>>,
        limit: Duration,
    ) -> Result<Command, Error> {
        let span = tracing::debug_span!("request", code = command.code, address);
        let request = match body {
            Some(body) => Request::with_shared_body(command, body),
            None => command.into(),
        };
        self.exchange(address, request, limit).instrument(span).await
    }

    async fn exchange(&self, address: &str, request: Request, limit: Duration) -> Result<Command, Error> {
        let deadline = Deadline::after(&*self.env.clock, limit);
        let link = self.link(address)?;
        let (handle, asked_at) = match link.live() {
            Some(handle) => (handle, deadline.at().saturating_sub(limit)),
            None => (self.connected(&link, deadline, limit).await?, self.env.clock.monotonic()),
        };
        let _in_flight = InFlight::enter(&link)?;
        match handle.call_until(request, deadline.at()).await {
            Ok(answer) => {
                link.heard_at.fetch_max(self.now_ms(), Ordering::Relaxed);
                Ok(answer)
            }
            Err(CallError::Closed) => Err(Error::Disconnected { address: link.address.clone() }),
            Err(CallError::Busy) => Err(Error::Busy { address: link.address.clone() }),
            Err(CallError::TimedOut) => {
                // Nothing at all came since: the peer or the way to it is gone, and TCP may notice only much later.
                if link.heard_at.load(Ordering::Relaxed) < asked_at.as_millis() as u64 {
                    link.forget(&handle);
                }
                Err(Error::TimedOut { address: link.address.clone(), limit_ms: limit.as_millis() as u64 })
            }
        }
    }

    /// Sends a request that is not answered. `Ok` says that it was handed to the connection.
    pub async fn send_one_way(&self, address: &str, request: Request, limit: Duration) -> Result<(), Error> {
        let link = self.link(address)?;
        let handle = self.connected(&link, Deadline::after(&*self.env.clock, limit), limit).await?;
        handle.send_one_way(request).map_err(|error| match error {
            CallError::Busy => Error::Busy { address: address.to_owned() },
            CallError::Closed | CallError::TimedOut => Error::Disconnected { address: address.to_owned() },
        })
    }

    /// Ends connections to servers that are not in `wanted`.
    pub fn keep_only(&self, wanted: &BTreeSet<String>) {
        self.links.lock().expect("no holder panics").retain(|address, link| {
            let keep = wanted.contains(address) || link.in_flight.load(Ordering::Relaxed) > 0;
            if !keep {
                link.close();
            }
            keep
        });
    }

    /// Ends all connections; requests under way fail.
    pub fn close(&self) {
        std::mem::take(&mut *self.links.lock().expect("no holder panics")).values().for_each(|link| link.close());
    }

    fn link(&self, address: &str) -> Result<Arc<Link>, Error> {
        if self.client.upgrade().is_none_or(|client| client.is_closed()) {
            return Err(Error::Closed);
        }
        let mut links = self.links.lock().expect("no holder panics");
        if let Some(link) = links.get(address) {
            return Ok(Arc::clone(link));
        }
        let link = Arc::new(Link {
            address: address.to_owned(),
            handle: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            in_flight: AtomicUsize::new(0),
            heard_at: AtomicU64::new(0),
        });
        links.insert(address.to_owned(), Arc::clone(&link));
        Ok(link)
    }

    /// The live connection of a link, or a new one.
    async fn connected(&self, link: &Link, deadline: Deadline, limit: Duration) -> Result<ConnectionHandle, Error> {
        if let Some(handle) = link.live() {
            return Ok(handle);
        }
        let clock = &*self.env.clock;
        let unreachable =
            |reason: &str| Error::Unreachable { address: link.address.clone(), reason: reason.to_owned() };
        let late = || unreachable(&format!("no connection within {} ms", limit.as_millis()));
        let asked_at = clock.monotonic();
        let mut backoff = within(clock, deadline.left(clock), link.connecting.lock()).await.ok_or_else(late)?;
        if let Some(handle) = link.live() {
            return Ok(handle);
        }
        if backoff.failed_since(asked_at) {
            return Err(unreachable("another attempt has just failed"));
        }
        let pause = backoff.pause(clock.monotonic());
        if pause >= deadline.left(clock) {
            return Err(unreachable("earlier attempts have failed, the next comes later"));
        }
        if !pause.is_zero() {
            clock.sleep(pause).await;
        }
        match connect(&self.env, &link.address, Arc::clone(&self.service), deadline.left(clock)).await {
            Ok(handle) => {
                backoff.on_success();
                *link.handle.lock().expect("no holder panics") = Some(handle.clone());
                tracing::debug!(address = link.address, "connected");
                if let Some(client) = self.client.upgrade() {
                    client.on_connected(&link.address);
                }
                Ok(handle)
            }
            Err(error) => {
                backoff.on_failure(clock.monotonic());
                Err(unreachable(&error.to_string()))
            }
        }
    }

    fn now_ms(&self) -> u64 {
        self.env.clock.monotonic().as_millis() as u64
    }
}

impl Link {
    fn live(&self) -> Option<ConnectionHandle> {
        self.handle.lock().expect("no holder panics").clone().filter(|handle| !handle.is_closed())
    }

    /// Gives up a connection, unless a newer one has taken its place.
    fn forget(&self, dead: &ConnectionHandle) {
        let mut handle = self.handle.lock().expect("no holder panics");
        if handle.as_ref().is_some_and(|handle| handle.id() == dead.id()) {
            *handle = None;
        }
        dead.close();
    }

    fn close(&self) {
        if let Some(handle) = self.handle.lock().expect("no holder panics").take() {
            handle.close();
        }
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        // A connection lives as long as its session, which does not end because nobody has requests any more.
        self.close();
    }
}

/// Counts a request while its caller waits, whichever way the caller stops waiting.
struct InFlight<'a>(&'a Link);

impl<'a> InFlight<'a> {
    fn enter(link: &'a Link) -> Result<InFlight<'a>, Error> {
        let entered = InFlight(link);
        if link.in_flight.fetch_add(1, Ordering::Relaxed) >= IN_FLIGHT_MAX {
            return Err(Error::Busy { address: link.address.clone() });
        }
        Ok(entered)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
