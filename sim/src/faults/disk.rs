//! Disks: slow, failing, full.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Draw, Fault, Harm, Kind};
use crate::disk::DriveSettings;
use crate::world::{NodeId, World};

/// Faults of disks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum DiskFault {
    /// Every sync waits until the stall is over.
    Stall {
        /// Whose disk.
        machine: String,
        /// Until it goes on.
        for_us: u64,
    },
    /// The next syncs fail, then the disk works again. The broker is restarted, since it must not trust its disk again
    /// by itself.
    FailSyncs {
        /// Whose disk.
        machine: String,
        /// How many syncs.
        count: u32,
        /// Until the operator restarts the broker.
        for_us: u64,
    },
    /// The disk is full but for a little.
    DiskFull {
        /// Whose disk.
        machine: String,
        /// What is free.
        free_kib: u64,
        /// Until there is space again.
        for_us: u64,
    },
}

/// The kinds.
pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "stall",
        harm: Harm::Delay,
        draw: |d| Fault::Disk(DiskFault::Stall { machine: d.broker(), for_us: d.us_up_to(12_000) }),
    },
    Kind { name: "fail_syncs", harm: Harm::UnsyncedAndProcess, draw: fail_syncs },
    Kind { name: "disk_full", harm: Harm::Process, draw: disk_full },
];

fn fail_syncs(d: &mut Draw<'_>) -> Fault {
    let (machine, count, for_us) = (d.broker(), d.random.between(1, 3) as u32, d.us_up_to(3_000));
    Fault::Disk(DiskFault::FailSyncs { machine, count, for_us })
}

fn disk_full(d: &mut Draw<'_>) -> Fault {
    let (machine, free_kib, for_us) = (d.broker(), d.random.below(128), d.us_up_to(60_000));
    Fault::Disk(DiskFault::DiskFull { machine, free_kib, for_us })
}

impl DiskFault {
    pub(super) fn lasts_us(&self) -> u64 {
        match self {
            DiskFault::Stall { for_us, .. }
            | DiskFault::FailSyncs { for_us, .. }
            | DiskFault::DiskFull { for_us, .. } => *for_us,
        }
    }

    pub(super) fn apply(&self, world: &World) -> bool {
        let (DiskFault::Stall { machine, .. }
        | DiskFault::FailSyncs { machine, .. }
        | DiskFault::DiskFull { machine, .. }) = self;
        let Some(node) = world.find(machine) else { return false };
        let (disk, lasts) = (world.disk(node), Duration::from_micros(self.lasts_us()));
        match self {
            DiskFault::Stall { .. } => disk.stall(lasts),
            DiskFault::FailSyncs { count, .. } => {
                world.excuse(node);
                disk.fail_syncs(*count);
                world.later(lasts, move |world| {
                    world.disk(node).fail_syncs(0);
                    restart(world, node);
                });
            }
            DiskFault::DiskFull { free_kib, .. } => {
                world.excuse(node);
                disk.leave_free(free_kib << 10);
                world.later(lasts, move |world| world.disk(node).set_capacity(DriveSettings::SSD.capacity));
            }
        }
        true
    }
}

/// What an operator does about a broker that no longer trusts its disk.
fn restart(world: &World, node: NodeId) {
    if world.is_alive(node) {
        world.kill(node);
    }
    world.boot(node);
}

/// Makes every disk a good one. Brokers whose disk failed in their present life are restarted.
pub(super) fn heal(world: &World) {
    for node in world.nodes_by_name().into_values() {
        let disk = world.disk(node);
        disk.fail_syncs(0);
        disk.set_capacity(DriveSettings::SSD.capacity);
        disk.stall(Duration::ZERO);
        if world.take_excuse(node) {
            restart(world, node);
        }
    }
}
