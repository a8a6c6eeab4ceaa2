//! Saying the same thing not too often.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Millis;

/// Kinds that are told apart; what is new beyond them is counted for none.
const KINDS_MAX: usize = 1024;

/// Lets one log line of each kind through in a period and counts those it holds back, so that whoever can cause a line
/// cannot fill the log. Time is monotonic.
#[derive(Debug)]
pub struct LogLimit<K> {
    period_ms: u64,
    kinds: BTreeMap<K, Said>,
}

/// A line that may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Lines of its kind that were held back before it, if there were any.
    pub held_back: Option<u64>,
}

#[derive(Debug)]
struct Said {
    at: Millis,
    held_back: u64,
}

impl<K: Ord + Clone> LogLimit<K> {
    /// One line of each kind in `period`.
    pub fn new(period: Duration) -> LogLimit<K> {
        LogLimit { period_ms: period.as_millis() as u64, kinds: BTreeMap::new() }
    }

    /// Whether a line of this kind is to be written now.
    pub fn pass(&mut self, kind: K, now: Millis) -> Option<Pass> {
        if let Some(said) = self.kinds.get_mut(&kind) {
            if now.since(said.at) < self.period_ms {
                said.held_back += 1;
                return None;
            }
            said.at = now;
            let held_back = Some(std::mem::take(&mut said.held_back)).filter(|lines| *lines > 0);
            return Some(Pass { held_back });
        }
        if self.kinds.len() >= KINDS_MAX {
            return None;
        }
        self.kinds.insert(kind, Said { at: now, held_back: 0 });
        Some(Pass { held_back: None })
    }

    /// The kinds whose period is over, with how many lines of each were held back since: nothing of them came after it
    /// that would tell. They are forgotten.
    pub fn on_tick(&mut self, now: Millis) -> Vec<(K, u64)> {
        let over = |said: &Said| now.since(said.at) >= self.period_ms;
        let over: Vec<K> = self.kinds.iter().filter(|(_, said)| over(said)).map(|(kind, _)| kind.clone()).collect();
        self.take(over)
    }

    /// All kinds of which lines are held back, at the end.
    pub fn finish(&mut self) -> Vec<(K, u64)> {
        let all = self.kinds.keys().cloned().collect();
        self.take(all)
    }

    fn take(&mut self, kinds: Vec<K>) -> Vec<(K, u64)> {
        let counts = kinds.into_iter().filter_map(|kind| {
            let said = self.kinds.remove(&kind)?;
            (said.held_back > 0).then_some((kind, said.held_back))
        });
        counts.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Option<Pass> = Some(Pass { held_back: None });

    #[test]
    fn one_of_a_kind_passes_and_the_others_are_counted() {
        let mut limit = LogLimit::new(Duration::from_secs(10));
        assert_eq!(limit.pass("a", Millis(0)), FIRST);
        assert_eq!(limit.pass("b", Millis(1)), FIRST, "kinds do not hold each other back");
        for at in 1..=5 {
            assert_eq!(limit.pass("a", Millis(at)), None);
        }
        assert_eq!(limit.pass("a", Millis(10_000)), Some(Pass { held_back: Some(5) }));
        assert_eq!(limit.pass("a", Millis(10_001)), None);
        assert_eq!(limit.on_tick(Millis(10_002)), [], "nothing of b was held back");
        assert_eq!(limit.on_tick(Millis(20_000)), [("a", 1)]);
        assert_eq!(limit.on_tick(Millis(40_000)), []);
        assert_eq!(limit.pass("a", Millis(40_000)), FIRST, "what is forgotten begins anew");
    }

    #[test]
    fn what_is_held_back_at_the_end_is_told() {
        let mut limit = LogLimit::new(Duration::from_secs(10));
        for _ in 0..3 {
            limit.pass("a", Millis(0));
        }
        limit.pass("b", Millis(0));
        assert_eq!(limit.finish(), [("a", 2)]);
    }

    #[test]
    fn kinds_are_bounded() {
        let mut limit = LogLimit::new(Duration::from_secs(10));
        let passed = (0..2 * KINDS_MAX).filter(|kind| limit.pass(*kind, Millis(0)).is_some()).count();
        assert_eq!(passed, KINDS_MAX);
        assert_eq!(limit.on_tick(Millis(10_000)), []);
        assert_eq!(limit.pass(usize::MAX, Millis(10_000)), FIRST);
    }
}
