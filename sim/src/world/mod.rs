//! A simulated world: machines with a network, disks and clocks, and what befalls them.

mod links;
mod machines;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::channel::oneshot;
use madsim::runtime::Handle;
use metaq::env::{Canary, Env};

use crate::agenda::{Agenda, Sleep};
use crate::clock::{pace_timers, Oscillator, SimClock};
use crate::disk::{Atlas, Drive, DriveSettings, SimDisk};
use crate::faults::SimFaults;
use crate::history::History;
use crate::net::{LinkSettings, Network, SimNet};
use crate::plan::Quality;
use crate::random::{SimRng, Stream};
use crate::trace::{Recording, Trace};

/// A machine of the simulated world. 0 is the world itself, on which scenarios run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// Where scenarios run.
    pub const WORLD: NodeId = NodeId(0);
}

/// One life of a process, from its start to its death. Handles hold one and do nothing once it has ended.
#[derive(Clone, Debug)]
pub struct Life(Arc<AtomicBool>);

impl Default for Life {
    fn default() -> Life {
        Life(Arc::new(AtomicBool::new(true)))
    }
}

impl Life {
    /// True until the process dies.
    pub fn is_alive(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// An error once the process is dead.
    pub fn check(&self) -> io::Result<()> {
        if self.is_alive() {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::NotConnected, "this process is dead"))
        }
    }

    fn end(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// How a world is made.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The number that fixes everything.
    pub seed: u64,
    /// Writes each event as a line.
    pub print: bool,
    /// Planted bugs that are on.
    pub canaries: BTreeSet<Canary>,
    /// How links are; drawn if not given.
    pub network: Option<Quality>,
    /// No rare behaviour is forced inside the product.
    pub no_quirks: bool,
    /// From this time on all that is random comes from other streams, of this number.
    pub branch: Option<(Duration, u64)>,
}

/// Numbers below are those of plans.
const FIRST_OTHER_MESSAGE: u64 = 9_000_000;

struct Node {
    name: String,
    machine: madsim::task::NodeId,
    ip: Ipv4Addr,
    drive: Arc<Drive>,
    oscillator: Arc<Oscillator>,
    life: Life,
    incarnation: u64,
    /// How many pauses are on.
    pauses: u32,
    /// Starts what runs here.
    program: Option<Program>,
    /// Asks what runs here to stop; there while it can be asked.
    stop: Option<oneshot::Sender<()>>,
    /// True once it has stopped as it was asked to.
    stopped: bool,
    /// True if a fault allows its process to end or to refuse to start.
    excused: bool,
}

/// Starts a machine's process anew.
type Program = Arc<dyn Fn(&World) + Send + Sync>;

struct Shared {
    seed: u64,
    agenda: Arc<Agenda>,
    trace: Arc<Trace>,
    network: Arc<Network>,
    faults: Arc<SimFaults>,
    history: History,
    runtime: Handle,
    nodes: Mutex<BTreeMap<NodeId, Node>>,
    /// What shuts each link, newest last.
    disturbed: Mutex<links::Disturbed>,
    messages: AtomicU64,
    /// Which data may be destroyed.
    atlas: Mutex<Atlas>,
    verdict: Mutex<verdict::Verdict>,
    begun: Mutex<Duration>,
}

/// The simulated world, cheap to clone.
#[derive(Clone)]
pub struct World(Arc<Shared>);

impl World {
    /// A world without machines. Call it inside the simulation, once.
    pub fn start(options: &Options) -> World {
        let seed = options.seed;
        metaq::env::listen(crate::marks::reach);
        let agenda = Agenda::start();
        let trace = Arc::new(Trace::new(options.print));
        let drawn = *Stream::new(seed, "network quality").pick(&[Quality::Lan, Quality::Mixed]);
        let settings = (options.network.unwrap_or(drawn) == Quality::Lan).then_some(LinkSettings::LAN);
        let network = Network::new(seed, settings, agenda.clone(), trace.clone());
        let faults = Arc::new(SimFaults::new(seed, options.canaries.clone(), !options.no_quirks));
        if options.canaries.contains(&Canary::RealEntropy) {
            // What the audit of replays must find: the schedule depends on the number of the process.
            for _ in 0..std::process::id() % 1_000 {
                let _ = madsim::rand::random::<u64>();
            }
        }
        let history = History::new(trace.clone());
        let world = World(Arc::new(Shared {
            seed,
            agenda,
            trace,
            network,
            faults,
            history,
            runtime: Handle::current(),
            nodes: Mutex::default(),
            disturbed: Mutex::default(),
            messages: AtomicU64::new(FIRST_OTHER_MESSAGE),
            atlas: Mutex::default(),
            verdict: Mutex::default(),
            begun: Mutex::default(),
        }));
        if let Some((at, number)) = options.branch {
            world.later(at, move |world| world.branch(number));
        }
        world
    }

    /// Lets everything random from now on be another.
    fn branch(&self, number: u64) {
        // Few draws would not do: streams that differ by a little run together again.
        for _ in 0..10_000 + 7_919 * number {
            let _ = madsim::rand::random::<u64>();
        }
        self.0.network.branch(number);
        for node in self.nodes().values() {
            node.drive.branch(number);
        }
    }

    /// Adds a machine. Its disk is empty, its clock up to half a second wrong.
    pub fn add_node(&self, name: &str) -> NodeId {
        let shared = &self.0;
        let node = NodeId(self.nodes().len() as u32 + 1);
        let mut random = self.random(&format!("machine {name}"));
        let error_ms = random.below(1_001) as i64 - 500;
        let oscillator = Arc::new(Oscillator::new(shared.agenda.clone(), error_ms));
        let clock = Arc::new(SimClock::new(oscillator.clone()));
        let settings = DriveSettings::draw(&mut random);
        let drive = Drive::new(shared.seed, node, settings, clock, shared.agenda.clone(), shared.trace.clone());
        shared.trace.name_node(name);
        let ip = shared.network.add_host(node, name);
        let machine = shared.runtime.create_node().name(name).build().id();
        pace_timers(machine, oscillator.clone());
        let (life, name) = (Life::default(), name.to_owned());
        self.nodes().insert(
            node,
            Node {
                name,
                machine,
                ip,
                drive,
                oscillator,
                life,
                incarnation: 1,
                pauses: 0,
                program: None,
                stop: None,
                stopped: false,
                excused: false,
            },
        );
        node
    }

    /// The doors of a node's present incarnation.
    pub fn env(&self, node: NodeId) -> Env {
        let shared = &self.0;
        self.with(node, |n| {
            let clock = SimClock::new(n.oscillator.clone());
            let net = SimNet::new(shared.network.clone(), node, n.life.clone());
            let disk = SimDisk::new(n.drive.clone(), n.life.clone());
            let rng = SimRng::new(self.random(&format!("node {} {}", node.0, n.incarnation)));
            Env::new(Arc::new(clock), Arc::new(net), Arc::new(disk), Arc::new(rng)).with_faults(shared.faults.clone())
        })
    }

    /// Starts a task on a node; it ends when the node is killed.
    pub fn spawn<F>(&self, node: NodeId, future: F) -> madsim::task::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let machine = self.with(node, |n| n.machine);
        self.0.runtime.get_node(machine).expect("every node has a machine").spawn(future)
    }

    /// Moves a node's wall clock.
    pub fn shift_clock(&self, node: NodeId, millis: i64) {
        self.note(node, "clock shifted", &[millis as u64], "");
        self.oscillator(node).shift(millis);
    }

    /// A node's clock and its faults.
    pub fn oscillator(&self, node: NodeId) -> Arc<Oscillator> {
        self.with(node, |n| n.oscillator.clone())
    }

    /// True while a node's process lives.
    pub fn is_alive(&self, node: NodeId) -> bool {
        self.with(node, |n| n.life.is_alive())
    }

    /// The machine of a name.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.nodes().iter().find(|(_, node)| node.name == name).map(|(id, _)| *id)
    }

    /// All machines.
    pub fn nodes_by_name(&self) -> BTreeMap<String, NodeId> {
        self.nodes().iter().map(|(id, node)| (node.name.clone(), *id)).collect()
    }

    /// Does something when this much time has passed. It runs on no machine, and must not block.
    pub fn later(&self, duration: Duration, work: impl FnOnce(&World) + Send + 'static) {
        let world = self.clone();
        self.0.agenda.at(self.now() + duration, move || work(&world));
    }

    /// True while a node's process lives and is not paused.
    pub fn is_up(&self, node: NodeId) -> bool {
        self.with(node, |n| n.life.is_alive() && n.pauses == 0)
    }

    /// The network and its faults.
    pub fn network(&self) -> &Network {
        &self.0.network
    }

    /// A node's disk and its faults.
    pub fn disk(&self, node: NodeId) -> Arc<Drive> {
        self.with(node, |n| n.drive.clone())
    }

    /// A node's name.
    pub fn name(&self, node: NodeId) -> String {
        self.with(node, |n| n.name.clone())
    }

    /// A node's address.
    pub fn ip(&self, node: NodeId) -> Ipv4Addr {
        self.with(node, |n| n.ip)
    }

    /// What clients did and saw.
    pub fn history(&self) -> &History {
        &self.0.history
    }

    /// Asks or tells who has which data.
    pub fn with_atlas<T>(&self, f: impl FnOnce(&mut Atlas) -> T) -> T {
        f(&mut self.0.atlas.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A number for a message that no other has.
    pub fn next_message(&self) -> u64 {
        self.0.messages.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Notes that the workload begins: the times of plans count from here.
    pub fn begun(&self) {
        *self.0.begun.lock().unwrap_or_else(PoisonError::into_inner) = self.now();
    }

    /// When the workload began.
    pub fn began(&self) -> Duration {
        *self.0.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a task that no fault reaches.
    pub fn spawn_here(&self, future: impl Future<Output = ()> + Send + 'static) {
        madsim::task::spawn(future);
    }

    /// The random stream of this run for `purpose`.
    pub fn random(&self, purpose: &str) -> Stream {
        Stream::new(self.0.seed, purpose)
    }

    /// Simulated time since the start.
    pub fn now(&self) -> Duration {
        self.0.agenda.now()
    }

    /// Waits.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.0.agenda.sleep(duration)
    }

    /// Notes an event of the scenario in the trace.
    pub fn note(&self, node: NodeId, what: &'static str, numbers: &[u64], words: &str) {
        self.0.trace.note(node, what, numbers, words);
    }

    /// Everything noted so far, handed over at the end of a run.
    pub fn take_recording(&self) -> Recording {
        self.0.trace.take_recording()
    }

    /// Hash and number of events so far.
    pub fn digest(&self) -> (u64, u64) {
        self.0.trace.digest()
    }

    fn with<T>(&self, node: NodeId, f: impl FnOnce(&Node) -> T) -> T {
        f(self.nodes().get(&node).expect("a node of this world"))
    }

    fn change<T>(&self, node: NodeId, f: impl FnOnce(&mut Node) -> T) -> T {
        f(self.nodes().get_mut(&node).expect("a node of this world"))
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<NodeId, Node>> {
        self.0.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
