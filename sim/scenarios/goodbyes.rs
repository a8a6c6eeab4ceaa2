//! A broker's route while its connections come and go: late goodbyes, connections that nobody hears the end of.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;

use crate::checkers::{routes_sound, routes_true, Violation};
use crate::cluster::Cluster;
use crate::history::Event;
use crate::net::LinkState;
use crate::plan::Plan;
use crate::routes::routes_are_true;
use crate::scenarios::{Scenario, Verdict};
use crate::stage::Bounds;
use crate::world::{NodeId, World};

/// A broker that is registered stays in the route, whatever comes late over an older connection.
pub const GOODBYES: Scenario = Scenario {
    name: "late_goodbyes",
    story:
        "a broker's goodbye comes after it is back, or its connection ends unheard; its route stays while it registers",
    draft: |d| {
        d.nameservers(1..=2);
    },
    play: |world, plan| play(world, plan).boxed_local(),
};

const STAYS: &str = "a route stays while its broker registers";
/// A process that was asked to stop, and started again, needs no longer.
const RESTART_LIMIT: Duration = Duration::from_secs(60);
/// A broker opens its store and registers within this time if nothing hinders it.
const REGISTERED: Duration = Duration::from_millis(1_500);
/// What was sent over a link that is whole again arrives within this time, or never.
const LATE: Duration = Duration::from_secs(20);
/// A NameServer ends a connection on which it has heard nothing for 120 s.
const IDLE: Duration = Duration::from_secs(200);

async fn play(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    let (bounds, mut random) = (Bounds::of(&plan), world.random("goodbyes"));
    routes_are_true(&cluster, bounds.registered).await?;
    for _ in 0..2 {
        world.sleep(Duration::from_millis(random.below(30_000))).await;
        if random.below(2) == 0 {
            restart_behind_a_cut(&cluster).await?;
            stays(&cluster, LATE).await?;
        } else {
            for nameserver in &cluster.nameservers {
                world.network().forget_connections(cluster.brokers[0], *nameserver);
            }
            stays(&cluster, IDLE).await?;
        }
    }
    world.history().add(NodeId::WORLD, Event::Healed);
    world.sleep(bounds.registered).await;
    stays(&cluster, Duration::from_secs(10)).await?;
    let history = world.history().timed();
    routes_sound(&history, bounds.expired)?;
    routes_true(&history, bounds.registered)
}

/// The broker is asked to stop while nothing it says arrives, ends like any process, and is started again at once over a
/// link that is whole again. Its last words, which its kernel says again and again, come after its first new ones.
async fn restart_behind_a_cut(cluster: &Cluster) -> Result<(), Violation> {
    let (world, broker) = (&cluster.world, cluster.brokers[0]);
    for nameserver in &cluster.nameservers {
        world.shut_link(broker, *nameserver, LinkState::Cut, "goodbye");
    }
    let deadline = world.now() + RESTART_LIMIT;
    world.ask_to_stop(broker);
    while !world.has_stopped(broker) {
        if world.now() > deadline {
            return Err(Violation::new("a broker stops cleanly", "it does not end"));
        }
        world.sleep(Duration::from_millis(10)).await;
    }
    world.kill(broker);
    for nameserver in &cluster.nameservers {
        world.open_link(broker, *nameserver, LinkState::Cut, "goodbye");
    }
    world.boot(broker);
    world.sleep(REGISTERED).await;
    routes_are_true(cluster, RESTART_LIMIT).await
}

/// Every NameServer that answers names the broker all the time.
async fn stays(cluster: &Cluster, time: Duration) -> Result<(), Violation> {
    let world = &cluster.world;
    let end = world.now() + time;
    while world.now() < end {
        for nameserver in 0..cluster.nameservers.len() {
            if cluster.brokers_known_to(nameserver).await.is_some_and(|known| known.is_empty()) {
                let finding = format!("NameServer {nameserver} has forgotten a broker that it heard");
                return Err(Violation::new(STAYS, finding));
            }
        }
        world.sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}
