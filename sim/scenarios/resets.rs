//! Resets of a group's offsets, and commits that were on their way.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use metaq::proto::remoting::requests::ResetOffset;
use metaq::proto::remoting::{request, Command};

use crate::checkers::Violation;
use crate::client::Member;
use crate::cluster::{Cluster, QUEUES, TOPIC};
use crate::history::Queue;
use crate::plan::Plan;
use crate::random::Stream;
use crate::scenarios::{Scenario, Verdict};
use crate::sometimes;
use crate::workload::Workload;
use crate::world::{NodeId, World};

/// Late commits race a reset.
pub const LATE: Scenario = Scenario {
    name: "late_commits",
    story:
        "a tool resets a group while its old member goes on committing, over old and new connections, through crashes of \
            the broker; the group stays where it was reset to, and goes on from there",
    draft: |d| {
        d.producers(1..=1, 200..=300, &[1]).set("flushConsumerOffsetInterval", 1_000);
    },
    play: |world, plan| late(world, plan).boxed_local(),
};

const GROUP: &str = "ledger";
const NOT_UNDONE: &str = "a reset is not undone";

struct Race {
    cluster: Cluster,
    world: World,
    broker: NodeId,
    random: Stream,
    queue: Queue,
    end: u64,
}

async fn late(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    Workload::start(&cluster, &plan).finished().await;
    let mut random = world.random("late commits");
    let address = format!("{}:10911", world.ip(cluster.brokers[0]));
    let broker_name = cluster.broker_name(0);
    let mut members = ["old", "new"].map(|name| {
        let node = world.add_node(name);
        Member::new(&world, node, (&broker_name, &address), GROUP, &format!("{name}@{}", node.0))
    });
    let queue = members[0].queue(random.below(u64::from(QUEUES)) as u32);
    let broker = cluster.brokers[0];
    let mut race = Race { cluster, world: world.clone(), broker, random, queue, end: 0 };
    while race.end < 2 {
        race.end = members[0].range(&race.queue).await.map_or(0, |(_, end)| end);
        world.sleep(Duration::from_millis(100)).await;
    }
    for _ in 0..race.random.between(3, 8) {
        let [old, new] = &mut members;
        race.consume(old).await;
        let target = race.random.below(race.end - 1);
        race.reset(target).await?;
        for _ in 0..race.random.between(1, 4) {
            race.trouble().await;
            race.commit_late(old).await;
            race.expect(new, target, "before anybody went there").await?;
        }
        race.obey(new, target).await;
        for _ in 0..race.random.between(1, 3) {
            race.commit_late(old).await;
            race.expect(new, target + 1, "after a member went there").await?;
        }
        // The reset is over, and whoever pulls has the queue.
        world.sleep(Duration::from_secs(125)).await;
        members.swap(0, 1);
    }
    Ok(())
}

impl Race {
    /// A member has the queue and has consumed it.
    async fn consume(&mut self, member: &mut Member) {
        loop {
            let heard = member.beat().await && member.pull(&self.queue, self.end).await;
            if heard && member.commit(&self.queue, self.end).await {
                return;
            }
            self.world.sleep(Duration::from_millis(100)).await;
        }
    }

    async fn reset(&mut self, target: u64) -> Verdict {
        let command = Command::request(request::INVOKE_BROKER_TO_RESET_OFFSET).with_ext(&ResetOffset {
            topic: TOPIC.into(),
            group: GROUP.into(),
            timestamp: 0,
            is_force: true,
            queue_id: self.queue.id as i32,
            offset: Some(target as i64),
        });
        self.cluster.ask(0, command).await.map(drop)
    }

    async fn trouble(&mut self) {
        if self.random.chance(500) {
            sometimes!("a broker died between a reset and its taking up");
            match self.random.chance(500) {
                true => self.world.kill(self.broker),
                false => self.world.power_cut(self.broker),
            }
            self.world.restart(self.broker);
            self.world.run_program(self.broker);
        }
        self.world.sleep(Duration::from_millis(self.random.below(3_000))).await;
    }

    /// The old member says once more how far it was.
    async fn commit_late(&mut self, old: &mut Member) {
        if self.random.chance(300) {
            old.disconnect();
        }
        // It may, or may not, say first who it is.
        if self.random.chance(500) {
            old.beat().await;
        }
        old.commit_late(&self.queue, self.end).await;
    }

    /// A member begins where the reset leads, and goes on.
    async fn obey(&mut self, member: &mut Member, target: u64) {
        loop {
            let heard = member.beat().await && member.pull(&self.queue, target).await;
            if heard && member.commit(&self.queue, target + 1).await {
                return;
            }
            self.world.sleep(Duration::from_millis(100)).await;
        }
    }

    async fn expect(&mut self, member: &mut Member, wanted: u64, when: &str) -> Verdict {
        let told = loop {
            match member.offset(&self.queue).await {
                Some(told) => break told,
                None => self.world.sleep(Duration::from_millis(100)).await,
            }
        };
        match told == wanted {
            true => Ok(()),
            false => Err(Violation::new(NOT_UNDONE, format!("{} is at {told}, not {wanted}, {when}", self.queue))),
        }
    }
}
