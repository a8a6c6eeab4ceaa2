//! Where a message goes that lies in a topic of the system until its time has come.

use std::borrow::Cow;

use crate::proto::message::{encode, hash, properties, RecordView};

/// Where a delayed or half message goes. Everything else is copied from the stored record as it is: body, flags, born
/// data, reconsume times and the whole text of properties, `REAL_TOPIC` and `REAL_QID` included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination<'a> {
    /// The real topic.
    pub topic: Cow<'a, str>,
    /// The queue of that topic.
    pub queue_id: i32,
    /// The tag code for its consume-queue entry.
    pub tags_code: i64,
}

/// Where a record says that it goes; `None` if it says nothing that can be.
pub fn destination<'a>(record: &RecordView<'a>) -> Option<Destination<'a>> {
    let text = record.properties();
    let topic = find(&text, properties::REAL_TOPIC)?;
    let queue_id: i32 = properties::find_number(&text, properties::REAL_QUEUE_ID)?;
    if queue_id < 0 || topic.len() > encode::TOPIC_MAX {
        return None;
    }
    let tags_code = properties::find(&text, properties::TAGS).map_or(0, hash::tags_code);
    Some(Destination { topic, queue_id, tags_code })
}

/// A property's value, borrowed from the record if its text is.
fn find<'a>(text: &Cow<'a, str>, name: &str) -> Option<Cow<'a, str>> {
    match text {
        Cow::Borrowed(text) => properties::find(text, name).map(Cow::Borrowed),
        Cow::Owned(text) => properties::find(text, name).map(|value| Cow::Owned(value.to_owned())),
    }
}
