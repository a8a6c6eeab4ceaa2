//! A limit for log lines that clients can cause as often as they like.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::env::Millis;

/// The least time between two lines.
const BETWEEN_MS: i64 = 10_000;

/// Lets one line through every 10 s.
#[derive(Debug, Default)]
pub(crate) struct Seldom {
    /// When the next line may come, in monotonic time.
    next: AtomicI64,
    left_out: AtomicU64,
}

impl Seldom {
    /// Whether a line may be written now, and how many were left out since the last one. `now` is monotonic.
    pub(crate) fn ask(&self, now: Millis) -> Option<u64> {
        let next = self.next.load(Ordering::Relaxed);
        let after = now.0.saturating_add(BETWEEN_MS);
        let mine =
            now.0 >= next && self.next.compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if mine {
            return Some(self.left_out.swap(0, Ordering::Relaxed));
        }
        self.left_out.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_in_ten_seconds() {
        let seldom = Seldom::default();
        let asked: Vec<_> = [0, 1, 9_999, 10_000, 10_001, 25_000].map(|now| seldom.ask(Millis(now))).into();
        assert_eq!(asked, [Some(0), None, None, Some(2), None, Some(1)]);
    }
}
