//! Things that many clients change and ask for at once: whether topics are there, where groups are.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, FutureExt};
use metaq::config::broker::FlushDiskType::SyncFlush;

use crate::checkers::{linearizable, Violation};
use crate::client::Asker;
use crate::cluster::Cluster;
use crate::history::Event;
use crate::model::{Answer, Queue, Request};
use crate::plan::Plan;
use crate::scenarios::{Scenario, Verdict};
use crate::stage::begin_faults;
use crate::world::{NodeId, World};

/// Whatever clients are told has one order.
pub const REGISTERS: Scenario = Scenario {
    name: "registers",
    story:
        "clients make, delete and look for topics, commit and ask for offsets, all at once: there is one order of it",
    draft: |d| {
        d.flush(&[SyncFlush]);
        if d.random("mortal").below(2) == 0 {
            d.faults(1..=3, &MORTAL);
        }
        d.faults(0..=4, &["cut", "cut_one_way", "clog", "slow_link", "jitter", "pause", "stall", "reset_connections"]);
    },
    play: |world, plan| play(world, plan).boxed_local(),
};

/// Faults that end a process. What it was told of offsets may be gone with it.
const MORTAL: [&str; 3] = ["kill", "power_cut", "clean_stop"];
const CLIENTS: usize = 4;
/// Operations of each client.
const OPERATIONS: u64 = 30;
const TOPICS: [&str; 2] = ["parcels", "bills"];
const GROUPS: [&str; 2] = ["billing", "shipping"];
/// Messages in the queue in which groups commit: no offset above them is taken.
const MESSAGES: u64 = 20;

async fn play(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    let address = format!("{}:10911", world.ip(cluster.brokers[0]));
    let mortal = plan.faults.iter().any(|timed| MORTAL.contains(&timed.fault.kind().name));
    let clients: Vec<Client> = (0..CLIENTS as u64)
        .map(|index| {
            let node = world.add_node(&format!("client-{index}"));
            let asker = Asker::new(&world, node, &address, &cluster.broker_name(0));
            Client { world: world.clone(), node, asker, next: index << 32, mortal }
        })
        .collect();
    let mut first = Asker::new(&world, cluster.admin, &address, &cluster.broker_name(0));
    for message in 0..MESSAGES {
        let sent = first.ask(&Request::Send(queue(), message, None), "admin").await;
        if !matches!(sent, Some(Answer::Stored(_))) {
            return Err(Violation::new("a broker without faults answers", format!("a send was answered by {sent:?}")));
        }
    }
    for group in GROUPS {
        // A group that has had a member is known from then on.
        first.ask(&Request::Join(group.to_owned(), "admin".to_owned()), "admin").await;
        first.ask(&Request::Leave(group.to_owned(), "admin".to_owned()), "admin").await;
    }
    begin_faults(&world, &plan);
    join_all(clients.into_iter().map(Client::run)).await;
    crate::faults::heal(&world);
    linearizable(&world.history().events())
}

fn queue() -> Queue {
    ("orders".to_owned(), 0)
}

struct Client {
    world: World,
    node: NodeId,
    asker: Asker,
    /// Numbers of operations; each client has its own.
    next: u64,
    mortal: bool,
}

impl Client {
    async fn run(mut self) {
        let mut random = self.world.random(&format!("client {}", self.node.0));
        for _ in 0..OPERATIONS {
            self.world.sleep(Duration::from_micros(random.below(100_000))).await;
            let (topic, group) = (*random.pick(&TOPICS), *random.pick(&GROUPS));
            match random.below(if self.mortal { 4 } else { 8 }) {
                0 => self.write(topic, Some(1), Request::MakeTopic(topic.to_owned())).await,
                1 => self.write(topic, None, Request::DeleteTopic(topic.to_owned())).await,
                2 | 3 => self.read(topic, Request::Pull((topic.to_owned(), 0), 0, BTreeSet::new())).await,
                4 | 5 => self.commit(group, random.below(MESSAGES)).await,
                _ => self.read(group, Request::Offset(group.to_owned(), queue(), false)).await,
            }
        }
    }

    async fn commit(&mut self, group: &str, offset: u64) {
        self.write(group, Some(offset), Request::Commit(group.to_owned(), "tool".to_owned(), queue(), offset)).await;
    }

    async fn write(&mut self, register: &str, value: Option<u64>, request: Request) {
        let number = self.number();
        self.world.history().add(self.node, Event::Writing(number, register.into(), value));
        match self.asker.ask(&request, "tool").await {
            Some(Answer::Refused) => self.world.history().add(self.node, Event::Wrote(number, false)),
            Some(_) => self.world.history().add(self.node, Event::Wrote(number, true)),
            // Nothing is known of it, now or ever.
            None => {}
        }
    }

    async fn read(&mut self, register: &str, request: Request) {
        let number = self.number();
        self.world.history().add(self.node, Event::Reading(number, register.into()));
        let told = match self.asker.ask(&request, "tool").await {
            Some(Answer::NoTopic | Answer::Offset(None)) => None,
            Some(Answer::Offset(Some(offset))) => Some(offset),
            // Whatever a pull finds, the topic is there.
            Some(_) => Some(1),
            None => return,
        };
        self.world.history().add(self.node, Event::Read(number, told));
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}
