//! Sending messages, and the replies of request-reply.

use std::borrow::Cow;

use super::fields::{ext_fields, FieldValue};
use crate::proto::remoting::{request, ExtFields, ExtSink, FieldError, Text, ToExt};

/// The fields of every send: 10, 310, 320, 324 and 325.
///
/// Codes 10 and 324 use the long (V1) names, the others one letter per field (V2). Whether the body is a batch is
/// told by `batch` and never by the code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SendHeader<'a> {
    /// The sender's group.
    pub producer_group: Cow<'a, str>,
    /// Where the message goes.
    pub topic: Cow<'a, str>,
    /// The template for a topic that does not exist yet, normally `TBW102`.
    pub default_topic: Cow<'a, str>,
    /// How many queues the sender would like such a topic to have.
    pub default_topic_queue_nums: i32,
    /// The queue; a negative number leaves the choice to the broker.
    pub queue_id: i32,
    /// Compression and transaction bits.
    pub sys_flag: i32,
    /// When the message was made, in ms.
    pub born_timestamp: i64,
    /// The application's flag, stored as it is.
    pub flag: i32,
    /// The properties string. JSON escapes its separators, so it is kept as it came and unescaped into the record.
    pub properties: Text<'a>,
    /// How often the message has been consumed in vain.
    pub reconsume_times: i32,
    /// Unit mode.
    pub unit_mode: bool,
    /// The limit for `reconsume_times`; heeded from clients of version 121 on.
    pub max_reconsume_times: Option<i32>,
    /// Whether the body is a batch.
    pub batch: bool,
    /// The broker meant.
    pub broker_name: Option<Cow<'a, str>>,
}

/// The names of the fields of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendNames {
    /// Long ones.
    V1,
    /// `a` to `n`.
    V2,
}

impl SendNames {
    /// The names that a request code uses.
    pub fn of(code: i32) -> Self {
        match code {
            request::SEND_MESSAGE | request::SEND_REPLY_MESSAGE => Self::V1,
            _ => Self::V2,
        }
    }

    fn list(self) -> &'static [&'static str; FIELDS] {
        match self {
            Self::V1 => &V1_NAMES,
            Self::V2 => &V2_NAMES,
        }
    }

    /// Which of the fields has this name.
    fn position(self, name: &str) -> Option<usize> {
        match (self, name.as_bytes()) {
            // A letter is its field's position: most sends come here, fourteen times each.
            (Self::V2, [letter @ b'a'..=b'n']) => Some(usize::from(letter - b'a')),
            (Self::V2, _) => None,
            (Self::V1, _) => V1_NAMES.iter().position(|own| *own == name),
        }
    }
}

const FIELDS: usize = 14;

const V1_NAMES: [&str; FIELDS] = [
    "producerGroup",
    "topic",
    "defaultTopic",
    "defaultTopicQueueNums",
    "queueId",
    "sysFlag",
    "bornTimestamp",
    "flag",
    "properties",
    "reconsumeTimes",
    "unitMode",
    "maxReconsumeTimes",
    "batch",
    "bname",
];

const V2_NAMES: [&str; FIELDS] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"];

impl<'a> SendHeader<'a> {
    /// Reads the fields of a send with request code `code`.
    pub fn decode(code: i32, ext: &ExtFields<'a>) -> Result<Self, FieldError> {
        let names = SendNames::of(code);
        let mut fields = Fields { names: names.list(), values: [None; FIELDS] };
        for field in ext {
            if let Some(position) = names.position(&field.name.str()) {
                fields.values[position] = field.value;
            }
        }
        Ok(Self {
            producer_group: fields.read(0)?,
            topic: fields.read(1)?,
            default_topic: fields.read(2)?,
            default_topic_queue_nums: fields.read(3)?,
            queue_id: fields.read(4)?,
            sys_flag: fields.read(5)?,
            born_timestamp: fields.read(6)?,
            flag: fields.read(7)?,
            properties: fields.values[8].unwrap_or_default(),
            reconsume_times: fields.read_or_default(9)?,
            unit_mode: fields.read_or_default(10)?,
            max_reconsume_times: fields.read(11)?,
            batch: fields.read_or_default(12)?,
            broker_name: fields.read(13)?,
        })
    }

    /// Writes the fields, under the names that `names` says.
    pub fn encode(&self, names: SendNames, sink: &mut impl ExtSink) {
        let names = names.list();
        self.producer_group.write(names[0], sink);
        self.topic.write(names[1], sink);
        self.default_topic.write(names[2], sink);
        self.default_topic_queue_nums.write(names[3], sink);
        self.queue_id.write(names[4], sink);
        self.sys_flag.write(names[5], sink);
        self.born_timestamp.write(names[6], sink);
        self.flag.write(names[7], sink);
        sink.put_str(names[8], &self.properties.str());
        self.reconsume_times.write(names[9], sink);
        self.unit_mode.write(names[10], sink);
        self.max_reconsume_times.write(names[11], sink);
        self.batch.write(names[12], sink);
        self.broker_name.write(names[13], sink);
    }
}

impl ToExt for (SendNames, &SendHeader<'_>) {
    fn encode(&self, sink: &mut impl ExtSink) {
        self.1.encode(self.0, sink);
    }
}

/// What came of a send's fields, in the order of its type.
struct Fields<'a> {
    names: &'static [&'static str; FIELDS],
    values: [Option<Text<'a>>; FIELDS],
}

impl<'a> Fields<'a> {
    #[inline]
    fn read<T: FieldValue<'a>>(&self, position: usize) -> Result<T, FieldError> {
        T::read(self.names[position], self.values[position])
    }

    #[inline]
    fn read_or_default<T: FieldValue<'a> + Default>(&self, position: usize) -> Result<T, FieldError> {
        Ok(self.read::<Option<T>>(position)?.unwrap_or_default())
    }
}

ext_fields! {
    /// The fields of a send's answer. Clients need those of a success on the codes 0, 10, 11 and 12; on others only
    /// `MSG_REGION` and `TRACE_ON` are sent.
    pub struct SendResponse<'a> {
        /// The offset message id; for a batch those of all messages, joined by commas.
        msg_id: Cow<'a, str> = "msgId",
        queue_id: i32 = "queueId",
        /// Where the message went; for a batch the first.
        queue_offset: i64 = "queueOffset",
        /// The message's unique key.
        transaction_id: Option<Cow<'a, str>> = "transactionId",
        region: Option<Cow<'a, str>> = "MSG_REGION",
        /// The Go client traces only if it is there and true.
        trace_on: Option<bool> = "TRACE_ON",
        batch_uniq_id: Option<Cow<'a, str>> = "batchUniqId",
        /// What recalls a timer message.
        recall_handle: Option<Cow<'a, str>> = "recallHandle",
    }
}

ext_fields! {
    /// 326: a reply on its way from the broker to the client that asked.
    pub struct PushReplyMessage<'a> {
        producer_group: Cow<'a, str> = "producerGroup",
        topic: Cow<'a, str> = "topic",
        default_topic: Cow<'a, str> = "defaultTopic",
        default_topic_queue_nums: i32 = "defaultTopicQueueNums",
        queue_id: i32 = "queueId",
        sys_flag: i32 = "sysFlag",
        /// In ms.
        born_timestamp: i64 = "bornTimestamp",
        flag: i32 = "flag",
        properties: Option<Cow<'a, str>> = "properties",
        reconsume_times: i32 = "reconsumeTimes" or 0,
        unit_mode: bool = "unitMode" or false,
        /// `ip:port`.
        born_host: Cow<'a, str> = "bornHost",
        /// `ip:port`.
        store_host: Cow<'a, str> = "storeHost",
        /// In ms.
        store_timestamp: i64 = "storeTimestamp",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::remoting::Command;

    fn header() -> SendHeader<'static> {
        SendHeader {
            producer_group: "pg".into(),
            topic: "TopicTest".into(),
            default_topic: "TBW102".into(),
            default_topic_queue_nums: 4,
            queue_id: -1,
            sys_flag: 1,
            born_timestamp: 1_700_000_000_000,
            flag: 5,
            properties: Text::plain("TAGS\u{1}TagA\u{2}"),
            reconsume_times: 2,
            unit_mode: true,
            max_reconsume_times: Some(16),
            batch: true,
            broker_name: Some("broker-a".into()),
        }
    }

    #[test]
    fn both_kinds_of_names_lead_back() {
        for code in [10, 310, 320, 324, 325] {
            let command = Command::request(code).with_ext(&(SendNames::of(code), &header()));
            assert_eq!(command.ext("topic").is_some(), matches!(code, 10 | 324));
            assert_eq!(SendHeader::decode(code, &command.ext_fields().unwrap()), Ok(header()));
        }
    }

    #[test]
    fn what_may_be_missing_has_its_default() {
        let mut command = Command::request(310).with_ext(&(SendNames::V2, &header()));
        command.ext.retain(|name, _| name < "i");
        let decoded = SendHeader::decode(310, &command.ext_fields().unwrap()).unwrap();
        let expected = SendHeader {
            properties: Text::plain(""),
            reconsume_times: 0,
            unit_mode: false,
            max_reconsume_times: None,
            batch: false,
            broker_name: None,
            ..header()
        };
        assert_eq!(decoded, expected);
    }

    #[test]
    fn errors_name_the_field_as_it_is_on_the_wire() {
        let mut command = Command::request(310).with_ext(&(SendNames::V2, &header()));
        command.ext.set("e", "two");
        let error = SendHeader::decode(310, &command.ext_fields().unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "the field `e` is not a 32-bit integer: `two`");
        let error = SendHeader::decode(10, &command.ext_fields().unwrap()).unwrap_err();
        assert_eq!(error, FieldError::Missing("producerGroup"));
    }

    #[test]
    fn a_batch_is_one_only_if_the_text_is_true() {
        // The old C++ client says `1`, which Apache takes for false.
        let mut command = Command::request(10).with_ext(&(SendNames::V1, &header()));
        command.ext.set("batch", "1");
        assert!(!SendHeader::decode(10, &command.ext_fields().unwrap()).unwrap().batch);
    }
}
