//! The account of open transactions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::ended::{Decision, Ended};
use crate::env::{Canaries, Canary, Millis};
use crate::proto::{PhysicalOffset, QueueOffset};

/// A half message that is open while so many others came is put again, so that a start need not read far back.
pub const ROLL_DISTANCE: u64 = 100_000;
/// Halves of one transaction that its op names, the newest: more than it is asked about.
const HALVES_NAMED_MAX: usize = 64;

/// Names a transaction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId {
    /// The producer group.
    pub group: Arc<str>,
    /// The UNIQ_KEY of its message.
    pub key: Box<str>,
}

/// Where a half message is, or an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its number in its queue.
    pub offset: QueueOffset,
    /// Where its record lies.
    pub position: PhysicalOffset,
}

/// A half message as the ledger has to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Half {
    /// Its transaction.
    pub id: TransactionId,
    /// Where it is.
    pub place: Place,
    /// The first half of its transaction, if it was put again.
    pub first: Option<QueueOffset>,
    /// How often its producer was asked.
    pub checks: u32,
    /// How long its producer wants not to be asked, if it said so.
    pub immunity_ms: Option<u64>,
    /// The monotonic time since which it waits.
    pub since: Millis,
}

/// A producer's decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The transaction of the half message that it names.
    pub id: TransactionId,
    /// That half message.
    pub offset: QueueOffset,
    /// The answer to a question, or what the producer says by itself.
    pub from_check: bool,
}

/// What a producer's decision means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is the first one: store it, then tell [`HalfLedger::on_ended`]. The half names the transaction.
    Decide(QueueOffset),
    /// It comes too late: the transaction has ended, by this decision if that is remembered.
    Ended(Option<Decision>),
    /// It is no answer, and the time is over in which its producer may decide without being asked.
    Immune,
    /// The half message is not known yet.
    Unknown,
}

/// A transaction that something is to be done about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Names it.
    pub half: QueueOffset,
    /// Where its half lies.
    pub position: PhysicalOffset,
    /// What is to be done.
    pub kind: DueKind,
}

/// What is to be done about a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueKind {
    /// Its producer is to be asked.
    Ask,
    /// It was asked as often as it may be, or its record expires soon.
    GiveUp,
}

/// How far the two queues are done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The oldest half that is open.
    pub half: QueueOffset,
    /// The first op that is still needed to know what is open.
    pub op: QueueOffset,
}

/// Whom to ask when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckRules {
    /// `transactionTimeOut`
    pub timeout_ms: u64,
    /// `transactionCheckMax`
    pub checks_max: u32,
    /// The age at which a half is given up because its record expires.
    pub age_max_ms: u64,
}

/// See the module's text. Transactions are named by the newest of their halves.
#[derive(Clone, Debug, Default)]
pub struct HalfLedger {
    open: BTreeMap<QueueOffset, Open>,
    ids: BTreeMap<TransactionId, QueueOffset>,
    /// The transaction of each half that is known to be open.
    halves: BTreeMap<QueueOffset, QueueOffset>,
    /// The half to be read next.
    next: QueueOffset,
    /// Halves that were put again and are still to be read.
    ahead: BTreeSet<QueueOffset>,
    /// Ops that may still be needed, each with the last half that it names.
    ops: VecDeque<(QueueOffset, QueueOffset)>,
    /// So many of the last ops may lie behind halves of their transactions that are still to be read.
    unread: usize,
    op_next: QueueOffset,
    /// Halves of ended transactions that no op names yet, each with the half that shows until then to which transaction it
    /// belongs.
    owed: BTreeMap<QueueOffset, QueueOffset>,
    ended: Ended,
    canaries: Canaries,
}

#[derive(Clone, Debug)]
struct Open {
    id: TransactionId,
    /// The oldest half that anybody may name.
    first: QueueOffset,
    /// Those that have to be named by its op, the newest last.
    halves: Vec<Place>,
    immunity_ms: Option<u64>,
    checks: u32,
    since: Millis,
}

impl Open {
    /// Where the half lies that stands for it.
    fn position(&self) -> PhysicalOffset {
        self.halves.last().map_or(PhysicalOffset(0), |newest| newest.position)
    }
}

impl HalfLedger {
    /// An account that begins there, with nothing open.
    pub fn new(from: Progress, canaries: Canaries) -> HalfLedger {
        HalfLedger { next: from.half, op_next: from.op, canaries, ..HalfLedger::default() }
    }

    /// The half to be read next.
    pub fn next(&self) -> QueueOffset {
        self.next
    }

    /// Half messages that are open.
    pub fn open(&self) -> usize {
        self.halves.len()
    }

    /// The half queue was read up to `to`. Halves before it that were not handed in cannot be read: nobody can decide about
    /// them any more.
    pub fn on_read_to(&mut self, to: QueueOffset) {
        self.next = self.next.max(to);
        self.ahead = self.ahead.split_off(&self.next);
        self.unread = 0;
    }

    /// The next half of the queue was read. One of a transaction that is open already, a retried send or one that was put
    /// again, stands for it from now on. One that lies before the end of its transaction has ended with it.
    pub fn on_half(&mut self, half: Half) {
        let Half { id, place, first, checks, immunity_ms, since } = half;
        self.next = self.next.max(QueueOffset(place.offset.0 + 1));
        if self.ahead.remove(&place.offset) {
            return;
        }
        let known = self.ids.get(&id).copied().filter(|_| !self.canaries.has(Canary::HalvesApart));
        if let (None, Some(shows)) = (known, self.ended.reaches(&id, place.position)) {
            self.owed.insert(place.offset, shows);
            return;
        }
        let open = known.and_then(|known| self.open.remove(&known));
        let mut open = open.unwrap_or_else(|| {
            let first = first.unwrap_or(place.offset).min(place.offset);
            Open { id, first, halves: Vec::new(), immunity_ms, checks, since }
        });
        open.checks = open.checks.max(checks);
        self.stand(open, place);
    }

    /// A producer decides.
    pub fn on_end(&self, end: &End, now: Millis) -> Verdict {
        let ended = |decision| if end.offset < self.next { Verdict::Ended(decision) } else { Verdict::Unknown };
        let known = self.ids.get(&end.id).and_then(|half| Some((*half, self.open.get(half)?)));
        let Some((half, open)) = known.filter(|(_, open)| open.first <= end.offset) else {
            return ended(self.ended.decision(&end.id, end.offset));
        };
        if end.offset > half {
            return Verdict::Unknown;
        }
        if end.offset < half && self.canaries.has(Canary::HalvesApart) {
            return Verdict::Decide(end.offset);
        }
        let over = open.immunity_ms.is_some_and(|immunity| now.since(open.since) > immunity);
        if over && !end.from_check {
            return Verdict::Immune;
        }
        Verdict::Decide(half)
    }

    /// The halves that the op of a transaction has to name.
    pub fn op_of(&self, half: QueueOffset) -> Vec<QueueOffset> {
        self.open.get(&half).map_or(Vec::new(), |open| open.halves.iter().map(|half| half.offset).collect())
    }

    /// The first half of a transaction.
    pub fn first_of(&self, half: QueueOffset) -> QueueOffset {
        self.open.get(&half).map_or(half, |open| open.first)
    }

    /// How often the producer of a transaction was asked.
    pub fn checks_of(&self, half: QueueOffset) -> u32 {
        self.open.get(&half).map_or(0, |open| open.checks)
    }

    /// A decision is stored, and with it `op`, which names the halves of [`HalfLedger::op_of`].
    pub fn on_ended(&mut self, half: QueueOffset, decision: Decision, op: Place) {
        if let Some(open) = self.remove(half) {
            self.ended.remember(open.id, decision, open.first..=half, op.position);
        }
        self.on_op_stored(op.offset, half);
    }

    /// A transaction was put again: the half at `place` stands for it. `asked`: because its producer is asked. Halves that
    /// were sent meanwhile may lie before it, and are still to be read.
    pub fn on_put_again(&mut self, half: QueueOffset, place: Place, asked: bool) {
        self.ahead.insert(place.offset);
        let Some(mut open) = self.open.remove(&half) else { return };
        open.checks = open.checks.saturating_add(u32::from(asked));
        self.stand(open, place);
    }

    /// The producer could not be asked after all: that does not count.
    pub fn on_not_asked(&mut self, half: QueueOffset) {
        if let Some(open) = self.open.get_mut(&half) {
            open.checks = open.checks.saturating_sub(1);
        }
    }

    /// The record of a half is gone, and nobody can decide about its transaction any more.
    pub fn on_lost(&mut self, half: QueueOffset) {
        self.remove(half);
    }

    /// What is to be done about transactions whose halves lie in `from..to`, at most `limit` of them. A half that is as
    /// old as it has to be is asked about (TXN-1: one of exactly that age was neither asked about nor kept).
    pub fn due(&self, range: std::ops::Range<QueueOffset>, limit: usize, rules: &CheckRules, now: Millis) -> Vec<Due> {
        let due = |(half, open): (&QueueOffset, &Open)| {
            let age_ms = now.since(open.since);
            let early = age_ms < open.immunity_ms.unwrap_or(rules.timeout_ms);
            let kind = match () {
                () if age_ms >= rules.age_max_ms => DueKind::GiveUp,
                () if early => return None,
                () if open.checks >= rules.checks_max => DueKind::GiveUp,
                () => DueKind::Ask,
            };
            Some(Due { half: *half, position: open.position(), kind })
        };
        self.open.range(range).filter_map(due).take(limit).collect()
    }

    /// An op was read at the start: the transactions of the halves that it names have ended.
    pub fn on_op(&mut self, op: QueueOffset, named: &[QueueOffset]) {
        for half in named {
            if let Some(transaction) = self.halves.get(half).copied() {
                self.remove(transaction);
            }
        }
        self.on_op_stored(op, named.iter().copied().max().unwrap_or_default());
    }

    /// A committed message was found at the end of its queue at the start: if it is behind the half of a transaction that
    /// looks open, then it is that transaction's, and the crash has taken its op.
    ///
    /// The crash may have torn its properties, which no checksum covers; then it is known by `prepared`, where it says its
    /// half lies.
    pub fn on_committed_before(
        &mut self,
        id: Option<&TransactionId>,
        prepared: PhysicalOffset,
        position: PhysicalOffset,
    ) -> bool {
        let by_half = |open: &Open| open.halves.iter().any(|half| half.position == prepared);
        let half = id.and_then(|id| self.ids.get(id)).copied();
        let half = half.or_else(|| self.open.iter().find(|(_, open)| by_half(open)).map(|(half, _)| *half));
        let Some(half) = half.filter(|half| self.open.get(half).is_some_and(|open| open.position() < position)) else {
            return false;
        };
        let Some(open) = self.remove(half) else { return false };
        self.owed.extend(open.halves.iter().map(|half| (half.offset, half.offset)));
        self.ended.remember(open.id, Decision::Commit, open.first..=half, position);
        true
    }

    /// Halves that an op is still to name.
    pub fn owed(&self) -> Vec<QueueOffset> {
        self.owed.keys().copied().collect()
    }

    /// An op that names halves which were owed is stored.
    pub fn on_paid(&mut self, op: QueueOffset, named: &[QueueOffset]) {
        named.iter().for_each(|half| {
            self.owed.remove(half);
        });
        self.on_op_stored(op, named.iter().copied().max().unwrap_or_default());
    }

    /// How far both queues are done with.
    pub fn progress(&mut self) -> Progress {
        let open = self.open.first_key_value().map(|(half, _)| *half);
        let owed = self.owed.values().copied();
        let unread = self.ops.iter().rev().take(self.unread).map(|(_, last)| *last);
        let half = open.into_iter().chain(owed).chain(unread).fold(self.next, QueueOffset::min);
        while self.ops.front().is_some_and(|(_, last)| *last < half) {
            self.ops.pop_front();
        }
        Progress { half, op: self.ops.front().map_or(self.op_next, |(op, _)| *op) }
    }

    /// The halves that stand for open transactions.
    pub fn standing(&self) -> impl Iterator<Item = Place> + use<'_> {
        self.open.iter().map(|(half, open)| Place { offset: *half, position: open.position() })
    }

    /// The transaction that a half stands for.
    pub fn id_of(&self, half: QueueOffset) -> Option<&TransactionId> {
        self.open.get(&half).map(|open| &open.id)
    }

    /// Whether a transaction is open.
    pub fn is_open(&self, id: &TransactionId) -> bool {
        self.ids.contains_key(id)
    }

    fn on_op_stored(&mut self, op: QueueOffset, last: QueueOffset) {
        self.op_next = self.op_next.max(QueueOffset(op.0 + 1));
        self.ops.push_back((op, last));
        self.unread += 1;
    }

    /// The half at `place` stands for a transaction from now on, unless a newer one does: it was put again before this one
    /// was read.
    fn stand(&mut self, mut open: Open, place: Place) {
        if open.halves.len() >= HALVES_NAMED_MAX {
            // A reader of the queue finds the others to be halves of the same transaction.
            self.halves.remove(&open.halves.remove(0).offset);
        }
        let at = open.halves.partition_point(|known| known.offset < place.offset);
        open.halves.insert(at, place);
        let half = open.halves.last().map_or(place.offset, |newest| newest.offset);
        open.halves.iter().for_each(|known| {
            self.halves.insert(known.offset, half);
        });
        self.ids.insert(open.id.clone(), half);
        self.open.insert(half, open);
    }

    fn remove(&mut self, half: QueueOffset) -> Option<Open> {
        let open = self.open.remove(&half)?;
        open.halves.iter().for_each(|known| {
            self.halves.remove(&known.offset);
        });
        if self.ids.get(&open.id) == Some(&half) {
            self.ids.remove(&open.id);
        }
        Some(open)
    }
}
