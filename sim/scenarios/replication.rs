//! Masters and slaves.

use std::sync::Arc;
use std::time::Duration;

use futures::future::FutureExt;
use metaq::config::broker::FlushDiskType::{AsyncFlush, SyncFlush};

use super::slaves::nothing_lost;
use crate::checkers::{acknowledged_kept, messages_intact, offsets_dense, stored_once};
use crate::cluster::{Cluster, GROUP};
use crate::draft::Draft;
use crate::faults::{self, Fault, ProcessFault};
use crate::history::Event;
use crate::judge::judge;
use crate::plan::Plan;
use crate::replicas::{log_length, logs_become_equal, send_junk};
use crate::routes::routes_are_true;
use crate::scenarios::{Scenario, Verdict};
use crate::sometimes;
use crate::stage::{begin_faults, Bounds};
use crate::workload::{all_take_messages, Workload};
use crate::world::{NodeId, World};

/// Time for a slave to find its master again and to copy what it lacks.
const COPIED_WITHIN: Duration = Duration::from_secs(90);

/// Whatever happens to whom, slaves become their master again.
pub const COPIES: Scenario = Scenario {
    name: "replication",
    story: "masters and slaves are killed and lose their power; in the end slaves are their masters, byte for byte",
    draft: |d| {
        members(d);
        d.faults(0..=4, &["power_cut", "kill"]);
        d.faults(0..=2, &["clean_stop", "pause"]);
    },
    play: |world, plan| play(world, plan).boxed_local(),
};

/// SYNC_FLUSH: links and disks are slow; what slaves have when they are asked to take over is what they said they had.
pub const LAGGING: Scenario = Scenario {
    name: "replication_lagging",
    story: "links between masters and slaves are cut and clogged, and disks stall; slaves catch up",
    draft: |d| {
        members(d);
        d.faults(1..=4, &["cut", "cut_one_way", "clog", "isolate"]);
        d.faults(0..=2, &["stall", "kill"]);
    },
    play: |world, plan| play(world, plan).boxed_local(),
};

/// SYNC_MASTER and SYNC_FLUSH: whatever was acknowledged, or read, survives the loss of the master at any moment.
pub const MASTER_LOST: Scenario = Scenario {
    name: "replication_master_lost",
    story: "SYNC_MASTER: the master's machine is lost at any moment, and the slave that has most takes its place",
    draft: |d| {
        d.slaves(1..=2).flush(&[SyncFlush]).consumer(GROUP, 0).producers(1..=2, 100..=300, &[20]);
        d.set("brokerRole", "SYNC_MASTER");
        d.faults(0..=3, &["cut", "cut_one_way", "clog", "kill", "power_cut", "stall", "pause"]);
    },
    play: |world, plan| master_lost(world, plan).boxed_local(),
};

/// SYNC_MASTER and ASYNC_FLUSH: another node is the copy, not the disk, so the slave that takes over must keep its power.
pub const MASTER_LOST_UNSYNCED: Scenario = Scenario {
    name: "replication_master_lost_unsynced",
    story:
        "SYNC_MASTER, ASYNC_FLUSH: the master's machine is lost, and the slave that has most takes its place, unsynced",
    draft: |d| {
        d.slaves(1..=2).flush(&[AsyncFlush]).consumer(GROUP, 0).producers(1..=2, 100..=300, &[20]);
        d.set("brokerRole", "SYNC_MASTER");
        d.faults(0..=3, &["cut", "cut_one_way", "clog", "kill", "stall", "pause"]);
    },
    play: |world, plan| master_lost(world, plan).boxed_local(),
};

/// Each node has only its own disk when the power is back.
pub const ALL_CUT: Scenario = Scenario {
    name: "replication_all_cut",
    story: "SYNC_FLUSH: all nodes lose their power at once, and some again or alone; each has what it said it had",
    draft: |d| {
        sync_flush(d);
        d.faults(1..=2, &["power_cut_all"]).faults(0..=2, &["power_cut", "kill", "stall"]);
    },
    play: |world, plan| play(world, plan).boxed_local(),
};

/// What a slave loses its master has.
pub const SLAVE_CUT: Scenario = Scenario {
    name: "replication_slave_cut",
    story: "ASYNC_FLUSH: slaves lose their power and get from their masters what they have lost; of what a master that kept \
            running acknowledged nothing is lost",
    draft: |d| {
        members(d);
        d.flush(&[AsyncFlush]);
        d.fault(1..=4, "slave's power", |d| {
            let machine = d.random.pick(&d.roster.slaves).clone();
            Fault::Process(ProcessFault::PowerCut { machine, down_us: d.us_up_to(5_000) })
        });
    },
    play: |world, plan| play(world, plan).boxed_local(),
};

/// REP-2: files expire on the master before a slave has them.
pub const EXPIRED: Scenario = Scenario {
    name: "replication_expired",
    story: "a slave is away while what it lacks expires on its master; it begins anew with the oldest file",
    draft: |d| {
        d.slaves(1..=2).flush(&[SyncFlush, AsyncFlush]).producers(1..=2, 100..=300, &[40]).sizes(100..=2_000);
        d.set("mappedFileSizeCommitLog", 16 << 10).set("cleanResourceInterval", 1_000);
        let hours: Vec<String> = (0..24).map(|hour| format!("{hour:02}")).collect();
        d.set("fileReservedTime", 0).set("deleteWhen", hours.join(";"));
        d.fault(1..=3, "away", |d| {
            let machine = d.random.pick(&d.roster.slaves).clone();
            Fault::Process(ProcessFault::Kill { machine, down_us: d.random.between(500_000, 10_000_000) })
        });
        d.faults(0..=2, &["cut", "kill"]);
    },
    play: |world, plan| expired(world, plan).boxed_local(),
};

/// Masters that wait for slaves, or do not.
fn sync_flush(d: &mut Draft) {
    d.brokers(1..=2).slaves(1..=2).flush(&[SyncFlush]).consumer(GROUP, 0).producers(1..=2, 50..=200, &[30]);
    let mut random = d.random("role");
    if random.chance(500) {
        d.set("brokerRole", "SYNC_MASTER").set("inSyncReplicas", 2);
    }
}

pub(super) fn members(d: &mut Draft) {
    d.brokers(1..=2).slaves(1..=2).flush(&[SyncFlush, AsyncFlush]);
    d.consumer(GROUP, 0).producers(1..=2, 50..=200, &[30]);
}

pub(super) async fn play(world: World, plan: Arc<Plan>) -> Verdict {
    let mut cluster = Cluster::start(&world, &plan).await;
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
    logs_become_equal(&cluster, COPIED_WITHIN).await?;
    if !world.random("replaced").chance(500) {
        cluster.find_all().await;
        return judge(&plan, &world, workload.acknowledged());
    }
    for slave in cluster.slaves.clone() {
        if slave.id == 1 {
            cluster.replace_by(slave).await;
        }
    }
    routes_are_true(&cluster, bounds.registered).await?;
    cluster.find_all().await;
    judge_replaced(&plan, &world)
}

/// What slaves that took over must have. Consumers began anew there.
fn judge_replaced(plan: &Plan, world: &World) -> Verdict {
    let events = world.history().events();
    let found: Vec<Event> = events.iter().filter(|event| matches!(event, Event::Found(..))).cloned().collect();
    messages_intact(&events)?;
    offsets_dense(&found)?;
    stored_once(&found)?;
    if plan.may_lose() {
        return Ok(());
    }
    acknowledged_kept(&events)
}

async fn master_lost(world: World, plan: Arc<Plan>) -> Verdict {
    let mut cluster = Cluster::start(&world, &plan).await;
    let workload = Workload::start(&cluster, &plan);
    let bounds = Bounds::of(&plan);
    let mut random = world.random("lost");
    begin_faults(&world, &plan);
    world.spawn_here(send_junk(cluster.clone(), 0));
    let moment = random.below(plan.workload_us().max(1));
    world.sleep(Duration::from_micros(moment)).await;
    // With syncs each copy must be on a disk: the others may lose their power with the master.
    for slave in cluster.slaves.clone() {
        if world.is_alive(slave.node) {
            match random.below(2) {
                0 if plan.is_sync_flush() => world.power_cut(slave.node),
                _ => world.kill(slave.node),
            }
        }
    }
    let (best, length) = cluster
        .slaves
        .iter()
        .map(|slave| (*slave, log_length(&world, slave.node)))
        .max_by_key(|(_, length)| *length)
        .expect("there is a slave");
    sometimes!(length > 0, "a slave took over with messages");
    cluster.replace_by(best).await;
    let faults_end = world.now() + plan.faults_end();
    workload.finished().await;
    world.sleep(faults_end.saturating_sub(world.now())).await;
    world.note(NodeId::WORLD, "healing", &[], "");
    faults::heal(&world);
    routes_are_true(&cluster, bounds.registered).await?;
    all_take_messages(&cluster, &[0], bounds.registered, "a healed broker takes messages").await?;
    world.sleep(bounds.delivered).await;
    cluster.find_all().await;
    nothing_lost(&world.history().events())
}

async fn expired(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    let workload = Workload::start(&cluster, &plan);
    let bounds = Bounds::of(&plan);
    begin_faults(&world, &plan);
    let faults_end = world.now() + plan.faults_end();
    workload.finished().await;
    world.sleep(faults_end.saturating_sub(world.now())).await;
    world.note(NodeId::WORLD, "healing", &[], "");
    faults::heal(&world);
    all_take_messages(&cluster, &[0], bounds.registered, "a healed broker takes messages").await?;
    logs_become_equal(&cluster, COPIED_WITHIN).await?;
    messages_intact(&world.history().events())
}
