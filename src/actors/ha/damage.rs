//! Damage in a master's log, as its slave meets it.

use std::sync::{Mutex, PoisonError};

use crate::env::Millis;
use crate::proto::message::parse;
use crate::proto::message::record::{BodyCrc, BODY_CRC_AT, PHYSICAL_OFFSET_AT};
use crate::proto::PhysicalOffset;

/// A master mends damage in its log from another slave's, if there is one that has it; this long is waited for it, in
/// milliseconds.
const DAMAGE_LASTS_MS: u64 = 60_000;

/// Where the master's log is damaged, the first bytes there, and since when that is known.
#[derive(Default)]
pub(super) struct MasterDamage(Mutex<Option<((PhysicalOffset, u32), Millis)>>);

impl MasterDamage {
    /// Whether the master has had this damage for so long that it will not be mended.
    pub(super) fn lasts(&self, at: PhysicalOffset, bytes: &[u8], now: Millis) -> bool {
        // On another way, or from another master, other bytes may come.
        let seen = (at, crc32fast::hash(&bytes[..bytes.len().min(BODY_CRC_AT)]));
        let mut damage = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *damage {
            Some((known, since)) if known == seen => now.since(since) >= DAMAGE_LASTS_MS,
            _ => {
                *damage = Some((seen, now));
                false
            }
        }
    }
}

/// How many of these bytes, which the log has from `at` on and in a file that ends `in_file` bytes behind that, stand before
/// the next whole record; `None` if that is not here yet.
pub(super) fn next_record(bytes: &[u8], at: u64, in_file: u64) -> Option<usize> {
    let says = |from: usize| bytes.get(from + PHYSICAL_OFFSET_AT..)?.first_chunk().map(|at| u64::from_be_bytes(*at));
    let last = bytes.len().min(in_file as usize);
    let begins =
        |from: &usize| says(*from) == Some(at + *from as u64) && parse(&bytes[*from..], BodyCrc::Verify).is_ok();
    (1..last).find(begins).or((last as u64 == in_file).then_some(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_damage_lasts_after_a_minute() {
        let (damage, at) = (MasterDamage::default(), PhysicalOffset(7));
        assert!(!damage.lasts(at, b"bytes of it", Millis(0)));
        assert!(!damage.lasts(at, b"bytes of it", Millis(59_999)));
        assert!(damage.lasts(at, b"bytes of it", Millis(60_000)));
        assert!(!damage.lasts(at, b"other bytes", Millis(60_000)), "it has been mended, or was on the way");
        assert!(!damage.lasts(at, b"bytes of it", Millis(60_001)));
    }

    #[test]
    fn damage_ends_where_a_record_says_that_it_begins() {
        let at = 5_000_u64;
        let mut bytes = vec![7; 300];
        assert_eq!(next_record(&bytes, at, 1_000), None, "more is to come");
        assert_eq!(next_record(&bytes, at, 300), Some(300), "the file ends");
        let record = crate::proto::message::encode::NewRecord {
            topic: "t",
            queue_id: 0,
            flag: 0,
            sys_flag: 0,
            born_timestamp: Millis(1),
            born_host: ([10, 0, 0, 9], 40_000).into(),
            store_host: ([10, 0, 0, 1], 10_911).into(),
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: b"body",
            properties: "",
            edits: &[],
        };
        let mut encoded = Vec::new();
        crate::proto::message::encode::encode_record(&mut encoded, &record).unwrap();
        encoded[PHYSICAL_OFFSET_AT..PHYSICAL_OFFSET_AT + 8].copy_from_slice(&(at + 300).to_be_bytes());
        bytes.extend_from_slice(&encoded);
        assert_eq!(next_record(&bytes, at, 1_000), Some(300));
        assert_eq!(next_record(&bytes, at + 1, 1_000), None, "written for another place");
    }
}
