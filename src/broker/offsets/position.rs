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

/// The most members remembered while a reset settles.
const TOLD_MAX: usize = 256;

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

    fn client(&self) -> Option<Arc<str>> {
        match self {
            Who::Member(client) => Some(Arc::clone(client)),
            Who::Other => None,
        }
    }
}

/// What became of a commit. All but [`Commit::Locked`] are answered with SUCCESS.
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
    /// The queue is locked, and nobody knows who this is: perhaps a former holder on a new connection.
    Locked,
}

#[derive(Debug, Default)]
pub(super) struct Position {
    committed: Option<i64>,
    pulled: Option<i64>,
    last_puller: Option<Arc<str>>,
    /// A reset that is not over; boxed, because it is rare.
    reset: Option<Box<Reset>>,
    /// On a slave: until then a lower offset of the master's does not count.
    kept_until: Option<Millis>,
}

#[derive(Debug)]
struct Reset {
    target: i64,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Waiting,
    Answered {
        first: Millis,
    },
    Settling {
        since: Millis,
        /// Members that were told of the reset, or began where it leads. They decide for themselves from then on, so
        /// that members of a broadcasting group, who all pull the same queue, are moved once and not for ever.
        told: Vec<Arc<str>>,
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

    /// `holder` is the client that holds the queue's lock, if one does: of all others no commit counts.
    pub(super) fn commit(&mut self, offset: i64, by: Who<'_>, holder: Option<&str>, now: Millis) -> Commit {
        self.end_guard(now);
        if holder.is_some() && by == Who::Other {
            return Commit::Locked;
        }
        match self.reset.as_deref_mut() {
            Some(Reset { phase: Phase::Waiting, .. }) => return Commit::Resetting,
            Some(Reset { phase: Phase::Answered { .. }, target }) if offset != *target => return Commit::Resetting,
            Some(reset @ Reset { phase: Phase::Answered { .. }, .. }) => {
                reset.settle(by, now);
                self.last_puller = by.client();
            }
            Some(Reset { phase: Phase::Settling { .. }, .. }) | None => {}
        }
        let not_last = self.last_puller.as_ref().is_some_and(|last| !by.is(last));
        if by == Who::Other && not_last && self.reset.is_some() {
            // It may be a former owner on a new connection.
            return Commit::Resetting;
        }
        if matches!(by, Who::Member(_)) {
            let not_holder = holder.is_some_and(|holder| !by.is(holder));
            let lowers = self.committed().is_some_and(|committed| offset < committed);
            if not_holder || (not_last && (lowers || self.reset.is_some())) {
                return Commit::Late { kept: self.committed().unwrap_or(0) };
            }
        }
        self.committed = Some(offset);
        Commit::Stored
    }

    /// A pull that wants to begin at `from`. `Some`: answer PULL_OFFSET_MOVED with that offset, and commit nothing that
    /// came with the pull.
    pub(super) fn pull(&mut self, from: i64, by: Who<'_>, now: Millis) -> Option<i64> {
        self.end_guard(now);
        if let Some(reset) = &mut self.reset {
            let moved = reset.pull(from, by, self.committed, now);
            if moved.is_some() {
                return moved;
            }
        }
        self.pulled = Some(from);
        if !self.last_puller.as_ref().is_some_and(|last| by.is(last)) {
            self.last_puller = by.client();
        }
        None
    }

    pub(super) fn reset(&mut self, target: i64) {
        let reset = Some(Box::new(Reset { target, phase: Phase::Waiting }));
        *self = Position { committed: Some(target), pulled: Some(target), reset, ..Position::default() };
    }

    /// Where the group was reset to, until it has taken that up.
    pub(super) fn pending_reset(&self) -> Option<i64> {
        let reset = self.reset.as_deref()?;
        (!matches!(reset.phase, Phase::Settling { .. })).then_some(reset.target)
    }

    /// Takes over a reset at a slave's master, or that it is over; whether that is new.
    pub(super) fn follow_reset(&mut self, target: Option<i64>) -> bool {
        let pending = self.pending_reset();
        match target {
            Some(target) if pending != Some(target) => self.reset(target),
            None if pending.is_some() => self.reset = None,
            _ => return false,
        }
        true
    }

    /// Takes over what a slave's master says. A lower offset does not count while this one is kept.
    pub(super) fn follow(&mut self, offset: i64, now: Millis) -> bool {
        if self.is_kept(now) && self.committed().is_some_and(|own| own > offset) {
            return false;
        }
        self.kept_until = None;
        self.committed.replace(offset) != Some(offset)
    }

    /// The queue ends before the committed offset.
    pub(super) fn lower(&mut self, end: i64) {
        (self.committed, self.kept_until) = (Some(end), None);
        if let Some(reset) = &mut self.reset {
            reset.target = reset.target.min(end);
        }
    }

    /// Keeps a commit that counts, on a slave, against lower offsets of the master's.
    pub(super) fn keep(&mut self, commit: Commit, until: Option<Millis>) {
        if commit == Commit::Stored && until.is_some() {
            self.kept_until = until;
        }
    }

    /// Nothing is kept any longer than this.
    pub(super) fn keep_at_most(&mut self, until: Millis) {
        self.kept_until = self.kept_until.map(|kept| kept.min(until));
    }

    /// What is kept now is kept without an end.
    pub(super) fn keep_on(&mut self, now: Millis) {
        if self.is_kept(now) {
            self.kept_until = Some(Millis(i64::MAX));
        }
    }

    /// Whether a lower offset of the master's does not count now.
    pub(super) fn is_kept(&self, now: Millis) -> bool {
        self.kept_until.is_some_and(|until| now < until)
    }

    fn end_guard(&mut self, now: Millis) {
        let over = self.reset.as_ref().is_some_and(|reset| match reset.phase {
            Phase::Waiting => false,
            Phase::Answered { first: since } | Phase::Settling { since, .. } => now.since(since) > RESET_GUARD_MS,
        });
        if over {
            self.reset = None;
        }
    }
}

impl Reset {
    fn pull(&mut self, from: i64, by: Who<'_>, committed: Option<i64>, now: Millis) -> Option<i64> {
        let target = self.target;
        match &mut self.phase {
            Phase::Waiting | Phase::Answered { .. } if from == target => {
                self.settle(by, now);
                None
            }
            Phase::Waiting => {
                self.phase = Phase::Answered { first: now };
                Some(target)
            }
            Phase::Answered { .. } => Some(target),
            // A new owner begins at an offset it was told since the reset; whoever does not is a former owner, and must
            // not become the one whose commits count.
            Phase::Settling { told, .. } => {
                let client = by.client().filter(|client| !told.contains(client))?;
                let committed = committed.unwrap_or(target);
                if told.len() < TOLD_MAX {
                    told.push(client);
                }
                (!(target..=committed).contains(&from)).then_some(committed)
            }
        }
    }

    fn settle(&mut self, by: Who<'_>, now: Millis) {
        self.phase = Phase::Settling { since: now, told: by.client().into_iter().collect() };
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
        assert_eq!(position.commit(80, Who::Other, Some("b"), NOW), Commit::Locked, "it may be a former holder");
        assert_eq!(position.commit(80, Who::Other, None, NOW), Commit::Stored);
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
        assert_eq!(position.pull(520, Who::Member(&a), NOW), Some(100), "a former owner is told as well");
        assert_eq!(position.commit(130, Who::Member(&b), None, NOW), Commit::Stored);
        let later = NOW.plus(60_001);
        assert_eq!(position.commit(140, Who::Member(&a), None, later), Commit::Stored, "the guard ends");
    }

    #[test]
    fn members_of_a_broadcasting_group_are_moved_once_each() {
        let (a, b) = clients();
        let mut position = Position::at(500);
        position.reset(100);
        assert_eq!(position.pull(500, Who::Member(&a), NOW), Some(100));
        assert_eq!(position.pull(100, Who::Member(&a), NOW), None);
        assert_eq!(position.pull(700, Who::Member(&b), NOW), Some(100));
        assert_eq!(position.pull(100, Who::Member(&b), NOW), None);
        for from in [132, 164, 196] {
            assert_eq!(position.pull(from, Who::Member(&a), NOW), None);
            assert_eq!(position.pull(from, Who::Member(&b), NOW), None);
        }
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

    /// OFF-3 and OFF-7 in all orders of five steps of a former and a new owner: the old offset never comes back, unless
    /// its owner insists after it was told.
    #[test]
    fn off_7_all_short_histories() {
        let (a, b) = clients();
        for history in 0..4u32.pow(5) {
            let mut position = Position::at(500);
            position.pull(500, Who::Member(&a), NOW);
            position.reset(100);
            let (mut steps, mut told, mut insists) = (history, 0, false);
            for _ in 0..5 {
                match steps % 4 {
                    0 => match position.pull(510, Who::Member(&a), NOW) {
                        Some(_) => told += 1,
                        None => insists = true,
                    },
                    1 => drop(position.commit(510, Who::Member(&a), None, NOW)),
                    2 => drop(position.pull(100, Who::Member(&b), NOW)),
                    _ => drop(position.commit(120, Who::Member(&b), None, NOW)),
                }
                steps /= 4;
                assert!(insists || matches!(position.committed(), Some(100 | 120)), "history {history}");
                assert!(!insists || told > 0, "history {history}");
            }
        }
    }
}
