//! What was acknowledged is kept; what was refused is not stored.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use crate::audit::history::{Event, Place};

const NAME: &str = "acknowledged messages are kept";

/// Every acknowledged message lies where it was said to lie, and no message that was refused lies anywhere.
///
/// A message whose sending ended without a clear answer may be there or not.
pub fn acknowledged_kept(history: &[Event]) -> Result<(), Violation> {
    let found: BTreeMap<&Place, u64> = history.iter().filter_map(found).collect();
    let stored: BTreeSet<u64> = found.values().copied().collect();
    for event in history {
        match event {
            Event::Acknowledged(message, place) => {
                let (queue, offset) = place;
                match found.get(place) {
                    Some(there) if there == message => {}
                    Some(there) => {
                        let finding = format!("{queue} holds {there} at {offset}, acknowledged as {message}");
                        return Err(Violation::new(NAME, finding));
                    }
                    None => {
                        let finding = format!("{message} was acknowledged at {offset} of {queue} and is lost");
                        return Err(Violation::new(NAME, finding));
                    }
                }
            }
            Event::Refused(message) if stored.contains(message) => {
                return Err(Violation::new(NAME, format!("{message} was refused and is stored")));
            }
            _ => {}
        }
    }
    Ok(())
}

fn found(event: &Event) -> Option<(&Place, u64)> {
    match event {
        Event::Found(message, place) => Some((place, *message)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, rejects, untimed};
    use super::*;

    #[test]
    fn rejects_losses() {
        rejects(
            untimed(acknowledged_kept),
            &[
                ("send 1, ack 1 q0:0", "lost, nothing else there"),
                ("send 1, send 2, ack 1 q0:0, ack 2 q0:1, found 1 q0:0", "the tail is lost"),
                ("send 1, send 2, ack 1 q0:0, ack 2 q0:1, found 2 q0:1", "the head is lost"),
                ("send 1, send 2, ack 1 q0:0, unknown 2, found 2 q0:0", "another message took its place"),
                ("send 1, ack 1 q0:0, found 1 q0:1", "moved within its queue"),
                ("send 1, ack 1 q0:0, found 1 q1:0", "moved to another queue"),
                ("send 1, refused 1, found 1 q0:0", "refused and yet stored"),
            ],
        );
    }

    #[test]
    fn accepts_what_was_promised() {
        accepts(
            untimed(acknowledged_kept),
            &[
                ("", "nothing happened"),
                ("send 1, ack 1 q0:0, found 1 q0:0", "kept"),
                ("send 1, unknown 1", "never arrived"),
                ("send 1, unknown 1, found 1 q0:0", "arrived, the answer was lost"),
                ("send 1, refused 1", "refused"),
                ("send 1, send 2, ack 2 q0:0, ack 1 q0:1, found 1 q0:1, found 2 q0:0", "answers out of order"),
                ("send 1, send 2, ack 2 q1:0, unknown 1, found 2 q1:0, found 1 q0:0", "two queues at once"),
            ],
        );
    }
}
