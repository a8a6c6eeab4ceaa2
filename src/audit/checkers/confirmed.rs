//! Nothing is read before it is safe.

use std::collections::BTreeMap;

use super::Violation;
use crate::audit::history::{Event, Place};

const NAME: &str = "nothing is read above the confirmed position";

/// What a consumer got is at the end where it was: it was never shown something that a crash could still take away.
///
/// Holds under SYNC_FLUSH always, under ASYNC_FLUSH as long as no machine loses its power.
pub fn nothing_read_early(history: &[Event]) -> Result<(), Violation> {
    let mut found: BTreeMap<&Place, u64> = BTreeMap::new();
    for event in history {
        if let Event::Found(message, place) = event {
            found.insert(place, *message);
        }
    }
    for event in history {
        let Event::Consumed(group, message, place) = event else { continue };
        let (queue, offset) = place;
        match found.get(place) {
            Some(there) if there == message => {}
            Some(there) => {
                let finding = format!("{group} got {message} at {offset} of {queue}, where {there} lies now");
                return Err(Violation::new(NAME, finding));
            }
            None => {
                let finding = format!("{group} got {message} at {offset} of {queue}, and it is gone");
                return Err(Violation::new(NAME, finding));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, rejects, untimed};
    use super::*;

    #[test]
    fn rejects_early_reads() {
        rejects(
            untimed(nothing_read_early),
            &[
                ("send 1, got g 1 q0:0, unknown 1", "read, then lost"),
                ("got g 1 q0:0, found 2 q0:0", "read, then overwritten"),
                ("got g 1 q0:0, found 1 q0:1", "read, then moved"),
                ("got g 1 q0:0, got g 2 q0:1, found 1 q0:0", "the second was read too early"),
                ("got g 1 q0:0, got h 2 q0:0, found 1 q0:0", "the other group saw something else"),
            ],
        );
    }

    #[test]
    fn accepts_safe_reads() {
        accepts(
            untimed(nothing_read_early),
            &[
                ("", "nothing happened"),
                ("send 1, ack 1 q0:0, got g 1 q0:0, found 1 q0:0", "read after the acknowledgement"),
                ("send 1, got g 1 q0:0, ack 1 q0:0, found 1 q0:0", "read before its sender heard"),
                ("send 1, got g 1 q0:0, unknown 1, found 1 q0:0", "read, its sender never heard"),
                ("send 1, unknown 1, found 1 q0:0", "never read"),
                ("got g 1 q0:0, got h 1 q0:0, got g 1 q0:0, found 1 q0:0", "read by all"),
            ],
        );
    }
}
