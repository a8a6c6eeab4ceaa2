//! The power goes just when the disk is in trouble: what was promised meanwhile shows then.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use metaq::config::broker::FlushDiskType::{AsyncFlush, SyncFlush};

use crate::cluster::{Cluster, GROUP};
use crate::disk::DriveSettings;
use crate::faults::{DiskFault, Draw, Fault, ProcessFault};
use crate::judge::judge;
use crate::plan::Plan;
use crate::scenarios::{Scenario, Verdict};
use crate::stage::{begin_faults, Bounds};
use crate::workload::{all_take_messages, Workload};
use crate::world::World;

/// STO-1: nothing is promised, shown or handed back before it is on the disk.
pub const STALLED_CUT: Scenario = Scenario::new(
    "stalled_power_cut",
    "SYNC_FLUSH: the power goes while the disk stalls; nothing was acknowledged, shown or taken back too early",
    |d| {
        d.consumer(GROUP, 200).producers(1..=2, 50..=150, &[100]).set("syncFlushTimeout", 1_000);
        d.chained(2..=4, "stalls", [stall, cut], 3_000_000);
    },
);

/// A message that is handed back is safe before its consumer is told, or its consumer is told that it is not.
pub const HANDED_BACK_FAILING: Scenario = Scenario::new(
    "handed_back_failing",
    "SYNC_FLUSH: syncs fail while consumers hand messages back; what was taken back comes again",
    |d| {
        d.consumer(GROUP, 300).producers(2..=4, 300..=600, &[20]).set("flushConsumerOffsetInterval", 1_000);
        d.fault(1..=2, "failures", |d| {
            let (machine, count) = (d.broker(), d.random.between(1, 3) as u32);
            Fault::Disk(DiskFault::FailSyncs { machine, count, for_us: d.random.between(4_000_000, 12_000_000) })
        });
    },
);

/// A failed sync proves nothing about what it covered.
pub const FAILED_SYNC_CUT: Scenario = Scenario::new(
    "failed_sync_power_cut",
    "SYNC_FLUSH: a sync fails, then the power goes; what it was to cover was not acknowledged",
    |d| {
        d.consumer(GROUP, 0).producers(1..=2, 100..=200, &[50]);
        d.chained(1..=3, "failures", [fail, cut], 500_000);
    },
);

/// DSK-1: a full disk refuses, and takes messages again once there is space, without a restart.
pub const FREED: Scenario = Scenario {
    name: "freed_disk",
    story: "the disk fills up and is freed again; the broker takes messages afterwards though nobody restarts it",
    draft: |d| {
        d.flush(&[SyncFlush, AsyncFlush]).consumer(GROUP, 0).producers(1..=1, 100..=100, &[300]);
    },
    play: |world, plan| freed(world, plan).boxed_local(),
};

/// How often the broker looks at its disk, twice, and time for a client to find out.
const NOTICED_WITHIN: Duration = Duration::from_secs(30);

fn stall(d: &mut Draw<'_>) -> Fault {
    Fault::Disk(DiskFault::Stall { machine: d.broker(), for_us: d.random.between(1_000_000, 6_000_000) })
}

fn fail(d: &mut Draw<'_>) -> Fault {
    let (machine, count) = (d.broker(), d.random.between(1, 3) as u32);
    Fault::Disk(DiskFault::FailSyncs { machine, count, for_us: 3_000_000 })
}

fn cut(d: &mut Draw<'_>) -> Fault {
    Fault::Process(ProcessFault::PowerCut { machine: d.broker(), down_us: d.us_up_to(2_000) })
}

async fn freed(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    let workload = Workload::start(&cluster, &plan);
    let (disk, mut random) = (world.disk(cluster.brokers[0]), world.random("freed"));
    begin_faults(&world, &plan);
    world.sleep(Duration::from_millis(random.below(5_000))).await;
    disk.leave_free(random.below(64) << 10);
    world.sleep(Duration::from_secs(random.between(12, 60))).await;
    disk.set_capacity(DriveSettings::SSD.capacity);
    workload.finished().await;
    world.sleep(NOTICED_WITHIN).await;
    all_take_messages(&cluster, &[0], Duration::from_secs(5), "a freed disk takes messages again").await?;
    world.sleep(Bounds::of(&plan).delivered).await;
    cluster.find_all().await;
    judge(&plan, &world, workload.acknowledged())
}
