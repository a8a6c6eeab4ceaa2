//! Each attempt to send stores at most one message.

use std::collections::BTreeMap;

use super::Violation;
use crate::audit::history::{Event, Place};

const NAME: &str = "messages are stored once";

/// No message lies in two places. Every attempt to send is a message of its own here, so a client's retry is no excuse.
///
/// Does not hold for delayed messages and retries: their delivery is repeated after a crash.
pub fn stored_once(history: &[Event]) -> Result<(), Violation> {
    let mut places: BTreeMap<u64, &Place> = BTreeMap::new();
    for event in history {
        let Event::Found(message, place) = event else { continue };
        if let Some((queue, offset)) = places.insert(*message, place) {
            let finding = format!("{message} lies at {offset} of {queue} and at {} of {}", place.1, place.0);
            return Err(Violation::new(NAME, finding));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, rejects, untimed};
    use super::*;

    #[test]
    fn rejects_copies() {
        rejects(
            untimed(stored_once),
            &[
                ("found 1 q0:0, found 1 q0:1", "twice in one queue"),
                ("found 1 q0:0, found 1 q1:0", "in two queues"),
                ("ack 1 q0:0, found 1 q0:0, found 2 q0:1, found 1 q0:2", "again behind another"),
                ("unknown 1, found 1 q0:0, found 1 q0:1", "twice without an answer"),
                ("send 1, got g 1 q0:0, found 1 q0:0, found 1 q3:9", "far away"),
            ],
        );
    }

    #[test]
    fn accepts_single_messages() {
        accepts(
            untimed(stored_once),
            &[
                ("", "nothing happened"),
                ("found 1 q0:0, found 2 q0:1", "two messages"),
                ("found 1 q0:0, found 2 q1:0", "two queues"),
                ("got g 1 q0:0, got g 1 q0:0, found 1 q0:0", "delivered twice, stored once"),
                ("send 1, unknown 1", "not stored at all"),
            ],
        );
    }
}
