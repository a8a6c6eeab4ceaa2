//! Groups that read at slaves while their master is away, and come back to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use metaq::client::Client;
use metaq::config::broker::FlushDiskType;
use metaq::proto::body::{from_slice, ConsumerOffsetSerializeWrapper};
use metaq::proto::remoting::{own_request, Command};

use super::client_support::{commits_are_consumed, produce, settle, Listening, Member};
use super::slaves::{ask, in_sync, make_group, offsets};
use crate::checkers::Violation;
use crate::cluster::{Cluster, GROUP, TOPIC};
use crate::history::Event;
use crate::net::LinkState;
use crate::plan::Plan;
use crate::random::Stream;
use crate::routes::routes_are_true;
use crate::scenarios::{Scenario, Verdict};
use crate::sometimes;
use crate::stage::Bounds;
use crate::world::{NodeId, World};

/// The master goes and comes, and the group goes on.
pub const READS: Scenario = Scenario {
    name: "slave_reads",
    story: "a master dies, hangs or is cut off again and again while a group consumes: the group goes on at a slave and comes \
            back, skips nothing, and what it committed there is not lost",
    draft: |d| {
        d.slaves(1..=2).flush(&[FlushDiskType::SyncFlush]);
        let enabled = d.random("reads").below(2) == 0;
        d.set("slaveReadEnable", enabled).set("flushConsumerOffsetInterval", 1_000);
    },
    play: |world, plan| play(world, plan).boxed_local(),
};

const STAYS: &str = "what is committed at a slave stays";
/// A broker that serves again has asked its slaves, which takes no longer than this.
const SERVES_WITHIN: Duration = Duration::from_secs(30);

async fn play(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    let (bounds, mut random) = (Bounds::of(&plan), world.random("reads"));
    routes_are_true(&cluster, bounds.registered).await?;
    make_group(&cluster).await?;
    in_sync(&cluster).await?;
    let nameservers = cluster.nameserver_addresses().join(";");
    let admin = Client::new(&world.env(cluster.admin), &nameservers).expect("the addresses are fine");
    let producing = produce(&world, &cluster, "producer", 400, Duration::from_millis(400));
    let listening = Listening::Concurrently(0);
    let mut members: Vec<Member> =
        (0..2).map(|index| Member::start(&world, &cluster, &format!("member-{index}"), &listening)).collect();
    world.sleep(Duration::from_secs(10)).await;
    for _ in 0..random.between(2, 4) {
        world.sleep(Duration::from_millis(random.below(20_000))).await;
        away(&cluster, &mut random, &mut members, &listening).await?;
        commits_are_consumed(&world, &cluster, &admin, false).await?;
    }
    producing.await.map_err(|error| Violation::new("clients do not panic", error.to_string()))?;
    settle(&world, &cluster).await?;
    commits_are_consumed(&world, &cluster, &admin, false).await?;
    for member in &mut members {
        member.stop(&world).await;
    }
    admin.close().await;
    Ok(())
}

/// The master is away for a while, and comes back.
async fn away(cluster: &Cluster, random: &mut Stream, members: &mut [Member], listening: &Listening) -> Verdict {
    let (world, master) = (&cluster.world, cluster.brokers[0]);
    let consumed = consumed(world);
    let ended = random.below(4);
    match ended {
        0 => world.kill(master),
        1 => world.power_cut(master),
        2 => world.pause(master),
        _ => set_links(cluster, LinkState::Cut),
    }
    let left = random.between(3_000, 60_000);
    let ends = world.now() + Duration::from_millis(left);
    // A member that begins now finds out where the group is from a slave.
    if random.chance(400) {
        world.sleep(Duration::from_millis(random.below(left))).await;
        let member = &mut members[random.below(2) as usize];
        world.kill(member.node);
        world.restart(member.node);
        member.run(world, cluster, listening);
    }
    let mut committed = BTreeMap::new();
    loop {
        for slave in &cluster.slaves {
            for (queue, offset) in kept(cluster, slave.node).await {
                let most = committed.entry(queue).or_insert(offset);
                *most = offset.max(*most);
            }
        }
        if world.now() >= ends {
            break;
        }
        world.sleep(Duration::from_millis(500)).await;
    }
    sometimes!(self::consumed(world) > consumed, "a group consumed at a slave while its master was away");
    match ended {
        0 | 1 => world.boot(master),
        2 => world.resume_fully(master),
        _ => set_links(cluster, LinkState::Open),
    }
    // One that never ended hears of it with the group's next commits.
    if ended > 1 {
        return Ok(());
    }
    has_what_was_committed(cluster, master, &committed).await
}

/// Offsets of the group's queues that it committed at a slave, and that the slave says its master does not have.
async fn kept(cluster: &Cluster, slave: NodeId) -> BTreeMap<i32, i64> {
    let answer = ask(cluster, slave, Command::request(own_request::GET_KEPT_OFFSETS)).await;
    let kept = answer.and_then(|answer| from_slice::<ConsumerOffsetSerializeWrapper>(&answer.body).ok());
    let key = ConsumerOffsetSerializeWrapper::key(TOPIC, GROUP);
    kept.and_then(|mut kept| kept.offset_table.remove(&key)).unwrap_or_default()
}

fn consumed(world: &World) -> usize {
    world.history().events().iter().filter(|event| matches!(event, Event::Consumed(..))).count()
}

fn set_links(cluster: &Cluster, state: LinkState) {
    let (world, master) = (&cluster.world, cluster.brokers[0]);
    if state == LinkState::Open {
        return world.open_all_links();
    }
    for node in world.nodes_by_name().into_values().filter(|node| *node != master) {
        world.shut_link(master, node, state, "master cut off");
        world.shut_link(node, master, state, "master cut off");
    }
}

/// A master that serves again has at least what the group committed at slaves.
async fn has_what_was_committed(cluster: &Cluster, master: NodeId, committed: &BTreeMap<i32, i64>) -> Verdict {
    let world = &cluster.world;
    let deadline = world.now() + SERVES_WITHIN;
    let now = loop {
        if let Some(offsets) = offsets(cluster, master).await {
            break offsets;
        }
        if world.now() > deadline {
            return Err(Violation::new("a broker starts", "it does not answer"));
        }
        world.sleep(Duration::from_millis(20)).await;
    };
    for (queue, offset) in committed {
        let has = now.get(queue).copied().unwrap_or(0);
        if has < *offset {
            let finding = format!("queue {queue}: {offset} at a slave, {has} at the master that came back");
            return Err(Violation::new(STAYS, finding));
        }
    }
    Ok(())
}
