//! Masters that come back with less than they had: their disk is an old one, or another's.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use metaq::config::broker::{BrokerRole, FlushDiskType};
use metaq::proto::remoting::{request, Command};

use super::slaves::{ask, in_sync, make_group, promote_longest, COPIED};
use crate::checkers::{
    acknowledged_kept, all_delivered, messages_intact, nothing_read_early, offsets_dense, stored_once,
};
use crate::cluster::{Cluster, GROUP};
use crate::plan::Plan;
use crate::replicas::{log_length, logs_become_equal};
use crate::routes::routes_are_true;
use crate::scenarios::{Scenario, Verdict};
use crate::sometimes;
use crate::stage::Bounds;
use crate::workload::{all_take_messages, Workload};
use crate::world::World;

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

async fn play(world: World, plan: Arc<Plan>) -> Verdict {
    let mut cluster = Cluster::start(&world, &plan).await;
    let (bounds, mut random) = (Bounds::of(&plan), world.random("disks"));
    routes_are_true(&cluster, bounds.registered).await?;
    make_group(&cluster).await?;
    in_sync(&cluster).await?;
    let workload = Workload::start(&cluster, &plan);
    let moment = |random: &mut crate::random::Stream| Duration::from_micros(random.below(plan.workload_us() / 2 + 1));
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
    world.boot(master);
    // Nobody promotes a slave while the master starts: both would take messages until a NameServer has told it.
    while ask(&cluster, master, Command::request(request::GET_BROKER_HA_STATUS)).await.is_none() {
        world.sleep(Duration::from_millis(100)).await;
    }
    world.sleep(Duration::from_millis(random.below(WATCHED_MS))).await;
    if lost {
        promote_longest(&mut cluster).await?;
        world.sleep(Duration::from_millis(random.below(WATCHED_MS))).await;
        world.kill(master);
        world.boot(master);
    }
    workload.finished().await;
    crate::faults::heal(&world);
    routes_are_true(&cluster, bounds.registered).await?;
    all_take_messages(&cluster, &[0], bounds.registered, "a broker takes messages in the end").await?;
    world.sleep(bounds.delivered).await;
    logs_become_equal(&cluster, COPIED).await?;
    cluster.find_all().await;
    let events = world.history().events();
    messages_intact(&events)?;
    acknowledged_kept(&events)?;
    nothing_read_early(&events)?;
    offsets_dense(&events)?;
    stored_once(&events)?;
    all_delivered(&events, &[GROUP])
}
