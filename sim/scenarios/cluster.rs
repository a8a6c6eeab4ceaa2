//! A NameServer, brokers, a producer and a consumer group, as the product runs them, with clients of our own.

use std::time::Duration;

use futures::FutureExt;
use metaq::config::broker::FlushDiskType;

use crate::checkers::{all_delivered, offsets_dense, stored_once, Violation};
use crate::cluster::{Cluster, GROUP};
use crate::history::Event;
use crate::scenarios::{Scenario, Verdict};
use crate::world::World;

/// No fault at all.
pub const CALM: Scenario = Scenario {
    name: "calm",
    story: "no fault: every send is acknowledged, every message is delivered once",
    run: |world| calm(world).boxed_local(),
};

/// SYNC_FLUSH: process deaths and power cuts.
pub const BROKER_POWER_CUT: Scenario = Scenario {
    name: "broker_power_cut",
    story:
        "SYNC_FLUSH: a broker is killed or loses its power at any moment and comes back; nothing acknowledged is lost",
    run: |world| crashes(world, FlushDiskType::SyncFlush, true, Workload::Plain).boxed_local(),
};

/// ASYNC_FLUSH: process deaths.
pub const BROKER_KILL: Scenario = Scenario {
    name: "broker_kill",
    story: "ASYNC_FLUSH: a broker is killed at any moment and comes back; nothing acknowledged is lost",
    run: |world| crashes(world, FlushDiskType::AsyncFlush, false, Workload::Plain).boxed_local(),
};

/// Delayed messages through crashes.
pub const DELAYED: Scenario = Scenario {
    name: "delayed_messages",
    story: "SYNC_FLUSH: delayed messages come, and not early, though the broker is killed or loses its power meanwhile",
    run: |world| crashes(world, FlushDiskType::SyncFlush, true, Workload::Delayed).boxed_local(),
};

/// Messages that consumers hand back, through crashes.
pub const HANDED_BACK: Scenario = Scenario {
    name: "handed_back",
    story: "SYNC_FLUSH: consumers hand messages back while the broker is killed or loses its power; all come again",
    run: |world| crashes(world, FlushDiskType::SyncFlush, true, Workload::HandedBack).boxed_local(),
};

/// DSK-5: what ASYNC_FLUSH may lose, and what it may not: what is there has dense offsets and reaches the consumers.
pub const ASYNC_POWER_CUT: Scenario = Scenario {
    name: "broker_async_power_cut",
    story: "ASYNC_FLUSH: the power goes at any moment; the broker comes back with dense queues, and groups get what is there",
    run: |world| async_power_cut(world).boxed_local(),
};

/// A clean stop keeps everything, whatever comes behind it.
pub const CLEAN_STOP: Scenario = Scenario {
    name: "clean_stop",
    story: "ASYNC_FLUSH: a broker is stopped cleanly under load, then the power goes; nothing acknowledged is lost",
    run: |world| clean_stop(world).boxed_local(),
};

/// What clients do while the broker crashes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Workload {
    Plain,
    Delayed,
    HandedBack,
}

async fn calm(world: World) -> Verdict {
    let mut random = world.random("plan");
    let flush = *random.pick(&[FlushDiskType::SyncFlush, FlushDiskType::AsyncFlush]);
    let cluster = Cluster::start(&world, 1, 2, flush).await;
    cluster.consume("consumer", GROUP);
    let count = random.between(50, 300);
    let acknowledged = cluster.produce("producer", count, Duration::from_millis(20)).await.unwrap_or(0);
    cluster.settle().await?;
    if acknowledged != count {
        return Err(Violation::new("a calm run has no failures", format!("{acknowledged} of {count} acknowledged")));
    }
    let consumed = world.history().events().iter().filter(|event| matches!(event, Event::Consumed(..))).count() as u64;
    if consumed != count {
        return Err(Violation::new("a calm run has no duplicates", format!("{consumed} deliveries of {count}")));
    }
    Ok(())
}

async fn crashes(world: World, flush: FlushDiskType, power: bool, workload: Workload) -> Verdict {
    let mut plan = world.random("plan");
    let cluster = Cluster::start(&world, 1, plan.between(1, 2) as usize, flush).await;
    match workload {
        Workload::HandedBack => cluster.consume_failing("consumer", GROUP, 200),
        Workload::Plain | Workload::Delayed => cluster.consume("consumer", GROUP),
    }
    let producers = plan.between(1, 4);
    let mut sending = Vec::new();
    for index in 0..producers {
        let pace = Duration::from_millis(*plan.pick(&[1, 10, 50]));
        let (name, count) = (format!("producer-{index}"), plan.between(100, 400) / producers);
        sending.push(if workload == Workload::Delayed {
            cluster.produce_delayed(&name, count, pace * 10)
        } else {
            cluster.produce(&name, count, pace)
        });
    }
    for _ in 0..plan.between(1, 3) {
        let millis = *plan.pick(&[20, 500, 5_000]);
        world.sleep(Duration::from_micros(plan.below(millis * 1_000))).await;
        let index = plan.below(cluster.brokers.len() as u64) as usize;
        let broker = cluster.brokers[index];
        if power && plan.below(3) > 0 {
            world.power_cut(broker);
        } else {
            world.kill(broker);
        }
        let longest = *plan.pick(&[10, 3_000]);
        world.sleep(Duration::from_millis(plan.below(longest))).await;
        world.restart(broker);
        cluster.start_broker(index);
    }
    for producer in sending {
        producer.await.map_err(|_| Violation::new("clients live", "a producer was killed"))?;
    }
    cluster.settle().await
}

async fn clean_stop(world: World) -> Verdict {
    let mut plan = world.random("plan");
    let cluster = Cluster::start(&world, 1, 1, FlushDiskType::AsyncFlush).await;
    cluster.consume("consumer", GROUP);
    let sending = cluster.produce("producer", 200, Duration::from_millis(*plan.pick(&[5, 50, 200])));
    for _ in 0..plan.between(1, 3) {
        cluster.until_serving(0).await;
        world.sleep(Duration::from_millis(plan.below(3_000))).await;
        cluster.stop_broker(0).await;
        world.power_cut(cluster.brokers[0]);
        world.sleep(Duration::from_millis(plan.below(1_000))).await;
        world.restart(cluster.brokers[0]);
        cluster.start_broker(0);
    }
    sending.await.map_err(|_| Violation::new("clients live", "the producer was killed"))?;
    cluster.settle().await
}

async fn async_power_cut(world: World) -> Verdict {
    let mut plan = world.random("plan");
    let cluster = Cluster::start(&world, 1, 1, FlushDiskType::AsyncFlush).await;
    cluster.consume("consumer", GROUP);
    let sending = cluster.produce("producer", 200, Duration::from_millis(*plan.pick(&[5, 50, 200])));
    for _ in 0..plan.between(1, 3) {
        cluster.until_serving(0).await;
        world.sleep(Duration::from_millis(plan.below(5_000))).await;
        world.power_cut(cluster.brokers[0]);
        world.sleep(Duration::from_millis(plan.below(1_000))).await;
        world.restart(cluster.brokers[0]);
        cluster.start_broker(0);
    }
    sending.await.map_err(|_| Violation::new("clients live", "the producer was killed"))?;
    cluster.catch_up().await;
    let events = world.history().events();
    let found: Vec<Event> = events.iter().filter(|event| matches!(event, Event::Found(..))).cloned().collect();
    offsets_dense(&found)?;
    stored_once(&found)?;
    all_delivered(&events, &[GROUP])
}
