//! Order: queues that are consumed in order have one owner at a time, whoever of owners and brokers dies, and only the owner
//! says how far they are.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use metaq::config::broker::FlushDiskType;

use super::client_support::{produce, settle, Listening, Member as Participant, Owners};
use super::slaves::{bring_back, lose_master, promote_longest};
use crate::checkers::{offsets_committed, one_lock_holder, Violation};
use crate::client::Member;
use crate::cluster::{Cluster, QUEUES};
use crate::history::Queue;
use crate::plan::Plan;
use crate::random::Stream;
use crate::scenarios::{Scenario, Verdict};
use crate::sometimes;
use crate::workload::Workload;
use crate::world::{NodeId, World};

/// Owners that lose a queue and do not know it.
pub const FENCED: Scenario = Scenario {
    name: "fenced_owners",
    story:
        "owners of a queue stand still, lose their connection or their lock, while the broker dies and comes back; what \
            they commit once another one has the queue does not count",
    draft: |d| {
        d.producers(1..=1, 200..=300, &[1]).set("flushConsumerOffsetInterval", 1_000);
    },
    play: |world, plan| fenced(world, plan).boxed_local(),
};

/// Orderly consumers of a broker whose slave takes its place.
pub const PROMOTED: Scenario = Scenario {
    name: "ordered_promotion",
    story:
        "SYNC_MASTER: members consume in order while the master dies, hangs or is cut off from all but its clients, a slave is \
            promoted and dies in its turn; no queue has two owners, no message is skipped, messages of one key keep their order",
    draft: |d| {
        d.slaves(2..=2).flush(&[FlushDiskType::SyncFlush]);
        d.set("brokerRole", "SYNC_MASTER").set("inSyncReplicas", 2);
    },
    play: |world, plan| promoted(world, plan).boxed_local(),
};

/// How long after its last renewal somebody else may have a lock.
const LEASE: Duration = Duration::from_secs(61);
/// Longer than a lock can keep others away.
const LOCK_LIMIT: Duration = Duration::from_secs(100);
/// Offsets are saved every second, by one sync.
const SAVED_WITHIN: Duration = Duration::from_secs(5);
/// Messages of each producer.
const COUNT: u64 = 80;

/// Two owners of one queue after the other, as clients of their own machines.
struct Relay {
    world: World,
    broker: NodeId,
    random: Stream,
    queue: Queue,
    /// How far the queue is.
    next: u64,
    end: u64,
}

async fn fenced(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    Workload::start(&cluster, &plan).finished().await;
    let mut random = world.random("fenced");
    let address = format!("{}:10911", world.ip(cluster.brokers[0]));
    let broker_name = cluster.broker_name(0);
    let mut owners = ["first", "second"].map(|name| {
        let node = world.add_node(name);
        Member::new(&world, node, (&broker_name, &address), "ledger", &format!("{name}@{}", node.0))
    });
    let queue = owners[0].queue(random.below(u64::from(QUEUES)) as u32);
    let mut relay = Relay { world: world.clone(), broker: cluster.brokers[0], random, queue, next: 0, end: 0 };
    while relay.end == 0 {
        relay.end = owners[0].range(&relay.queue).await.map_or(0, |(_, end)| end);
        world.sleep(Duration::from_millis(100)).await;
    }
    for _ in 0..relay.random.between(3, 8) {
        let [old, new] = &mut owners;
        relay.own(old).await?;
        relay.lose(old).await;
        relay.own(new).await?;
        relay.commit_late(old).await;
        relay.look(new).await;
        owners.swap(0, 1);
    }
    offsets_committed(&world.history().timed(), SAVED_WITHIN)
}

impl Relay {
    /// `owner` gets the queue and goes on in it.
    async fn own(&mut self, owner: &mut Member) -> Verdict {
        let (queue, deadline) = (self.queue.clone(), self.world.now() + LOCK_LIMIT);
        while !owner.holds(&queue) {
            if self.world.now() > deadline {
                let finding = format!("nobody could lock {queue} for {} s", LOCK_LIMIT.as_secs());
                return Err(Violation::new("locks come free", finding));
            }
            // A heartbeat names the connection; without one, the lock does.
            if self.random.chance(700) {
                owner.beat().await;
            }
            owner.lock(std::slice::from_ref(&queue)).await;
            self.world.sleep(Duration::from_millis(self.random.below(2_000))).await;
        }
        for _ in 0..self.random.between(1, 3) {
            owner.pull(&queue, self.next).await;
            self.next = (self.next + 1).min(self.end);
            owner.commit(&queue, self.next).await;
        }
        self.look(owner).await;
        Ok(())
    }

    /// `owner` does not renew for too long, or its lock is taken from it; it hears of neither.
    async fn lose(&mut self, owner: &mut Member) {
        match self.random.below(3) {
            0 => owner.disconnect(),
            1 => owner.unlock(std::slice::from_ref(&self.queue)).await,
            _ => {}
        }
        self.world.sleep(LEASE).await;
        owner.forget();
    }

    /// The former owner wants the queue elsewhere, with the broker as it was or after a crash.
    async fn commit_late(&mut self, former: &mut Member) {
        if self.random.chance(400) {
            sometimes!("a former owner commits after the broker's crash");
            match self.random.chance(500) {
                true => self.world.kill(self.broker),
                false => self.world.power_cut(self.broker),
            }
            self.world.restart(self.broker);
            self.world.run_program(self.broker);
        } else if self.random.chance(300) {
            former.disconnect();
        }
        for wanted in [self.end, self.next.saturating_sub(1)] {
            // It may, or may not, say first who it is.
            if self.random.chance(300) {
                former.beat().await;
            }
            while !former.commit_late(&self.queue, wanted).await && self.random.chance(800) {
                self.world.sleep(Duration::from_millis(200)).await;
            }
        }
    }

    async fn look(&mut self, owner: &mut Member) {
        while owner.offset(&self.queue).await.is_none() {
            self.world.sleep(Duration::from_millis(100)).await;
        }
    }
}

async fn promoted(world: World, plan: Arc<Plan>) -> Verdict {
    let mut cluster = Cluster::start(&world, &plan).await;
    let (owners, mut random) = (Owners::default(), world.random("promoted"));
    let listening = Listening::Orderly(owners.clone());
    let join = |cluster: &Cluster, name: &str| Participant::start(&world, cluster, name, &listening);
    let mut members = vec![join(&cluster, "member-1"), join(&cluster, "member-2")];
    let pace = Duration::from_millis(*random.pick(&[200, 1_000]));
    let sending: Vec<_> =
        (0..2).map(|index| produce(&world, &cluster, &format!("producer-{index}"), COUNT, pace)).collect();
    world.sleep(Duration::from_millis(random.between(20_000, 60_000))).await;
    let master = cluster.brokers[0];
    lock_for_ever(&cluster, "keeps-to-the-old", master);
    // Clients still reach one that its group and the NameServers do not.
    let trouble = lose_master(&cluster, &mut random);
    world.sleep(Duration::from_millis(random.below(3_000))).await;
    promote_longest(&mut cluster).await?;
    lock_for_ever(&cluster, "goes-to-the-new", cluster.brokers[0]);
    if random.chance(500) {
        members.push(join(&cluster, "member-3"));
    }
    world.sleep(Duration::from_millis(random.below(60_000))).await;
    bring_back(&cluster, master, trouble, &mut random).await;
    if random.chance(500) {
        sometimes!("a promoted broker dies soon");
        world.kill(cluster.brokers[0]);
        world.sleep(Duration::from_millis(random.below(2_000))).await;
        world.boot(cluster.brokers[0]);
    }
    for producer in sending {
        producer.await.map_err(|_| Violation::new("clients live", "a producer was killed"))?;
    }
    owners.calm_down();
    settle(&world, &cluster).await?;
    for member in &mut members {
        member.stop(&world).await;
    }
    one_lock_holder(&world.history().timed())
}

/// A client that knows one broker and wants a queue's lock there, or holds it.
fn lock_for_ever(cluster: &Cluster, name: &str, broker: NodeId) {
    let (world, node) = (cluster.world.clone(), cluster.world.add_node(name));
    let address = format!("{}:10911", world.ip(broker));
    let mut member = Member::new(&world, node, (&cluster.broker_name(0), &address), "ledger", name);
    world.clone().spawn(node, async move {
        let queue = member.queue(0);
        loop {
            member.lock(std::slice::from_ref(&queue)).await;
            world.sleep(Duration::from_secs(3)).await;
        }
    });
}
