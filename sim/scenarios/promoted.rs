//! What waits at a master when a slave takes its place: half messages, messages with a time, delayed ones.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use metaq::config::broker::FlushDiskType;
use metaq::proto::remoting::{request, response, Command};

use super::slaves::{ask, begin_in_sync, bring_back, lose_master, promote_longest, COPIED};
use super::transaction_support::{find_given_up, Database, Habits, Seller};
use crate::checkers::{
    acknowledged_kept, messages_intact, nothing_read_early, offsets_dense, timed_kept, timed_on_time,
    transactions_as_decided, Promises, Violation,
};
use crate::cluster::{Cluster, GROUP};
use crate::draft::Draft;
use crate::history::{Event, Timed};
use crate::plan::Plan;
use crate::replicas::logs_become_equal;
use crate::routes::routes_are_true;
use crate::scenarios::{Scenario, Verdict};
use crate::sometimes;
use crate::stage::Bounds;
use crate::workload::{all_take_messages, Workload};
use crate::world::World;

/// Half messages and messages with a time of their own.
pub const WAITING: Scenario = Scenario {
    name: "promotion_waiting",
    story: "SYNC_MASTER: a slave takes the place of a master at which half messages and timed messages wait; all are decided \
            and delivered there, once, none too early, and what was confirmed is not lost",
    draft: |d| {
        members(d);
        d.consumer(GROUP, 0).producers(1..=2, 100..=200, &[100]).timed(600, 500..=40_000).recalled(100);
        d.set("transactionCheckInterval", INTERVAL_MS).set("transactionTimeOut", TIMEOUT_MS);
        d.set("transactionCheckMax", CHECKS_MAX);
    },
    play: |world, plan| waiting(world, plan).boxed_local(),
};

/// Slaves delete what has expired, and the messages that wait in those files are delivered by one of them.
pub const RETENTION: Scenario = Scenario {
    name: "promotion_retention",
    story:
        "files expire at slaves while messages wait in them for their time, then one of the slaves becomes the master; \
            every message comes, once",
    draft: |d| {
        members(d);
        d.set("cleanResourceInterval", 1_000);
        d.consumer(GROUP, 0).producers(1..=2, 150..=300, &[20, 50]).timed(1_000, 80_000..=120_000);
        d.sizes(200..=2_000);
    },
    play: |world, plan| retention(world, plan).boxed_local(),
};

const INTERVAL_MS: u64 = 2_000;
const TIMEOUT_MS: u64 = 1_500;
const CHECKS_MAX: u64 = 8;
/// A time that one machine's clock fixed comes that much sooner by another's.
const CLOCKS_DIFFER: Duration = Duration::from_secs(1);
/// Files expire at once, in every hour.
const KEEP_NOTHING: &str =
    "fileReservedTime=0\ndeleteWhen=0;1;2;3;4;5;6;7;8;9;10;11;12;13;14;15;16;17;18;19;20;21;22;23\n";
const KEEP_ALL: &str = "fileReservedTime=72\n";

fn members(d: &mut Draft) {
    d.slaves(2..=2).flush(&[FlushDiskType::SyncFlush]).set("recallMessageEnable", true);
    d.set("brokerRole", "SYNC_MASTER").set("inSyncReplicas", 2);
}

async fn waiting(world: World, plan: Arc<Plan>) -> Verdict {
    let (bounds, mut random) = (Bounds::of(&plan), world.random("promotion"));
    let mut cluster = begin_in_sync(&world, &plan).await?;
    let habits = Habits {
        count: 40,
        pace_ms: *random.pick(&[60, 400]),
        never: 50,
        silent: *random.pick(&[50, 300]),
        twice: 200,
        contradict: *random.pick(&[0, 200]),
    };
    let database = Database::default();
    let sellers: Vec<Seller> =
        (0..2).map(|index| Seller::new(&cluster, &format!("seller-{index}"), &database, habits)).collect();
    sellers.iter().for_each(|seller| seller.run(habits.count));
    let workload = Workload::start(&cluster, &plan);
    world.sleep(Duration::from_micros(random.below(plan.workload_us().max(1)))).await;
    let master = cluster.brokers[0];
    let trouble = lose_master(&cluster, &mut random);
    world.sleep(Duration::from_millis(random.below(6_000))).await;
    promote_longest(&mut cluster).await?;
    sellers.iter().for_each(|seller| seller.find_brokers(&cluster));
    world.sleep(Duration::from_millis(random.between(100, 40_000))).await;
    bring_back(&cluster, master, trouble, &mut random).await;
    workload.finished().await;
    crate::faults::heal(&world);
    routes_are_true(&cluster, bounds.registered).await?;
    all_take_messages(&cluster, &[0], bounds.registered, "a promoted broker takes messages").await?;
    world.sleep(bounds.delivered + Duration::from_millis(INTERVAL_MS * (CHECKS_MAX + 6))).await;
    logs_become_equal(&cluster, COPIED).await?;
    cluster.find_all().await;
    find_given_up(&cluster).await?;
    let events = world.history().events();
    messages_intact(&events)?;
    acknowledged_kept(&events)?;
    nothing_read_early(&events)?;
    offsets_dense(&events)?;
    judge_timed(&world.history().timed())?;
    transactions_as_decided(&of_transactions(&events), Promises::default())
}

fn judge_timed(history: &[Timed]) -> Verdict {
    timed_kept(history, Duration::ZERO)?;
    let earlier = |(at, event): &Timed| match event {
        Event::TimedFor(message, delay) => (*at, Event::TimedFor(*message, delay.saturating_sub(CLOCKS_DIFFER))),
        event => (*at, event.clone()),
    };
    timed_on_time(&history.iter().map(earlier).collect::<Vec<_>>(), None)
}

/// What the history says of messages about which anybody decided: the others are no transactions.
pub(super) fn of_transactions(events: &[Event]) -> Vec<Event> {
    let decided = |event: &Event| match event {
        Event::Prepared(message) | Event::Deciding(message, _) => Some(*message),
        _ => None,
    };
    let messages: BTreeSet<u64> = events.iter().filter_map(decided).collect();
    let is_one = |event: &&Event| event.message().is_some_and(|message| messages.contains(&message));
    events.iter().filter(is_one).cloned().collect()
}

async fn retention(world: World, plan: Arc<Plan>) -> Verdict {
    let (bounds, mut random) = (Bounds::of(&plan), world.random("retention"));
    let mut cluster = begin_in_sync(&world, &plan).await?;
    let workload = Workload::start(&cluster, &plan);
    workload.finished().await;
    let master = cluster.brokers[0];
    // Sometimes the master deletes too, what it has put again.
    if random.chance(500) {
        keep(&cluster, master, KEEP_NOTHING).await?;
    }
    for slave in cluster.slaves.clone() {
        keep(&cluster, slave.node, KEEP_NOTHING).await?;
    }
    world.sleep(Duration::from_millis(random.between(5_000, 30_000))).await;
    let oldest = |node| world.env(node).disk.read_dir(Path::new("/data/store/commitlog")).unwrap_or_default();
    let deleted = cluster
        .slaves
        .iter()
        .any(|slave| oldest(slave.node).first().is_some_and(|file| file.name != "00000000000000000000"));
    sometimes!(deleted, "a slave deleted what its master has deleted");
    for node in cluster.members() {
        keep(&cluster, node, KEEP_ALL).await?;
    }
    let trouble = lose_master(&cluster, &mut random);
    promote_longest(&mut cluster).await?;
    world.sleep(Duration::from_millis(random.between(100, 10_000))).await;
    bring_back(&cluster, master, trouble, &mut random).await;
    crate::faults::heal(&world);
    routes_are_true(&cluster, bounds.registered).await?;
    world.sleep(Duration::from_secs(130) + bounds.delivered).await;
    cluster.find_all().await;
    messages_intact(&world.history().events())?;
    judge_timed(&world.history().timed())
}

/// Sets how long a broker keeps files.
async fn keep(cluster: &Cluster, node: crate::world::NodeId, text: &str) -> Verdict {
    for _ in 0..10 {
        if ask(cluster, node, Command::request(request::UPDATE_BROKER_CONFIG).with_body(text)).await.is_some() {
            return Ok(());
        }
        cluster.world.sleep(Duration::from_secs(1)).await;
    }
    let finding = format!("{} does not answer with {}", cluster.world.name(node), response::SUCCESS);
    Err(Violation::new("an administrator's request is carried out", finding))
}
