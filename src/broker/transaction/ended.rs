//! What was decided lately, for the answers to those who decide again.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::RangeInclusive;

use super::ledger::TransactionId;
use crate::proto::{PhysicalOffset, QueueOffset};

/// Ended transactions that are remembered with their decision. Of older ones it is known that they have ended.
const REMEMBERED_MAX: usize = 10_000;

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Decision {
    /// Its message is delivered.
    Commit,
    /// Its message is never seen.
    Rollback,
    /// Nobody decided: its message lies in `TRANS_CHECK_MAX_TIME_TOPIC`.
    GivenUp,
}

impl fmt::Display for Decision {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Decision::Commit => "committed",
            Decision::Rollback => "rolled back",
            Decision::GivenUp => "given up, its message lies in TRANS_CHECK_MAX_TIME_TOPIC",
        })
    }
}

/// The last decisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ended {
    decisions: BTreeMap<TransactionId, End>,
    order: VecDeque<TransactionId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct End {
    decision: Decision,
    /// From which to which half the transaction reached: an id may be used again.
    halves: RangeInclusive<QueueOffset>,
    /// Where the record lies that ended it.
    position: PhysicalOffset,
}

impl Ended {
    /// A transaction has ended, with halves in this range, by the record at `position`.
    pub(super) fn remember(
        &mut self,
        id: TransactionId,
        decision: Decision,
        halves: RangeInclusive<QueueOffset>,
        position: PhysicalOffset,
    ) {
        if self.decisions.insert(id.clone(), End { decision, halves, position }).is_some() {
            // One that was sent again under its old id.
            self.order.retain(|known| *known != id);
        }
        self.order.push_back(id);
        if self.order.len() > REMEMBERED_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.decisions.remove(&oldest);
            }
        }
    }

    /// What was decided about the transaction that half `offset` belongs to, if that is remembered.
    pub(super) fn decision(&self, id: &TransactionId, offset: QueueOffset) -> Option<Decision> {
        self.decisions.get(id).filter(|end| end.halves.contains(&offset)).map(|end| end.decision)
    }

    /// If a half at `position` lies before the end of the transaction: the last half that its op names.
    pub(super) fn reaches(&self, id: &TransactionId, position: PhysicalOffset) -> Option<QueueOffset> {
        self.decisions.get(id).filter(|end| position < end.position).map(|end| *end.halves.end())
    }
}
