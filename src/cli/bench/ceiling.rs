//! A broker beside the ceiling probe: short rounds in turn, so that whatever else the machine does hits both.

use std::time::Duration;

use anyhow::Result;
use serde_json::{json, Value};

use super::ballast::Ballast;
use super::consume::AtEnd;
use super::local::{Ground, PrivateBroker, Probe};
use super::measured::{grouped, median, span, Measured};
use super::target::Target;
use super::work::{Bench, Extent, Pulls, Sends};
use crate::cli::console::say;

/// The probe's log. It begins anew when it is full, so its pages are present from the first message on.
const PROBE_BYTES: u64 = 1 << 30;
/// Messages that are there before pulls are measured, in bytes of bodies.
const PRELOAD_BYTES: u64 = 200 << 20;

/// Work that is done by both.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Sends.
    Sends(Sends),
    /// Pulls from topics that hold messages of `size` bytes.
    Pulls {
        /// The pulls.
        pulls: Pulls,
        /// Bytes of a body.
        size: usize,
    },
}

/// What counts in a measurement.
#[derive(Clone, Copy, Debug)]
pub enum Metric {
    /// Messages per second.
    Rate,
    /// This quantile of the latency.
    Latency(f64),
}

impl Metric {
    fn of(self, measured: &Measured) -> f64 {
        match self {
            Metric::Rate => measured.rate(),
            Metric::Latency(quantile) => measured.micros(quantile),
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Metric::Rate => format!("{}/s", grouped(value as u64)),
            Metric::Latency(_) => span(value),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Metric::Rate => "rate",
            Metric::Latency(quantile) if quantile < 0.9 => "p50",
            Metric::Latency(quantile) if quantile < 0.995 => "p99",
            Metric::Latency(_) => "p99.9",
        }
    }
}

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// What was done.
    pub name: &'static str,
    metric: Metric,
    probe: f64,
    broker: f64,
    /// The middle of the rounds' ratios, the lowest and the highest.
    ratio: [f64; 3],
    /// Server CPU in µs per message, probe and broker.
    server_micros: [f64; 2],
}

impl Row {
    fn of(name: &'static str, metric: Metric, rounds: &[(Measured, Measured)]) -> Row {
        let pairs: Vec<_> = rounds.iter().map(|(probe, broker)| (metric.of(probe), metric.of(broker))).collect();
        let mut ratios: Vec<f64> = pairs.iter().map(|(probe, broker)| broker / probe.max(1e-9)).collect();
        let middle = median(&mut ratios);
        let micros = |of: fn(&(Measured, Measured)) -> &Measured| {
            median(&mut rounds.iter().filter_map(|round| of(round).server_micros()).collect::<Vec<_>>())
        };
        Row {
            name,
            metric,
            probe: median(&mut pairs.iter().map(|pair| pair.0).collect::<Vec<_>>()),
            broker: median(&mut pairs.iter().map(|pair| pair.1).collect::<Vec<_>>()),
            ratio: [middle, ratios.first().copied().unwrap_or(0.0), ratios.last().copied().unwrap_or(0.0)],
            server_micros: [micros(|round| &round.0), micros(|round| &round.1)],
        }
    }

    /// For people.
    pub fn print(&self) {
        let [ratio, low, high] = self.ratio;
        let [probe, broker] = self.server_micros;
        say!(
            "{:<20} {:<5} {:>14} {:>14} {:>6.2} ({:.2}–{:.2})  {:>6.2} {:>6.2}",
            self.name,
            self.metric.name(),
            self.metric.show(self.probe),
            self.metric.show(self.broker),
            ratio,
            low,
            high,
            probe,
            broker
        );
    }

    /// The line above the rows.
    pub fn print_head() {
        say!("{:<20} {:<5} {:>14} {:>14} {:>6} {:<13} server µs/msg", "", "", "probe", "broker", "ratio", "(low–high)");
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        json!({
            "work": self.name,
            "metric": self.metric.name(),
            "probe": self.probe,
            "broker": self.broker,
            "ratio": self.ratio[0],
            "ratioLow": self.ratio[1],
            "ratioHigh": self.ratio[2],
            "probeCpuMicros": self.server_micros[0],
            "brokerCpuMicros": self.server_micros[1],
        })
    }
}

/// Work, and what is shown of it.
#[derive(Clone, Debug)]
pub struct Case {
    /// The rows' name.
    pub name: &'static str,
    /// The work.
    pub work: Work,
    /// One row each.
    pub metrics: Vec<Metric>,
}

/// The cases of the whole table, with bodies of `size` bytes.
pub fn cases(size: usize) -> Vec<Case> {
    let sends = |name, connections, in_flight, batch, rate, metrics: &[Metric]| {
        let work = Work::Sends(Sends { connections, in_flight, size, batch, rate });
        Case { name, work, metrics: metrics.to_vec() }
    };
    let pulls = |name, groups| {
        let pulls = Pulls { connections: groups, in_flight: 4, groups, records: 32, at_end: AtEnd::Again };
        Case { name, work: Work::Pulls { pulls, size }, metrics: vec![Metric::Rate] }
    };
    vec![
        sends("send 1 x 64", 1, 64, 1, None, &[Metric::Rate]),
        sends("send 64 x 1", 64, 1, 1, None, &[Metric::Rate]),
        sends("batch of 32", 1, 8, 32, None, &[Metric::Rate]),
        pulls("pull 32, one group", 1),
        pulls("pull 32, two groups", 2),
        sends("lone send", 1, 1, 1, None, &[Metric::Latency(0.5), Metric::Latency(0.99)]),
        sends("open loop 50k/s", 8, 1, 1, Some(50_000.0), &[Metric::Latency(0.99), Metric::Latency(0.999)]),
    ]
}

/// Runs a case in `rounds` rounds.
pub fn compare(
    (bench, ground): (&Bench, &Ground),
    case: &Case,
    (probe, broker): (&Target, &Target),
    rounds: usize,
    extent: Extent,
) -> Result<Vec<Row>> {
    if let Work::Pulls { size, .. } = case.work {
        preload(bench, probe, size)?;
        preload(bench, broker, size)?;
    }
    // One send after another touches few pages.
    let writes =
        matches!(case.work, Work::Sends(sends) if sends.rate.is_none() && sends.connections * sends.in_flight > 1);
    let ballast = if writes { Some(Ballast::new(ground)?) } else { None };
    let turn = |target: &Target| {
        ballast.as_ref().map_or(Ok(()), |ballast| ballast.free(bytes_of_a_round(extent)))?;
        run(bench, case.work, target, extent)
    };
    let mut measured = Vec::new();
    for round in 0..rounds {
        // Each goes first as often as the other.
        let (first, second) = if round % 2 == 0 { (probe, broker) } else { (broker, probe) };
        let (first, second) = (turn(first)?, turn(second)?);
        measured.push(if round % 2 == 0 { (first, second) } else { (second, first) });
    }
    Ok(case.metrics.iter().map(|metric| Row::of(case.name, *metric, &measured)).collect())
}

/// What a server may write in a round.
fn bytes_of_a_round(extent: Extent) -> u64 {
    const PER_SECOND: f64 = 1.5e9;
    const MAX: f64 = 4e9;
    ((extent.warmup + extent.span).as_secs_f64() * PER_SECOND).min(MAX) as u64
}

/// A lone send beside an echo of the same bytes: whether the probe is one.
pub fn honesty(bench: &Bench, probe: &Probe, topic: &str, size: usize, rounds: usize, extent: Extent) -> Result<Row> {
    let sends = Sends { connections: 1, in_flight: 1, size, batch: 1, rate: None };
    let mut measured = Vec::new();
    for _ in 0..rounds {
        let echo = run(bench, Work::Sends(sends), &probe.echo(topic), extent)?;
        measured.push((echo, run(bench, Work::Sends(sends), &probe.target(topic), extent)?));
    }
    Ok(Row::of("probe against echo", Metric::Latency(0.5), &measured))
}

fn run(bench: &Bench, work: Work, target: &Target, extent: Extent) -> Result<Measured> {
    match work {
        Work::Sends(sends) => bench.produce(target, sends, extent),
        Work::Pulls { pulls, .. } => bench.consume(target, pulls, extent),
    }
}

/// Sends what is to be pulled.
pub fn preload(bench: &Bench, target: &Target, size: usize) -> Result<()> {
    let messages = PRELOAD_BYTES / size.max(1) as u64;
    let sends = Sends { connections: 1, in_flight: 4, size, batch: 32, rate: None };
    let extent =
        Extent { warmup: Duration::ZERO, span: Duration::from_secs(60), messages: Some(messages.clamp(1, 1_000_000)) };
    bench.produce(target, sends, extent).map(drop)
}

/// Servers for one case.
pub fn servers(ground: &Ground, settings: &[String]) -> Result<(Probe, PrivateBroker)> {
    Ok((Probe::start(ground, PROBE_BYTES)?, PrivateBroker::start(ground, settings)?))
}

/// A probe alone, for a broker that runs already.
pub fn probe(ground: &Ground) -> Result<Probe> {
    Probe::start(ground, PROBE_BYTES)
}
