//! What was decided lately, for the answers to those who decide again.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use super::ledger::TransactionId;
use crate::proto::QueueOffset;

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
    decisions: BTreeMap<TransactionId, (Decision, QueueOffset)>,
    order: VecDeque<TransactionId>,
}

impl Ended {
    /// A transaction has ended; `newest` is its last half.
    pub(super) fn remember(&mut self, id: TransactionId, decision: Decision, newest: QueueOffset) {
        if self.decisions.insert(id.clone(), (decision, newest)).is_some() {
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
        self.decisions.get(id).filter(|(_, newest)| offset <= *newest).map(|(decision, _)| *decision)
    }
}
