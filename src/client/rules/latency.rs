//! Which brokers a producer avoids because they were slow or failed.

use std::collections::BTreeMap;
use std::time::Duration;

/// An answer that took as long as the first makes its broker avoided for the second; the last row that fits counts.
const AVOIDED_MS: [(u64, u64); 7] =
    [(50, 0), (100, 0), (550, 2_000), (1_800, 5_000), (3_000, 6_000), (5_000, 10_000), (15_000, 30_000)];
/// A failure counts as an answer that took this long.
const FAILURE: Duration = Duration::from_secs(10);

/// Until when brokers are avoided. Times are of a monotonic clock.
#[derive(Clone, Debug, Default)]
pub struct LatencyTable {
    avoided_until: BTreeMap<String, Duration>,
}

impl LatencyTable {
    /// A broker answered after `took`.
    pub fn on_answer(&mut self, broker: &str, took: Duration, now: Duration) {
        let took_ms = took.as_millis() as u64;
        let avoided_ms = AVOIDED_MS.iter().rev().find(|(latency, _)| took_ms >= *latency).map_or(0, |row| row.1);
        if avoided_ms == 0 {
            self.avoided_until.remove(broker);
        } else {
            self.avoided_until.insert(broker.to_owned(), now + Duration::from_millis(avoided_ms));
        }
    }

    /// A send to a broker failed.
    pub fn on_failure(&mut self, broker: &str, now: Duration) {
        self.on_answer(broker, FAILURE, now);
    }

    /// Whether a broker may be chosen.
    pub fn is_available(&self, broker: &str, now: Duration) -> bool {
        self.avoided_until.get(broker).is_none_or(|until| now >= *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_that_of_current_clients() {
        for (took, avoided) in
            [(0, 0), (549, 0), (550, 2000), (1799, 2000), (1800, 5000), (3000, 6000), (5000, 10_000), (60_000, 30_000)]
        {
            let (mut table, now) = (LatencyTable::default(), Duration::from_secs(1));
            table.on_answer("a", Duration::from_millis(took), now);
            assert!(table.is_available("a", now + Duration::from_millis(avoided)), "{took}");
            assert!(avoided == 0 || !table.is_available("a", now + Duration::from_millis(avoided - 1)), "{took}");
        }
    }

    #[test]
    fn a_quick_answer_ends_it() {
        let mut table = LatencyTable::default();
        table.on_failure("a", Duration::ZERO);
        assert!(!table.is_available("a", Duration::from_secs(9)) && table.is_available("b", Duration::ZERO));
        table.on_answer("a", Duration::from_millis(3), Duration::ZERO);
        assert!(table.is_available("a", Duration::ZERO));
    }
}
