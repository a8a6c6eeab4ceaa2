//! A broker with very many queues, beside one queue's topic on the same broker.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{ensure, Result};
use clap::Args;
use serde_json::{json, Value};

use super::beside::Beside;
use super::client::{Link, Load};
use super::frames::{Answer, Numbers, Template};
use super::local::{DataFolder, Ground, PrivateBroker};
use super::measured::{grouped, span, Measured};
use super::restart::Restart;
use super::target::Target;
use super::work::{Bench, Extent, Sends};
use crate::cli::console::{say, tell};
use crate::env::real::{self, process};
use crate::proto::remoting::response;

/// The topic of the reference: four queues.
const TOPIC: &str = "metaq_bench";
/// Parts in which topics are made; the rate of each is told.
const PARTS: usize = 5;
/// No part takes longer.
const PART_LIMIT: Duration = Duration::from_secs(3600);

/// Arguments of `metaq bench queues`.
#[derive(Debug, Args)]
pub struct QueuesArgs {
    /// Queues of the broker
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    queues: usize,
    /// Queues of each topic
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10))]
    per_topic: u32,
    /// Requests that make topics and wait for their answers at once; 1 makes one after the other
    #[arg(long, value_name = "N", default_value_t = 1)]
    in_flight: usize,
    /// Bytes of a message's body
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    size: usize,
    /// Rounds of a comparison, each of 1.5 s
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// Folder for the broker's data; the system's temporary one by default
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Any key of broker.conf for the broker, as often as needed
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// What the broker holds.
#[derive(Clone, Copy)]
struct Holds {
    memory: u64,
    files: usize,
}

impl Holds {
    fn of(broker: &PrivateBroker) -> Result<Holds> {
        let process = broker.process();
        Ok(Holds { memory: process::anonymous_memory(process)?, files: process::open_files(process)? })
    }

    fn print(self, name: &str, queues: usize, before: Holds) {
        let each = self.memory.saturating_sub(before.memory) / queues.max(1) as u64;
        say!("{name:<24} {:.1} MB anonymous, {each} B a queue  {} open files", self.memory as f64 / 1e6, self.files);
    }

    fn to_json(self) -> Value {
        json!({ "anonymousBytes": self.memory, "openFiles": self.files })
    }
}

/// Runs `metaq bench queues`.
pub fn run(bench: &Bench, args: QueuesArgs) -> Result<ExitCode> {
    let data = args.data.clone().unwrap_or_else(std::env::temp_dir);
    let ground = Ground { env: real::env(), data, settings: args.set.clone(), cpu: None };
    let folder = DataFolder::temporary(&ground, "queues")?;
    let broker = PrivateBroker::start_in(&ground, &folder, &[])?;
    let target = broker.target(&bench.clock, TOPIC)?;
    let empty = Holds::of(&broker)?;
    let topics: Vec<String> =
        (0..args.queues.div_ceil(args.per_topic as usize)).map(|number| format!("metaq_queues_{number:06}")).collect();
    let mut value = serde_json::Map::new();
    value.insert("creation".to_owned(), create(bench, &target, &topics, &args)?);
    let created = Holds::of(&broker)?;

    let sends = Sends { connections: 1, in_flight: 64, size: args.size, batch: 1, rate: None };
    let all = Target { queues: args.per_topic, ..target.clone() };
    let once = Extent { warmup: Duration::ZERO, span: PART_LIMIT, messages: Some(args.queues as u64) };
    let first = bench.produce_to(&all, &topics, sends, once)?;
    let used = Holds::of(&broker)?;
    let round = Extent { warmup: Duration::from_millis(300), span: Duration::from_millis(1500), messages: None };
    let row = Beside::measure(
        "send, 1 × 64",
        args.rounds,
        |_| bench.produce(&target, sends, round),
        |_| bench.produce_to(&all, &topics, sends, round),
    )?;
    let busy = Holds::of(&broker)?;
    if !args.json {
        say!("{:<24} {}/s  p99 {}", "first send to each", grouped(first.rate() as u64), span(first.micros(0.99)));
        Beside::print_head("four queues", "all queues");
        row.print();
        empty.print("memory with 4 queues", args.queues, empty);
        created.print("with all topics", args.queues, empty);
        used.print("a message in each queue", args.queues, empty);
        busy.print("after the rounds", args.queues, empty);
    }
    let (restart, broker) = Restart::measure(&ground, &folder, broker, |broker| {
        let target = broker.target(&bench.clock, TOPIC)?;
        let all = Target { queues: args.per_topic, ..target };
        bench.produce_to(&all, &topics, sends, once).map(drop)
    })?;
    if !args.json {
        restart.print();
    }
    drop(broker);
    value.insert("firstSends".to_owned(), first.to_json());
    value.insert("rows".to_owned(), json!([row.to_json()]));
    value.insert("empty".to_owned(), empty.to_json());
    value.insert("created".to_owned(), created.to_json());
    value.insert("used".to_owned(), used.to_json());
    value.insert("busy".to_owned(), busy.to_json());
    value.insert("restart".to_owned(), restart.to_json());
    if args.json {
        say!("{}", Value::Object(value));
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes the topics by request.
fn create(bench: &Bench, target: &Target, topics: &[String], args: &QueuesArgs) -> Result<Value> {
    let mut parts = Vec::new();
    for part in topics.chunks(topics.len().div_ceil(PARTS).max(1)) {
        let mut load = Creation { topics: part, queues: args.per_topic, next: 0, measured: Measured::default() };
        load.measured.elapsed = bench.run(target, args.in_flight.max(1), &mut load, PART_LIMIT)?;
        let measured = load.measured;
        ensure!(measured.errors.is_empty(), "a topic was not made: {:?}", measured.errors);
        let made = parts.len() * part.len() + part.len();
        tell!("{made:>6} topics  {:>7}/s  p50 {}", grouped(measured.rate() as u64), span(measured.micros(0.5)));
        parts.push(json!({ "topics": part.len(), "perSecond": measured.rate(), "p50Micros": measured.micros(0.5) }));
    }
    Ok(Value::Array(parts))
}

/// Requests that make topics.
struct Creation<'a> {
    topics: &'a [String],
    queues: u32,
    next: usize,
    measured: Measured,
}

impl Load for Creation<'_> {
    fn tick(&mut self, links: &mut [Link], now: u64) -> Option<u64> {
        for link in links {
            while let Some(topic) = self.topics.get(self.next) {
                let Some(slot) = link.take(now) else { break };
                let numbers = Numbers { slot, ..Numbers::default() };
                Template::create_topic(topic, self.queues).write(link.out(), numbers);
                self.next += 1;
            }
        }
        None
    }

    fn answered(&mut self, _: (usize, &mut Link), answer: &Answer<'_>, since: u64, now: u64) -> Result<()> {
        match answer.code {
            response::SUCCESS => {
                self.measured.messages += 1;
                self.measured.latency.record(now.saturating_sub(since), 1);
            }
            code => self.measured.error(code, || answer.remark()),
        }
        Ok(())
    }

    fn begin(&mut self) {}

    fn is_done(&self) -> bool {
        let answers = self.measured.messages + self.measured.errors.values().map(|(count, _)| count).sum::<u64>();
        answers as usize >= self.topics.len()
    }

    fn stop(&mut self) {
        self.next = self.topics.len();
    }
}
