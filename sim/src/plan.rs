//! A run as data: what a scenario and a seed expand into, and what a failure is kept as.
//!
//! Everything random that a person may want to take out or change stands here: machines, settings, what clients do, what
//! goes wrong and when. Each part was drawn from a stream of its own and is absolute, so taking one out leaves the
//! others as they were. What is left to the seed while the plan runs (latencies, how a write tears, the order of tasks)
//! also comes from streams by purpose.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context;
use metaq::config::broker::{BrokerConfig, FlushDiskType};
use metaq::env::Canary;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::draft::usual_settings;
use crate::faults::{Fault, Harm, ProcessFault, Roster};
use crate::scenarios::{self, Scenario};

/// A run as data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The scenario that plays it.
    pub scenario: String,
    /// Fixes latencies, torn writes and what programs draw.
    pub seed: u64,
    /// Fixes the order of tasks.
    pub schedule: u64,
    /// Whether this plan must fail, and by which checker: for a planted bug. A kept plan without it must pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub violates: Option<String>,
    /// Planted bugs that are on.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub canaries: BTreeSet<Canary>,
    /// Number of NameServers: `ns-0` and so on.
    pub nameservers: usize,
    /// Number of brokers: `broker-0` and so on.
    pub brokers: usize,
    /// Number of slaves of each broker: `broker-0-slave-1` and so on.
    #[serde(default, skip_serializing_if = "is_none")]
    pub slaves: usize,
    /// How links are.
    pub network: Quality,
    /// Whether rare but legal behaviour inside the product is forced (`Env::buggify`).
    pub quirks: bool,
    /// Settings of all brokers, by RocketMQ's keys, where they are not the usual ones of simulations.
    pub settings: BTreeMap<String, String>,
    /// Producers and consumers.
    pub clients: Vec<Client>,
    /// What goes wrong, and when.
    pub faults: Vec<Timed>,
    /// What stays broken while the rest must go on: it begins when the faults above have ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lasting: Vec<Fault>,
    /// How long the run goes on at least, from the workload's begin.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rest_ms: u64,
    /// What must hold besides the promises of every run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expect: Vec<Expect>,
}

/// How links are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quality {
    /// All as in a good data centre.
    Lan,
    /// Each as the seed gives it, from good to poor.
    Mixed,
}

/// A fault and its time after the workload's begin, in microseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timed {
    /// When it happens.
    pub at_us: u64,
    /// What happens.
    #[serde(flatten)]
    pub fault: Fault,
}

/// A client machine and what it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Client {
    /// Sends messages, one after the other.
    Producer {
        /// The machine.
        name: String,
        /// What it sends.
        sends: Vec<Send>,
    },
    /// A consumer group on one machine.
    Consumer {
        /// The machine.
        name: String,
        /// The group.
        group: String,
        /// Of 1,000 messages, how many it hands back once.
        #[serde(default, skip_serializing_if = "is_zero")]
        hands_back_per_mille: u64,
        /// When it starts.
        #[serde(default, skip_serializing_if = "is_zero")]
        at_us: u64,
    },
}

/// One message to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Send {
    /// Pause before it.
    pub after_us: u64,
    /// The message's number, which no other of the plan has.
    pub message: u64,
    /// Size of its body.
    pub bytes: u32,
    /// Which queue, counted through the queues the client knows.
    pub queue: u32,
    /// The delay level, from 1 on.
    #[serde(default, skip_serializing_if = "is_zero_level")]
    pub delay_level: u32,
    /// Milliseconds that it waits in the timer; 0 is no time of its own.
    #[serde(default, skip_serializing_if = "is_zero_level")]
    pub timer_ms: u32,
    /// Milliseconds after its answer at which it is taken back; 0 is never.
    #[serde(default, skip_serializing_if = "is_zero_level")]
    pub recall_ms: u32,
}

/// What must hold in a run besides the promises of every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expect {
    /// Every send is acknowledged.
    NoFailures,
    /// Nothing is delivered twice.
    NoDuplicates,
    /// Timed messages come within so many milliseconds of their time.
    TimedWithin(u64),
    /// Of 1,000 sends, at least so many are acknowledged.
    AcknowledgedPerMille(u64),
}

/// A broker's name, which is also its master's machine.
pub fn broker_name(index: usize) -> String {
    format!("broker-{index}")
}

/// The machine of a broker's slave.
pub fn slave_name(broker: &str, id: u64) -> String {
    format!("{broker}-slave-{id}")
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_none(number: &usize) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero_level(number: &u32) -> bool {
    *number == 0
}

/// A line of the text form is broken up when it would be longer.
const LINE_MAX: usize = 110;

impl Plan {
    /// Reads the text form.
    pub fn parse(text: &str) -> anyhow::Result<Plan> {
        let plan: Plan = serde_json::from_str(text).context("this is no plan")?;
        plan.scenario()?;
        plan.config()?;
        anyhow::ensure!(plan.brokers > 0 && plan.nameservers > 0, "a plan needs a NameServer and a broker");
        Ok(plan)
    }

    /// The text form: JSON, one fault, client operation or setting a line.
    pub fn text(&self) -> String {
        let mut text = String::new();
        lay_out(&serde_json::to_value(self).expect("a plan is plain data"), 0, &mut text);
        text.push('\n');
        text
    }

    /// The scenario that plays it.
    pub fn scenario(&self) -> anyhow::Result<&'static Scenario> {
        scenarios::find(&self.scenario)
            .with_context(|| format!("no scenario `{}`; `sim list` names them", self.scenario))
    }

    /// The brokers' settings.
    pub fn config(&self) -> anyhow::Result<BrokerConfig> {
        let mut config = BrokerConfig::default();
        for (key, value) in usual_settings() {
            config.set(key, &value)?;
        }
        for (key, value) in &self.settings {
            config.set(key, value)?;
        }
        Ok(config)
    }

    /// True if a send is answered only after a sync.
    pub fn is_sync_flush(&self) -> bool {
        self.config().is_ok_and(|config| config.flush_disk_type == FlushDiskType::SyncFlush)
    }

    /// Its machines by role.
    pub fn roster(&self) -> Roster {
        Roster {
            nameservers: (0..self.nameservers).map(|index| format!("ns-{index}")).collect(),
            brokers: (0..self.brokers).map(broker_name).collect(),
            slaves: (0..self.brokers)
                .flat_map(|broker| (1..=self.slaves as u64).map(move |id| slave_name(&broker_name(broker), id)))
                .collect(),
            clients: self.clients.iter().map(|client| client.name().to_owned()).collect(),
        }
    }

    /// How long clients take if nothing hinders them.
    pub fn workload_us(&self) -> u64 {
        self.clients.iter().map(|client| client.sends().iter().map(|send| send.after_us).sum()).max().unwrap_or(0)
    }

    /// When the last fault has ended.
    pub fn faults_end(&self) -> Duration {
        let end = |timed: &Timed| Duration::from_micros(timed.at_us) + timed.fault.lasts();
        self.faults.iter().map(end).max().unwrap_or_default()
    }

    /// Number of messages to be sent.
    pub fn operations(&self) -> usize {
        self.clients.iter().map(|client| client.sends().len()).sum()
    }

    /// True if a fault may take what was not synced, from a broker that acknowledged it.
    pub fn may_lose(&self) -> bool {
        !self.is_sync_flush() && self.harms().any(Harm::takes_unsynced)
    }

    /// True if nothing keeps a broker that runs from its syncs.
    pub fn syncs_go_on(&self) -> bool {
        let holds_up = |fault: &Fault| match fault {
            Fault::Process(fault) => matches!(fault, ProcessFault::Pause { .. } | ProcessFault::Stutter { .. }),
            Fault::Net(_) | Fault::Wire(_) | Fault::Client(_) => false,
            Fault::Disk(_) | Fault::Clock(_) | Fault::Data(_) => true,
        };
        !self.faults.iter().map(|timed| &timed.fault).chain(&self.lasting).any(holds_up)
    }

    /// True if a clock is set or goes wrong.
    pub fn moves_clocks(&self) -> bool {
        self.harms().any(|harm| harm == Harm::Time)
    }

    fn harms(&self) -> impl Iterator<Item = Harm> + '_ {
        self.faults.iter().map(|timed| &timed.fault).chain(&self.lasting).map(|fault| fault.kind().harm)
    }
}

impl Client {
    /// Its machine.
    pub fn name(&self) -> &str {
        match self {
            Client::Producer { name, .. } | Client::Consumer { name, .. } => name,
        }
    }

    /// What it sends.
    pub fn sends(&self) -> &[Send] {
        match self {
            Client::Producer { sends, .. } => sends,
            Client::Consumer { .. } => &[],
        }
    }
}

/// Writes JSON so that what belongs together stands on one line.
fn lay_out(value: &Value, depth: usize, out: &mut String) {
    let compact = spaced(value);
    let parts: Vec<String> = match value {
        Value::Array(items) if depth == 0 || compact.len() > LINE_MAX => {
            items.iter().map(|item| nested(item, depth)).collect()
        }
        Value::Object(fields) if depth == 0 || compact.len() > LINE_MAX => fields
            .iter()
            .map(|(key, value)| format!("{}: {}", Value::from(key.as_str()), nested(value, depth)))
            .collect(),
        _ => return out.push_str(&compact),
    };
    let (open, close) = if value.is_array() { ('[', ']') } else { ('{', '}') };
    let _ = writeln!(out, "{open}");
    for (index, part) in parts.iter().enumerate() {
        let comma = if index + 1 < parts.len() { "," } else { "" };
        let _ = writeln!(out, "{}{part}{comma}", "  ".repeat(depth + 1));
    }
    let _ = write!(out, "{}{close}", "  ".repeat(depth));
}

fn nested(value: &Value, depth: usize) -> String {
    let mut out = String::new();
    lay_out(value, depth + 1, &mut out);
    out
}

/// JSON on one line with a space behind each comma and colon.
fn spaced(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(spaced).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let field = |(key, value): (&String, &Value)| format!("{}: {}", Value::from(key.as_str()), spaced(value));
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        plain => plain.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plan_survives_its_text_form() {
        for scenario in scenarios::ALL {
            for seed in 0..20 {
                let plan = scenario.plan(seed);
                let text = plan.text();
                assert_eq!(Plan::parse(&text).expect(&text), plan);
                assert!(text.lines().all(|line| line.len() < 200), "{text}");
            }
        }
    }

    #[test]
    fn a_seed_always_gives_the_same_plan_and_another_seed_another() {
        for scenario in scenarios::ALL {
            assert_eq!(scenario.plan(7), scenario.plan(7));
            assert_ne!(scenario.plan(7), scenario.plan(8), "{}", scenario.name);
        }
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        let good = scenarios::ALL[0].plan(1).text();
        for (from, to) in [
            (format!("\"scenario\": \"{}\"", scenarios::ALL[0].name), "\"scenario\": \"no such\"".to_owned()),
            ("\"seed\"".to_owned(), "\"sead\"".to_owned()),
            ("\"settings\": {".to_owned(), "\"settings\": {\"noSuchKey\": \"1\",".to_owned()),
        ] {
            let bad = good.replacen(&from, &to, 1);
            assert!(bad != good && Plan::parse(&bad).is_err(), "{from}");
        }
    }
}
