//! Clients: producers and consumers that die, vanish or stand still.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Draw, Fault, Harm, Kind};
use crate::marks;
use crate::world::World;

/// Faults of clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ClientFault {
    /// A client's process dies and is started again: it goes on with its next message, or from its committed offsets.
    ClientDies {
        /// Whose.
        machine: String,
        /// Until it is started again.
        down_us: u64,
    },
    /// A client's machine loses its power: its connections stay half open at the servers.
    ClientVanishes {
        /// Which.
        machine: String,
        /// Until it is started again.
        down_us: u64,
    },
    /// A client's process stands still, with requests under way.
    ClientStalls {
        /// Whose.
        machine: String,
        /// Until it goes on.
        for_us: u64,
    },
    /// All clients start anew at one moment and ask for everything at once.
    ClientsStampede {
        /// Until they are started again.
        down_us: u64,
    },
}

/// The kinds.
pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "client_dies",
        harm: Harm::Delay,
        draw: |d| Fault::Client(ClientFault::ClientDies { machine: client(d), down_us: d.us_up_to(5_000) }),
    },
    Kind {
        name: "client_vanishes",
        harm: Harm::Delay,
        draw: |d| Fault::Client(ClientFault::ClientVanishes { machine: client(d), down_us: d.us_up_to(60_000) }),
    },
    Kind {
        name: "client_stalls",
        harm: Harm::Delay,
        draw: |d| Fault::Client(ClientFault::ClientStalls { machine: client(d), for_us: d.us_up_to(60_000) }),
    },
    Kind {
        name: "clients_stampede",
        harm: Harm::Delay,
        draw: |d| Fault::Client(ClientFault::ClientsStampede { down_us: d.us_up_to(1_000) }),
    },
];

fn client(d: &mut Draw<'_>) -> String {
    if d.roster.clients.is_empty() {
        return "nobody".to_owned();
    }
    d.random.pick(&d.roster.clients).clone()
}

impl ClientFault {
    pub(super) fn lasts_us(&self) -> u64 {
        match self {
            ClientFault::ClientDies { down_us: us, .. }
            | ClientFault::ClientVanishes { down_us: us, .. }
            | ClientFault::ClientStalls { for_us: us, .. }
            | ClientFault::ClientsStampede { down_us: us } => *us,
        }
    }

    pub(super) fn apply(&self, world: &World) -> bool {
        let lasts = Duration::from_micros(self.lasts_us());
        let nodes: Vec<_> = match self {
            ClientFault::ClientsStampede { .. } => {
                let clients = world.nodes_by_name().into_iter().filter(|(name, _)| is_client(name));
                clients.map(|(_, node)| node).collect()
            }
            ClientFault::ClientDies { machine, .. }
            | ClientFault::ClientVanishes { machine, .. }
            | ClientFault::ClientStalls { machine, .. } => world.find(machine).into_iter().collect(),
        };
        let nodes: Vec<_> =
            nodes.into_iter().filter(|node| world.is_alive(*node) && world.has_program(*node)).collect();
        for node in &nodes {
            let node = *node;
            match self {
                ClientFault::ClientDies { .. } | ClientFault::ClientsStampede { .. } => world.kill(node),
                ClientFault::ClientVanishes { .. } => world.power_cut(node),
                ClientFault::ClientStalls { .. } => {
                    world.pause(node);
                    world.later(lasts, move |world| world.resume(node));
                    continue;
                }
            }
            world.later(lasts, move |world| world.boot(node));
        }
        if !nodes.is_empty() {
            marks::mattered(match self {
                ClientFault::ClientDies { .. } => "client_dies",
                ClientFault::ClientVanishes { .. } => "client_vanishes",
                ClientFault::ClientStalls { .. } => "client_stalls",
                ClientFault::ClientsStampede { .. } => "clients_stampede",
            });
        }
        !nodes.is_empty()
    }
}

fn is_client(name: &str) -> bool {
    name.starts_with("producer") || name.starts_with("consumer")
}
