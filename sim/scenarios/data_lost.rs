//! Data that is lost and may be lost: what follows from the log, and a slave's disk.

use futures::future::FutureExt;
use metaq::config::broker::FlushDiskType::{AsyncFlush, SyncFlush};

use super::replication;
use crate::cluster::GROUP;
use crate::scenarios::Scenario;

/// Queues and index follow from the log, so their files may go.
pub const DERIVED: Scenario = Scenario::new(
    "derived_lost",
    "files of queues and of the index are gone or cut in half when a broker starts; it makes them of the log again",
    |d| {
        d.brokers(1..=2).flush(&[SyncFlush, AsyncFlush]);
        d.consumer(GROUP, 0).producers(1..=2, 100..=300, &[20, 100]);
        d.faults(1..=3, &["derived_lost", "derived_cut"]).faults(0..=2, &["kill", "clean_stop"]);
    },
);

/// What a slave had its master has.
pub const SLAVE_DISK: Scenario = Scenario {
    name: "slave_disk_lost",
    story: "a slave's machine comes back with an empty disk, and the slave gets everything again, byte for byte",
    draft: |d| {
        replication::members(d);
        d.faults(1..=3, &["disk_lost"]).faults(0..=3, &["kill", "power_cut", "clog", "pause"]);
    },
    play: |world, plan| replication::play(world, plan).boxed_local(),
};
