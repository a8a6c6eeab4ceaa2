//! Queues only grow at their end and only shrink at their beginning.

use std::collections::BTreeMap;

use super::Violation;
use crate::history::{Event, Queue};

const NAME: &str = "queues only grow";

/// What clients are told of a queue's range never goes back, and never denies what they know: the end lies behind every
/// message that was acknowledged or consumed before.
///
/// Holds where no acknowledged message may be lost.
pub fn ranges_grow(history: &[Event]) -> Result<(), Violation> {
    let mut known: BTreeMap<&Queue, (u64, u64)> = BTreeMap::new();
    for event in history {
        match event {
            Event::Acknowledged(_, (queue, offset)) | Event::Consumed(_, _, (queue, offset)) => {
                let (_, max) = known.entry(queue).or_default();
                *max = (*max).max(offset + 1);
            }
            Event::Range(queue, min, max) => {
                let (least, most) = known.get(queue).copied().unwrap_or_default();
                if min > max || *min < least || *max < most {
                    let finding = format!("{queue} goes from {min} to {max}, it went from {least} to {most} before");
                    return Err(Violation::new(NAME, finding));
                }
                known.insert(queue, (*min, *max));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, rejects, untimed};
    use super::*;

    #[test]
    fn rejects_shrinking_queues() {
        rejects(
            untimed(ranges_grow),
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
            untimed(ranges_grow),
            &[
                ("", "nothing happened"),
                ("range q0 0 0, range q0 0 5, range q0 3 5, range q0 5 5", "grows, then expires"),
                ("send 1, ack 1 q0:5, range q0 0 6", "acknowledged"),
                ("range q0 0 9, got g 1 q0:2", "somebody reads far behind"),
                ("range q0 0 5, range q1 0 1", "two queues"),
                ("send 1, range q0 0 1, range q0 0 1, ack 1 q0:0", "seen before its sender heard"),
            ],
        );
    }
}
