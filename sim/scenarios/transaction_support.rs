//! Producers of transactions that speak in frames, so that they can also say what no good client says: nothing, everything
//! twice, something late, the opposite. What they decided lies in a database that outlives them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metaq::actors::net::{connect, ConnectionHandle, Output, Service};
use metaq::proto::body::{to_vec, HeartbeatData, ProducerData};
use metaq::proto::message::record::{iterate, BodyCrc};
use metaq::proto::message::{ids, properties};
use metaq::proto::remoting::requests::{
    CheckTransactionState, EndTransaction, PullHeader, SendHeader, SendNames, SendResponse,
};
use metaq::proto::remoting::{request, response, Command, Head, RawFrame, Text};

use crate::client::{body_of, message_of};
use crate::cluster::{Cluster, QUEUES, TOPIC};
use crate::history::Event;
use crate::random::Stream;
use crate::world::{NodeId, World};

/// The producer group.
pub const PRODUCERS: &str = "sellers";
const GIVEN_UP: &str = "TRANS_CHECK_MAX_TIME_TOPIC";
const COMMIT: i32 = 8;
const ROLLBACK: i32 = 12;
const UNKNOWN: i32 = 0;
/// How long an answer is waited for.
const LIMIT: Duration = Duration::from_secs(3);
/// Pause before a broker that did not answer is connected to again, and between heartbeats.
const PAUSE: Duration = Duration::from_millis(500);
const HEARTBEAT: Duration = Duration::from_secs(5);

/// What the database of the producers says about a local transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Local {
    /// It runs in this process of this machine.
    Runs(NodeId, u64),
    /// It is committed, or rolled back.
    Done(bool),
    /// It never ends.
    Never,
}

/// The producers' database.
#[derive(Clone, Default)]
pub struct Database {
    table: Arc<Mutex<BTreeMap<u64, Local>>>,
    /// How often a broker was told a decision.
    told: Arc<AtomicU64>,
}

impl Database {
    /// How often a broker was told a decision.
    pub fn told(&self) -> u64 {
        self.told.load(Ordering::Relaxed)
    }

    /// What a producer that is asked finds. What died before it was done is rolled back, for good.
    fn look(&self, world: &World, message: u64) -> i32 {
        let mut table = self.table.lock().expect("no holder panics");
        let local = table.entry(message).or_insert(Local::Done(false));
        if let Local::Runs(node, incarnation) = *local {
            if world.is_alive(node) && world.incarnation(node) == incarnation {
                return UNKNOWN;
            }
            *local = Local::Done(false);
        }
        match *local {
            Local::Done(true) => COMMIT,
            Local::Done(false) => ROLLBACK,
            Local::Runs(..) | Local::Never => UNKNOWN,
        }
    }

    /// A local transaction ends, unless somebody rolled it back meanwhile.
    fn set(&self, message: u64, local: Local) -> Local {
        let mut table = self.table.lock().expect("no holder panics");
        match table.get(&message) {
            Some(known @ Local::Done(_)) => *known,
            _ => {
                table.insert(message, local);
                local
            }
        }
    }
}

/// How producers behave, per mille of their transactions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Habits {
    /// Messages of each producer.
    pub count: u64,
    /// The longest pause between two of them, in milliseconds.
    pub pace_ms: u64,
    /// They never decide.
    pub never: u64,
    /// They say nothing until they are asked.
    pub silent: u64,
    /// They say everything twice.
    pub twice: u64,
    /// They say the opposite too, sooner or later.
    pub contradict: u64,
}

/// A producer's machine.
#[derive(Clone)]
pub struct Seller {
    world: World,
    pub node: NodeId,
    /// Addresses, which change with the master.
    brokers: Arc<Mutex<Vec<String>>>,
    database: Database,
    habits: Habits,
}

/// A half message that is stored.
#[derive(Clone, Debug)]
struct Prepared {
    message: u64,
    offset: i64,
    position: i64,
}

impl Seller {
    /// A machine of its own; nothing runs on it yet.
    pub fn new(cluster: &Cluster, name: &str, database: &Database, habits: Habits) -> Seller {
        let world = cluster.world.clone();
        let seller =
            Seller { node: world.add_node(name), world, brokers: Arc::default(), database: database.clone(), habits };
        seller.find_brokers(cluster);
        seller
    }

    /// Goes where the masters are now, once the connections to former ones are over.
    pub fn find_brokers(&self, cluster: &Cluster) {
        let addresses = cluster.brokers.iter().map(|node| format!("{}:10911", self.world.ip(*node)));
        *self.brokers.lock().expect("no holder panics") = addresses.collect();
    }

    fn address(&self, broker: usize) -> String {
        self.brokers.lock().expect("no holder panics")[broker].clone()
    }

    /// Starts its process: it answers questions, and sends `count` messages.
    pub fn run(&self, count: u64) {
        let brokers = self.brokers.lock().expect("no holder panics").len();
        let connections: Vec<Connection> = (0..brokers).map(|_| Connection::default()).collect();
        for (broker, connection) in connections.iter().enumerate() {
            let (seller, connection) = (self.clone(), connection.clone());
            self.world.spawn(self.node, async move { seller.stay_connected(broker, connection).await });
        }
        let seller = self.clone();
        self.world.spawn(self.node, async move { seller.sell(connections, count).await });
    }

    async fn stay_connected(&self, broker: usize, connection: Connection) {
        let env = self.world.env(self.node);
        let service = Arc::new(Answers { seller: self.clone() });
        loop {
            let address = self.address(broker);
            if let Ok(handle) = connect(&env, &address, Arc::clone(&service), LIMIT).await {
                let heartbeat = HeartbeatData {
                    client_id: self.world.name(self.node),
                    producer_data_set: vec![ProducerData { group_name: PRODUCERS.to_owned() }],
                    ..HeartbeatData::default()
                };
                let heartbeat = Command::request(request::HEART_BEAT).with_body(to_vec(&heartbeat));
                // One that is not answered is over: the next connection is a new one.
                while handle.call(&*env.clock, heartbeat.clone(), LIMIT).await.is_ok() {
                    if self.address(broker) != address {
                        break;
                    }
                    connection.set(Some(handle.clone()));
                    self.world.sleep(HEARTBEAT).await;
                }
                connection.set(None);
                handle.close();
            }
            self.world.sleep(PAUSE).await;
        }
    }

    async fn sell(&self, connections: Vec<Connection>, count: u64) {
        let env = self.world.env(self.node);
        let mut random = Stream::new(env.rng.next_u64(), "seller");
        for _ in 0..count {
            self.world.sleep(Duration::from_millis(random.below(self.habits.pace_ms))).await;
            let broker = random.below(connections.len() as u64) as usize;
            let Some(handle) = connections[broker].get() else { continue };
            let message = self.world.next_message();
            let process = Local::Runs(self.node, self.world.incarnation(self.node));
            self.database.set(message, process);
            self.world.history().add(self.node, Event::Sending(message));
            let queue = random.below(u64::from(QUEUES)) as i32;
            let sent = handle.call(&*env.clock, half(message, queue, &mut random), LIMIT).await;
            let Some(prepared) = sent.ok().and_then(|answer| prepared(message, &answer)) else {
                // It may be stored all the same: whoever is asked says that nothing was done.
                self.decide(message, false);
                self.world.history().add(self.node, Event::Unknown(message));
                continue;
            };
            self.world.history().add(self.node, Event::Prepared(message));
            let (seller, connection, random) =
                (self.clone(), connections[broker].clone(), Stream::new(random.below(u64::MAX), "local"));
            self.world.spawn(self.node, async move { seller.local_transaction(prepared, connection, random).await });
        }
    }

    /// Tells the history before the database: whoever is asked afterwards may say it.
    fn decide(&self, message: u64, commit: bool) -> Local {
        self.world.history().add(self.node, Event::Deciding(message, commit));
        self.database.set(message, Local::Done(commit))
    }

    async fn local_transaction(&self, prepared: Prepared, connection: Connection, mut random: Stream) {
        let (message, habits) = (prepared.message, self.habits);
        if random.chance(habits.never) {
            self.database.set(message, Local::Never);
            return;
        }
        let long = *random.pick(&[1, 50, 2_000, 15_000]);
        self.world.sleep(Duration::from_millis(random.below(long))).await;
        let Local::Done(commit) = self.decide(message, random.chance(700)) else { return };
        if random.chance(habits.silent) {
            return;
        }
        self.tell(&prepared, &connection, commit, random.chance(500)).await;
        if random.chance(habits.twice) {
            self.world.sleep(Duration::from_millis(random.below(long))).await;
            self.tell(&prepared, &connection, commit, random.chance(500)).await;
        }
        if random.chance(habits.contradict) {
            self.world.sleep(Duration::from_millis(random.below(20_000))).await;
            self.world.history().add(self.node, Event::Deciding(message, !commit));
            self.tell(&prepared, &connection, !commit, true).await;
        }
    }

    /// Tells the broker, and waits for the answer if somebody wants to know it.
    async fn tell(&self, prepared: &Prepared, connection: &Connection, commit: bool, wait: bool) {
        let Some(handle) = connection.get() else { return };
        self.database.told.fetch_add(1, Ordering::Relaxed);
        let decision = if commit { COMMIT } else { ROLLBACK };
        let end = end(prepared.message, (prepared.offset, prepared.position), decision, false);
        if !wait {
            // Nobody learns whether it arrives.
            let _ = handle.send_one_way(end.oneway());
            return;
        }
        let env = self.world.env(self.node);
        if handle.call(&*env.clock, end, LIMIT).await.is_ok_and(|answer| answer.code == response::SUCCESS) {
            self.world.history().add(self.node, Event::Decided(prepared.message, commit));
        }
    }
}

/// The connection to one broker, while there is one.
#[derive(Clone, Default)]
struct Connection(Arc<Mutex<Option<ConnectionHandle>>>);

impl Connection {
    fn set(&self, handle: Option<ConnectionHandle>) {
        *self.0.lock().expect("no holder panics") = handle;
    }

    fn get(&self) -> Option<ConnectionHandle> {
        self.0.lock().expect("no holder panics").clone().filter(|handle| !handle.is_closed())
    }
}

fn half(message: u64, queue_id: i32, random: &mut Stream) -> Command {
    let mut text = String::new();
    let key = key(message);
    let pairs = [
        (properties::TRANSACTION_PREPARED, "true"),
        (properties::PRODUCER_GROUP, PRODUCERS),
        (properties::UNIQ_KEY, key.as_str()),
    ];
    pairs.iter().for_each(|(name, value)| properties::append(&mut text, name, value));
    let header = SendHeader {
        producer_group: PRODUCERS.into(),
        topic: TOPIC.into(),
        default_topic: "TBW102".into(),
        default_topic_queue_nums: QUEUES as i32,
        queue_id,
        sys_flag: 4,
        properties: Text::plain(&text),
        ..SendHeader::default()
    };
    let code = request::SEND_MESSAGE_V2;
    let body = body_of(message, random.below(300) as usize);
    Command::request(code).with_ext(&(SendNames::of(code), &header)).with_body(body)
}

fn prepared(message: u64, answer: &Command) -> Option<Prepared> {
    if answer.code != response::SUCCESS {
        return None;
    }
    let ext = answer.ext_fields().ok()?;
    let sent = SendResponse::decode(&ext).ok()?;
    let position = ids::parse_offset_message_id(&sent.msg_id).ok()?.1 .0 as i64;
    Some(Prepared { message, offset: sent.queue_offset, position })
}

fn end(message: u64, (offset, position): (i64, i64), decision: i32, from_transaction_check: bool) -> Command {
    let header = EndTransaction {
        topic: None,
        producer_group: PRODUCERS.into(),
        tran_state_table_offset: offset,
        commit_log_offset: position,
        commit_or_rollback: decision,
        from_transaction_check,
        msg_id: None,
        transaction_id: Some(key(message).into()),
    };
    Command::request(request::END_TRANSACTION).with_ext(&header)
}

fn key(message: u64) -> String {
    format!("K{message:08}")
}

/// Answers the questions of one connection.
struct Answers {
    seller: Seller,
}

impl Answers {
    fn answer(&self, question: &Command) -> Option<Command> {
        let Seller { world, node, database, .. } = &self.seller;
        let ext = question.ext_fields().ok()?;
        let header = CheckTransactionState::decode(&ext).ok()?;
        let half = iterate(&question.body, BodyCrc::Verify).next()?.ok()?;
        let message = message_of(&half).ok()?;
        let decision = database.look(world, message);
        if decision != UNKNOWN {
            world.history().add(*node, Event::Deciding(message, decision == COMMIT));
        }
        let place = (header.tran_state_table_offset, header.commit_log_offset);
        Some(end(message, place, decision, true))
    }
}

impl Service for Answers {
    type Connection = ConnectionHandle;

    fn connected(&self, handle: ConnectionHandle, _: SocketAddr) -> ConnectionHandle {
        handle
    }

    fn request(
        &self,
        connection: &mut ConnectionHandle,
        head: &Head<'_>,
        frame: &RawFrame<'_>,
        _: &mut Output,
    ) -> Result<(), String> {
        if head.code == request::CHECK_TRANSACTION_STATE {
            let question = Command::decode(frame).map_err(|error| error.to_string())?;
            if let Some(answer) = self.answer(&question) {
                // The broker asks again if it does not arrive.
                let _ = connection.send_one_way(answer.oneway());
            }
        }
        Ok(())
    }

    fn submit(&self, _: &mut ConnectionHandle, _: &mut Output) {}

    fn disconnected(&self, _: ConnectionHandle) {}
}

/// Reads what every broker has given up.
pub async fn find_given_up(cluster: &Cluster) -> Result<(), crate::checkers::Violation> {
    for broker in 0..cluster.brokers.len() {
        let mut offset = 0;
        loop {
            let header = PullHeader {
                consumer_group: "auditors".into(),
                topic: GIVEN_UP.into(),
                queue_id: 0,
                queue_offset: offset,
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
            };
            let Some(answer) = cluster.read(broker, Command::request(request::PULL_MESSAGE).with_ext(&header)).await?
            else {
                break;
            };
            for record in iterate(&answer.body, BodyCrc::Verify) {
                let record =
                    record.map_err(|error| crate::checkers::Violation::new("queues can be read", error.to_string()))?;
                if let Ok(message) = message_of(&record) {
                    cluster.world.history().add(cluster.admin, Event::KeptAside(message));
                }
                offset = record.queue_offset().0 as i64 + 1;
            }
        }
    }
    Ok(())
}
