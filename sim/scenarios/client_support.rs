//! Producers and members of groups that run the client library, each on a machine of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::channel::oneshot;
use metaq::client::{
    Action, Client, ConsumeFrom, Durability, Error, Message, NextPull, OrderlyAction, PushConsumer, Received,
    ScheduledConsumer, SendError, Sent,
};

use crate::checkers::{acknowledged_kept, nothing_read_early, offsets_dense, Violation};
use crate::client::body_of;
use crate::cluster::{Cluster, GROUP, TOPIC};
use crate::history::{Event, Place, Queue};
use crate::random::Stream;
use crate::world::{NodeId, World};

/// All that a send may take, with its attempts.
const SEND_LIMIT: Duration = Duration::from_secs(3);
/// What the machine may add to it.
const SLACK: Duration = Duration::from_millis(200);
/// How long a listener that ends in order is waited for.
const GRACE: Duration = Duration::from_secs(5);
/// How long it takes until a group has all its queues again: a lock of a dead member lasts a minute, connections that died
/// unseen half a minute, and shares are computed every 20 s.
pub const SETTLE: Duration = Duration::from_secs(180);

/// How a message reads in the history.
pub fn number_of(message: &Received) -> Result<u64, Violation> {
    let damaged = || Violation::new("messages arrive whole", format!("{:?} at {}", message.queue, message.offset));
    let number = message.body.first_chunk().map(|bytes| u64::from_be_bytes(*bytes)).ok_or_else(damaged)?;
    message.body[8..].iter().all(|byte| *byte == number as u8).then_some(number).ok_or_else(damaged)
}

fn queue_of(queue: &metaq::client::MessageQueue) -> Queue {
    Queue::new(&queue.broker_name, &queue.topic, queue.queue_id as u32)
}

/// Where a message came from.
pub fn place_of(message: &Received) -> Place {
    (queue_of(&message.queue), message.offset as u64)
}

/// Sends `count` messages, at most one per `pace`, and ends with the number of those that are stored. Of an attempt that
/// failed there may be a second copy, so the history has the message where the library says it is.
pub fn produce(
    world: &World,
    cluster: &Cluster,
    name: &str,
    count: u64,
    pace: Duration,
) -> madsim::task::JoinHandle<u64> {
    let (world, node, nameservers) = (world.clone(), world.add_node(name), cluster.nameserver_addresses().join(";"));
    let mut random = world.random(name);
    world.clone().spawn(node, async move {
        let client = Client::new(&world.env(node), &nameservers).expect("the addresses are fine");
        let producer = client.producer("producers").timeout(SEND_LIMIT).start().expect("the only one");
        let mut stored = 0;
        for _ in 0..count {
            let number = world.next_message();
            let body = body_of(number, random.below(500) as usize);
            world.history().add(node, Event::Sending(number));
            let (began, message) = (world.now(), Message::new(TOPIC, body).key(number.to_string()));
            let result = if random.chance(300) {
                producer.send_ordered(message, &(number % 7).to_string()).await
            } else {
                producer.send(message).await
            };
            let took = world.now() - began;
            if took > SEND_LIMIT + SLACK {
                world.violated(Violation::new("sends end in time", format!("one took {took:?}: {result:?}")));
            }
            stored += u64::from(result.is_ok());
            world.history().add(node, outcome(number, result));
            world.sleep(Duration::from_micros(random.below(pace.as_micros() as u64 + 1))).await;
        }
        client.close().await;
        stored
    })
}

fn outcome(number: u64, result: Result<Sent, SendError>) -> Event {
    match result {
        Ok(sent) if sent.durability != Durability::AsAsked => Event::Unknown(number),
        Ok(sent) => Event::Acknowledged(number, (queue_of(&sent.queue), sent.offset as u64)),
        // A broker that answers with a system error may have stored it all the same.
        Err(error) if error.may_be_stored() || error.error.code() == Some(1) => Event::Unknown(number),
        Err(error) if error.attempts.iter().any(|attempt| attempt.error.code() == Some(1)) => Event::Unknown(number),
        Err(_) => Event::Refused(number),
    }
}

/// How the members of a group consume.
#[derive(Clone)]
pub enum Listening {
    /// Many at a time; so many of 1,000 calls fail.
    Concurrently(u64),
    /// Many at a time; the history has a message when its call begins, and the call may take long all the same.
    Told,
    /// In order.
    Orderly(Owners),
    /// With pulls on a schedule; some calls take nothing.
    Scheduled,
}

/// A member that runs.
enum Running {
    Push(PushConsumer),
    Scheduled(ScheduledConsumer),
}

/// A member on its machine, and the way to ask it to stop.
pub struct Member {
    pub node: NodeId,
    stop: Option<oneshot::Sender<()>>,
    stopped: Option<oneshot::Receiver<()>>,
}

impl Member {
    /// A machine of its own, and a member on it.
    pub fn start(world: &World, cluster: &Cluster, name: &str, listening: &Listening) -> Member {
        let node = world.add_node(name);
        let mut member = Member { node, stop: None, stopped: None };
        member.run(world, cluster, listening);
        member
    }

    /// Starts the member's process again after it was killed or stopped.
    pub fn run(&mut self, world: &World, cluster: &Cluster, listening: &Listening) {
        let (stop, asked_to_stop) = oneshot::channel();
        let (done, stopped) = oneshot::channel();
        (self.stop, self.stopped) = (Some(stop), Some(stopped));
        let (world, node, nameservers) = (world.clone(), self.node, cluster.nameserver_addresses().join(";"));
        let (env, listening) = (world.env(node), listening.clone());
        world.clone().spawn(node, async move {
            let client = Client::new(&env, &nameservers).expect("the addresses are fine");
            let random = Arc::new(Mutex::new(Stream::new(env.rng.next_u64(), "listener")));
            match start(&world, node, &client, random, listening).await {
                Ok(consumer) => {
                    // The scenario's end counts as being asked to stop.
                    let _ = asked_to_stop.await;
                    match consumer {
                        Running::Push(consumer) => consumer.stop(GRACE).await,
                        Running::Scheduled(consumer) => consumer.stop(GRACE).await,
                    }
                }
                Err(error) => world.violated(Violation::new("a member starts", error.to_string())),
            }
            client.close().await;
            let _ = done.send(());
        });
    }

    /// Stops the member in order. It must end in time, whatever the brokers do.
    pub async fn stop(&mut self, world: &World) {
        let (Some(stop), Some(stopped)) = (self.stop.take(), self.stopped.take()) else { return };
        let _ = stop.send(());
        let began = world.now();
        let _ = stopped.await;
        if world.now() - began > Duration::from_secs(60) {
            world.violated(Violation::new("members stop in time", format!("one took {:?}", world.now() - began)));
        }
    }
}

async fn start(
    world: &World,
    node: NodeId,
    client: &Client,
    random: Arc<Mutex<Stream>>,
    listening: Listening,
) -> Result<Running, Error> {
    let builder = client.push_consumer(GROUP).subscribe(TOPIC, "*").consume_from(ConsumeFrom::First);
    let world = world.clone();
    match listening {
        Listening::Concurrently(failing) => {
            let listen = move |message| concurrently(world.clone(), node, Arc::clone(&random), failing, message);
            builder.max_reconsume_times(i32::MAX).concurrently(listen).await.map(Running::Push)
        }
        Listening::Told => {
            let listen = move |message| told(world.clone(), node, Arc::clone(&random), message);
            builder.concurrently(listen).await.map(Running::Push)
        }
        Listening::Orderly(owners) => {
            let listen = move |message| orderly(world.clone(), node, Arc::clone(&random), owners.clone(), message);
            builder.orderly(listen).await.map(Running::Push)
        }
        Listening::Scheduled => {
            let builder = client.pull_consumer(GROUP).subscribe(TOPIC, "*").consume_from(ConsumeFrom::First);
            let task = move |_, messages| scheduled(world.clone(), node, Arc::clone(&random), messages);
            builder.poll_max(4).scheduled(task).await.map(Running::Scheduled)
        }
    }
}

async fn scheduled(world: World, node: NodeId, random: Arc<Mutex<Stream>>, messages: Vec<Arc<Received>>) -> NextPull {
    let (call, pause, fails) = {
        let mut random = random.lock().expect("no holder panics");
        let call = if random.chance(50) { random.below(12_000) } else { random.below(30) };
        (call, Duration::from_millis(random.below(2_000)), random.chance(200))
    };
    world.sleep(Duration::from_millis(call)).await;
    if fails {
        return NextPull::Again(pause);
    }
    for message in messages {
        match number_of(&message) {
            Err(violation) => world.violated(violation),
            Ok(number) => world.history().add(node, Event::Consumed(GROUP.into(), number, place_of(&message))),
        }
    }
    NextPull::After(pause)
}

async fn told(world: World, node: NodeId, random: Arc<Mutex<Stream>>, message: Arc<Received>) -> Action {
    match number_of(&message) {
        Err(violation) => world.violated(violation),
        Ok(number) => world.history().add(node, Event::Consumed(GROUP.into(), number, place_of(&message))),
    }
    let pause = pause(&mut random.lock().expect("no holder panics"));
    world.sleep(pause).await;
    Action::Done
}

/// What a call takes: some longer than offsets are committed.
fn pause(random: &mut Stream) -> Duration {
    Duration::from_millis(if random.chance(50) { random.below(12_000) } else { random.below(30) })
}

async fn concurrently(
    world: World,
    node: NodeId,
    random: Arc<Mutex<Stream>>,
    failing: u64,
    message: Arc<Received>,
) -> Action {
    let (pause, fails) = {
        let mut random = random.lock().expect("no holder panics");
        (pause(&mut random), random.chance(failing))
    };
    world.sleep(pause).await;
    match number_of(&message) {
        Err(violation) => world.violated(violation),
        Ok(_) if fails => return Action::RetryAtLevel(1),
        // Before the library may commit: it has not been told yet.
        Ok(number) => world.history().add(node, Event::Consumed(GROUP.into(), number, place_of(&message))),
    }
    Action::Done
}

/// Who consumes which queue in order, and how far each is.
#[derive(Clone, Default)]
pub struct Owners(Arc<Mutex<Ownership>>);

#[derive(Default)]
struct Ownership {
    queues: BTreeMap<Queue, Owned>,
    /// Members whose process stands still: they may look like owners.
    still: BTreeSet<NodeId>,
    /// No call takes long any more.
    calm: bool,
}

#[derive(Default)]
struct Owned {
    /// All offsets before it are consumed.
    done: u64,
    /// The call that runs: its member and a number of its own.
    call: Option<(NodeId, u64)>,
    calls: u64,
}

impl Owners {
    /// A member's process stands still from now on, or goes on.
    pub fn stands_still(&self, node: NodeId, still: bool) {
        let mut table = self.table();
        if still {
            table.still.insert(node);
        } else {
            table.still.remove(&node);
        }
    }

    /// No call takes long from now on.
    pub fn calm_down(&self) {
        self.table().calm = true;
    }

    fn begin(&self, world: &World, node: NodeId, place: &Place) -> Result<Call, Violation> {
        let (queue, offset) = place;
        let mut table = self.table();
        let Ownership { queues, still, .. } = &mut *table;
        let owned = queues.entry(queue.clone()).or_default();
        let excused = |other| still.contains(&other) || !world.is_alive(other);
        if let Some((other, _)) = owned.call.filter(|(other, _)| *other != node && !excused(*other)) {
            let finding = format!("{queue}: {node:?} begins at {offset} while a call of {other:?} runs");
            return Err(Violation::new("a queue has one owner", finding));
        }
        if *offset > owned.done {
            let finding = format!("{queue}: {offset} comes while only those before {} are consumed", owned.done);
            return Err(Violation::new("queues are consumed in order", finding));
        }
        owned.calls += 1;
        owned.call = Some((node, owned.calls));
        Ok(Call { owners: self.clone(), queue: queue.clone(), number: owned.calls })
    }

    fn done(&self, place: &Place) {
        if let Some(owned) = self.table().queues.get_mut(&place.0) {
            owned.done = owned.done.max(place.1 + 1);
        }
    }

    fn table(&self) -> std::sync::MutexGuard<'_, Ownership> {
        self.0.lock().expect("no holder panics")
    }
}

/// Ends a call however it ends.
struct Call {
    owners: Owners,
    queue: Queue,
    number: u64,
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(owned) = self.owners.table().queues.get_mut(&self.queue) {
            owned.call = owned.call.filter(|(_, running)| *running != self.number);
        }
    }
}

async fn orderly(
    world: World,
    node: NodeId,
    random: Arc<Mutex<Stream>>,
    owners: Owners,
    message: Arc<Received>,
) -> OrderlyAction {
    let place = place_of(&message);
    let _call = match owners.begin(&world, node, &place) {
        Ok(call) => call,
        Err(violation) => {
            world.violated(violation);
            return OrderlyAction::Done;
        }
    };
    let (pause, fails) = {
        let mut random = random.lock().expect("no holder panics");
        // Some calls take longer than a lock lasts.
        let long = !owners.table().calm && random.chance(40);
        (if long { random.below(100_000) } else { random.below(30) }, random.chance(50))
    };
    world.sleep(Duration::from_millis(pause)).await;
    match number_of(&message) {
        Err(violation) => world.violated(violation),
        Ok(_) if fails => return OrderlyAction::SuspendFor(Duration::from_millis(50)),
        Ok(number) => {
            owners.done(&place);
            world.history().add(node, Event::Consumed(GROUP.into(), number, place));
        }
    }
    OrderlyAction::Done
}

/// What is true of every history of these scenarios.
pub async fn settle(world: &World, cluster: &Cluster) -> Result<(), Violation> {
    world.network().heal();
    world.sleep(SETTLE).await;
    cluster.find_all().await;
    let events = world.history().events();
    acknowledged_kept(&events)?;
    offsets_dense(&events)?;
    // Retry queues are not read at the end, so what came from there has nothing to be compared with.
    let from_topic =
        |event: &&Event| !matches!(event, Event::Consumed(_, _, (queue, _)) if queue.topic.starts_with('%'));
    nothing_read_early(&events.iter().filter(from_topic).cloned().collect::<Vec<_>>())?;
    everything_consumed(&events)
}

/// The group consumed every message that was acknowledged, from its queue or its retry queue.
fn everything_consumed(events: &[Event]) -> Result<(), Violation> {
    let consumed: BTreeSet<u64> = events
        .iter()
        .filter_map(|event| if let Event::Consumed(_, message, _) = event { Some(*message) } else { None })
        .collect();
    for event in events {
        if let Event::Acknowledged(message, (queue, offset)) = event {
            if !consumed.contains(message) {
                let finding = format!("{message} at {offset} of {queue} never came");
                return Err(Violation::new("a group consumes everything", finding));
            }
        }
    }
    Ok(())
}

/// What the group has committed is consumed: asked now, compared with all that was consumed until the answers came. Queues
/// whose broker does not answer are passed over.
pub async fn commits_are_consumed(
    world: &World,
    cluster: &Cluster,
    admin: &Client,
    failing: bool,
) -> Result<(), Violation> {
    let mut committed = BTreeMap::new();
    for queue in cluster.queues() {
        let asked = metaq::client::MessageQueue {
            topic: queue.topic.to_string(),
            broker_name: queue.broker.to_string(),
            queue_id: queue.id as i32,
        };
        if let Ok(Some(offset)) = admin.admin().committed(GROUP, &asked).await {
            committed.insert(queue, offset as u64);
        }
    }
    let events = world.history().events();
    let mut consumed: BTreeSet<(Queue, u64)> = BTreeSet::new();
    for event in &events {
        if let Event::Consumed(_, _, place) = event {
            consumed.insert(place.clone());
        }
    }
    for event in &events {
        let Event::Acknowledged(message, place) = event else { continue };
        let passed = committed.get(&place.0).is_some_and(|offset| place.1 < *offset);
        // A message that failed is in the retry topic, and its offset may be passed.
        if passed && !failing && !consumed.contains(place) {
            let finding = format!("{message} at {} of {} is committed and was not consumed", place.1, place.0);
            return Err(Violation::new("only what is consumed is committed", finding));
        }
    }
    Ok(())
}
