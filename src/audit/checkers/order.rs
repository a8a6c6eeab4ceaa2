//! Messages lie in the order in which they were sent.

use std::collections::BTreeMap;

use super::Violation;
use crate::audit::history::{Event, Queue};

const NAME: &str = "a queue keeps the order of its sends";

/// A message that was acknowledged before another one of its queue was begun has the smaller offset.
///
/// This is what a single log gives, whoever the senders are. Holds where no acknowledged message may be lost.
pub fn stored_in_order(history: &[Event]) -> Result<(), Violation> {
    // The largest offset acknowledged in each queue when a message was begun.
    let mut largest: BTreeMap<&Queue, (u64, u64)> = BTreeMap::new();
    let mut began: BTreeMap<u64, BTreeMap<&Queue, (u64, u64)>> = BTreeMap::new();
    for event in history {
        match event {
            Event::Sending(message) => {
                began.insert(*message, largest.clone());
            }
            Event::Acknowledged(message, (queue, offset)) => {
                let before = began.remove(message).and_then(|before| before.get(queue).copied());
                if let Some((first, at)) = before.filter(|(_, at)| at >= offset) {
                    let finding = format!("{message} got offset {offset} of {queue} after {first} had got {at}");
                    return Err(Violation::new(NAME, finding));
                }
                let last = largest.entry(queue).or_insert((*message, *offset));
                if *offset > last.1 {
                    *last = (*message, *offset);
                }
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
    fn rejects_overtaking() {
        rejects(
            untimed(stored_in_order),
            &[
                ("send 1, ack 1 q0:5, send 2, ack 2 q0:4", "the later one came before"),
                ("send 1, ack 1 q0:5, send 2, ack 2 q0:5", "at the same place"),
                ("send 1, ack 1 q0:5, send 2, ack 2 q0:6, send 3, ack 3 q0:5", "the offset went back"),
                ("send 1, send 2, ack 2 q0:1, ack 1 q0:0, send 3, ack 3 q0:0", "behind two at once"),
                ("send 1, ack 1 q0:9, send 2, send 3, ack 3 q0:3, ack 2 q0:10", "one of two at once"),
            ],
        );
    }

    #[test]
    fn accepts_what_a_log_gives() {
        accepts(
            untimed(stored_in_order),
            &[
                ("", "nothing happened"),
                ("send 1, ack 1 q0:0, send 2, ack 2 q0:1", "one after the other"),
                ("send 1, send 2, ack 2 q0:0, ack 1 q0:1", "both at once, in any order"),
                ("send 1, ack 1 q0:5, send 2, ack 2 q1:0", "queues are apart"),
                ("send 1, unknown 1, send 2, ack 2 q0:0, found 2 q0:0, found 1 q0:1", "one that nobody was told of"),
                ("send 1, send 2, ack 1 q0:7, send 3, ack 3 q0:8, ack 2 q0:2", "one that took long"),
            ],
        );
    }
}
