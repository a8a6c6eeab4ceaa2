//! Consumers get whole messages that somebody sent.

use std::collections::BTreeSet;

use super::Violation;
use crate::audit::history::Event;

const NAME: &str = "consumers get whole messages";

/// Nobody gets bytes that are no whole message, and nobody gets or finds a message that nobody sent.
pub fn messages_intact(history: &[Event]) -> Result<(), Violation> {
    let mut sent = BTreeSet::new();
    for event in history {
        match event {
            Event::Sending(message) => {
                sent.insert(*message);
            }
            Event::Damaged(group, queue, what) => {
                return Err(Violation::new(NAME, format!("{group} got from {queue}: {what}")));
            }
            Event::Consumed(_, message, (queue, offset)) | Event::Found(message, (queue, offset))
                if !sent.contains(message) =>
            {
                return Err(Violation::new(NAME, format!("nobody sent {message}, which lies at {offset} of {queue}")));
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
    fn rejects_damage_and_inventions() {
        rejects(
            untimed(messages_intact),
            &[
                ("damaged g q0", "damaged"),
                ("send 1, ack 1 q0:0, got g 1 q0:0, damaged h q0", "for one group"),
                ("send 1, got g 2 q0:0", "invented"),
                ("send 1, ack 1 q0:0, found 1 q0:0, found 2 q0:1", "found and never sent"),
                ("got g 1 q0:0, send 1", "before it was sent"),
            ],
        );
    }

    #[test]
    fn accepts_whole_messages() {
        accepts(
            untimed(messages_intact),
            &[
                ("", "nothing happened"),
                ("send 1, got g 1 q0:0, ack 1 q0:0", "read before its sender heard"),
                ("send 1, unknown 1, found 1 q0:0", "stored, nobody was told"),
                ("send 1, got g 1 q0:0, got g 1 q0:0, got h 1 q0:0", "again and elsewhere"),
                ("send 1, send 2, got g 2 q1:0, got g 1 q0:0", "two at once"),
            ],
        );
    }
}
