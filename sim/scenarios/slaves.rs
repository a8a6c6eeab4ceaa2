//! Slaves: what they copy of their master's tables while anything may fail between the two.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use metaq::config::broker::FlushDiskType;
use metaq::proto::body::json::from_slice;
use metaq::proto::body::{
    to_vec, ConsumerOffsetSerializeWrapper, HaRuntimeInfo, SubscriptionGroupConfig, SubscriptionGroupWrapper,
    TopicConfigSerializeWrapper,
};
use metaq::proto::remoting::requests::{PromoteBroker, UpdateAndCreateTopic, UpdateConsumerOffset};
use metaq::proto::remoting::{own_request, request, response, Command};

use crate::checkers::{
    acknowledged_kept, all_delivered, messages_intact, nothing_read_early, offsets_dense, stored_in_order, stored_once,
    Violation,
};
use crate::client::{Producer, Remote};
use crate::cluster::{Cluster, GROUP, TOPIC};
use crate::faults::{Draw, Fault, NetFault, ProcessFault};
use crate::history::Event;
use crate::net::LinkState;
use crate::plan::{Plan, Send};
use crate::random::Stream;
use crate::replicas::logs_become_equal;
use crate::routes::{routes_are_true, watch_routes};
use crate::scenarios::{Scenario, Verdict};
use crate::sometimes;
use crate::stage::{begin_faults, Bounds};
use crate::workload::{all_take_messages, Workload};
use crate::world::{NodeId, World};

/// Slaves copy tables while master, slaves, NameServers and links fail.
pub const METADATA: Scenario = Scenario {
    name: "slave_metadata",
    story:
        "masters and slaves die and are cut off while topics, groups and offsets change; slaves have them all in the \
            end, and no offset ever goes back at a slave",
    draft: |d| {
        // A power cut takes from the master what its slaves have heard already.
        d.nameservers(1..=2).slaves(1..=2).rest(60_000).set("flushConsumerOffsetInterval", 20_000);
        d.fault(1..=4, "trouble", trouble);
    },
    play: |world, plan| play(world, plan).boxed_local(),
};

/// A slave becomes the master by request while everything runs.
pub const PROMOTION: Scenario = Scenario {
    name: "promotion",
    story:
        "SYNC_MASTER: the master dies, hangs or is cut off, a slave is promoted while clients work, and the old master \
            comes back, as a slave or by mistake as a master; nothing acknowledged is lost and no offset goes back",
    draft: |d| {
        d.slaves(2..=2).flush(&[FlushDiskType::SyncFlush]).consumer(GROUP, 0).producers(1..=2, 100..=300, &[100]);
        d.set("brokerRole", "SYNC_MASTER").set("inSyncReplicas", 2).set("slaveReadEnable", true);
    },
    play: |world, plan| promotion(world, plan).boxed_local(),
};

const NEVER_BACK: &str = "no offset goes back at a slave";
const SAME: &str = "slaves have their master's tables";
/// Messages in the group's queue.
const MESSAGES: i64 = 200;
const BROKER_PORT: u16 = 10_911;
/// How long one request may take.
const LIMIT: Duration = Duration::from_secs(2);
/// A slave that hears its master has its tables within this time: it notices a dead connection, asks the NameServer, tries
/// again.
pub(super) const COPIED: Duration = Duration::from_secs(60);

/// One of the members dies, or master and slave do not hear each other.
pub(super) fn trouble(d: &mut Draw<'_>) -> Fault {
    let (machine, for_us) = (d.member(), d.us_up_to(40_000));
    match d.random.below(4) {
        0 => Fault::Process(ProcessFault::Kill { machine, down_us: for_us }),
        1 => Fault::Process(ProcessFault::PowerCut { machine, down_us: for_us }),
        2 => Fault::Process(ProcessFault::Pause { machine, for_us }),
        _ => {
            let (a, b) = (d.broker(), d.random.pick(&d.roster.slaves).clone());
            Fault::Net(NetFault::Cut { a, b, for_us })
        }
    }
}

async fn play(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    let bounds = Bounds::of(&plan);
    make_group(&cluster).await?;
    send_messages(&cluster).await;
    routes_are_true(&cluster, bounds.registered).await?;
    in_sync(&cluster).await?;
    world.spawn_here(watch_routes(cluster.clone(), bounds));
    for slave in &cluster.slaves {
        world.spawn_here(watch_offsets(cluster.clone(), slave.node));
    }
    begin_faults(&world, &plan);
    let mut admin = Administrator::new(&cluster);
    let end = world.now() + plan.faults_end().max(Duration::from_millis(plan.rest_ms));
    while world.now() < end {
        admin.act().await;
    }
    crate::faults::heal(&world);
    routes_are_true(&cluster, bounds.registered).await?;
    // A group that goes on commits at its master what it committed at a slave.
    for _ in 0..10 {
        admin.act().await;
    }
    in_sync(&cluster).await
}

async fn promotion(world: World, plan: Arc<Plan>) -> Verdict {
    let (mut cluster, mut random) = (begin_in_sync(&world, &plan).await?, world.random("promotion"));
    let workload = Workload::start(&cluster, &plan);
    for slave in &cluster.slaves {
        world.spawn_here(watch_offsets(cluster.clone(), slave.node));
    }
    world.sleep(Duration::from_micros(random.below(plan.workload_us().max(1)))).await;
    let master = cluster.brokers[0];
    let trouble = lose_master(&cluster, &mut random);
    world.sleep(Duration::from_millis(random.below(6_000))).await;
    promote_longest(&mut cluster).await?;
    world.sleep(Duration::from_millis(random.between(100, 40_000))).await;
    bring_back(&cluster, master, trouble, &mut random).await;
    workload.finished().await;
    end_in_sync(&cluster, &plan).await?;
    let events = world.history().events();
    nothing_lost(&events)?;
    stored_in_order(&events)?;
    all_delivered(&events, &[GROUP])
}

/// A cluster whose slaves have their masters' tables.
pub(super) async fn begin_in_sync(world: &World, plan: &Plan) -> Result<Cluster, Violation> {
    let cluster = Cluster::start(world, plan).await;
    routes_are_true(&cluster, Bounds::of(plan).registered).await?;
    make_group(&cluster).await?;
    in_sync(&cluster).await?;
    Ok(cluster)
}

/// In the end broker 0 takes messages, all queues have been read, and every log is the master's.
pub(super) async fn end_in_sync(cluster: &Cluster, plan: &Plan) -> Verdict {
    end_well(cluster, plan).await?;
    logs_become_equal(cluster, COPIED).await
}

/// The same of a cluster in which a slave may refuse to follow.
pub(super) async fn end_well(cluster: &Cluster, plan: &Plan) -> Verdict {
    let bounds = Bounds::of(plan);
    crate::faults::heal(&cluster.world);
    routes_are_true(cluster, bounds.registered).await?;
    all_take_messages(cluster, &[0], bounds.registered, "a broker takes messages in the end").await?;
    cluster.world.sleep(bounds.delivered).await;
    cluster.find_all().await;
    Ok(())
}

/// Nothing acknowledged, or read, is lost; nothing is stored twice.
pub(super) fn nothing_lost(events: &[Event]) -> Verdict {
    messages_intact(events)?;
    acknowledged_kept(events)?;
    nothing_read_early(events)?;
    offsets_dense(events)?;
    stored_once(events)
}

/// What happened to the master.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    Dead,
    Hangs,
    CutOff,
}

pub(super) fn lose_master(cluster: &Cluster, random: &mut Stream) -> Lost {
    let (world, master) = (&cluster.world, cluster.brokers[0]);
    match random.below(5) {
        0 => world.kill(master),
        1 => world.power_cut(master),
        2 | 3 => {
            world.pause(master);
            return Lost::Hangs;
        }
        _ => {
            for node in cluster.members().into_iter().chain(cluster.nameservers.iter().copied()) {
                if node != master {
                    world.shut_link(master, node, LinkState::Cut, "master cut off");
                    world.shut_link(node, master, LinkState::Cut, "master cut off");
                }
            }
            return Lost::CutOff;
        }
    }
    Lost::Dead
}

/// Promotes the slave whose log is longest, as `metaq broker promote` does.
pub(super) async fn promote_longest(cluster: &mut Cluster) -> Verdict {
    let world = cluster.world.clone();
    let deadline = world.now() + COPIED;
    loop {
        let mut longest = None;
        for slave in cluster.slaves.clone() {
            let state = ask(cluster, slave.node, Command::request(request::GET_BROKER_HA_STATUS)).await;
            let state = state.and_then(|answer| from_slice::<HaRuntimeInfo>(&answer.body).ok());
            let end = state.map_or(-1, |state| state.ha_client_runtime_info.max_offset);
            longest = longest.max(Some((end, slave.node)));
        }
        let Some(slave) =
            cluster.slaves.iter().copied().find(|slave| longest.is_some_and(|(_, node)| node == slave.node))
        else {
            return Err(Violation::new("a slave can be promoted", "there is none"));
        };
        let promote = Command::request(own_request::PROMOTE_BROKER)
            .with_ext(&PromoteBroker { despite_master: true, despite_others: false });
        let address = format!("{}:{BROKER_PORT}", world.ip(slave.node));
        let answer = Remote::new(world.env(cluster.admin), address).call(promote, LIMIT * 10).await;
        match answer {
            Ok(answer) if answer.code == response::SUCCESS => {
                world.note(slave.node, "promoted", &[], "");
                cluster.promoted(slave);
                return Ok(());
            }
            _ if world.now() > deadline => {
                return Err(Violation::new("a slave can be promoted", format!("{answer:?}")));
            }
            _ => world.sleep(Duration::from_millis(500)).await,
        }
    }
}

/// The old master comes back: at once as a slave, or first as what it was.
pub(super) async fn bring_back(cluster: &Cluster, master: NodeId, lost: Lost, random: &mut Stream) {
    let world = &cluster.world;
    match lost {
        Lost::Dead => {}
        Lost::Hangs => world.resume_fully(master),
        Lost::CutOff => world.open_all_links(),
    }
    if lost != Lost::Dead {
        sometimes!("an old master goes on for a while");
        world.sleep(Duration::from_millis(random.below(60_000))).await;
        world.kill(master);
    }
    world.boot(master);
}

pub(super) async fn make_group(cluster: &Cluster) -> Verdict {
    let group = to_vec(&SubscriptionGroupConfig::new(GROUP));
    let make = Command::request(request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP).with_body(group);
    cluster.ask(0, make).await.map(drop)
}

/// Messages for the group to consume: it cannot commit beyond them at the master.
async fn send_messages(cluster: &Cluster) {
    let (world, broker) = (&cluster.world, cluster.broker_name(0));
    let nameservers = cluster.nameserver_addresses();
    let mut producer = Producer::new(world.clone(), cluster.admin, &nameservers, TOPIC).only_to(&broker);
    let mut sent = 0;
    while sent < MESSAGES {
        let message = world.next_message();
        let acknowledged = producer.send(&Send { message, bytes: 20, ..Send::default() }).await;
        sent += i64::from(acknowledged);
    }
}

/// Waits until every slave's topics, groups and offsets are its master's.
pub(super) async fn in_sync(cluster: &Cluster) -> Verdict {
    let world = &cluster.world;
    let deadline = world.now() + COPIED;
    for slave in &cluster.slaves {
        loop {
            let (master, copy) =
                (tables(cluster, cluster.brokers[slave.broker]).await, tables(cluster, slave.node).await);
            if master.is_some() && master == copy {
                break;
            }
            if world.now() > deadline {
                let finding = format!("{} has {copy:?}, its master {master:?}", world.name(slave.node));
                return Err(Violation::new(SAME, finding));
            }
            world.sleep(Duration::from_millis(500)).await;
        }
    }
    Ok(())
}

/// Names of topics with their queues, names of groups, offsets of the topic's queues.
type Tables = (BTreeMap<String, i32>, Vec<String>, BTreeMap<i32, i64>);

async fn tables(cluster: &Cluster, node: NodeId) -> Option<Tables> {
    let topics = ask(cluster, node, Command::request(request::GET_ALL_TOPIC_CONFIG)).await?;
    let topics: TopicConfigSerializeWrapper = from_slice(&topics.body).ok()?;
    let groups = ask(cluster, node, Command::request(request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).await?;
    let groups: SubscriptionGroupWrapper = from_slice(&groups.body).ok()?;
    let queues = topics.topic_config_table.into_iter().map(|(name, topic)| (name, topic.write_queue_nums));
    let groups = groups.subscription_group_table.into_keys();
    Some((queues.collect(), groups.collect(), offsets(cluster, node).await?))
}

pub(super) async fn offsets(cluster: &Cluster, node: NodeId) -> Option<BTreeMap<i32, i64>> {
    let offsets = ask(cluster, node, Command::request(request::GET_ALL_CONSUMER_OFFSET)).await?;
    let mut offsets: ConsumerOffsetSerializeWrapper = from_slice(&offsets.body).ok()?;
    Some(offsets.offset_table.remove(&ConsumerOffsetSerializeWrapper::key(TOPIC, GROUP)).unwrap_or_default())
}

pub(super) async fn ask(cluster: &Cluster, node: NodeId, command: Command) -> Option<Command> {
    let address = format!("{}:{BROKER_PORT}", cluster.world.ip(node));
    let answer = Remote::new(cluster.world.env(cluster.admin), address).call(command, LIMIT).await.ok()?;
    (answer.code == response::SUCCESS).then_some(answer)
}

/// Looks at a slave's offsets all the time: within one life of its process none goes back.
pub(super) async fn watch_offsets(cluster: Cluster, node: NodeId) {
    let world = cluster.world.clone();
    let (mut life, mut seen) = (0, BTreeMap::new());
    loop {
        world.sleep(Duration::from_millis(500)).await;
        let before = world.incarnation(node);
        let Some(now) = offsets(&cluster, node).await else { continue };
        if before != world.incarnation(node) {
            continue;
        }
        if std::mem::replace(&mut life, before) != before {
            seen.clear();
        }
        for (queue, offset) in now {
            let was = seen.insert(queue, offset).unwrap_or(0);
            if offset < was {
                let finding = format!("{}: queue {queue} went from {was} to {offset}", world.name(node));
                world.violated(Violation::new(NEVER_BACK, finding));
            }
        }
    }
}

/// Makes topics and groups, and commits offsets as a group does that goes on at a slave while the master is away.
struct Administrator<'a> {
    cluster: &'a Cluster,
    random: Stream,
    made: u64,
    committed: i64,
}

impl<'a> Administrator<'a> {
    fn new(cluster: &'a Cluster) -> Administrator<'a> {
        Administrator { cluster, random: cluster.world.random("administrator"), made: 0, committed: 0 }
    }

    async fn act(&mut self) {
        // Now and then the group is quiet for long enough that a lost commit is not made good by the next one at once.
        let most = *self.random.pick(&[200, 500, 1_000, 8_000]);
        self.cluster.world.sleep(Duration::from_millis(self.random.between(50, most))).await;
        let master = self.cluster.brokers[0];
        self.made += 1;
        match self.random.below(8) {
            0 => drop(ask(self.cluster, master, make_topic(self.made)).await),
            1 => {
                let group = to_vec(&SubscriptionGroupConfig::new(format!("group-{}", self.made)));
                let make = Command::request(request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP).with_body(group);
                let _ = ask(self.cluster, master, make).await;
            }
            _ => self.commit(master).await,
        }
    }

    async fn commit(&mut self, master: NodeId) {
        self.committed = (self.committed + 1).min(MESSAGES);
        let commit = Command::request(request::UPDATE_CONSUMER_OFFSET).with_ext(&UpdateConsumerOffset {
            consumer_group: GROUP.into(),
            topic: TOPIC.into(),
            queue_id: Some(0),
            commit_offset: Some(self.committed),
        });
        if ask(self.cluster, master, commit.clone()).await.is_some() {
            return;
        }
        let slave = self.random.pick(&self.cluster.slaves).node;
        if ask(self.cluster, slave, commit).await.is_some() {
            sometimes!("a group commits at a slave");
        }
    }
}

fn make_topic(number: u64) -> Command {
    Command::request(request::UPDATE_AND_CREATE_TOPIC).with_ext(&UpdateAndCreateTopic {
        topic: format!("topic-{number}").into(),
        default_topic: None,
        read_queue_nums: 1 + number as i32 % 4,
        write_queue_nums: 1 + number as i32 % 4,
        perm: 6,
        topic_filter_type: None,
        topic_sys_flag: 0,
        order: false,
        attributes: None,
        force: false,
    })
}
