//! Data that is lost and may be lost: what follows from the log, and a slave's disk.

use std::sync::Arc;

use futures::future::FutureExt;
use metaq::config::broker::FlushDiskType::{AsyncFlush, SyncFlush};

use crate::cluster::{Cluster, GROUP};
use crate::faults;
use crate::judge::judge;
use crate::plan::Plan;
use crate::replicas::logs_become_equal;
use crate::routes::routes_are_true;
use crate::scenarios::{Scenario, Verdict};
use crate::stage::{begin_faults, Bounds};
use crate::workload::{all_take_messages, Workload};
use crate::world::{NodeId, World};

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
        d.brokers(1..=2).slaves(1..=2).flush(&[SyncFlush]);
        d.consumer(GROUP, 0).producers(1..=2, 100..=300, &[30]);
        d.faults(1..=3, &["disk_lost"]).faults(0..=3, &["kill", "power_cut", "clog", "pause"]);
    },
    play: |world, plan| slave_disk(world, plan).boxed_local(),
};

async fn slave_disk(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    let workload = Workload::start(&cluster, &plan);
    let bounds = Bounds::of(&plan);
    begin_faults(&world, &plan);
    let faults_end = world.now() + plan.faults_end();
    workload.finished().await;
    world.sleep(faults_end.saturating_sub(world.now())).await;
    world.note(NodeId::WORLD, "healing", &[], "");
    faults::heal(&world);
    routes_are_true(&cluster, bounds.registered).await?;
    let all: Vec<usize> = (0..plan.brokers).collect();
    all_take_messages(&cluster, &all, bounds.registered, "a healed broker takes messages").await?;
    world.sleep(bounds.delivered).await;
    logs_become_equal(&cluster, bounds.registered * 2).await?;
    cluster.find_all().await;
    judge(&plan, &world, workload.acknowledged())
}
