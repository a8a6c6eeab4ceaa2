//! An old master that is there while a slave takes its place.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use metaq::config::broker::FlushDiskType;

use super::slaves::{begin_in_sync, end_well, promote_longest};
use crate::checkers::{acknowledged_kept, messages_intact};
use crate::history::Event;
use crate::net::LinkState;
use crate::plan::Plan;
use crate::scenarios::{Scenario, Verdict};
use crate::workload::Workload;
use crate::world::World;

/// It is told, or asks.
pub const SUPERSEDED: Scenario = Scenario {
    name: "superseded_master",
    story: "ASYNC_MASTER: a slave is promoted while the master starts again, or goes on without its NameServers; what anybody \
            acknowledges that is sent from then on is kept",
    draft: |d| {
        d.slaves(1..=2).flush(&[FlushDiskType::SyncFlush]).producers(1..=2, 400..=600, &[20]);
    },
    play: |world, plan| play(world, plan).boxed_local(),
};

async fn play(world: World, plan: Arc<Plan>) -> Verdict {
    let (mut cluster, mut random) = (begin_in_sync(&world, &plan).await?, world.random("superseded"));
    let workload = Workload::start(&cluster, &plan);
    world.sleep(Duration::from_micros(random.below(plan.workload_us() / 2 + 1))).await;
    let master = cluster.brokers[0];
    if random.chance(500) {
        for node in cluster.nameservers.clone() {
            world.shut_link(master, node, LinkState::Cut, "master not heard");
            world.shut_link(node, master, LinkState::Cut, "master not heard");
        }
    } else {
        world.kill(master);
        world.later(Duration::from_millis(random.below(1_500)), move |world| world.boot(master));
    }
    world.sleep(Duration::from_millis(random.below(1_500))).await;
    promote_longest(&mut cluster).await?;
    let promoted = world.now();
    workload.finished().await;
    // As a slave it would refuse to part with what only it has.
    world.kill(master);
    end_well(&cluster, &plan).await?;
    let history = world.history().timed();
    messages_intact(&world.history().events())?;
    let later = |(at, event): &crate::history::Timed| match event {
        Event::Sending(message) if *at >= promoted => Some(*message),
        _ => None,
    };
    let later: BTreeSet<u64> = history.iter().filter_map(later).collect();
    let events = history.into_iter().map(|(_, event)| event);
    let events: Vec<Event> = events.filter(|event| event.message().is_some_and(|it| later.contains(&it))).collect();
    acknowledged_kept(&events)
}
