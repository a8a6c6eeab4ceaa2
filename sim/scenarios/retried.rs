//! De-duplication: producers send each message until it is acknowledged, and it is stored once.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use metaq::config::broker::FlushDiskType;

use super::slaves::promote_longest;
use crate::checkers::{acknowledged_kept, messages_intact, offsets_dense, stored_once, Violation};
use crate::client::Producer;
use crate::cluster::{Cluster, TOPIC};
use crate::draft::Draft;
use crate::faults;
use crate::history::Event;
use crate::plan::{Plan, Send};
use crate::routes::routes_are_true;
use crate::scenarios::{Scenario, Verdict};
use crate::sometimes;
use crate::stage::{begin_faults, Bounds};
use crate::world::World;

/// One broker that dies between storing and answering.
pub const RETRIED: Scenario = Scenario {
    name: "retried_sends",
    story:
        "SYNC_FLUSH, with a de-duplication window: answers are lost and the broker dies; each message is sent until it is \
            acknowledged, to another queue each time, and stored once",
    draft: |d| {
        window(d);
        d.faults(2..=6, &["kill", "power_cut", "cut", "cut_one_way", "clog", "stall"]);
        d.set("deduplicationMaxKeys", 2_000);
    },
    play: |world, plan| play(world, plan).boxed_local(),
};

/// A master whose slave takes its place.
pub const PROMOTED: Scenario = Scenario {
    name: "retried_sends_promoted",
    story:
        "SYNC_MASTER, with a de-duplication window: the master dies and a slave is promoted; what was sent to the one and \
            not answered is sent to the other, and stored once",
    draft: |d| {
        window(d);
        d.slaves(1..=2).set("brokerRole", "SYNC_MASTER").set("inSyncReplicas", 2);
    },
    play: |world, plan| play(world, plan).boxed_local(),
};

/// Producers, and how many messages each sends.
const PRODUCERS: u64 = 2;
const COUNT: u64 = 150;
/// How long one message may take once nothing is wrong any more.
const SENT_WITHIN: Duration = Duration::from_secs(120);

fn window(d: &mut Draft) {
    d.flush(&[FlushDiskType::SyncFlush]).set("deduplicationWindowMs", 3_600_000).rest(30_000);
}

async fn play(world: World, plan: Arc<Plan>) -> Verdict {
    let mut cluster = Cluster::start(&world, &plan).await;
    routes_are_true(&cluster, Bounds::of(&plan).registered).await?;
    let sending: Vec<_> = (0..PRODUCERS).map(|index| send_until_acknowledged(&cluster, index)).collect();
    begin_faults(&world, &plan);
    if plan.slaves > 0 {
        let (mut random, master) = (world.random("master"), cluster.brokers[0]);
        world.sleep(Duration::from_millis(random.between(500, 20_000))).await;
        match random.chance(500) {
            true => world.kill(master),
            false => world.power_cut(master),
        }
        promote_longest(&mut cluster).await?;
        world.boot(master);
    }
    let end = world.began() + plan.faults_end().max(Duration::from_millis(plan.rest_ms));
    world.sleep(end.saturating_sub(world.now())).await;
    faults::heal(&world);
    let deadline = world.now() + SENT_WITHIN;
    for producer in sending {
        let late = world.sleep(deadline.saturating_sub(world.now()));
        futures::pin_mut!(late);
        let in_time = matches!(futures::future::select(producer, late).await, futures::future::Either::Left(_));
        if !in_time {
            return Err(Violation::new("clients go on", format!("messages are not stored after {SENT_WITHIN:?}")));
        }
    }
    routes_are_true(&cluster, Bounds::of(&plan).registered).await?;
    cluster.find_all().await;
    let mut events = world.history().events();
    // An attempt that was refused says nothing about the others.
    events.retain(|event| !matches!(event, Event::Refused(_)));
    messages_intact(&events)?;
    acknowledged_kept(&events)?;
    offsets_dense(&events)?;
    stored_once(&events)
}

fn send_until_acknowledged(cluster: &Cluster, index: u64) -> madsim::task::JoinHandle<()> {
    let (world, nameservers) = (cluster.world.clone(), cluster.nameserver_addresses());
    let node = world.add_node(&format!("producer-{index}"));
    let mut random = world.random(&format!("producer-{index}"));
    world.clone().spawn(node, async move {
        let mut producer = Producer::new(world.clone(), node, &nameservers, TOPIC).with_keys();
        for number in 0..COUNT {
            let message = (index + 1) * 10_000 + number;
            let mut attempts = 0;
            loop {
                let send = Send { message, bytes: 100, queue: random.below(1_000) as u32, ..Send::default() };
                if producer.send(&send).await {
                    break;
                }
                attempts += 1;
                world.sleep(Duration::from_millis(random.below(300))).await;
            }
            sometimes!(attempts > 0, "a message was sent again until it was acknowledged");
            world.sleep(Duration::from_millis(random.below(200))).await;
        }
    })
}
