//! What happens to segments: arrival, acknowledgement, reset, giving up.

use std::io;
use std::time::Duration;

use super::connection::{Haste, Segment, Socket, WayId, ACKNOWLEDGE_AFTER, GIVE_UP, RETRANSMIT_MAX, RETRANSMIT_MIN};
use super::link::LinkState;
use super::network::{Inner, Network};
use crate::marks;

impl Network {
    /// Runs `work` on the network at `at`.
    pub(super) fn later(&self, at: Duration, work: impl FnOnce(&Network, &mut Inner) + Send + 'static) {
        let me = self.me.clone();
        self.agenda.at(at, move || {
            if let Some(network) = me.upgrade() {
                let mut inner = network.lock();
                work(&network, &mut inner);
            }
        });
    }

    /// Segments were added to a way: sees to their arrival and to giving up on them.
    pub(super) fn started(&self, inner: &mut Inner, id: WayId) {
        let Some(connection) = inner.connections.get_mut(&id.0) else { return };
        let way = &mut connection.ways[id.1];
        let Some((first, _)) = way.segments.front() else { return };
        let first = *first;
        if !way.watched {
            way.watched = true;
            let mark = way.sent;
            self.later(self.agenda.now() + GIVE_UP, move |network, inner| network.check_progress(inner, id, mark));
        }
        self.schedule_first(inner, id, first);
    }

    /// Makes the agenda entry for the first segment of a way, unless there is one.
    pub(super) fn schedule_first(&self, inner: &mut Inner, id: WayId, at: Duration) {
        let Some(connection) = inner.connections.get_mut(&id.0) else { return };
        let way = &mut connection.ways[id.1];
        if !way.scheduled && !way.segments.is_empty() {
            way.scheduled = true;
            self.later(at, move |network, inner| network.arrive(inner, id));
        }
    }

    fn arrive(&self, inner: &mut Inner, id: WayId) {
        let Some(connection) = inner.connections.get_mut(&id.0) else { return };
        connection.ways[id.1].scheduled = false;
        let (from, to) = (connection.ends[id.1].node, connection.ends[1 - id.1].node);
        let gone = connection.ends[id.1].socket == Socket::Vanished;
        let forgotten = connection.forgotten;
        let state = self.link(inner, from, to).state;
        if state != LinkState::Open {
            self.link(inner, from, to).hindered();
        }
        if state == LinkState::Clogged && !gone {
            self.link(inner, from, to).held.insert(id);
            return;
        }
        if forgotten {
            marks::mattered("forget_connections");
        }
        if state != LinkState::Open || !inner.is_powered(to) || forgotten {
            return self.retransmit(inner, id, gone);
        }
        let now = self.agenda.now();
        let Some(connection) = inner.connections.get_mut(&id.0) else { return };
        connection.ways[id.1].pause = RETRANSMIT_MIN;
        while let Some((at, _)) = connection.ways[id.1].segments.front() {
            if *at > now {
                break;
            }
            let Some((_, segment)) = connection.ways[id.1].segments.pop_front() else { break };
            connection.ways[id.1].arrived += segment.len();
            let receiver = &mut connection.ends[1 - id.1];
            let numbers = [id.0, id.1 as u64, segment.len()];
            match segment {
                Segment::Data(bytes) if receiver.socket == Socket::Open => {
                    self.trace.note(to, "net data", &numbers, "");
                    receiver.input.extend(bytes);
                }
                // Nobody holds this end any more: the kernel answers with a reset.
                Segment::Data(_) => {
                    self.trace.note(to, "net unwanted", &numbers, "");
                    connection.ways[id.1].segments.clear();
                    self.send_reset(inner, id.0, 1 - id.1);
                    return self.reap(inner, id.0);
                }
                Segment::Fin => {
                    self.trace.note(to, "net end", &numbers, "");
                    receiver.ended = true;
                    connection.ways[id.1].consumed += 1;
                }
            }
            if let Some(reader) = connection.ends[1 - id.1].reader.take() {
                reader.wake();
            }
        }
        let next = connection.ways[id.1].segments.front().map(|(at, _)| *at);
        if let Some(at) = next {
            self.schedule_first(inner, id, at);
        }
        self.acknowledge(inner, id, Haste::Later);
        self.reap(inner, id.0);
    }

    /// The first segment was lost: it comes again after a pause, if its sender is still there to send it.
    fn retransmit(&self, inner: &mut Inner, id: WayId, gone: bool) {
        let Some(connection) = inner.connections.get_mut(&id.0) else { return };
        let way = &mut connection.ways[id.1];
        if gone {
            way.segments.clear();
            return self.reap(inner, id.0);
        }
        way.pause = way.pause.max(RETRANSMIT_MIN);
        let again = self.agenda.now() + way.pause;
        way.pause = (way.pause * 2).min(RETRANSMIT_MAX);
        self.schedule_first(inner, id, again);
    }

    /// Tells the sender of a way what has arrived and what was read.
    pub(super) fn acknowledge(&self, inner: &mut Inner, id: WayId, haste: Haste) {
        let Some(connection) = inner.connections.get_mut(&id.0) else { return };
        if connection.ways[id.1].acknowledging >= Some(haste) {
            return;
        }
        connection.ways[id.1].acknowledging = Some(haste);
        let (sender, receiver) = (connection.ends[id.1].node, connection.ends[1 - id.1].node);
        let wait = if haste == Haste::Later { ACKNOWLEDGE_AFTER } else { Duration::ZERO };
        let at = self.agenda.now() + wait + self.link(inner, receiver, sender).latency();
        self.later(at, move |network, inner| network.acknowledged(inner, id));
    }

    fn acknowledged(&self, inner: &mut Inner, id: WayId) {
        let Some(connection) = inner.connections.get_mut(&id.0) else { return };
        let (sender, receiver) = (connection.ends[id.1].node, connection.ends[1 - id.1].node);
        // Who lost its power acknowledges nothing any more.
        if connection.ends[1 - id.1].socket == Socket::Vanished || connection.forgotten {
            return;
        }
        if !self.link(inner, receiver, sender).is_open() {
            let at = self.agenda.now() + RETRANSMIT_MIN * 2;
            return self.later(at, move |network, inner| network.acknowledged(inner, id));
        }
        let Some(connection) = inner.connections.get_mut(&id.0) else { return };
        let way = &mut connection.ways[id.1];
        way.acknowledging = None;
        way.known_arrived = way.arrived;
        way.known_consumed = way.consumed;
        if way.room() > 0 {
            if let Some(writer) = connection.ends[id.1].writer.take() {
                writer.wake();
            }
        }
    }

    /// The reader took bytes: a sender that is, or will soon be, out of room hears of it.
    pub(super) fn consumed(&self, inner: &mut Inner, id: WayId, bytes: u64) {
        let Some(connection) = inner.connections.get_mut(&id.0) else { return };
        let way = &mut connection.ways[id.1];
        way.consumed += bytes;
        if way.sent - way.known_consumed > way.window() / 2 {
            self.acknowledge(inner, id, Haste::AtOnce);
        }
    }

    /// Sends a reset from an end to its peer. It is not sent again if it is lost.
    pub(super) fn send_reset(&self, inner: &mut Inner, id: u64, end: usize) {
        let Some(connection) = inner.connections.get(&id) else { return };
        if connection.forgotten {
            return;
        }
        let (from, to) = (connection.ends[end].node, connection.ends[1 - end].node);
        let at = self.agenda.now() + self.link(inner, from, to).latency();
        self.later(at, move |network, inner| {
            if network.link(inner, from, to).state != LinkState::Open || !inner.is_powered(to) {
                return;
            }
            network.trace.note(to, "net reset", &[id], "");
            let Some(connection) = inner.connections.get_mut(&id) else { return };
            connection.ends[1 - end].fail(io::ErrorKind::ConnectionReset);
            connection.ways[1 - end].segments.clear();
            network.reap(inner, id);
        });
    }

    /// Ends a connection whose bytes up to `mark` were not acknowledged in time.
    fn check_progress(&self, inner: &mut Inner, id: WayId, mark: u64) {
        let Some(connection) = inner.connections.get_mut(&id.0) else { return };
        let way = &mut connection.ways[id.1];
        let sender = &mut connection.ends[id.1];
        way.watched = false;
        if matches!(sender.socket, Socket::Vanished | Socket::Failed(_)) || way.known_arrived == way.sent {
            return;
        }
        if way.known_arrived >= mark {
            way.watched = true;
            let mark = way.sent;
            self.later(self.agenda.now() + GIVE_UP, move |network, inner| network.check_progress(inner, id, mark));
            return;
        }
        self.trace.note(sender.node, "net gave up", &[id.0, id.1 as u64], "");
        sender.fail(io::ErrorKind::TimedOut);
        way.segments.clear();
        self.reap(inner, id.0);
    }
}
