//! What the timer log is made of.

use crate::proto::{PhysicalOffset, QueueOffset};

/// A place in the timer log: the byte at which a unit begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitPosition(pub u64);

/// | link 8 | second 8 | kind 4 | position 8 | size 4 | number 8 | CRC-32 of those before 4 |   big-endian
pub const UNIT_SIZE: usize = 44;
const CRC_AT: usize = 40;
const _: () = assert!(UNIT_SIZE == 3 * size_of::<u64>() + 3 * size_of::<u32>() + size_of::<u64>());

/// No unit before this one.
const NO_LINK: u64 = u64::MAX;

/// One unit. The state of the timer is what remains when all units are applied in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A record of the timer topic waits.
    Pending(Pending),
    /// The records that wait for `second`, up to the unit at `through`, are done with.
    Done {
        /// The second.
        second: i64,
        /// The last unit that is done with.
        through: UnitPosition,
        /// As of then.
        mark: Mark,
    },
    /// All units below `below` are done with.
    Trimmed {
        /// The first unit that may not be.
        below: UnitPosition,
        /// As of then.
        mark: Mark,
    },
    /// Nothing but a mark.
    Mark(Mark),
}

/// A record that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// What is to be done with it.
    pub kind: PendingKind,
    /// When, in seconds since 1970.
    pub second: i64,
    /// The unit before it that waits for the same second.
    pub previous: Option<UnitPosition>,
    /// Where its record lies in the commit log.
    pub record: PhysicalOffset,
    /// Bytes of the record.
    pub size: u32,
    /// The record's number in the timer topic's queue.
    pub number: QueueOffset,
}

/// What is to be done with a record that has waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingKind {
    /// Deliver it.
    Deliver,
    /// Put it into the timer topic again: its time is far, and it must be younger than what retention deletes.
    Roll,
    /// Take back the message that it names, which waits for the same second.
    Recall,
}

/// How far the timer was when a unit was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The commit log holds no copy below this of a record that the units so far do not say is done with.
    pub scan_from: PhysicalOffset,
    /// Records of the timer topic's queue below this have units, or were left out.
    pub next: QueueOffset,
}

impl Unit {
    /// Whether it tells of more than a commit log that ends at `end`, with `next` records in the timer topic.
    pub fn is_ahead_of(&self, end: PhysicalOffset, next: QueueOffset) -> bool {
        match self {
            Unit::Pending(pending) => pending.number >= next || pending.record >= end,
            Unit::Done { mark, .. } | Unit::Trimmed { mark, .. } | Unit::Mark(mark) => {
                mark.next > next || mark.scan_from > end
            }
        }
    }

    /// Its bytes.
    pub fn encode(&self) -> [u8; UNIT_SIZE] {
        let marked =
            |link: UnitPosition, second, kind, mark: &Mark| (link.0, second, kind, mark.scan_from, 0, mark.next);
        let (link, second, kind, position, size, number) = match self {
            Unit::Pending(pending) => {
                let kind = match pending.kind {
                    PendingKind::Deliver => 1,
                    PendingKind::Roll => 2,
                    PendingKind::Recall => 3,
                };
                let link = pending.previous.map_or(NO_LINK, |previous| previous.0);
                (link, pending.second, kind, pending.record, pending.size, pending.number)
            }
            Unit::Done { second, through, mark } => marked(*through, *second, 4_u32, mark),
            Unit::Trimmed { below, mark } => marked(*below, 0, 5, mark),
            Unit::Mark(mark) => marked(UnitPosition(0), 0, 6, mark),
        };
        let mut bytes = [0; UNIT_SIZE];
        bytes[0..8].copy_from_slice(&link.to_be_bytes());
        bytes[8..16].copy_from_slice(&second.to_be_bytes());
        bytes[16..20].copy_from_slice(&kind.to_be_bytes());
        bytes[20..28].copy_from_slice(&position.0.to_be_bytes());
        bytes[28..32].copy_from_slice(&size.to_be_bytes());
        bytes[32..40].copy_from_slice(&number.0.to_be_bytes());
        let crc = crc32fast::hash(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_be_bytes());
        bytes
    }

    /// The unit of these bytes; `None` if they are none.
    pub fn decode(bytes: &[u8; UNIT_SIZE]) -> Option<Unit> {
        let (covered, crc) = bytes.split_last_chunk::<4>()?;
        if crc32fast::hash(covered).to_be_bytes() != *crc {
            return None;
        }
        let long = |at: usize| covered.get(at..)?.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        let word = |at: usize| covered.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
        let (link, second, kind) = (long(0)?, long(8)? as i64, word(16)?);
        let (position, size, number) = (PhysicalOffset(long(20)?), word(28)?, QueueOffset(long(32)?));
        let mark = Mark { scan_from: position, next: number };
        let pending = |kind| {
            let previous = (link != NO_LINK).then_some(UnitPosition(link));
            Unit::Pending(Pending { kind, second, previous, record: position, size, number })
        };
        Some(match kind {
            1 => pending(PendingKind::Deliver),
            2 => pending(PendingKind::Roll),
            3 => pending(PendingKind::Recall),
            4 => Unit::Done { second, through: UnitPosition(link), mark },
            5 => Unit::Trimmed { below: UnitPosition(link), mark },
            6 => Unit::Mark(mark),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_come_back_and_damaged_ones_do_not() {
        let mark = Mark { scan_from: PhysicalOffset(1 << 40), next: QueueOffset(9) };
        let pending = Pending {
            kind: PendingKind::Deliver,
            second: 1_700_000_090,
            previous: None,
            record: PhysicalOffset(0x4000_0400),
            size: 400,
            number: QueueOffset(7),
        };
        let chained = Pending { kind: PendingKind::Recall, previous: Some(UnitPosition(44)), ..pending };
        for unit in [
            Unit::Pending(pending),
            Unit::Pending(chained),
            Unit::Pending(Pending { kind: PendingKind::Roll, ..chained }),
            Unit::Done { second: -1, through: UnitPosition(88), mark },
            Unit::Trimmed { below: UnitPosition(132), mark },
            Unit::Mark(mark),
        ] {
            let bytes = unit.encode();
            assert_eq!(Unit::decode(&bytes), Some(unit));
            for at in 0..UNIT_SIZE {
                let mut damaged = bytes;
                damaged[at] ^= 0x10;
                assert_eq!(Unit::decode(&damaged), None, "byte {at}");
            }
        }
        assert_eq!(Unit::decode(&[0; UNIT_SIZE]), None, "what was never written is no unit");
    }
}
