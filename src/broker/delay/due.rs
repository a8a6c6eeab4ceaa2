//! What a record of the delay topic becomes when it is due.

use std::borrow::Cow;

use crate::proto::message::{encode, hash, properties, system, DelayLevels, RecordView};
use crate::proto::QueueOffset;

/// Where a due message goes. Everything else is copied from the stored record as it is: body, flags, born data,
/// reconsume times and the whole text of properties, `DELAY`, `REAL_TOPIC` and `REAL_QID` included; it is put past the
/// checks of a send, so it is not delayed again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueMessage<'a> {
    /// The real topic.
    pub topic: Cow<'a, str>,
    /// The queue of that topic.
    pub queue_id: i32,
    /// The tag code for its consume-queue entry.
    pub tags_code: i64,
}

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
    /// It does not say when.
    #[error("its record says no time")]
    NoTime,
    /// Retention has taken the record.
    #[error("its record is gone")]
    Gone,
    /// The record's checksum is wrong.
    #[error("its record is damaged")]
    Damaged,
    /// The copy would not be a record.
    #[error("its record cannot be copied")]
    NoCopy,
    /// The copy does not fit the store as it is set up now.
    #[error("its record is too large for this store")]
    TooLarge,
    /// Its producer took it back.
    #[error("it was taken back")]
    Recalled,
}

impl DueError {
    /// The error's text, for a report.
    pub fn why(self) -> &'static str {
        match self {
            DueError::OtherRecord => "its record belongs to something else",
            DueError::NoDestination => "its record names no real topic and queue",
            DueError::HalfMessage => "its destination takes no delayed messages",
            DueError::NoTime => "its record says no time",
            DueError::Gone => "its record is gone",
            DueError::Damaged => "its record is damaged",
            DueError::NoCopy => "its record cannot be copied",
            DueError::TooLarge => "its record is too large for this store",
            DueError::Recalled => "it was taken back",
        }
    }
}

/// Where the record of entry `offset` of `level` goes.
pub fn due_message<'a>(record: &RecordView<'a>, level: i32, offset: QueueOffset) -> Result<DueMessage<'a>, DueError> {
    let entry_of_level = record.topic_bytes() == system::SCHEDULE_TOPIC.as_bytes()
        && record.queue_id() == DelayLevels::queue_id(level)
        && record.queue_offset() == offset;
    if !entry_of_level {
        return Err(DueError::OtherRecord);
    }
    real_destination(&record.properties())
}

/// Where a record with these properties goes once it has waited.
///
/// # Errors
/// Why it cannot go there.
pub fn real_destination<'a>(text: &Cow<'a, str>) -> Result<DueMessage<'a>, DueError> {
    let topic = find(text, properties::REAL_TOPIC).ok_or(DueError::NoDestination)?;
    let queue_id: i32 = properties::find_number(text, properties::REAL_QUEUE_ID).ok_or(DueError::NoDestination)?;
    if queue_id < 0 || topic.len() > encode::TOPIC_MAX {
        return Err(DueError::NoDestination);
    }
    if topic == system::TRANS_HALF_TOPIC {
        return Err(DueError::HalfMessage);
    }
    let tags_code = properties::find(text, properties::TAGS).map_or(0, hash::tags_code);
    Ok(DueMessage { topic, queue_id, tags_code })
}

/// A property's value, borrowed from the record if its text is.
fn find<'a>(text: &Cow<'a, str>, name: &str) -> Option<Cow<'a, str>> {
    match text {
        Cow::Borrowed(text) => properties::find(text, name).map(Cow::Borrowed),
        Cow::Owned(text) => properties::find(text, name).map(|value| Cow::Owned(value.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::message::{parse, BodyCrc, Parsed};

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
