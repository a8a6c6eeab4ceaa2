//! `metaq bench`: how fast a broker is, measured so that the numbers can be trusted.
//!
//! The client is one thread with its own small loop ([`client`]) that sends requests encoded once ([`frames`]).
//! [`probe`] shows what the machine gives at most, [`ceiling`] puts a broker beside it, [`table`] does so for all that
//! has a goal.

mod backlog;
mod ballast;
mod beside;
mod ceiling;
mod client;
mod consume;
mod copy;
mod frames;
mod histogram;
mod library;
mod local;
mod measured;
mod probe;
mod produce;
mod queues;
mod replication;
mod restart;
mod roundtrip;
mod table;
mod target;
mod transactions;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use serde_json::{json, Value};

use self::ceiling::{Case, Metric, Row, Work};
use self::consume::AtEnd;
use self::local::{Ground, PrivateBroker};
use self::measured::Measured;
use self::table::Table;
use self::target::Target;
use self::work::{Bench, Extent, Pulls, Sends};
use crate::cli::console::{say, tell};
use crate::env::real::{self, process};

/// Measure how fast a broker is
///
/// A broker that runs already is found through its NameServer; `--start` starts one for the run, on free ports and with
/// its data in a folder that is removed afterwards. Latencies at a `--rate` count from the time a request was due.
///
///   metaq bench produce --connections 64 --in-flight 1
///   metaq bench produce --start --rate 50000 --connections 8
///   metaq bench ceiling         everything beside what the machine gives at most
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Send messages
    Produce {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        sends: SendArgs,
        /// Run the ceiling probe in turn with the broker and compare
        #[arg(long)]
        against_ceiling: bool,
    },
    /// Pull messages that are there, again and again
    Consume {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        pulls: PullArgs,
        /// Run the ceiling probe in turn with the broker and compare
        #[arg(long)]
        against_ceiling: bool,
    },
    /// Send messages and pull them at once
    Mixed {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        sends: SendArgs,
    },
    /// Send one message at a time to a pull that waits for it
    Roundtrip {
        #[command(flatten)]
        common: Common,
        /// Messages per second; fewer if one takes longer to be delivered
        #[arg(long, default_value_t = 1000.0, value_name = "N")]
        rate: f64,
    },
    /// Send transactions: half message and commit, of a cluster that runs
    Transactions(transactions::TransactionsArgs),
    /// Fill a private broker with very many messages; measure it beside one with few, and its restart
    Backlog(backlog::BacklogArgs),
    /// Make very many topics on a private broker; measure sends to all beside sends to one, memory, and its restart
    Queues(queues::QueuesArgs),
    /// Measure what the client library costs: CPU time a message, beside a loop that does as little as can be
    Client {
        #[command(flatten)]
        common: Common,
    },
    /// Measure everything on private servers, beside the probe: what this machine gives a server without features
    Ceiling {
        #[command(flatten)]
        common: Common,
        /// Only what holds this in its name: send, batch, pull, lone, open, sync, roundtrip, idle
        #[arg(long, value_name = "NAME")]
        only: Option<String>,
    },
    /// Measure replication on private servers, beside a plain copy over TCP and the loopback's round trip
    Replication(replication::ReplicationArgs),
    #[command(hide = true)]
    ProbeServer(probe::ProbeArgs),
    #[command(hide = true)]
    CopySink(copy::SinkArgs),
}

#[derive(Debug, Args)]
struct Common {
    /// NameServers, separated by `;`
    #[arg(
        short = 'n',
        long = "namesrv",
        value_name = "HOST:PORT",
        env = "NAMESRV_ADDR",
        default_value = "127.0.0.1:9876"
    )]
    nameservers: String,
    /// Topic; made by the first message if it is not there
    #[arg(long, default_value = "metaq_bench")]
    topic: String,
    /// Bytes of a message's body
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    size: usize,
    /// How long to measure; rounds of a comparison are 1.5 s
    #[arg(long, value_name = "N")]
    seconds: Option<f64>,
    /// Messages after which it ends earlier
    #[arg(long, value_name = "N")]
    messages: Option<u64>,
    /// Seconds before it, without being counted
    #[arg(long, value_name = "N", default_value_t = 0.3)]
    warmup: f64,
    /// Rounds of a comparison
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// Start a NameServer and a broker for the run
    #[arg(long)]
    start: bool,
    /// Any key of broker.conf for brokers that are started, as often as needed
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Folder for the data of servers that are started; the system's temporary one by default
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Run servers that are started on the first CPU and the bench on the last
    #[arg(long)]
    pin: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct SendArgs {
    /// Connections
    #[arg(long, value_name = "N", default_value_t = 1)]
    connections: usize,
    /// Requests of each connection that wait for answers
    #[arg(long, value_name = "N", default_value_t = 64)]
    in_flight: usize,
    /// Messages of one request
    #[arg(long, value_name = "N", default_value_t = 1)]
    batch: u32,
    /// Messages per second, whether the broker keeps up or not; as many as it takes by default
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
}

#[derive(Debug, Args)]
struct PullArgs {
    /// Connections; they take turns in the groups
    #[arg(long, value_name = "N", default_value_t = 1)]
    connections: usize,
    /// Pulls of each connection that wait for answers
    #[arg(long, value_name = "N", default_value_t = 4)]
    in_flight: usize,
    /// Groups that each read everything
    #[arg(long, value_name = "N", default_value_t = 1)]
    groups: usize,
    /// Messages of one pull
    #[arg(long, value_name = "N", default_value_t = 32)]
    batch: u32,
}

impl SendArgs {
    fn sends(&self, size: usize) -> Sends {
        let SendArgs { connections, in_flight, batch, rate } = *self;
        Sends { connections: connections.max(1), in_flight: in_flight.max(1), size, batch, rate }
    }
}

impl PullArgs {
    fn pulls(&self) -> Pulls {
        let PullArgs { connections, in_flight, groups, batch } = *self;
        let connections = connections.max(groups).max(1);
        Pulls { connections, in_flight: in_flight.max(1), groups, records: batch, at_end: AtEnd::Again }
    }
}

impl Common {
    fn extent(&self, seconds: f64) -> Extent {
        let time = |seconds: f64| Duration::from_secs_f64(seconds.clamp(0.0, 1e6));
        Extent { warmup: time(self.warmup), span: time(self.seconds.unwrap_or(seconds)), messages: self.messages }
    }

    fn ground(&self) -> Result<Ground> {
        let cpus = process::cpus();
        let cpu = match cpus[..] {
            [first, .., last] if self.pin => {
                process::pin(0, last).context("cannot pin the bench to a CPU")?;
                Some(first)
            }
            _ => None,
        };
        let data = self.data.clone().unwrap_or_else(std::env::temp_dir);
        Ok(Ground { env: real::env(), data, settings: self.set.clone(), cpu })
    }

    /// The broker to measure, and, if it was started for that, what ends it when dropped.
    fn target(&self, bench: &Bench, ground: &Ground, make: bool) -> Result<(Target, Option<PrivateBroker>)> {
        if !self.start {
            return Ok((Target::find(&bench.clock, &self.nameservers, &self.topic, make)?, None));
        }
        let broker = PrivateBroker::start(ground, &[])?;
        Ok((broker.target(&bench.clock, &self.topic)?, Some(broker)))
    }

    fn show(&self, results: &[(&str, &Measured)]) {
        if self.json {
            let values = results.iter().map(|(name, measured)| ((*name).to_owned(), measured.to_json()));
            say!("{}", Value::Object(values.collect()));
        } else {
            results.iter().for_each(|(name, measured)| measured.print(name));
        }
    }
}

/// Runs `metaq bench`.
pub fn run(args: BenchArgs) -> Result<ExitCode> {
    if let BenchCommand::ProbeServer(args) = &args.command {
        match probe::serve(args)? {}
    }
    if let BenchCommand::CopySink(args) = &args.command {
        match copy::serve(args)? {}
    }
    process::catch_interrupts();
    let bench = Bench { clock: Arc::clone(&real::env().clock) };
    match args.command {
        BenchCommand::Produce { common, sends, against_ceiling } => {
            let (ground, sends) = (common.ground()?, sends.sends(common.size));
            let (target, _broker) = common.target(&bench, &ground, true)?;
            if against_ceiling {
                let latencies = [Metric::Latency(0.5), Metric::Latency(0.99), Metric::Latency(0.999)];
                let metrics = if sends.rate.is_some() { latencies.to_vec() } else { vec![Metric::Rate, latencies[0]] };
                return against(
                    &bench,
                    &common,
                    &ground,
                    &target,
                    Case { name: "send", work: Work::Sends(sends), metrics },
                );
            }
            let measured = bench.produce(&target, sends, common.extent(5.0))?;
            common.show(&[("produce", &measured)]);
        }
        BenchCommand::Consume { common, pulls, against_ceiling } => {
            let (ground, pulls) = (common.ground()?, pulls.pulls());
            let (target, broker) = common.target(&bench, &ground, common.start)?;
            if against_ceiling {
                let case =
                    Case { name: "pull", work: Work::Pulls { pulls, size: common.size }, metrics: vec![Metric::Rate] };
                return against(&bench, &common, &ground, &target, case);
            }
            if broker.is_some() {
                ceiling::preload(&bench, &target, common.size)?;
            }
            let measured = bench.consume(&target, pulls, common.extent(5.0))?;
            common.show(&[("consume", &measured)]);
        }
        BenchCommand::Mixed { common, sends } => {
            let ground = common.ground()?;
            let (target, _broker) = common.target(&bench, &ground, true)?;
            let pulls = Pulls { connections: 1, in_flight: 4, groups: 1, records: 32, at_end: AtEnd::Wait };
            let (produced, consumed) = bench.mixed(&target, sends.sends(common.size), pulls, common.extent(5.0))?;
            common.show(&[("produce", &produced), ("consume", &consumed)]);
        }
        BenchCommand::Roundtrip { common, rate } => {
            let ground = common.ground()?;
            let (target, _broker) = common.target(&bench, &ground, true)?;
            let delivered = bench.roundtrip(&target, common.size, rate, common.extent(5.0))?;
            common.show(&[("acknowledge", &delivered.acknowledged), ("deliver", &delivered.delivery)]);
            if let Some(shortfall) = delivered.delivery.shortfall(rate) {
                tell!("note: {shortfall}");
            }
            if delivered.missed > 0 {
                tell!("error: {} messages were not delivered within a second", delivered.missed);
                return Ok(ExitCode::from(super::EXIT_REFUSED));
            }
        }
        BenchCommand::Client { common } => {
            let ground = common.ground()?;
            let (target, broker) = common.target(&bench, &ground, true)?;
            let nameservers = broker.as_ref().map_or(common.nameservers.clone(), PrivateBroker::nameserver);
            let rows = library::measure(&bench, &target, &nameservers, common.size, common.extent(3.0))?;
            if common.json {
                say!("{}", rows.iter().map(library::Row::to_json).collect::<Value>());
            } else {
                library::print(&rows);
            }
        }
        BenchCommand::Transactions(args) => return transactions::run(args),
        BenchCommand::Backlog(args) => return backlog::run(&bench, args),
        BenchCommand::Queues(args) => return queues::run(&bench, args),
        BenchCommand::Ceiling { common, only } => {
            let ground = common.ground()?;
            let extent = Extent { messages: Some(common.messages.unwrap_or(600_000)), ..common.extent(1.5) };
            let table = Table {
                bench: &bench,
                ground: &ground,
                topic: &common.topic,
                size: common.size,
                rounds: common.rounds.max(1),
                extent,
                only: only.as_deref(),
            };
            let value = table.run(common.json)?;
            if common.json {
                say!("{value}");
            }
        }
        BenchCommand::Replication(args) => replication::run(&bench, &args)?,
        BenchCommand::ProbeServer(_) | BenchCommand::CopySink(_) => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Compares a broker with the probe.
fn against(bench: &Bench, common: &Common, ground: &Ground, target: &Target, case: Case) -> Result<ExitCode> {
    let probe = ceiling::probe(ground)?;
    let targets = (&probe.target(&common.topic), target);
    let rows = ceiling::compare((bench, ground), &case, targets, common.rounds.max(1), common.extent(1.5))?;
    if common.json {
        say!("{}", json!({ "rows": rows.iter().map(Row::to_json).collect::<Vec<_>>() }));
    } else {
        Row::print_head();
        rows.iter().for_each(Row::print);
    }
    Ok(ExitCode::SUCCESS)
}
