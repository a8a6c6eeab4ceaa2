//! What stands in the records of half and op topic.

use super::ledger::TransactionId;
use crate::proto::message::properties::{self, Edit};
use crate::proto::message::{system, RecordView};
use crate::proto::QueueOffset;

/// The properties of an op.
pub const OP_PROPERTIES: &str = "WAIT\u{1}true\u{2}TAGS\u{1}d\u{2}";
/// The tag of an op.
pub const OP_TAG: &str = "d";

/// What a half message says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HalfFacts {
    /// Its transaction.
    pub id: TransactionId,
    /// The first half of the transaction, if this one was put again.
    pub first: Option<QueueOffset>,
    /// How often its producer was asked.
    pub checks: u32,
    /// How long its producer wants not to be asked, if it says so.
    pub immunity_ms: Option<u64>,
}

/// Why a record is no half message that anybody could decide about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HalfError {
    /// The record is another one: the log was cut and written again.
    #[error("its record belongs to something else")]
    OtherRecord,
    /// It names no producer group or no UNIQ_KEY.
    #[error("its record names no transaction")]
    NoTransaction,
}

impl HalfError {
    /// The error's text, for a report.
    pub fn why(self) -> &'static str {
        match self {
            HalfError::OtherRecord => "its record belongs to something else",
            HalfError::NoTransaction => "its record names no transaction",
        }
    }
}

/// What the record of half `offset` says.
pub fn half_of(record: &RecordView<'_>, offset: QueueOffset) -> Result<HalfFacts, HalfError> {
    if record.topic_bytes() != system::TRANS_HALF_TOPIC.as_bytes() || record.queue_offset() != offset {
        return Err(HalfError::OtherRecord);
    }
    let text = record.properties();
    let seconds = properties::find_number::<i64>(&text, properties::CHECK_IMMUNITY_TIME_IN_SECONDS);
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Ok(HalfFacts {
        id: transaction_of(&text).ok_or(HalfError::NoTransaction)?,
        first: properties::find_number(&text, properties::TRANSACTION_PREPARED_QUEUE_OFFSET).map(QueueOffset),
        checks: properties::find_number(&text, properties::TRANSACTION_CHECK_TIMES).unwrap_or(0),
        immunity_ms: seconds.map(|seconds| seconds.saturating_mul(1000)),
    })
}

/// The transaction of a half or committed message, by its property text.
pub fn transaction_of(text: &str) -> Option<TransactionId> {
    let (group, key) =
        (properties::find(text, properties::PRODUCER_GROUP)?, properties::find(text, properties::UNIQ_KEY)?);
    Some(TransactionId { group: group.into(), key: key.into() })
}

/// The body of an op: the offsets of halves, a comma behind each.
pub fn op_body(halves: &[QueueOffset]) -> String {
    halves.iter().map(|half| format!("{},", half.0)).collect()
}

/// The halves that an op names. RocketMQ before 5.1 wrote one number without a comma.
pub fn named_by_op(body: &[u8]) -> Vec<QueueOffset> {
    let text = String::from_utf8_lossy(body);
    text.split(',').filter_map(|number| number.trim().parse().ok()).map(QueueOffset).collect()
}

/// What is different in a half message that is put again: how often its producer was asked, and its first half.
pub fn put_again_edits<'e>(checks: &'e str, first: &'e str) -> [Edit<'e>; 2] {
    [
        Edit::Set(properties::TRANSACTION_CHECK_TIMES, checks),
        Edit::Set(properties::TRANSACTION_PREPARED_QUEUE_OFFSET, first),
    ]
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
    fn half_messages_of_apache_are_understood() {
        let (new, asked, immune) = (captured(3317), captured(6595), captured(6953));
        let facts = half_of(&new, QueueOffset(0)).unwrap();
        let id = TransactionId { group: "pgtx".into(), key: "7F000001123418B4AAC22B8F59D00013".into() };
        assert_eq!(facts, HalfFacts { id: id.clone(), first: None, checks: 0, immunity_ms: None });
        assert_eq!(transaction_of(&captured(3683).properties()), Some(id), "the committed message");
        assert_eq!(half_of(&asked, QueueOffset(10)).unwrap().checks, 2);
        let facts = half_of(&immune, QueueOffset(8)).unwrap();
        assert_eq!((facts.first, facts.checks, facts.immunity_ms), (Some(QueueOffset(5)), 1, Some(8_000)));
    }

    #[test]
    fn records_that_are_no_half_messages_say_why() {
        assert_eq!(half_of(&captured(3317), QueueOffset(1)), Err(HalfError::OtherRecord));
        assert_eq!(half_of(&captured(0), QueueOffset(0)), Err(HalfError::OtherRecord));
        assert_eq!(transaction_of("PGROUP\u{1}g\u{2}"), None);
    }

    #[test]
    fn ops_of_all_generations_are_read() {
        let op = captured(4034);
        assert_eq!(named_by_op(op.body()), [0, 1, 1].map(QueueOffset));
        assert_eq!(named_by_op(b"12"), [QueueOffset(12)]);
        assert_eq!(named_by_op(b"x,,7,\xFF"), [QueueOffset(7)]);
        assert_eq!(op_body(&[QueueOffset(12), QueueOffset(13)]), "12,13,");
        assert_eq!(op.properties(), OP_PROPERTIES);
    }
}
