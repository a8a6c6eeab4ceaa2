//! Offsets are dense and unique.

use std::collections::BTreeMap;

use super::Violation;
use crate::audit::history::{Event, Place, Queue};

const NAME: &str = "offsets are dense and unique";

/// At the end each queue holds its messages with consecutive offsets; and no offset ever named two messages, whoever was
/// told of it and whenever.
///
/// Where a power cut may take acknowledged messages (ASYNC_FLUSH), offsets may be given out again: pass only the events
/// from the last cut on.
pub fn offsets_dense(history: &[Event]) -> Result<(), Violation> {
    let mut names: BTreeMap<&Place, u64> = BTreeMap::new();
    let mut queues: BTreeMap<&Queue, Vec<u64>> = BTreeMap::new();
    for event in history {
        let (message, place) = match event {
            Event::Acknowledged(message, place) | Event::Consumed(_, message, place) => (*message, place),
            Event::Found(message, place) => {
                queues.entry(&place.0).or_default().push(place.1);
                (*message, place)
            }
            _ => continue,
        };
        let first = *names.entry(place).or_insert(message);
        if first != message {
            let (queue, offset) = place;
            return Err(Violation::new(NAME, format!("{offset} of {queue} named {first} and then {message}")));
        }
    }
    for (queue, mut offsets) in queues {
        offsets.sort_unstable();
        if let Some(gap) = offsets.windows(2).find(|pair| pair[1] != pair[0] + 1) {
            return Err(Violation::new(NAME, format!("{queue} goes from {} to {}", gap[0], gap[1])));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, rejects, untimed};
    use super::*;

    #[test]
    fn rejects_gaps_and_double_use() {
        rejects(
            untimed(offsets_dense),
            &[
                ("found 1 q0:0, found 2 q0:2", "a gap"),
                ("found 1 q0:0, found 2 q0:0", "one offset for two messages at the end"),
                ("ack 1 q0:0, ack 2 q0:0", "one offset acknowledged twice"),
                ("got g 1 q0:0, found 2 q0:0", "a consumer saw another message there"),
                ("ack 1 q0:0, got g 2 q0:0", "a consumer got another message than was acknowledged"),
            ],
        );
    }

    #[test]
    fn accepts_dense_queues() {
        accepts(
            untimed(offsets_dense),
            &[
                ("", "nothing happened"),
                ("found 1 q0:0, found 2 q0:1, found 3 q0:2", "dense"),
                ("found 1 q0:7, found 2 q0:8", "the beginning has expired"),
                ("found 2 q0:1, found 1 q0:0, found 3 q1:0", "found in any order, two queues"),
                ("send 1, ack 1 q0:0, got g 1 q0:0, got h 1 q0:0, got g 1 q0:0, found 1 q0:0", "delivered repeatedly"),
                ("send 1, send 2, unknown 1, ack 2 q0:0, found 2 q0:0", "an unknown send took no offset"),
            ],
        );
    }
}
