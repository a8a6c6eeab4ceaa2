//! A queue's lock has one holder, and comes free.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::Violation;
use crate::audit::history::{Event, Queue, Timed};

/// A group and a queue.
type Of<'a> = (&'a Arc<str>, &'a Queue);

/// No two clients of a group trust in the lock of one queue at the same time, whatever becomes of its broker.
pub fn one_lock_holder(history: &[Timed]) -> Result<(), Violation> {
    let mut holders: BTreeMap<Of<'_>, (&Arc<str>, Duration)> = BTreeMap::new();
    for (at, event) in history {
        match event {
            Event::Locked(group, client, queue, until) => {
                if let Some((other, trusts)) = holders.get(&(group, queue)) {
                    if *other != client && trusts > at {
                        let finding = format!(
                            "{client} got {queue} of {group} at {:.3} s, {other} trusts in it until {:.3} s",
                            at.as_secs_f64(),
                            trusts.as_secs_f64()
                        );
                        return Err(Violation::new("a lock has one holder", finding));
                    }
                }
                holders.insert((group, queue), (client, *until));
            }
            Event::Unlocking(group, client, queue)
                if holders.get(&(group, queue)).is_some_and(|(holder, _)| *holder == client) =>
            {
                holders.remove(&(group, queue));
            }
            _ => {}
        }
    }
    Ok(())
}

/// After all faults have ended, every queue that was ever locked is granted to somebody within `limit`, and again within
/// every further `limit` until the history ends: whoever holds it renews it.
pub fn locks_come_free(history: &[Timed], limit: Duration) -> Result<(), Violation> {
    let Some(healed) = history.iter().rposition(|(_, event)| matches!(event, Event::Healed)) else { return Ok(()) };
    let (began, ended) = (history[healed].0, history.last().map_or(Duration::ZERO, |(at, _)| *at));
    let mut last: BTreeMap<(&Arc<str>, &Queue), Duration> = BTreeMap::new();
    for (index, (at, event)) in history.iter().enumerate() {
        let Event::Locked(group, _, queue, _) = event else { continue };
        let before = last.insert((group, queue), if index < healed { began } else { *at });
        if index >= healed && before.is_some_and(|before| before + limit < *at) {
            return Err(stuck(group, queue, limit));
        }
    }
    match last.iter().find(|(_, at)| **at + limit < ended) {
        Some(((group, queue), _)) => Err(stuck(group, queue, limit)),
        None => Ok(()),
    }
}

fn stuck(group: &str, queue: &Queue, limit: Duration) -> Violation {
    let finding = format!("nobody of {group} could lock {queue} for {} s after the last fault", limit.as_secs());
    Violation::new("locks come free", finding)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, rejects};
    use super::*;

    #[test]
    fn rejects_two_holders() {
        rejects(
            one_lock_holder,
            &[
                ("lock a q0 30, lock b q0 30", "both at once"),
                ("lock a q0 30, at 29, lock b q0 59", "a second too early"),
                ("lock a q0 30, at 20, lock a q0 50, at 40, lock b q0 70", "renewed and taken"),
                ("lock a q0 30, unlock b q0, lock b q0 30", "the other one unlocked it"),
                ("lock a q0 30, down broker, lock b q0 30", "the broker forgot it"),
                ("lock a q0 30, unlock a q1, lock b q0 30", "it gave another queue back"),
            ],
        );
    }

    #[test]
    fn accepts_one_after_the_other() {
        accepts(
            one_lock_holder,
            &[
                ("", "nothing happened"),
                ("lock a q0 30, lock a q0 30", "the same again"),
                ("lock a q0 30, at 30, lock b q0 60", "after its time"),
                ("lock a q0 30, unlock a q0, lock b q0 30", "given back"),
                ("lock a q0 30, lock b q1 30", "two queues"),
                ("lock a q0 30, down broker, at 30, lock b q0 60", "the broker came back"),
                ("lock a q0 30, at 31, lock b q0 61, unlock a q0, at 62, lock c q0 92", "a late unlock of the first"),
            ],
        );
    }

    fn free(history: &[Timed]) -> Result<(), Violation> {
        locks_come_free(history, Duration::from_secs(70))
    }

    #[test]
    fn rejects_stuck_locks() {
        rejects(
            free,
            &[
                ("lock a q0 30, at 10, healed, at 100, got g 1 q0:0", "never again"),
                ("lock a q0 30, at 10, healed, at 81, lock b q0 99", "too late"),
                ("lock a q0 30, lock a q1 30, at 10, healed, at 20, lock a q1 50, at 90, got g 1 q0:0", "one of two"),
                ("at 10, healed, at 20, lock a q0 50, at 91, got g 1 q0:0", "not renewed"),
                ("lock a q0 30, at 10, healed, at 79, lock a q0 109, at 160, lock a q0 190", "a pause between"),
            ],
        );
    }

    #[test]
    fn accepts_free_locks() {
        accepts(
            free,
            &[
                ("", "nothing happened"),
                ("lock a q0 30, at 500, got g 1 q0:0", "faults never ended"),
                ("lock a q0 30, at 10, healed, at 80, lock b q0 110", "just in time"),
                ("lock a q0 30, at 200, healed, at 210, lock b q0 240, at 280, lock b q0 310", "renewed"),
                ("at 10, healed, at 500, got g 1 q0:0", "no locks at all"),
                ("lock a q0 30, at 10, healed, at 50, got g 1 q0:0", "the history ends too early to tell"),
            ],
        );
    }
}
