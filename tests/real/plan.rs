//! What the simulator's plans say, as far as it can be done to real processes.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

/// A plan, as `cargo run -p sim -- plan processes SEED` prints it.
#[derive(Clone, Debug, Deserialize)]
pub struct Plan {
    pub seed: u64,
    pub nameservers: usize,
    pub brokers: usize,
    pub settings: BTreeMap<String, String>,
    clients: Vec<Client>,
    pub faults: Vec<Timed>,
}

/// Who works, and how much.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Client {
    Producer { sends: Vec<Send> },
    Consumer { hands_back_per_mille: Option<u64> },
}

#[derive(Clone, Debug, Deserialize)]
struct Send {
    after_us: u64,
    bytes: u32,
}

/// A fault and when it begins.
#[derive(Clone, Debug, Deserialize)]
pub struct Timed {
    at_us: u64,
    #[serde(flatten)]
    pub fault: Fault,
}

/// What can be done to processes and to what travels between them. Names of clients all mean the clients' machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    Kill { machine: String, down_us: u64 },
    CleanStop { machine: String, down_us: u64 },
    CrashLoop { machine: String, times: u32, life_us: u64 },
    Pause { machine: String, for_us: u64 },
    Stutter { machine: String, step_us: u64, times: u32 },
    Cut { a: String, b: String, for_us: u64 },
    CutOneWay { from: String, to: String, for_us: u64 },
    Clog { from: String, to: String, for_us: u64 },
    Isolate { machine: String, for_us: u64 },
    Partition { part: Vec<String>, for_us: u64 },
    SlowLink(Way, u64),
    ResetConnections { a: String, b: String },
}

/// One direction between two machines.
#[derive(Clone, Debug, Deserialize)]
pub struct Way {
    pub from: String,
    pub to: String,
    pub for_us: u64,
}

/// What one process of clients is to do.
pub struct Load {
    pub producers: usize,
    /// Messages a second of each.
    pub rate: f64,
    /// The longest body.
    pub size: u32,
    /// Of 1,000 messages so many are handed back.
    pub fail: u64,
}

/// Real machines are given so many times the messages that simulated ones send.
const RATE_FACTOR: f64 = 5.0;
/// Time after the last fault in which clients still work.
const AFTERWARDS: Duration = Duration::from_millis(1_500);

impl Plan {
    /// Reads a plan.
    ///
    /// # Errors
    /// Words, also for a fault that only the simulator can do.
    pub fn parse(text: &str) -> Result<Plan, String> {
        serde_json::from_str(text).map_err(|error| format!("no plan for real processes: {error}"))
    }

    pub fn load(&self) -> Load {
        let sends = || {
            self.clients.iter().filter_map(|client| match client {
                Client::Producer { sends } => Some(sends),
                Client::Consumer { .. } => None,
            })
        };
        let all: Vec<&Send> = sends().flatten().collect();
        let pause_us = all.iter().map(|send| send.after_us).sum::<u64>() as f64 / all.len().max(1) as f64;
        let fail = self.clients.iter().find_map(|client| match client {
            Client::Consumer { hands_back_per_mille } => *hands_back_per_mille,
            Client::Producer { .. } => None,
        });
        Load {
            producers: sends().count().max(1),
            rate: RATE_FACTOR * 1e6 / pause_us.max(1_000.0),
            size: all.iter().map(|send| send.bytes).max().unwrap_or(100),
            fail: fail.unwrap_or(0),
        }
    }

    /// How long clients work.
    pub fn lasts(&self) -> Duration {
        let ends = self.faults.iter().map(|timed| timed.at() + timed.fault.lasts());
        ends.max().unwrap_or_default() + AFTERWARDS
    }
}

impl Timed {
    pub fn at(&self) -> Duration {
        Duration::from_micros(self.at_us)
    }
}

impl Fault {
    pub fn lasts(&self) -> Duration {
        Duration::from_micros(match self {
            Fault::Kill { down_us, .. } | Fault::CleanStop { down_us, .. } => *down_us,
            Fault::CrashLoop { times, life_us, .. } => 2 * u64::from(*times) * life_us,
            Fault::Stutter { step_us, times, .. } => 2 * u64::from(*times) * step_us,
            Fault::Pause { for_us, .. }
            | Fault::Cut { for_us, .. }
            | Fault::CutOneWay { for_us, .. }
            | Fault::Clog { for_us, .. }
            | Fault::Isolate { for_us, .. }
            | Fault::Partition { for_us, .. }
            | Fault::SlowLink(Way { for_us, .. }, _) => *for_us,
            Fault::ResetConnections { .. } => 0,
        })
    }
}
