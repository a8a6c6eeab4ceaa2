//! Linearizability of small registers that many clients share: whether a topic is there, where a group is in a queue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Violation;
use crate::audit::history::Event;

const NAME: &str = "registers are linearizable";
/// Operations on one register at most: a history for this checker is a short one.
const OPERATIONS_MAX: usize = 128;

/// One operation, from the event that began it to the one that ended it.
struct Operation {
    begun: usize,
    /// `usize::MAX` if no answer came: a change may have had its effect since, at any time, or never.
    ended: usize,
    change: Change,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Write(Option<u64>),
    Read(Option<u64>),
}

/// Each register goes through one value after the other, every operation has its effect at one moment between its
/// beginning and its end, and every reader is told what was there at its moment (Wing and Gong's search, one register at
/// a time). A register begins without a value. What was refused had no effect; what was not answered may have one later.
pub fn linearizable(events: &[Event]) -> Result<(), Violation> {
    for (register, operations) in collect(events) {
        if operations.len() > OPERATIONS_MAX {
            let finding = format!("{} operations on {register} are too many to be judged", operations.len());
            return Err(Violation::new(NAME, finding));
        }
        let mut search = Search { operations: &operations, seen: BTreeSet::new(), furthest: 0 };
        if !search.goes_on(0, None) {
            let mut stuck = operations.iter().rev().filter(|operation| operation.ended <= search.furthest);
            let told = stuck.find_map(|operation| match operation.change {
                Change::Read(told) => Some(format!("{told:?}")),
                Change::Write(_) => None,
            });
            let told = told.unwrap_or_else(|| "nothing".to_owned());
            let finding = format!("no order of what clients did to {register} explains that a reader was told {told}");
            return Err(Violation::new(NAME, finding));
        }
    }
    Ok(())
}

/// An operation that was begun and not ended yet.
struct Begun {
    register: Arc<str>,
    at: usize,
    /// What it writes, or nothing if it reads.
    write: Option<Option<u64>>,
}

/// The operations on each register that can have had an effect, or tell of one.
fn collect(events: &[Event]) -> BTreeMap<Arc<str>, Vec<Operation>> {
    let mut open: BTreeMap<u64, Begun> = BTreeMap::new();
    let mut done: BTreeMap<Arc<str>, Vec<Operation>> = BTreeMap::new();
    for (now, event) in events.iter().enumerate() {
        match event {
            Event::Writing(number, register, value) => {
                let (register, write) = (Arc::clone(register), Some(*value));
                open.insert(*number, Begun { register, at: now, write });
            }
            Event::Reading(number, register) => {
                let register = Arc::clone(register);
                open.insert(*number, Begun { register, at: now, write: None });
            }
            Event::Wrote(number, took_effect) => {
                if let (Some(Begun { register, at, write: Some(value) }), true) = (open.remove(number), *took_effect) {
                    let operation = Operation { begun: at, ended: now, change: Change::Write(value) };
                    done.entry(register).or_default().push(operation);
                }
            }
            Event::Read(number, told) => {
                if let Some(Begun { register, at, write: None }) = open.remove(number) {
                    let operation = Operation { begun: at, ended: now, change: Change::Read(*told) };
                    done.entry(register).or_default().push(operation);
                }
            }
            _ => {}
        }
    }
    for Begun { register, at, write } in open.into_values() {
        if let Some(value) = write {
            let operation = Operation { begun: at, ended: usize::MAX, change: Change::Write(value) };
            done.entry(register).or_default().push(operation);
        }
    }
    done
}

struct Search<'a> {
    operations: &'a [Operation],
    /// Which operations were done and what the value was, of all states that lead nowhere.
    seen: BTreeSet<(u128, Option<u64>)>,
    /// The end of the first operation that could not be done, in the attempt that came furthest.
    furthest: usize,
}

impl Search<'_> {
    /// True if the operations that are not in `done` can follow, in some order.
    fn goes_on(&mut self, done: u128, value: Option<u64>) -> bool {
        let left = |index: &usize| done & (1 << index) == 0;
        // Nothing begins its effect after another one has ended before it.
        let first_end = (0..self.operations.len()).filter(left).map(|index| self.operations[index].ended).min();
        let Some(first_end) = first_end.filter(|end| *end != usize::MAX) else { return true };
        if !self.seen.insert((done, value)) {
            return false;
        }
        self.furthest = self.furthest.max(first_end);
        for index in (0..self.operations.len()).filter(left) {
            let operation = &self.operations[index];
            let next = match operation.change {
                _ if operation.begun > first_end => continue,
                Change::Read(told) if told != value => continue,
                Change::Read(_) => value,
                Change::Write(value) => value,
            };
            if self.goes_on(done | (1 << index), next) {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, rejects, untimed};
    use super::*;

    #[test]
    fn histories_without_an_order_are_rejected() {
        rejects(
            untimed(linearizable),
            &[
                ("write 1 r 5, wrote 1, read 2 r, told 2 4", "nobody wrote this"),
                ("write 1 r 5, wrote 1, read 2 r, told 2 none", "it was there before the question"),
                ("read 1 r, told 1 7", "a register begins without a value"),
                ("write 1 r 5, wrote 1, write 2 r 6, wrote 2, read 3 r, told 3 5", "the newer value was told of before"),
                ("write 1 r 5, read 2 r, told 2 5, read 3 r, told 3 none, wrote 1", "the second reader saw less"),
                ("write 1 r 5, refused! 1, read 2 r, told 2 5", "what was refused had an effect"),
                (
                    "write 1 r 5, wrote 1, write 2 r none, wrote 2, write 3 r 6, read 4 r, told 4 5, wrote 3",
                    "what was deleted came back",
                ),
                (
                    "write 1 r 1, write 2 r 2, wrote 1, wrote 2, read 3 r, told 3 1, read 4 r, told 4 2, read 5 r, told 5 1",
                    "two writes, three values one after the other",
                ),
            ],
        );
    }

    #[test]
    fn histories_with_an_order_are_accepted() {
        accepts(
            untimed(linearizable),
            &[
                ("", "nothing happened"),
                ("read 1 r, told 1 none, write 2 r 5, wrote 2, read 3 r, told 3 5", "one after the other"),
                (
                    "write 1 r 5, read 2 r, told 2 none, read 3 r, told 3 5, wrote 1",
                    "it took effect between the readers",
                ),
                (
                    "write 1 r 5, read 2 r, told 2 none, write 3 r 6, wrote 3, read 4 r, told 4 5",
                    "late, unanswered, legal",
                ),
                (
                    "write 1 r 1, write 2 r 2, wrote 2, wrote 1, read 3 r, told 3 2",
                    "two at once: either may be the last",
                ),
                ("write 1 r 1, write 2 r 2, wrote 2, wrote 1, read 3 r, told 3 1", "the other order"),
                ("write 1 r 5, wrote 1, write 2 s 6, wrote 2, read 3 r, told 3 5", "registers do not meddle"),
                ("write 1 r 5, write 2 r none, wrote 2, read 3 r, told 3 5, wrote 1", "made after it was deleted"),
                ("read 1 r, write 2 r 5, wrote 2, told 1 none", "the reader was first"),
            ],
        );
    }

    #[test]
    fn long_histories_are_not_judged_by_chance() {
        let words: Vec<String> = (0..130).map(|number| format!("write {number} r 1, wrote {number}")).collect();
        let events: Vec<Event> =
            super::super::testing::parse(&words.join(", ")).into_iter().map(|(_, event)| event).collect();
        assert!(linearizable(&events).is_err());
    }
}
