//! NameServers and brokers as the product has them, on simulated machines.

use std::future::pending;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::channel::oneshot;
use futures::future::{select, Either};
use metaq::actors::broker::BrokerHandle;
use metaq::actors::nameserver::NameServerHandle;
use metaq::config::broker::{BrokerConfig, FlushDiskType};
use metaq::config::nameserver::NameServerSettings;
use metaq::proto::remoting::requests::UpdateAndCreateTopic;
use metaq::proto::remoting::{request, response, Command};

use crate::checkers::{
    acknowledged_kept, all_delivered, delayed_on_time, handed_back_again, nothing_read_early, offsets_dense,
    stored_once, Violation,
};
use crate::client::{ClientError, Consumer, Producer, Remote, Routes};
use crate::history::{Event, Queue};
use crate::random::Stream;
use crate::world::{NodeId, World};

const NAMESERVER_PORT: u16 = 9876;
const BROKER_PORT: u16 = 10_911;
/// How long a broker that was just started may take until it serves.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How long a broker that is asked to stop may take.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// Time for consumers to get everything once all faults have ended: they ask again every few hundred milliseconds, and
/// routes are back at once.
const SETTLE: Duration = Duration::from_secs(60);

/// Seconds of RocketMQ's first delay levels.
const DELAYS: [u64; 4] = [1, 5, 10, 30];

/// The topic of all scenarios.
pub const TOPIC: &str = "orders";
/// Its queues at each broker.
pub const QUEUES: u32 = 4;
/// The consumer group of all scenarios.
pub const GROUP: &str = "billing";

/// What a broker's process tells the scenario, and the way to ask it to stop.
#[derive(Default)]
struct Running {
    serves: AtomicBool,
    stop: Mutex<Option<oneshot::Sender<()>>>,
    stopped: AtomicBool,
}

/// A cluster. Everything runs from its start on.
pub struct Cluster {
    world: World,
    /// The administrator's machine.
    admin: NodeId,
    /// Machines of the NameServers.
    pub nameservers: Vec<NodeId>,
    /// Machines of the brokers.
    pub brokers: Vec<NodeId>,
    /// The settings all brokers share.
    pub config: BrokerConfig,
    running: Vec<Arc<Running>>,
}

impl Cluster {
    /// Machines with NameServers and brokers, all started, and the topic made on every broker.
    pub async fn start(world: &World, nameservers: usize, brokers: usize, flush: FlushDiskType) -> Cluster {
        let machine = |name: &str| {
            let node = world.add_node(name);
            world.env(node).disk.create_dir_all(Path::new("/data")).expect("the disk is empty");
            world.disk(node).settle();
            node
        };
        let nameservers: Vec<NodeId> = (0..nameservers).map(|index| machine(&format!("ns-{index}"))).collect();
        let brokers: Vec<NodeId> = (0..brokers).map(|index| machine(&format!("broker-{index}"))).collect();
        let config = small_files(world, flush);
        let admin = world.add_node("admin");
        let running = brokers.iter().map(|_| Arc::default()).collect();
        let cluster = Cluster { world: world.clone(), admin, nameservers, brokers, config, running };
        for index in 0..cluster.nameservers.len() {
            cluster.start_nameserver(index);
        }
        for index in 0..cluster.brokers.len() {
            cluster.start_broker(index);
            cluster.make_topic(index).await;
        }
        cluster
    }

    /// Addresses of the NameServers.
    pub fn nameserver_addresses(&self) -> Vec<String> {
        self.nameservers.iter().map(|node| format!("{}:{NAMESERVER_PORT}", self.world.ip(*node))).collect()
    }

    /// A broker's name.
    pub fn broker_name(&self, index: usize) -> String {
        format!("broker-{index}")
    }

    /// Starts a NameServer on its machine.
    pub fn start_nameserver(&self, index: usize) {
        let (world, node) = (self.world.clone(), self.nameservers[index]);
        let address = SocketAddr::new(world.ip(node).into(), NAMESERVER_PORT);
        let env = world.env(node);
        world.clone().spawn(node, async move {
            let settings = NameServerSettings::default();
            match NameServerHandle::start(&env, settings, address, Path::new("/data/nameserver")).await {
                Ok(_running) => pending().await,
                Err(error) => world.violated(Violation::new("a NameServer starts", format!("{error:#}"))),
            }
        });
    }

    /// Starts a broker on its machine. It must start, whatever happened to its store before, and keep running.
    pub fn start_broker(&self, index: usize) {
        let (world, node) = (self.world.clone(), self.brokers[index]);
        let address = SocketAddr::new(world.ip(node).into(), BROKER_PORT);
        let mut config = self.config.clone();
        config.broker_name = self.broker_name(index);
        config.namesrv_addr = self.nameserver_addresses().join(";");
        config.store_path_root_dir = "/data/store".to_owned();
        let env = world.env(node);
        let (stop, asked_to_stop) = oneshot::channel();
        let state = self.running[index].clone();
        state.serves.store(false, Ordering::Relaxed);
        state.stopped.store(false, Ordering::Relaxed);
        *state.stop.lock().expect("no holder panics") = Some(stop);
        world.clone().spawn(node, async move {
            match BrokerHandle::start(&env, config, address).await {
                Ok(running) => {
                    world.note(node, "broker serves", &[], "");
                    state.serves.store(true, Ordering::Relaxed);
                    if let Some(reason) = failure_before_stop(&running, asked_to_stop).await {
                        return world.violated(Violation::new("a broker keeps running", reason));
                    }
                    if let Err(error) = running.stop(STOP_LIMIT).await {
                        world.violated(Violation::new("a broker stops cleanly", format!("{error:#}")));
                    }
                    world.note(node, "broker stopped", &[], "");
                    state.stopped.store(true, Ordering::Relaxed);
                }
                Err(error) => world.violated(Violation::new("a broker starts", format!("{error:#}"))),
            }
        });
    }

    /// Makes the topic on a broker, as an administrator would.
    pub async fn make_topic(&self, index: usize) {
        let request = Command::request(request::UPDATE_AND_CREATE_TOPIC).with_ext(&UpdateAndCreateTopic {
            topic: TOPIC.into(),
            default_topic: Some("TBW102".into()),
            read_queue_nums: QUEUES as i32,
            write_queue_nums: QUEUES as i32,
            perm: 6,
            topic_filter_type: Some("SINGLE_TAG".into()),
            topic_sys_flag: 0,
            order: false,
            attributes: None,
            force: false,
        });
        if let Err(violation) = self.ask(index, request).await {
            self.world.violated(violation);
        }
    }

    /// Asks a broker as an administrator does, again until it answers; it has to agree.
    pub async fn ask(&self, index: usize, command: Command) -> Result<Command, Violation> {
        let address = format!("{}:{BROKER_PORT}", self.world.ip(self.brokers[index]));
        let mut remote = Remote::new(self.world.env(self.admin), address);
        let deadline = self.world.now() + START_LIMIT;
        while self.world.now() < deadline {
            match remote.call(command.clone(), Duration::from_secs(3)).await {
                Ok(answer) if answer.code == response::SUCCESS => return Ok(answer),
                Ok(answer) => {
                    let finding = format!("request {}: code {} {:?}", command.code, answer.code, answer.remark);
                    return Err(Violation::new("an administrator's request is carried out", finding));
                }
                Err(_) => self.world.sleep(Duration::from_millis(50)).await,
            }
        }
        Err(Violation::new("a broker starts", "it does not answer"))
    }

    /// Waits until a broker that was started serves.
    pub async fn until_serving(&self, index: usize) {
        let deadline = self.world.now() + START_LIMIT;
        while !self.running[index].serves.load(Ordering::Relaxed) && self.world.now() < deadline {
            self.world.sleep(Duration::from_millis(10)).await;
        }
    }

    /// Asks a broker to stop, as SIGTERM does, and waits until it has.
    pub async fn stop_broker(&self, index: usize) {
        let state = &self.running[index];
        if let Some(stop) = state.stop.lock().expect("no holder panics").take() {
            let _ = stop.send(());
        }
        let deadline = self.world.now() + STOP_LIMIT * 2;
        while !state.stopped.load(Ordering::Relaxed) {
            if self.world.now() > deadline {
                return self.world.violated(Violation::new("a broker stops cleanly", "it does not end"));
            }
            self.world.sleep(Duration::from_millis(10)).await;
        }
    }

    /// Every queue of the topic.
    pub fn queues(&self) -> Vec<Queue> {
        let brokers = 0..self.brokers.len();
        brokers
            .flat_map(|index| (0..QUEUES).map(move |id| (index, id)))
            .map(|(index, id)| Queue::new(&self.broker_name(index), TOPIC, id))
            .collect()
    }

    /// The brokers that a NameServer names for the topic; `None` if it does not answer.
    pub async fn brokers_known_to(&self, nameserver: usize) -> Option<Vec<String>> {
        let address = self.nameserver_addresses()[nameserver].clone();
        match Routes::new(self.world.env(self.admin), &[address]).route(TOPIC).await {
            Ok(route) => Some(route.broker_datas.into_iter().map(|data| data.broker_name).collect()),
            Err(ClientError::NoRoute) => Some(Vec::new()),
            Err(_) => None,
        }
    }

    /// Every NameServer names every broker within `limit`.
    pub async fn routes_are_true(&self, limit: Duration) -> Result<(), Violation> {
        let truth: Vec<String> = (0..self.brokers.len()).map(|index| self.broker_name(index)).collect();
        let deadline = self.world.now() + limit;
        for nameserver in 0..self.nameservers.len() {
            loop {
                let mut known = self.brokers_known_to(nameserver).await;
                if let Some(known) = &mut known {
                    known.sort();
                    if *known == truth {
                        break;
                    }
                }
                if self.world.now() > deadline {
                    let finding = format!("NameServer {nameserver} knows {known:?} after {} s", limit.as_secs());
                    return Err(Violation::new("routes become true", finding));
                }
                self.world.sleep(Duration::from_secs(1)).await;
            }
        }
        Ok(())
    }

    /// Ends all cuts, waits until everybody had time to catch up, and looks what is stored.
    pub async fn catch_up(&self) {
        self.world.network().heal();
        self.world.sleep(SETTLE).await;
        self.find_all().await;
    }

    /// Waits until everybody had time to catch up, looks what is stored, and judges.
    pub async fn settle(&self) -> Result<(), Violation> {
        self.catch_up().await;
        delayed_on_time(&self.world.history().timed())?;
        let events = self.world.history().events();
        acknowledged_kept(&events)?;
        offsets_dense(&events)?;
        handed_back_again(&events)?;
        if !events.iter().any(|event| matches!(event, Event::Scheduled(..) | Event::HandedBack(..))) {
            stored_once(&events)?;
        }
        nothing_read_early(&events)?;
        all_delivered(&events, &[GROUP])
    }

    /// Starts a producer on a machine of its own that sends `count` messages, at most one per `pace`. It ends with the
    /// number of those that were acknowledged.
    pub fn produce(&self, name: &str, count: u64, pace: Duration) -> madsim::task::JoinHandle<u64> {
        self.produce_with(name, count, pace, |_| None)
    }

    /// As [`Cluster::produce`], every message with a delay of one of the first four levels.
    pub fn produce_delayed(&self, name: &str, count: u64, pace: Duration) -> madsim::task::JoinHandle<u64> {
        self.produce_with(name, count, pace, |random| {
            let level = random.below(DELAYS.len() as u64) as usize;
            Some((level as u32 + 1, Duration::from_secs(DELAYS[level])))
        })
    }

    fn produce_with(
        &self,
        name: &str,
        count: u64,
        pace: Duration,
        delay: fn(&mut Stream) -> Option<(u32, Duration)>,
    ) -> madsim::task::JoinHandle<u64> {
        let (world, node) = (self.world.clone(), self.world.add_node(name));
        let mut producer = Producer::new(world.clone(), node, &self.nameserver_addresses(), TOPIC);
        let mut random = world.random(name);
        self.world.spawn(node, async move {
            let mut acknowledged = 0;
            for _ in 0..count {
                acknowledged += u64::from(producer.send_delayed(delay(&mut random)).await);
                world.sleep(Duration::from_micros(random.below(pace.as_micros() as u64 + 1))).await;
            }
            acknowledged
        })
    }

    /// Starts a consumer group on a machine of its own, one reader for each queue.
    pub fn consume(&self, name: &str, group: &str) {
        let node = self.world.add_node(name);
        for queue in self.queues() {
            let consumer = Consumer::new(self.world.clone(), node, &self.nameserver_addresses(), queue, group);
            self.world.spawn(node, consumer.run());
        }
    }

    /// As [`Cluster::consume`]; the group hands back so many of 1,000 messages and consumes them from its retry queues.
    pub fn consume_failing(&self, name: &str, group: &str, per_mille: u64) {
        let node = self.world.add_node(name);
        let consumer = |queue| Consumer::new(self.world.clone(), node, &self.nameserver_addresses(), queue, group);
        for queue in self.queues() {
            self.world.spawn(node, consumer(queue).failing(per_mille).run());
        }
        for queue in self.retry_queues(group) {
            self.world.spawn(node, consumer(queue).run());
        }
    }

    fn retry_queues(&self, group: &str) -> Vec<Queue> {
        let topic = format!("%RETRY%{group}");
        (0..self.brokers.len()).map(|index| Queue::new(&self.broker_name(index), &topic, 0)).collect()
    }

    /// Reads all queues from their beginning, as the last word on what is stored.
    pub async fn find_all(&self) {
        for queue in self.queues() {
            if let Err(error) = self.find(queue.clone()).await {
                self.world.violated(Violation::new("queues can be read", format!("{queue}: {error:?}")));
            }
        }
        for queue in self.retry_queues(GROUP) {
            match self.find(queue.clone()).await {
                // Nothing was handed back there, or it is lost, which a checker sees.
                Ok(()) | Err(ClientError::NoRoute) => {}
                Err(error) => {
                    self.world.violated(Violation::new("queues can be read", format!("{queue}: {error:?}")));
                }
            }
        }
    }

    async fn find(&self, queue: Queue) -> Result<(), ClientError> {
        let (world, nameservers) = (self.world.clone(), self.nameserver_addresses());
        Consumer::new(world, self.admin, &nameservers, queue, "auditors").find_all().await
    }
}

/// Why a broker failed; `None` once it is asked to stop.
async fn failure_before_stop(running: &BrokerHandle, asked_to_stop: oneshot::Receiver<()>) -> Option<String> {
    match select(asked_to_stop, Box::pin(running.failed())).await {
        Either::Left(_) => None,
        Either::Right((reason, _)) => Some(reason),
    }
}

/// Settings with which file ends come soon and defaults elsewhere.
fn small_files(world: &World, flush: FlushDiskType) -> BrokerConfig {
    let mut random = world.random("broker settings");
    BrokerConfig {
        flush_disk_type: flush,
        mapped_file_size_commit_log: *random.pick(&[16, 32, 64]) << 10,
        mapped_file_size_consume_queue: 20 * *random.pick(&[16, 64, 512]),
        max_hash_slot_num: 64,
        max_index_num: 256,
        max_message_size: 8 << 10,
        // A full disk must not cost messages that are not old.
        clean_file_forcibly_enable: false,
        ..BrokerConfig::default()
    }
}
