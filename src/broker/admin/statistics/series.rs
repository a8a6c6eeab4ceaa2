//! A counter over time: what was counted in the last minute, hour and day.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::env::Millis;
use crate::proto::body::stats::BrokerStatsItem;
use crate::proto::body::BrokerStatsData;

/// Milliseconds between samples of the last minute.
pub(super) const MINUTE_STEP_MS: i64 = 10_000;
const HOUR_STEP_MS: i64 = 600_000;
const DAY_STEP_MS: i64 = 3_600_000;

/// Counts calls and adds up what they bring. Cheap to count in; shared by whoever counts.
#[derive(Debug, Default)]
pub struct Counter {
    calls: AtomicU64,
    sum: AtomicU64,
}

impl Counter {
    /// One call that brought `amount`.
    pub fn add(&self, amount: u64) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(amount, Ordering::Relaxed);
    }

    /// What all calls brought.
    pub fn sum(&self) -> u64 {
        self.sum.load(Ordering::Relaxed)
    }

    /// Number of calls.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

/// A counter's value at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sample {
    at: Millis,
    calls: u64,
    sum: u64,
}

/// Samples of one length of time. Only changes are kept, so an idle counter costs one sample however long it is kept.
#[derive(Debug)]
struct Window {
    step_ms: i64,
    steps: i64,
    due: Millis,
    samples: VecDeque<Sample>,
}

impl Window {
    fn new(step_ms: i64, steps: i64, first: Sample) -> Window {
        Window { step_ms, steps, due: first.at.plus(step_ms), samples: VecDeque::from([first]) }
    }

    fn note(&mut self, now: Sample) {
        if now.at < self.due {
            return;
        }
        self.due = now.at.plus(self.step_ms);
        if self.samples.back().is_none_or(|last| (last.calls, last.sum) != (now.calls, now.sum)) {
            self.samples.push_back(now);
        }
        let begin = now.at.plus(-self.step_ms * self.steps);
        while self.samples.get(1).is_some_and(|second| second.at <= begin) {
            self.samples.pop_front();
        }
    }

    /// Sum, rate and average between the beginning of the window and the last sample.
    fn item(&self) -> BrokerStatsItem {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else {
            return BrokerStatsItem::default();
        };
        let end = self.due.plus(-self.step_ms);
        let begin = first.at.max(end.plus(-self.step_ms * self.steps));
        let (sum, calls, elapsed_ms) = (last.sum - first.sum, last.calls - first.calls, end.since(begin));
        let ratio = |part: f64, whole: u64| if whole == 0 { 0.0 } else { part / whole as f64 };
        BrokerStatsItem {
            avgpt: ratio(sum as f64, calls),
            sum: sum as i64,
            tps: ratio(sum as f64 * 1000.0, elapsed_ms),
        }
    }
}

/// The last minute, hour and day of a counter, sampled every 10 s, 10 min and hour as RocketMQ does.
#[derive(Debug)]
pub(super) struct Series {
    minute: Window,
    hour: Window,
    day: Window,
}

impl Series {
    pub fn new(now: Millis, counter: &Counter) -> Series {
        let first = sample(now, counter);
        Series {
            minute: Window::new(MINUTE_STEP_MS, 6, first),
            hour: Window::new(HOUR_STEP_MS, 6, first),
            day: Window::new(DAY_STEP_MS, 24, first),
        }
    }

    pub fn on_tick(&mut self, now: Millis, counter: &Counter) {
        let now = sample(now, counter);
        self.minute.note(now);
        self.hour.note(now);
        self.day.note(now);
    }

    pub fn data(&self) -> BrokerStatsData {
        BrokerStatsData { stats_day: self.day.item(), stats_hour: self.hour.item(), stats_minute: self.minute.item() }
    }

    /// Per second in the last minute.
    pub fn rate(&self) -> f64 {
        self.minute.item().tps
    }

    #[cfg(test)]
    fn samples(&self) -> usize {
        self.minute.samples.len() + self.hour.samples.len() + self.day.samples.len()
    }
}

fn sample(at: Millis, counter: &Counter) -> Sample {
    Sample { at, calls: counter.calls(), sum: counter.sum() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts `per_step` in one call before each of `steps` ticks, 10 s apart.
    fn run(series: &mut Series, counter: &Counter, now: &mut i64, steps: i64, per_step: u64) {
        for _ in 0..steps {
            if per_step > 0 {
                counter.add(per_step);
            }
            *now += MINUTE_STEP_MS;
            series.on_tick(Millis(*now), counter);
        }
    }

    #[test]
    fn a_steady_rate() {
        let (counter, mut now) = (Counter::default(), 0);
        let mut series = Series::new(Millis(0), &counter);
        assert_eq!(series.rate(), 0.0);
        run(&mut series, &counter, &mut now, 3, 100);
        assert_eq!(series.data().stats_minute, BrokerStatsItem { avgpt: 100.0, sum: 300, tps: 10.0 });
        run(&mut series, &counter, &mut now, 1000, 100);
        let data = series.data();
        assert_eq!(data.stats_minute, BrokerStatsItem { avgpt: 100.0, sum: 600, tps: 10.0 });
        assert_eq!(data.stats_hour, BrokerStatsItem { avgpt: 100.0, sum: 36_000, tps: 10.0 });
        assert_eq!(data.stats_day.tps, 10.0);
    }

    #[test]
    fn what_is_over_is_forgotten() {
        let (counter, mut now) = (Counter::default(), 0);
        let mut series = Series::new(Millis(0), &counter);
        run(&mut series, &counter, &mut now, 10, 5);
        run(&mut series, &counter, &mut now, 6, 0);
        assert_eq!(series.rate(), 0.0, "a minute of silence");
        assert_eq!(series.data().stats_minute.sum, 0);
        run(&mut series, &counter, &mut now, 10_000, 0);
        assert_eq!(series.data(), BrokerStatsData::default());
        assert_eq!(series.samples(), 3, "an idle counter costs one sample each");
        run(&mut series, &counter, &mut now, 1, 60);
        assert_eq!(series.data().stats_minute, BrokerStatsItem { avgpt: 60.0, sum: 60, tps: 1.0 });
    }

    #[test]
    fn samples_are_bounded() {
        let (counter, mut now) = (Counter::default(), 0);
        let mut series = Series::new(Millis(0), &counter);
        run(&mut series, &counter, &mut now, 20_000, 1);
        assert!(series.samples() <= 7 + 7 + 25, "{}", series.samples());
    }
}
