//! Groups of the client library that want only some of the messages.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use metaq::client::{Action, Client, ConsumeFrom, Message, PushConsumerBuilder};
use metaq::config::broker::FlushDiskType::{AsyncFlush, SyncFlush};

use super::client_support::{number_of, place_of, SETTLE};
use crate::checkers::{filtered, messages_intact, Violation, Wants};
use crate::client::body_of;
use crate::cluster::{Cluster, TOPIC};
use crate::faults;
use crate::history::Event;
use crate::plan::Plan;
use crate::scenarios::{Scenario, Verdict};
use crate::stage::begin_faults;
use crate::world::{NodeId, World};

/// SQL92 and tags.
pub const FILTERS: Scenario = Scenario {
    name: "filters",
    story: "groups with SQL92 expressions and with tags, through deaths of brokers and members; each gets exactly what matches",
    draft: |d| {
        d.nameservers(1..=1).brokers(1..=2).flush(&[SyncFlush, AsyncFlush]).set("enablePropertyFilter", true);
        d.faults(0..=3, &["kill", "kill", "crash_loop"]);
        let mut random = d.random("when");
        d.each_fault(|timed| timed.at_us = random.below(40_000_000));
    },
    play: |world, plan| play(world, plan).boxed_local(),
};

/// Messages of each producer.
const COUNT: u64 = 300;
/// Messages that some runs begin with: more in each queue than one read looks at.
const BACKLOG: u64 = 4_200;
/// Members that are killed and come back.
const DEATHS: u64 = 3;

/// A group, how it subscribes, and what it is to get.
struct Filtered {
    wants: Wants<'static>,
    subscribe: fn(PushConsumerBuilder) -> PushConsumerBuilder,
}

/// Message `m` has the property `n` = m mod 100, `half` = n + 0.5, `kind` = `odd` if it is odd, `big` = m mod 5000, and as its
/// tag the last digit of m. Few match the first one, so that reads end and go on between two matches.
const GROUPS: [Filtered; 4] = [
    Filtered { wants: ("rare", |m| m % 5_000 == 4_100), subscribe: |to| to.subscribe_sql(TOPIC, "big = 4100") },
    Filtered {
        wants: ("range", |m| (10..40).contains(&(m % 100))),
        subscribe: |to| to.subscribe_sql(TOPIC, "half BETWEEN 10 AND 39.9 AND none IS NULL"),
    },
    Filtered {
        wants: ("either", |m| m % 100 > 90 || m % 2 == 1),
        subscribe: |to| to.subscribe_sql(TOPIC, "n > 90 OR kind = 'odd' OR kind > 5"),
    },
    Filtered { wants: ("tagged", |m| [3, 4].contains(&(m % 10))), subscribe: |to| to.subscribe(TOPIC, "t3 || t4") },
];

async fn play(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    let mut random = world.random("play");
    let pace = *random.pick(&[20, 100, 300]);
    if random.chance(300) {
        send_backlog(&world, &cluster).await.map_err(|_| Violation::new("clients live", "a producer was killed"))?;
    }
    let producers: Vec<_> = (0..2).map(|index| produce(&world, &cluster, index, pace)).collect();
    let mut members = Vec::new();
    for (index, group) in GROUPS.iter().enumerate() {
        for number in 0..random.between(1, 2) {
            let node = world.add_node(&format!("{}-{number}", group.wants.0));
            consume(&world, &cluster, node, index);
            members.push((node, index));
        }
    }
    begin_faults(&world, &plan);
    for _ in 0..DEATHS {
        world.sleep(Duration::from_millis(random.below(15_000))).await;
        let (node, group) = *random.pick(&members);
        world.kill(node);
        world.sleep(Duration::from_millis(random.below(3_000))).await;
        world.restart(node);
        consume(&world, &cluster, node, group);
    }
    let mut stored = 0;
    for producer in producers {
        stored += producer.await.map_err(|_| Violation::new("clients live", "a producer was killed"))?;
    }
    if stored < COUNT {
        return Err(Violation::new("producers go on", format!("only {stored} of {} were stored", 2 * COUNT)));
    }
    world.sleep((world.began() + plan.faults_end()).saturating_sub(world.now())).await;
    faults::heal(&world);
    world.sleep(SETTLE).await;
    cluster.find_all().await;
    let events = world.history().events();
    messages_intact(&events)?;
    filtered(&events, &GROUPS.map(|group| group.wants))
}

fn message(number: u64, bytes: usize) -> Message {
    Message::new(TOPIC, body_of(number, bytes))
        .tag(format!("t{}", number % 10))
        .property("n", (number % 100).to_string())
        .property("half", format!("{}.5", number % 100))
        .property("kind", if number % 2 == 1 { "odd" } else { "even" })
        .property("big", (number % 5_000).to_string())
}

fn send_backlog(world: &World, cluster: &Cluster) -> madsim::task::JoinHandle<()> {
    let node = world.add_node("backlog");
    let (world, nameservers) = (world.clone(), cluster.nameserver_addresses().join(";"));
    world.clone().spawn(node, async move {
        let client = Client::new(&world.env(node), &nameservers).expect("the addresses are fine");
        let producer = client.producer("backlog").start().expect("the only one");
        for _ in 0..BACKLOG / 20 {
            let numbers: Vec<u64> = (0..20).map(|_| world.next_message()).collect();
            numbers.iter().for_each(|number| world.history().add(node, Event::Sending(*number)));
            let batch = numbers.into_iter().map(|number| message(number, 0)).collect();
            // As with all messages, those that are there at the end count.
            let _ = producer.send_batch(batch).await;
        }
        client.close().await;
    })
}

fn produce(world: &World, cluster: &Cluster, index: u64, pace_ms: u64) -> madsim::task::JoinHandle<u64> {
    let node = world.add_node(&format!("producer-{index}"));
    let (world, nameservers) = (world.clone(), cluster.nameserver_addresses().join(";"));
    let mut random = world.random(&format!("producer {index}"));
    world.clone().spawn(node, async move {
        let client = Client::new(&world.env(node), &nameservers).expect("the addresses are fine");
        let producer = client.producer("producers").start().expect("the only one");
        let mut stored = 0;
        for _ in 0..COUNT {
            let number = world.next_message();
            let message = message(number, random.below(200) as usize);
            world.history().add(node, Event::Sending(number));
            // An error says nothing: what lies in the queues at the end is what counts.
            stored += u64::from(producer.send(message).await.is_ok());
            world.sleep(Duration::from_millis(random.below(pace_ms + 1))).await;
        }
        client.close().await;
        stored
    })
}

/// Runs a member of a group on its machine.
fn consume(world: &World, cluster: &Cluster, node: NodeId, group: usize) {
    let Filtered { wants: (name, _), subscribe } = GROUPS[group];
    let (world, nameservers) = (world.clone(), cluster.nameserver_addresses().join(";"));
    world.clone().spawn(node, async move {
        let client = Client::new(&world.env(node), &nameservers).expect("the addresses are fine");
        let listener = world.clone();
        let listen = move |message: Arc<metaq::client::Received>| {
            let world = listener.clone();
            async move {
                match number_of(&message) {
                    Ok(number) => world.history().add(node, Event::Consumed(name.into(), number, place_of(&message))),
                    Err(violation) => world.violated(violation),
                }
                Action::Done
            }
        };
        // A broker that is away cannot check the expression; a program would be started again.
        let _consumer = loop {
            let builder = subscribe(client.push_consumer(name)).consume_from(ConsumeFrom::First);
            match builder.concurrently(listen.clone()).await {
                Ok(consumer) => break consumer,
                Err(_) => world.sleep(Duration::from_secs(1)).await,
            }
        };
        futures::future::pending::<()>().await;
    });
}
