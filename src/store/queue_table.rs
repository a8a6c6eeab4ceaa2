//! metaq's own table of queue lengths, so that a start need not read the log to know that no queue has lost its tail.
//!
//! Says: "when the log ended at `log_end`, these were the lengths of the queues; log and queue files have been synced up
//! to there". Recovery reads the log from `log_end` on only, and a queue that is shorter than it was, or gone, is made
//! again from the log. An older table is as true as a newer one, only more has to be read. The table is optional:
//! without it, as in a store that a Java broker wrote, recovery compares all queues with the log.
//! The file is a [`snapshot`].

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::consume_queue::{ConsumeQueue, QueueExtent};
use super::snapshot::{self, Kind, SnapshotError};
use crate::env::Millis;

const KIND: Kind = Kind { magic: *b"metaqCQT", version: 1 };

/// The largest table that is read, in bytes: a million queues of long names.
pub(crate) const TABLE_LEN_MAX: u64 = 256 << 20;

/// Lengths of all queues at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QueueTable {
    /// Every record below this position of the log has its entry in the files.
    pub log_end: u64,
    /// Where the last record before begins, and when it was stored: tells whether the table belongs to a log.
    pub last_record: u64,
    /// See `last_record`.
    pub last_store_time: Millis,
    /// After a clean exit: where the last indexed record begins, and up to where the log was looked at for keys. The
    /// second cannot be told from the index itself, since records without keys leave no trace there.
    pub index_next: u64,
    /// See `index_next`.
    pub indexed: u64,
    /// By topic and queue id.
    pub queues: BTreeMap<(Arc<str>, u32), QueueExtent>,
}

impl QueueTable {
    /// The lengths of `queues`; the rest is the caller's to fill in.
    pub(crate) fn of(queues: &[Arc<ConsumeQueue>]) -> QueueTable {
        let extents = queues.iter().map(|queue| ((Arc::clone(queue.topic()), queue.id()), queue.extent()));
        // A queue that never had an entry has no file to miss.
        let queues = extents.filter(|(_, extent)| extent.next > 0).collect();
        QueueTable { queues, ..QueueTable::default() }
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>, SnapshotError> {
        snapshot::encode(KIND, self)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<QueueTable, SnapshotError> {
        snapshot::decode(KIND, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> QueueTable {
        let extent = |next| QueueExtent { min: 3, next, last_end: 4711 };
        let queues = [(("T".into(), 0), extent(7)), (("T".into(), 1), extent(9))].into();
        let last_store_time = Millis(-5);
        QueueTable { log_end: 5000, last_record: 4800, last_store_time, index_next: 4000, indexed: 4900, queues }
    }

    #[test]
    fn round_trip() {
        assert_eq!(QueueTable::decode(&table().encode().unwrap()), Ok(table()));
    }
}
