//! A simulated world: machines with a network, disks and clocks, and what befalls them.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{poll_fn, Future};
use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use futures::channel::oneshot;
use madsim::runtime::Handle;
use metaq::env::{Canary, Env};

use crate::agenda::{Agenda, Sleep};
use crate::checkers::Violation;
use crate::clock::{Oscillator, SimClock};
use crate::disk::{Choose, Drive, DriveSettings, SimDisk};
use crate::faults::SimFaults;
use crate::history::{Event, History};
use crate::net::{LinkSettings, LinkState, Network, SimNet};
use crate::plan::Quality;
use crate::random::{SimRng, Stream};
use crate::sometimes;
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
    disturbed: Mutex<BTreeMap<(NodeId, NodeId), Vec<(LinkState, &'static str)>>>,
    messages: AtomicU64,
    verdict: Mutex<Verdict>,
    begun: Mutex<Duration>,
}

/// The first broken promise, and who waits for it.
#[derive(Default)]
struct Verdict {
    violation: Option<Violation>,
    waker: Option<Waker>,
}

/// The simulated world, cheap to clone.
#[derive(Clone)]
pub struct World(Arc<Shared>);

impl World {
    /// A world without machines. Call it inside the simulation, once.
    pub fn start(options: &Options) -> World {
        let seed = options.seed;
        let agenda = Agenda::start();
        let trace = Arc::new(Trace::new(options.print));
        let drawn = *Stream::new(seed, "network quality").pick(&[Quality::Lan, Quality::Mixed]);
        let settings = (options.network.unwrap_or(drawn) == Quality::Lan).then_some(LinkSettings::LAN);
        let network = Network::new(seed, settings, agenda.clone(), trace.clone());
        let faults = Arc::new(SimFaults::new(seed, options.canaries.clone(), !options.no_quirks));
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

    /// The process dies at once. The kernel lives on: its page cache stays, its connections are closed.
    pub fn kill(&self, node: NodeId) {
        self.note(node, "killed", &[], "");
        self.0.network.kill(node);
        self.end_life(node);
        self.disk(node).kill();
    }

    /// The machine loses its power: unsynced data is gone or torn, and nobody hears a farewell.
    pub fn power_cut(&self, node: NodeId) {
        self.note(node, "power cut", &[], "");
        self.0.network.power_off(node);
        self.end_life(node);
        self.disk(node).power_cut();
    }

    /// The kernel of the machine stops and it starts anew: unsynced data is gone, but no write is torn, and nobody hears a
    /// farewell.
    pub fn os_crash(&self, node: NodeId) {
        self.note(node, "os crash", &[], "");
        self.0.network.power_off(node);
        self.end_life(node);
        self.disk(node).os_crash();
    }

    /// As [`World::power_cut`], `choose` deciding what of the unsynced changes is on the disk.
    pub fn power_cut_by(&self, node: NodeId, choose: &mut dyn Choose) {
        self.note(node, "power cut", &[], "");
        self.0.network.power_off(node);
        self.end_life(node);
        self.disk(node).power_cut_by(choose);
    }

    /// Makes the machine ready for a new process, which the scenario starts.
    pub fn restart(&self, node: NodeId) {
        let machine = {
            let mut nodes = self.nodes();
            let n = nodes.get_mut(&node).expect("a node of this world");
            assert!(!n.life.is_alive(), "kill {} before restarting it", n.name);
            n.life = Life::default();
            n.incarnation += 1;
            n.stopped = false;
            n.machine
        };
        self.note(node, "restarted", &[], "");
        self.0.network.power_on(node);
        self.0.runtime.restart(machine);
    }

    /// Stops all tasks of a node for a while, as a long garbage collection or SIGSTOP does; its kernel goes on.
    pub fn pause(&self, node: NodeId) {
        self.note(node, "paused", &[], "");
        let (machine, pauses) = self.change(node, |n| {
            n.pauses += 1;
            (n.machine, n.pauses)
        });
        sometimes!(pauses > 1, "a machine was paused twice at once");
        self.0.runtime.pause(machine);
    }

    /// Ends one [`World::pause`]; the node goes on when none is left.
    pub fn resume(&self, node: NodeId) {
        let (machine, left) = self.change(node, |n| {
            n.pauses = n.pauses.saturating_sub(1);
            (n.machine, n.pauses)
        });
        if left == 0 {
            self.note(node, "resumed", &[], "");
            self.0.runtime.resume(machine);
        }
    }

    /// Ends every [`World::pause`] of a node.
    pub fn resume_fully(&self, node: NodeId) {
        if self.with(node, |n| n.pauses) > 0 {
            self.change(node, |n| n.pauses = 1);
            self.resume(node);
        }
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

    /// What starts a machine's process: [`World::boot`] calls it.
    pub fn set_program(&self, node: NodeId, program: impl Fn(&World) + Send + Sync + 'static) {
        self.change(node, |n| n.program = Some(Arc::new(program)));
    }

    /// Starts a machine's process, which must not run already.
    pub fn run_program(&self, node: NodeId) {
        if let Some(program) = self.with(node, |n| n.program.clone()) {
            program(self);
        }
    }

    /// Switches a machine on that is off, and starts its process. Does nothing if it runs or has none.
    pub fn boot(&self, node: NodeId) {
        let program = self.with(node, |n| n.program.clone());
        if let (Some(program), false) = (program, self.is_alive(node)) {
            self.restart(node);
            program(self);
        }
    }

    /// Takes the way to ask a node's process to stop, from its start on.
    pub fn can_be_stopped(&self, node: NodeId, stop: oneshot::Sender<()>) {
        self.change(node, |n| n.stop = Some(stop));
    }

    /// Asks a process to stop, as SIGTERM does; false if it cannot be asked or was already.
    pub fn ask_to_stop(&self, node: NodeId) -> bool {
        let stop = self.change(node, |n| n.stop.take());
        self.note(node, "asked to stop", &[], "");
        stop.is_some_and(|stop| stop.send(()).is_ok())
    }

    /// The process has stopped as it was asked to.
    pub fn stopped(&self, node: NodeId) {
        self.note(node, "stopped", &[], "");
        self.change(node, |n| n.stopped = true);
    }

    /// True once it has.
    pub fn has_stopped(&self, node: NodeId) -> bool {
        self.with(node, |n| n.stopped)
    }

    /// From now on a node's process may end by itself, or refuse to start: its disk is to blame.
    pub fn excuse(&self, node: NodeId) {
        self.change(node, |n| n.excused = true);
    }

    /// True if a node's process may end by itself.
    pub fn is_excused(&self, node: NodeId) -> bool {
        self.with(node, |n| n.excused)
    }

    /// Ends [`World::excuse`]; true if there was one.
    pub fn take_excuse(&self, node: NodeId) -> bool {
        self.change(node, |n| std::mem::take(&mut n.excused))
    }

    /// Which life of its process a node lives, from 1 on.
    pub fn incarnation(&self, node: NodeId) -> u64 {
        self.with(node, |n| n.incarnation)
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

    /// Shuts one direction for a fault of this kind. Several faults may shut the same link; the last to end opens it.
    pub fn shut_link(&self, from: NodeId, to: NodeId, state: LinkState, kind: &'static str) {
        self.disturbed().entry((from, to)).or_default().push((state, kind));
        self.set_link(from, to);
    }

    /// Ends one [`World::shut_link`].
    pub fn open_link(&self, from: NodeId, to: NodeId, state: LinkState, kind: &'static str) {
        {
            let mut disturbed = self.disturbed();
            let Some(causes) = disturbed.get_mut(&(from, to)) else { return };
            let Some(index) = causes.iter().position(|cause| *cause == (state, kind)) else { return };
            causes.remove(index);
        }
        self.set_link(from, to);
    }

    /// Opens every link.
    pub fn open_all_links(&self) {
        self.disturbed().clear();
        self.0.network.heal();
    }

    /// A cut is stronger than a clog.
    fn set_link(&self, from: NodeId, to: NodeId) {
        let causes = self.disturbed().get(&(from, to)).cloned().unwrap_or_default();
        let cut = causes.iter().find(|(state, _)| *state == LinkState::Cut);
        let (state, kind) = match cut.or(causes.last()) {
            Some((state, kind)) => (*state, Some(*kind)),
            None => (LinkState::Open, None),
        };
        self.0.network.set_link_because(from, to, state, kind);
    }

    fn disturbed(&self) -> MutexGuard<'_, BTreeMap<(NodeId, NodeId), Vec<(LinkState, &'static str)>>> {
        self.0.disturbed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True while packets pass between two nodes, both ways.
    pub fn is_linked(&self, a: NodeId, b: NodeId) -> bool {
        let disturbed = self.disturbed();
        [(a, b), (b, a)].iter().all(|way| disturbed.get(way).is_none_or(Vec::is_empty))
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

    /// A node's address.
    pub fn ip(&self, node: NodeId) -> Ipv4Addr {
        self.with(node, |n| n.ip)
    }

    /// What clients did and saw.
    pub fn history(&self) -> &History {
        &self.0.history
    }

    /// A number for a message that no other has.
    pub fn next_message(&self) -> u64 {
        self.0.messages.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Reports a broken promise from anywhere in the run; the first one counts, and ends the run.
    pub fn violated(&self, violation: Violation) {
        self.note(NodeId::WORLD, "violated", &[], &violation.to_string());
        let mut verdict = self.verdict();
        verdict.violation.get_or_insert(violation);
        if let Some(waker) = verdict.waker.take() {
            waker.wake();
        }
    }

    /// Completes with the first broken promise.
    pub async fn first_violation(&self) -> Violation {
        poll_fn(|cx| {
            let mut verdict = self.verdict();
            verdict.waker = Some(cx.waker().clone());
            verdict.violation.clone().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// The first broken promise that was reported.
    pub fn violation(&self) -> Option<Violation> {
        self.verdict().violation.clone()
    }

    fn verdict(&self) -> MutexGuard<'_, Verdict> {
        self.0.verdict.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Everything noted so far.
    pub fn recording(&self) -> Recording {
        self.0.trace.recording()
    }

    /// Hash and number of events so far.
    pub fn digest(&self) -> (u64, u64) {
        self.0.trace.digest()
    }

    fn end_life(&self, node: NodeId) {
        let machine = self.with(node, |n| {
            n.life.end();
            n.machine
        });
        self.0.runtime.kill(machine);
        let name = self.with(node, |n| n.name.clone());
        self.history().add(node, Event::Down(name.as_str().into()));
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
