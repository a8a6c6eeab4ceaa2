//! Topics that are deleted and made again while slaves are behind: what slaves show is what their master shows.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use metaq::config::broker::FlushDiskType;
use metaq::proto::message::record::{iterate, BodyCrc};
use metaq::proto::remoting::requests::{DeleteTopicInBroker, PullHeader, UpdateAndCreateTopic};
use metaq::proto::remoting::{request, response, Command};

use super::slaves::{trouble, COPIED};
use crate::checkers::Violation;
use crate::client::{message_of, Producer, Remote};
use crate::cluster::Cluster;
use crate::plan::{Plan, Send};
use crate::random::Stream;
use crate::replicas::logs_become_equal;
use crate::routes::routes_are_true;
use crate::scenarios::{Scenario, Verdict};
use crate::stage::{begin_faults, Bounds};
use crate::world::{NodeId, World};

/// Deleted and made again, at once or a while later.
pub const AGAIN: Scenario = Scenario {
    name: "slave_topics_again",
    story: "a topic is deleted and made again while slaves are behind, cut off and restarted; slaves show the messages that \
            their master shows, no old ones and all new ones",
    draft: |d| {
        d.slaves(1..=2).flush(&[FlushDiskType::SyncFlush, FlushDiskType::AsyncFlush]).rest(40_000);
        d.set("slaveReadEnable", true).fault(0..=3, "trouble", trouble);
    },
    play: |world, plan| play(world, plan).boxed_local(),
};

const TOPIC: &str = "again";
const QUEUES: u32 = 4;
const SAME: &str = "slaves show what their master shows";
const BROKER_PORT: u16 = 10_911;
/// Several faults of 40 s may follow each other.
const PATIENCE: Duration = Duration::from_secs(180);
const LIMIT: Duration = Duration::from_secs(2);

async fn play(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    let (bounds, mut random) = (Bounds::of(&plan), world.random("topics"));
    routes_are_true(&cluster, bounds.registered).await?;
    begin_faults(&world, &plan);
    let end = world.now() + plan.faults_end().max(Duration::from_millis(plan.rest_ms));
    while world.now() < end {
        make(&cluster).await?;
        send_some(&cluster, &mut random).await;
        let quiet = *random.pick(&[1, 500, 5_000]);
        world.sleep(Duration::from_millis(random.below(quiet))).await;
        delete(&cluster).await?;
        let gone = *random.pick(&[1, 1, 1_500]);
        world.sleep(Duration::from_millis(random.below(gone))).await;
    }
    make(&cluster).await?;
    send_some(&cluster, &mut random).await;
    crate::faults::heal(&world);
    routes_are_true(&cluster, bounds.registered).await?;
    logs_become_equal(&cluster, COPIED).await?;
    shows_the_same(&cluster).await?;
    // What a start makes of it is the same again.
    for slave in &cluster.slaves {
        world.power_cut(slave.node);
        world.boot(slave.node);
    }
    shows_the_same(&cluster).await
}

async fn make(cluster: &Cluster) -> Verdict {
    let make = Command::request(request::UPDATE_AND_CREATE_TOPIC).with_ext(&UpdateAndCreateTopic {
        topic: TOPIC.into(),
        default_topic: None,
        read_queue_nums: QUEUES as i32,
        write_queue_nums: QUEUES as i32,
        perm: 6,
        topic_filter_type: None,
        topic_sys_flag: 0,
        order: false,
        attributes: None,
        force: false,
    });
    insist(cluster, make).await
}

async fn delete(cluster: &Cluster) -> Verdict {
    let header = DeleteTopicInBroker { topic: TOPIC.into() };
    insist(cluster, Command::request(request::DELETE_TOPIC_IN_BROKER).with_ext(&header)).await
}

/// Asks the master until it answers, which may take as long as faults last. One that has carried it out already may refuse.
async fn insist(cluster: &Cluster, command: Command) -> Verdict {
    let world = &cluster.world;
    let address = format!("{}:{BROKER_PORT}", world.ip(cluster.brokers[0]));
    let deadline = world.now() + PATIENCE;
    while Remote::new(world.env(cluster.admin), address.as_str()).call(command.clone(), LIMIT).await.is_err() {
        if world.now() > deadline {
            return Err(Violation::new("a broker starts", "it does not answer"));
        }
        world.sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// A few messages, to some of the queues.
async fn send_some(cluster: &Cluster, random: &mut Stream) {
    let world = &cluster.world;
    let (nameservers, broker) = (cluster.nameserver_addresses(), cluster.broker_name(0));
    let mut producer = Producer::new(world.clone(), cluster.admin, &nameservers, TOPIC).only_to(&broker);
    let queues = random.between(1, u64::from(QUEUES));
    for _ in 0..random.below(12) {
        let (message, queue) = (world.next_message(), random.below(queues) as u32);
        producer.send(&Send { message, bytes: 20, queue, ..Send::default() }).await;
    }
}

async fn shows_the_same(cluster: &Cluster) -> Verdict {
    let world = &cluster.world;
    let deadline = world.now() + COPIED;
    for slave in &cluster.slaves {
        for id in 0..QUEUES {
            loop {
                let (master, copy) = (
                    shown(cluster, cluster.brokers[slave.broker], TOPIC, id).await,
                    shown(cluster, slave.node, TOPIC, id).await,
                );
                if master.is_some() && master == copy {
                    break;
                }
                if world.now() > deadline {
                    let finding =
                        format!("queue {id}: {} shows {copy:?}, its master {master:?}", world.name(slave.node));
                    return Err(Violation::new(SAME, finding));
                }
                world.sleep(Duration::from_millis(500)).await;
            }
        }
    }
    Ok(())
}

/// Offsets and messages of a queue as one broker shows them; `None` if it does not answer.
pub(super) async fn shown(cluster: &Cluster, node: NodeId, topic: &str, id: u32) -> Option<Vec<(u64, u64)>> {
    let address = format!("{}:{BROKER_PORT}", cluster.world.ip(node));
    let mut remote = Remote::new(cluster.world.env(cluster.admin), address);
    let (mut found, mut next) = (Vec::new(), 0);
    loop {
        let pull = Command::request(request::PULL_MESSAGE).with_ext(&PullHeader {
            consumer_group: "auditors".into(),
            topic: topic.into(),
            queue_id: id as i32,
            queue_offset: next,
            max_msg_nums: 32,
            sys_flag: 4,
            commit_offset: 0,
            suspend_timeout_millis: 0,
            subscription: Some("*".into()),
            sub_version: 0,
            expression_type: None,
            max_msg_bytes: None,
            request_source: None,
            proxy_forward_client_id: None,
        });
        let answer = remote.call(pull, LIMIT).await.ok()?;
        match answer.code {
            response::SUCCESS => {}
            response::PULL_NOT_FOUND => return Some(found),
            response::PULL_RETRY_IMMEDIATELY | response::PULL_OFFSET_MOVED => {}
            _ => return None,
        }
        for record in iterate(&answer.body, BodyCrc::Verify) {
            let record = record.ok()?;
            found.push((record.queue_offset().0, message_of(&record).ok()?));
        }
        let after = answer.ext("nextBeginOffset")?.parse().ok()?;
        if after == next {
            return Some(found);
        }
        next = after;
    }
}
