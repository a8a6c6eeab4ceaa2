//! Consumer offsets are what was committed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::Violation;
use crate::audit::history::{Event, Queue, Timed};

const NAME: &str = "offsets are what was committed";

#[derive(Default)]
struct Progress {
    /// The largest offset anybody tried to commit.
    tried: Option<u64>,
    /// Acknowledged commits, and when.
    committed: Vec<(Duration, u64)>,
    /// What must be there at least.
    floor: Option<u64>,
}

/// For groups whose members commit growing offsets: the offset is never one that nobody committed, and never falls below
/// one that was acknowledged, unless the broker's process ended less than `saved_within` later.
pub fn offsets_committed(history: &[Timed], saved_within: Duration) -> Result<(), Violation> {
    let mut groups: BTreeMap<(&Arc<str>, &Queue), Progress> = BTreeMap::new();
    for (at, event) in history {
        match event {
            Event::Committing(group, (queue, offset)) => {
                let progress = groups.entry((group, queue)).or_default();
                progress.tried = progress.tried.max(Some(*offset));
            }
            Event::Committed(group, (queue, offset)) => {
                let progress = groups.entry((group, queue)).or_default();
                progress.committed.push((*at, *offset));
                progress.floor = progress.floor.max(Some(*offset));
            }
            Event::Down(broker) => {
                for (_, progress) in groups.iter_mut().filter(|((_, queue), _)| queue.broker == *broker) {
                    let saved = |(when, _): &&(Duration, u64)| *when + saved_within <= *at;
                    progress.floor = progress.committed.iter().filter(saved).map(|(_, offset)| *offset).max();
                    let floor = progress.floor;
                    progress.committed.retain(|(_, offset)| Some(*offset) <= floor);
                }
            }
            Event::Offset(group, queue, told) => {
                let Some(progress) = groups.get(&(group, queue)) else { continue };
                if *told < progress.floor {
                    let finding = format!("{group} committed {:?} of {queue} and has {told:?}", progress.floor);
                    return Err(Violation::new(NAME, finding));
                }
                if *told > progress.tried && told.is_some_and(|told| told > 0) {
                    let finding =
                        format!("{group} has {told:?} of {queue}, at most {:?} was committed", progress.tried);
                    return Err(Violation::new(NAME, finding));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, rejects};
    use super::*;

    fn check(history: &[Timed]) -> Result<(), Violation> {
        offsets_committed(history, Duration::from_secs(10))
    }

    #[test]
    fn rejects_lost_and_invented_offsets() {
        rejects(
            check,
            &[
                ("committing g q0:5, committed g q0:5, offset g q0 3", "it went back"),
                ("committing g q0:5, committed g q0:5, offset g q0 -", "it is gone"),
                ("committing g q0:5, committed g q0:5, offset g q0 9", "nobody committed that"),
                ("committing g q0:5, committed g q0:5, at 20, down broker, at 25, offset g q0 0", "saved and lost"),
                (
                    "committing g q0:5, committed g q0:5, at 15, committing g q0:8, committed g q0:8, at 20, \
                     down broker, offset g q0 4",
                    "the older one was saved",
                ),
                ("committing g q0:5, committed g q0:5, at 20, down other, at 25, offset g q0 0", "another broker died"),
            ],
        );
    }

    #[test]
    fn accepts_what_may_be() {
        accepts(
            check,
            &[
                ("", "nothing happened"),
                ("committing g q0:5, committed g q0:5, offset g q0 5", "as committed"),
                ("committing g q0:5, offset g q0 5", "not acknowledged yet and done"),
                ("committing g q0:5, offset g q0 -", "not acknowledged and not done"),
                ("committing g q0:5, committed g q0:5, at 5, down broker, offset g q0 -", "not saved yet"),
                ("committing g q0:5, committed g q0:5, at 20, down broker, offset g q0 5", "saved"),
                ("offset g q0 0, committing h q0:5, committed h q0:5, offset h q1 -", "other groups and queues"),
                (
                    "committing g q0:5, committed g q0:5, at 11, committing g q0:7, committed g q0:7, at 12, \
                     down broker, offset g q0 6, committing g q0:6, committed g q0:6, offset g q0 7",
                    "something between",
                ),
            ],
        );
    }
}
