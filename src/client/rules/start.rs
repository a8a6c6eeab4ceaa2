//! Where a group begins in a queue that it was just given.

use crate::env::Millis;
use crate::proto::body::ConsumeFromWhere;

/// Where a group begins in a queue it has committed no offset for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConsumeFrom {
    /// At the end: only what comes from now on. Of a queue so young that its first message is still there the broker
    /// gives all, so that a new topic's first messages are not missed.
    #[default]
    Last,
    /// At the first message there is.
    First,
    /// At the first message stored at this time or later.
    Time(Millis),
}

impl ConsumeFrom {
    /// What heartbeats say.
    pub fn in_heartbeat(self) -> ConsumeFromWhere {
        match self {
            ConsumeFrom::Last => ConsumeFromWhere::ConsumeFromLastOffset,
            ConsumeFrom::First => ConsumeFromWhere::ConsumeFromFirstOffset,
            ConsumeFrom::Time(_) => ConsumeFromWhere::ConsumeFromTimestamp,
        }
    }
}

/// A place in a queue, perhaps one that the broker has to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// This offset. One below the queue's first is corrected by the broker.
    At(i64),
    /// The queue's end.
    End,
    /// The first message of a time.
    Search(Millis),
}

/// Where to begin. A committed offset always wins; a retry queue is read from its beginning whatever the policy, since
/// what failed before its group knew of the queue must come again (RTY-7).
pub fn start(policy: ConsumeFrom, committed: Option<i64>, is_retry_queue: bool) -> Start {
    match (committed, policy) {
        (Some(offset), _) if offset >= 0 => Start::At(offset),
        _ if is_retry_queue => Start::At(0),
        (_, ConsumeFrom::First) => Start::At(0),
        (_, ConsumeFrom::Last) => Start::End,
        (_, ConsumeFrom::Time(time)) => Start::Search(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_of_the_table() {
        let time = ConsumeFrom::Time(Millis(7));
        for policy in [ConsumeFrom::Last, ConsumeFrom::First, time] {
            assert_eq!(start(policy, Some(5), false), Start::At(5));
            assert_eq!(start(policy, Some(5), true), Start::At(5));
            assert_eq!(start(policy, None, true), Start::At(0), "RTY-7");
        }
        assert_eq!(start(ConsumeFrom::Last, None, false), Start::End);
        assert_eq!(start(ConsumeFrom::First, None, false), Start::At(0));
        assert_eq!(start(time, None, false), Start::Search(Millis(7)));
        assert_eq!(start(ConsumeFrom::Last, Some(-1), false), Start::End, "-1 counts as never committed");
    }
}
