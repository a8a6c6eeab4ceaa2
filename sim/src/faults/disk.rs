//! Disks: slow, failing, full.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Draw, Fault, Harm, Kind};
use crate::disk::{Drive, DriveSettings, FailedPages};
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
    /// As `fail_syncs`, and readers see the writes undone at once.
    FailSyncsReverting {
        /// Whose disk.
        machine: String,
        /// How many syncs.
        count: u32,
        /// Until the operator restarts the broker.
        for_us: u64,
    },
    /// As `fail_syncs`, and the next sync tries again.
    FailSyncsKeeping {
        /// Whose disk.
        machine: String,
        /// How many syncs.
        count: u32,
        /// Until the operator restarts the broker.
        for_us: u64,
    },
    /// The kernel fails to write back while nobody syncs.
    WriteBackFails {
        /// Whose disk.
        machine: String,
        /// Until the operator restarts the broker.
        for_us: u64,
    },
    /// The next calls of one sort fail.
    ReadErrors(Calls),
    /// Writes fail, each perhaps after a part.
    WriteErrors(Calls),
    /// Renames fail.
    RenameErrors(Calls),
    /// Syncs of directories fail.
    DirSyncErrors(Calls),
    /// Everything on the disk takes so many times as long.
    SlowDisk(Limit),
    /// After so many bytes the disk pauses for a second.
    ThrottledDisk(Limit),
    /// The process may have so many files open.
    FewFiles(Limit),
    /// There is space, but no new file can be made.
    NoInodes(Limit),
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

/// Calls that fail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// Whose disk.
    pub machine: String,
    /// How many.
    pub count: u32,
    /// Until the operator restarts the broker.
    pub for_us: u64,
}

/// A disk that has less of something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// Whose disk.
    pub machine: String,
    /// How much.
    pub amount: u64,
    /// Until it is as before.
    pub for_us: u64,
}

/// The kinds.
pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "stall",
        harm: Harm::Delay,
        draw: |d| Fault::Disk(DiskFault::Stall { machine: d.broker(), for_us: d.us_up_to(12_000) }),
    },
    Kind { name: "fail_syncs", harm: Harm::UnsyncedAndProcess, draw: fail_syncs },
    Kind {
        name: "fail_syncs_reverting",
        harm: Harm::UnsyncedAndProcess,
        draw: |d| {
            let Calls { machine, count, for_us } = calls(d);
            Fault::Disk(DiskFault::FailSyncsReverting { machine, count, for_us })
        },
    },
    Kind {
        name: "fail_syncs_keeping",
        harm: Harm::UnsyncedAndProcess,
        draw: |d| {
            let Calls { machine, count, for_us } = calls(d);
            Fault::Disk(DiskFault::FailSyncsKeeping { machine, count, for_us })
        },
    },
    Kind {
        name: "write_back_fails",
        harm: Harm::UnsyncedAndProcess,
        draw: |d| {
            let Calls { machine, for_us, .. } = calls(d);
            Fault::Disk(DiskFault::WriteBackFails { machine, for_us })
        },
    },
    Kind { name: "read_errors", harm: Harm::Process, draw: |d| Fault::Disk(DiskFault::ReadErrors(calls(d))) },
    Kind { name: "write_errors", harm: Harm::Process, draw: |d| Fault::Disk(DiskFault::WriteErrors(calls(d))) },
    Kind { name: "rename_errors", harm: Harm::Process, draw: |d| Fault::Disk(DiskFault::RenameErrors(calls(d))) },
    Kind { name: "dir_sync_errors", harm: Harm::Process, draw: |d| Fault::Disk(DiskFault::DirSyncErrors(calls(d))) },
    Kind {
        name: "slow_disk",
        harm: Harm::Delay,
        draw: |d| Fault::Disk(DiskFault::SlowDisk(limit(d, &[10, 100, 1_000]))),
    },
    Kind {
        name: "throttled_disk",
        harm: Harm::Delay,
        draw: |d| Fault::Disk(DiskFault::ThrottledDisk(limit(d, &[4_096, 65_536, 1 << 20]))),
    },
    Kind {
        name: "few_files",
        harm: Harm::Process,
        draw: |d| Fault::Disk(DiskFault::FewFiles(limit(d, &[0, 3, 8, 20]))),
    },
    Kind { name: "no_inodes", harm: Harm::Process, draw: |d| Fault::Disk(DiskFault::NoInodes(limit(d, &[0]))) },
    Kind { name: "disk_full", harm: Harm::Process, draw: disk_full },
];

fn fail_syncs(d: &mut Draw<'_>) -> Fault {
    let (machine, count, for_us) = (d.broker(), d.random.between(1, 3) as u32, d.us_up_to(3_000));
    Fault::Disk(DiskFault::FailSyncs { machine, count, for_us })
}

fn calls(d: &mut Draw<'_>) -> Calls {
    Calls { machine: d.broker(), count: d.random.between(1, 3) as u32, for_us: d.us_up_to(5_000) }
}

fn limit(d: &mut Draw<'_>, amounts: &[u64]) -> Limit {
    Limit { machine: d.broker(), amount: *d.random.pick(amounts), for_us: d.us_up_to(30_000) }
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
            | DiskFault::FailSyncsReverting { for_us, .. }
            | DiskFault::FailSyncsKeeping { for_us, .. }
            | DiskFault::WriteBackFails { for_us, .. }
            | DiskFault::DiskFull { for_us, .. } => *for_us,
            DiskFault::ReadErrors(calls)
            | DiskFault::WriteErrors(calls)
            | DiskFault::RenameErrors(calls)
            | DiskFault::DirSyncErrors(calls) => calls.for_us,
            DiskFault::SlowDisk(limit)
            | DiskFault::ThrottledDisk(limit)
            | DiskFault::FewFiles(limit)
            | DiskFault::NoInodes(limit) => limit.for_us,
        }
    }

    pub(super) fn apply(&self, world: &World) -> bool {
        let (DiskFault::Stall { machine, .. }
        | DiskFault::FailSyncs { machine, .. }
        | DiskFault::FailSyncsReverting { machine, .. }
        | DiskFault::FailSyncsKeeping { machine, .. }
        | DiskFault::WriteBackFails { machine, .. }
        | DiskFault::ReadErrors(Calls { machine, .. })
        | DiskFault::WriteErrors(Calls { machine, .. })
        | DiskFault::RenameErrors(Calls { machine, .. })
        | DiskFault::DirSyncErrors(Calls { machine, .. })
        | DiskFault::SlowDisk(Limit { machine, .. })
        | DiskFault::ThrottledDisk(Limit { machine, .. })
        | DiskFault::FewFiles(Limit { machine, .. })
        | DiskFault::NoInodes(Limit { machine, .. })
        | DiskFault::DiskFull { machine, .. }) = self;
        let Some(node) = world.find(machine) else { return false };
        let (disk, lasts) = (world.disk(node), Duration::from_micros(self.lasts_us()));
        match self {
            DiskFault::Stall { .. } => disk.stall(lasts),
            DiskFault::SlowDisk(limit) => disk.slow_down(limit.amount as u32, lasts),
            DiskFault::ThrottledDisk(limit) => disk.throttle(limit.amount, lasts),
            DiskFault::FewFiles(limit) => {
                world.excuse(node);
                disk.limit_files(Some(limit.amount as usize));
                world.later(lasts, move |world| {
                    disk.limit_files(None);
                    restart(world, node);
                });
            }
            DiskFault::NoInodes(_) => {
                world.excuse(node);
                disk.fail_new_names(true);
                world.later(lasts, move |world| {
                    disk.fail_new_names(false);
                    restart(world, node);
                });
            }
            DiskFault::WriteBackFails { .. } => {
                world.excuse(node);
                disk.fail_write_back();
                world.later(lasts, move |world| restart(world, node));
            }
            DiskFault::ReadErrors(calls)
            | DiskFault::WriteErrors(calls)
            | DiskFault::RenameErrors(calls)
            | DiskFault::DirSyncErrors(calls) => {
                let fail: fn(&Drive, u32) = match self {
                    DiskFault::ReadErrors(_) => Drive::fail_reads,
                    DiskFault::WriteErrors(_) => Drive::fail_writes,
                    DiskFault::RenameErrors(_) => Drive::fail_renames,
                    _ => Drive::fail_dir_syncs,
                };
                world.excuse(node);
                fail(&disk, calls.count);
                world.later(lasts, move |world| {
                    fail(&disk, 0);
                    restart(world, node);
                });
            }
            DiskFault::FailSyncs { count, .. }
            | DiskFault::FailSyncsReverting { count, .. }
            | DiskFault::FailSyncsKeeping { count, .. } => {
                world.excuse(node);
                let pages = match self {
                    DiskFault::FailSyncsReverting { .. } => FailedPages::Reverted,
                    DiskFault::FailSyncsKeeping { .. } => FailedPages::Dirty,
                    _ => FailedPages::Clean,
                };
                disk.fail_syncs_with(*count, pages);
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
        disk.repair();
        disk.set_capacity(DriveSettings::SSD.capacity);
        if world.take_excuse(node) {
            restart(world, node);
        }
    }
}
