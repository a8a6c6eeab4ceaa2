//! What a run found out.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{json, Value};

use super::histogram::Histogram;
use crate::cli::console::{say, tell};

/// Counts of one load over one span of time.
#[derive(Clone, Default)]
pub struct Measured {
    /// Messages sent and acknowledged, or received.
    pub messages: u64,
    /// Bytes of their bodies when sent, of their records when received.
    pub bytes: u64,
    /// Answers that were errors, by code, with the first remark.
    pub errors: BTreeMap<i32, (u64, String)>,
    /// From when a request was to be sent to its answer; one count for each message.
    pub latency: Histogram,
    /// The span.
    pub elapsed: Duration,
    /// CPU time that the server used in it, if it runs on this machine.
    pub server_cpu: Option<Duration>,
    /// CPU time that the bench itself used in it.
    pub client_cpu: Duration,
}

impl Measured {
    /// Counts an answer that is an error.
    pub fn error(&mut self, code: i32, remark: impl FnOnce() -> String) {
        self.errors.entry(code).or_insert_with(|| (0, remark())).0 += 1;
    }

    /// Messages per second.
    pub fn rate(&self) -> f64 {
        self.messages as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Megabytes (10^6) per second.
    pub fn megabytes(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// The server's CPU time for a message in µs.
    pub fn server_micros(&self) -> Option<f64> {
        let cpu = self.server_cpu.filter(|_| self.messages > 0)?;
        Some(cpu.as_secs_f64() * 1e6 / self.messages as f64)
    }

    /// Whether the bench was busy all the time, so that the server could have done more.
    pub fn client_bound(&self) -> bool {
        let idle_server = self.server_cpu.is_none_or(|cpu| cpu < self.elapsed.mul_f64(0.9));
        idle_server && self.client_cpu > self.elapsed.mul_f64(0.95)
    }

    /// What to say if there were clearly fewer messages than were to be sent.
    pub fn shortfall(&self, rate: f64) -> Option<String> {
        (self.rate() < 0.95 * rate).then(|| {
            let (got, asked) = (grouped(self.rate() as u64), grouped(rate as u64));
            format!("{got} of {asked} messages per second (--rate): each waits for the one before to be delivered")
        })
    }

    /// A latency in µs.
    pub fn micros(&self, quantile: f64) -> f64 {
        self.latency.quantile(quantile) as f64 / 1e3
    }

    /// For people, one line of results and one for each error.
    pub fn print(&self, name: &str) {
        let cpu = match self.server_micros() {
            Some(micros) => format!("  server {micros:.2} µs/msg"),
            None => String::new(),
        };
        say!(
            "{name:<10} {:>9} msg/s  {:>8.1} MB/s  p50 {}  p99 {}  p99.9 {}  max {}{cpu}",
            grouped(self.rate() as u64),
            self.megabytes(),
            span(self.micros(0.5)),
            span(self.micros(0.99)),
            span(self.micros(0.999)),
            span(self.latency.max() as f64 / 1e3),
        );
        for (code, (count, remark)) in &self.errors {
            say!("{name:<10} {count} answers with code {code}: {remark}");
        }
        if self.client_bound() {
            tell!("note: the bench used its CPU to the full; the server could do more");
        }
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        let errors: BTreeMap<_, _> = self.errors.iter().map(|(code, (count, _))| (code.to_string(), *count)).collect();
        json!({
            "messages": self.messages,
            "seconds": self.elapsed.as_secs_f64(),
            "messagesPerSecond": self.rate(),
            "megabytesPerSecond": self.megabytes(),
            "p50Micros": self.micros(0.5),
            "p99Micros": self.micros(0.99),
            "p999Micros": self.micros(0.999),
            "maxMicros": self.latency.max() as f64 / 1e3,
            "serverCpuMicrosPerMessage": self.server_micros(),
            "clientCpuSeconds": self.client_cpu.as_secs_f64(),
            "clientBound": self.client_bound(),
            "errors": errors,
        })
    }
}

/// µs for people.
pub fn span(micros: f64) -> String {
    match micros {
        0.0..1000.0 => format!("{micros:.0} µs"),
        1000.0..1e6 => format!("{:.2} ms", micros / 1e3),
        _ => format!("{:.2} s", micros / 1e6),
    }
}

/// A number with its thousands set apart.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// The middle one of an odd number of values, the mean of the two in the middle of an even one; 0 of none.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        len => (values[(len - 1) / 2] + values[len / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([7, 1000, 1_234_567].map(grouped), ["7", "1 000", "1 234 567"]);
        assert_eq!([12.3, 1500.0, 2e6].map(span), ["12 µs", "1.50 ms", "2.00 s"]);
        assert_eq!([median(&mut [3.0, 1.0, 2.0]), median(&mut [4.0, 1.0]), median(&mut [])], [2.0, 2.5, 0.0]);
    }

    #[test]
    fn rates() {
        let measured = Measured {
            messages: 1000,
            bytes: 2_000_000,
            elapsed: Duration::from_secs(2),
            server_cpu: Some(Duration::from_millis(5)),
            ..Measured::default()
        };
        assert_eq!((measured.rate(), measured.megabytes(), measured.server_micros()), (500.0, 1.0, Some(5.0)));
        assert!(!measured.client_bound());
        assert_eq!(measured.shortfall(510.0), None);
        assert!(measured.shortfall(1000.0).is_some_and(|said| said.starts_with("500 of 1 000 messages")));
    }
}
