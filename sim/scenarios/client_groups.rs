//! Groups of the client library: members come, go, stand still, die and are cut off while others consume.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use metaq::client::Client;
use metaq::config::broker::FlushDiskType;

use super::client_support::{commits_are_consumed, produce, settle, Listening, Member, Owners};
use crate::checkers::Violation;
use crate::cluster::Cluster;
use crate::plan::Plan;
use crate::random::Stream;
use crate::scenarios::{Scenario, Verdict};
use crate::world::World;

/// Members that share a group's messages, many at a time.
pub const STORM: Scenario = Scenario {
    name: "client_rebalance_storm",
    story: "many members join, leave, stand still, die and are cut off; every message is consumed, and nothing else committed",
    draft: |d| {
        d.nameservers(1..=2).brokers(1..=2).flush(&[FlushDiskType::SyncFlush]);
    },
    play: |world, plan| storm(world, plan, Listening::Concurrently(0)).boxed_local(),
};

/// Members that consume in order.
pub const ORDERED: Scenario = Scenario {
    name: "client_ordered",
    story:
        "members consume in order while they and the broker come and go; no queue has two owners, no message is skipped",
    draft: |d| {
        d.nameservers(1..=2).brokers(1..=2).flush(&[FlushDiskType::SyncFlush]);
    },
    play: |world, plan| storm(world, plan, Listening::Orderly(Owners::default())).boxed_local(),
};

/// Messages that fail.
pub const RETRIES: Scenario = Scenario {
    name: "client_retries",
    story: "half of all messages fail once or more while members and the broker come and go; all are consumed at last",
    draft: |d| {
        d.nameservers(1..=2).brokers(1..=2).flush(&[FlushDiskType::SyncFlush]);
    },
    play: |world, plan| storm(world, plan, Listening::Concurrently(500)).boxed_local(),
};

/// Members that pull on a schedule.
pub const SCHEDULED: Scenario = Scenario {
    name: "client_scheduled",
    story:
        "members pull each queue when it suits them, while they and the broker come and go; all is consumed, no more committed",
    draft: |d| {
        d.nameservers(1..=2).brokers(1..=2).flush(&[FlushDiskType::SyncFlush]);
    },
    play: |world, plan| storm(world, plan, Listening::Scheduled).boxed_local(),
};

/// Messages of each producer.
const COUNT: u64 = 120;

struct Storm {
    world: World,
    cluster: Cluster,
    plan: Stream,
    listening: Listening,
    members: Vec<Member>,
    joined: usize,
}

async fn storm(world: World, plan: Arc<Plan>, listening: Listening) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    let plan = world.random("plan");
    let auditor = world.add_node("auditor");
    let addresses = cluster.nameserver_addresses().join(";");
    let admin = world.spawn(auditor, {
        let env = world.env(auditor);
        async move { Client::new(&env, &addresses).expect("the addresses are fine") }
    });
    let admin = admin.await.map_err(|_| Violation::new("clients live", "the auditor was killed"))?;
    let mut storm = Storm { world: world.clone(), cluster, plan, listening, members: Vec::new(), joined: 0 };
    storm.join();
    let pace = Duration::from_millis(*storm.plan.pick(&[100, 400, 1_000]));
    let sending: Vec<_> =
        (0..2).map(|index| produce(&world, &storm.cluster, &format!("producer-{index}"), COUNT, pace)).collect();
    for _ in 0..storm.plan.between(6, 14) {
        let pause = *storm.plan.pick(&[500, 5_000, 30_000]);
        world.sleep(Duration::from_millis(storm.plan.below(pause))).await;
        storm.event().await;
        let failing = matches!(storm.listening, Listening::Concurrently(1..));
        commits_are_consumed(&world, &storm.cluster, &admin, failing).await?;
    }
    storm.join();
    let mut stored = 0;
    for producer in sending {
        stored += producer.await.map_err(|_| Violation::new("clients live", "a producer was killed"))?;
    }
    if stored < COUNT {
        return Err(Violation::new("producers go on", format!("only {stored} of {} were stored", 2 * COUNT)));
    }
    if let Listening::Orderly(owners) = &storm.listening {
        owners.calm_down();
    }
    settle(&world, &storm.cluster).await?;
    let failing = matches!(storm.listening, Listening::Concurrently(1..));
    commits_are_consumed(&world, &storm.cluster, &admin, failing).await?;
    for member in &mut storm.members {
        member.stop(&world).await;
    }
    Ok(())
}

impl Storm {
    fn join(&mut self) {
        self.joined += 1;
        let member = Member::start(&self.world, &self.cluster, &format!("member-{}", self.joined), &self.listening);
        self.members.push(member);
    }

    /// One thing happens.
    async fn event(&mut self) {
        let world = self.world.clone();
        match self.plan.below(7) {
            0 | 1 if self.members.len() < 6 => self.join(),
            2 if self.members.len() > 1 => {
                let at = self.plan.below(self.members.len() as u64) as usize;
                self.members.remove(at).stop(&world).await;
            }
            3 => {
                let at = self.plan.below(self.members.len() as u64) as usize;
                world.kill(self.members[at].node);
                world.sleep(Duration::from_millis(self.plan.below(3_000))).await;
                world.restart(self.members[at].node);
                self.members[at].run(&world, &self.cluster, &self.listening);
            }
            4 => self.stand_still().await,
            5 => self.cut_off().await,
            _ => self.broker_dies().await,
        }
    }

    /// A member's process stops for a while, shorter or longer than its locks last.
    async fn stand_still(&mut self) {
        let node = self.members[self.plan.below(self.members.len() as u64) as usize].node;
        if let Listening::Orderly(owners) = &self.listening {
            owners.stands_still(node, true);
        }
        self.world.pause(node);
        let seconds = *self.plan.pick(&[1, 20, 40, 90]);
        self.world.sleep(Duration::from_secs(seconds)).await;
        self.world.resume(node);
        // What it was at ends at once, if its locks are gone.
        self.world.sleep(Duration::from_millis(100)).await;
        if let Listening::Orderly(owners) = &self.listening {
            owners.stands_still(node, false);
        }
    }

    /// A member's machine is cut off from one broker, or from everything, and comes back as the same member (REB-2, REB-5).
    async fn cut_off(&mut self) {
        let node = self.members[self.plan.below(self.members.len() as u64) as usize].node;
        let everything = self.plan.chance(500);
        let first = self.plan.below(self.cluster.brokers.len() as u64) as usize;
        for (index, broker) in self.cluster.brokers.iter().enumerate() {
            if everything || index == first {
                self.world.network().cut(node, *broker);
            }
        }
        for nameserver in self.cluster.nameservers.iter().filter(|_| everything) {
            self.world.network().cut(node, *nameserver);
        }
        let seconds = *self.plan.pick(&[2, 25, 50, 120]);
        self.world.sleep(Duration::from_secs(seconds)).await;
        self.world.network().heal();
    }

    async fn broker_dies(&mut self) {
        let index = self.plan.below(self.cluster.brokers.len() as u64) as usize;
        let broker = self.cluster.brokers[index];
        if self.plan.chance(500) {
            self.world.power_cut(broker);
        } else {
            self.world.kill(broker);
        }
        self.world.sleep(Duration::from_millis(self.plan.below(5_000))).await;
        self.world.restart(broker);
        self.world.run_program(broker);
    }
}
