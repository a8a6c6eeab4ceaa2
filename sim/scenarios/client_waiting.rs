//! Members of a group that run the client library and wait for messages.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use metaq::config::broker::FlushDiskType::{AsyncFlush, SyncFlush};

use super::client_support::{produce, settle, Listening, Member};
use crate::checkers::{delivered_soon, Violation};
use crate::cluster::{Cluster, GROUP};
use crate::history::Event;
use crate::plan::Plan;
use crate::scenarios::{Scenario, Verdict};
use crate::world::{NodeId, World};

/// Members that wait.
pub const WAITING: Scenario = Scenario {
    name: "client_waiting",
    story: "no fault: a listener is called soon with each message that comes now and then, while other calls take long",
    draft: |d| {
        d.brokers(1..=2).flush(&[SyncFlush, AsyncFlush]);
    },
    play: |world, plan| waiting(world, plan).boxed_local(),
};

/// Messages sent.
const COUNT: u64 = 80;
/// From the acknowledgement to the call, the first share of the queues included: what calls take does not count.
const LIMIT: Duration = Duration::from_secs(1);

async fn waiting(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    let _members = ["member-1", "member-2"].map(|name| Member::start(&world, &cluster, name, &Listening::Told));
    world.history().add(NodeId::WORLD, Event::Healed);
    // Pulls are held for 15 s: some end with nothing between two messages.
    let pace = Duration::from_millis(*world.random("pace").pick(&[20, 1_000, 40_000]));
    let sent = produce(&world, &cluster, "producer", COUNT, pace).await;
    if sent.as_ref().ok() != Some(&COUNT) {
        return Err(Violation::new("producers go on", format!("{sent:?} of {COUNT} were stored")));
    }
    world.sleep(Duration::from_secs(10)).await;
    delivered_soon(&world.history().timed(), &[GROUP], LIMIT)?;
    settle(&world, &cluster).await
}
