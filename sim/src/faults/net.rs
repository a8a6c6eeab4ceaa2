//! Links: cuts, one-way cuts, clogs, partitions.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Draw, Fault, Harm, Kind};
use crate::net::LinkState;
use crate::world::{NodeId, World};

/// Faults of links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NetFault {
    /// Nothing gets from one machine to the other, and nothing back.
    Cut {
        /// One machine.
        a: String,
        /// The other.
        b: String,
        /// Until the link is whole.
        for_us: u64,
    },
    /// Nothing gets from one machine to the other; what comes back arrives.
    CutOneWay {
        /// Where it is sent.
        from: String,
        /// Where it does not arrive.
        to: String,
        /// Until the link is whole.
        for_us: u64,
    },
    /// What is sent is held, and arrives all at once.
    Clog {
        /// Where it is sent.
        from: String,
        /// Where it arrives late.
        to: String,
        /// Until it is let through.
        for_us: u64,
    },
    /// A machine is cut off from all others.
    Isolate {
        /// Which.
        machine: String,
        /// Until it is back.
        for_us: u64,
    },
    /// The machines fall into two parts that do not reach each other.
    Partition {
        /// One part; all others are the other one.
        part: Vec<String>,
        /// Until they are one again.
        for_us: u64,
    },
}

/// The kinds.
pub(super) const KINDS: &[Kind] = &[
    Kind { name: "cut", harm: Harm::Delay, draw: cut },
    Kind { name: "cut_one_way", harm: Harm::Delay, draw: cut_one_way },
    Kind { name: "clog", harm: Harm::Delay, draw: clog },
    Kind {
        name: "isolate",
        harm: Harm::Delay,
        draw: |d| Fault::Net(NetFault::Isolate { machine: d.machine(), for_us: d.us_up_to(60_000) }),
    },
    Kind { name: "partition", harm: Harm::Delay, draw: partition },
];

fn cut(d: &mut Draw<'_>) -> Fault {
    let ((a, b), for_us) = (d.pair(), d.us_up_to(60_000));
    Fault::Net(NetFault::Cut { a, b, for_us })
}

fn cut_one_way(d: &mut Draw<'_>) -> Fault {
    let ((from, to), for_us) = (d.pair(), d.us_up_to(60_000));
    Fault::Net(NetFault::CutOneWay { from, to, for_us })
}

fn clog(d: &mut Draw<'_>) -> Fault {
    let ((from, to), for_us) = (d.pair(), d.us_up_to(10_000));
    Fault::Net(NetFault::Clog { from, to, for_us })
}

fn partition(d: &mut Draw<'_>) -> Fault {
    let all = d.roster.all();
    let part = all.into_iter().filter(|_| d.random.below(2) == 0).collect();
    Fault::Net(NetFault::Partition { part, for_us: d.us_up_to(60_000) })
}

impl NetFault {
    pub(super) fn lasts_us(&self) -> u64 {
        match self {
            NetFault::Cut { for_us, .. }
            | NetFault::CutOneWay { for_us, .. }
            | NetFault::Clog { for_us, .. }
            | NetFault::Isolate { for_us, .. }
            | NetFault::Partition { for_us, .. } => *for_us,
        }
    }

    pub(super) fn apply(&self, world: &World) -> bool {
        let both = |a: &String, b: &String| [one(world, a, b), one(world, b, a)].concat();
        let machines: Vec<String> = world.nodes_by_name().into_keys().collect();
        let (links, state, kind) = match self {
            NetFault::Cut { a, b, .. } => (both(a, b), LinkState::Cut, "cut"),
            NetFault::CutOneWay { from, to, .. } => (one(world, from, to), LinkState::Cut, "cut_one_way"),
            NetFault::Clog { from, to, .. } => (one(world, from, to), LinkState::Clogged, "clog"),
            NetFault::Isolate { machine, .. } => {
                let links = machines.iter().flat_map(|other| both(machine, other)).collect();
                (links, LinkState::Cut, "isolate")
            }
            NetFault::Partition { part, .. } => {
                let (inside, outside): (Vec<_>, Vec<_>) = machines.iter().partition(|name| part.contains(name));
                let links = inside.iter().flat_map(|a| outside.iter().flat_map(|b| both(a, b))).collect();
                (links, LinkState::Cut, "partition")
            }
        };
        shut(world, links, state, kind, self.lasts_us())
    }
}

/// The direction between two machines, if both exist and differ.
fn one(world: &World, from: &str, to: &str) -> Vec<(NodeId, NodeId)> {
    match (world.find(from), world.find(to)) {
        (Some(from), Some(to)) if from != to => vec![(from, to)],
        _ => Vec::new(),
    }
}

/// Shuts links and arranges that they open again; false if there are none.
fn shut(world: &World, links: Vec<(NodeId, NodeId)>, state: LinkState, kind: &'static str, for_us: u64) -> bool {
    for (from, to) in &links {
        world.shut_link(*from, *to, state, kind);
    }
    let some = !links.is_empty();
    world.later(Duration::from_micros(for_us), move |world| {
        for (from, to) in links {
            world.open_link(from, to, state, kind);
        }
    });
    some
}

/// Opens all links.
pub(super) fn heal(world: &World) {
    world.open_all_links();
}
