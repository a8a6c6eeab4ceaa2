//! `metaq bench replication`: how fast a fresh slave copies its master's log, beside a plain copy of the same bytes over
//! TCP, and what waiting for a slave adds to a send, beside the loopback's round trip.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use clap::Args;
use serde_json::{json, Value};

use super::ballast::Ballast;
use super::ceiling;
use super::copy::Source;
use super::local::{Ground, PrivateBroker, PrivateSlave, Sink};
use super::measured::{median, span};
use super::target::{call, Target};
use super::work::{Bench, Extent, Sends};
use crate::cli::console::say;
use crate::env::real::poll::Poller;
use crate::env::real::{self, process};
use crate::proto::body::{from_slice, KvTable};
use crate::proto::remoting::{request, Command};

/// How long a slave may take to have everything.
const LIMIT: Duration = Duration::from_secs(600);
/// How often it is asked how far it is.
const LOOK: Duration = Duration::from_millis(5);
/// Of a round of sends.
const EXTENT: Extent =
    Extent { warmup: Duration::from_millis(300), span: Duration::from_millis(1_500), messages: None };

/// Arguments of `metaq bench replication`.
#[derive(Debug, Args)]
pub struct ReplicationArgs {
    /// How much log is copied, in MiB
    #[arg(long, default_value_t = 2048, value_name = "MIB")]
    log: u64,
    /// Bytes of a message's body
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    size: usize,
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// Any key of broker.conf, as often as needed
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Folder for the data; the system's temporary one by default
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `metaq bench replication`.
///
/// # Errors
/// If a server does not start, or a slave does not catch up.
pub fn run(bench: &Bench, args: &ReplicationArgs) -> Result<()> {
    let data = args.data.clone().unwrap_or_else(std::env::temp_dir);
    let ground = Ground { env: real::env(), data, settings: args.set.clone(), cpu: None };
    let run = Run { bench, ground: &ground, args };
    let (copies, sends) = (run.copies()?, run.sends()?);
    if args.json {
        say!("{}", json!({ "copy": copies, "send": sends }));
    }
    Ok(())
}

struct Run<'a> {
    bench: &'a Bench,
    ground: &'a Ground,
    args: &'a ReplicationArgs,
}

/// One copy of the log by a slave.
struct Copied {
    bytes: u64,
    took: Duration,
    /// CPU time of the slave and of its master meanwhile.
    cpu: [Duration; 2],
}

impl Run<'_> {
    /// The log is copied in turn by a fresh slave and plainly.
    fn copies(&self) -> Result<Value> {
        let master = PrivateBroker::start(self.ground, &[])?;
        let target = master.target(&self.bench.clock, "metaq_bench")?;
        let end = self.fill(&target)?;
        let source = Source::folder(&self.ground.env.disk, &self.bench.clock, master.log())?;
        let ballast = Ballast::new(self.ground)?;
        let (mut plain, mut replicated, mut ratios, mut cpu) = (Vec::new(), Vec::new(), Vec::new(), [0.0; 2]);
        for _ in 0..self.args.rounds.max(1) {
            ballast.free(end)?;
            let sink = Sink::start(self.ground, end)?;
            let took = source.copy(sink.address, end)?;
            drop(sink);
            plain.push(end as f64 / 1e6 / took.as_secs_f64());
            ballast.free(end + (end >> 4))?;
            let copied = self.copied(&master, end)?;
            let rate = copied.bytes as f64 / 1e6 / copied.took.as_secs_f64();
            cpu = copied.cpu.map(|cpu| cpu.as_secs_f64() * 1e9 / copied.bytes as f64);
            ratios.push(rate / plain[plain.len() - 1]);
            replicated.push(rate);
        }
        let (plain, replicated, ratio) = (median(&mut plain), median(&mut replicated), median(&mut ratios));
        let ten = 10.0 * f64::from(1 << 30) / 1e6 / replicated;
        if !self.args.json {
            say!("plain copy     {plain:>8.0} MB/s");
            say!("a fresh slave  {replicated:>8.0} MB/s  ({ratio:.2} of it)  10 GiB in {ten:.1} s");
            say!("CPU            {:>8.2} ns a byte at the slave, {:.2} at its master", cpu[0], cpu[1]);
        }
        Ok(json!({
            "logBytes": end,
            "plainMegabytesPerSecond": plain,
            "megabytesPerSecond": replicated,
            "ratio": ratio,
            "secondsFor10GiB": ten,
            "slaveCpuNanosPerByte": cpu[0],
            "masterCpuNanosPerByte": cpu[1],
        }))
    }

    /// Sends until the log is as long as was asked for; says where it ends.
    fn fill(&self, target: &Target) -> Result<u64> {
        let sends = Sends { connections: 1, in_flight: 8, size: self.args.size, batch: 32, rate: None };
        let wanted = self.args.log << 20;
        loop {
            let end = self.log_end(target.address)?;
            if end >= wanted {
                return Ok(end);
            }
            let messages = (wanted - end) / (self.args.size as u64 + 128) + 32;
            let extent = Extent { warmup: Duration::ZERO, span: LIMIT, messages: Some(messages) };
            self.bench.produce(target, sends, extent)?;
        }
    }

    /// A fresh slave copies the log up to `end`.
    fn copied(&self, master: &PrivateBroker, end: u64) -> Result<Copied> {
        let clock = &self.bench.clock;
        let slave = PrivateSlave::start(self.ground, master)?;
        let times = || -> Result<[Duration; 2]> {
            Ok([process::cpu_time(slave.process())?, process::cpu_time(master.process())?])
        };
        let (began, at, before) = (clock.monotonic(), self.log_end(slave.address())?, times()?);
        self.until("the slave does not catch up", || Ok(self.log_end(slave.address())? >= end))?;
        let (took, after) = (clock.monotonic() - began, times()?);
        let cpu = [after[0].saturating_sub(before[0]), after[1].saturating_sub(before[1])];
        Ok(Copied { bytes: end - at, took, cpu })
    }

    fn log_end(&self, address: SocketAddr) -> Result<u64> {
        self.number(address, "commitLogMaxOffset")
    }

    /// A number of what a broker tells of itself.
    fn number(&self, address: SocketAddr, key: &str) -> Result<u64> {
        let answer = call(&self.bench.clock, address, &Command::request(request::GET_BROKER_RUNTIME_INFO))?;
        let table = from_slice::<KvTable>(&answer.body)?.table;
        let number = table.get(key).with_context(|| format!("the broker does not tell its {key}"))?;
        Ok(number.parse()?)
    }

    /// Waits until a condition holds.
    fn until(&self, what: &str, holds: impl Fn() -> Result<bool>) -> Result<()> {
        let (clock, mut poller) = (&self.bench.clock, Poller::new()?);
        let end = clock.monotonic() + LIMIT;
        while !holds()? {
            if clock.monotonic() > end || process::interrupted() {
                bail!("{what}");
            }
            poller.wait(Some(LOOK), &mut Vec::new())?;
        }
        Ok(())
    }

    /// One send after another: to a broker alone, and to one that waits for a slave.
    fn sends(&self) -> Result<Value> {
        let probe = ceiling::probe(self.ground)?;
        let alone = PrivateBroker::start(self.ground, &[])?;
        let settings = ["brokerRole=SYNC_MASTER", "inSyncReplicas=2"].map(str::to_owned);
        let master = PrivateBroker::start(self.ground, &settings)?;
        let _slave = PrivateSlave::start(self.ground, &master)?;
        self.until("the slave is not in sync", || Ok(self.number(master.address(), "haNodesInSync")? >= 2))?;
        let clock = &self.bench.clock;
        let targets = [probe.echo("echo"), alone.target(clock, "metaq_bench")?, master.target(clock, "metaq_bench")?];
        let one = Sends { connections: 1, in_flight: 1, size: self.args.size, batch: 1, rate: None };
        let mut micros: [Vec<f64>; 3] = Default::default();
        let mut ratios = Vec::new();
        for _ in 0..self.args.rounds.max(1) {
            for (target, micros) in targets.iter().zip(&mut micros) {
                let measured = self.bench.produce(target, one, EXTENT)?;
                if let Some((code, (_, remark))) = measured.errors.first_key_value() {
                    bail!("a send was answered with {code}: {remark}");
                }
                micros.push(measured.micros(0.5));
            }
            let [echo, alone, waiting] = micros.each_ref().map(|micros| micros[micros.len() - 1]);
            ratios.push((waiting - alone) / echo.max(1e-9));
        }
        let ([echo, alone, waiting], ratio) = (micros.map(|mut micros| median(&mut micros)), median(&mut ratios));
        if !self.args.json {
            say!("loopback       {:>8} there and back", span(echo));
            say!(
                "a lone send    {:>8} alone, {} with a slave: {ratio:.2} round trips more",
                span(alone),
                span(waiting)
            );
        }
        Ok(json!({
            "loopbackMicros": echo,
            "aloneMicros": alone,
            "withSlaveMicros": waiting,
            "addedRoundTrips": ratio,
        }))
    }
}
