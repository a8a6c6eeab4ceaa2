//! One run: a plan, in this process, which must have run none before.
//!
//! ractor's registries and actor ids, hash keys and more are global to a process, so a second run in the same process
//! would differ from the first.

use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::pin;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures::future::{select, Either};
use madsim::runtime::{Handle, Runtime};
use madsim::time::TimeHandle;

use crate::checkers::Violation;
use crate::files::{cpu_ms, Stopwatch};
use crate::plan::Plan;
use crate::reach::reach;
use crate::scenarios::{Scenario, Verdict};
use crate::trace::Recording;
use crate::world::{NodeId, Options, World};

/// A run that takes longer in simulated time has failed.
const TIME_LIMIT: Duration = Duration::from_secs(3_600);
/// A run that takes more processor time hangs: something goes round without letting time pass. Real time says little on a
/// machine that is busy, or was stopped for a while.
const CPU_LIMIT: Duration = Duration::from_secs(60);
/// A run that takes longer in real time hangs as well: it waits for something outside of the simulation.
const REAL_TIME_LIMIT: Duration = Duration::from_secs(240);
/// How often the two are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Actors nest futures deeply in debug builds.
const STACK_BYTES: usize = 64 << 20;

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The broken promise, if any.
    pub violation: Option<Violation>,
    /// Hash of all events.
    pub hash: u64,
    /// Number of events.
    pub events: u64,
    /// Simulated time.
    pub simulated: Duration,
    /// When the workload began: the times of the plan count from here.
    pub began: Duration,
    /// What was noted.
    pub recording: Recording,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.violation.is_none() { "ok" } else { "FAIL" };
        let seconds = self.simulated.as_secs_f64();
        write!(f, "{verdict} hash={:016x} simulated={seconds:.3}s events={}", self.hash, self.events)?;
        if let Some(violation) = &self.violation {
            write!(f, " {}", violation.to_string().replace('\n', " "))?;
        }
        Ok(())
    }
}

/// How a run is watched, and whether it leaves its path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch {
    /// Prints every event.
    pub print: bool,
    /// From this time on all that is random comes from other streams, of this number.
    pub branch: Option<(Duration, u64)>,
}

/// The first panic of the run. ractor catches panics of actors, so without this they would pass unseen.
static FIRST_PANIC: OnceLock<Mutex<Option<String>>> = OnceLock::new();

fn first_panic() -> &'static Mutex<Option<String>> {
    FIRST_PANIC.get_or_init(Mutex::default)
}

fn latch_panics(print: bool) {
    first_panic();
    std::panic::set_hook(Box::new(move |info| {
        // Outside a simulation the time is unknown, inside it every panic is one of some task.
        let place = match TimeHandle::try_current() {
            Some(time) => {
                let node = Handle::try_current().is_ok().then(madsim::plugin::node);
                format!("at {:.6}s on machine {}: ", time.elapsed().as_secs_f64(), node.map_or(-1, machine_number))
            }
            None => String::new(),
        };
        let text = format!("{place}{info}");
        if print {
            println!("{text}");
        }
        first_panic().lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(text);
    }));
}

fn machine_number(node: madsim::task::NodeId) -> i64 {
    node.to_string().parse().unwrap_or(-1)
}

/// Runs a plan to its end.
///
/// # Panics
/// If the plan names no scenario; a plan that was read or drawn does.
pub fn run(plan: &Plan, watch: Watch) -> Outcome {
    latch_panics(watch.print);
    let scenario = plan.scenario().expect("a plan of a scenario");
    let plan = plan.clone();
    let (send, receive) = mpsc::channel();
    let thread = std::thread::Builder::new().name("simulation".to_owned()).stack_size(STACK_BYTES);
    thread.spawn(move || drop(send.send(simulate(scenario, plan, watch)))).expect("a thread starts");
    let stopwatch = Stopwatch::start();
    loop {
        let violation = match receive.recv_timeout(LOOK_EVERY) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Disconnected) => judge(None),
            Err(RecvTimeoutError::Timeout) => {
                let (cpu, real) = (Duration::from_millis(cpu_ms()), stopwatch.elapsed());
                if cpu < CPU_LIMIT && real < REAL_TIME_LIMIT {
                    continue;
                }
                let finding =
                    format!("no end after {} s of processor time, {} s in all", cpu.as_secs(), real.as_secs());
                Some(Violation::new("time limit", finding))
            }
        };
        let (zero, recording) = (Duration::ZERO, Recording::default());
        return Outcome { violation, hash: 0, events: 0, simulated: zero, began: zero, recording };
    }
}

fn simulate(scenario: &'static Scenario, plan: Plan, watch: Watch) -> Outcome {
    let options = Options {
        seed: plan.seed,
        print: watch.print,
        canaries: plan.canaries.clone(),
        network: Some(plan.network),
        no_quirks: !plan.quirks,
        branch: watch.branch,
    };
    let runtime = Runtime::with_seed_and_config(plan.schedule, madsim::Config::default());
    let world: Arc<Mutex<Option<(World, TimeHandle)>>> = Arc::default();
    let keep = world.clone();
    let verdict = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async move {
            let world = World::start(&options);
            *keep.lock().unwrap_or_else(PoisonError::into_inner) = Some((world.clone(), TimeHandle::current()));
            play(scenario, world, plan).await
        })
    }));
    let (world, time) = world.lock().unwrap_or_else(PoisonError::into_inner).take().expect("the world began");
    let (hash, events) = world.digest();
    let (violation, simulated, began) = (judge(verdict.ok()), time.elapsed(), world.began());
    let recording = world.take_recording();
    reach(&recording);
    let outcome = Outcome { violation, hash, events, simulated, began, recording };
    // The process ends now; taking apart what global registries still point to serves nothing.
    std::mem::forget((runtime, world));
    outcome
}

async fn play(scenario: &'static Scenario, world: World, plan: Plan) -> Verdict {
    let story = (scenario.play)(world.clone(), Arc::new(plan));
    let trouble = pin!(world.first_violation());
    let limit = world.sleep(TIME_LIMIT);
    let verdict = match select(select(story, trouble), limit).await {
        Either::Left((Either::Left((verdict, _)), _)) => verdict,
        Either::Left((Either::Right((violation, _)), _)) => Err(violation),
        Either::Right(_) => Err(Violation::new("time limit", format!("no end after {} s", TIME_LIMIT.as_secs()))),
    };
    let verdict = world.violation().map_or(verdict, Err);
    if let (Err(violation), None) = (&verdict, world.violation()) {
        world.note(NodeId::WORLD, "violated", &[], &violation.to_string());
    }
    verdict
}

/// A panic counts before anything else: what came later may be its consequence.
fn judge(verdict: Option<Verdict>) -> Option<Violation> {
    let panic = first_panic().lock().unwrap_or_else(PoisonError::into_inner).take();
    match (panic, verdict) {
        (Some(text), _) => Some(Violation::new("panic", text)),
        (None, Some(Ok(()))) => None,
        (None, Some(Err(violation))) => Some(violation),
        (None, None) => Some(Violation::new("panic", "the run ended without a message")),
    }
}
