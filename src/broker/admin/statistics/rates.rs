//! How fast something counted goes, over the last 10 s, 60 s and 600 s.

use std::collections::VecDeque;
use std::fmt;

use crate::env::Millis;

/// Milliseconds between two samples.
const STEP_MS: u64 = 1_000;
/// The spans of the three rates in milliseconds.
const SPANS_MS: [u64; 3] = [10_000, 60_000, 600_000];

/// Values of a growing number over the last ten minutes.
#[derive(Debug, Default)]
pub(super) struct Rate {
    samples: VecDeque<(Millis, u64)>,
}

impl Rate {
    /// The number has this value now. Values that come faster than once a second are left out.
    pub fn note(&mut self, now: Millis, value: u64) {
        if self.samples.back().is_some_and(|(at, _)| now.since(*at) < STEP_MS) {
            return;
        }
        self.samples.push_back((now, value));
        let longest = SPANS_MS[2];
        while self.samples.get(1).is_some_and(|(at, _)| now.since(*at) >= longest) {
            self.samples.pop_front();
        }
    }

    /// The three rates, for as far as the samples reach.
    pub fn rates(&self) -> Rates {
        Rates(SPANS_MS.map(|span| self.over(span)))
    }

    fn over(&self, span_ms: u64) -> f64 {
        let Some((end, last)) = self.samples.back() else { return 0.0 };
        // Samples are in order: the first one inside the span, and the one before it if that is just outside.
        let begin = self.samples.partition_point(|(at, _)| end.since(*at) > span_ms);
        let Some((start, first)) = self.samples.get(begin) else { return 0.0 };
        match end.since(*start) {
            0 => 0.0,
            elapsed_ms => last.saturating_sub(*first) as f64 * 1000.0 / elapsed_ms as f64,
        }
    }
}

/// Three rates per second; as text joined by blanks, as RocketMQ's tools read them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates(pub [f64; 3]);

impl fmt::Display for Rates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [short, middle, long] = self.0;
        // `{:?}` keeps the `.0` of whole numbers, as Java prints them.
        write!(f, "{short:?} {middle:?} {long:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_spans() {
        let mut rate = Rate::default();
        assert_eq!(rate.rates().to_string(), "0.0 0.0 0.0");
        for second in 0..=1000u64 {
            rate.note(Millis(second as i64 * 1000), second * 50);
            rate.note(Millis(second as i64 * 1000 + 1), 0);
        }
        assert_eq!(rate.rates(), Rates([50.0; 3]));
        assert!(rate.samples.len() <= 602, "{}", rate.samples.len());
        for second in 1001..=1011u64 {
            rate.note(Millis(second as i64 * 1000), 50_000);
        }
        let Rates([short, middle, long]) = rate.rates();
        assert_eq!(short, 0.0);
        assert!(middle > 40.0 && middle < 42.0 && long > 49.0 && long < 50.0, "{middle} {long}");
    }
}
