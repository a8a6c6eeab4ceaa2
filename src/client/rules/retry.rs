//! Whether, and how long, a send is tried again.

use std::time::Duration;

use crate::proto::remoting::response;

/// The pause before the same broker is tried again; the n-th takes n of them.
const PAUSE: Duration = Duration::from_millis(100);

/// What went wrong with an attempt, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The message was certainly not stored.
    NotStored,
    /// The message may be stored.
    Unknown,
    /// Trying again cannot help.
    Final,
}

/// Refusals that say for certain that nothing was stored, so that an ordered send may be repeated.
pub fn certainly_not_stored(code: i32) -> bool {
    matches!(
        code,
        response::SYSTEM_BUSY
            | response::SERVICE_NOT_AVAILABLE
            | response::NO_PERMISSION
            | response::TOPIC_NOT_EXIST
            | response::GO_AWAY
    )
}

/// The attempts of one send. Times are of a monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Attempts {
    left: u32,
    made: u32,
    deadline: Duration,
    /// The queue is given: a second copy there could overtake or repeat.
    fixed: bool,
}

impl Attempts {
    /// At most `1 + retries` attempts, all of them before `deadline`.
    pub fn new(retries: u32, deadline: Duration, fixed: bool) -> Attempts {
        Attempts { left: retries.saturating_add(1), made: 0, deadline, fixed }
    }

    /// Begins an attempt and says how long it may take: all that is left for the last one and where there is only one
    /// broker, else half, so that a broker that hangs leaves time for another (PRO-1). `None`: no time or attempt left.
    pub fn begin(&mut self, now: Duration, other_brokers: bool) -> Option<Duration> {
        let time = self.deadline.saturating_sub(now);
        if self.left == 0 || time.is_zero() {
            return None;
        }
        self.left -= 1;
        self.made += 1;
        Some(if self.left > 0 && other_brokers && !self.fixed { time / 2 } else { time })
    }

    /// An attempt failed: how long to wait before the next one, `None` if there should be none.
    pub fn failed(&self, failure: Failure, now: Duration, other_brokers: bool) -> Option<Duration> {
        let again = match failure {
            Failure::NotStored => true,
            Failure::Unknown => !self.fixed,
            Failure::Final => false,
        };
        let time = self.deadline.saturating_sub(now);
        if !again || self.left == 0 || time.is_zero() {
            return None;
        }
        Some(if other_brokers && !self.fixed { Duration::ZERO } else { (PAUSE * self.made).min(time / 2) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// PRO-1: the first attempt used up the whole time.
    #[test]
    fn pro_1_a_hanging_broker_leaves_time_for_the_others() {
        let mut attempts = Attempts::new(2, 4 * SECOND, false);
        assert_eq!(attempts.begin(Duration::ZERO, true), Some(2 * SECOND));
        assert_eq!(attempts.failed(Failure::Unknown, 2 * SECOND, true), Some(Duration::ZERO));
        assert_eq!(attempts.begin(2 * SECOND, true), Some(SECOND));
        assert_eq!(attempts.begin(3 * SECOND, true), Some(SECOND), "the last takes all that is left");
        assert_eq!(attempts.failed(Failure::NotStored, 3 * SECOND, true), None);
        assert_eq!(attempts.begin(3 * SECOND, true), None);
    }

    #[test]
    fn a_lone_broker_gets_all_the_time_and_a_pause() {
        let mut attempts = Attempts::new(2, 4 * SECOND, false);
        assert_eq!(attempts.begin(Duration::ZERO, false), Some(4 * SECOND));
        assert_eq!(attempts.failed(Failure::NotStored, SECOND, false), Some(PAUSE));
        assert_eq!(attempts.begin(SECOND, false), Some(3 * SECOND));
        assert_eq!(attempts.failed(Failure::NotStored, 2 * SECOND, false), Some(2 * PAUSE));
        assert_eq!(attempts.failed(Failure::Final, 2 * SECOND, false), None);
        assert_eq!(attempts.failed(Failure::NotStored, 4 * SECOND, false), None, "no time left");
    }

    #[test]
    fn an_ordered_message_is_repeated_only_if_it_was_not_stored() {
        let mut attempts = Attempts::new(2, 4 * SECOND, true);
        assert_eq!(attempts.begin(Duration::ZERO, true), Some(4 * SECOND));
        assert_eq!(attempts.failed(Failure::Unknown, SECOND, true), None);
        assert_eq!(attempts.failed(Failure::NotStored, SECOND, true), Some(PAUSE));
        assert!(certainly_not_stored(2) && !certainly_not_stored(1));
    }
}
