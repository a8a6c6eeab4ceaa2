//! Transactions while producers, brokers and networks fail, and while producers say what no good client says.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use metaq::config::broker::FlushDiskType;

use super::client_support::{Listening, Member};
use super::transaction_support::{find_given_up, Database, Habits, Seller};
use crate::checkers::{transactions_as_decided, Promises};
use crate::cluster::Cluster;
use crate::draft::Draft;
use crate::history::{Event, Timed};
use crate::plan::Plan;
use crate::random::Stream;
use crate::scenarios::{Scenario, Verdict};
use crate::world::{NodeId, World};

/// Questions come often, so that they meet everything else.
const INTERVAL_MS: u64 = 2_000;
const TIMEOUT_MS: u64 = 1_500;
const CHECKS_MAX: u64 = 8;
/// Longer than any producer pauses.
const QUIET: Duration = Duration::from_secs(6);

/// All races of decisions, questions, and deaths.
pub const TRANSACTIONS: Scenario = Scenario {
    name: "transactions",
    story: "SYNC_FLUSH: decisions come late, twice, never and both ways while producers, brokers and links fail; each \
            transaction takes effect once, as first decided",
    draft: |d| draft(d, FlushDiskType::SyncFlush),
    play: |world, plan| play(world, plan).boxed_local(),
};

/// The same while power cuts take what was not synced.
pub const ASYNC: Scenario = Scenario {
    name: "transactions_async",
    story: "ASYNC_FLUSH: power cuts take half messages and decisions; what is left is there once, and nothing is seen that \
            nobody committed",
    draft: |d| draft(d, FlushDiskType::AsyncFlush),
    play: |world, plan| play(world, plan).boxed_local(),
};

/// Power cuts between a committed message and the op that closes its half message.
pub const CUT: Scenario = Scenario {
    name: "transactions_cut",
    story:
        "SYNC_FLUSH: the power goes again and again while the disk is at a decision; what the log holds of it stands",
    draft: |d| draft(d, FlushDiskType::SyncFlush),
    play: |world, plan| cut(world, plan).boxed_local(),
};

/// A group that vanishes and comes back.
pub const GROUP_GONE: Scenario = Scenario {
    name: "transactions_group_gone",
    story: "all producers vanish for longer than all questions take, and clocks jump; when they are back, each transaction \
            ends as it was decided",
    draft: |d| draft(d, FlushDiskType::SyncFlush),
    play: |world, plan| group_gone(world, plan).boxed_local(),
};

fn draft(d: &mut Draft, flush: FlushDiskType) {
    d.nameservers(1..=1).brokers(1..=2).flush(&[flush]);
    d.set("transactionCheckInterval", INTERVAL_MS).set("transactionTimeOut", TIMEOUT_MS);
    d.set("transactionCheckMax", CHECKS_MAX);
    if flush == FlushDiskType::AsyncFlush {
        // Progress is saved sooner than the log.
        d.set("flushConsumerOffsetInterval", 100).set("flushIntervalCommitLog", 2_000);
    }
}

/// All questions about what is open have been asked and answered by then, and what nobody decides is given up.
fn settled() -> Duration {
    Duration::from_millis(TIMEOUT_MS + INTERVAL_MS * (CHECKS_MAX + 6)) + Duration::from_secs(20)
}

async fn play(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    let mut random = world.random("plan");
    let habits = Habits {
        count: 60,
        pace_ms: *random.pick(&[60, 400, 1_500]),
        never: *random.pick(&[0, 50]),
        silent: *random.pick(&[50, 300]),
        twice: 200,
        contradict: *random.pick(&[0, 200]),
    };
    let database = Database::default();
    let sellers: Vec<Seller> =
        (0..2).map(|index| Seller::new(&cluster, &format!("seller-{index}"), &database, habits)).collect();
    sellers.iter().for_each(|seller| seller.run(habits.count));
    let mut member = Member::start(&world, &cluster, "member", &Listening::Concurrently(0));
    for _ in 0..random.between(4, 9) {
        let pause = *random.pick(&[300, 3_000, 12_000]);
        world.sleep(Duration::from_millis(random.below(pause))).await;
        harm(&world, &cluster, (&sellers, &database), &mut random).await;
    }
    world.network().heal();
    sold(&world).await;
    world.sleep(settled()).await;
    let promises = Promises { may_lose: !plan.is_sync_flush(), all_heard: false };
    judge(&world, &cluster, &mut member, promises).await
}

/// Waits until nobody sends any more.
async fn sold(world: &World) {
    let sending = |event: &Timed| matches!(event.1, Event::Sending(_));
    loop {
        let last = world.history().timed().iter().rfind(|event| sending(event)).map_or(Duration::ZERO, |event| event.0);
        if world.now() > last + QUIET {
            return;
        }
        world.sleep(QUIET).await;
    }
}

/// One thing goes wrong.
async fn harm(world: &World, cluster: &Cluster, (sellers, database): (&[Seller], &Database), random: &mut Stream) {
    let broker = cluster.brokers[random.below(cluster.brokers.len() as u64) as usize];
    let seller = &sellers[random.below(sellers.len() as u64) as usize];
    match random.below(8) {
        0..=2 => cut_at_a_decision(world, broker, database, random).await,
        3 | 4 => {
            if random.chance(600) {
                world.power_cut(broker);
            } else {
                world.kill(broker);
            }
            world.sleep(Duration::from_millis(random.below(3_000))).await;
            world.boot(broker);
        }
        5 => {
            world.kill(seller.node);
            world.sleep(Duration::from_millis(random.below(6_000))).await;
            world.restart(seller.node);
            seller.run(10);
        }
        6 => {
            world.network().cut(seller.node, broker);
            world.sleep(Duration::from_millis(random.below(8_000))).await;
            world.network().heal();
        }
        _ => {
            let (from, to) = if random.chance(500) { (seller.node, broker) } else { (broker, seller.node) };
            world.network().set_link(from, to, crate::net::LinkState::Clogged);
            world.sleep(Duration::from_millis(random.below(8_000))).await;
            world.network().heal();
        }
    }
}

/// The power goes while the disk is at a decision, or, where nobody waits for it, while progress is saved.
async fn cut_at_a_decision(world: &World, broker: NodeId, database: &Database, random: &mut Stream) {
    let (told, limit) = (database.told(), world.now() + QUIET);
    while database.told() == told && world.now() < limit {
        world.sleep(Duration::from_micros(500)).await;
    }
    let within_us = *random.pick(&[1_000, 12_000, 400_000]);
    world.sleep(Duration::from_micros(random.below(within_us))).await;
    world.power_cut(broker);
    world.boot(broker);
}

async fn cut(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    let mut random = world.random("plan");
    let habits = Habits { count: 80, pace_ms: 400, silent: 300, ..Habits::default() };
    let database = Database::default();
    let sellers: Vec<Seller> =
        (0..2).map(|index| Seller::new(&cluster, &format!("seller-{index}"), &database, habits)).collect();
    sellers.iter().for_each(|seller| seller.run(habits.count));
    let mut member = Member::start(&world, &cluster, "member", &Listening::Concurrently(0));
    for _ in 0..20 {
        let broker = cluster.brokers[random.below(cluster.brokers.len() as u64) as usize];
        world.sleep(Duration::from_millis(random.below(800))).await;
        cut_at_a_decision(&world, broker, &database, &mut random).await;
    }
    sold(&world).await;
    world.sleep(settled()).await;
    judge(&world, &cluster, &mut member, Promises::default()).await
}

async fn judge(world: &World, cluster: &Cluster, member: &mut Member, promises: Promises) -> Verdict {
    cluster.find_all().await;
    find_given_up(cluster).await?;
    member.stop(world).await;
    transactions_as_decided(&world.history().events(), promises)
}

async fn group_gone(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    let mut random = world.random("plan");
    let habits = Habits { count: 40, pace_ms: 200, silent: 500, ..Habits::default() };
    let database = Database::default();
    let sellers: Vec<Seller> =
        (0..2).map(|index| Seller::new(&cluster, &format!("seller-{index}"), &database, habits)).collect();
    let mut member = Member::start(&world, &cluster, "member", &Listening::Concurrently(0));
    sellers.iter().for_each(|seller| seller.run(habits.count));
    world.sleep(Duration::from_millis(random.between(500, 4_000))).await;
    sellers.iter().for_each(|seller| world.kill(seller.node));
    for _ in 0..3 {
        let broker = cluster.brokers[random.below(cluster.brokers.len() as u64) as usize];
        world.sleep(Duration::from_millis(random.below(INTERVAL_MS * CHECKS_MAX))).await;
        match random.below(3) {
            0 => world.shift_clock(broker, *random.pick(&[-3_600_000, 3_600_000])),
            1 => {
                world.kill(broker);
                world.boot(broker);
            }
            _ => {}
        }
    }
    world.sleep(Duration::from_millis(INTERVAL_MS * CHECKS_MAX)).await;
    for seller in &sellers {
        world.restart(seller.node);
        seller.run(0);
    }
    world.sleep(settled()).await;
    judge(&world, &cluster, &mut member, Promises { may_lose: false, all_heard: true }).await
}
