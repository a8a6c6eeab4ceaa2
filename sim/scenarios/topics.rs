//! The life of a topic: made, deleted and made again, with crashes in between.

use std::time::Duration;

use futures::FutureExt;
use metaq::config::broker::FlushDiskType;
use metaq::proto::remoting::requests::{DeleteTopicInBroker, GetMaxOffset};
use metaq::proto::remoting::{request, Command};

use super::disks::restart;
use crate::checkers::Violation;
use crate::cluster::{Cluster, QUEUES, TOPIC};
use crate::scenarios::{Scenario, Verdict};
use crate::world::World;

/// RocketMQ builds a deleted topic's queues again from the log when it recovers.
pub const DELETED: Scenario = Scenario {
    name: "deleted_topic",
    story: "a topic is deleted and perhaps made again, then the broker is killed or loses its power; nothing of the old one \
            comes back, and nothing acknowledged of the new one is lost",
    run: |world| deleted(world).boxed_local(),
};

const STAYS_DELETED: &str = "a deleted topic stays deleted";

async fn deleted(world: World) -> Verdict {
    let mut plan = world.random("plan");
    let flush = *plan.pick(&[FlushDiskType::SyncFlush, FlushDiskType::AsyncFlush]);
    let cluster = Cluster::start(&world, 1, 1, flush).await;
    for round in 0..plan.between(1, 4) {
        send(&cluster, &format!("old-{round}"), plan.between(1, 60)).await?;
        // Queue files, their table and the checkpoint may be written before and after the deletion, or not.
        world.sleep(Duration::from_millis(*plan.pick(&[0, 1_500, 15_000]))).await;
        if plan.below(4) == 0 {
            restart(&world, &cluster, &mut plan).await;
            cluster.until_serving(0).await;
        }
        let delete = DeleteTopicInBroker { topic: TOPIC.into() };
        cluster.ask(0, Command::request(request::DELETE_TOPIC_IN_BROKER).with_ext(&delete)).await?;
        let mut stored = 0;
        if plan.below(2) == 0 {
            cluster.make_topic(0).await;
            stored = send(&cluster, &format!("new-{round}"), plan.below(40)).await?;
        }
        world.sleep(Duration::from_millis(*plan.pick(&[0, 0, 1_500, 15_000]))).await;
        restart(&world, &cluster, &mut plan).await;
        cluster.until_serving(0).await;
        let found = messages(&cluster).await?;
        let may_lose = flush == FlushDiskType::AsyncFlush;
        if found > stored || (found < stored && !may_lose) {
            let finding = format!("round {round}: {found} messages are there, {stored} were sent since it was deleted");
            return Err(Violation::new(STAYS_DELETED, finding));
        }
        cluster.make_topic(0).await;
    }
    Ok(())
}

/// Sends so many messages without a fault and returns how many were stored.
async fn send(cluster: &Cluster, name: &str, count: u64) -> Result<u64, Violation> {
    let sending = cluster.produce(name, count, Duration::from_millis(20));
    sending.await.map_err(|_| Violation::new("clients live", "the producer was killed"))
}

/// Messages in all queues of the topic.
async fn messages(cluster: &Cluster) -> Result<u64, Violation> {
    // Without the topic its offsets are not told.
    cluster.make_topic(0).await;
    let mut sum = 0;
    for queue_id in 0..QUEUES as i32 {
        let ask = GetMaxOffset { topic: TOPIC.into(), queue_id, committed: true };
        let answer = cluster.ask(0, Command::request(request::GET_MAX_OFFSET).with_ext(&ask)).await?;
        let fields = answer.ext_fields().map_err(|error| Violation::new("answers are read", error.to_string()))?;
        sum += fields.get("offset").and_then(|offset| offset.str().parse::<u64>().ok()).unwrap_or_default();
    }
    Ok(sum)
}
