//! Masters that come back with less than they had: their disk is an old one, or another's.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use metaq::config::broker::{BrokerRole, FlushDiskType};
use metaq::proto::remoting::{request, Command};

use super::slaves::{ask, begin_in_sync, end_in_sync, nothing_lost, promote_longest};
use crate::checkers::all_delivered;
use crate::cluster::{Cluster, GROUP};
use crate::plan::Plan;
use crate::random::Stream;
use crate::replicas::log_length;
use crate::scenarios::{Scenario, Verdict};
use crate::sometimes;
use crate::workload::Workload;
use crate::world::{NodeId, World};

/// Disks of a master and of a slave that was away for a while are swapped.
pub const SWAPPED: Scenario = Scenario {
    name: "disk_swap",
    story: "a slave that was away for a while and its master get each other's disk; what the other slave has confirmed is not \
            given away: the master takes no messages, the slave is promoted, and nothing acknowledged is lost",
    draft: |d| {
        d.slaves(2..=2).flush(&[FlushDiskType::SyncFlush]).consumer(GROUP, 0).producers(1..=2, 100..=300, &[50]);
        d.set("slaveReadEnable", true);
        let mut random = d.random("role");
        if random.below(2) == 0 {
            d.set("brokerRole", "SYNC_MASTER").set("inSyncReplicas", 2);
        }
    },
    play: |world, plan| play(world, plan).boxed_local(),
};

/// How long a fenced master is watched before somebody does something about it.
const WATCHED_MS: u64 = 8_000;

/// The master's power is cut, and it has lost what was not synced.
pub const CUT: Scenario = Scenario {
    name: "master_cut_unsynced",
    story: "SYNC_MASTER, ASYNC_FLUSH: the power of the master or of a slave is cut; a master that has less than a slave then \
            takes no messages, the slave is promoted, and nothing acknowledged is lost",
    draft: |d| {
        d.slaves(1..=2).flush(&[FlushDiskType::AsyncFlush]).consumer(GROUP, 0).producers(1..=2, 100..=300, &[50]);
        d.set("brokerRole", "SYNC_MASTER").set("inSyncReplicas", 2);
    },
    play: |world, plan| cut(world, plan).boxed_local(),
};

async fn cut(world: World, plan: Arc<Plan>) -> Verdict {
    let (mut cluster, mut random) = (begin_in_sync(&world, &plan).await?, world.random("cut"));
    let workload = Workload::start(&cluster, &plan);
    world.sleep(Duration::from_micros(random.below(plan.workload_us().max(1)))).await;
    let members = cluster.members();
    let (master, victim) = (cluster.brokers[0], *random.pick(&members));
    world.power_cut(victim);
    // Slaves have what the master had sent.
    world.sleep(Duration::from_millis(random.below(3_000))).await;
    let most = members.iter().map(|node| log_length(&world, *node)).max();
    let lost = victim == master && Some(log_length(&world, master)) < most;
    sometimes!(lost, "a master lost in a power cut what a slave has");
    world.boot(victim);
    if lost {
        started(&cluster, master).await;
        world.sleep(Duration::from_millis(random.below(WATCHED_MS))).await;
        promote_longest(&mut cluster).await?;
        world.kill(master);
        world.boot(master);
    }
    workload.finished().await;
    ended(&cluster, &plan).await
}

/// All follow one master, which has everything.
async fn ended(cluster: &Cluster, plan: &Plan) -> Verdict {
    end_in_sync(cluster, plan).await?;
    let events = cluster.world.history().events();
    nothing_lost(&events)?;
    all_delivered(&events, &[GROUP])
}

/// Nobody promotes a slave while the master starts.
async fn started(cluster: &Cluster, master: NodeId) {
    cluster.world.boot(master);
    while ask(cluster, master, Command::request(request::GET_BROKER_HA_STATUS)).await.is_none() {
        cluster.world.sleep(Duration::from_millis(100)).await;
    }
}

async fn play(world: World, plan: Arc<Plan>) -> Verdict {
    let (mut cluster, mut random) = (begin_in_sync(&world, &plan).await?, world.random("disks"));
    let workload = Workload::start(&cluster, &plan);
    let moment = |random: &mut Stream| Duration::from_micros(random.below(plan.workload_us() / 2 + 1));
    world.sleep(moment(&mut random)).await;
    let (master, old) = (cluster.brokers[0], cluster.slaves[random.below(2) as usize]);
    let rest = cluster.slaves.iter().copied().find(|slave| slave.node != old.node).expect("there are two");
    world.kill(old.node);
    world.sleep(moment(&mut random)).await;
    match random.below(2) {
        0 => world.kill(master),
        _ => world.power_cut(master),
    }
    // The slave that stayed has all that it was told is confirmed.
    world.sleep(Duration::from_millis(random.below(3_000))).await;
    let most = log_length(&world, rest.node).max(log_length(&world, master));
    let lost = log_length(&world, old.node) < most;
    sometimes!(lost, "a master came back with less than a slave has");
    world.disk(master).swap_with(&world.disk(old.node));
    world.boot(old.node);
    if cluster.config.broker_role == BrokerRole::AsyncMaster {
        // What no slave has yet is on that disk alone.
        world.sleep(Duration::from_secs(5)).await;
    }
    started(&cluster, master).await;
    world.sleep(Duration::from_millis(random.below(WATCHED_MS))).await;
    if lost {
        promote_longest(&mut cluster).await?;
        world.sleep(Duration::from_millis(random.below(WATCHED_MS))).await;
        world.kill(master);
        world.boot(master);
    }
    workload.finished().await;
    ended(&cluster, &plan).await
}
