//! Filtered groups get what they asked for.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use crate::audit::history::Event;

const NAME: &str = "a filtered group gets exactly what matches";

/// A group and whether it wants a message.
pub type Wants<'a> = (&'a str, fn(u64) -> bool);

/// Each group got every message that lies in a queue at the end and that it wants, and none that it does not want.
pub fn filtered(history: &[Event], groups: &[Wants<'_>]) -> Result<(), Violation> {
    let mut got: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for event in history {
        let Event::Consumed(group, message, (queue, offset)) = event else { continue };
        let Some((group, wants)) = groups.iter().find(|(name, _)| **name == **group) else { continue };
        if !wants(*message) {
            return Err(Violation::new(NAME, format!("{group} got {message} at {offset} of {queue} and wants it not")));
        }
        got.entry(group).or_default().insert(*message);
    }
    for event in history {
        let Event::Found(message, (queue, offset)) = event else { continue };
        for (group, wants) in groups {
            if wants(*message) && !got.get(group).is_some_and(|messages| messages.contains(message)) {
                return Err(Violation::new(NAME, format!("{group} never got {message} at {offset} of {queue}")));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, rejects, untimed};
    use super::*;

    fn check(history: &[Event]) -> Result<(), Violation> {
        filtered(history, &[("even", |message| message % 2 == 0), ("small", |message| message < 10)])
    }

    #[test]
    fn rejects_too_little_and_too_much() {
        rejects(
            untimed(check),
            &[
                ("found 20 q0:0", "nobody consumed at all"),
                ("got even 20 q0:0, got even 3 q0:1, found 20 q0:0", "it got what it does not want"),
                ("got small 1 q0:0, got even 2 q0:1, found 1 q0:0, found 2 q0:1", "the other group wants it too"),
                ("got small 4 q0:0, got even 4 q0:0, found 4 q0:0, found 6 q0:1", "the last one is missing"),
                ("got small 20 q0:0, got even 20 q0:0, found 20 q0:0", "one group got it that must not"),
            ],
        );
    }

    #[test]
    fn accepts_what_matches() {
        accepts(
            untimed(check),
            &[
                ("", "nothing stored"),
                ("found 11 q0:0", "nobody wants it"),
                ("got even 20 q0:0, got even 20 q0:0, found 20 q0:0", "delivered twice"),
                ("got even 2 q0:0, got small 2 q0:0, found 2 q0:0", "both groups"),
                ("got other 11 q0:0, found 11 q0:0", "a group without a filter"),
                ("got small 1 q0:0", "what is gone at the end"),
            ],
        );
    }
}
