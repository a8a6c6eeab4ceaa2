//! Disks that are slow, fail or are full, under a running cluster.

use std::time::Duration;

use futures::FutureExt;
use metaq::config::broker::FlushDiskType;

use crate::checkers::Violation;
use crate::cluster::{Cluster, GROUP};
use crate::history::Event;
use crate::random::Stream;
use crate::scenarios::{Scenario, Verdict};
use crate::world::World;

/// STO-1 among others: what is not synced is not shown, even if the power goes while the disk stalls.
pub const SLOW: Scenario = Scenario {
    name: "slow_disk",
    story: "SYNC_FLUSH: the disk stalls for seconds, and the power may go meanwhile; nothing unsynced was acknowledged or read",
    run: |world| slow(world).boxed_local(),
};

/// A failed sync proves nothing about what it covered, and neither does the next one that succeeds.
pub const FAILED_SYNC: Scenario = Scenario {
    name: "failed_sync",
    story:
        "SYNC_FLUSH: a sync fails; nothing is acknowledged until the broker is restarted, nothing acknowledged is lost",
    run: |world| failed_sync(world).boxed_local(),
};

/// DSK-1: a full disk refuses, and takes messages again once there is space, without a restart.
pub const FULL: Scenario = Scenario {
    name: "full_disk",
    story: "the disk fills up and is freed again; sends are refused meanwhile and work afterwards without a restart",
    run: |world| full(world).boxed_local(),
};

/// How often the broker looks at its disk, twice, and time for a client to find out.
const NOTICED_WITHIN: Duration = Duration::from_secs(30);

fn acknowledged(world: &World) -> usize {
    world.history().events().iter().filter(|event| matches!(event, Event::Acknowledged(..))).count()
}

/// The broker dies in one of two ways and comes back.
pub(super) async fn restart(world: &World, cluster: &Cluster, plan: &mut Stream) {
    let broker = cluster.brokers[0];
    if plan.below(2) == 0 {
        world.power_cut(broker);
    } else {
        world.kill(broker);
    }
    world.sleep(Duration::from_millis(plan.below(2_000))).await;
    world.restart(broker);
    cluster.start_broker(0);
}

async fn slow(world: World) -> Verdict {
    let mut plan = world.random("plan");
    let cluster = Cluster::start(&world, 1, 1, FlushDiskType::SyncFlush).await;
    cluster.consume("consumer", GROUP);
    let sending = cluster.produce("producer", plan.between(50, 150), Duration::from_millis(200));
    let disk = world.disk(cluster.brokers[0]);
    for _ in 0..plan.between(1, 3) {
        world.sleep(Duration::from_millis(plan.below(5_000))).await;
        let millis = plan.between(100, 12_000);
        disk.stall(Duration::from_millis(millis));
        world.sleep(Duration::from_millis(plan.below(millis))).await;
        if plan.below(2) == 0 {
            restart(&world, &cluster, &mut plan).await;
        }
    }
    sending.await.map_err(|_| Violation::new("clients live", "the producer was killed"))?;
    cluster.settle().await
}

async fn failed_sync(world: World) -> Verdict {
    let mut plan = world.random("plan");
    let cluster = Cluster::start(&world, 1, 1, FlushDiskType::SyncFlush).await;
    cluster.consume("consumer", GROUP);
    let sending = cluster.produce("producer", 200, Duration::from_millis(100));
    let disk = world.disk(cluster.brokers[0]);
    for _ in 0..plan.between(1, 3) {
        // A start that meets a failing disk may fail; that is not what this is about.
        cluster.until_serving(0).await;
        world.sleep(Duration::from_millis(plan.below(3_000))).await;
        disk.fail_syncs(plan.between(1, 3) as u32);
        world.sleep(Duration::from_millis(plan.below(3_000))).await;
        disk.fail_syncs(0);
        restart(&world, &cluster, &mut plan).await;
    }
    sending.await.map_err(|_| Violation::new("clients live", "the producer was killed"))?;
    cluster.settle().await
}

async fn full(world: World) -> Verdict {
    let mut plan = world.random("plan");
    let flush = *plan.pick(&[FlushDiskType::SyncFlush, FlushDiskType::AsyncFlush]);
    let cluster = Cluster::start(&world, 1, 1, flush).await;
    cluster.consume("consumer", GROUP);
    let sending = cluster.produce("producer", 200, Duration::from_millis(300));
    let disk = world.disk(cluster.brokers[0]);
    world.sleep(Duration::from_millis(plan.below(5_000))).await;
    disk.leave_free(plan.below(128) << 10);
    world.sleep(Duration::from_secs(plan.between(5, 60))).await;
    disk.leave_free(1 << 30);
    sending.await.map_err(|_| Violation::new("clients live", "the producer was killed"))?;
    world.sleep(NOTICED_WITHIN).await;
    let before = acknowledged(&world);
    let more = cluster.produce("latecomer", 20, Duration::from_millis(100)).await;
    more.map_err(|_| Violation::new("clients live", "the producer was killed"))?;
    let taken = acknowledged(&world) - before;
    if taken < 20 {
        return Err(Violation::new("a freed disk takes messages again", format!("{taken} of 20 were taken")));
    }
    cluster.settle().await
}
