//! A topic's life: it is made, used, deleted and made again, and the broker dies at any of these moments.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::FutureExt;
use metaq::config::broker::FlushDiskType::SyncFlush;

use crate::checkers::Violation;
use crate::client::Asker;
use crate::cluster::Cluster;
use crate::model::{Answer, Request};
use crate::plan::Plan;
use crate::random::Stream;
use crate::scenarios::{Scenario, Verdict};
use crate::world::World;

/// Scenario 33.
pub const DELETED: Scenario = Scenario {
    name: "deleted_topic",
    story:
        "a topic is deleted and made again while the broker dies: what it held is gone, what the new one gets is kept",
    draft: |d| {
        d.flush(&[SyncFlush]);
    },
    play: |world, plan| play(world, plan).boxed_local(),
};

const TOPIC: &str = "parcels";
const QUEUES: u32 = 2;
const LIVES: u64 = 8;
/// A broker is there again, and carries out what it is asked, within this time.
const WITHIN: Duration = Duration::from_secs(60);

struct Story {
    world: World,
    cluster: Cluster,
    asker: Asker,
    random: Stream,
    /// Acknowledged in the topic's present life, and in former ones.
    living: BTreeSet<u64>,
    dead: BTreeSet<u64>,
}

async fn play(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    let address = format!("{}:10911", world.ip(cluster.brokers[0]));
    let asker = Asker::new(&world, cluster.admin, &address, &cluster.broker_name(0));
    let random = world.random("lives");
    let (living, dead) = (BTreeSet::new(), BTreeSet::new());
    let mut story = Story { world, cluster, asker, random, living, dead };
    for _ in 0..LIVES {
        story.until_done(Request::MakeTopic(TOPIC.to_owned())).await?;
        story.perhaps_dies().await;
        story.send().await;
        story.perhaps_dies().await;
        story.read().await?;
        story.until_done(Request::DeleteTopic(TOPIC.to_owned())).await?;
        let gone = std::mem::take(&mut story.living);
        story.dead.extend(gone);
        story.perhaps_dies().await;
        story.is_gone().await?;
    }
    Ok(())
}

impl Story {
    /// Asks again and again: a request that died with the broker may have been carried out or not.
    async fn until_done(&mut self, request: Request) -> Verdict {
        let deadline = self.world.now() + WITHIN;
        // A topic that is not there any more was deleted by a request whose answer did not come.
        while !matches!(self.asker.ask(&request, "admin").await, Some(Answer::Done | Answer::NoTopic)) {
            if self.world.now() > deadline {
                return Err(Violation::new("topics can be made and deleted", format!("{request:?} is not done")));
            }
            self.world.sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    async fn perhaps_dies(&mut self) {
        let broker = self.cluster.brokers[0];
        match self.random.below(6) {
            0 => self.world.kill(broker),
            1 => self.world.power_cut(broker),
            2 if self.world.ask_to_stop(broker) => {
                while !self.world.has_stopped(broker) {
                    self.world.sleep(Duration::from_millis(10)).await;
                }
                self.world.power_cut(broker);
            }
            _ => return,
        }
        self.world.boot(broker);
        self.asker.disconnect();
    }

    async fn send(&mut self) {
        for _ in 0..self.random.below(40) {
            let (message, queue) = (self.world.next_message(), self.random.below(u64::from(QUEUES)) as u32);
            let request = Request::Send((TOPIC.to_owned(), queue), message, None);
            if let Some(Answer::Stored(_)) = self.asker.ask(&request, "producer").await {
                self.living.insert(message);
            }
        }
    }

    /// Reads the topic from its beginning.
    async fn read(&mut self) -> Verdict {
        let mut found = BTreeSet::new();
        for queue in 0..QUEUES {
            let (deadline, mut from) = (self.world.now() + WITHIN, 0);
            loop {
                let request = Request::Pull((TOPIC.to_owned(), queue), from, BTreeSet::new());
                match self.asker.ask(&request, "consumer").await {
                    Some(Answer::Messages(messages, next)) => {
                        found.extend(messages.into_iter().map(|(_, message)| message));
                        from = next;
                    }
                    Some(Answer::Moved(next)) if next != from => from = next,
                    Some(Answer::NotFound | Answer::Moved(_)) => break,
                    other if self.world.now() > deadline => {
                        return Err(Violation::new("queues can be read", format!("{other:?}")));
                    }
                    _ => self.world.sleep(Duration::from_millis(50)).await,
                }
            }
        }
        if let Some(message) = found.intersection(&self.dead).next() {
            let finding = format!("{message} was acknowledged in a topic that was deleted, and is in the new one");
            return Err(Violation::new("what was deleted does not come back", finding));
        }
        match self.living.difference(&found).next() {
            Some(message) => {
                let finding = format!("{message} was acknowledged in the topic's present life and is lost");
                Err(Violation::new("acknowledged messages are kept", finding))
            }
            None => Ok(()),
        }
    }

    async fn is_gone(&mut self) -> Verdict {
        let deadline = self.world.now() + WITHIN;
        loop {
            let request = Request::Pull((TOPIC.to_owned(), 0), 0, BTreeSet::new());
            match self.asker.ask(&request, "consumer").await {
                Some(Answer::NoTopic) => return Ok(()),
                None if self.world.now() < deadline => self.world.sleep(Duration::from_millis(50)).await,
                other => {
                    let finding = format!("the topic was deleted, and a pull is answered by {other:?}");
                    return Err(Violation::new("what was deleted does not come back", finding));
                }
            }
        }
    }
}
