//! What a read becomes as an answer.

use crate::broker::groups::GroupView;
use crate::broker::role::MASTER_ID;
use crate::broker::{Effect, QueueKey, Report};
use crate::proto::remoting::codes::response as code;

use super::PullRules;

/// How a read ended; see the store's `ReadOutcome`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadStatus {
    /// At least one message.
    Found,
    /// Messages, but none that matches.
    NoMatchedMessage,
    /// The records of entries are gone.
    MessageWasRemoving,
    /// A queue file is missing.
    OffsetFoundNull,
    /// At the end.
    OffsetOverflowOne,
    /// Beyond the end.
    OffsetOverflowBadly,
    /// Before the beginning.
    OffsetTooSmall,
    /// The group was reset.
    OffsetReset,
    /// Nothing was ever written.
    NoMessageInQueue,
}

impl ReadStatus {
    /// RocketMQ's name, which goes into the remark.
    pub fn name(self) -> &'static str {
        match self {
            ReadStatus::Found => "FOUND",
            ReadStatus::NoMatchedMessage => "NO_MATCHED_MESSAGE",
            ReadStatus::MessageWasRemoving => "MESSAGE_WAS_REMOVING",
            ReadStatus::OffsetFoundNull => "OFFSET_FOUND_NULL",
            ReadStatus::OffsetOverflowOne => "OFFSET_OVERFLOW_ONE",
            ReadStatus::OffsetOverflowBadly => "OFFSET_OVERFLOW_BADLY",
            ReadStatus::OffsetTooSmall => "OFFSET_TOO_SMALL",
            ReadStatus::OffsetReset => "OFFSET_RESET",
            ReadStatus::NoMessageInQueue => "NO_MESSAGE_IN_QUEUE",
        }
    }
}

/// What a read found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// How it ended.
    pub status: ReadStatus,
    /// The offset it began at.
    pub from: i64,
    /// Behind the last entry it examined; counts for those statuses that examined any, and for a reset.
    pub examined_to: i64,
    /// The first offset still there.
    pub min: i64,
    /// The next offset to be written.
    pub max: i64,
    /// The data lies so far back that a slave should serve it.
    pub far_behind: bool,
}

/// What to do about a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Answer.
    Answer(Answer),
    /// Wait until the queue holds an entry at this offset, then read from there again.
    Wait {
        /// The offset.
        from: i64,
    },
}

/// An answer to a pull, apart from the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The response code.
    pub code: i32,
    /// The remark: the status's name.
    pub remark: &'static str,
    /// Where to go on.
    pub next: i64,
    /// The first offset still there.
    pub min: i64,
    /// The next offset to be written.
    pub max: i64,
}

/// The answer to a read, or whether it waits. `may_wait` is true if the request allows it, there is time left and there
/// is room. A woken request whose messages all were of other tags goes on waiting behind them; RocketMQ's answers, and
/// its client asks again at once.
pub fn verdict(read: &Read, may_wait: bool, woken: bool) -> Verdict {
    let end = read.max.max(read.min);
    let (code, next) = match read.status {
        ReadStatus::Found => (code::SUCCESS, read.examined_to),
        ReadStatus::NoMatchedMessage if woken && may_wait => return Verdict::Wait { from: read.examined_to },
        ReadStatus::NoMatchedMessage | ReadStatus::MessageWasRemoving => {
            (code::PULL_RETRY_IMMEDIATELY, read.examined_to)
        }
        ReadStatus::OffsetOverflowOne if may_wait => return Verdict::Wait { from: read.from },
        ReadStatus::OffsetOverflowOne => (code::PULL_NOT_FOUND, read.from),
        ReadStatus::OffsetFoundNull => (code::PULL_NOT_FOUND, read.examined_to),
        // Never to the beginning: an unclean restart may have lost the last few, and a group that had consumed them
        // would get days of messages again (DSK-5).
        ReadStatus::OffsetOverflowBadly => (code::PULL_OFFSET_MOVED, end),
        ReadStatus::OffsetTooSmall => (code::PULL_OFFSET_MOVED, read.min),
        ReadStatus::OffsetReset => (code::PULL_OFFSET_MOVED, read.examined_to),
        ReadStatus::NoMessageInQueue if read.from == 0 && may_wait => return Verdict::Wait { from: 0 },
        ReadStatus::NoMessageInQueue if read.from == 0 => (code::PULL_NOT_FOUND, 0),
        ReadStatus::NoMessageInQueue => (code::PULL_OFFSET_MOVED, end),
    };
    Verdict::Answer(Answer { code, remark: read.status.name(), next, min: read.min, max: read.max })
}

/// The report of an answer that moves its group (DSK-5); a reset was asked for and needs none.
pub fn report_moved(read: &Read, answer: &Answer, group: &str, queue: impl FnOnce() -> QueueKey) -> Option<Effect> {
    let corrected = answer.code == code::PULL_OFFSET_MOVED && read.status != ReadStatus::OffsetReset;
    corrected.then(|| {
        Effect::Report(Report::OffsetMoved { group: group.into(), queue: queue(), from: read.from, to: answer.next })
    })
}

/// The broker id a client should pull from next: the master's, unless slaves serve pulls; then a slave's while the
/// group is far behind, else the group's own. A slave sends those that are not far behind back to a living master.
pub fn suggested_broker_id(rules: &PullRules, group: &GroupView, read: &Read) -> i64 {
    let to_master = rules.role.is_slave() && rules.role.master_is_registered() && !read.far_behind;
    match (rules.slave_read && !to_master, read.far_behind) {
        (false, _) => MASTER_ID as i64,
        (true, true) => group.which_broker_when_slow(),
        (true, false) => group.broker_id(),
    }
}
