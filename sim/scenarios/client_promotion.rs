//! A slave is promoted while the client library sends: how soon sends go on.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use metaq::config::broker::FlushDiskType::SyncFlush;
use metaq::proto::remoting::requests::PromoteBroker;
use metaq::proto::remoting::{own_request, response, Command};

use super::client_support::produce;
use crate::checkers::{works_again, Violation};
use crate::client::Remote;
use crate::cluster::Cluster;
use crate::history::Event;
use crate::plan::Plan;
use crate::routes::routes_are_true;
use crate::scenarios::{Scenario, Verdict};
use crate::stage::Bounds;
use crate::world::{NodeId, World};

/// After a promotion sends go on within seconds, however many routes without a master clients have seen.
pub const CLIENTS: Scenario = Scenario {
    name: "promotion_clients",
    story: "the only master dies and a slave is promoted later: sends of the client library go on within 5 s of it",
    draft: |d| {
        d.nameservers(1..=2).brokers(1..=1).slaves(1..=1).flush(&[SyncFlush]);
    },
    play: |world, plan| play(world, plan).boxed_local(),
};

/// The new master tells the NameServers at once; a client that waits for it asks them several times a second.
const GOES_ON_WITHIN: Duration = Duration::from_secs(5);
const MESSAGES: u64 = 300;
const PACE: Duration = Duration::from_millis(400);

async fn play(world: World, plan: Arc<Plan>) -> Verdict {
    let mut cluster = Cluster::start(&world, &plan).await;
    let (bounds, mut random) = (Bounds::of(&plan), world.random("promotion"));
    routes_are_true(&cluster, bounds.registered).await?;
    let senders = [0, 1].map(|index| produce(&world, &cluster, &format!("producer-{index}"), MESSAGES, PACE));
    world.sleep(Duration::from_millis(random.between(500, 5_000))).await;
    // It dies in its process: the NameServers see the connection end, and name a broker without a master.
    let master = cluster.brokers[0];
    world.kill(master);
    world.sleep(Duration::from_millis(random.below(10_000))).await;
    promote(&mut cluster).await?;
    world.history().add(NodeId::WORLD, Event::Healed);
    for sender in senders {
        sender.await.map_err(|_| Violation::new("clients live", "a producer was killed"))?;
    }
    works_again(&world.history().timed(), GOES_ON_WITHIN)
}

/// Promotes the only slave.
async fn promote(cluster: &mut Cluster) -> Verdict {
    let (world, slave) = (cluster.world.clone(), cluster.slaves[0]);
    let address = format!("{}:10911", world.ip(slave.node));
    let deadline = world.now() + Duration::from_secs(60);
    loop {
        let promote = Command::request(own_request::PROMOTE_BROKER)
            .with_ext(&PromoteBroker { despite_master: true, despite_others: false });
        let answer =
            Remote::new(world.env(cluster.admin), address.as_str()).call(promote, Duration::from_secs(20)).await;
        match answer {
            Ok(answer) if answer.code == response::SUCCESS => break,
            _ if world.now() > deadline => {
                return Err(Violation::new("a slave can be promoted", format!("{answer:?}")));
            }
            _ => world.sleep(Duration::from_millis(100)).await,
        }
    }
    world.note(slave.node, "promoted", &[], "");
    cluster.promoted(slave);
    Ok(())
}
