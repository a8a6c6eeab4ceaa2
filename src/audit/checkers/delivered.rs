//! Consumers get everything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Violation;
use crate::audit::history::Event;

const NAME: &str = "consumers get everything";

/// Every group that consumed anything, and every one of `groups`, got every message that lies in a queue at the end.
/// Getting one twice is allowed: consumers commit offsets now and then.
pub fn all_delivered(history: &[Event], groups: &[&str]) -> Result<(), Violation> {
    let mut got: BTreeMap<Arc<str>, BTreeSet<u64>> =
        groups.iter().map(|group| (Arc::from(*group), BTreeSet::new())).collect();
    for event in history {
        if let Event::Consumed(group, message, _) = event {
            got.entry(group.clone()).or_default().insert(*message);
        }
    }
    for event in history {
        let Event::Found(message, (queue, offset)) = event else { continue };
        if let Some((group, _)) = got.iter().find(|(_, messages)| !messages.contains(message)) {
            return Err(Violation::new(NAME, format!("{group} never got {message} at {offset} of {queue}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, rejects, untimed};
    use super::*;

    fn check(history: &[Event]) -> Result<(), Violation> {
        all_delivered(history, &["g"])
    }

    #[test]
    fn rejects_what_was_not_delivered() {
        rejects(
            untimed(check),
            &[
                ("found 1 q0:0", "nobody consumed at all"),
                ("found 1 q0:0, found 2 q0:1, got g 1 q0:0", "the last one is missing"),
                ("found 1 q0:0, found 2 q0:1, got g 2 q0:1", "the first one was skipped"),
                ("found 1 q0:0, got h 1 q0:0", "only another group got it"),
                ("found 1 q0:0, got g 1 q0:0, got h 2 q1:0, found 2 q1:0", "each group misses one"),
            ],
        );
    }

    #[test]
    fn accepts_at_least_once() {
        accepts(
            untimed(check),
            &[
                ("", "nothing stored"),
                ("found 1 q0:0, got g 1 q0:0", "delivered"),
                ("got g 1 q0:0, got g 1 q0:0, found 1 q0:0", "delivered twice"),
                ("got g 2 q0:1, got g 1 q0:0, found 1 q0:0, found 2 q0:1", "in any order"),
                ("got g 1 q0:0, got h 1 q0:0, found 1 q0:0", "two groups"),
                ("send 1, unknown 1, send 2, got g 2 q0:0, found 2 q0:0", "an unknown send that was not stored"),
            ],
        );
    }
}
