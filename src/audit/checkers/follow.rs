//! One broker that could have said and shown all of a history.

use std::collections::BTreeMap;

use super::Violation;
use crate::audit::history::{Event, Message, Queue};

const NAME: &str = "one simple broker explains the history";

/// A queue as it must have been: what is known to lie at each offset.
#[derive(Default)]
struct Known {
    at: BTreeMap<u64, Message>,
    /// Beyond this offset nothing can lie at the end.
    end: Option<u64>,
}

/// Builds the queues of one broker from everything that was acknowledged, consumed and found, and asks whether all of
/// it fits: one message an offset, one offset a sent message, nothing beyond the end, nothing missing before it.
///
/// Holds where no acknowledged message may be lost, for messages that were sent to their queue at once.
pub fn follow(history: &[Event]) -> Result<(), Violation> {
    let mut queues: BTreeMap<&Queue, Known> = BTreeMap::new();
    let mut places: BTreeMap<Message, (&Queue, u64)> = BTreeMap::new();
    let wrong = |finding: String| Err(Violation::new(NAME, finding));
    for event in history {
        let (message, queue, offset) = match event {
            Event::Acknowledged(message, (queue, offset))
            | Event::Consumed(_, message, (queue, offset))
            | Event::Found(message, (queue, offset)) => (*message, queue, *offset),
            Event::Refused(message) if places.contains_key(message) => {
                return wrong(format!("{message} was refused and had been stored"));
            }
            _ => continue,
        };
        let other = *queues.entry(queue).or_default().at.entry(offset).or_insert(message);
        if other != message {
            return wrong(format!("{queue} has {other} and {message} at {offset}"));
        }
        let place = *places.entry(message).or_insert((queue, offset));
        if place != (queue, offset) {
            return wrong(format!("{message} lies at {} of {} and at {offset} of {queue}", place.1, place.0));
        }
    }
    for event in history {
        if let Event::Found(_, (queue, offset)) = event {
            let end = queues.entry(queue).or_default().end.get_or_insert(0);
            *end = (*end).max(offset + 1);
        }
    }
    for (queue, Known { at, end }) in &queues {
        let Some(end) = end else { continue };
        if let Some((offset, message)) = at.range(end..).next() {
            return wrong(format!("{queue} had {message} at {offset} and ends before {end}"));
        }
        let first = at.keys().next().copied().unwrap_or(0);
        if at.len() as u64 != end - first {
            return wrong(format!("{queue} goes from {first} to {end} and has {} messages", at.len()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, rejects, untimed};
    use super::*;

    #[test]
    fn rejects_what_no_broker_could_have_shown() {
        rejects(
            untimed(follow),
            &[
                ("send 1, ack 1 q0:0, got g 2 q0:0", "two messages at one offset"),
                ("send 1, ack 1 q0:0, got g 1 q0:1", "one message at two offsets"),
                ("send 1, ack 1 q0:5, send 2, ack 2 q0:6, found 1 q0:5", "the last one is gone"),
                ("found 1 q0:0, found 3 q0:2", "one is missing"),
                ("got g 1 q0:0, refused 1", "refused and read"),
                ("send 1, ack 1 q0:0, found 1 q1:0", "in another queue"),
            ],
        );
    }

    #[test]
    fn accepts_what_one_broker_explains() {
        accepts(
            untimed(follow),
            &[
                ("", "nothing happened"),
                ("send 1, send 2, ack 2 q0:0, ack 1 q0:1, got g 2 q0:0, found 2 q0:0, found 1 q0:1", "two at once"),
                ("send 1, unknown 1, got g 1 q0:0, found 1 q0:0", "stored, and nobody was told"),
                ("send 1, refused 1, send 2, ack 2 q0:0, found 2 q0:0", "refused"),
                ("send 1, ack 1 q0:7, found 1 q0:7, got h 1 q0:7, got g 1 q0:7", "older ones are deleted"),
                ("send 1, ack 1 q0:0, got g 1 q0:0, got g 1 q0:0, found 1 q0:0", "twice"),
            ],
        );
    }
}
