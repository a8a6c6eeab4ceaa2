//! Processes and machines: death, power, pauses, restarts.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Draw, Fault, Harm, Kind};
use crate::world::World;
use crate::{marks, sometimes};

/// Faults of processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ProcessFault {
    /// The process dies (kill -9) and is started again.
    Kill {
        /// Whose.
        machine: String,
        /// Until it is started again.
        down_us: u64,
    },
    /// The machine loses its power and comes back.
    PowerCut {
        /// Which.
        machine: String,
        /// Until it is started again.
        down_us: u64,
    },
    /// The kernel stops and the machine starts again; unsynced data is gone, no write is torn.
    OsCrash {
        /// Which.
        machine: String,
        /// Until it is started again.
        down_us: u64,
    },
    /// All brokers lose their power at one moment.
    PowerCutAll {
        /// Until they are started again.
        down_us: u64,
    },
    /// The process stands still for short moments, many times: a starved machine.
    Stutter {
        /// Whose.
        machine: String,
        /// How long each moment is, and the pause after it.
        step_us: u64,
        /// How many.
        times: u32,
    },
    /// The process is asked to stop (SIGTERM), then the power goes, and it comes back.
    CleanStop {
        /// Whose.
        machine: String,
        /// Until it is started again.
        down_us: u64,
    },
    /// The process stands still (SIGSTOP, a long garbage collection); its kernel goes on.
    Pause {
        /// Whose.
        machine: String,
        /// Until it goes on.
        for_us: u64,
    },
    /// The process dies again and again, shortly after each start.
    CrashLoop {
        /// Whose.
        machine: String,
        /// How many lives.
        times: u32,
        /// The length of a life, and of the pause after it.
        life_us: u64,
    },
}

/// The kinds.
pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "kill",
        harm: Harm::Delay,
        draw: |d| Fault::Process(ProcessFault::Kill { machine: d.server(), down_us: d.us_up_to(5_000) }),
    },
    Kind {
        name: "power_cut",
        harm: Harm::Unsynced,
        draw: |d| Fault::Process(ProcessFault::PowerCut { machine: d.server(), down_us: d.us_up_to(5_000) }),
    },
    Kind {
        name: "os_crash",
        harm: Harm::Unsynced,
        draw: |d| Fault::Process(ProcessFault::OsCrash { machine: d.server(), down_us: d.us_up_to(5_000) }),
    },
    Kind {
        name: "power_cut_all",
        harm: Harm::Unsynced,
        draw: |d| Fault::Process(ProcessFault::PowerCutAll { down_us: d.us_up_to(5_000) }),
    },
    Kind {
        name: "stutter",
        harm: Harm::Delay,
        draw: |d| {
            let (machine, step_us) = (d.server(), d.us_up_to(1_000));
            Fault::Process(ProcessFault::Stutter { machine, step_us, times: d.random.between(2, 20) as u32 })
        },
    },
    Kind {
        name: "clean_stop",
        harm: Harm::Delay,
        draw: |d| Fault::Process(ProcessFault::CleanStop { machine: d.broker(), down_us: d.us_up_to(2_000) }),
    },
    Kind {
        name: "pause",
        harm: Harm::Delay,
        draw: |d| Fault::Process(ProcessFault::Pause { machine: d.server(), for_us: d.us_up_to(30_000) }),
    },
    Kind { name: "crash_loop", harm: Harm::Delay, draw: crash_loop },
];

fn crash_loop(d: &mut Draw<'_>) -> Fault {
    let (machine, times, life_us) = (d.server(), d.random.between(2, 4) as u32, d.us_up_to(1_000));
    Fault::Process(ProcessFault::CrashLoop { machine, times, life_us })
}

/// After a clean stop the power goes this much later at the latest.
const STOP_LIMIT: Duration = Duration::from_secs(60);

impl ProcessFault {
    pub(super) fn lasts_us(&self) -> u64 {
        match self {
            ProcessFault::Kill { down_us, .. }
            | ProcessFault::PowerCut { down_us, .. }
            | ProcessFault::OsCrash { down_us, .. }
            | ProcessFault::PowerCutAll { down_us } => *down_us,
            ProcessFault::Stutter { step_us, times, .. } => 2 * step_us * u64::from(*times),
            ProcessFault::CleanStop { down_us, .. } => STOP_LIMIT.as_micros() as u64 + down_us,
            ProcessFault::Pause { for_us, .. } => *for_us,
            ProcessFault::CrashLoop { times, life_us, .. } => u64::from(*times) * 2 * life_us,
        }
    }

    pub(super) fn apply(&self, world: &World) -> bool {
        let node = |name: &String| world.find(name);
        match self {
            ProcessFault::Kill { machine, down_us } => node(machine).is_some_and(|node| {
                let lived = world.is_alive(node);
                sometimes!(!lived, "a machine was told to die and was dead already");
                if lived {
                    marks::mattered("kill");
                    world.kill(node);
                    boot_later(world, node, *down_us);
                }
                lived
            }),
            ProcessFault::PowerCut { machine, down_us } => node(machine).is_some_and(|node| {
                // A dead process has a machine that can still lose its power.
                let lived = world.is_alive(node);
                sometimes!(!lived, "a machine was told to die and was dead already");
                if lived {
                    marks::mattered("power_cut");
                }
                world.power_cut(node);
                boot_later(world, node, *down_us);
                true
            }),
            ProcessFault::OsCrash { machine, down_us } => node(machine).is_some_and(|node| {
                let lived = world.is_alive(node);
                if lived {
                    marks::mattered("os_crash");
                    world.os_crash(node);
                    boot_later(world, node, *down_us);
                }
                lived
            }),
            ProcessFault::PowerCutAll { down_us } => {
                let brokers = world.nodes_by_name().into_iter().filter(|(name, _)| name.starts_with("broker"));
                let brokers: Vec<_> = brokers.map(|(_, node)| node).collect();
                for node in &brokers {
                    if world.is_alive(*node) {
                        marks::mattered("power_cut_all");
                    }
                    world.power_cut(*node);
                    boot_later(world, *node, *down_us);
                }
                !brokers.is_empty()
            }
            ProcessFault::Stutter { machine, step_us, times } => node(machine).is_some_and(|node| {
                let (step, incarnation) = (Duration::from_micros(*step_us), world.incarnation(node));
                for time in 0..*times {
                    world.later(step * 2 * time, move |world| {
                        if world.is_alive(node) && world.incarnation(node) == incarnation {
                            marks::mattered("stutter");
                            world.pause(node);
                            world.later(step, move |world| world.resume(node));
                        }
                    });
                }
                world.is_alive(node)
            }),
            ProcessFault::CleanStop { machine, down_us } => node(machine).is_some_and(|node| {
                let asked = world.is_alive(node) && world.ask_to_stop(node);
                if asked {
                    marks::mattered("clean_stop");
                    let (world, down_us) = (world.clone(), *down_us);
                    madsim::task::spawn(stop_and_cut(world, node, down_us));
                }
                asked
            }),
            ProcessFault::Pause { machine, for_us } => node(machine).is_some_and(|node| {
                let alive = world.is_alive(node);
                if alive {
                    marks::mattered("pause");
                    world.pause(node);
                    world.later(Duration::from_micros(*for_us), move |world| world.resume(node));
                }
                alive
            }),
            ProcessFault::CrashLoop { machine, times, life_us } => node(machine).is_some_and(|node| {
                marks::mattered("crash_loop");
                for life in 0..u64::from(*times) {
                    let at = Duration::from_micros(life * 2 * life_us);
                    let down_us = *life_us;
                    world.later(at, move |world| {
                        if world.is_alive(node) {
                            world.kill(node);
                            boot_later(world, node, down_us);
                        }
                    });
                }
                true
            }),
        }
    }
}

fn boot_later(world: &World, node: crate::world::NodeId, us: u64) {
    world.later(Duration::from_micros(us), move |world| world.boot(node));
}

/// Waits until the process that was asked to stop has done so, or for too long, and cuts the power.
async fn stop_and_cut(world: World, node: crate::world::NodeId, down_us: u64) {
    let (deadline, incarnation) = (world.now() + STOP_LIMIT, world.incarnation(node));
    while !world.has_stopped(node) && world.incarnation(node) == incarnation {
        if world.now() > deadline {
            return world.violated(crate::checkers::Violation::new("a broker stops cleanly", "it does not end"));
        }
        world.sleep(Duration::from_millis(10)).await;
    }
    if world.incarnation(node) == incarnation && world.has_stopped(node) {
        world.power_cut(node);
        boot_later(&world, node, down_us);
    }
}

/// Lets paused processes go on and starts dead ones.
pub(super) fn heal(world: &World) {
    for node in world.nodes_by_name().into_values() {
        world.resume_fully(node);
        world.boot(node);
    }
}
