//! metaq's own table of queue lengths, so that a start need not read the log to know that no queue has lost its tail.
//!
//! Says: "when the log ended at `log_end`, these were the lengths of the queues; log and queue files have been synced up
//! to there". Recovery reads the log from `log_end` on only, and a queue that is shorter than it was, or gone, is made
//! again from the log. An older table is as true as a newer one, only more has to be read. The table is optional:
//! without it, as in a store that a Java broker wrote, recovery compares all queues with the log.
//!
//! ```text
//! magic 8 | version 4 | log end 8 | last record 8 | its store time 8 | index next 8 | indexed 8
//! count 4 | count × entry | CRC-32 4
//! entry: topic length 2 | topic | queue id 4 | min 8 | next 8 | end of its last record 8
//! ```
//! Big-endian. The CRC covers everything before it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::consume_queue::{ConsumeQueue, QueueExtent};
use crate::env::Millis;

const MAGIC: [u8; 8] = *b"metaqCQT";
const VERSION: u32 = 1;

/// The largest table that is read, in bytes: a million queues of long names.
pub(crate) const TABLE_LEN_MAX: u64 = 256 << 20;

/// Lengths of all queues at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

/// Why bytes are no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TableError {
    #[error("it ends early")]
    Short,
    #[error("it is no queue table of version {VERSION}")]
    Kind,
    #[error("its checksum is wrong")]
    Checksum,
    #[error("a topic is not UTF-8")]
    Topic,
}

impl QueueTable {
    /// The lengths of `queues`; the rest is the caller's to fill in.
    pub(crate) fn of(queues: &[Arc<ConsumeQueue>]) -> QueueTable {
        let extents = queues.iter().map(|queue| ((Arc::clone(queue.topic()), queue.id()), queue.extent()));
        // A queue that never had an entry has no file to miss.
        let queues = extents.filter(|(_, extent)| extent.next > 0).collect();
        QueueTable { queues, ..QueueTable::default() }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32 + self.queues.len() * 64);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_be_bytes());
        let last_store_time = self.last_store_time.0 as u64;
        for number in [self.log_end, self.last_record, last_store_time, self.index_next, self.indexed] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(&(self.queues.len() as u32).to_be_bytes());
        for ((topic, id), extent) in &self.queues {
            out.extend_from_slice(&(topic.len() as u16).to_be_bytes());
            out.extend_from_slice(topic.as_bytes());
            out.extend_from_slice(&id.to_be_bytes());
            for number in [extent.min, extent.next, extent.last_end] {
                out.extend_from_slice(&number.to_be_bytes());
            }
        }
        let checksum = crc32fast::hash(&out);
        out.extend_from_slice(&checksum.to_be_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<QueueTable, TableError> {
        let (content, checksum) = bytes.split_last_chunk::<4>().ok_or(TableError::Short)?;
        let mut rest = content;
        if take(&mut rest)? != MAGIC || take(&mut rest)? != VERSION.to_be_bytes() {
            return Err(TableError::Kind);
        }
        if crc32fast::hash(content).to_be_bytes() != *checksum {
            return Err(TableError::Checksum);
        }
        let mut number = || take(&mut rest).map(u64::from_be_bytes);
        let (log_end, last_record, last_store_time) = (number()?, number()?, Millis(number()? as i64));
        let (index_next, indexed) = (number()?, number()?);
        let count = u32::from_be_bytes(take(&mut rest)?);
        let mut queues = BTreeMap::new();
        for _ in 0..count {
            let length = usize::from(u16::from_be_bytes(take(&mut rest)?));
            let (topic, behind) = rest.split_at_checked(length).ok_or(TableError::Short)?;
            rest = behind;
            let topic = std::str::from_utf8(topic).map_err(|_| TableError::Topic)?;
            let id = u32::from_be_bytes(take(&mut rest)?);
            let min = u64::from_be_bytes(take(&mut rest)?);
            let next = u64::from_be_bytes(take(&mut rest)?);
            let last_end = u64::from_be_bytes(take(&mut rest)?);
            queues.insert((topic.into(), id), QueueExtent { min, next, last_end });
        }
        Ok(QueueTable { log_end, last_record, last_store_time, index_next, indexed, queues })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], TableError> {
    let (taken, behind) = rest.split_first_chunk().ok_or(TableError::Short)?;
    *rest = behind;
    Ok(*taken)
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
        assert_eq!(QueueTable::decode(&table().encode()), Ok(table()));
    }

    #[test]
    fn damage_is_seen() {
        let bytes = table().encode();
        assert_eq!(QueueTable::decode(&[]), Err(TableError::Short));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(QueueTable::decode(&damaged).is_err(), "byte {at}");
            assert!(QueueTable::decode(&bytes[..at]).is_err(), "cut at {at}");
        }
    }
}
