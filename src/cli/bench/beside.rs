//! Rounds of the same work in two places in turn, so that whatever else the machine does hits both.

use anyhow::Result;
use serde_json::{json, Value};

use super::measured::{grouped, median, Measured};
use crate::cli::console::say;

/// How fast work goes here and, in the same rounds, there.
pub struct Beside {
    name: &'static str,
    /// Messages per second, the middle of the rounds.
    reference: f64,
    here: f64,
    /// The middle of the rounds' ratios, the lowest and the highest.
    ratio: [f64; 3],
    /// 99th percentiles of the latency in µs, the middle of the rounds.
    p99_micros: [f64; 2],
}

impl Beside {
    /// Runs `reference` and `here` in turn, each first as often as the other. Both are told the round's number.
    ///
    /// # Errors
    /// Those of the work.
    pub fn measure(
        name: &'static str,
        rounds: usize,
        mut reference: impl FnMut(usize) -> Result<Measured>,
        mut here: impl FnMut(usize) -> Result<Measured>,
    ) -> Result<Beside> {
        let mut pairs = Vec::new();
        for round in 0..rounds.max(1) {
            pairs.push(if round % 2 == 0 {
                let first = reference(round)?;
                (first, here(round)?)
            } else {
                let first = here(round)?;
                (reference(round)?, first)
            });
        }
        let middle = |of: &dyn Fn(&(Measured, Measured)) -> f64| median(&mut pairs.iter().map(of).collect::<Vec<_>>());
        let mut ratios: Vec<f64> = pairs.iter().map(|(there, here)| here.rate() / there.rate().max(1e-9)).collect();
        let ratio = median(&mut ratios);
        Ok(Beside {
            name,
            reference: middle(&|pair| pair.0.rate()),
            here: middle(&|pair| pair.1.rate()),
            ratio: [ratio, ratios.first().copied().unwrap_or(0.0), ratios.last().copied().unwrap_or(0.0)],
            p99_micros: [middle(&|pair| pair.0.micros(0.99)), middle(&|pair| pair.1.micros(0.99))],
        })
    }

    /// The line above the rows.
    pub fn print_head(reference: &str, here: &str) {
        say!("{:<24} {reference:>14} {here:>14} {:>6} (low–high)", "messages/s", "ratio");
    }

    /// For people.
    pub fn print(&self) {
        let [ratio, low, high] = self.ratio;
        let [reference, here] = [self.reference, self.here].map(|rate| grouped(rate as u64));
        say!("{:<24} {reference:>14} {here:>14} {ratio:>6.2} ({low:.2}–{high:.2})", self.name);
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        json!({
            "work": self.name,
            "referencePerSecond": self.reference,
            "messagesPerSecond": self.here,
            "ratio": self.ratio[0],
            "ratioLow": self.ratio[1],
            "ratioHigh": self.ratio[2],
            "referenceP99Micros": self.p99_micros[0],
            "p99Micros": self.p99_micros[1],
        })
    }
}
