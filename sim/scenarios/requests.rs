//! Requests that are replied to.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use metaq::client::{Action, Client, ConsumeFrom, Message};
use metaq::config::broker::FlushDiskType::{AsyncFlush, SyncFlush};

use crate::checkers::Violation;
use crate::cluster::{Cluster, TOPIC};
use crate::faults;
use crate::plan::Plan;
use crate::scenarios::{Scenario, Verdict};
use crate::stage::begin_faults;
use crate::world::{NodeId, World};

/// Requests and replies.
pub const REQUESTS: Scenario = Scenario {
    name: "requests",
    story:
        "clients ask and a group replies while brokers and repliers die; each gets its own reply or an error in time",
    draft: |d| {
        d.nameservers(1..=1).brokers(1..=2).flush(&[SyncFlush, AsyncFlush]);
        d.faults(0..=3, &["kill", "kill", "crash_loop"]);
        let mut random = d.random("when");
        d.each_fault(|timed| timed.at_us = random.below(60_000_000));
    },
    play: |world, plan| play(world, plan).boxed_local(),
};

const ASKERS: usize = 3;
const REQUESTS_EACH: u64 = 60;
/// How long a request waits for its reply, and what the machine may add.
const LIMIT: Duration = Duration::from_secs(5);
const SLACK: Duration = Duration::from_millis(200);
/// When all must work again after the last fault: brokers are back and everybody has told them who they are.
const WELL: Duration = Duration::from_secs(90);

/// What is true at any time: numbers that were asked, and how the last requests went.
#[derive(Default)]
struct Asked {
    sent: BTreeSet<u64>,
    replied: u64,
}

async fn play(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    let asked: Arc<Mutex<Asked>> = Arc::default();
    let mut random = world.random("play");
    let replier = world.add_node("replier");
    reply(&world, &cluster, replier, &asked);
    let askers: Vec<_> = (0..ASKERS).map(|index| ask(&world, &cluster, index, &asked)).collect();
    begin_faults(&world, &plan);
    for _ in 0..random.below(3) {
        world.sleep(Duration::from_millis(random.below(20_000))).await;
        world.kill(replier);
        world.sleep(Duration::from_millis(random.below(3_000))).await;
        world.restart(replier);
        reply(&world, &cluster, replier, &asked);
    }
    for asker in askers {
        asker.await.map_err(|_| Violation::new("clients live", "an asker was killed"))?;
    }
    let end = world.began() + plan.faults_end();
    world.sleep(end.saturating_sub(world.now())).await;
    faults::heal(&world);
    world.sleep(WELL).await;
    // Everything is well: the same clients are answered.
    asked.lock().expect("no holder panics").replied = 0;
    let last = ask(&world, &cluster, ASKERS, &asked);
    last.await.map_err(|_| Violation::new("clients live", "an asker was killed"))?;
    let replied = asked.lock().expect("no holder panics").replied;
    if replied < REQUESTS_EACH {
        let finding = format!("of {REQUESTS_EACH} requests without a fault {replied} were answered");
        return Err(Violation::new("requests are answered", finding));
    }
    Ok(())
}

/// Sends requests one after the other. A reply holds the number that was asked.
fn ask(world: &World, cluster: &Cluster, index: usize, asked: &Arc<Mutex<Asked>>) -> madsim::task::JoinHandle<()> {
    let node = world.add_node(&format!("asker-{index}"));
    let (world, nameservers, asked) = (world.clone(), cluster.nameserver_addresses().join(";"), Arc::clone(asked));
    let mut random = world.random(&format!("asker {index}"));
    world.clone().spawn(node, async move {
        let client = Client::new(&world.env(node), &nameservers).expect("the addresses are fine");
        let producer = client.producer(format!("asker-{index}")).start().expect("the only one");
        for _ in 0..REQUESTS_EACH {
            let number = world.next_message();
            asked.lock().expect("no holder panics").sent.insert(number);
            let began = world.now();
            let reply = producer.request(Message::new(TOPIC, number.to_be_bytes()), LIMIT).await;
            let took = world.now() - began;
            if took > LIMIT + SLACK {
                world.violated(Violation::new("requests end in time", format!("one took {took:?}: {reply:?}")));
            }
            if let Ok(reply) = reply {
                asked.lock().expect("no holder panics").replied += 1;
                if reply.body != number.to_be_bytes() {
                    let finding = format!("{number} was asked, and {:?} replied", reply.body);
                    world.violated(Violation::new("each request gets its own reply", finding));
                }
            }
            world.sleep(Duration::from_millis(random.below(1_000))).await;
        }
        client.close().await;
    })
}

/// A member that replies to each request with what it says.
fn reply(world: &World, cluster: &Cluster, node: NodeId, asked: &Arc<Mutex<Asked>>) {
    let (world, nameservers, asked) = (world.clone(), cluster.nameserver_addresses().join(";"), Arc::clone(asked));
    world.clone().spawn(node, async move {
        let client = Client::new(&world.env(node), &nameservers).expect("the addresses are fine");
        let producer = client.producer("repliers").start().expect("the only one");
        let (listener, replier) = (world.clone(), producer.clone());
        let builder = client.push_consumer("repliers").subscribe(TOPIC, "*").consume_from(ConsumeFrom::First);
        let consumer = builder.concurrently(move |request| {
            let (world, replier, asked) = (listener.clone(), replier.clone(), Arc::clone(&asked));
            async move {
                let number = request.body.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
                if !asked.lock().expect("no holder panics").sent.contains(&number) {
                    world.violated(Violation::new("each request gets its own reply", "a request that nobody sent"));
                }
                // The one who asked may not wait any more.
                let _ = replier.reply(&request, request.body.clone()).await;
                Action::Done
            }
        });
        let _consumer = consumer.await.map_err(|error| {
            world.violated(Violation::new("a member starts", error.to_string()));
        });
        futures::future::pending::<()>().await;
        drop(producer);
    });
}
