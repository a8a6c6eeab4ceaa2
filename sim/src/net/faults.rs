//! Faults one can set on hosts, links, connections and frames, and their end.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::connection::{Segment, Socket, WayId, WINDOW};
use super::frames::{FrameFault, FrameRule, Piece};
use super::link::{LinkSettings, LinkState};
use super::network::{Inner, Network};
use crate::marks;
use crate::world::NodeId;

/// Connections that wait for `accept` at one port; more are not answered.
const BACKLOG: usize = 128;

/// What a firewall does with connections to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barred {
    /// It answers with a reset.
    Refused,
    /// It says nothing.
    Silent,
}

/// What is wrong with one machine's network.
pub(super) struct HostFaults {
    /// Ports that take no new connections.
    pub(super) barred: BTreeMap<u16, Barred>,
    /// Names cannot be resolved.
    pub(super) no_names: bool,
    /// Most connections of its process.
    pub(super) sockets_max: usize,
    /// Most connections that wait to be accepted.
    pub(super) backlog: usize,
    /// Bytes it takes beyond what its programs have read.
    pub(super) window: u64,
}

impl Default for HostFaults {
    fn default() -> HostFaults {
        HostFaults {
            barred: BTreeMap::new(),
            no_names: false,
            sockets_max: usize::MAX,
            backlog: BACKLOG,
            window: WINDOW,
        }
    }
}

impl Network {
    /// Ends all faults: links are open and as good as they were made, ports take connections, frames come through.
    /// Connections that broke stay broken.
    pub fn heal(&self) {
        let nodes: BTreeSet<NodeId> = self.lock().hosts.keys().copied().collect();
        self.lock().rules.clear();
        self.heal_among(&nodes);
    }

    /// As [`Network::heal`] for the machines in `core` and the links between them; everything else stays as it is.
    /// Rules for frames stay too.
    pub fn heal_among(&self, core: &BTreeSet<NodeId>) {
        let links: Vec<_> = {
            let mut inner = self.lock();
            for (_, host) in inner.hosts.iter_mut().filter(|(node, _)| core.contains(node)) {
                host.faults = HostFaults::default();
            }
            for connection in inner.connections.values_mut() {
                for way in 0..2 {
                    if core.contains(&connection.ends[1 - way].node) {
                        connection.ways[way].window = 0;
                        if let Some(writer) = connection.ends[way].writer.take() {
                            writer.wake();
                        }
                    }
                }
            }
            let inside = |(from, to): &(NodeId, NodeId)| core.contains(from) && core.contains(to);
            for (_, link) in inner.links.iter_mut().filter(|(pair, _)| inside(pair)) {
                (link.settings, link.degraded) = (link.healthy, None);
            }
            inner.links.iter().filter(|(pair, link)| inside(pair) && !link.is_open()).map(|(pair, _)| *pair).collect()
        };
        for (from, to) in links {
            self.set_link(from, to, LinkState::Open);
        }
    }

    /// Lets frames be dropped, delayed, doubled or damaged, until [`Network::heal`].
    pub fn add_frame_rule(&self, rule: FrameRule) {
        let node = rule.from.or(rule.to).unwrap_or(NodeId::WORLD);
        self.trace.note(node, "frame rule", &[u64::from(rule.left)], &format!("{rule:?}"));
        self.lock().rules.add(rule);
    }

    /// Takes back what [`Network::add_frame_rule`] added.
    pub fn remove_frame_rule(&self, rule: &FrameRule) {
        self.lock().rules.remove(rule);
    }

    /// Changes how one direction behaves for a fault of this kind; `None` makes it as good as it was made.
    pub fn degrade(&self, from: NodeId, to: NodeId, change: Option<(LinkSettings, &'static str)>) {
        let mut inner = self.lock();
        let link = self.link(&mut inner, from, to);
        (link.settings, link.degraded) = match change {
            Some((settings, kind)) => (settings, Some(kind)),
            None => (link.healthy, None),
        };
        let words = format!("{:?} {:?}", link.degraded, link.settings);
        self.trace.note(from, "link quality", &[u64::from(to.0)], &words);
    }

    /// How one direction was made.
    pub fn healthy_link(&self, from: NodeId, to: NodeId) -> LinkSettings {
        let mut inner = self.lock();
        self.link(&mut inner, from, to).healthy
    }

    /// A firewall bars a port for new connections; `None` ends that.
    pub fn bar_port(&self, node: NodeId, port: u16, barred: Option<Barred>) {
        self.trace.note(node, "port barred", &[u64::from(port)], &format!("{barred:?}"));
        if let Some(host) = self.lock().hosts.get_mut(&node) {
            host.faults.barred.remove(&port);
            host.faults.barred.extend(barred.map(|barred| (port, barred)));
        }
    }

    /// Names cannot be resolved on `node`; addresses still can be used.
    pub fn fail_names(&self, node: NodeId, failing: bool) {
        self.trace.note(node, "names fail", &[u64::from(failing)], "");
        if let Some(host) = self.lock().hosts.get_mut(&node) {
            host.faults.no_names = failing;
        }
    }

    /// The process on `node` has at most so many connections; further ones fail with "too many open files".
    pub fn limit_sockets(&self, node: NodeId, most: usize) {
        self.trace.note(node, "sockets limited", &[most as u64], "");
        if let Some(host) = self.lock().hosts.get_mut(&node) {
            host.faults.sockets_max = most;
        }
    }

    /// At most so many connections wait to be accepted on `node`, further ones are not answered; `None` ends that.
    pub fn limit_backlog(&self, node: NodeId, most: Option<usize>) {
        let most = most.unwrap_or(BACKLOG);
        self.trace.note(node, "backlog limited", &[most as u64], "");
        if let Some(host) = self.lock().hosts.get_mut(&node) {
            host.faults.backlog = most;
        }
    }

    /// `node` takes at most so many bytes beyond what its programs have read: writers to it wait early. `None` ends that.
    pub fn limit_window(&self, node: NodeId, bytes: Option<u64>) {
        let bytes = bytes.unwrap_or(WINDOW).max(1);
        self.trace.note(node, "window limited", &[bytes], "");
        let mut inner = self.lock();
        if let Some(host) = inner.hosts.get_mut(&node) {
            host.faults.window = bytes;
        }
        for connection in inner.connections.values_mut() {
            for way in 0..2 {
                if connection.ends[1 - way].node == node {
                    connection.ways[way].window = bytes;
                    if let Some(writer) = connection.ends[way].writer.take() {
                        writer.wake();
                    }
                }
            }
        }
    }

    /// Something between two machines (a NAT, say) forgets their connections: nothing comes through any more, and
    /// neither side is told. Returns how many connections there were.
    pub fn forget_connections(&self, a: NodeId, b: NodeId) -> usize {
        let mut inner = self.lock();
        let mut count = 0;
        for connection in inner.connections.values_mut().filter(|connection| connection.is_between(a, b)) {
            connection.forgotten = true;
            count += 1;
        }
        self.trace.note(a, "net forgotten", &[u64::from(b.0), count as u64], "");
        count
    }

    /// Something between two machines resets their connections at both ends. Returns how many there were.
    pub fn reset_connections(&self, a: NodeId, b: NodeId) -> usize {
        let mut inner = self.lock();
        let mut ids = Vec::new();
        for (id, connection) in inner.connections.iter_mut().filter(|(_, connection)| connection.is_between(a, b)) {
            for end in 0..2 {
                connection.ends[end].fail(io::ErrorKind::ConnectionReset);
                connection.ways[end].segments.clear();
            }
            ids.push(*id);
        }
        if !ids.is_empty() {
            marks::mattered("reset_connections");
        }
        self.trace.note(a, "net reset both", &[u64::from(b.0), ids.len() as u64], "");
        ids.iter().for_each(|id| self.reap(&mut inner, *id));
        ids.len()
    }

    /// Takes bytes that a program wrote: cuts them into frames where rules ask for it, and sends what comes through.
    pub(super) fn written(&self, inner: &mut Inner, id: WayId, bytes: &[u8]) {
        let hold = !inner.rules.is_empty();
        let Some(connection) = inner.connections.get_mut(&id.0) else { return };
        if !hold && connection.ways[id.1].cutter.passes(bytes) {
            return self.send(inner, id, bytes);
        }
        let nodes = (connection.ends[id.1].node, connection.ends[1 - id.1].node);
        for piece in connection.ways[id.1].cutter.cut(bytes, hold) {
            match piece {
                Piece::Through(bytes) => self.send(inner, id, &bytes),
                Piece::Frame(frame) => self.send_frame(inner, id, nodes, frame),
            }
        }
    }

    fn send_frame(&self, inner: &mut Inner, id: WayId, nodes: (NodeId, NodeId), mut frame: Vec<u8>) {
        let Inner { rules, connections, .. } = inner;
        let Some(connection) = connections.get_mut(&id.0) else { return };
        let [first, second] = &mut connection.ways;
        let (there, back) = if id.1 == 0 { (first, second) } else { (second, first) };
        let Some((fault, code, kind)) = rules.judge(nodes, &frame, &mut there.cutter, &mut back.cutter) else {
            return self.send(inner, id, &frame);
        };
        marks::mattered(kind);
        let numbers = [id.0, id.1 as u64, code as u64];
        match fault {
            FrameFault::Drop => self.trace.note(nodes.0, "frame dropped", &numbers, ""),
            FrameFault::Delay(wait) => {
                self.trace.note(nodes.0, "frame delayed", &numbers, "");
                self.send_later(wait, id, frame);
            }
            FrameFault::Duplicate(wait) => {
                self.trace.note(nodes.0, "frame doubled", &numbers, "");
                self.send(inner, id, &frame);
                self.send_later(wait, id, frame);
            }
            FrameFault::Damage => {
                self.trace.note(nodes.0, "frame damaged", &numbers, "");
                rules.damage(&mut frame);
                self.send(inner, id, &frame);
            }
        }
    }

    fn send_later(&self, wait: std::time::Duration, id: WayId, frame: Vec<u8>) {
        self.later(self.agenda.now() + wait, move |network, inner| network.send(inner, id, &frame));
    }

    /// Puts bytes on a way, behind those that are there.
    pub(super) fn send(&self, inner: &mut Inner, id: WayId, bytes: &[u8]) {
        let Some(connection) = inner.connections.get(&id.0) else { return };
        if connection.ways[id.1].shut || connection.ends[id.1].socket != Socket::Open {
            return;
        }
        let (from, to) = (connection.ends[id.1].node, connection.ends[1 - id.1].node);
        let (now, mut rest) = (self.agenda.now(), bytes);
        while !rest.is_empty() {
            let link = self.link(inner, from, to);
            let (segment, after) = rest.split_at(link.segment(rest.len()));
            let arrival = link.arrival(now, segment.len());
            rest = after;
            let Some(connection) = inner.connections.get_mut(&id.0) else { return };
            connection.ways[id.1].push(arrival, Segment::Data(segment.to_vec()));
        }
        self.started(inner, id);
    }
}

impl Inner {
    /// True if the process on `node` has more connections than it may once it gets `more`. Those that wait to be
    /// accepted count.
    pub(super) fn lacks_sockets(&self, node: NodeId, more: usize) -> bool {
        let Some(most) = self.hosts.get(&node).map(|host| host.faults.sockets_max) else { return false };
        if most == usize::MAX {
            return false;
        }
        let ends = self.connections.values().flat_map(|connection| &connection.ends);
        ends.filter(|end| end.node == node && end.socket.is_held()).count() + more > most
    }

    /// The window of a host's new connections.
    pub(super) fn window(&self, node: NodeId) -> u64 {
        self.hosts.get(&node).map_or(WINDOW, |host| host.faults.window)
    }
}

impl super::connection::Connection {
    fn is_between(&self, a: NodeId, b: NodeId) -> bool {
        let nodes = [self.ends[0].node, self.ends[1].node];
        nodes == [a, b] || nodes == [b, a]
    }
}
