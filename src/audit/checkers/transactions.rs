//! Transactions take effect exactly as they were first decided.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use crate::audit::history::{Event, Place};

const NAME: &str = "a transaction takes effect exactly as first decided";

/// What a run leaves standing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Promises {
    /// What is not synced may be lost: a decision, with its message, or a half message.
    pub may_lose: bool,
    /// Everybody hears all questions in the end: nothing that was decided is given up.
    pub all_heard: bool,
}

#[derive(Default)]
struct Transaction<'a> {
    prepared: bool,
    /// What anybody told the broker, and what the broker said it did.
    told: BTreeSet<bool>,
    done: BTreeSet<bool>,
    consumed: BTreeSet<&'a Place>,
    found: BTreeSet<&'a Place>,
    kept: u64,
}

/// Of every transaction: the broker never agrees to two decisions; what nobody committed, or what was rolled back, is seen
/// by nobody; what was committed is there once and was seen in one place; what was prepared and never decided lies where
/// an operator finds it.
///
/// A crash leaves a choice only where `may_lose` says so: a commit that is lost leaves its half message open, so the
/// message may be seen in a second place, but is there once in the end.
pub fn transactions_as_decided(history: &[Event], promises: Promises) -> Result<(), Violation> {
    let mut transactions: BTreeMap<u64, Transaction<'_>> = BTreeMap::new();
    for event in history {
        match event {
            Event::Prepared(message) => transactions.entry(*message).or_default().prepared = true,
            Event::Deciding(message, commit) => {
                transactions.entry(*message).or_default().told.insert(*commit);
            }
            Event::Decided(message, commit) => {
                transactions.entry(*message).or_default().done.insert(*commit);
            }
            Event::Consumed(_, message, place) => {
                transactions.entry(*message).or_default().consumed.insert(place);
            }
            Event::Found(message, place) => {
                transactions.entry(*message).or_default().found.insert(place);
            }
            Event::KeptAside(message) => transactions.entry(*message).or_default().kept += 1,
            _ => {}
        }
    }
    transactions.iter().try_for_each(|(message, transaction)| {
        transaction.check(promises).map_err(|what| Violation::new(NAME, format!("{message} {what}")))
    })
}

impl Transaction<'_> {
    fn check(&self, Promises { may_lose, all_heard }: Promises) -> Result<(), String> {
        let (commit, rollback) = (self.told.contains(&true), self.told.contains(&false));
        let seen = !self.consumed.is_empty() || !self.found.is_empty();
        if self.found.len() > 1 {
            return Err(format!("is there {} times", self.found.len()));
        }
        if seen && !commit {
            return Err("is seen although nobody committed it".to_owned());
        }
        if may_lose {
            // A decision that was lost may be taken anew, and otherwise.
            return Ok(());
        }
        if self.done.len() > 1 {
            return Err("was committed and rolled back, said the broker".to_owned());
        }
        if self.consumed.union(&self.found).count() > 1 {
            return Err("was seen in two places".to_owned());
        }
        if self.done.contains(&false) && seen {
            return Err("was rolled back and is seen".to_owned());
        }
        if self.done.contains(&true) && self.found.is_empty() {
            return Err("was committed and is not there".to_owned());
        }
        if !self.prepared || !self.found.is_empty() || self.done.contains(&false) {
            return Ok(());
        }
        match (commit, rollback) {
            (_, true) => Ok(()),
            (true, false) if self.kept == 0 => Err("was to be committed and is lost".to_owned()),
            (true, false) if all_heard => Err("was to be committed and was given up".to_owned()),
            (false, false) if self.kept == 0 => Err("was never decided and is nowhere".to_owned()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, rejects, untimed};
    use super::*;

    fn strict(history: &[Event]) -> Result<(), Violation> {
        transactions_as_decided(history, Promises { may_lose: false, all_heard: true })
    }

    fn losing(history: &[Event]) -> Result<(), Violation> {
        transactions_as_decided(history, Promises { may_lose: true, all_heard: false })
    }

    #[test]
    fn rejects_what_was_not_decided() {
        rejects(
            untimed(strict),
            &[
                ("prepared 1, commit 1, found 1 q0:0, found 1 q0:1", "it is there twice"),
                ("prepared 1, rollback 1, found 1 q0:0", "nobody committed it"),
                ("prepared 1, got g 1 q0:0", "nobody decided"),
                ("prepared 1, commit 1, rollback 1, rolledback 1, got g 1 q0:0", "it was rolled back"),
                ("prepared 1, commit 1, rollback 1, committed! 1, rolledback 1, found 1 q0:0", "it was both"),
                ("prepared 1, commit 1, committed! 1", "it is lost"),
                ("prepared 1, commit 1", "nobody asked, or the answer did not count"),
                ("prepared 1, commit 1, got g 1 q0:0, found 1 q0:1", "it was seen elsewhere"),
                ("prepared 1, commit 1, aside 1", "it was given up although somebody knows"),
                ("prepared 1", "it was given up and is nowhere"),
            ],
        );
    }

    #[test]
    fn accepts_what_was_decided() {
        accepts(
            untimed(strict),
            &[
                ("", "nothing happened"),
                ("prepared 1, commit 1, got g 1 q0:0, got g 1 q0:0, found 1 q0:0", "committed, delivered twice"),
                ("prepared 1, rollback 1", "rolled back"),
                ("prepared 1, commit 1, rollback 1, committed! 1, found 1 q0:0", "the first one counts"),
                ("prepared 1, commit 1, rollback 1", "both were said, the broker took the second first"),
                ("prepared 1, aside 1, aside 1", "never decided; a crash repeated the copy"),
                ("unknown 1, rollback 1", "not stored"),
                ("unknown 1, commit 1, found 1 q0:0", "stored, nobody was told"),
            ],
        );
    }

    #[test]
    fn a_lost_decision_is_taken_anew_but_never_twice() {
        rejects(
            untimed(losing),
            &[
                ("prepared 1, commit 1, found 1 q0:0, found 1 q0:1", "twice"),
                ("prepared 1, rollback 1, rolledback 1, found 1 q0:0", "nobody committed it"),
                ("prepared 1, found 1 q0:0", "nobody decided"),
                ("prepared 1, got g 1 q0:0", "seen"),
                ("rollback 1, got g 1 q0:0", "seen, the half was lost"),
            ],
        );
        accepts(
            untimed(losing),
            &[
                ("prepared 1, commit 1, committed! 1", "the commit was lost, or the half"),
                ("prepared 1", "the half was lost"),
                ("prepared 1, commit 1, got g 1 q0:3, found 1 q0:1", "seen, lost, committed again"),
                ("prepared 1, commit 1, committed! 1, found 1 q0:1", "kept"),
                ("prepared 1, rollback 1", "rolled back"),
            ],
        );
    }
}
