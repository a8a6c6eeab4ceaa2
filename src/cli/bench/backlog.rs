//! A broker that holds very many messages, beside one that holds few.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde_json::{json, Value};

use super::beside::Beside;
use super::local::{DataFolder, Ground, PrivateBroker};
use super::measured::{grouped, Measured};
use super::restart::Restart;
use super::target::Target;
use super::work::{Bench, Extent, Sends};
use crate::cli::console::{say, tell};
use crate::env::real::{self, process};

/// The topic of both brokers.
const TOPIC: &str = "metaq_backlog";
/// Parts in which the backlog is made; the rate of each is told.
const PARTS: u64 = 20;
/// Messages at the end of the queues that count as the new ones, and what the other broker holds.
const NEW_MESSAGES: u64 = 1_000_000;
/// No part takes longer.
const PART_LIMIT: Duration = Duration::from_secs(3600);

/// Arguments of `metaq bench backlog`.
#[derive(Debug, Args)]
pub struct BacklogArgs {
    /// Messages that wait
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    messages: u64,
    /// Bytes of a message's body; a record takes about 170 more
    #[arg(long, value_name = "BYTES", default_value_t = 20)]
    size: usize,
    /// Rounds of a comparison, each of 1.5 s with either broker; 0 only makes the backlog
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// Keep the backlog in this folder, and use what is there already
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Folder for what is not kept; the system's temporary one by default
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Any key of broker.conf for the brokers, as often as needed
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// What a part of the filling was like.
struct Part {
    messages: u64,
    rate: f64,
    memory: u64,
}

/// Runs `metaq bench backlog`.
pub fn run(bench: &Bench, args: BacklogArgs) -> Result<ExitCode> {
    let data = args.data.clone().unwrap_or_else(std::env::temp_dir);
    let ground = Ground { env: real::env(), data, settings: args.set.clone(), cpu: None };
    let folder = match args.folder.clone() {
        Some(folder) => DataFolder::kept(&ground, folder)?,
        None => DataFolder::temporary(&ground, "backlog")?,
    };
    let mut value = serde_json::Map::new();
    let broker = PrivateBroker::start_in(&ground, &folder, &[])?;
    tell!("ready with what the folder holds after {:.0} ms", broker.ready_after.as_secs_f64() * 1e3);
    let parts = fill(bench, &broker, &args)?;
    value.insert("filling".to_owned(), parts.iter().map(Part::to_json).collect());
    if args.rounds > 0 {
        let rows = compare(bench, &ground, &broker, &args)?;
        value.insert("rows".to_owned(), rows);
        let (restart, broker) = Restart::measure(&ground, &folder, broker, |broker| {
            let target = broker.target(&bench.clock, TOPIC)?;
            bench.produce(&target, sends(args.size), extent(2.0, Some(NEW_MESSAGES))).map(drop)
        })?;
        value.insert("restart".to_owned(), restart.to_json());
        if !args.json {
            restart.print();
        }
        drop(broker);
    }
    if args.json {
        say!("{}", Value::Object(value));
    }
    Ok(ExitCode::SUCCESS)
}

/// Sends until as many messages wait as are wanted.
fn fill(bench: &Bench, broker: &PrivateBroker, args: &BacklogArgs) -> Result<Vec<Part>> {
    let target = broker.target(&bench.clock, TOPIC)?;
    let mut there: u64 = target.ends(&bench.clock)?.iter().sum();
    let mut parts = Vec::new();
    while there < args.messages {
        let wanted = (args.messages - there).min((args.messages / PARTS).max(1));
        let part = Extent { warmup: Duration::ZERO, span: PART_LIMIT, messages: Some(wanted) };
        let sent = bench.produce(&target, sends(args.size), part)?;
        refuse_errors(&sent)?;
        there += sent.messages.max(1);
        let part = Part { messages: there, rate: sent.rate(), memory: process::anonymous_memory(broker.process())? };
        tell!(
            "{:>3} %  {:>13} messages  {:>9}/s  {:.1} MB anonymous",
            there * 100 / args.messages,
            grouped(there),
            grouped(part.rate as u64),
            part.memory as f64 / 1e6
        );
        parts.push(part);
    }
    Ok(parts)
}

/// Sends and pulls with the backlog and with little.
fn compare(bench: &Bench, ground: &Ground, large: &PrivateBroker, args: &BacklogArgs) -> Result<Value> {
    let small = PrivateBroker::start(ground, &[])?;
    let (few, many) = (small.target(&bench.clock, TOPIC)?, large.target(&bench.clock, TOPIC)?);
    bench.produce(&few, sends(args.size), extent(60.0, Some(NEW_MESSAGES)))?;
    let (rounds, round) = (args.rounds, || extent(1.5, None));
    let single = Sends { in_flight: 64, batch: 1, ..sends(args.size) };
    if !args.json {
        Beside::print_head("few messages", "the backlog");
    }
    let mut rows = Vec::new();
    let mut done = |row: Beside| {
        if !args.json {
            row.print();
        }
        rows.push(row.to_json());
    };
    let send = |target: &Target, sends| bench.produce(target, sends, round());
    done(Beside::measure("send, 1 × 64", rounds, |_| send(&few, single), |_| send(&many, single))?);
    let batches = sends(args.size);
    done(Beside::measure("send batches of 32", rounds, |_| send(&few, batches), |_| send(&many, batches))?);
    let pull = |target: &Target, starts| bench.consume_from(target, starts, round());
    let ends = many.ends(&bench.clock)?;
    let of_few = || pull(&few, vec![0; ends.len()]);
    let newest = ends.iter().map(|end| end.saturating_sub(NEW_MESSAGES / ends.len() as u64));
    let newest: Vec<u64> = newest.collect();
    done(Beside::measure("pull the newest", rounds, |_| of_few(), |_| pull(&many, newest.clone()))?);
    // Each round reads another part of the older half: the first round of one would make the next one's pages present.
    let oldest = |round: usize| ends.iter().map(|end| end / 2 * round as u64 / rounds as u64).collect();
    done(Beside::measure("pull the oldest", rounds, |_| of_few(), |round| pull(&many, oldest(round)))?);
    let memory = [&small, large].map(|broker| process::anonymous_memory(broker.process()));
    let [few, many] = [memory[0].as_ref(), memory[1].as_ref()].map(|bytes| bytes.copied().unwrap_or_default());
    if !args.json {
        say!("{:<24} {:>11.1} MB {:>11.1} MB", "anonymous memory", few as f64 / 1e6, many as f64 / 1e6);
    }
    let memory =
        json!({ "fewAnonymousBytes": few, "backlogAnonymousBytes": many, "messages": ends.iter().sum::<u64>() });
    rows.push(memory);
    Ok(Value::Array(rows))
}

/// The sends that make the backlog.
fn sends(size: usize) -> Sends {
    Sends { connections: 1, in_flight: 8, size, batch: 32, rate: None }
}

fn extent(seconds: f64, messages: Option<u64>) -> Extent {
    Extent { warmup: Duration::from_millis(300), span: Duration::from_secs_f64(seconds), messages }
}

/// A backlog with messages missing would be none.
fn refuse_errors(sent: &Measured) -> Result<()> {
    let error = sent.errors.iter().next();
    error.map_or(Ok(()), |(code, (_, remark))| anyhow::bail!("a send was refused with code {code}: {remark}"))
}

impl Part {
    fn to_json(&self) -> Value {
        json!({ "messages": self.messages, "messagesPerSecond": self.rate, "anonymousBytes": self.memory })
    }
}
