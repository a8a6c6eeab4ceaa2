//! Clients that do more than to send and to consume: they lock queues, come and go, commit offsets by themselves, make
//! topics, hand messages back until they are dead letters, wait long.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use metaq::config::broker::FlushDiskType::{AsyncFlush, SyncFlush};

use crate::checkers::{
    dead_letters, delivered_soon, locks_come_free, members_true, messages_intact, nothing_skipped, offsets_committed,
    one_lock_holder, ranges_grow, sends_end, stored_in_order, topics_kept, Violation,
};
use crate::client::{ClientError, Consumer, Member};
use crate::cluster::{Cluster, GROUP, QUEUES};
use crate::draft::Draft;
use crate::faults::{self, Draw, Fault, NetFault, ProcessFault};
use crate::history::{Event, Queue};
use crate::judge::judge;
use crate::plan::Plan;
use crate::random::Stream;
use crate::routes::routes_are_true;
use crate::scenarios::{Scenario, Verdict};
use crate::stage::{begin_faults, Bounds};
use crate::workload::Workload;
use crate::world::{NodeId, World};

/// Orderly consumers and their locks.
pub const LOCKS: Scenario = Scenario {
    name: "locks",
    story: "three orderly consumers want the same queues, die, lose their connections, give up; no two hold one, none is lost",
    draft: |d| {
        d.fault(2..=6, "lockers", |d| {
            let machine = format!("locker-{}", d.random.below(LOCKERS));
            let for_us = d.random.between(1_000, 60_000_000);
            match d.random.below(4) {
                0 | 1 => Fault::Process(ProcessFault::Kill { machine, down_us: for_us / 4 }),
                2 => Fault::Net(NetFault::Cut { a: machine, b: d.broker(), for_us }),
                _ => Fault::Net(NetFault::CutOneWay { from: machine, to: d.broker(), for_us }),
            }
        });
        d.fault(0..=1, "broker", kill);
        spread(d, 300);
    },
    play: |world, plan| locks(world, plan).boxed_local(),
};

/// Members, offsets, topics, ranges.
pub const MEMBERS: Scenario = Scenario {
    name: "members",
    story: "members come and go, hand queues over and commit late, topics are made, files are cleaned; all that was said holds",
    draft: |d| {
        d.consumer(GROUP, 0).producers(1..=2, 200..=400, &[500]);
        d.fault(0..=2, "joiners", |d| {
            let machine = format!("joiner-{}", d.random.below(JOINERS));
            Fault::Process(ProcessFault::Kill { machine, down_us: d.random.below(20_000_000) })
        });
        d.fault(0..=2, "broker", kill);
        d.fault(0..=2, "power", |d| {
            Fault::Process(ProcessFault::PowerCut { machine: d.broker(), down_us: d.random.below(3_000_000) })
        });
        d.set("flushConsumerOffsetInterval", 5_000).set("cleanResourceInterval", 1_000);
    },
    play: |world, plan| members(world, plan).boxed_local(),
};

/// Messages that fail again and again.
pub const DEAD_LETTERS: Scenario = Scenario {
    name: "dead_letters",
    story: "SYNC_FLUSH: some messages fail each time, through crashes; they come twice more, then lie among the dead letters",
    draft: |d| {
        d.producers(1..=2, 20..=80, &[100]).faults(0..=3, &["kill", "power_cut"]);
    },
    play: |world, plan| dead(world, plan).boxed_local(),
};

/// Consumers that wait.
pub const LONG_POLL: Scenario = Scenario {
    name: "long_poll",
    story: "no fault: consumers wait for messages that come now and then, and each is told at once",
    draft: |d| {
        d.flush(&[SyncFlush, AsyncFlush]).consumer(GROUP, 0).consumer("shipping", 0);
        d.producers(1..=3, 50..=200, &[20, 500]);
    },
    play: |world, plan| long_poll(world, plan).boxed_local(),
};

const LOCKERS: u64 = 3;
const JOINERS: u64 = 3;
/// How often a message may come back.
const TRIES: u32 = 2;
/// How long the clients go on after the last fault.
const AFTERWARDS: Duration = Duration::from_secs(150);
/// A lease, and the longest pause of those who wait for it.
const LOCK_LIMIT: Duration = Duration::from_secs(60 + 30);
/// The broker hears at once of a connection that ended; a client may need a few beats to come back.
const MEMBER_LIMIT: Duration = Duration::from_secs(30);
/// Offsets are saved every 5 s, by one sync.
const SAVED_WITHIN: Duration = Duration::from_secs(10);

fn kill(d: &mut Draw<'_>) -> Fault {
    Fault::Process(ProcessFault::Kill { machine: d.broker(), down_us: d.random.below(3_000_000) })
}

/// Faults come at any time of this many seconds although nobody sends.
fn spread(d: &mut Draft, seconds: u64) {
    let mut random = d.random("spread");
    d.each_fault(|timed| timed.at_us = random.below(seconds * 1_000_000));
}

/// The address of the first broker's port.
fn address(cluster: &Cluster) -> String {
    format!("{}:10911", cluster.world.ip(cluster.brokers[0]))
}

/// A machine that runs `program` from now on, and again after each death. Its clients are named after it.
fn machine(
    cluster: &Cluster,
    name: &str,
    group: &'static str,
    program: fn(World, NodeId, Vec<Member>) -> BoxFuture<'static, ()>,
    clients: usize,
) -> NodeId {
    let node = cluster.world.add_node(name);
    let (address, broker, name) = (address(cluster), cluster.broker_name(0), name.to_owned());
    cluster.world.set_program(node, move |world| {
        let client = |index: usize| format!("{index}.{}@{name}", world.incarnation(node));
        let member = |index| Member::new(world, node, (&broker, &address), group, &client(index));
        let members = (0..clients).map(member).collect();
        world.spawn(node, program(world.clone(), node, members));
    });
    cluster.world.run_program(node);
    node
}

fn random_of(world: &World, node: NodeId, purpose: &str) -> Stream {
    world.random(&format!("{purpose} {} {}", node.0, world.incarnation(node)))
}

async fn seconds(world: &World, most: u64, random: &mut Stream) {
    world.sleep(Duration::from_millis(random.below(most * 1_000))).await;
}

/// Ends the faults, lets the clients go on, and gives the history.
async fn heal_and_wait(cluster: &Cluster, plan: &Plan, wait: Duration) -> Result<(), Violation> {
    let world = &cluster.world;
    let end = world.began() + plan.faults_end();
    world.sleep(end.saturating_sub(world.now())).await;
    faults::heal(world);
    routes_are_true(cluster, Bounds::of(plan).registered).await?;
    world.history().add(NodeId::WORLD, Event::Healed);
    world.sleep(wait).await;
    Ok(())
}

async fn locks(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    for index in 0..LOCKERS {
        machine(
            &cluster,
            &format!("locker-{index}"),
            GROUP,
            |world, node, members| Box::pin(lock(world, node, members)),
            1,
        );
    }
    begin_faults(&world, &plan);
    heal_and_wait(&cluster, &plan, AFTERWARDS).await?;
    let history = world.history().timed();
    one_lock_holder(&history)?;
    locks_come_free(&history, LOCK_LIMIT)
}

/// An orderly consumer: it locks all it can get, renews, and now and then gives up in one way or another.
async fn lock(world: World, node: NodeId, mut members: Vec<Member>) {
    let (mut random, mut member) = (random_of(&world, node, "locker"), members.remove(0));
    let queues: Vec<Queue> = (0..2).map(|id| member.queue(id)).collect();
    loop {
        member.beat().await;
        for _ in 0..random.between(1, 8) {
            member.lock(&queues).await;
            seconds(&world, *random.pick(&[1, 5, 20]), &mut random).await;
        }
        match random.below(4) {
            0 => member.unlock(&queues).await,
            1 => member.disconnect(),
            2 => seconds(&world, 40, &mut random).await,
            _ => {}
        }
    }
}

async fn members(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    let workload = Workload::start(&cluster, &plan);
    for index in 0..JOINERS {
        machine(
            &cluster,
            &format!("joiner-{index}"),
            "team",
            |world, node, members| Box::pin(join(world, node, members)),
            1,
        );
    }
    machine(&cluster, "committer", "ledger", |world, node, members| Box::pin(commit(world, node, members)), 2);
    machine(&cluster, "operator", "tools", |world, node, members| Box::pin(operate(world, node, members)), 1);
    begin_faults(&world, &plan);
    let latecomers = cluster.clone();
    world.later(Duration::from_secs(30), move |world| {
        let node = world.add_node("latecomer");
        for queue in latecomers.queues() {
            let (nameservers, world) = (latecomers.nameserver_addresses(), world.clone());
            world.spawn(node, Consumer::new(world.clone(), node, &nameservers, queue, "latecomers").run());
        }
    });
    workload.finished().await;
    heal_and_wait(&cluster, &plan, Bounds::of(&plan).delivered).await?;
    cluster.find_all().await;
    let history = world.history().timed();
    topics_kept(&world.history().events())?;
    offsets_committed(&history, SAVED_WITHIN)?;
    members_true(&history, MEMBER_LIMIT)?;
    let events = world.history().events();
    ranges_grow(&history)?;
    stored_in_order(&events)?;
    nothing_skipped(&events)?;
    messages_intact(&events)?;
    sends_end(&history, Duration::from_secs(20))?;
    judge(&plan, &world, workload.acknowledged())
}

/// Comes and goes, and looks who else is there.
async fn join(world: World, node: NodeId, mut members: Vec<Member>) {
    let (mut random, mut member) = (random_of(&world, node, "joiner"), members.remove(0));
    loop {
        for _ in 0..random.between(1, 10) {
            member.beat().await;
            seconds(&world, 5, &mut random).await;
            member.members().await;
        }
        match random.below(3) {
            0 => {
                member.leave().await;
                seconds(&world, 60, &mut random).await;
            }
            1 => member.disconnect(),
            _ => {}
        }
    }
}

/// Two members hand a queue over, again and again; the one that lost it commits once more.
async fn commit(world: World, node: NodeId, mut members: Vec<Member>) {
    let mut random = random_of(&world, node, "committer");
    loop {
        seconds(&world, 3, &mut random).await;
        members.swap(0, 1);
        let queue = members[0].queue(random.below(u64::from(QUEUES)) as u32);
        let [new, old] = members.as_mut_slice() else { return };
        if !(new.beat().await && old.beat().await) {
            continue;
        }
        let connections = (new.connection(), old.connection());
        let Some((_, max)) = new.range(&queue).await else { continue };
        let told = new.offset(&queue).await.unwrap_or(0);
        if !(old.pull(&queue, told).await && (told == 0 || old.commit(&queue, told).await)) {
            continue;
        }
        let next = random.between(told, max.max(told));
        let handed_over = new.pull(&queue, told).await && new.commit(&queue, next).await;
        // A broker that has restarted does not know whose the queue was.
        if handed_over && next > told && connections == (new.connection(), old.connection()) {
            old.commit_late(&queue, told).await;
        }
        new.offset(&queue).await;
    }
}

/// Makes topics, looks whether those made are there, and has files cleaned.
async fn operate(world: World, node: NodeId, mut members: Vec<Member>) {
    let (mut random, mut member) = (random_of(&world, node, "operator"), members.remove(0));
    let mut made: Vec<String> = Vec::new();
    loop {
        seconds(&world, 5, &mut random).await;
        let name = format!("made-{}", made.len());
        if made.len() < 50 && member.make_topic(&name).await {
            made.push(name);
        }
        if let Some(name) = made.get(random.below(made.len() as u64) as usize) {
            member.see_topic(name).await;
        }
        if random.below(3) == 0 {
            member.delete_expired().await;
        }
    }
}

async fn dead(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    let workload = Workload::start(&cluster, &plan);
    let node = world.add_node("consumer");
    let consumer = |queue: Queue| {
        let consumer = Consumer::new(world.clone(), node, &cluster.nameserver_addresses(), queue, GROUP);
        consumer.failing(300).trying(TRIES)
    };
    for queue in cluster.queues().into_iter().chain(cluster.retry_queues(GROUP)) {
        world.spawn(node, consumer(queue).run());
    }
    begin_faults(&world, &plan);
    workload.finished().await;
    heal_and_wait(&cluster, &plan, Bounds::of(&plan).delivered).await?;
    cluster.find_all().await;
    let find = |queue| Consumer::new(world.clone(), cluster.admin, &cluster.nameserver_addresses(), queue, "auditors");
    for queue in cluster.retry_queues(GROUP) {
        match find(queue).find_all().await {
            Ok(()) | Err(ClientError::NoRoute) => {}
            Err(error) => return Err(Violation::new("queues can be read", format!("{error:?}"))),
        }
    }
    let letters = format!("%DLQ%{GROUP}");
    let mut operator =
        Member::new(&world, cluster.admin, (&cluster.broker_name(0), &address(&cluster)), "tools", "operator");
    // Nobody may read dead letters until an operator allows it.
    if operator.make_topic(&letters).await {
        world.sleep(Duration::from_secs(2)).await;
        let queue = Queue::new(&cluster.broker_name(0), &letters, 0);
        find(queue)
            .find_all()
            .await
            .map_err(|error| Violation::new("dead letters can be read", format!("{error:?}")))?;
    }
    let events = world.history().events();
    dead_letters(&events, TRIES)?;
    judge(&plan, &world, workload.acknowledged())
}

async fn long_poll(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    world.history().add(NodeId::WORLD, Event::Healed);
    let workload = Workload::start(&cluster, &plan);
    begin_faults(&world, &plan);
    workload.finished().await;
    world.sleep(Duration::from_secs(10)).await;
    delivered_soon(&world.history().timed(), &[GROUP, "shipping"], Duration::from_secs(2))?;
    cluster.find_all().await;
    judge(&plan, &world, workload.acknowledged())
}
