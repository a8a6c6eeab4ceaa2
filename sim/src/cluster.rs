//! NameServers and brokers as the product has them, on simulated machines.

use std::collections::BTreeMap;
use std::future::pending;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use futures::channel::oneshot;
use futures::future::{select, Either};
use metaq::actors::broker::BrokerHandle;
use metaq::actors::nameserver::NameServerHandle;
use metaq::actors::settings_file::SettingsFile;
use metaq::config::broker::{BrokerConfig, BrokerRole};
use metaq::config::nameserver::NameServerSettings;
use metaq::env::Env;
use metaq::proto::body::BrokerData;
use metaq::proto::remoting::requests::UpdateAndCreateTopic;
use metaq::proto::remoting::{request, response, Command};

use crate::checkers::Violation;
use crate::client::{ClientError, Consumer, Remote, Routes};
use crate::disk::Atlas;
use crate::history::{Event, Queue};
use crate::plan::{broker_name, Client, Plan};
use crate::sometimes;
use crate::world::{NodeId, World};

const NAMESERVER_PORT: u16 = 9876;
const BROKER_PORT: u16 = 10_911;
/// Where masters serve slaves.
pub const HA_PORT: u16 = 10_912;
/// The id of a master that lost its place.
const OLD_MASTER_ID: u64 = 9;
/// How long a broker that was just started may take until it serves.
pub const START_LIMIT: Duration = Duration::from_secs(30);
/// How long a broker that is asked to stop may take.
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// A process that ended by itself is started again after this long, as a service manager does.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// The topic of all scenarios.
pub const TOPIC: &str = "orders";
/// Its queues at each broker.
pub const QUEUES: u32 = 4;
/// The consumer group of most scenarios.
pub const GROUP: &str = "billing";

/// A slave of one of the brokers.
#[derive(Clone, Copy, Debug)]
pub struct Slave {
    /// Its machine.
    pub node: NodeId,
    /// Whose slave: the broker's index.
    pub broker: usize,
    /// Its broker id.
    pub id: u64,
}

/// A cluster. Everything runs from its start on.
#[derive(Clone)]
pub struct Cluster {
    /// Where it runs.
    pub world: World,
    /// The administrator's machine.
    pub admin: NodeId,
    /// Machines of the NameServers.
    pub nameservers: Vec<NodeId>,
    /// Machines of the brokers: of their masters.
    pub brokers: Vec<NodeId>,
    /// Machines of all slaves.
    pub slaves: Vec<Slave>,
    /// The settings all brokers share.
    pub config: BrokerConfig,
    groups: Vec<String>,
}

impl Cluster {
    /// The plan's machines with NameServers and brokers, all started, and the topic made on every broker.
    pub async fn start(world: &World, plan: &Plan) -> Cluster {
        let roster = plan.roster();
        let machine = |name: &String| {
            let node = world.add_node(name);
            world.env(node).disk.create_dir_all(Path::new("/data")).expect("the disk is empty");
            world.disk(node).settle();
            node
        };
        let nameservers: Vec<NodeId> = roster.nameservers.iter().map(machine).collect();
        let brokers: Vec<NodeId> = roster.brokers.iter().map(machine).collect();
        let mut slaves = Vec::new();
        for (index, name) in roster.slaves.iter().enumerate() {
            let (broker, id) = (index / plan.slaves, (index % plan.slaves) as u64 + 1);
            slaves.push(Slave { node: machine(name), broker, id });
        }
        let copies = brokers.iter().enumerate().map(|(broker, master)| {
            let slaves = slaves.iter().filter(|slave: &&Slave| slave.broker == broker);
            slaves.map(|slave| slave.node).chain([*master]).collect()
        });
        world.with_atlas(|atlas| *atlas = Atlas::new(copies));
        let config = plan.config().expect("a plan that was read or drawn has good settings");
        let admin = world.add_node("admin");
        let groups = plan.clients.iter().filter_map(|client| match client {
            Client::Consumer { group, .. } => Some(group.clone()),
            Client::Producer { .. } => None,
        });
        let groups = groups.collect();
        let cluster = Cluster { world: world.clone(), admin, nameservers, brokers, slaves, config, groups };
        for node in &cluster.nameservers {
            let node = *node;
            world.set_program(node, move |world| run_nameserver(world, node));
            world.run_program(node);
        }
        for (index, node) in cluster.brokers.iter().enumerate() {
            let (node, config) = (*node, cluster.config_of(index));
            world.set_program(node, move |world| run_broker(world, node, config.clone()));
            world.run_program(node);
            cluster.make_topic(index).await;
        }
        for slave in &cluster.slaves {
            let (node, config) = (slave.node, cluster.config_of_slave(slave));
            world.set_program(node, move |world| run_broker(world, node, config.clone()));
            world.run_program(node);
        }
        cluster
    }

    /// The machines of all brokers, slaves among them.
    pub fn members(&self) -> Vec<NodeId> {
        let slaves = self.slaves.iter().map(|slave| slave.node).filter(|slave| !self.brokers.contains(slave));
        self.brokers.iter().copied().chain(slaves).collect()
    }

    /// The master's machine is lost for good, and a slave goes on in its place.
    pub async fn replace_by(&mut self, slave: Slave) {
        let (lost, node, config) = (self.brokers[slave.broker], slave.node, self.config_of(slave.broker));
        self.world.set_program(lost, |_| {});
        for gone in [lost, node] {
            if self.world.is_alive(gone) {
                self.world.kill(gone);
            }
        }
        self.world.disk(lost).wipe();
        let mut config = config;
        config.broker_role = BrokerRole::AsyncMaster;
        self.world.set_program(node, move |world| run_broker(world, node, config.clone()));
        self.world.boot(node);
        self.brokers[slave.broker] = node;
        self.make_topic(slave.broker).await;
    }

    /// A slave has become the master while it ran, and is from its next start on. The old master comes back as a slave.
    pub fn promoted(&mut self, slave: Slave) {
        let old = Slave { node: self.brokers[slave.broker], broker: slave.broker, id: OLD_MASTER_ID };
        self.brokers[slave.broker] = slave.node;
        let (master, demoted) = (self.config_of(slave.broker), self.config_of_slave(&old));
        self.world.set_program(slave.node, move |world| run_broker(world, slave.node, master.clone()));
        self.world.set_program(old.node, move |world| run_broker(world, old.node, demoted.clone()));
        self.slaves.retain(|other| other.node != slave.node);
        self.slaves.push(old);
    }

    /// Addresses of the NameServers.
    pub fn nameserver_addresses(&self) -> Vec<String> {
        self.nameservers.iter().map(|node| format!("{}:{NAMESERVER_PORT}", self.world.ip(*node))).collect()
    }

    /// A broker's name.
    pub fn broker_name(&self, index: usize) -> String {
        broker_name(index)
    }

    fn config_of_slave(&self, slave: &Slave) -> BrokerConfig {
        let mut config = self.config_of(slave.broker);
        config.broker_role = BrokerRole::Slave;
        config.broker_id = slave.id;
        config
    }

    fn config_of(&self, index: usize) -> BrokerConfig {
        let mut config = self.config.clone();
        config.broker_name = self.broker_name(index);
        config.namesrv_addr = self.nameserver_addresses().join(";");
        config.store_path_root_dir = "/data/store".to_owned();
        config
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

    /// A pull as an administrator does it, again until it is answered; `None` if there is nothing more, or no such topic.
    pub async fn read(&self, index: usize, pull: Command) -> Result<Option<Command>, Violation> {
        let address = format!("{}:{BROKER_PORT}", self.world.ip(self.brokers[index]));
        let mut remote = Remote::new(self.world.env(self.admin), address);
        let deadline = self.world.now() + START_LIMIT;
        while self.world.now() < deadline {
            match remote.call(pull.clone(), Duration::from_secs(3)).await {
                Ok(answer) if answer.code == response::SUCCESS => return Ok(Some(answer)),
                Ok(answer) if [response::PULL_NOT_FOUND, response::TOPIC_NOT_EXIST].contains(&answer.code) => {
                    return Ok(None);
                }
                Ok(_) | Err(_) => self.world.sleep(Duration::from_millis(50)).await,
            }
        }
        Err(Violation::new("queues can be read", "a broker does not answer a pull"))
    }

    /// Every queue of the topic.
    pub fn queues(&self) -> Vec<Queue> {
        let brokers = 0..self.brokers.len();
        brokers
            .flat_map(|index| (0..QUEUES).map(move |id| (index, id)))
            .map(|(index, id)| Queue::new(&self.broker_name(index), TOPIC, id))
            .collect()
    }

    /// The queues of a group for messages that were handed back.
    pub fn retry_queues(&self, group: &str) -> Vec<Queue> {
        let topic = format!("%RETRY%{group}");
        (0..self.brokers.len()).map(|index| Queue::new(&self.broker_name(index), &topic, 0)).collect()
    }

    /// The machines of brokers, slaves among them, that a NameServer names for the topic; `None` if it does not answer.
    pub async fn brokers_known_to(&self, nameserver: usize) -> Option<Vec<String>> {
        let address = self.nameserver_addresses()[nameserver].clone();
        let at = |node: &NodeId| (format!("{}:{BROKER_PORT}", self.world.ip(*node)), self.world.name(*node));
        let machines: BTreeMap<String, String> = self.members().iter().map(at).collect();
        let members = |data: BrokerData| -> Vec<String> {
            data.broker_addrs.into_values().map(|at| machines.get(&at).cloned().unwrap_or(at)).collect()
        };
        let known = match Routes::new(self.world.env(self.admin), &[address]).route(TOPIC).await {
            Ok(route) => Some(route.broker_datas.into_iter().flat_map(members).collect()),
            Err(ClientError::NoRoute) => Some(Vec::new()),
            Err(_) => None,
        };
        if let Some(known) = &known {
            let known = known.iter().map(|broker| broker.as_str().into()).collect();
            self.world.history().add(self.admin, Event::Route(format!("ns-{nameserver}").as_str().into(), known));
        }
        known
    }

    /// Reads all queues from their beginning, as the last word on what is stored.
    pub async fn find_all(&self) {
        for queue in self.queues() {
            if let Err(error) = self.find(queue.clone()).await {
                self.world.violated(Violation::new("queues can be read", format!("{queue}: {error:?}")));
            }
        }
        for queue in self.groups.iter().flat_map(|group| self.retry_queues(group)) {
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

fn run_nameserver(world: &World, node: NodeId) {
    let (world, env) = (world.clone(), world.env(node));
    let address = SocketAddr::new(world.ip(node).into(), NAMESERVER_PORT);
    world.clone().spawn(node, async move {
        let settings = NameServerSettings::default();
        match NameServerHandle::start(&env, settings, address, Path::new("/data/nameserver")).await {
            Ok(_running) => {
                world.note(node, "nameserver serves", &[], "");
                pending().await
            }
            Err(error) => ended(&world, node, Violation::new("a NameServer starts", format!("{error:#}"))),
        }
    });
}

/// Runs a broker. It must start, whatever happened to its store before, and keep running until it is asked to stop.
fn run_broker(world: &World, node: NodeId, config: BrokerConfig) {
    let (world, env) = (world.clone(), world.env(node));
    let address = SocketAddr::new(world.ip(node).into(), BROKER_PORT);
    let (stop, asked_to_stop) = oneshot::channel();
    world.can_be_stopped(node, stop);
    world.clone().spawn(node, async move {
        let config = match with_changes(&env, config) {
            Ok(config) => config,
            Err(error) => return ended(&world, node, Violation::new("a broker starts", format!("{error:#}"))),
        };
        let running = match BrokerHandle::start(&env, config, address).await {
            Ok(running) => running,
            Err(error) => return ended(&world, node, Violation::new("a broker starts", format!("{error:#}"))),
        };
        world.note(node, "broker serves", &[], "");
        world.history().add(node, Event::Up(world.name(node).as_str().into()));
        if let Some(reason) = failure_before_stop(&running, asked_to_stop).await {
            return ended(&world, node, Violation::new("a broker keeps running", reason));
        }
        match running.stop(STOP_LIMIT).await {
            Ok(()) => world.stopped(node),
            Err(error) => {
                let violation = Violation::new("a broker stops cleanly", format!("{error:#}"));
                ended(&world, node, violation);
            }
        }
    });
}

/// With what requests changed while the broker last ran, as the command takes it. What it is to its group is said by
/// whoever starts it.
fn with_changes(env: &Env, config: BrokerConfig) -> anyhow::Result<BrokerConfig> {
    let text = SettingsFile::read_if_there(&*env.disk, &config.settings_path())?;
    let (broker_role, broker_id) = (config.broker_role, config.broker_id);
    let mut changed = config;
    changed.apply(&text)?;
    Ok(BrokerConfig { broker_role, broker_id, ..changed })
}

/// Why a broker failed; `None` once it is asked to stop.
async fn failure_before_stop(running: &BrokerHandle, asked_to_stop: oneshot::Receiver<()>) -> Option<String> {
    match select(asked_to_stop, Box::pin(running.failed())).await {
        Either::Left(_) => None,
        Either::Right((reason, _)) => Some(reason),
    }
}

/// A process has ended by itself: a broken promise, unless its disk is to blame.
fn ended(world: &World, node: NodeId, violation: Violation) {
    if !world.is_excused(node) {
        return world.violated(violation);
    }
    sometimes!("a process that may fail ended by itself");
    world.note(node, "ended", &[], &violation.to_string());
    let incarnation = world.incarnation(node);
    let same = move |world: &World| world.incarnation(node) == incarnation && world.is_alive(node);
    world.later(Duration::ZERO, move |world| {
        if same(world) {
            world.kill(node);
            world.later(RESTART_PAUSE, move |world| world.boot(node));
        }
    });
}
