//! What recovery did, for the log and for tests.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::plan::Exit;
use crate::proto::PhysicalOffset;

/// What opening a store found and changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryReport {
    /// How the store was left.
    pub exit: Exit,
    /// Where the log was read from.
    pub read_from: PhysicalOffset,
    /// Where the log ends now.
    pub log_end: PhysicalOffset,
    /// Records that were read.
    pub records_read: u64,
    /// What was wrong and is right now, or is known to be lost.
    pub repairs: Vec<Repair>,
}

impl RecoveryReport {
    /// Stretches of the log that are damaged, and where it goes on behind each.
    pub fn damage(&self) -> impl Iterator<Item = (PhysicalOffset, PhysicalOffset)> + '_ {
        self.repairs.iter().filter_map(|repair| match repair {
            Repair::Damage { at, resumed, .. } => Some((*at, *resumed)),
            _ => None,
        })
    }
}

/// One thing that recovery put right or found lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repair {
    /// A file of the log without content, left by a crash between making and sizing it, was removed.
    EmptySegmentRemoved {
        /// The file.
        path: PathBuf,
    },
    /// The last file of the log had another length than all files have, and was brought to it.
    SegmentSized {
        /// The file.
        path: PathBuf,
        /// Its length before.
        was: u64,
        /// Its length now.
        is: u64,
    },
    /// A file of the log behind its end was removed.
    SegmentRemoved {
        /// The file.
        path: PathBuf,
    },
    /// The log ended with something that is no complete record; it was cut off.
    TailCut {
        /// Where the log ends now.
        at: PhysicalOffset,
        /// What is wrong with what follows.
        what: String,
    },
    /// Something in the middle of the log, once synced, cannot be read any more; the rest is kept.
    Damage {
        /// Where the first bad record begins.
        at: PhysicalOffset,
        /// Where reading went on.
        resumed: PhysicalOffset,
        /// What is wrong.
        what: String,
    },
    /// A queue got entries that its files lacked.
    QueueExtended {
        /// The queue.
        queue: QueueName,
        /// Entries that were right.
        was: u64,
        /// Entries now.
        is: u64,
    },
    /// A queue had entries of records that are not in the log.
    QueueCut {
        /// The queue.
        queue: QueueName,
        /// Entries before.
        was: u64,
        /// Entries now.
        is: u64,
    },
    /// Entries of a queue pointed elsewhere than their records are.
    EntriesReplaced {
        /// The queue.
        queue: QueueName,
        /// How many.
        count: u64,
    },
    /// The log lacks records of a queue; its entries there are fillers now.
    EntriesMissing {
        /// The queue.
        queue: QueueName,
        /// The first missing number.
        from: u64,
        /// The first one that is there again.
        to: u64,
    },
    /// A record claims a number that its queue cannot have reached; it is left out.
    ImpossibleOffset {
        /// The queue.
        queue: QueueName,
        /// Where the record begins.
        at: PhysicalOffset,
        /// The number that was expected.
        next: u64,
        /// The number found.
        found: u64,
    },
    /// The log holds two records with the same number in a queue, written by a broker that gave it out twice or for a
    /// topic deleted in between; the newer one counts.
    OffsetReused {
        /// The queue.
        queue: QueueName,
        /// The next number by the older records.
        was: u64,
        /// The number found.
        is: u64,
    },
}

/// A queue by topic and number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueName {
    /// The topic.
    pub topic: Arc<str>,
    /// The number.
    pub id: u32,
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue {} of topic {}", self.id, self.topic)
    }
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Repair::EmptySegmentRemoved { path } => write!(f, "removed the empty log file {}", path.display()),
            Repair::SegmentSized { path, was, is } => {
                write!(f, "brought the log file {} from {was} to {is} bytes", path.display())
            }
            Repair::SegmentRemoved { path } => write!(f, "removed {}, which lay behind the log's end", path.display()),
            Repair::TailCut { at, what } => write!(f, "cut the log at {}: {what}", at.0),
            Repair::Damage { at, resumed, what } => {
                write!(f, "the log is damaged at {}: {what}; went on at {}", at.0, resumed.0)
            }
            Repair::QueueExtended { queue, was, is } => write!(f, "{queue} had {was} entries and has {is} now"),
            Repair::QueueCut { queue, was, is } => write!(f, "{queue} had {was} entries and was cut to {is}"),
            Repair::EntriesReplaced { queue, count } => write!(f, "{queue} had {count} wrong entries"),
            Repair::EntriesMissing { queue, from, to } => {
                write!(f, "{queue} lacks its messages {from} to {}", to.saturating_sub(1))
            }
            Repair::ImpossibleOffset { queue, at, next, found } => {
                write!(f, "{queue} cannot have offset {found} at {} of the log, where {next} was expected", at.0)
            }
            Repair::OffsetReused { queue, was, is } => {
                write!(f, "{queue} goes back from offset {was} to {is}: the log holds that number twice")
            }
        }
    }
}
