//! Bytes of an index file (RocketMQ's `IndexFile` and `IndexHeader`). All big-endian.
//!
//! ```text
//! | header 40 | slots: one i32 each | entries: 20 bytes each, number 0 never used |
//!
//! header: | beginTimestamp 8 | endTimestamp 8 | beginPhyOffset 8 | endPhyOffset 8 | hashSlotCount 4 | indexCount 4 |
//! slot:   | number of the newest entry of its chain, 0 = none |
//! entry:  | keyHash 4 | phyOffset 8 | timeDiff 4, seconds since beginTimestamp | number of the entry before, 0 = none |
//! ```

use crate::env::Millis;
use crate::proto::PhysicalOffset;

/// Bytes of the header.
pub const HEADER_SIZE: usize = 40;
/// Bytes of a slot.
pub const SLOT_SIZE: usize = 4;
/// Bytes of an entry.
pub const ENTRY_SIZE: usize = 20;
/// Position of the previous entry's number within an entry.
pub(super) const ENTRY_PREVIOUS_AT: usize = 16;
const _: () = assert!(HEADER_SIZE == 4 * size_of::<i64>() + 2 * size_of::<i32>());
const _: () = assert!(ENTRY_SIZE == ENTRY_PREVIOUS_AT + size_of::<i32>());

/// Entry times are kept in whole seconds.
pub const TIME_RESOLUTION_MS: i64 = 1000;

/// How many slots and entries a file has: `maxHashSlotNum` and `maxIndexNum`. Not stored in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexGeometry {
    slots: u32,
    entries: u32,
}

impl IndexGeometry {
    /// RocketMQ's default: a file of 420,000,040 bytes.
    pub const DEFAULT: IndexGeometry = IndexGeometry { slots: 5_000_000, entries: 20_000_000 };

    /// At least one slot and two entries (number 0 is never used), both at most 2³¹ − 1; values outside are moved to
    /// the nearest one.
    pub fn new(slots: u32, entries: u32) -> IndexGeometry {
        IndexGeometry { slots: slots.clamp(1, i32::MAX as u32), entries: entries.clamp(2, i32::MAX as u32) }
    }

    /// Number of slots.
    pub fn slots(self) -> u32 {
        self.slots
    }

    /// Number of entries, the unused number 0 included.
    pub fn entries(self) -> u32 {
        self.entries
    }

    /// Length of a file in bytes.
    pub fn file_len(self) -> u64 {
        self.entry_at(self.entries)
    }

    /// The slot of a key's hash.
    pub fn slot_of(self, key_hash: u32) -> u32 {
        key_hash % self.slots
    }

    /// Position of a slot in the file.
    pub fn slot_at(self, slot: u32) -> u64 {
        HEADER_SIZE as u64 + u64::from(slot) * SLOT_SIZE as u64
    }

    /// Position of an entry in the file.
    pub fn entry_at(self, number: u32) -> u64 {
        self.slot_at(self.slots) + u64::from(number) * ENTRY_SIZE as u64
    }
}

/// Why a header is not one of a usable file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the index header's {field} is out of bounds")]
pub struct IndexHeaderError {
    /// RocketMQ's name of the field.
    pub field: &'static str,
}

/// Header of an index file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexHeader {
    /// Store time of the first record indexed.
    pub begin_timestamp: Millis,
    /// Store time of the last record indexed.
    pub end_timestamp: Millis,
    /// Start of the first record indexed.
    pub begin_phy_offset: PhysicalOffset,
    /// Start of the last record indexed.
    pub end_phy_offset: PhysicalOffset,
    /// Slots in use.
    pub hash_slot_count: u32,
    /// Number of the next entry; 1 in an empty file.
    pub index_count: u32,
}

impl IndexHeader {
    /// Header of a new file behind one that ends with `previous`, or of the very first file.
    pub fn following(previous: Option<&IndexHeader>) -> IndexHeader {
        let (timestamp, phy_offset) = previous.map_or_else(Default::default, |h| (h.end_timestamp, h.end_phy_offset));
        IndexHeader {
            begin_timestamp: timestamp,
            end_timestamp: timestamp,
            begin_phy_offset: phy_offset,
            end_phy_offset: phy_offset,
            hash_slot_count: 0,
            index_count: 1,
        }
    }

    /// Reads a header and checks it against the file's geometry. A header of zeros is one of a new file.
    pub fn decode(bytes: &[u8; HEADER_SIZE], geometry: IndexGeometry) -> Result<IndexHeader, IndexHeaderError> {
        let offset = |at, field| u64::try_from(i64_at(bytes, at)).map_err(|_| IndexHeaderError { field });
        let header = IndexHeader {
            begin_timestamp: Millis(i64_at(bytes, 0)),
            end_timestamp: Millis(i64_at(bytes, 8)),
            begin_phy_offset: PhysicalOffset(offset(16, "beginPhyOffset")?),
            end_phy_offset: PhysicalOffset(offset(24, "endPhyOffset")?),
            hash_slot_count: i32_at(bytes, 32) as u32,
            index_count: (i32_at(bytes, 36) as u32).max(1),
        };
        if header.hash_slot_count > geometry.slots.min(header.index_count - 1) {
            return Err(IndexHeaderError { field: "hashSlotCount" });
        }
        if header.index_count > geometry.entries {
            return Err(IndexHeaderError { field: "indexCount" });
        }
        if header.begin_phy_offset > header.end_phy_offset {
            return Err(IndexHeaderError { field: "endPhyOffset" });
        }
        Ok(header)
    }

    /// The header's bytes.
    pub fn encode(&self) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        bytes[..8].copy_from_slice(&self.begin_timestamp.0.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.end_timestamp.0.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.begin_phy_offset.0.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.end_phy_offset.0.to_be_bytes());
        bytes[32..36].copy_from_slice(&self.hash_slot_count.to_be_bytes());
        bytes[36..].copy_from_slice(&self.index_count.to_be_bytes());
        bytes
    }

    /// True if no record is indexed.
    pub fn is_empty(&self) -> bool {
        self.index_count <= 1
    }

    /// Seconds since the file's first record as an entry stores them.
    pub(in crate::store) fn time_diff(&self, store_timestamp: Millis) -> u32 {
        if self.begin_timestamp.0 <= 0 {
            return 0;
        }
        let seconds = store_timestamp.since(self.begin_timestamp) / TIME_RESOLUTION_MS as u64;
        seconds.min(i32::MAX as u64) as u32
    }
}

/// An entry as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// Hash of `topic#key`.
    pub key_hash: u32,
    /// Start of the record; negative only in a damaged file.
    pub phy_offset: i64,
    /// Seconds since the file's first record. That of the first entry counts from the end of the file before.
    pub time_diff: i32,
    /// The slot's entry before this one, 0 if there is none; negative only in a damaged file.
    pub previous: i32,
}

impl IndexEntry {
    /// Reads an entry.
    pub fn decode(bytes: &[u8; ENTRY_SIZE]) -> IndexEntry {
        IndexEntry {
            key_hash: i32_at(bytes, 0) as u32,
            phy_offset: i64_at(bytes, 4),
            time_diff: i32_at(bytes, 12),
            previous: i32_at(bytes, ENTRY_PREVIOUS_AT),
        }
    }

    /// The entry's bytes.
    pub fn encode(&self) -> [u8; ENTRY_SIZE] {
        let mut bytes = [0; ENTRY_SIZE];
        bytes[..4].copy_from_slice(&self.key_hash.to_be_bytes());
        bytes[4..12].copy_from_slice(&self.phy_offset.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.time_diff.to_be_bytes());
        bytes[ENTRY_PREVIOUS_AT..].copy_from_slice(&self.previous.to_be_bytes());
        bytes
    }

    /// Store time of the record, short of up to a second.
    pub fn time(&self, number: u32, header: &IndexHeader) -> Millis {
        if number <= 1 {
            // The first entry's difference was taken before the file knew its own beginning.
            return header.begin_timestamp;
        }
        header.begin_timestamp.plus(i64::from(self.time_diff) * TIME_RESOLUTION_MS)
    }
}

pub(super) fn i32_at(bytes: &[u8], at: usize) -> i32 {
    let mut raw = [0; 4];
    raw.copy_from_slice(&bytes[at..at + 4]);
    i32::from_be_bytes(raw)
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    let mut raw = [0; 8];
    raw.copy_from_slice(&bytes[at..at + 8]);
    i64::from_be_bytes(raw)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn positions_of_the_default_geometry() {
        let geometry = IndexGeometry::DEFAULT;
        assert_eq!(geometry.file_len(), 420_000_040);
        assert_eq!(geometry.slot_of(2_006_979_954), 1_979_954);
        assert_eq!(geometry.slot_at(1_979_954), 7_919_856);
        assert_eq!(geometry.entry_at(1), 20_000_060);
    }

    #[test]
    fn the_initial_header_starts_where_the_file_before_ends() {
        let first = IndexHeader::following(None);
        assert!(first.is_empty());
        assert_eq!(first.end_phy_offset, PhysicalOffset(0));
        let full = IndexHeader {
            begin_timestamp: Millis(5),
            end_timestamp: Millis(9),
            begin_phy_offset: PhysicalOffset(50),
            end_phy_offset: PhysicalOffset(90),
            hash_slot_count: 3,
            index_count: 7,
        };
        let next = IndexHeader::following(Some(&full));
        assert_eq!((next.begin_timestamp, next.begin_phy_offset), (Millis(9), PhysicalOffset(90)));
        assert_eq!((next.hash_slot_count, next.index_count), (0, 1));
    }

    #[test]
    fn time_differences_are_whole_seconds_and_bounded() {
        let header = IndexHeader { begin_timestamp: Millis(1000), ..IndexHeader::following(None) };
        assert_eq!(header.time_diff(Millis(2999)), 1);
        assert_eq!(header.time_diff(Millis(0)), 0, "a clock set back");
        assert_eq!(header.time_diff(Millis(i64::MAX)), i32::MAX as u32);
        assert_eq!(IndexHeader::following(None).time_diff(Millis(5000)), 0, "no beginning yet");
    }

    proptest! {
        #[test]
        fn any_header_bytes_are_an_error_or_a_value(bytes in any::<[u8; HEADER_SIZE]>(), slots: u32, entries: u32) {
            let geometry = IndexGeometry::new(slots, entries);
            if let Ok(header) = IndexHeader::decode(&bytes, geometry) {
                prop_assert!(header.index_count <= geometry.entries());
                prop_assert_eq!(IndexHeader::decode(&header.encode(), geometry), Ok(header));
            }
        }

        #[test]
        fn entries_are_read_as_written(bytes in any::<[u8; ENTRY_SIZE]>()) {
            prop_assert_eq!(IndexEntry::decode(&bytes).encode(), bytes);
        }
    }
}
