//! Entries of consume queues, both kinds, and what they have to be for a record.

use crate::proto::message::{hash, properties, sys_flag, system, DelayLevels, RecordView};

/// Bytes of a consume-queue entry: physical offset 8, size 4, tags code 8.
pub(super) const SIMPLE_SIZE: u64 = 20;
/// Bytes of a batch-consume-queue entry: the above, then store time 8, base offset 8, batch size 2, compacted offset 4,
/// reserved 4.
pub(super) const BATCH_SIZE: u64 = 46;
/// Bytes of a `consumequeue_ext` unit before its bitmap: size 2, tags code 8, store time 8, bitmap size 2.
pub(super) const EXT_HEAD_SIZE: usize = 20;
/// Tags codes up to this one are addresses in `consumequeue_ext`.
const EXT_ADDRESS_MAX: i64 = i32::MIN as i64 - 1;
/// Size in entries that only fill the front of a queue's first file.
const PRE_BLANK_SIZE: i32 = i32::MAX;

/// What every entry has.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) phy_offset: i64,
    pub(super) size: i32,
    pub(super) tags_code: i64,
    pub(super) batch: Option<BatchPart>,
}

/// What an entry of a batch consume queue has besides.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct BatchPart {
    store_time: i64,
    base_offset: i64,
    batch_size: i16,
    compacted_offset: i32,
    reserved: i32,
}

fn number(bytes: &[u8], at: usize, len: usize) -> i64 {
    let value = bytes[at..at + len].iter().fold(0_i64, |value, byte| value << 8 | i64::from(*byte));
    let unused = 64 - 8 * len as u32;
    value << unused >> unused
}

impl Entry {
    /// Reads an entry of 20 or 46 bytes.
    pub(super) fn decode(bytes: &[u8]) -> Entry {
        let batch = (bytes.len() as u64 == BATCH_SIZE).then(|| BatchPart {
            store_time: number(bytes, 20, 8),
            base_offset: number(bytes, 28, 8),
            batch_size: number(bytes, 36, 2) as i16,
            compacted_offset: number(bytes, 38, 4) as i32,
            reserved: number(bytes, 42, 4) as i32,
        });
        Entry {
            phy_offset: number(bytes, 0, 8),
            size: number(bytes, 8, 4) as i32,
            tags_code: number(bytes, 12, 8),
            batch,
        }
    }

    /// The entry that a record has to have in a simple queue.
    pub(super) fn of(view: &RecordView<'_>, topic: &str, properties: &str, levels: &DelayLevels) -> Entry {
        let level = properties::find_number::<i32>(properties, properties::DELAY).unwrap_or(0);
        let tags_code = if topic == system::SCHEDULE_TOPIC && level > 0 {
            levels.deliver_at(level, view.store_timestamp()).0
        } else {
            properties::find(properties, properties::TAGS).map_or(0, hash::tags_code)
        };
        let (phy_offset, size) = (view.physical_offset().0 as i64, view.total_size() as i32);
        Entry { phy_offset, size, tags_code, batch: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.size <= 0
    }

    pub(super) fn is_pre_blank(&self) -> bool {
        self.phy_offset == 0 && self.size == PRE_BLANK_SIZE
    }

    /// Where in `consumequeue_ext` the tags code of this entry is, if it is there.
    pub(super) fn ext_position(&self) -> Option<u64> {
        (self.tags_code <= EXT_ADDRESS_MAX).then(|| self.tags_code.wrapping_sub(i64::MIN) as u64)
    }

    /// True if its records have expired.
    pub(super) fn ends_below(&self, log_min: u64) -> bool {
        self.phy_offset >= 0 && self.phy_offset as u64 + self.size.max(0) as u64 <= log_min
    }
}

impl BatchPart {
    /// The number of the batch's first message.
    pub(super) fn base_offset(&self) -> u64 {
        self.base_offset.max(0) as u64
    }

    /// What the entry of a record has to say in a batch queue.
    pub(super) fn of(view: &RecordView<'_>, properties: &str) -> BatchPart {
        let inner = view.sys_flag() & sys_flag::INNER_BATCH != 0;
        let property = |name| properties::find_number::<i64>(properties, name).unwrap_or(-1);
        BatchPart {
            store_time: view.store_timestamp().0,
            base_offset: if inner { property(properties::INNER_BASE) } else { view.queue_offset().0 as i64 },
            batch_size: if inner { property(properties::INNER_NUM) as i16 } else { 1 },
            compacted_offset: -1,
            reserved: 0,
        }
    }
}

/// Tags code and store time of an ext unit; `None` if its sizes do not fit.
pub(super) fn decode_ext(head: &[u8; EXT_HEAD_SIZE]) -> Option<(i64, i64)> {
    let (size, bitmap) = (number(head, 0, 2), number(head, 18, 2));
    (size == EXT_HEAD_SIZE as i64 + bitmap).then(|| (number(head, 2, 8), number(head, 10, 8)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The entries of the format page.
    #[test]
    fn entries_are_read_as_documented() {
        let bytes = |hex: &str| -> Vec<u8> {
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
        };
        let simple = Entry::decode(&bytes("0000000040000400000000d7000000000027a807"));
        assert_eq!((simple.phy_offset, simple.size, simple.tags_code), (0x4000_0400, 215, 2_598_919));
        assert!(Entry::decode(&bytes("00000000000000007fffffff0000000000000000")).is_pre_blank());
        let ext = Entry::decode(&bytes("0000000040000400000000d78000000000000022"));
        assert_eq!(ext.ext_position(), Some(34));
        let batch = "0000000040000400000000ef00000000000000000000018bcfe569c800000000000000280002ffffffff00000000";
        let expected = BatchPart {
            store_time: 1_700_000_000_456,
            base_offset: 40,
            batch_size: 2,
            compacted_offset: -1,
            reserved: 0,
        };
        assert!(Entry::decode(&bytes(batch)).batch == Some(expected));
        let unit = bytes("0022000000000027a8070000018bcfe569c8000e0800000000000000010000000080");
        assert_eq!(decode_ext(unit[..20].try_into().unwrap()), Some((2_598_919, 1_700_000_000_456)));
    }
}
