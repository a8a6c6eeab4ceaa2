//! What a record of the delay topic becomes when it is due.

use crate::broker::destination::{destination, Destination};
use crate::proto::message::{system, DelayLevels, RecordView};
use crate::proto::QueueOffset;

/// Why a record cannot be delivered, now or ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DueError {
    /// The record at the entry's position is another one: the log was cut and written again.
    #[error("its record belongs to something else")]
    OtherRecord,
    /// It does not say where to.
    #[error("its record names no real topic and queue")]
    NoDestination,
    /// A half message: its transaction decides about it, not time.
    #[error("its destination takes no delayed messages")]
    HalfMessage,
}

impl DueError {
    /// The error's text, for a report.
    pub fn why(self) -> &'static str {
        match self {
            DueError::OtherRecord => "its record belongs to something else",
            DueError::NoDestination => "its record names no real topic and queue",
            DueError::HalfMessage => "its destination takes no delayed messages",
        }
    }
}

/// Where the record of entry `offset` of `level` goes. Its properties stay as they are, `DELAY` included; it is put past
/// the checks of a send, so it is not delayed again.
pub fn due_message<'a>(record: &RecordView<'a>, level: i32, offset: QueueOffset) -> Result<Destination<'a>, DueError> {
    let entry_of_level = record.topic_bytes() == system::SCHEDULE_TOPIC.as_bytes()
        && record.queue_id() == DelayLevels::queue_id(level)
        && record.queue_offset() == offset;
    if !entry_of_level {
        return Err(DueError::OtherRecord);
    }
    let destination = destination(record).ok_or(DueError::NoDestination)?;
    if destination.topic == system::TRANS_HALF_TOPIC {
        return Err(DueError::HalfMessage);
    }
    Ok(destination)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::message::{hash, parse, properties, BodyCrc, Parsed};

    const RECORDS: &[u8] = include_bytes!("../../../tests/vectors/store/captured/records.bin");

    /// A record that an Apache broker stored, by its place in the captured file.
    fn captured(at: usize) -> RecordView<'static> {
        match parse(&RECORDS[at..], BodyCrc::Verify) {
            Ok(Parsed::Record(view)) => view,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_due_record_goes_where_apache_delivered_it() {
        for (waiting, level, delivered) in [(2083, 1, 2363), (4539, 3, 4904)] {
            let (waiting, delivered) = (captured(waiting), captured(delivered));
            let due = due_message(&waiting, level, waiting.queue_offset()).unwrap();
            assert_eq!((&*due.topic, due.queue_id), (&*delivered.topic(), delivered.queue_id()));
            let tag = properties::find(&delivered.properties(), properties::TAGS).map(hash::tags_code);
            assert_eq!(Some(due.tags_code), tag);
        }
    }

    #[test]
    fn records_that_cannot_be_delivered_say_why() {
        let half = captured(4175);
        assert_eq!(due_message(&half, 1, half.queue_offset()), Err(DueError::HalfMessage));
        let waiting = captured(2083);
        assert_eq!(due_message(&waiting, 2, waiting.queue_offset()), Err(DueError::OtherRecord));
        assert_eq!(due_message(&waiting, 1, QueueOffset(7)), Err(DueError::OtherRecord));
        let other = captured(0);
        assert_eq!(due_message(&other, 3, other.queue_offset()), Err(DueError::OtherRecord));
    }
}
