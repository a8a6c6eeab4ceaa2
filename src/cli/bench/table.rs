//! `metaq bench ceiling`: everything that has a goal, in one run.

use std::time::Duration;

use anyhow::Result;
use serde_json::{json, Value};

use super::ceiling::{self, Case, Row};
use super::local::{Ground, PrivateBroker};
use super::measured::{grouped, median, span, Measured};
use super::work::{Bench, Extent, Sends};
use crate::cli::console::say;
use crate::env::real::poll::Poller;
use crate::env::real::process;

/// How long an idle broker is watched.
const IDLE: Duration = Duration::from_secs(5);
/// Syncs measured for comparison.
const SYNCS: usize = 300;

/// What is measured, and how.
pub struct Table<'a> {
    /// The bench.
    pub bench: &'a Bench,
    /// Where servers run.
    pub ground: &'a Ground,
    /// The topic.
    pub topic: &'a str,
    /// Bytes of a body.
    pub size: usize,
    /// Rounds of each case.
    pub rounds: usize,
    /// Of one round.
    pub extent: Extent,
    /// Only cases whose name holds this.
    pub only: Option<&'a str>,
}

impl Table<'_> {
    /// Runs everything and prints it as it comes; returns it for programs.
    pub fn run(&self, quiet: bool) -> Result<Value> {
        let mut rows = Vec::new();
        let mut more = serde_json::Map::new();
        if !quiet {
            Row::print_head();
        }
        for case in ceiling::cases(self.size).iter().filter(|case| self.wants(case.name)) {
            for row in self.case(case)? {
                if !quiet {
                    row.print();
                }
                rows.push(row.to_json());
            }
        }
        let others: [(&str, Part<'_>); 3] =
            [("sync", Self::sync_flush), ("roundtrip", Self::roundtrip), ("idle", Self::idle)];
        for (name, part) in others.into_iter().filter(|(name, _)| self.wants(name)) {
            let (lines, value) = part(self)?;
            if !quiet {
                lines.iter().for_each(|line| say!("{line}"));
            }
            more.insert(name.to_owned(), value);
        }
        more.insert("rows".to_owned(), Value::Array(rows));
        Ok(Value::Object(more))
    }

    fn wants(&self, name: &str) -> bool {
        self.only.is_none_or(|only| name.contains(only))
    }

    fn case(&self, case: &Case) -> Result<Vec<Row>> {
        let (probe, broker) = ceiling::servers(self.ground, &[])?;
        let mut rows = Vec::new();
        if case.name == "lone send" {
            rows.push(ceiling::honesty(self.bench, &probe, self.topic, self.size, self.rounds, self.extent)?);
        }
        let targets = (probe.target(self.topic), broker.target(&self.bench.clock, self.topic)?);
        rows.extend(ceiling::compare(
            (self.bench, self.ground),
            case,
            (&targets.0, &targets.1),
            self.rounds,
            self.extent,
        )?);
        Ok(rows)
    }

    /// Sends that wait for the disk.
    fn sync_flush(&self) -> Result<(Vec<String>, Value)> {
        let broker = PrivateBroker::start(self.ground, &["flushDiskType=SYNC_FLUSH".to_owned()])?;
        let target = broker.target(&self.bench.clock, self.topic)?;
        let file = self.ground.data.join(format!("metaq-bench-sync-{:016x}", self.ground.env.rng.next_u64()));
        let (mut lines, mut value) = (Vec::new(), serde_json::Map::new());
        let mut bare = Vec::new();
        for (name, connections, in_flight) in [("64 x 1", 64, 1), ("1 x 64", 1, 64), ("lone", 1, 1)] {
            let sends = Sends { connections, in_flight, size: self.size, batch: 1, rate: None };
            let mut rates = Vec::new();
            let mut middles = Vec::new();
            for _ in 0..self.rounds {
                let times = process::sync_times(&file, SYNCS)?;
                bare.push(median(&mut times.iter().map(|time| time.as_secs_f64() * 1e6).collect::<Vec<_>>()));
                let measured = self.bench.produce(&target, sends, self.extent)?;
                rates.push(measured.rate());
                middles.push(measured.micros(0.5));
            }
            let (rate, p50) = (median(&mut rates), median(&mut middles));
            lines.push(format!(
                "{:<20} {:>12}/s  p50 {}",
                format!("SYNC_FLUSH {name}"),
                grouped(rate as u64),
                span(p50)
            ));
            value.insert(name.to_owned(), json!({ "messagesPerSecond": rate, "p50Micros": p50 }));
        }
        self.ground.env.disk.remove_file(&file)?;
        let bare = median(&mut bare);
        lines.push(format!("{:<20} p50 {}", "bare fdatasync 4 KiB", span(bare)));
        value.insert("bareSyncMicros".to_owned(), json!(bare));
        Ok((lines, Value::Object(value)))
    }

    /// Pulls that wait.
    fn roundtrip(&self) -> Result<(Vec<String>, Value)> {
        let broker = PrivateBroker::start(self.ground, &[])?;
        let target = broker.target(&self.bench.clock, self.topic)?;
        let extent = Extent { span: self.extent.span * self.rounds as u32, ..self.extent };
        let delivered = self.bench.roundtrip(&target, self.size, 1000.0, extent)?;
        let Measured { messages, .. } = delivered.delivery;
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|quantile| delivered.delivery.micros(quantile));
        let line = format!(
            "{:<20} p50 {}  p99 {}  p99.9 {}  ({messages} delivered, {} missed)",
            "send to delivery",
            span(p50),
            span(p99),
            span(p999),
            delivered.missed
        );
        let value = json!({
            "messages": messages, "missed": delivered.missed,
            "p50Micros": p50, "p99Micros": p99, "p999Micros": p999,
        });
        Ok((vec![line], value))
    }

    /// A broker that nobody uses.
    fn idle(&self) -> Result<(Vec<String>, Value)> {
        let clock = &self.bench.clock;
        let (mut readies, mut firsts) = (Vec::new(), Vec::new());
        let mut last = None;
        for _ in 0..self.rounds.max(1) {
            drop(last.take());
            let started = clock.monotonic();
            let broker = PrivateBroker::start(self.ground, &[])?;
            // Making the topic is a first send and its acknowledgement.
            broker.target(clock, self.topic)?;
            firsts.push((clock.monotonic() - started).as_secs_f64() * 1e6);
            readies.push(broker.ready_after.as_secs_f64() * 1e6);
            last = Some(broker);
        }
        let (ready, first) = (median(&mut readies), median(&mut firsts));
        let Some(broker) = last else { return Ok((Vec::new(), Value::Null)) };
        wait(Duration::from_secs(2))?;
        let before = process::cpu_time(broker.process())?;
        wait(IDLE)?;
        let cpu = (process::cpu_time(broker.process())? - before).as_secs_f64() / IDLE.as_secs_f64() * 100.0;
        let memory = process::anonymous_memory(broker.process())?;
        let lines = vec![
            format!("{:<20} ready {}  first acknowledged send {}", "start", span(ready), span(first)),
            format!("{:<20} {:.1} MB anonymous  {cpu:.2} % of a core", "idle", memory as f64 / 1e6),
        ];
        let value = json!({
            "readyMicros": ready, "firstSendMicros": first, "anonymousBytes": memory, "cpuPercent": cpu,
        });
        Ok((lines, value))
    }
}

type Part<'a> = fn(&Table<'a>) -> Result<(Vec<String>, Value)>;

/// Lets time pass.
fn wait(time: Duration) -> Result<()> {
    Poller::new()?.wait(Some(time), &mut Vec::new())?;
    anyhow::ensure!(!process::interrupted(), "interrupted");
    Ok(())
}
