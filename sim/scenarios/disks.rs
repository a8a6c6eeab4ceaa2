//! Disks that are slow, fail or are full, under a running cluster.

use metaq::config::broker::FlushDiskType::{AsyncFlush, SyncFlush};

use crate::cluster::GROUP;
use crate::faults::{DiskFault, Fault};
use crate::scenarios::Scenario;

/// STO-1 among others: what is not synced is not shown, even if the power goes while the disk stalls.
pub const SLOW: Scenario = Scenario::new(
    "slow_disk",
    "SYNC_FLUSH: the disk stalls for seconds, and the power may go meanwhile; nothing unsynced was acknowledged or read",
    |d| {
        d.consumer(GROUP, 0).producers(1..=2, 50..=150, &[200]);
        d.fault(1..=3, "stalls", |d| {
            Fault::Disk(DiskFault::Stall { machine: d.broker(), for_us: d.random.between(100_000, 12_000_000) })
        });
        d.faults(0..=3, &["power_cut", "kill"]);
    },
);

/// A failed sync proves nothing about what it covered, and neither does the next one that succeeds.
pub const FAILED_SYNC: Scenario = Scenario::new(
    "failed_sync",
    "SYNC_FLUSH: a sync fails; nothing is acknowledged until the broker is restarted, nothing acknowledged is lost",
    |d| {
        d.consumer(GROUP, 0).producers(1..=2, 200..=200, &[100]);
        d.faults(1..=3, &["fail_syncs"]).faults(0..=2, &["power_cut", "kill"]);
    },
);

/// DSK-1: a full disk refuses, and takes messages again once there is space, without a restart.
pub const FULL: Scenario = Scenario::new(
    "full_disk",
    "the disk fills up and is freed again; sends are refused meanwhile and work afterwards without a restart",
    |d| {
        d.flush(&[SyncFlush, AsyncFlush]).consumer(GROUP, 0).producers(1..=1, 200..=200, &[300]);
        d.fault(1..=1, "full", |d| {
            let (machine, free_kib) = (d.broker(), d.random.below(128));
            Fault::Disk(DiskFault::DiskFull { machine, free_kib, for_us: d.random.between(5_000_000, 60_000_000) })
        });
    },
);
