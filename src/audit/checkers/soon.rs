//! What is promised happens in time once all faults have ended.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Violation;
use crate::audit::history::{Event, Timed};

fn healed(history: &[Timed]) -> Option<Duration> {
    history.iter().rev().find(|(_, event)| matches!(event, Event::Healed)).map(|(at, _)| *at)
}

/// A message that was acknowledged after the last fault reaches every one of `groups` within `limit`, though nobody
/// asks again: whoever waits is told.
pub fn delivered_soon(history: &[Timed], groups: &[&str], limit: Duration) -> Result<(), Violation> {
    let Some(healed) = healed(history) else { return Ok(()) };
    let ended = history.last().map_or(Duration::ZERO, |(at, _)| *at);
    for group in groups {
        let mut waiting: BTreeMap<u64, Duration> = BTreeMap::new();
        let mut got = std::collections::BTreeSet::new();
        for (at, event) in history {
            match event {
                Event::Acknowledged(message, _) if *at >= healed && !got.contains(message) => {
                    waiting.insert(*message, *at);
                }
                Event::Consumed(by, message, _) if **by == **group => {
                    got.insert(*message);
                    if let Some(since) = waiting.remove(message).filter(|since| *since + limit < *at) {
                        return Err(late(group, *message, *at - since));
                    }
                }
                _ => {}
            }
        }
        if let Some((message, since)) = waiting.iter().find(|(_, since)| **since + limit < ended) {
            return Err(late(group, *message, ended - *since));
        }
    }
    Ok(())
}

fn late(group: &str, message: u64, after: Duration) -> Violation {
    let finding = format!("{group} waited {:.3} s for {message}", after.as_secs_f64());
    Violation::new("who waits is told", finding)
}

/// Every send ends, with an answer or without one, within `limit`.
pub fn sends_end(history: &[Timed], limit: Duration) -> Result<(), Violation> {
    let ended = history.last().map_or(Duration::ZERO, |(at, _)| *at);
    let mut running: BTreeMap<u64, Duration> = BTreeMap::new();
    let late = |message: u64| {
        Err(Violation::new("sends end", format!("{message} had no end after {:.3} s", limit.as_secs_f64())))
    };
    for (at, event) in history {
        let message = match event {
            Event::Sending(message) => {
                running.insert(*message, *at);
                continue;
            }
            Event::Acknowledged(message, _) | Event::Scheduled(message, _) | Event::TimedFor(message, _) => message,
            Event::Refused(message) | Event::Unknown(message) => message,
            _ => continue,
        };
        if running.remove(message).is_some_and(|began| began + limit < *at) {
            return late(*message);
        }
    }
    match running.iter().find(|(_, began)| **began + limit < ended) {
        Some((message, _)) => late(*message),
        None => Ok(()),
    }
}

/// After the last fault sends succeed within `limit`: of those that begin later, none is refused or unknown, and if any
/// are begun, one is acknowledged.
pub fn works_again(history: &[Timed], limit: Duration) -> Result<(), Violation> {
    let Some(healed) = healed(history) else { return Ok(()) };
    let mut judged = BTreeMap::new();
    for (at, event) in history {
        match event {
            Event::Sending(message) if *at > healed + limit => {
                judged.insert(*message, *at);
            }
            Event::Refused(message) | Event::Unknown(message) if judged.contains_key(message) => {
                let after = (*at - healed).as_secs_f64();
                let finding = format!("{message} failed {after:.3} s after the last fault");
                return Err(Violation::new("a healed cluster works", finding));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Delayed messages reach every one of `groups` within `limit` of their time, or of the last fault if that is later.
pub fn delayed_soon(history: &[Timed], groups: &[&str], limit: Duration) -> Result<(), Violation> {
    let Some(healed) = healed(history) else { return Ok(()) };
    let ended = history.last().map_or(Duration::ZERO, |(at, _)| *at);
    let mut due: BTreeMap<u64, Duration> = BTreeMap::new();
    for (at, event) in history {
        if let Event::Scheduled(message, delay) = event {
            // Its time counts from some moment between its sending and this answer.
            due.insert(*message, (*at + *delay).max(healed));
        }
    }
    for group in groups {
        let mut got: BTreeMap<u64, Duration> = BTreeMap::new();
        for (at, event) in history {
            if let Event::Consumed(by, message, _) = event {
                if **by == **group {
                    got.entry(*message).or_insert(*at);
                }
            }
        }
        let late = |(message, due): &(&u64, &Duration)| got.get(message).copied().unwrap_or(ended) > **due + limit;
        if let Some((message, due)) = due.iter().find(late) {
            let finding = format!("{group} got {message}, due at {:.3} s, too late or never", due.as_secs_f64());
            return Err(Violation::new("delayed messages come in time", finding));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, rejects};
    use super::*;

    const LIMIT: Duration = Duration::from_secs(2);

    fn told(history: &[Timed]) -> Result<(), Violation> {
        delivered_soon(history, &["g"], LIMIT)
    }

    #[test]
    fn rejects_late_deliveries() {
        rejects(
            told,
            &[
                ("healed, send 1, ack 1 q0:0, at 3, got g 1 q0:0", "late"),
                ("healed, send 1, ack 1 q0:0, at 9, send 2", "never"),
                ("healed, send 1, ack 1 q0:0, got h 1 q0:0, at 3, got g 1 q0:0", "late for one group"),
                (
                    "healed, send 1, ack 1 q0:0, got g 1 q0:0, at 5, send 2, ack 2 q0:1, at 8, got g 2 q0:1",
                    "the second",
                ),
                ("at 5, healed, send 1, at 6, ack 1 q0:0, at 9, got g 1 q0:0", "after a slow send"),
            ],
        );
    }

    #[test]
    fn accepts_deliveries_in_time() {
        accepts(
            told,
            &[
                ("", "nothing happened"),
                ("healed, send 1, ack 1 q0:0, at 2, got g 1 q0:0", "in time"),
                ("healed, send 1, got g 1 q0:0, at 3, ack 1 q0:0, at 9, send 2", "before its sender heard"),
                ("send 1, ack 1 q0:0, at 9, got g 1 q0:0, healed", "while there were faults"),
                ("send 1, ack 1 q0:0, at 1, healed, at 9, got g 1 q0:0", "acknowledged before the last fault"),
                ("healed, at 5, send 1, ack 1 q0:0, at 6, send 2", "the history ends too early to tell"),
                ("healed, send 1, unknown 1, at 9, got g 1 q0:0", "never acknowledged"),
            ],
        );
    }

    fn end(history: &[Timed]) -> Result<(), Violation> {
        sends_end(history, LIMIT)
    }

    #[test]
    fn rejects_endless_sends() {
        rejects(
            end,
            &[
                ("send 1, at 3, ack 1 q0:0", "answered late"),
                ("send 1, at 3, got g 1 q0:0", "never"),
                ("send 1, send 2, ack 2 q0:0, at 3, unknown 1", "one of two"),
                ("send 1, at 5, refused 1", "refused late"),
                ("at 1, send 1, at 2, send 2, ack 1 q0:0, at 9, later 2 5", "scheduled late"),
            ],
        );
    }

    #[test]
    fn accepts_sends_that_end() {
        accepts(
            end,
            &[
                ("", "nothing happened"),
                ("send 1, at 2, ack 1 q0:0", "in time"),
                ("send 1, at 1, unknown 1, at 9, got g 1 q0:0", "without an answer"),
                ("send 1, refused 1, send 2, at 1, later 2 30", "refused and scheduled"),
                ("at 8, send 1, at 9, got g 1 q0:0", "the history ends too early to tell"),
                ("send 1, send 2, send 3, at 1, ack 3 q0:0, ack 1 q0:1, unknown 2", "three at once"),
            ],
        );
    }

    fn works(history: &[Timed]) -> Result<(), Violation> {
        works_again(history, LIMIT)
    }

    #[test]
    fn rejects_failures_after_healing() {
        rejects(
            works,
            &[
                ("healed, at 3, send 1, refused 1", "refused"),
                ("healed, at 3, send 1, at 6, unknown 1", "no answer"),
                ("healed, at 3, send 1, ack 1 q0:0, send 2, refused 2", "one of two"),
                ("at 50, healed, at 60, send 1, unknown 1", "long after"),
                ("healed, at 1, send 1, refused 1, at 3, send 2, refused 2", "and again"),
            ],
        );
    }

    #[test]
    fn accepts_a_cluster_that_works() {
        accepts(
            works,
            &[
                ("", "nothing happened"),
                ("send 1, refused 1", "faults never ended"),
                ("send 1, unknown 1, healed, at 3, send 2, ack 2 q0:0", "failed before"),
                ("healed, at 1, send 1, at 3, unknown 1", "begun too early to judge"),
                ("healed, at 3, send 1, later 1 5", "scheduled"),
            ],
        );
    }

    fn on_time(history: &[Timed]) -> Result<(), Violation> {
        delayed_soon(history, &["g"], LIMIT)
    }

    #[test]
    fn rejects_late_delayed_messages() {
        rejects(
            on_time,
            &[
                ("healed, send 1, later 1 5, at 8, got g 1 q0:0", "a second late"),
                ("healed, send 1, later 1 5, at 50, send 2", "never"),
                ("send 1, later 1 5, at 9, healed, at 12, got g 1 q0:0", "late after the faults"),
                ("healed, send 1, later 1 5, at 5, got h 1 q0:0, at 9, got g 1 q0:0", "in time for another group"),
                ("healed, send 1, send 2, later 1 5, later 2 5, at 5, got g 1 q0:0, at 8, got g 2 q0:1", "one of two"),
            ],
        );
    }

    #[test]
    fn accepts_delayed_messages_in_time() {
        accepts(
            on_time,
            &[
                ("", "nothing happened"),
                ("healed, send 1, later 1 5, at 7, got g 1 q0:0", "in time"),
                ("send 1, later 1 5, at 50, healed, at 52, got g 1 q0:0", "held up by faults"),
                ("healed, send 1, later 1 5, at 6, send 2", "the history ends too early to tell"),
                ("healed, send 1, at 3, later 1 5, at 5, got g 1 q0:0", "the answer was slow"),
                ("healed, send 1, unknown 1, at 50, send 2", "nobody promised"),
            ],
        );
    }
}
