//! Delayed messages come, and not too early.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Violation;
use crate::audit::history::{Event, Timed};

const NAME: &str = "delayed messages are kept and on time";
/// Brokers count whole milliseconds of their own clock.
const PRECISION: Duration = Duration::from_millis(1);

/// Every message that was accepted for later is stored in the end, and nobody got it before its time, counted from the
/// beginning of its sending.
pub fn delayed_on_time(history: &[Timed]) -> Result<(), Violation> {
    let mut sent: BTreeMap<u64, Duration> = BTreeMap::new();
    let mut consumed: BTreeMap<u64, Duration> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for (at, event) in history {
        match event {
            Event::Sending(message) => {
                sent.insert(*message, *at);
            }
            Event::Consumed(_, message, _) => {
                consumed.entry(*message).or_insert(*at);
            }
            Event::Found(message, _) => {
                found.insert(*message);
            }
            _ => {}
        }
    }
    for (_, event) in history {
        let Event::Scheduled(message, delay) = event else { continue };
        if !found.contains(message) {
            return Err(Violation::new(NAME, format!("{message} was accepted for later and is lost")));
        }
        let due = sent.get(message).copied().unwrap_or_default() + *delay;
        if let Some(at) = consumed.get(message).filter(|at| **at + PRECISION <= due) {
            let (at, due) = (at.as_secs_f64(), due.as_secs_f64());
            return Err(Violation::new(NAME, format!("{message} came at {at:.3} s, due at {due:.3} s")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, rejects};
    use super::*;

    #[test]
    fn rejects_lost_and_early_messages() {
        rejects(
            delayed_on_time,
            &[
                ("send 1, later 1 5", "lost"),
                ("send 1, later 1 5, at 4, got g 1 q0:0, found 1 q0:0", "a second early"),
                ("at 10, send 1, later 1 5, at 14, got g 1 q0:0, found 1 q0:0", "early, sent later"),
                ("send 1, send 2, later 1 5, later 2 5, at 5, got g 1 q0:0, found 1 q0:0", "the second is lost"),
                ("send 1, later 1 5, at 1, got h 1 q0:0, at 6, got g 1 q0:0, found 1 q0:0", "early for one group"),
            ],
        );
    }

    #[test]
    fn accepts_messages_on_time() {
        accepts(
            delayed_on_time,
            &[
                ("", "nothing happened"),
                ("send 1, later 1 5, at 5, got g 1 q0:0, found 1 q0:0", "to the second"),
                ("send 1, later 1 5, at 500, got g 1 q0:0, found 1 q0:0", "late"),
                ("send 1, later 1 5, at 9, found 1 q0:0", "stored, not consumed yet"),
                ("send 1, unknown 1, at 3, got g 1 q0:0, found 1 q0:0", "not known to be delayed"),
                ("at 3, send 1, at 4, later 1 5, at 8, got g 1 q0:0, at 9, got g 1 q0:0, found 1 q0:0", "twice"),
            ],
        );
    }
}
