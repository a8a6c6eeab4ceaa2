//! What follows from a record: its consume-queue entry. The one place for both the log writer, which knows the message
//! before it is stored, and recovery, which finds it in the log, so that both make the same entries.

use super::batch::TagsCode;
use super::consume_queue::QueueEntry;
use crate::env::Millis;
use crate::proto::message::{hash, properties, sys_flag, system, DelayLevels, RecordView};
use crate::proto::PhysicalOffset;

/// Whether a record of this sysFlag stands in its consume queue: half messages of the old kind and rollbacks do not,
/// and use no queue offset.
pub fn has_entry(sys_flag: i32) -> bool {
    let kind = sys_flag::transaction_type(sys_flag);
    kind == sys_flag::TRANSACTION_NONE || kind == sys_flag::TRANSACTION_COMMIT
}

/// The tags code of a message: the hash of its tag; in the delay topic the time of delivery.
pub fn tags_code(topic: &str, properties: &str, levels: &DelayLevels) -> TagsCode {
    if topic == system::SCHEDULE_TOPIC {
        let level = properties::find_number::<i32>(properties, properties::DELAY).unwrap_or(0);
        if level > 0 {
            return TagsCode::DeliverAfter(levels.deliver_at(level, Millis(0)).0);
        }
    }
    TagsCode::Fixed(properties::find(properties, properties::TAGS).map_or(0, hash::tags_code))
}

/// The entry of a record that lies at `physical`; `None` if it stands in no queue.
pub(crate) fn entry_of(record: &RecordView<'_>, physical: PhysicalOffset, levels: &DelayLevels) -> Option<QueueEntry> {
    has_entry(record.sys_flag()).then(|| {
        let code = tags_code(&record.topic(), &record.properties(), levels);
        entry(physical, record.total_size(), code, record.store_timestamp())
    })
}

/// The entry of a record of `size` bytes at `physical`.
pub(crate) fn entry(physical: PhysicalOffset, size: u32, code: TagsCode, stored: Millis) -> QueueEntry {
    QueueEntry { physical, size, tags_code: code.at(stored) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_delays() {
        let levels = DelayLevels::default();
        assert_eq!(tags_code("T", "TAGS\u{1}TagA\u{2}", &levels), TagsCode::Fixed(2_598_919));
        assert_eq!(tags_code("T", "DELAY\u{1}3\u{2}", &levels), TagsCode::Fixed(0));
        let delayed = tags_code(system::SCHEDULE_TOPIC, "DELAY\u{1}3\u{2}", &levels);
        assert_eq!(delayed.at(Millis(1_700_000_000_456)), 1_700_000_010_456);
        assert_eq!(tags_code(system::SCHEDULE_TOPIC, "TAGS\u{1}TagA\u{2}", &levels), TagsCode::Fixed(2_598_919));
    }

    #[test]
    fn prepared_and_rolled_back_records_have_no_entry() {
        assert!(has_entry(sys_flag::TRANSACTION_NONE | sys_flag::COMPRESSED));
        assert!(has_entry(sys_flag::TRANSACTION_COMMIT));
        assert!(!has_entry(sys_flag::TRANSACTION_PREPARED));
        assert!(!has_entry(sys_flag::TRANSACTION_ROLLBACK));
    }
}
