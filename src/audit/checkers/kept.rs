//! What was acknowledged is kept; what was refused is not stored.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Violation;
use crate::audit::history::{Event, Place, Timed};

const NAME: &str = "acknowledged messages are kept";
const SYNCED: &str = "what is old enough to be synced is kept";

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

/// The same where a crash may take what is not synced: a message is missing only if its broker's machine went down between
/// its sending and `unsynced_for` after its answer.
pub fn synced_kept(history: &[Timed], unsynced_for: Duration) -> Result<(), Violation> {
    let found: BTreeMap<&Place, u64> = history.iter().filter_map(|(_, event)| found(event)).collect();
    let (mut sent, mut downs) = (BTreeMap::new(), BTreeMap::<&str, Vec<Duration>>::new());
    for (at, event) in history {
        match event {
            Event::Sending(message) => drop(sent.insert(*message, *at)),
            Event::Down(machine) => downs.entry(machine).or_default().push(*at),
            _ => {}
        }
    }
    for (at, event) in history {
        let Event::Acknowledged(message, place) = event else { continue };
        let (from, until) = (sent.get(message).copied().unwrap_or_default(), *at + unsynced_for);
        let taken = downs.get(&*place.0.broker).is_some_and(|downs| downs.iter().any(|at| (from..until).contains(at)));
        if !taken && found.get(place) != Some(message) {
            let (queue, offset) = place;
            let finding = format!("{message}, acknowledged at {offset} of {queue}, is lost, and no crash was near");
            return Err(Violation::new(SYNCED, finding));
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

    #[test]
    fn a_crash_takes_only_what_is_young() {
        let check = |history: &[Timed]| synced_kept(history, Duration::from_secs(6));
        rejects(
            check,
            &[
                ("send 1, ack 1 q0:0", "nothing went down"),
                ("send 1, ack 1 q0:0, at 6, down broker", "old enough"),
                ("send 1, ack 1 q0:0, at 3, down other", "another machine"),
                ("at 1, down broker, at 2, send 1, ack 1 q0:0", "it went down before"),
                ("send 1, ack 1 q0:0, at 7, down broker, found 2 q0:0", "another one took its place"),
            ],
        );
        accepts(
            check,
            &[
                ("send 1, ack 1 q0:0, at 5, down broker", "young"),
                ("send 1, at 3, down broker, at 4, ack 1 q0:0", "its answer was on its way"),
                ("send 1, ack 1 q0:0, at 6, down broker, found 1 q0:0", "kept"),
                ("send 1, ack 1 q0:0, at 5, down broker, found 2 q0:0", "young, and another one took its place"),
                ("send 1, unknown 1", "nobody said that it is stored"),
            ],
        );
    }
}
