//! What a record of the timer topic says, and what becomes of it when its time has come.

use std::borrow::Cow;

use super::accept::DueSecond;
use crate::broker::delay::{real_destination, DueError, DueMessage};
use crate::env::Millis;
use crate::proto::message::{hash, properties, system, RecallHandle, RecordView};
use crate::proto::QueueOffset;
use crate::store::timer::{Pending, PendingKind};

/// The queue of the timer topic that holds all its records.
pub const TIMER_QUEUE: u32 = 0;

/// Seconds after which a record that has longer to wait is put into the log again: RocketMQ's `timerRollWindowSlot`.
pub const ROLL_WINDOW_SEC: i64 = 172_800;
/// One that has less than this left after the window is put again earlier, for it is not worth a second round soon.
const ROLL_REST_SEC: i64 = ROLL_WINDOW_SEC / 3;

/// The unit for the record `view`, the next one of the timer topic's queue, taken in at `now`.
///
/// # Errors
/// Why it is left out. RocketMQ's timer stops at such a record for good.
pub fn pending(view: &RecordView<'_>, number: QueueOffset, now: Millis) -> Result<Pending, DueError> {
    let is_ours = view.topic_bytes() == system::TIMER_TOPIC.as_bytes()
        && view.queue_id() == TIMER_QUEUE as i32
        && view.queue_offset() == number;
    if !is_ours {
        return Err(DueError::OtherRecord);
    }
    let text = view.properties();
    let out_ms: i64 = properties::find_number(&text, properties::TIMER_OUT_MS).ok_or(DueError::NoTime)?;
    let due = DueSecond::of_out_ms(out_ms);
    let recalls = properties::find(&text, properties::TIMER_DEL_UNIQKEY).is_some();
    let (second, kind) = match roll_at(due, now) {
        Some(roll) => (roll, PendingKind::Roll),
        None if recalls => (due, PendingKind::Recall),
        None => (due, PendingKind::Deliver),
    };
    let record = view.physical_offset();
    Ok(Pending { kind, second: second.0, previous: None, record, size: view.total_size(), number })
}

/// When a record that is due at `due` has to be put again; `None` if it can wait where it is.
fn roll_at(due: DueSecond, now: Millis) -> Option<DueSecond> {
    let now = DueSecond::last_begun(now).0;
    let left = due.0.saturating_sub(now);
    if left < ROLL_WINDOW_SEC {
        return None;
    }
    let rest = left - ROLL_WINDOW_SEC;
    let window = if rest < ROLL_REST_SEC { ROLL_WINDOW_SEC / 2 } else { ROLL_WINDOW_SEC };
    Some(DueSecond(now + window))
}

/// Where the copy of a record that is due goes: to its real queue, or `again` into the timer topic. What the copy says
/// beside what the record does is appended to `added` as properties; it has none of [`REPLACED`] from before.
///
/// # Errors
/// Why there can be no copy.
pub fn copy_of<'a>(
    view: &RecordView<'a>,
    due: &Pending,
    again: bool,
    now: Millis,
    added: &mut String,
) -> Result<DueMessage<'a>, DueError> {
    let is_same = view.topic_bytes() == system::TIMER_TOPIC.as_bytes()
        && view.queue_id() == TIMER_QUEUE as i32
        && view.queue_offset() == due.number;
    if !is_same {
        return Err(DueError::OtherRecord);
    }
    let text = view.properties();
    let mut add = |name: &str, value: i64| properties::append(added, name, &value.to_string());
    add(properties::TIMER_QUEUE_OFFSET, due.number.0 as i64);
    if again {
        let times: i64 = properties::find_number(&text, properties::TIMER_ROLL_TIMES).unwrap_or(0);
        add(properties::TIMER_ROLL_TIMES, times + 1);
        let tags_code = properties::find(&text, properties::TAGS).map_or(0, hash::tags_code);
        return Ok(DueMessage { topic: Cow::Borrowed(system::TIMER_TOPIC), queue_id: TIMER_QUEUE as i32, tags_code });
    }
    add(properties::TIMER_ENQUEUE_MS, view.store_timestamp().0);
    add(properties::TIMER_DEQUEUE_MS, now.0);
    real_destination(&text)
}

/// Properties that a copy has from its own way through the timer alone.
pub const REPLACED: [&str; 4] = [
    properties::TIMER_QUEUE_OFFSET,
    properties::TIMER_ROLL_TIMES,
    properties::TIMER_ENQUEUE_MS,
    properties::TIMER_DEQUEUE_MS,
];

/// The number of the timer topic's record of which this record is a copy; `None` if it is none.
pub fn copied_number(view: &RecordView<'_>) -> Option<u64> {
    // Nearly all records are none, and need not be read as text.
    memchr::memmem::find(view.properties_bytes(), properties::TIMER_QUEUE_OFFSET.as_bytes())?;
    properties::find_number(&view.properties(), properties::TIMER_QUEUE_OFFSET)
}

/// The name under which a message of this record is taken back: its real topic and UNIQ_KEY.
pub fn recall_name(text: &str) -> Option<String> {
    let topic = properties::find(text, properties::REAL_TOPIC)?;
    Some(format!("{topic}+{}", properties::find(text, properties::UNIQ_KEY)?))
}

/// The body of a record that takes a message back.
pub const RECALL_BODY: &[u8] = b"0";
/// The tag of one.
pub const RECALL_TAG: &str = "_RECALL_TAG_";

/// The properties of a record that takes the message of `handle` back, asked for by a producer of `group`.
pub fn recall_text(handle: &RecallHandle, group: &str, due: DueSecond, now: Millis) -> String {
    let RecallHandle { topic, deliver_at, unique_key, .. } = handle;
    let mut text = String::with_capacity(256);
    for (name, value) in [
        (properties::TIMER_DEL_UNIQKEY, &*format!("{topic}+{unique_key}")),
        (properties::REAL_TOPIC, topic),
        (properties::BORN_TIMESTAMP, &now.0.to_string()),
        (properties::TIMER_DELIVER_MS, &deliver_at.0.to_string()),
        (properties::UNIQ_KEY, unique_key),
        (properties::PRODUCER_GROUP, group),
        (properties::TAGS, RECALL_TAG),
        (properties::TIMER_OUT_MS, &due.out_ms().to_string()),
        (properties::REAL_QUEUE_ID, "0"),
    ] {
        properties::append(&mut text, name, value);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::message::{parse, BodyCrc, Parsed};

    const RECORDS: &[u8] = include_bytes!("../../../tests/vectors/store/captured/records.bin");

    /// The record with which a 5.3.2 broker took a message back.
    fn captured() -> RecordView<'static> {
        match parse(&RECORDS[6166..], BodyCrc::Verify) {
            Ok(Parsed::Record(view)) => view,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_message_is_taken_back_with_rocketmqs_record() {
        let captured = captured();
        let text = captured.properties();
        let deliver_at = Millis(properties::find_number(&text, properties::TIMER_DELIVER_MS).unwrap());
        let unique_key = properties::find(&text, properties::UNIQ_KEY).unwrap().to_owned();
        let handle = RecallHandle { topic: "TopicTest".to_owned(), broker: String::new(), deliver_at, unique_key };
        let ours = recall_text(&handle, "pg_demo", DueSecond::at(deliver_at), captured.born_timestamp());
        let sorted = |text: &str| {
            let mut pairs: Vec<_> = properties::iterate(text).map(|(n, v)| format!("{n}={v}")).collect();
            pairs.sort();
            pairs
        };
        assert_eq!(sorted(&ours), sorted(&text));
        assert_eq!((captured.body(), captured.topic_bytes()), (RECALL_BODY, system::TIMER_TOPIC.as_bytes()));
    }

    #[test]
    fn apaches_record_is_a_unit_of_its_second() {
        let captured = captured();
        let number = captured.queue_offset();
        let unit = pending(&captured, number, captured.store_timestamp()).unwrap();
        assert_eq!((unit.kind, unit.second), (PendingKind::Recall, 1_796_027_472));
        assert_eq!(pending(&captured, QueueOffset(77), Millis(0)), Err(DueError::OtherRecord));
        let two_days = Millis((unit.second - ROLL_WINDOW_SEC) * 1000);
        for (now, rolls) in [(two_days, true), (two_days.plus(1000), false)] {
            let kind = pending(&captured, number, now).unwrap().kind;
            assert_eq!(kind == PendingKind::Roll, rolls, "at {now:?}");
        }
    }
}
