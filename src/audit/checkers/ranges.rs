//! Queues only grow at their end and only shrink at their beginning.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Violation;
use crate::audit::history::{Event, Queue, Timed};

const NAME: &str = "queues only grow";

/// What clients are told of a queue's range never goes back, and never denies what was known when they asked: the end
/// lies behind every message that was acknowledged or consumed before.
///
/// Holds where no acknowledged message may be lost.
pub fn ranges_grow(history: &[Timed]) -> Result<(), Violation> {
    // Beginning and end of each queue as they were known from a time on; both only grow.
    let mut known: BTreeMap<&Queue, Vec<(Duration, u64, u64)>> = BTreeMap::new();
    for (at, event) in history {
        match event {
            Event::Acknowledged(_, (queue, offset)) | Event::Consumed(_, _, (queue, offset)) => {
                let known = known.entry(queue).or_default();
                let (least, most) = known.last().map_or((0, 0), |last| (last.1, last.2));
                if offset + 1 > most {
                    known.push((*at, least, offset + 1));
                }
            }
            Event::Range(queue, min, max, asked) => {
                let known = known.entry(queue).or_default();
                let before = known.iter().rev().find(|(since, ..)| since <= asked);
                let (least, most) = before.map_or((0, 0), |before| (before.1, before.2));
                if min > max || *min < least || *max < most {
                    let finding = format!("{queue} goes from {min} to {max}, it went from {least} to {most} before");
                    return Err(Violation::new(NAME, finding));
                }
                let (least, most) = known.last().map_or((0, 0), |last| (last.1, last.2));
                known.push((*at, least.max(*min), most.max(*max)));
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

    #[test]
    fn rejects_shrinking_queues() {
        rejects(
            ranges_grow,
            &[
                ("range q0 0 5, range q0 0 4", "the end went back"),
                ("range q0 3 5, range q0 2 5", "the beginning went back"),
                ("range q0 6 5", "turned round"),
                ("send 1, ack 1 q0:5, range q0 0 5", "what was acknowledged is not in it"),
                ("got g 1 q0:5, range q0 0 3", "what was read is not in it"),
            ],
        );
    }

    #[test]
    fn accepts_growing_queues() {
        accepts(
            ranges_grow,
            &[
                ("", "nothing happened"),
                ("range q0 0 0, range q0 0 5, range q0 3 5, range q0 5 5", "grows, then expires"),
                ("send 1, ack 1 q0:5, range q0 0 6", "acknowledged"),
                ("range q0 0 9, got g 1 q0:2", "somebody reads far behind"),
                ("range q0 0 5, range q1 0 1", "two queues"),
                ("at 1, send 1, at 3, ack 1 q0:5, range q0 0 5 2", "asked before, answered after"),
                ("send 1, range q0 0 1, range q0 0 1, ack 1 q0:0", "seen before its sender heard"),
            ],
        );
    }
}
