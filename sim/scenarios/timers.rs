//! Messages with a time of their own, through crashes, and with retention behind them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use metaq::config::broker::FlushDiskType::{AsyncFlush, SyncFlush};
use metaq::proto::remoting::{request, Command};

use crate::checkers::Violation;
use crate::cluster::{Cluster, GROUP};
use crate::draft::Draft;
use crate::faults;
use crate::judge::judge;
use crate::plan::{Expect, Plan};
use crate::scenarios::{Scenario, Verdict};
use crate::stage::{begin_faults, Bounds};
use crate::workload::Workload;
use crate::world::World;

/// No fault: in time, once, and never what was taken back.
pub const CALM: Scenario = Scenario::new(
    "timers_calm",
    "no fault: timed messages come in their second, once, and not at all if they were taken back",
    |d| {
        d.flush(&[SyncFlush, AsyncFlush]).set("recallMessageEnable", true);
        d.consumer(GROUP, 0).producers(1..=2, 50..=200, &[20, 100]).timed(700, 500..=20_000).recalled(200);
        d.expect(Expect::NoFailures).expect(Expect::NoDuplicates).expect(Expect::TimedWithin(3_000));
    },
);

/// SYNC_FLUSH: nothing is lost and nothing comes twice, whenever the broker dies.
pub const POWER_CUT: Scenario = Scenario::new(
    "timers_power_cut",
    "SYNC_FLUSH: the broker is killed or loses its power; timed messages come all the same, once and not early",
    |d| {
        crashes(d).faults(1..=4, &["power_cut", "power_cut", "kill", "crash_loop"]);
    },
);

/// ASYNC_FLUSH: what a power cut takes is what was sent last, not what had long been waiting.
pub const ASYNC_POWER_CUT: Scenario = Scenario::new(
    "timers_async_power_cut",
    "ASYNC_FLUSH: the power goes; timed messages that were on disk come all the same, and none comes twice",
    |d| {
        crashes(d.flush(&[AsyncFlush])).timed(900, 7_000..=20_000).brokers(1..=1).set("flushIntervalCommitLog", 2_000);
        d.faults(1..=4, &["power_cut", "power_cut", "kill"]);
    },
);

/// DLY-1, DLY-3, DLY-6: a disk that refuses delays what is due, and neither loses nor doubles it.
pub const FULL: Scenario = Scenario::new(
    "timers_full_disk",
    "the disk is full for a while: what is due meanwhile comes afterwards, once",
    |d| {
        d.flush(&[SyncFlush, AsyncFlush]).set("recallMessageEnable", true);
        d.consumer(GROUP, 0).producers(1..=2, 100..=200, &[200]).timed(900, 500..=20_000).recalled(100);
        d.faults(1..=2, &["disk_full"]);
    },
);

/// What waits is put again before retention takes it.
pub const RETENTION: Scenario = Scenario {
    name: "timers_retention",
    story: "files expire at once while messages wait in them; each is put again before its file goes, and comes once",
    draft: |d| {
        d.set("recallMessageEnable", true).set("cleanResourceInterval", 1_000);
        d.consumer(GROUP, 0).producers(1..=2, 150..=300, &[20, 50]).timed(1_000, 60_000..=90_000).recalled(50);
        d.sizes(200..=2_000).faults(0..=2, &["kill", "power_cut"]);
        // A crash may come at any time until the messages are due.
        let mut random = d.random("while files go");
        d.each_fault(|fault| fault.at_us = random.below(50_000_000));
    },
    play: |world, plan| retention(world, plan).boxed_local(),
};

fn crashes(d: &mut Draft) -> &mut Draft {
    d.set("recallMessageEnable", true);
    d.brokers(1..=2)
        .consumer(GROUP, 0)
        .producers(1..=4, 100..=400, &[10, 50, 100])
        .timed(900, 500..=20_000)
        .recalled(100)
}

/// Files expire at once, in every hour.
const KEEP_NOTHING: &str =
    "fileReservedTime=0\ndeleteWhen=0;1;2;3;4;5;6;7;8;9;10;11;12;13;14;15;16;17;18;19;20;21;22;23\n";
const COMMIT_LOG: &str = "/data/store/commitlog";
const KEEP_ALL: &str = "fileReservedTime=72\n";

async fn retention(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    let workload = Workload::start(&cluster, &plan);
    begin_faults(&world, &plan);
    workload.finished().await;
    let change = |text: &str| Command::request(request::UPDATE_BROKER_CONFIG).with_body(text);
    cluster.ask(0, change(KEEP_NOTHING)).await?;
    let files = || world.env(cluster.brokers[0]).disk.read_dir(Path::new(COMMIT_LOG)).unwrap_or_default();
    // The last ones are the one in work and the one made for the time after it; both will hold what is put again.
    let newest = files().iter().rev().nth(2).map(|file| file.name.clone());
    // Messages are due a minute after they were sent at the soonest, and what comes then is to be found.
    let deadline = world.now() + Duration::from_secs(40);
    while files().first().map(|file| file.name.clone()) < newest {
        if world.now() > deadline {
            return Err(Violation::new("retention goes on", "files are left that expired 40 s ago"));
        }
        world.sleep(Duration::from_secs(1)).await;
    }
    cluster.ask(0, change(KEEP_ALL)).await?;
    faults::heal(&world);
    world.sleep(Duration::from_secs(100) + Bounds::of(&plan).delivered).await;
    cluster.find_all().await;
    judge(&plan, &world, workload.acknowledged())
}
