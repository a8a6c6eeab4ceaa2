//! When a server that could not be reached is tried again.

use std::time::Duration;

/// The pause after the first failure; it doubles with each further one.
const FIRST: Duration = Duration::from_millis(50);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(2);

/// Failures of one server. Times are of a monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    failures: u32,
    failed_at: Duration,
}

impl Backoff {
    /// It was reached.
    pub fn on_success(&mut self) {
        self.failures = 0;
    }

    /// It was not.
    pub fn on_failure(&mut self, now: Duration) {
        self.failures = self.failures.saturating_add(1);
        self.failed_at = now;
    }

    /// How long to wait before the next attempt.
    pub fn pause(&self, now: Duration) -> Duration {
        let Some(doublings) = self.failures.checked_sub(1) else { return Duration::ZERO };
        let pause = LONGEST.min(FIRST * 2_u32.pow(doublings.min(10)));
        (self.failed_at + pause).saturating_sub(now)
    }

    /// Whether an attempt failed after `since`.
    pub fn failed_since(&self, since: Duration) -> bool {
        self.failures > 0 && self.failed_at >= since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let (mut backoff, now) = (Backoff::default(), Duration::from_secs(9));
        assert_eq!(backoff.pause(now), Duration::ZERO);
        for expected in [50, 100, 200, 400, 800, 1600, 2000, 2000] {
            backoff.on_failure(now);
            assert_eq!(backoff.pause(now), Duration::from_millis(expected));
        }
        assert_eq!(backoff.pause(now + Duration::from_secs(3)), Duration::ZERO);
        assert!(backoff.failed_since(now) && !backoff.failed_since(now + Duration::from_millis(1)));
        backoff.on_success();
        assert_eq!(backoff.pause(now), Duration::ZERO);
    }
}
