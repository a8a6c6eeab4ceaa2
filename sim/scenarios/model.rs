//! The broker against the reference model: one request after the other goes to both, and every answer is compared.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use metaq::config::broker::FlushDiskType::{AsyncFlush, SyncFlush};

use crate::checkers::Violation;
use crate::client::Asker;
use crate::cluster::Cluster;
use crate::model::{allows, Answer, Model, Queue, Request};
use crate::plan::Plan;
use crate::random::Stream;
use crate::scenarios::{Scenario, Verdict};
use crate::stage::begin_faults;
use crate::world::{NodeId, World};

/// Every answer of a broker is that of the model.
pub const MODEL: Scenario = Scenario {
    name: "model",
    story: "random requests of three clients, restarts between them; every answer is the one of the reference model",
    draft: |d| {
        d.flush(&[SyncFlush, AsyncFlush]).set("flushConsumerOffsetInterval", 5_000);
    },
    play: |world, plan| play(world, plan).boxed_local(),
};

/// How long a broker that starts keeps the locks that it granted before.
const LOCKS_KEPT: Duration = Duration::from_secs(32);
const NAME: &str = "answers are those of the reference model";
/// Requests of one run.
const REQUESTS: u64 = 300;
const CLIENTS: [&str; 3] = ["a", "b", "c"];
const GROUPS: [&str; 2] = ["billing", "shipping"];
const TOPICS: [&str; 3] = ["orders", "parcels", "bills"];
const TAGS: [&str; 3] = ["red", "green", "blue"];
/// Offsets are saved every 5 s; the process may end 300 ms after it was asked to store them.
const SAVED_WITHIN: Duration = Duration::from_secs(10);

/// A run: the broker through three connections, and the model.
struct Lockstep {
    world: World,
    cluster: Cluster,
    clients: BTreeMap<&'static str, Asker>,
    model: Model,
    random: Stream,
    messages: u64,
    /// What each group committed, and when: after a crash one of the newer ones is there.
    committed: BTreeMap<(String, Queue), Vec<(Duration, u64)>>,
}

async fn play(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    begin_faults(&world, &plan);
    let mut model = Model::default();
    model.answer(&Request::MakeTopic("orders".to_owned()), world.now());
    let random = world.random("lockstep");
    let mut run =
        Lockstep { world, cluster, clients: BTreeMap::new(), model, random, messages: 0, committed: BTreeMap::new() };
    run.connect_all();
    for group in GROUPS {
        for request in
            [Request::Join(group.to_owned(), "a".to_owned()), Request::Leave(group.to_owned(), "a".to_owned())]
        {
            run.both("a", request).await?;
        }
    }
    for _ in 0..REQUESTS {
        match run.random.below(60) {
            0 => run.restart(true).await?,
            1 => run.restart(false).await?,
            2 => run.disconnect_one().await,
            3 => run.rest().await?,
            _ => run.step().await?,
        }
    }
    Ok(())
}

impl Lockstep {
    fn connect_all(&mut self) {
        let address = format!("{}:10911", self.world.ip(self.cluster.brokers[0]));
        for client in CLIENTS {
            let node = self.world.find(client).unwrap_or_else(|| self.world.add_node(client));
            self.clients.insert(client, Asker::new(&self.world, node, &address, &self.cluster.broker_name(0)));
        }
    }

    /// One request, answered by both.
    async fn step(&mut self) -> Verdict {
        let (client, request) = self.request();
        self.both(client, request).await
    }

    async fn both(&mut self, client: &'static str, request: Request) -> Verdict {
        let asker = self.clients.get_mut(client).expect("all are connected");
        let began = self.world.now();
        let Some(got) = asker.ask(&request, client).await else {
            return Err(Violation::new(NAME, format!("no answer to {request:?}")));
        };
        let expected = self.model.answer(&request, began);
        match &request {
            Request::Commit(group, _, queue, offset) if self.model.offset(group, queue) == Some(*offset) => {
                let committed = self.committed.entry((group.clone(), queue.clone())).or_default();
                committed.push((self.world.now(), *offset));
            }
            _ => {}
        }
        self.world.note(NodeId::WORLD, "asked", &[], &format!("{request:?} {got:?}"));
        if allows(&expected, &got) {
            return Ok(());
        }
        Err(Violation::new(NAME, format!("{request:?} was answered by {got:?}, the model says {expected:?}")))
    }

    fn request(&mut self) -> (&'static str, Request) {
        let random = &mut self.random;
        let pick = |random: &mut Stream, names: &[&str]| (*random.pick(names)).to_owned();
        let client = *random.pick(&CLIENTS);
        let queue = (pick(random, &TOPICS), random.below(2) as u32);
        let group = pick(random, &GROUPS);
        let queues: BTreeSet<Queue> = (0..random.between(1, 2)).map(|id| ("orders".to_owned(), id as u32)).collect();
        let request = match random.below(20) {
            0..=6 => {
                self.messages += 1;
                let tag = (random.below(3) > 0).then(|| pick(random, &TAGS));
                Request::Send(queue, self.messages, tag)
            }
            7..=9 => {
                let tags = (0..random.below(3)).map(|_| pick(random, &TAGS)).collect();
                Request::Pull(queue, random.below(20), tags)
            }
            10 => Request::Range(queue),
            11 => Request::Commit(group, client.to_owned(), queue, random.below(20)),
            12 => Request::Offset(group, queue, random.below(2) == 0),
            13 | 14 => Request::Lock(group, client.to_owned(), queues),
            15 => Request::Unlock(group, client.to_owned(), queues),
            16 => Request::Join(group, client.to_owned()),
            17 => Request::Leave(group, client.to_owned()),
            18 => Request::Members(group),
            _ => {
                let topic = pick(random, &TOPICS);
                match random.below(4) {
                    0 => Request::DeleteTopic(topic),
                    _ => Request::MakeTopic(topic),
                }
            }
        };
        // Deleted topics' offsets are gone with them.
        if let Request::DeleteTopic(topic) = &request {
            self.committed.retain(|(_, queue), _| queue.0 != *topic);
        }
        (client, request)
    }

    /// Nothing happens for a while, but for what keeps connections and members from being taken for dead.
    async fn rest(&mut self) -> Verdict {
        self.world.sleep(Duration::from_secs(self.random.below(70))).await;
        for (client, asker) in &mut self.clients {
            asker.ask(&Request::Members("nobody".to_owned()), client).await;
        }
        for group in GROUPS {
            for client in CLIENTS {
                if !self.model.is_member(group, client) {
                    continue;
                }
                self.both(client, Request::Join(group.to_owned(), client.to_owned())).await?;
            }
        }
        Ok(())
    }

    /// One client's connection ends; the broker hears of it.
    async fn disconnect_one(&mut self) {
        let client = *self.random.pick(&CLIENTS);
        self.clients.get_mut(client).expect("all are connected").disconnect();
        self.world.sleep(Duration::from_secs(2)).await;
        self.model.disconnected(client);
    }

    /// The broker stops as it is asked to, or is killed, and comes back.
    async fn restart(&mut self, cleanly: bool) -> Verdict {
        let (world, broker) = (self.world.clone(), self.cluster.brokers[0]);
        let died = world.now();
        if cleanly {
            world.ask_to_stop(broker);
            let deadline = world.now() + Duration::from_secs(60);
            while !world.has_stopped(broker) {
                if world.now() > deadline {
                    return Err(Violation::new("a broker stops cleanly", "it does not end"));
                }
                world.sleep(Duration::from_millis(10)).await;
            }
        }
        world.kill(broker);
        world.boot(broker);
        self.connect_all();
        self.model.restarted();
        let deadline = world.now() + Duration::from_secs(30);
        let probe = Request::Members("nobody".to_owned());
        while self.clients.get_mut("a").expect("all are connected").ask(&probe, "a").await.is_none() {
            if world.now() > deadline {
                return Err(Violation::new("a broker starts", "it does not answer"));
            }
            world.sleep(Duration::from_millis(50)).await;
        }
        // Locks go on for as long as their clients may trust them, perhaps with some that were given back.
        world.sleep(LOCKS_KEPT).await;
        if cleanly {
            return Ok(());
        }
        self.adopt_offsets(died).await
    }

    /// After a crash each offset is one that was committed, and not one that was replaced long before.
    async fn adopt_offsets(&mut self, died: Duration) -> Verdict {
        for ((group, queue), committed) in std::mem::take(&mut self.committed) {
            let request = Request::Offset(group.clone(), queue.clone(), false);
            let asker = self.clients.get_mut("a").expect("all are connected");
            let Some(Answer::Offset(told)) = asker.ask(&request, "a").await else {
                return Err(Violation::new(NAME, format!("no answer to {request:?}")));
            };
            let saved = committed.iter().rposition(|(at, _)| *at + SAVED_WITHIN <= died);
            // An offset above the end of its queue does not survive a crash.
            let end = self.model.end(&queue);
            let newer = &committed[saved.unwrap_or(0)..];
            let possible: Vec<u64> = newer.iter().map(|(_, offset)| (*offset).min(end)).collect();
            let right = match told {
                Some(told) => possible.contains(&told),
                None => saved.is_none(),
            };
            if !right {
                let finding = format!("{group} has {told:?} of {queue:?} after a crash, it committed {committed:?}");
                return Err(Violation::new(NAME, finding));
            }
            self.model.adopt_offset(&group, &queue, told);
            self.committed.extend(told.map(|told| ((group, queue), vec![(died, told)])));
        }
        Ok(())
    }
}
