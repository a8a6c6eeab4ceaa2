//! Messages as applications see them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::compression::{unpack, UnpackError};
use super::error::Error;
use crate::env::Millis;
use crate::proto::body::MessageQueue;
use crate::proto::message::names::validate_topic;
use crate::proto::message::record::PROPERTIES_MAX;
use crate::proto::message::{ids, parse, properties, BodyCrc, Parsed, RecordView};
use crate::proto::remoting::requests::PushReplyMessage;

/// A message to be sent.
///
/// ```
/// use metaq::client::Message;
///
/// let message = Message::new("Orders", "a book").tag("paid").key("order-17").property("region", "eu");
/// assert_eq!(message.topic(), "Orders");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub(super) topic: String,
    pub(super) body: Vec<u8>,
    pub(super) properties: BTreeMap<String, String>,
    pub(super) flag: i32,
}

impl Message {
    /// A message for `topic`.
    pub fn new(topic: impl Into<String>, body: impl Into<Vec<u8>>) -> Message {
        Message { topic: topic.into(), body: body.into(), properties: BTreeMap::new(), flag: 0 }
    }

    /// With another body.
    pub fn with_body(self, body: impl Into<Vec<u8>>) -> Message {
        Message { body: body.into(), ..self }
    }

    /// With a tag, by which subscriptions can choose. A message has at most one.
    pub fn tag(self, tag: impl Into<String>) -> Message {
        self.property(properties::TAGS, tag)
    }

    /// With one more key, by which the message can be found later. Keys have no blanks in them.
    pub fn key(mut self, key: impl AsRef<str>) -> Message {
        let keys = self.properties.entry(properties::KEYS.to_owned()).or_default();
        if !keys.is_empty() {
            keys.push(' ');
        }
        keys.push_str(key.as_ref());
        self
    }

    /// Delivered only after the delay of a level: 1 is 1 s, 3 is 10 s, 5 is 1 min, 18 is 2 h with a broker's default
    /// table.
    pub fn delay_level(self, level: u8) -> Message {
        self.property(properties::DELAY, level.to_string())
    }

    /// Delivered only after this time, counted by the broker from its arrival, in the first second that begins then. The
    /// broker says how long a message may wait; three days by default.
    pub fn delay(self, delay: Duration) -> Message {
        self.property(properties::TIMER_DELAY_MS, delay.as_millis().to_string())
    }

    /// Delivered only from this time on, in the first second that begins then; at once if it is over.
    pub fn deliver_at(self, time: Millis) -> Message {
        self.property(properties::TIMER_DELIVER_MS, time.0.to_string())
    }

    /// Whether the broker answers only when the message is as safe as the broker's settings say (the default), or as
    /// soon as it has taken it.
    pub fn wait_stored(self, wait: bool) -> Message {
        self.property(properties::WAIT, if wait { "true" } else { "false" })
    }

    /// With a property of the application's own.
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Message {
        self.properties.insert(name.into(), value.into());
        self
    }

    /// With a number of the application's own.
    pub fn flag(mut self, flag: i32) -> Message {
        self.flag = flag;
        self
    }

    /// Where it goes.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// What it says.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Appends the text of its properties, with the unique key.
    pub(super) fn encode_properties(&self, unique_key: &str, text: &mut String) {
        for (name, value) in &self.properties {
            properties::append(text, name, value);
        }
        properties::append(text, properties::UNIQ_KEY, unique_key);
    }

    /// Whether it can be sent at all.
    pub(super) fn check(&self, body_max: usize) -> Result<(), Error> {
        let invalid = |what: String| Err(Error::Invalid(what));
        validate_topic(&self.topic).or_else(|error| invalid(error.to_string()))?;
        if self.body.is_empty() {
            return invalid("the message's body is empty".into());
        }
        if self.body.len() > body_max {
            return invalid(format!("the message's body has {} bytes, more than {body_max}", self.body.len()));
        }
        let mut len = properties::UNIQ_KEY.len() + 64;
        for (name, value) in &self.properties {
            if name == properties::UNIQ_KEY {
                return invalid("the unique key of a message is made by its producer".into());
            }
            if !properties::is_writable(name) || !properties::is_writable(value) {
                return invalid(format!("the property `{name}` or its value is empty or has a U+0001 or U+0002 in it"));
            }
            len += name.len() + value.len() + 2;
        }
        if len > PROPERTIES_MAX {
            return invalid(format!("the message's properties have about {len} bytes, more than {PROPERTIES_MAX}"));
        }
        Ok(())
    }
}

/// A message as a consumer gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received {
    /// The topic it was sent to; for one that comes again after a failure, too.
    pub topic: Arc<str>,
    /// The queue it was read from: of its topic, or of its group's retry topic.
    pub queue: Arc<MessageQueue>,
    /// Its number in that queue.
    pub offset: i64,
    /// What it says, unpacked; if it cannot be, as it came.
    pub body: Vec<u8>,
    /// Why the body could not be unpacked.
    pub body_error: Option<UnpackError>,
    /// Its properties, as one text; see [`Received::property`].
    pub properties: String,
    /// How often consumers failed to consume it.
    pub reconsume_times: i32,
    /// When its producer made it, by the producer's clock.
    pub born_at: Millis,
    /// When the broker took it, by the broker's clock.
    pub stored_at: Millis,
    /// Where its producer is.
    pub born_host: SocketAddr,
    /// The broker that took it.
    pub store_host: SocketAddr,
    /// Where in the broker's log it lies.
    pub physical_offset: i64,
    /// The application's own number.
    pub flag: i32,
    /// RocketMQ's bits.
    pub sys_flag: i32,
    /// Bytes of the record it came in.
    pub size: usize,
}

impl Received {
    /// Copies a message out of a record of broker `broker`.
    pub fn of_record(broker: &str, record: &RecordView<'_>) -> Received {
        Origin::new(broker, record).message(record)
    }

    fn new(topic: Arc<str>, queue: Arc<MessageQueue>, properties: String, record: &RecordView<'_>) -> Received {
        let (body, body_error) = unpacked(record.sys_flag(), record.body());
        Received {
            topic,
            queue,
            offset: record.queue_offset().0 as i64,
            body,
            body_error,
            properties,
            reconsume_times: record.reconsume_times(),
            born_at: record.born_timestamp(),
            stored_at: record.store_timestamp(),
            born_host: record.born_host(),
            store_host: record.store_host(),
            physical_offset: record.physical_offset().0 as i64,
            flag: record.flag(),
            sys_flag: record.sys_flag(),
            size: record.total_size() as usize,
        }
    }

    /// A reply as a broker hands it over. It lies in no queue that one could read from here.
    pub(super) fn of_reply(header: &PushReplyMessage<'_>, body: &[u8]) -> Received {
        // Java's brokers write addresses with a slash before them.
        let host = |text: &str| {
            let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
            text.trim_start_matches('/').parse().unwrap_or(unknown)
        };
        let (unpacked, body_error) = unpacked(header.sys_flag, body);
        let topic = header.topic.to_string();
        Received {
            topic: topic.as_str().into(),
            queue: Arc::new(MessageQueue { topic, broker_name: String::new(), queue_id: header.queue_id }),
            offset: 0,
            body: unpacked,
            body_error,
            properties: header.properties.as_deref().unwrap_or_default().to_owned(),
            reconsume_times: header.reconsume_times,
            born_at: Millis(header.born_timestamp),
            stored_at: Millis(header.store_timestamp),
            born_host: host(&header.born_host),
            store_host: host(&header.store_host),
            physical_offset: 0,
            flag: header.flag,
            sys_flag: header.sys_flag,
            size: body.len(),
        }
    }

    /// The messages in the body of an answer of broker `broker`.
    pub(super) fn all_in(broker: &str, mut records: &[u8]) -> Result<Vec<Received>, Error> {
        let malformed = |what: String| Error::Malformed { address: broker.to_owned(), what };
        let (mut found, mut origin) = (Vec::new(), None);
        while !records.is_empty() {
            match parse(records, BodyCrc::Verify).map_err(|error| malformed(error.to_string()))? {
                Parsed::Record(record) => {
                    let same = origin.take().filter(|origin: &Origin| origin.is_of(&record));
                    let origin = origin.insert(same.unwrap_or_else(|| Origin::new(broker, &record)));
                    found.push(origin.message(&record));
                    records = &records[record.total_size() as usize..];
                }
                Parsed::Blank { .. } => return Err(malformed("a filler among messages".into())),
            }
        }
        Ok(found)
    }

    /// The value of a property.
    pub fn property(&self, name: &str) -> Option<&str> {
        properties::find(&self.properties, name)
    }

    /// All properties in order, RocketMQ's own among them.
    pub fn all_properties(&self) -> impl Iterator<Item = (&str, &str)> {
        properties::iterate(&self.properties)
    }

    /// Its tag.
    pub fn tag(&self) -> Option<&str> {
        self.property(properties::TAGS)
    }

    /// Its keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        properties::keys(&self.properties)
    }

    /// The id its producer gave it, which repeated sends and deliveries share; else its place.
    pub fn message_id(&self) -> String {
        self.property(properties::UNIQ_KEY).map_or_else(|| self.offset_message_id(), str::to_owned)
    }

    /// The id of its place: broker and position in the log.
    pub fn offset_message_id(&self) -> String {
        ids::offset_message_id(self.store_host, crate::proto::PhysicalOffset(self.physical_offset as u64))
    }
}

/// A queue that messages were read from; they share its names.
struct Origin {
    topic: Arc<str>,
    queue: Arc<MessageQueue>,
}

impl Origin {
    fn new(broker: &str, record: &RecordView<'_>) -> Origin {
        let (topic, broker_name) = (record.topic().into_owned(), broker.to_owned());
        Origin {
            topic: topic.as_str().into(),
            queue: Arc::new(MessageQueue { topic, broker_name, queue_id: record.queue_id() }),
        }
    }

    fn is_of(&self, record: &RecordView<'_>) -> bool {
        self.queue.queue_id == record.queue_id() && *self.topic == *record.topic()
    }

    fn message(&self, record: &RecordView<'_>) -> Received {
        let properties = record.properties().into_owned();
        let topic =
            properties::find(&properties, properties::RETRY_TOPIC).map_or_else(|| Arc::clone(&self.topic), Arc::from);
        Received::new(topic, Arc::clone(&self.queue), properties, record)
    }
}

/// A body as its producer made it; one that cannot be unpacked stays as it came.
fn unpacked(flags: i32, body: &[u8]) -> (Vec<u8>, Option<UnpackError>) {
    match unpack(flags, body) {
        Ok(body) => (body, None),
        Err(error) => (body.to_vec(), Some(error)),
    }
}
