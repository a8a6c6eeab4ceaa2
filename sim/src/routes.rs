//! Whether NameServers know the truth about brokers, watched all the time.

use std::time::Duration;

use crate::checkers::Violation;
use crate::cluster::{Cluster, START_LIMIT};
use crate::stage::Bounds;
use crate::world::NodeId;

/// How often it is looked.
const PERIOD: Duration = Duration::from_secs(5);

/// What is known of one broker at one NameServer.
#[derive(Clone, Copy)]
struct Pair {
    /// Since when it is as it is.
    since: Duration,
    state: State,
}

/// Whether the NameServer can hear the broker, and which lives of the two these are: a NameServer that was restarted
/// knows nothing, however quickly it came back.
#[derive(Clone, Copy, PartialEq, Eq)]
struct State {
    hears: bool,
    lives: (u64, u64),
}

/// Compares, all the time, what NameServers say with what they can know: a broker they have heard for long must be
/// named, one that was silent for long must not.
pub async fn watch_routes(cluster: Cluster, bounds: Bounds) {
    let world = cluster.world.clone();
    let start = Pair { since: world.now(), state: State { hears: true, lives: (1, 1) } };
    let mut pairs = vec![vec![start; cluster.members().len()]; cluster.nameservers.len()];
    loop {
        world.sleep(PERIOD).await;
        for (nameserver, pairs) in pairs.iter_mut().enumerate() {
            for (broker, pair) in pairs.iter_mut().enumerate() {
                let state = state(&cluster, nameserver, broker);
                if state != pair.state {
                    *pair = Pair { since: world.now(), state };
                }
            }
            if world.is_up(cluster.nameservers[nameserver]) {
                look(&cluster, bounds, nameserver, pairs).await;
            }
        }
    }
}

/// Asks one NameServer. A change while it answers makes the answer worthless, and it is asked again next time.
async fn look(cluster: &Cluster, bounds: Bounds, nameserver: usize, pairs: &[Pair]) {
    let world = &cluster.world;
    let asked = world.now();
    let Some(known) = cluster.brokers_known_to(nameserver).await else { return };
    for (broker, pair) in pairs.iter().enumerate() {
        if state(cluster, nameserver, broker) != pair.state {
            continue;
        }
        let (name, lasts) = (world.name(cluster.members()[broker]), asked.saturating_sub(pair.since));
        let named = known.contains(&name);
        if pair.state.hears && !named && lasts > bounds.registered + START_LIMIT {
            let finding =
                format!("NameServer {nameserver} does not name {name}, which it has heard for {} s", lasts.as_secs());
            world.violated(Violation::new("a route stays while its broker registers", finding));
        }
        if !pair.state.hears && named && lasts > bounds.expired {
            let finding = format!("NameServer {nameserver} names {name} after {} s of silence", lasts.as_secs());
            world.violated(Violation::new("a silent broker expires", finding));
        }
    }
}

/// A NameServer hears a broker if both run and packets pass both ways.
fn state(cluster: &Cluster, nameserver: usize, broker: usize) -> State {
    let (nameserver, broker) = (cluster.nameservers[nameserver], cluster.members()[broker]);
    let world = &cluster.world;
    let hears = world.is_up(nameserver) && world.is_up(broker) && world.is_linked(nameserver, broker);
    State { hears, lives: (world.incarnation(nameserver), world.incarnation(broker)) }
}

/// Every NameServer names every broker within `limit`.
pub async fn routes_are_true(cluster: &Cluster, limit: Duration) -> Result<(), Violation> {
    let world = &cluster.world;
    let mut truth: Vec<String> = cluster.members().into_iter().map(|node| world.name(node)).collect();
    truth.sort();
    let deadline = world.now() + limit;
    for nameserver in 0..cluster.nameservers.len() {
        loop {
            let mut known = cluster.brokers_known_to(nameserver).await;
            if let Some(known) = &mut known {
                known.sort();
                if *known == truth {
                    break;
                }
            }
            if world.now() > deadline {
                let finding = format!("NameServer {nameserver} knows {known:?} after {} s", limit.as_secs());
                return Err(Violation::new("routes become true", finding));
            }
            world.sleep(Duration::from_secs(1)).await;
        }
    }
    world.note(NodeId::WORLD, "routes are true", &[], "");
    Ok(())
}
