//! NameServers and what they believe: a living broker that is taken for dead, and two NameServers that disagree.

use std::time::Duration;

use futures::FutureExt;
use metaq::config::broker::FlushDiskType;

use crate::checkers::Violation;
use crate::cluster::{Cluster, GROUP};
use crate::net::LinkState;
use crate::random::Stream;
use crate::scenarios::{Scenario, Verdict};
use crate::world::{NodeId, World};

/// A living broker that is taken for dead.
pub const HEARTBEAT_TIME_OUT: Scenario = Scenario {
    name: "heartbeat_time_out",
    story: "a NameServer hears nothing of a living broker, around its expiry time; the route comes back and stays",
    run: |world| heartbeat_time_out(world).boxed_local(),
};

/// Two NameServers that disagree.
pub const DISAGREEMENT: Scenario = Scenario {
    name: "nameservers_disagree",
    story:
        "two NameServers know different brokers, one of them restarts; clients go on and the routes become true again",
    run: |world| disagreement(world).boxed_local(),
};

/// A broker that is not heard of for this long is gone; the scan that finds it runs every 5 s.
const EXPIRY: Duration = Duration::from_secs(120);
const SCAN: Duration = Duration::from_secs(5);
/// A broker registers every 30 s, and an attempt into silence may take as long.
const REGISTERED_WITHIN: Duration = Duration::from_secs(75);
/// TCP ends a connection this long after the first byte that nobody acknowledged.
const GIVING_UP: Duration = Duration::from_secs(16);
/// Longer than any connection of before the cut can stay unnoticed.
const OLD_CONNECTIONS_GONE: Duration = Duration::from_secs(180);

/// Cuts one direction or both, or stops the broker's process, and returns which.
fn silence(world: &World, plan: &mut Stream, nameserver: NodeId, broker: NodeId) -> &'static str {
    let network = world.network();
    match plan.below(4) {
        0 => network.set_link(broker, nameserver, LinkState::Cut),
        1 => network.set_link(nameserver, broker, LinkState::Cut),
        2 => network.cut(broker, nameserver),
        _ => {
            world.pause(broker);
            return "paused";
        }
    }
    "cut"
}

async fn heartbeat_time_out(world: World) -> Verdict {
    let mut plan = world.random("plan");
    let cluster = Cluster::start(&world, 1, 1, FlushDiskType::SyncFlush).await;
    let (nameserver, broker) = (cluster.nameservers[0], cluster.brokers[0]);
    cluster.consume("consumer", GROUP);
    let sending = cluster.produce("producer", 200, Duration::from_secs(3));
    world.sleep(Duration::from_secs(plan.between(1, 60))).await;
    let seconds = *plan.pick(&[20, 118, 122, 126, 150, 240]);
    let how = silence(&world, &mut plan, nameserver, broker);
    world.sleep(Duration::from_secs(seconds)).await;
    let known = cluster.brokers_known_to(0).await;
    let longest = EXPIRY + SCAN * 2;
    if Duration::from_secs(seconds) > longest && known.as_ref().is_none_or(|known| !known.is_empty()) {
        let finding = format!("{known:?} after {seconds} s of silence");
        return Err(Violation::new("a silent broker expires", finding));
    }
    world.network().heal();
    if how == "paused" {
        world.resume(broker);
    }
    // A connection on which something was sent into the silence may still break, and take the route with it.
    world.sleep(GIVING_UP).await;
    cluster.routes_are_true(REGISTERED_WITHIN).await?;
    // The NameServer may still hold a connection of before; its end must not remove what was registered since.
    for _ in 0..OLD_CONNECTIONS_GONE.as_secs() / 5 {
        world.sleep(Duration::from_secs(5)).await;
        if cluster.brokers_known_to(0).await.is_none_or(|known| known.is_empty()) {
            return Err(Violation::new("a route stays while its broker registers", "it went away again"));
        }
    }
    sending.await.map_err(|_| Violation::new("clients live", "the producer was killed"))?;
    cluster.settle().await
}

async fn disagreement(world: World) -> Verdict {
    let mut plan = world.random("plan");
    let cluster = Cluster::start(&world, 2, 2, FlushDiskType::SyncFlush).await;
    cluster.consume("consumer", GROUP);
    let sending = cluster.produce("producer", 300, Duration::from_secs(2));
    for _ in 0..2 {
        world.sleep(Duration::from_secs(plan.between(1, 40))).await;
        let nameserver = plan.below(2) as usize;
        let broker = plan.below(2) as usize;
        silence(&world, &mut plan, cluster.nameservers[nameserver], cluster.brokers[broker]);
        if plan.below(2) == 0 {
            // The other one forgets everything, and learns it again from the brokers that reach it.
            world.sleep(Duration::from_secs(plan.below(150))).await;
            let other = cluster.nameservers[1 - nameserver];
            if plan.below(2) == 0 {
                world.power_cut(other);
            } else {
                world.kill(other);
            }
            world.sleep(Duration::from_secs(plan.below(60))).await;
            world.restart(other);
            cluster.start_nameserver(1 - nameserver);
        }
        world.sleep(Duration::from_secs(plan.between(100, 200))).await;
        world.network().heal();
        world.resume(cluster.brokers[broker]);
        cluster.routes_are_true(REGISTERED_WITHIN).await?;
    }
    let acknowledged = sending.await.map_err(|_| Violation::new("clients live", "the producer was killed"))?;
    if acknowledged < 100 {
        return Err(Violation::new("clients go on", format!("only {acknowledged} of 300 sends were acknowledged")));
    }
    cluster.settle().await
}
