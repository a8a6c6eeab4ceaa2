//! Messages with a time of their own come, once, in time and not too early, unless they were taken back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Violation;
use crate::audit::history::{Event, Timed};

const KEPT: &str = "timed messages are kept";
const ONCE: &str = "timed messages come once";
const EARLY: &str = "timed messages are not early";
const LATE: &str = "timed messages come in time";
const RECALLED: &str = "what is taken back does not come";
/// Brokers count whole milliseconds of their own clock.
const PRECISION: Duration = Duration::from_millis(1);

/// What a history says of timed messages.
#[derive(Default)]
struct Story {
    /// When the answer came, and the time that it promised.
    accepted: BTreeMap<u64, (Duration, Duration)>,
    sent: BTreeMap<u64, Duration>,
    consumed: BTreeMap<u64, Duration>,
    found: BTreeMap<u64, usize>,
    recalling: BTreeSet<u64>,
    recalled: BTreeSet<u64>,
    downs: Vec<Duration>,
}

fn read(history: &[Timed]) -> Story {
    let mut story = Story::default();
    for (at, event) in history {
        match event {
            Event::Sending(message) => drop(story.sent.insert(*message, *at)),
            Event::TimedFor(message, delay) => drop(story.accepted.insert(*message, (*at, *delay))),
            Event::Recalling(message) => drop(story.recalling.insert(*message)),
            Event::Recalled(message) => drop(story.recalled.insert(*message)),
            Event::Consumed(_, message, _) => drop(story.consumed.entry(*message).or_insert(*at)),
            Event::Found(message, _) => *story.found.entry(*message).or_default() += 1,
            Event::Down(_) => story.downs.push(*at),
            _ => {}
        }
    }
    story
}

/// Every message that was accepted for a time lies in its queue once in the end; one that was taken back does not. Of one
/// whose broker went down between its sending and `unsafe_for` after the answer nothing is known but that it comes once at
/// most.
pub fn timed_kept(history: &[Timed], unsafe_for: Duration) -> Result<(), Violation> {
    let story = read(history);
    for (message, (accepted, _)) in &story.accepted {
        let found = story.found.get(message).copied().unwrap_or_default();
        if found > 1 {
            return Err(Violation::new(ONCE, format!("{message} lies in {found} places")));
        }
        // The answer may have been on its way when its broker went down.
        let sent = story.sent.get(message).copied().unwrap_or_default();
        let took_it = |down: &Duration| *down >= sent && *down < *accepted + unsafe_for;
        let is_safe = unsafe_for == Duration::ZERO || !story.downs.iter().any(took_it);
        if found == 0 && !story.recalling.contains(message) && is_safe {
            return Err(Violation::new(KEPT, format!("{message} was accepted and is lost")));
        }
        if found > 0 && story.recalled.contains(message) && unsafe_for == Duration::ZERO {
            return Err(Violation::new(RECALLED, format!("{message} was taken back and came")));
        }
    }
    Ok(())
}

/// Nobody gets a message before its time, counted from the beginning of its sending, nor, with a `bound`, later than
/// that after its answer.
pub fn timed_on_time(history: &[Timed], bound: Option<Duration>) -> Result<(), Violation> {
    let story = read(history);
    for (message, (accepted, delay)) in &story.accepted {
        let due = story.sent.get(message).copied().unwrap_or_default() + *delay;
        let Some(at) = story.consumed.get(message) else { continue };
        if *at + PRECISION <= due {
            let (at, due) = (at.as_secs_f64(), due.as_secs_f64());
            return Err(Violation::new(EARLY, format!("{message} came at {at:.3} s, due at {due:.3} s")));
        }
        if bound.is_some_and(|bound| *at > *accepted + *delay + bound) {
            let (at, due) = (at.as_secs_f64(), (*accepted + *delay).as_secs_f64());
            return Err(Violation::new(LATE, format!("{message} came at {at:.3} s, due at {due:.3} s")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, rejects};
    use super::*;

    #[test]
    fn rejects_what_is_lost_twice_or_taken_back() {
        rejects(
            |history| timed_kept(history, Duration::ZERO),
            &[
                ("send 1, timed 1 5", "lost"),
                ("send 1, timed 1 5, found 1 q0:0, found 1 q0:1", "twice in a queue"),
                ("send 1, timed 1 5, found 1 q0:0, found 1 q1:0", "twice in two queues"),
                ("send 1, send 2, timed 1 5, timed 2 5, found 1 q0:0", "the second is lost"),
                ("send 1, timed 1 5, recalling 1, recalled 1, found 1 q0:0", "it was taken back"),
                ("send 1, timed 1 5, at 9, down b, found 2 q0:0", "lost in a crash"),
            ],
        );
        rejects(
            |history| timed_kept(history, Duration::from_secs(6)),
            &[
                ("send 1, timed 1 50, at 7, down b", "safe by then"),
                ("at 3, down b, at 4, send 1, timed 1 5", "the crash came before"),
                ("send 1, timed 1 5, found 1 q0:0, found 1 q0:1", "twice"),
                ("send 1, timed 1 5, at 1, down b, found 1 q0:0, found 1 q0:1", "twice after a crash"),
                ("send 1, timed 1 50", "no crash at all"),
            ],
        );
    }

    #[test]
    fn accepts_what_is_kept() {
        accepts(
            |history| timed_kept(history, Duration::ZERO),
            &[
                ("", "nothing happened"),
                ("send 1, timed 1 5, found 1 q0:0", "once"),
                ("send 1, timed 1 5, recalling 1, recalled 1", "taken back"),
                ("send 1, timed 1 5, recalling 1", "nobody knows whether it is taken back"),
                ("send 1, timed 1 5, recalling 1, found 1 q0:0", "nor here"),
                ("send 1, unknown 1, found 1 q0:0, found 1 q0:1", "no timed message"),
            ],
        );
        accepts(
            |history| timed_kept(history, Duration::from_secs(6)),
            &[
                ("send 1, timed 1 5, at 3, down b", "a power cut took it"),
                ("send 1, timed 1 5, at 3, down b, found 1 q0:0", "or did not"),
                ("send 1, timed 1 5, at 9, down b, found 1 q0:0", "kept"),
                ("send 1, timed 1 5, recalling 1, recalled 1, at 3, down b, found 1 q0:0", "what took it back is lost"),
                ("send 1, refused 1", "refused"),
            ],
        );
    }

    #[test]
    fn rejects_early_and_late_messages() {
        rejects(
            |history| timed_on_time(history, Some(Duration::from_secs(2))),
            &[
                ("send 1, timed 1 5, at 4, got g 1 q0:0", "a second early"),
                ("at 10, send 1, timed 1 5, at 14, got g 1 q0:0", "early, sent later"),
                ("send 1, timed 1 5, at 8, got g 1 q0:0", "late"),
                ("send 1, timed 1 5, at 1, got h 1 q0:0, at 6, got g 1 q0:0", "early for one group"),
                ("at 3, send 1, at 4, timed 1 5, at 12, got g 1 q0:0", "late, counted from the answer"),
            ],
        );
    }

    #[test]
    fn accepts_messages_on_time() {
        accepts(
            |history| timed_on_time(history, Some(Duration::from_secs(2))),
            &[
                ("", "nothing happened"),
                ("send 1, timed 1 5, at 5, got g 1 q0:0", "to the second"),
                ("send 1, timed 1 5, at 7, got g 1 q0:0", "within the bound"),
                ("send 1, timed 1 5, at 6, got g 1 q0:0, at 60, got h 1 q0:0", "again, for another group"),
                ("send 1, unknown 1, at 1, got g 1 q0:0", "not known to be timed"),
                ("send 1, timed 1 5", "not consumed"),
            ],
        );
    }
}
