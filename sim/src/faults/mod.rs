//! What befalls machines, as data: a plan holds faults, and [`Fault::apply`] lets them happen.
//!
//! A fault is a whole episode: what begins also ends, unless the world is healed first. So any fault can be taken out of
//! a plan and the others stay what they were. Machines are named by text (`broker-0`, `ns-1`); a fault on a machine
//! that a plan does not have does nothing, which lets a plan lose machines too.
//!
//! To add a kind: a variant in its family's enum with an arm in `apply`, and a row in the family's `KINDS`. Call
//! [`crate::marks::mattered`] with its name where it has its effect. Plans, swarm, shrinking and reports need no more.

mod client;
mod clock;
mod data;
mod disk;
mod inside;
mod net;
mod process;
mod roster;
mod wire;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use client::ClientFault;
pub use clock::ClockFault;
pub use data::DataFault;
pub use disk::DiskFault;
pub use inside::SimFaults;
pub use net::NetFault;
pub use process::ProcessFault;
pub use roster::{Draw, Roster};
pub use wire::WireFault;

use crate::marks;
use crate::world::{NodeId, World};

/// One fault. As text it is its kind and its parameters: `{"power_cut": {"machine": "broker-0", "down_us": 1200}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Fault {
    /// To a process or its machine.
    Process(ProcessFault),
    /// To links.
    Net(NetFault),
    /// To what travels on links: quality, frames, sockets.
    Wire(WireFault),
    /// To a disk.
    Disk(DiskFault),
    /// To a clock.
    Clock(ClockFault),
    /// To a client.
    Client(ClientFault),
    /// To what is on a disk.
    Data(DataFault),
}

/// Longer than any run.
const FOR_GOOD: Duration = Duration::from_secs(10_000_000);

/// What a fault may cost, that is, what a run must not count on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// Time only.
    Delay,
    /// Whatever was not synced: under ASYNC_FLUSH acknowledged messages.
    Unsynced,
    /// The process may give up, or refuse to start, and is started again.
    Process,
    /// Unsynced data and the process.
    UnsyncedAndProcess,
    /// A machine's clock: nothing that depends on agreement of clocks holds.
    Time,
    /// Synced data of one machine.
    Data,
}

impl Harm {
    /// True if unsynced data may be gone.
    pub fn takes_unsynced(self) -> bool {
        matches!(self, Harm::Unsynced | Harm::UnsyncedAndProcess | Harm::Data)
    }
}

/// A kind of fault.
pub struct Kind {
    /// Its name, which is also its tag in plans.
    pub name: &'static str,
    /// What it may cost.
    pub harm: Harm,
    /// Draws one.
    pub draw: fn(&mut Draw<'_>) -> Fault,
}

/// All kinds, by family.
pub const KINDS: &[&[Kind]] =
    &[process::KINDS, net::KINDS, wire::KINDS, disk::KINDS, clock::KINDS, client::KINDS, data::KINDS];

/// All kinds in one row.
pub fn kinds() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().flat_map(|family| family.iter())
}

/// The kind of a name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    kinds().find(|kind| kind.name == name)
}

impl Fault {
    /// The kind of this fault.
    pub fn kind(&self) -> &'static Kind {
        let value = serde_json::to_value(self).expect("faults are plain data");
        let tag = value.as_object().and_then(|fields| fields.keys().next()).expect("a fault has a tag");
        kind(tag).expect("every variant has a row in its family's KINDS")
    }

    /// The loss of a machine that nobody will bring back.
    pub fn lost_for_good(machine: String) -> Fault {
        Fault::Process(ProcessFault::Kill { machine, down_us: FOR_GOOD.as_micros() as u64 })
    }

    /// Lets it happen, now. Its end is arranged too.
    pub fn apply(&self, world: &World) {
        world.note(NodeId::WORLD, "fault", &[], &serde_json::to_string(self).expect("faults are plain data"));
        let happened = match self {
            Fault::Process(fault) => fault.apply(world),
            Fault::Net(fault) => fault.apply(world),
            Fault::Wire(fault) => fault.apply(world),
            Fault::Disk(fault) => fault.apply(world),
            Fault::Clock(fault) => fault.apply(world),
            Fault::Client(fault) => fault.apply(world),
            Fault::Data(fault) => fault.apply(world),
        };
        if happened {
            marks::fired(self.kind().name);
        }
    }

    /// How long it lasts from its beginning on.
    pub fn lasts(&self) -> Duration {
        Duration::from_micros(match self {
            Fault::Process(fault) => fault.lasts_us(),
            Fault::Net(fault) => fault.lasts_us(),
            Fault::Wire(fault) => fault.lasts_us(),
            Fault::Disk(fault) => fault.lasts_us(),
            Fault::Clock(fault) => fault.lasts_us(),
            Fault::Client(fault) => fault.lasts_us(),
            Fault::Data(fault) => fault.lasts_us(),
        })
    }
}

/// Ends all faults that are still on: links open, disks work, processes run.
pub fn heal(world: &World) {
    net::heal(world);
    disk::heal(world);
    clock::heal(world);
    process::heal(world);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;
    use std::collections::BTreeSet;

    fn drawn(kind: &Kind, seed: u64) -> Fault {
        let roster = Roster {
            nameservers: vec!["ns-0".into(), "ns-1".into()],
            brokers: vec!["broker-0".into(), "broker-1".into()],
            slaves: vec!["broker-0-slave-1".into()],
            clients: vec!["producer-0".into()],
        };
        (kind.draw)(&mut Draw::new(Stream::new(seed, kind.name), &roster))
    }

    #[test]
    fn every_kind_draws_itself_and_survives_text() {
        for kind in kinds() {
            for seed in 0..50 {
                let fault = drawn(kind, seed);
                assert_eq!(fault.kind().name, kind.name);
                let text = serde_json::to_string(&fault).unwrap();
                assert_eq!(serde_json::from_str::<Fault>(&text).unwrap(), fault, "{text}");
            }
        }
    }

    #[test]
    fn no_name_stands_twice() {
        assert_eq!(kinds().map(|kind| kind.name).collect::<BTreeSet<_>>().len(), kinds().count());
    }

    #[test]
    fn an_unknown_kind_is_refused() {
        assert!(serde_json::from_str::<Fault>(r#"{"meteor": {"machine": "broker-0"}}"#).is_err());
    }
}
