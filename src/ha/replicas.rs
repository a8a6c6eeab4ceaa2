//! A master's slaves: who has what, who is in sync, and what counts as replicated.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::env::{Canaries, Canary, Millis};

/// Who a slave is. Two connections of one slave are one copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SlaveId {
    /// The broker of this id.
    Broker(u64),
    /// A slave of the plain protocol says no id: whoever comes from this machine.
    Machine(IpAddr),
}

/// One slave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlaveView {
    /// Who it is.
    pub id: SlaveId,
    /// Where it comes from.
    pub address: String,
    /// Up to where it has the log, as far as it said.
    pub acked: Option<u64>,
    /// Bytes of the master's log it lacks; `None` if it has said nothing yet.
    pub behind: Option<u64>,
    /// For how long it has lacked any, in milliseconds.
    pub behind_ms: u64,
    /// It counts for what is replicated.
    pub in_sync: bool,
}

struct Slave {
    /// The newest of its connections; older ones are dead and do not know it yet.
    connection: u64,
    address: String,
    acked: Option<u64>,
    /// When it last said anything.
    heard: Millis,
    /// When it last had everything there was.
    caught_up: Millis,
    /// Its acknowledgements count.
    counts: bool,
}

/// See the module's text.
pub struct Replicas {
    /// Nodes that have to hold what is replicated, the master included; 1 or less: nobody waits.
    needed: usize,
    /// A slave that lacks more bytes than this is not in sync (`haMaxGapNotInSync`).
    gap_max: u64,
    slaves: BTreeMap<SlaveId, Slave>,
    canaries: Canaries,
}

impl Replicas {
    /// No slave is there yet.
    pub fn new(needed: usize, gap_max: u64, canaries: Canaries) -> Replicas {
        Replicas { needed, gap_max, slaves: BTreeMap::new(), canaries }
    }

    /// Nodes that have to hold what is replicated, the master included.
    pub fn needed(&self) -> usize {
        self.needed
    }

    /// From now on so many nodes have to hold what is replicated.
    pub fn set_needed(&mut self, needed: usize) {
        self.needed = needed;
    }

    /// A slave has connected, by the connection of this number. Learners do not count.
    pub fn on_connected(&mut self, id: SlaveId, connection: u64, address: String, counts: bool, now: Millis) {
        let slave = Slave { connection, address, acked: None, heard: now, caught_up: now, counts };
        self.slaves.insert(id, slave);
    }

    /// A slave has said up to where it has the log, which ends at `end` here.
    pub fn on_acked(&mut self, id: SlaveId, connection: u64, acked: u64, end: u64, now: Millis) {
        // Never beyond the own end, whoever says so.
        let acked = acked.min(end);
        if let Some(slave) = self.slaves.get_mut(&id).filter(|slave| slave.connection == connection) {
            slave.acked = slave.acked.max(Some(acked));
            slave.heard = now;
            if acked == end {
                slave.caught_up = now;
            }
        }
    }

    /// A connection has ended.
    pub fn on_closed(&mut self, id: SlaveId, connection: u64) {
        let Some(slave) = self.slaves.get_mut(&id).filter(|slave| slave.connection == connection) else { return };
        if self.canaries.has(Canary::AbsentSlaveCounts) {
            slave.acked = Some(u64::MAX);
        } else {
            self.slaves.remove(&id);
        }
    }

    /// Up to where enough nodes hold the log, which ends at `end` here; `None` if too few are there.
    pub fn replicated(&self, end: u64) -> Option<u64> {
        if self.needed <= 1 {
            return Some(end);
        }
        let mut acked: Vec<u64> =
            self.slaves.values().filter(|slave| slave.counts).filter_map(|slave| slave.acked).collect();
        acked.sort_unstable_by(|one, other| other.cmp(one));
        acked.get(self.needed - 2).map(|acked| end.min(*acked))
    }

    /// Slaves in sync and the master.
    pub fn in_sync(&self, end: u64) -> usize {
        1 + self.slaves.values().filter(|slave| self.is_in_sync(slave, end)).count()
    }

    /// Whether enough nodes are there for a send to be replicated.
    pub fn is_enough(&self, end: u64) -> bool {
        self.in_sync(end) >= self.needed
    }

    /// Whether enough nodes for a send to be replicated have said anything within these milliseconds.
    pub fn hears_enough(&self, within_ms: u64, now: Millis) -> bool {
        let heard = |slave: &&Slave| slave.counts && slave.acked.is_some() && now.since(slave.heard) <= within_ms;
        1 + self.slaves.values().filter(heard).count() >= self.needed
    }

    /// All slaves, for people to look at.
    pub fn views(&self, end: u64, now: Millis) -> Vec<SlaveView> {
        let view = |(id, slave): (&SlaveId, &Slave)| {
            let behind = slave.acked.map(|acked| end.saturating_sub(acked));
            SlaveView {
                id: *id,
                address: slave.address.clone(),
                acked: slave.acked,
                behind,
                behind_ms: if behind == Some(0) { 0 } else { now.since(slave.caught_up) },
                in_sync: self.is_in_sync(slave, end),
            }
        };
        self.slaves.iter().map(view).collect()
    }

    fn is_in_sync(&self, slave: &Slave, end: u64) -> bool {
        slave.counts && slave.acked.is_some_and(|acked| end.saturating_sub(acked) <= self.gap_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: SlaveId = SlaveId::Broker(1);
    const TWO: SlaveId = SlaveId::Broker(2);

    fn replicas(needed: usize) -> Replicas {
        let mut replicas = Replicas::new(needed, 1000, Canaries::default());
        replicas.on_connected(ONE, 1, "one".into(), true, Millis(0));
        replicas.on_connected(TWO, 2, "two".into(), true, Millis(0));
        replicas
    }

    #[test]
    fn what_enough_nodes_hold_is_replicated() {
        let mut two = replicas(2);
        assert_eq!(two.replicated(500), None);
        two.on_acked(ONE, 1, 300, 500, Millis(1));
        assert_eq!(two.replicated(500), Some(300));
        two.on_acked(TWO, 2, 400, 500, Millis(1));
        assert_eq!(two.replicated(500), Some(400));
        two.set_needed(3);
        assert_eq!(two.replicated(500), Some(300));
        two.on_closed(ONE, 1);
        assert_eq!(two.replicated(500), None);
        two.set_needed(1);
        assert_eq!(two.replicated(500), Some(500));
    }

    #[test]
    fn two_connections_of_a_slave_are_one_copy() {
        let mut three = replicas(3);
        three.on_acked(ONE, 1, 300, 500, Millis(1));
        three.on_connected(ONE, 7, "one".into(), true, Millis(1));
        three.on_acked(ONE, 7, 300, 500, Millis(1));
        three.on_acked(ONE, 1, 500, 500, Millis(1));
        assert_eq!(three.replicated(500), None);
        three.on_closed(ONE, 1);
        assert_eq!(three.views(500, Millis(2)).len(), 2, "the older connection's end is no news");
    }

    #[test]
    fn nobody_is_believed_beyond_the_own_end() {
        let mut two = replicas(2);
        two.on_acked(ONE, 1, 9000, 500, Millis(1));
        assert_eq!(two.replicated(500), Some(500));
        assert_eq!(two.views(700, Millis(9))[0].behind, Some(200));
        assert_eq!(two.views(700, Millis(9))[0].behind_ms, 8);
    }

    #[test]
    fn who_is_far_behind_is_not_in_sync() {
        let mut two = replicas(2);
        assert!(!two.is_enough(500), "nobody has said anything");
        assert_eq!(two.views(500, Millis(1))[0].behind, None);
        two.on_acked(ONE, 1, 300, 500, Millis(1));
        assert!(two.is_enough(500));
        assert!(two.is_enough(1300));
        assert!(!two.is_enough(1301));
    }

    #[test]
    fn a_slave_that_is_silent_is_not_heard() {
        let mut replicas = Replicas::new(2, 1000, Canaries::default());
        assert!(!replicas.hears_enough(10, Millis(0)), "nobody is there");
        replicas.on_connected(ONE, 1, "one".into(), true, Millis(0));
        assert!(!replicas.hears_enough(10, Millis(0)), "it has said nothing");
        replicas.on_acked(ONE, 1, 5, 5, Millis(3));
        assert!(replicas.hears_enough(10, Millis(13)) && !replicas.hears_enough(10, Millis(14)));
        replicas.on_acked(ONE, 1, 5, 5, Millis(20));
        assert!(replicas.hears_enough(10, Millis(30)), "it says the same again");
        replicas.on_closed(ONE, 1);
        assert!(!replicas.hears_enough(10, Millis(30)), "it has left");
    }
}
