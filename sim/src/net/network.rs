//! All hosts, links and connections, and the faults one can set on them.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::Waker;
use std::time::Duration;

use super::connection::{Connection, Segment, Socket};
use super::faults::HostFaults;
use super::frames::Rules;
use super::link::{Link, LinkSettings, LinkState};
use crate::agenda::Agenda;
use crate::random::Stream;
use crate::trace::Trace;
use crate::world::NodeId;

/// First port for connections that name none.
const FIRST_FREE_PORT: u16 = 32_768;
/// A listening port.
pub(super) struct Port {
    pub(super) address: SocketAddr,
    /// Accepted by the kernel, not yet by the program.
    pub(super) queue: VecDeque<u64>,
    pub(super) waker: Option<Waker>,
}

/// A machine as the network sees it.
pub(super) struct Host {
    pub(super) name: String,
    pub(super) ip: Ipv4Addr,
    pub(super) powered: bool,
    pub(super) ports: BTreeMap<u16, Port>,
    pub(super) faults: HostFaults,
    next_port: u16,
}

pub(super) struct Inner {
    pub(super) hosts: BTreeMap<NodeId, Host>,
    pub(super) links: BTreeMap<(NodeId, NodeId), Link>,
    pub(super) connections: BTreeMap<u64, Connection>,
    pub(super) rules: Rules,
    next_connection: u64,
}

/// The network of one simulation.
pub struct Network {
    pub(super) agenda: Arc<Agenda>,
    pub(super) trace: Arc<Trace>,
    pub(super) me: Weak<Network>,
    seed: u64,
    settings: Option<LinkSettings>,
    inner: Mutex<Inner>,
}

impl Network {
    /// A network without hosts. All links get `settings`, or each its own drawn from the seed.
    pub fn new(seed: u64, settings: Option<LinkSettings>, agenda: Arc<Agenda>, trace: Arc<Trace>) -> Arc<Network> {
        let inner = Inner {
            hosts: BTreeMap::new(),
            links: BTreeMap::new(),
            connections: BTreeMap::new(),
            rules: Rules::new(Stream::new(seed, "frame rules")),
            next_connection: 0,
        };
        Arc::new_cyclic(|me| Network { agenda, trace, me: me.clone(), seed, settings, inner: Mutex::new(inner) })
    }

    /// Adds a machine; others reach it by its name and by the address returned.
    pub fn add_host(&self, node: NodeId, name: &str) -> Ipv4Addr {
        let ip = Ipv4Addr::new(10, 0, (node.0 >> 8) as u8, node.0 as u8);
        let host = Host {
            name: name.to_owned(),
            ip,
            powered: true,
            ports: BTreeMap::new(),
            faults: HostFaults::default(),
            next_port: FIRST_FREE_PORT,
        };
        self.lock().hosts.insert(node, host);
        ip
    }

    /// Sets one direction between two nodes.
    pub fn set_link(&self, from: NodeId, to: NodeId, state: LinkState) {
        self.set_link_because(from, to, state, None);
    }

    /// As [`Network::set_link`], naming the kind of fault that does it.
    pub fn set_link_because(&self, from: NodeId, to: NodeId, state: LinkState, cause: Option<&'static str>) {
        self.trace.note(from, "link", &[u64::from(to.0)], &format!("{state:?}"));
        let mut inner = self.lock();
        let link = self.link(&mut inner, from, to);
        link.state = state;
        link.cause = cause;
        for way in std::mem::take(&mut link.held) {
            self.schedule_first(&mut inner, way, self.agenda.now());
        }
    }

    /// Changes how one direction behaves.
    pub fn set_link_settings(&self, from: NodeId, to: NodeId, settings: LinkSettings) {
        let mut inner = self.lock();
        self.link(&mut inner, from, to).settings = settings;
    }

    /// Cuts two nodes off from each other.
    pub fn cut(&self, a: NodeId, b: NodeId) {
        self.set_link(a, b, LinkState::Cut);
        self.set_link(b, a, LinkState::Cut);
    }

    /// Lets every link that is used so far draw from another stream.
    pub fn branch(&self, number: u64) {
        for ((from, to), link) in &mut self.lock().links {
            link.branch(Stream::new(self.seed ^ number, &format!("link {} {} branch", from.0, to.0)));
        }
    }

    /// The process of a node dies; its kernel closes what it held.
    pub fn kill(&self, node: NodeId) {
        let mut inner = self.lock();
        let ids: Vec<u64> = inner.connections.keys().copied().collect();
        for id in ids {
            for end in 0..2 {
                if inner.connections.get(&id).is_some_and(|connection| connection.ends[end].node == node) {
                    self.close(&mut inner, id, end);
                }
            }
        }
        if let Some(host) = inner.hosts.get_mut(&node) {
            host.ports.clear();
        }
    }

    /// The machine loses its power: silence.
    pub fn power_off(&self, node: NodeId) {
        let mut inner = self.lock();
        for connection in inner.connections.values_mut() {
            for end in connection.ends.iter_mut().filter(|end| end.node == node) {
                end.socket = Socket::Vanished;
                end.input.clear();
            }
        }
        inner.connections.retain(|_, connection| !connection.is_over());
        if let Some(host) = inner.hosts.get_mut(&node) {
            host.ports.clear();
            host.powered = false;
        }
    }

    /// The machine is on again, without any program.
    pub fn power_on(&self, node: NodeId) {
        if let Some(host) = self.lock().hosts.get_mut(&node) {
            host.powered = true;
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The link between two nodes, made on first use.
    pub(super) fn link<'a>(&self, inner: &'a mut Inner, from: NodeId, to: NodeId) -> &'a mut Link {
        inner.links.entry((from, to)).or_insert_with(|| {
            let mut random = Stream::new(self.seed, &format!("link {} {}", from.0, to.0));
            let settings = match self.settings {
                _ if from == to => LinkSettings::LOOPBACK,
                Some(settings) => settings,
                None => LinkSettings::draw(&mut random),
            };
            Link::new(settings, random)
        })
    }

    /// The time one small packet takes from one node to another.
    pub(super) fn packet(&self, from: NodeId, to: NodeId) -> Duration {
        let mut inner = self.lock();
        self.link(&mut inner, from, to).latency()
    }

    /// Sends the end of stream behind everything written.
    pub(super) fn shut(&self, inner: &mut Inner, id: u64, end: usize) {
        let Some(connection) = inner.connections.get(&id) else { return };
        if connection.ways[end].shut {
            return;
        }
        let (from, to) = (connection.ends[end].node, connection.ends[1 - end].node);
        let held = connection_rest(inner, id, end);
        if !held.is_empty() {
            self.send(inner, (id, end), &held);
        }
        let arrival = self.link(inner, from, to).arrival(self.agenda.now(), 0);
        let Some(connection) = inner.connections.get_mut(&id) else { return };
        connection.ways[end].shut = true;
        connection.ways[end].push(arrival, Segment::Fin);
        self.started(inner, (id, end));
    }

    /// The program lets go of an end. Unread bytes turn the farewell into a reset, as in Linux.
    pub(super) fn close(&self, inner: &mut Inner, id: u64, end: usize) {
        let Some(connection) = inner.connections.get_mut(&id) else { return };
        let before = std::mem::replace(&mut connection.ends[end].socket, Socket::Closed);
        match before {
            Socket::Open if !connection.ends[end].input.is_empty() => {
                connection.ends[end].input.clear();
                connection.ways[end].segments.clear();
                connection.ways[end].shut = true;
                self.send_reset(inner, id, end);
            }
            Socket::Open => self.shut(inner, id, end),
            Socket::Failed(_) | Socket::Closed => {}
            Socket::Vanished => connection.ends[end].socket = Socket::Vanished,
        }
        self.reap(inner, id);
    }

    /// Forgets a connection that is over.
    pub(super) fn reap(&self, inner: &mut Inner, id: u64) {
        if inner.connections.get(&id).is_some_and(Connection::is_over) {
            inner.connections.remove(&id);
        }
    }
}

/// What is held of a frame whose end will not come.
fn connection_rest(inner: &mut Inner, id: u64, end: usize) -> Vec<u8> {
    inner.connections.get_mut(&id).map(|connection| connection.ways[end].cutter.rest()).unwrap_or_default()
}

impl Inner {
    /// Adds a connection.
    pub(super) fn add(&mut self, connection: Connection) -> u64 {
        self.next_connection += 1;
        self.connections.insert(self.next_connection, connection);
        self.next_connection
    }

    /// A port nobody listens on.
    pub(super) fn free_port(&mut self, node: NodeId) -> io::Result<u16> {
        let host = self.hosts.get_mut(&node).ok_or(io::ErrorKind::NotConnected)?;
        loop {
            let port = host.next_port;
            host.next_port = if port == u16::MAX { FIRST_FREE_PORT } else { port + 1 };
            if !host.ports.contains_key(&port) {
                return Ok(port);
            }
        }
    }

    /// The address `text` means on `node`, and the machine that has it, if any.
    pub(super) fn resolve(&self, node: NodeId, text: &str) -> io::Result<(SocketAddr, Option<NodeId>)> {
        let unknown = || io::Error::new(io::ErrorKind::NotFound, format!("no address for {text}"));
        let (host, port) = text.rsplit_once(':').ok_or_else(unknown)?;
        let port: u16 = port.parse().map_err(|_| unknown())?;
        if let Ok(ip) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
            let owner = if ip.is_loopback() || ip.is_unspecified() {
                Some(node)
            } else {
                self.hosts.iter().find(|(_, host)| IpAddr::V4(host.ip) == ip).map(|(node, _)| *node)
            };
            return Ok((SocketAddr::new(ip, port), owner));
        }
        if self.hosts.get(&node).is_some_and(|host| host.faults.no_names) {
            crate::marks::mattered("names_fail");
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("no name server answers for {text}")));
        }
        if host == "localhost" {
            return Ok((SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port), Some(node)));
        }
        let (owner, found) = self.hosts.iter().find(|(_, known)| known.name == host).ok_or_else(unknown)?;
        Ok((SocketAddr::new(found.ip.into(), port), Some(*owner)))
    }

    /// The port of a machine that answers at `address`, if a program listens there.
    pub(super) fn port(&mut self, node: NodeId, address: SocketAddr) -> Option<&mut Port> {
        let port = self.hosts.get_mut(&node)?.ports.get_mut(&address.port())?;
        let bound = port.address.ip();
        (bound.is_unspecified() || bound == address.ip()).then_some(port)
    }

    /// True if the machine runs.
    pub(super) fn is_powered(&self, node: NodeId) -> bool {
        self.hosts.get(&node).is_some_and(|host| host.powered)
    }
}
