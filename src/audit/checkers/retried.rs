//! What was handed back comes again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Violation;
use crate::audit::history::Event;

const NAME: &str = "handed back messages come again";

/// Every message that a consumer handed back was delivered to its group once more, after the consumer began to hand it back:
/// the answer to that may be slower than the retry.
pub fn handed_back_again(history: &[Event]) -> Result<(), Violation> {
    let mut waiting: BTreeSet<(&Arc<str>, u64)> = BTreeSet::new();
    // Whether they came again before the answer did.
    let mut under_way: BTreeMap<(&Arc<str>, u64), bool> = BTreeMap::new();
    for event in history {
        match event {
            Event::HandingBack(group, message) => {
                under_way.insert((group, *message), false);
            }
            Event::HandedBack(group, message) if under_way.remove(&(group, *message)) != Some(true) => {
                waiting.insert((group, *message));
            }
            Event::Consumed(group, message, _) => {
                waiting.remove(&(group, *message));
                under_way.entry((group, *message)).and_modify(|came| *came = true);
            }
            _ => {}
        }
    }
    match waiting.first() {
        Some((group, message)) => Err(Violation::new(NAME, format!("{group} never got {message} again"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, rejects, untimed};
    use super::*;

    #[test]
    fn rejects_lost_retries() {
        rejects(
            untimed(handed_back_again),
            &[
                ("got g 1 q0:0, back g 1", "never again"),
                ("got g 1 q0:0, back g 1, got h 1 q0:0", "another group got it"),
                ("got g 1 q0:0, got g 2 q0:1, back g 1, back g 2, got g 2 q9:0", "one of two"),
                ("got g 1 q0:0, back g 1, got g 1 q9:0, back g 1", "not after the second time"),
                ("got g 1 q0:0, got g 1 q0:0, back g 1", "twice before, never after"),
                ("got g 1 q0:0, handing g 1, back g 1, got g 2 q9:0", "asked and never again"),
            ],
        );
    }

    #[test]
    fn accepts_retries() {
        accepts(
            untimed(handed_back_again),
            &[
                ("", "nothing happened"),
                ("got g 1 q0:0", "consumed at once"),
                ("got g 1 q0:0, back g 1, got g 1 q9:0", "consumed on retry"),
                ("got g 1 q0:0, back g 1, got g 1 q9:0, back g 1, got g 1 q9:1", "on the second retry"),
                ("got g 1 q0:0, back g 1, got g 2 q0:1, got g 1 q0:0", "came from its own queue again"),
                ("got g 1 q0:0, handing g 1, got g 1 q9:0, back g 1", "came before the answer"),
            ],
        );
    }
}
