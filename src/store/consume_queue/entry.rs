//! One entry of a consume queue.

use crate::proto::PhysicalOffset;

/// Bytes of an entry:
///
/// | physical offset 8 | record size 4 | tags code 8 |   big-endian
pub const CQ_UNIT_SIZE: usize = 20;
const _: () = assert!(CQ_UNIT_SIZE == size_of::<u64>() + size_of::<u32>() + size_of::<i64>());

/// Record size of an entry that only fills the file before a queue's first entry.
const FILLER_SIZE: u32 = 0x7FFF_FFFF;

/// Where a message lies and what filters need of it. Entry `n` of a queue is at byte `n * CQ_UNIT_SIZE` of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueEntry {
    /// Where the record begins.
    pub physical: PhysicalOffset,
    /// Bytes of the record.
    pub size: u32,
    /// Hash of the tag; in the delay topic the time of delivery.
    pub tags_code: i64,
}

impl QueueEntry {
    /// Stands where no message has ever been or is any more ("pre-blank").
    pub const FILLER: QueueEntry = QueueEntry { physical: PhysicalOffset(0), size: FILLER_SIZE, tags_code: 0 };

    /// Whether it is a filler.
    pub fn is_filler(&self) -> bool {
        self.size == FILLER_SIZE && self.physical == PhysicalOffset(0)
    }

    /// Where the record ends; 0 for a filler, which must never look like the newest of all records.
    pub fn end(&self) -> PhysicalOffset {
        if self.is_filler() {
            return PhysicalOffset(0);
        }
        PhysicalOffset(self.physical.0.saturating_add(u64::from(self.size)))
    }

    /// The entry as it is stored.
    pub fn encode(&self) -> [u8; CQ_UNIT_SIZE] {
        let mut bytes = [0; CQ_UNIT_SIZE];
        bytes[..8].copy_from_slice(&self.physical.0.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.size.to_be_bytes());
        bytes[12..].copy_from_slice(&self.tags_code.to_be_bytes());
        bytes
    }

    /// Reads an entry; `None` where none was written: a record size of 0 or below, or a negative position.
    pub fn decode(bytes: &[u8; CQ_UNIT_SIZE]) -> Option<QueueEntry> {
        let [a, b, c, d, e, f, g, h, s0, s1, s2, s3, tags @ ..] = *bytes;
        let physical = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        let size = u32::from_be_bytes([s0, s1, s2, s3]);
        let valid = i64::try_from(physical).is_ok() && i32::try_from(size).is_ok_and(|size| size > 0);
        let tags_code = i64::from_be_bytes(tags);
        valid.then_some(QueueEntry { physical: PhysicalOffset(physical), size, tags_code })
    }

    /// The entries in `bytes`, up to the first that was never written.
    pub(crate) fn decode_all(bytes: &[u8]) -> impl Iterator<Item = QueueEntry> + '_ {
        let (units, _) = bytes.as_chunks::<CQ_UNIT_SIZE>();
        units.iter().map_while(QueueEntry::decode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_is_rocketmqs() {
        let entry = QueueEntry { physical: PhysicalOffset(0x4000_0400), size: 215, tags_code: 2_598_919 };
        let bytes = [0, 0, 0, 0, 0x40, 0, 4, 0, 0, 0, 0, 0xd7, 0, 0, 0, 0, 0, 0x27, 0xa8, 7];
        assert_eq!(entry.encode(), bytes);
        assert_eq!(QueueEntry::decode(&bytes), Some(entry));
        assert_eq!(entry.end(), PhysicalOffset(0x4000_04d7));
    }

    #[test]
    fn unwritten_entries_are_none() {
        assert_eq!(QueueEntry::decode(&[0; CQ_UNIT_SIZE]), None);
        assert_eq!(QueueEntry::decode(&[0xff; CQ_UNIT_SIZE]), None);
    }

    #[test]
    fn a_filler_ends_nowhere() {
        assert_eq!(QueueEntry::decode(&QueueEntry::FILLER.encode()), Some(QueueEntry::FILLER));
        assert_eq!(QueueEntry::FILLER.end(), PhysicalOffset(0));
    }
}
