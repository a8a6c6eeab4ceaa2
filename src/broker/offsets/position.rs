//! Where one group stands in one queue: the rules for one commit, one pull, one reset.
//!
//! ```text
//!             reset              pull: answered with the target      pull at the target
//! Free ───────────────▶ Waiting ───────────────────────▶ Answered ───────────────────▶ Settling ──▶ Free
//!   commits count         commits do not count             only the target counts       the last
//!                                                                                      puller's count
//! ```
//!
//! RocketMQ forgets a reset as soon as one pull was answered with it. A client that had not heard the answer yet, or
//! crashed on it, then brought the old offset back with its next commit (OFF-3, OFF-7).

use std::sync::Arc;

use crate::env::Millis;

/// How long after its first answer a reset defends itself, and as long again after the group took it up. Old Java
/// clients wait 10 s before they act on the answer, and commit the old offset twice meanwhile.
pub const RESET_GUARD_MS: u64 = 60_000;

/// Who commits or pulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who<'a> {
    /// A registered member of the group, by client id.
    Member(&'a Arc<str>),
    /// A connection without a member of this group: admin tools, clients that do not register.
    Other,
}

impl Who<'_> {
    fn is(&self, client: &str) -> bool {
        matches!(self, Who::Member(member) if &***member == client)
    }
}

/// What became of a commit. All of them are answered with SUCCESS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// It counts.
    Stored,
    /// A reset is under way; the remark says so.
    Resetting,
    /// It came from a member that does not have the queue any more and would move the one that has it (OTH-7).
    Late {
        /// The offset that stays.
        kept: i64,
    },
}

#[derive(Debug, Default)]
pub(super) struct Position {
    committed: Option<i64>,
    pulled: Option<i64>,
    last_puller: Option<Arc<str>>,
    reset: Reset,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Reset {
    #[default]
    Free,
    Waiting {
        target: i64,
    },
    Answered {
        target: i64,
        first: Millis,
    },
    Settling {
        target: i64,
        since: Millis,
    },
}

impl Position {
    pub(super) fn at(committed: i64) -> Position {
        Position { committed: Some(committed), ..Position::default() }
    }

    /// The committed offset. A negative one counts as none.
    pub(super) fn committed(&self) -> Option<i64> {
        self.committed.filter(|offset| *offset >= 0)
    }

    pub(super) fn pulled(&self) -> Option<i64> {
        self.pulled
    }

    /// `holder` is the client that holds the queue's lock, if one does.
    pub(super) fn commit(&mut self, offset: i64, by: Who<'_>, holder: Option<&str>, now: Millis) -> Commit {
        self.end_guard(now);
        match self.reset {
            Reset::Waiting { .. } => return Commit::Resetting,
            Reset::Answered { target, .. } if offset != target => return Commit::Resetting,
            Reset::Answered { target, .. } => self.settle(target, by, now),
            Reset::Settling { .. } | Reset::Free => {}
        }
        let kept = self.committed().unwrap_or(0);
        if matches!(by, Who::Member(_)) {
            let not_holder = holder.is_some_and(|holder| !by.is(holder));
            let not_last = self.last_puller.as_ref().is_some_and(|last| !by.is(last));
            let guarded = matches!(self.reset, Reset::Settling { .. });
            if not_holder || (not_last && (guarded || self.committed().is_some_and(|now| offset < now))) {
                return Commit::Late { kept };
            }
        }
        self.committed = Some(offset);
        Commit::Stored
    }

    /// A pull that wants to begin at `from`. `Some`: answer PULL_OFFSET_MOVED with that offset, and commit nothing that
    /// came with the pull.
    pub(super) fn pull(&mut self, from: i64, by: Who<'_>, now: Millis) -> Option<i64> {
        self.end_guard(now);
        match self.reset {
            Reset::Waiting { target } | Reset::Answered { target, .. } if from == target => {
                self.settle(target, by, now)
            }
            Reset::Waiting { target } => {
                self.reset = Reset::Answered { target, first: now };
                return Some(target);
            }
            Reset::Answered { target, .. } => return Some(target),
            // A new owner begins at an offset it was told since the reset; whoever does not is a former owner, and
            // must not become the one whose commits count.
            Reset::Settling { target, .. } if self.is_stranger(by) => {
                let committed = self.committed.unwrap_or(target);
                if !(target..=committed).contains(&from) {
                    return Some(committed);
                }
            }
            Reset::Settling { .. } | Reset::Free => {}
        }
        self.pulled = Some(from);
        match by {
            Who::Member(client) if self.is_stranger(by) => self.last_puller = Some(client.clone()),
            Who::Member(_) => {}
            Who::Other => self.last_puller = None,
        }
        None
    }

    pub(super) fn reset(&mut self, target: i64) {
        *self = Position {
            committed: Some(target),
            pulled: Some(target),
            last_puller: None,
            reset: Reset::Waiting { target },
        };
    }

    fn is_stranger(&self, by: Who<'_>) -> bool {
        matches!(by, Who::Member(_)) && !self.last_puller.as_ref().is_some_and(|last| by.is(last))
    }

    fn settle(&mut self, target: i64, by: Who<'_>, now: Millis) {
        self.reset = Reset::Settling { target, since: now };
        self.last_puller = match by {
            Who::Member(client) => Some(client.clone()),
            Who::Other => None,
        };
    }

    fn end_guard(&mut self, now: Millis) {
        if let Reset::Answered { first: since, .. } | Reset::Settling { since, .. } = self.reset {
            if now.since(since) > RESET_GUARD_MS {
                self.reset = Reset::Free;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(1000);

    fn clients() -> (Arc<str>, Arc<str>) {
        ("a".into(), "b".into())
    }

    /// OTH-7: A's late commit after a rebalance moved B, the new owner, back.
    #[test]
    fn oth_7_a_late_commit_of_the_former_owner_does_not_lower() {
        let (a, b) = clients();
        let mut position = Position::at(100);
        assert_eq!(position.pull(100, Who::Member(&a), NOW), None);
        assert_eq!(position.pull(100, Who::Member(&b), NOW), None);
        assert_eq!(position.commit(200, Who::Member(&b), None, NOW), Commit::Stored);
        assert_eq!(position.commit(100, Who::Member(&a), None, NOW), Commit::Late { kept: 200 });
        assert_eq!(position.commit(200, Who::Member(&a), None, NOW), Commit::Stored, "lowers nothing");
        assert_eq!(position.commit(150, Who::Member(&b), None, NOW), Commit::Stored, "the owner may go back");
        assert_eq!(position.commit(50, Who::Other, None, NOW), Commit::Stored, "a tool may go back");
        assert_eq!(position.committed(), Some(50));
    }

    /// OTH-7: after a restart of the broker nobody is known as the last puller. In doubt messages repeat.
    #[test]
    fn oth_7_without_a_known_owner_a_member_may_go_back() {
        let (a, _) = clients();
        let mut position = Position::at(100);
        assert_eq!(position.commit(90, Who::Member(&a), None, NOW), Commit::Stored);
    }

    #[test]
    fn of_a_locked_queue_only_the_holder_commits() {
        let (a, b) = clients();
        let mut position = Position::at(100);
        assert_eq!(position.commit(200, Who::Member(&a), Some("b"), NOW), Commit::Late { kept: 100 });
        assert_eq!(position.commit(110, Who::Member(&b), Some("b"), NOW), Commit::Stored);
        assert_eq!(position.commit(90, Who::Member(&b), Some("b"), NOW), Commit::Stored);
        assert_eq!(position.commit(80, Who::Other, Some("b"), NOW), Commit::Stored);
    }

    /// OFF-3: the consumer that fetched the instruction crashed; the old offset came back and lower commits were
    /// refused.
    #[test]
    fn off_3_a_reset_survives_the_consumer_that_fetched_it() {
        let (a, b) = clients();
        let mut position = Position::at(100);
        position.pull(100, Who::Member(&a), NOW);
        position.reset(40);
        assert_eq!(position.pull(100, Who::Member(&a), NOW), Some(40));
        assert_eq!(position.pull(40, Who::Member(&b), NOW), None, "another starts where it was told");
        assert_eq!(position.commit(45, Who::Member(&b), None, NOW), Commit::Stored);
        assert_eq!(position.committed(), Some(45));
    }

    /// OFF-7: the running consumer's next commit undid the reset.
    #[test]
    fn off_7_commits_of_the_old_offset_do_not_undo_a_reset() {
        let (a, b) = clients();
        let mut position = Position::at(500);
        position.pull(500, Who::Member(&a), NOW);
        position.reset(100);
        assert_eq!(position.commit(510, Who::Member(&a), None, NOW), Commit::Resetting);
        assert_eq!(position.pull(520, Who::Member(&a), NOW), Some(100));
        assert_eq!(position.commit(520, Who::Member(&a), None, NOW), Commit::Resetting, "4.x acts after 10 s only");
        assert_eq!(position.pull(520, Who::Member(&a), NOW), Some(100), "the first answer got lost");
        assert_eq!(position.pull(100, Who::Member(&b), NOW), None);
        assert_eq!(position.commit(520, Who::Member(&a), None, NOW), Commit::Late { kept: 100 });
        assert_eq!(position.pull(520, Who::Member(&a), NOW), Some(100), "a former owner does not take it back");
        assert_eq!(position.commit(130, Who::Member(&b), None, NOW), Commit::Stored);
        let later = NOW.plus(60_001);
        assert_eq!(position.commit(140, Who::Member(&a), None, later), Commit::Stored, "the guard ends");
    }

    #[test]
    fn a_client_that_never_obeys_is_not_held_up_for_ever() {
        let (a, _) = clients();
        let mut position = Position::at(500);
        position.reset(100);
        assert_eq!(position.pull(500, Who::Member(&a), NOW), Some(100));
        assert_eq!(position.pull(500, Who::Member(&a), NOW.plus(60_000)), Some(100));
        assert_eq!(position.pull(500, Who::Member(&a), NOW.plus(60_001)), None);
        assert_eq!(position.commit(501, Who::Member(&a), None, NOW.plus(60_001)), Commit::Stored);
    }

    /// OFF-3 and OFF-7 in all orders of five steps of a former and a new owner: the old offset never comes back.
    #[test]
    fn off_7_all_short_histories() {
        let (a, b) = clients();
        for history in 0..4u32.pow(5) {
            let mut position = Position::at(500);
            position.pull(500, Who::Member(&a), NOW);
            position.reset(100);
            let mut steps = history;
            for _ in 0..5 {
                match steps % 4 {
                    0 => drop(position.pull(510, Who::Member(&a), NOW)),
                    1 => drop(position.commit(510, Who::Member(&a), None, NOW)),
                    2 => drop(position.pull(100, Who::Member(&b), NOW)),
                    _ => drop(position.commit(120, Who::Member(&b), None, NOW)),
                }
                steps /= 4;
                assert!(matches!(position.committed(), Some(100 | 120)), "history {history}");
            }
        }
    }
}
