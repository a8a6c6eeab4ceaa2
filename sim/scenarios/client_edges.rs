//! Single stories of the client library: a lock that is lost in the middle of a call, routes that a NameServer forgets, and
//! a broker whose answers come late.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use metaq::client::{Client, ConsumeFrom, Message, MessageQueue, OrderlyAction};
use metaq::config::broker::FlushDiskType;
use metaq::proto::body::{to_vec, LockBatchRequestBody};
use metaq::proto::remoting::{request, Command};

use super::client_support::{commits_are_consumed, produce, settle, Listening, Member};
use crate::checkers::Violation;
use crate::client::Remote;
use crate::cluster::{Cluster, GROUP, TOPIC};
use crate::net::LinkState;
use crate::plan::Plan;
use crate::scenarios::{Scenario, Verdict};
use crate::world::World;

/// A lock that is lost.
pub const LOCK_LOST: Scenario = Scenario {
    name: "client_lock_lost",
    story: "another takes the lock while a call runs: the call is dropped, is not committed, and comes again",
    draft: |d| {
        d.nameservers(1..=1).brokers(1..=1).flush(&[FlushDiskType::SyncFlush]);
    },
    play: |world, plan| lock_lost(world, plan).boxed_local(),
};

/// Routes that are not true.
pub const STALE_ROUTES: Scenario = Scenario {
    name: "client_stale_routes",
    story: "a NameServer forgets living brokers; clients ask the other one, and neither sends nor deliveries end",
    draft: |d| {
        d.nameservers(2..=2).brokers(2..=2).flush(&[FlushDiskType::SyncFlush]);
    },
    play: |world, plan| stale_routes(world, plan).boxed_local(),
};

/// Answers that come late.
pub const LATE_ANSWERS: Scenario = Scenario {
    name: "client_late_answers",
    story: "pulls, commits and locks are held up for seconds and minutes on their way, and then all come at once",
    draft: |d| {
        d.nameservers(1..=1).brokers(2..=2).flush(&[FlushDiskType::SyncFlush]);
    },
    play: |world, plan| late_answers(world, plan).boxed_local(),
};

async fn lock_lost(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    let mut plan = world.random("plan");
    let (node, thief) = (world.add_node("member"), world.add_node("thief"));
    let addresses = cluster.nameserver_addresses().join(";");
    let calls: Arc<Mutex<Vec<(i64, i32)>>> = Arc::default();
    let finished = Arc::new(AtomicUsize::new(0));
    let ids = {
        let (env, calls, finished, world) = (world.env(node), Arc::clone(&calls), Arc::clone(&finished), world.clone());
        world.clone().spawn(node, async move {
            let client = Client::new(&env, &addresses).expect("the addresses are fine");
            let producer = client.producer("producers").start().expect("the only one");
            let sent = producer.send_with(Message::new(TOPIC, "a"), |_, _| 0).await.expect("no fault yet");
            producer.send_to(Message::new(TOPIC, "b"), &sent.queue).await.expect("no fault yet");
            let consumer = client.push_consumer(GROUP).subscribe(TOPIC, "*").consume_from(ConsumeFrom::First);
            let listen = move |message: Arc<metaq::client::Received>| {
                let first = calls.lock().expect("no holder panics").is_empty();
                calls.lock().expect("no holder panics").push((message.offset, message.reconsume_times));
                let (finished, world) = (Arc::clone(&finished), world.clone());
                async move {
                    if first {
                        // Longer than the lock is held by its thief, had it not been dropped.
                        world.sleep(Duration::from_secs(100)).await;
                    }
                    finished.fetch_add(1, Ordering::SeqCst);
                    OrderlyAction::Done
                }
            };
            let consumer = consumer.orderly(listen).await.expect("it can be set up");
            (client, consumer, sent.queue)
        })
    };
    let (client, consumer, queue) = ids.await.map_err(|_| Violation::new("clients live", "the member was killed"))?;
    let seen = || calls.lock().expect("no holder panics").clone();
    while seen().is_empty() {
        world.sleep(Duration::from_millis(10)).await;
    }
    world.sleep(Duration::from_millis(plan.below(15_000))).await;
    let broker = format!("{}:10911", world.ip(cluster.brokers[0]));
    let mut remote = Remote::new(world.env(thief), broker);
    lock(&mut remote, request::UNLOCK_BATCH_MQ, client.id(), &queue).await?;
    lock(&mut remote, request::LOCK_BATCH_MQ, "thief", &queue).await?;
    // The member renews every 20 s: until then it cannot know, from then on it must stop.
    world.sleep(Duration::from_secs(25)).await;
    if finished.load(Ordering::SeqCst) > 0 || seen().len() > 1 {
        let finding = format!("{:?} called, {} ended", seen(), finished.load(Ordering::SeqCst));
        return Err(Violation::new("no call outlives its lock", finding));
    }
    let committed = client.admin().committed(GROUP, &queue).await;
    if !matches!(committed, Ok(Some(0) | None)) {
        return Err(Violation::new("what a lost lock covered is not committed", format!("{committed:?}")));
    }
    lock(&mut remote, request::UNLOCK_BATCH_MQ, "thief", &queue).await?;
    world.sleep(Duration::from_secs(5)).await;
    if seen() != [(0, 0), (0, 0), (1, 0)] {
        return Err(Violation::new("a dropped call comes again, and not as a failure", format!("{:?}", seen())));
    }
    world
        .spawn(node, async move { consumer.stop(Duration::from_secs(1)).await })
        .await
        .map_err(|_| Violation::new("clients live", "the member was killed"))?;
    let committed = client.admin().committed(GROUP, &queue).await;
    if committed != Ok(Some(2)) {
        return Err(Violation::new("a stop commits", format!("{committed:?}")));
    }
    Ok(())
}

async fn lock(remote: &mut Remote, code: i32, client: &str, queue: &MessageQueue) -> Result<(), Violation> {
    let body = to_vec(&LockBatchRequestBody {
        client_id: client.to_owned(),
        consumer_group: GROUP.to_owned(),
        mq_set: [queue.clone()].into(),
        only_this_broker: false,
    });
    let answer = remote.call(Command::request(code).with_body(body), Duration::from_secs(3)).await;
    answer.map(drop).map_err(|error| Violation::new("a broker without faults answers", error.to_string()))
}

async fn stale_routes(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    let mut plan = world.random("plan");
    let listening = Listening::Concurrently(0);
    let mut members = vec![Member::start(&world, &cluster, "member-0", &listening)];
    let sending = produce(&world, &cluster, "producer", 400, Duration::from_secs(2));
    world.sleep(Duration::from_secs(plan.between(1, 40))).await;
    // One NameServer hears no broker any more, and forgets them all after two minutes; clients still reach it.
    let deaf = plan.below(2) as usize;
    for broker in &cluster.brokers {
        world.network().cut(cluster.nameservers[deaf], *broker);
    }
    world.sleep(Duration::from_secs(plan.between(100, 160))).await;
    members.push(Member::start(&world, &cluster, "member-1", &listening));
    world.sleep(Duration::from_secs(plan.between(1, 60))).await;
    if plan.chance(500) {
        // The other one goes too, for a while: what clients know already has to do.
        let other = cluster.nameservers[1 - deaf];
        world.kill(other);
        world.sleep(Duration::from_secs(plan.between(1, 20))).await;
        world.restart(other);
        world.run_program(other);
    }
    world.sleep(Duration::from_secs(plan.between(1, 60))).await;
    world.network().heal();
    let stored = sending.await.map_err(|_| Violation::new("clients live", "the producer was killed"))?;
    if stored < 380 {
        return Err(Violation::new("living brokers are found", format!("only {stored} of 400 were stored")));
    }
    settle(&world, &cluster).await?;
    for member in &mut members {
        member.stop(&world).await;
    }
    Ok(())
}

async fn late_answers(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    let mut plan = world.random("plan");
    let listening = Listening::Concurrently(0);
    let mut members: Vec<_> =
        (0..3).map(|index| Member::start(&world, &cluster, &format!("member-{index}"), &listening)).collect();
    let auditor = world.add_node("auditor");
    let (env, addresses) = (world.env(auditor), cluster.nameserver_addresses().join(";"));
    let admin = world.spawn(auditor, async move { Client::new(&env, &addresses).expect("the addresses are fine") });
    let admin = admin.await.map_err(|_| Violation::new("clients live", "the auditor was killed"))?;
    let sending = produce(&world, &cluster, "producer", 250, Duration::from_secs(1));
    for _ in 0..plan.between(4, 8) {
        world.sleep(Duration::from_millis(plan.below(8_000))).await;
        let member = members[plan.below(3) as usize].node;
        let broker = cluster.brokers[plan.below(2) as usize];
        let (from, to) = if plan.chance(500) { (member, broker) } else { (broker, member) };
        world.network().set_link(from, to, LinkState::Clogged);
        let seconds = *plan.pick(&[1, 4, 14, 35, 70]);
        world.sleep(Duration::from_secs(seconds)).await;
        world.network().heal();
        world.sleep(Duration::from_millis(plan.below(2_000))).await;
        commits_are_consumed(&world, &cluster, &admin, false).await?;
    }
    sending.await.map_err(|_| Violation::new("clients live", "the producer was killed"))?;
    settle(&world, &cluster).await?;
    commits_are_consumed(&world, &cluster, &admin, false).await?;
    for member in &mut members {
        member.stop(&world).await;
    }
    Ok(())
}
