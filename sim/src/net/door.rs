//! The product's view: listeners, connections, streams.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use metaq::env::{Listener, Net, Stream};

use super::connection::{Connection, End, Socket, WINDOW};
use super::faults::Barred;
use super::network::{Network, Port};
use crate::marks;
use crate::world::{Life, NodeId};

/// First pause before a connection attempt is repeated; each further one is twice as long.
const CONNECT_RETRY: Duration = Duration::from_secs(1);
/// A connection attempt nobody answers fails after this time.
const CONNECT_TIME_OUT: Duration = Duration::from_secs(31);

/// The network of one incarnation of a node.
pub struct SimNet {
    network: Arc<Network>,
    node: NodeId,
    life: Life,
}

impl SimNet {
    /// The network as `node` sees it for as long as `life` lasts.
    pub fn new(network: Arc<Network>, node: NodeId, life: Life) -> SimNet {
        SimNet { network, node, life }
    }

    fn stream(&self, id: u64, end: usize, addresses: [SocketAddr; 2]) -> SimStream {
        SimStream { network: self.network.clone(), life: self.life.clone(), id, end, addresses }
    }

    async fn open(&self, text: &str) -> io::Result<Box<dyn Stream>> {
        let network = &self.network;
        self.life.check()?;
        let (address, peer) = network.lock().resolve(self.node, text)?;
        let deadline = network.agenda.now() + CONNECT_TIME_OUT;
        let mut pause = CONNECT_RETRY;
        loop {
            if let Some(peer) = peer {
                match self.attempt(peer, address).await {
                    Attempt::Silence => {}
                    Attempt::Refused => {
                        network.trace.note(self.node, "net refused", &[u64::from(address.port())], "");
                        return Err(io::ErrorKind::ConnectionRefused.into());
                    }
                    Attempt::TooMany => return Err(too_many_files()),
                    Attempt::Open(stream) => return Ok(Box::new(stream)),
                }
            }
            let now = network.agenda.now();
            if now + pause >= deadline {
                network.agenda.sleep(deadline.saturating_sub(now)).await;
                network.trace.note(self.node, "net no answer", &[u64::from(address.port())], "");
                return Err(io::ErrorKind::TimedOut.into());
            }
            network.agenda.sleep(pause).await;
            pause *= 2;
        }
    }

    /// One exchange of SYN and its answer.
    async fn attempt(&self, peer: NodeId, address: SocketAddr) -> Attempt {
        let network = &self.network;
        let there = network.packet(self.node, peer);
        network.agenda.sleep(there).await;
        let listening = {
            let mut inner = network.lock();
            if !network.link(&mut inner, self.node, peer).is_open() || !inner.is_powered(peer) {
                return Attempt::Silence;
            }
            match inner.hosts.get(&peer).and_then(|host| host.faults.barred.get(&address.port())) {
                Some(Barred::Silent) => {
                    marks::mattered("port_silent");
                    return Attempt::Silence;
                }
                Some(Barred::Refused) => {
                    marks::mattered("port_refuses");
                    false
                }
                None => {
                    let backlog = inner.hosts.get(&peer).map_or(0, |host| host.faults.backlog);
                    match inner.port(peer, address) {
                        Some(port) if port.queue.len() >= backlog => {
                            marks::mattered("short_backlog");
                            return Attempt::Silence;
                        }
                        port => port.is_some(),
                    }
                }
            }
        };
        let back = network.packet(peer, self.node);
        network.agenda.sleep(back).await;
        let mut inner = network.lock();
        if !network.link(&mut inner, peer, self.node).is_open() || !self.life.is_alive() {
            return Attempt::Silence;
        }
        if !listening {
            return Attempt::Refused;
        }
        if inner.lacks_sockets(self.node, 1) {
            return Attempt::TooMany;
        }
        let Ok(local) = inner.free_port(self.node) else { return Attempt::Silence };
        let ip = if address.ip().is_loopback() { address.ip() } else { inner.hosts[&self.node].ip.into() };
        let local = SocketAddr::new(ip, local);
        let ends = [End::new(self.node, local), End::new(peer, address)];
        let mut connection = Connection::new(ends);
        connection.ways[0].window = inner.window(peer);
        connection.ways[1].window = inner.window(self.node);
        let id = inner.add(connection);
        network.trace.note(self.node, "net connect", &[id, u64::from(local.port()), u64::from(address.port())], "");
        let at = network.agenda.now() + network.link(&mut inner, self.node, peer).latency();
        let server = network.clone();
        network.agenda.at(at, move || server.established(id, peer, address));
        Attempt::Open(self.stream(id, 0, [local, address]))
    }
}

enum Attempt {
    /// Nobody answered.
    Silence,
    /// The machine has no such port.
    Refused,
    /// This machine has no socket left.
    TooMany,
    Open(SimStream),
}

fn too_many_files() -> io::Error {
    marks::mattered("few_sockets");
    // EMFILE; std has no kind for it.
    io::Error::from_raw_os_error(24)
}

impl Network {
    /// The handshake ended on the server: the connection waits to be accepted. If nobody listens any more it is reset.
    fn established(&self, id: u64, server: NodeId, address: SocketAddr) {
        let mut inner = self.lock();
        if !inner.is_powered(server) {
            if let Some(connection) = inner.connections.get_mut(&id) {
                connection.ends[1].socket = Socket::Vanished;
            }
            return;
        }
        match inner.port(server, address) {
            Some(port) => {
                port.queue.push_back(id);
                if let Some(waker) = port.waker.take() {
                    waker.wake();
                }
            }
            None => {
                if let Some(connection) = inner.connections.get_mut(&id) {
                    connection.ends[1].socket = Socket::Closed;
                }
                self.send_reset(&mut inner, id, 1);
            }
        }
    }
}

impl Net for SimNet {
    fn listen(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            self.life.check()?;
            let mut inner = self.network.lock();
            let mut address = address;
            if address.port() == 0 {
                address.set_port(inner.free_port(self.node)?);
            }
            let host = inner.hosts.get_mut(&self.node).ok_or(io::ErrorKind::NotConnected)?;
            let ip = address.ip();
            if !ip.is_unspecified() && !ip.is_loopback() && ip != IpAddr::V4(host.ip) {
                return Err(io::ErrorKind::AddrNotAvailable.into());
            }
            if host.ports.contains_key(&address.port()) {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            host.ports.insert(address.port(), Port { address, queue: Default::default(), waker: None });
            self.network.trace.note(self.node, "net listen", &[u64::from(address.port())], "");
            let door = SimNet::new(self.network.clone(), self.node, self.life.clone());
            Ok(Box::new(SimListener { door, address }) as Box<dyn Listener>)
        })
    }

    fn own_address(&self) -> IpAddr {
        let inner = self.network.lock();
        inner.hosts.get(&self.node).map_or(Ipv4Addr::LOCALHOST, |host| host.ip).into()
    }

    fn own_name(&self) -> String {
        let inner = self.network.lock();
        inner.hosts.get(&self.node).map_or_else(String::new, |host| host.name.clone())
    }

    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        Box::pin(self.open(address))
    }
}

struct SimListener {
    door: SimNet,
    address: SocketAddr,
}

impl SimListener {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(Box<dyn Stream>, SocketAddr)>> {
        self.door.life.check()?;
        let mut inner = self.door.network.lock();
        let waits = inner.port(self.door.node, self.address).is_some_and(|port| !port.queue.is_empty());
        if waits && inner.lacks_sockets(self.door.node, 0) {
            self.door.network.trace.note(self.door.node, "net no socket", &[], "");
            return Poll::Ready(Err(too_many_files()));
        }
        loop {
            let Some(port) = inner.port(self.door.node, self.address) else {
                return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
            };
            let Some(id) = port.queue.pop_front() else {
                port.waker = Some(cx.waker().clone());
                return Poll::Pending;
            };
            if let Some(connection) = inner.connections.get(&id) {
                let [client, server] = [connection.ends[0].address, connection.ends[1].address];
                self.door.network.trace.note(self.door.node, "net accept", &[id], "");
                let stream = self.door.stream(id, 1, [server, client]);
                return Poll::Ready(Ok((Box::new(stream), client)));
            }
        }
    }
}

impl Listener for SimListener {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Box<dyn Stream>, SocketAddr)>> {
        Box::pin(poll_fn(move |cx| self.poll_accept(cx)))
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        if !self.door.life.is_alive() {
            return;
        }
        let mut inner = self.door.network.lock();
        let Some(host) = inner.hosts.get_mut(&self.door.node) else { return };
        let Some(port) = host.ports.remove(&self.address.port()) else { return };
        for id in port.queue {
            self.door.network.close(&mut inner, id, 1);
        }
    }
}

/// One end of a connection.
struct SimStream {
    network: Arc<Network>,
    life: Life,
    id: u64,
    end: usize,
    /// This side's and the peer's.
    addresses: [SocketAddr; 2],
}

impl Stream for SimStream {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.addresses[1])
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.addresses[0])
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        self.life.check()?;
        if into.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let mut inner = self.network.lock();
        let connection = inner.connections.get_mut(&self.id).ok_or(io::ErrorKind::NotConnected)?;
        let end = &mut connection.ends[self.end];
        if let Socket::Failed(kind) = end.socket {
            return Poll::Ready(Err(kind.into()));
        }
        if end.input.is_empty() {
            if end.ended {
                return Poll::Ready(Ok(0));
            }
            end.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let len = io::Read::read(&mut end.input, into)?;
        self.network.consumed(&mut inner, (self.id, 1 - self.end), len as u64);
        Poll::Ready(Ok(len))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.life.check()?;
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let mut inner = self.network.lock();
        let connection = inner.connections.get_mut(&self.id).ok_or(io::ErrorKind::NotConnected)?;
        if let Socket::Failed(kind) = connection.ends[self.end].socket {
            return Poll::Ready(Err(kind.into()));
        }
        if connection.ways[self.end].shut {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let room = connection.ways[self.end].room() as usize;
        if room == 0 {
            if connection.ways[self.end].window() < WINDOW {
                marks::mattered("small_window");
            }
            connection.ends[self.end].writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let accepted = &bytes[..bytes.len().min(room)];
        self.network.written(&mut inner, (self.id, self.end), accepted);
        Poll::Ready(Ok(accepted.len()))
    }

    fn poll_shutdown(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.life.check()?;
        let mut inner = self.network.lock();
        self.network.shut(&mut inner, self.id, self.end);
        Poll::Ready(Ok(()))
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        if self.life.is_alive() {
            let mut inner = self.network.lock();
            self.network.close(&mut inner, self.id, self.end);
        }
    }
}
