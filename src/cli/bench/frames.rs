//! Requests encoded once and patched in place, and the few things the bench wants to know of answers. A client that
//! parses and prints JSON for each message would measure itself.

use crate::proto::remoting::requests::{PullHeader, SendHeader, SendNames, UpdateAndCreateTopic};
use crate::proto::remoting::{request, Command, Serialization, Text};

/// Ten digits, so that a patched number has always the same width.
const OPAQUE_BASE: u32 = 1_000_000_000;
/// What stands for the part of a key that is patched.
const KEY_MARK: &str = "KKKKKKKKKKKKKKKK";
/// The same for offsets, which need leading zeros to have always the same width.
const OFFSET_MARK: i64 = 7_777_777_777_777_777_777;
const OFFSET_DIGITS: usize = 19;

/// A request to be sent again and again with other numbers in it.
pub struct Template {
    bytes: Vec<u8>,
    opaque_at: usize,
    queue_at: usize,
    /// Where the 16 digits of each message's key stand.
    keys_at: Vec<usize>,
    /// Where offsets stand, with leading zeros.
    offsets_at: Vec<usize>,
    /// Where the body begins.
    body_at: usize,
    /// Messages in it.
    pub messages: u32,
    /// Bytes of their bodies.
    pub payload: u64,
}

/// What changes from one request to the next.
#[derive(Clone, Copy, Default)]
pub struct Numbers {
    /// Comes back as [`Answer::slot`].
    pub slot: u32,
    /// One digit.
    pub queue: u32,
    /// Numbers the messages; a batch takes as many as it has.
    pub key: u64,
    /// Where a pull reads.
    pub offset: u64,
}

impl Template {
    /// A SEND_MESSAGE_V2 of one message, or a SEND_BATCH_MESSAGE of `batch`, as the Java client writes them.
    pub fn send(topic: &str, broker: &str, size: usize, batch: u32) -> Template {
        let properties = format!("UNIQ_KEY\u{1}BENCH00000000000{KEY_MARK}\u{2}WAIT\u{1}true\u{2}TAGS\u{1}TagA\u{2}");
        let body: Vec<u8> = (0..size).map(|at| b' ' + (at % 94) as u8).collect();
        let header = SendHeader {
            producer_group: "metaq_bench_producer".into(),
            topic: topic.into(),
            default_topic: "TBW102".into(),
            default_topic_queue_nums: 4,
            queue_id: 0,
            sys_flag: 0,
            born_timestamp: 1_700_000_000_000,
            flag: 0,
            properties: Text::plain(&properties),
            reconsume_times: 0,
            unit_mode: false,
            max_reconsume_times: None,
            batch: batch > 1,
            broker_name: Some(broker.into()),
        };
        let (code, body) = match batch {
            0 | 1 => (request::SEND_MESSAGE_V2, body),
            _ => {
                let mut items = Vec::new();
                for _ in 0..batch {
                    push_item(&mut items, &body, properties.as_bytes());
                }
                (request::SEND_BATCH_MESSAGE, items)
            }
        };
        let command = Command::request(code).with_ext(&(SendNames::V2, &header)).with_body(body);
        let messages = batch.max(1);
        Template::new(command, "e", messages, u64::from(messages) * size as u64)
    }

    /// A PULL_MESSAGE of up to `messages`. `waits`: it is held while there is nothing to read.
    pub fn pull(topic: &str, broker: &str, group: &str, messages: u32, waits: bool) -> Template {
        const COMMIT: i32 = 1;
        const SUSPEND: i32 = 2;
        const SUBSCRIPTION: i32 = 4;
        let header = PullHeader {
            consumer_group: group.into(),
            topic: topic.into(),
            queue_id: 0,
            queue_offset: OFFSET_MARK,
            max_msg_nums: messages as i32,
            sys_flag: COMMIT | SUBSCRIPTION | if waits { SUSPEND } else { 0 },
            commit_offset: OFFSET_MARK,
            suspend_timeout_millis: 15_000,
            subscription: Some("*".into()),
            sub_version: 0,
            expression_type: Some("TAG".into()),
            max_msg_bytes: Some(i32::MAX),
            request_source: None,
            proxy_forward_client_id: None,
        };
        let mut command = Command::request(request::PULL_MESSAGE).with_ext(&header);
        command.ext.push("bname", broker);
        Template::new(command, "queueId", messages, 0)
    }

    /// An UPDATE_AND_CREATE_TOPIC with `queues` queues.
    pub fn create_topic(topic: &str, queues: u32) -> Template {
        let header = UpdateAndCreateTopic {
            topic: topic.into(),
            default_topic: Some("TBW102".into()),
            read_queue_nums: queues as i32,
            write_queue_nums: queues as i32,
            perm: 6,
            topic_filter_type: Some("SINGLE_TAG".into()),
            topic_sys_flag: 0,
            order: false,
            attributes: None,
            force: false,
        };
        // The last digit of a field that nobody reads takes the number of the queue that others name.
        let command = Command::request(request::UPDATE_AND_CREATE_TOPIC).with_ext(&header);
        Template::new(command, "topicSysFlag", 1, 0)
    }

    fn new(mut command: Command, queue: &str, messages: u32, payload: u64) -> Template {
        command.opaque = OPAQUE_BASE as i32;
        let mut bytes = Vec::new();
        command.encode(Serialization::Json, &mut bytes).expect("names of a JSON header have no limit");
        let queue = format!("\"{queue}\":\"");
        Template {
            opaque_at: find(&bytes, OPAQUE_BASE.to_string().as_bytes()).expect("every header has its number"),
            queue_at: find(&bytes, queue.as_bytes()).expect("every request names its queue") + queue.len(),
            keys_at: find_all(&bytes, KEY_MARK.as_bytes()),
            offsets_at: find_all(&bytes, OFFSET_MARK.to_string().as_bytes()),
            body_at: bytes.len() - command.body.len(),
            bytes,
            messages,
            payload,
        }
    }

    /// Appends the request to `out`.
    pub fn write(&self, out: &mut Vec<u8>, numbers: Numbers) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        let frame = &mut out[start..];
        put_decimal(&mut frame[self.opaque_at..][..10], u64::from(OPAQUE_BASE + numbers.slot));
        frame[self.queue_at] = b'0' + (numbers.queue % 10) as u8;
        for (key, at) in (numbers.key..).zip(&self.keys_at) {
            put_hex(&mut frame[*at..][..KEY_MARK.len()], key);
        }
        for at in &self.offsets_at {
            put_decimal(&mut frame[*at..][..OFFSET_DIGITS], numbers.offset);
        }
    }

    /// Appends the request with `mark` in the first eight bytes of its body, if it has as many.
    pub fn write_marked(&self, out: &mut Vec<u8>, numbers: Numbers, mark: u64) {
        let start = out.len();
        self.write(out, numbers);
        if let Some(place) = out[start + self.body_at..].first_chunk_mut() {
            *place = mark.to_be_bytes();
        }
    }
}

/// A message of a batch body.
fn push_item(out: &mut Vec<u8>, body: &[u8], properties: &[u8]) {
    let total = 4 + 4 + 4 + 4 + 4 + body.len() + 2 + properties.len();
    out.extend_from_slice(&(total as u32).to_be_bytes());
    out.extend_from_slice(&[0; 12]); // magic, crc and flag, which brokers do not read
    out.extend_from_slice(&(body.len() as u32).to_be_bytes());
    out.extend_from_slice(body);
    out.extend_from_slice(&(properties.len() as u16).to_be_bytes());
    out.extend_from_slice(properties);
}

/// An answer, as far as the bench looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// Its code.
    pub code: i32,
    /// The request's slot.
    pub slot: u32,
    /// The header, for the values that few answers are asked for.
    pub header: &'a [u8],
    /// The body.
    pub body: &'a [u8],
}

impl<'a> Answer<'a> {
    /// Takes the answer out of a JSON header; `None` if it is not one to a request of ours.
    pub fn parse(header: &'a [u8], body: &'a [u8]) -> Option<Answer<'a>> {
        // Both brokers write the code first and the number near the end.
        let code = number(header.strip_prefix(b"{\"code\":")?)?;
        const OPAQUE: &[u8] = b"\"opaque\":";
        let at = header.windows(OPAQUE.len()).rposition(|window| window == OPAQUE)?;
        let opaque = number(&header[at + OPAQUE.len()..])?;
        let slot = u32::try_from(opaque).ok()?.checked_sub(OPAQUE_BASE)?;
        Some(Answer { code: code as i32, slot, header, body })
    }

    /// The number in the ext field `name`.
    pub fn field(&self, name: &str) -> Option<i64> {
        let at = find(self.header, format!("\"{name}\":\"").as_bytes())?;
        number(&self.header[at + name.len() + 4..])
    }

    /// The remark, for errors.
    pub fn remark(&self) -> String {
        const REMARK: &[u8] = b"\"remark\":\"";
        let start = find(self.header, REMARK).map_or(self.header.len(), |at| at + REMARK.len());
        let end = find(&self.header[start..], b"\",\"").map_or(self.header.len(), |len| start + len);
        String::from_utf8_lossy(&self.header[start..end]).into_owned()
    }

    /// The records in the body.
    pub fn records(&self) -> Records<'a> {
        Records(self.body)
    }
}

/// The records of a pull's body.
pub struct Records<'a>(&'a [u8]);

impl<'a> Iterator for Records<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let size = u32::from_be_bytes(*self.0.first_chunk()?) as usize;
        let (record, rest) = self.0.split_at_checked(size.max(4))?;
        self.0 = rest;
        Some(record)
    }
}

/// Where the body's length stands in a record with IPv4 addresses.
const BODY_LENGTH_AT: usize = 84;

/// The body of a record with IPv4 addresses.
pub fn body_of(record: &[u8]) -> Option<&[u8]> {
    let length = u32::from_be_bytes(*record.get(BODY_LENGTH_AT..)?.first_chunk()?) as usize;
    record.get(BODY_LENGTH_AT + 4..)?.get(..length)
}

fn number(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let len = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let magnitude = digits[..len]
        .iter()
        .try_fold(0_i64, |number, digit| number.checked_mul(10)?.checked_add(i64::from(digit - b'0')))?;
    (len > 0).then_some(if negative { -magnitude } else { magnitude })
}

fn put_decimal(place: &mut [u8], mut number: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

fn put_hex(place: &mut [u8], mut number: u64) {
    const HEX: [u8; 16] = *b"0123456789ABCDEF";
    for digit in place.iter_mut().rev() {
        *digit = HEX[(number & 15) as usize];
        number >>= 4;
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

fn find_all(text: &[u8], wanted: &[u8]) -> Vec<usize> {
    let windows = text.windows(wanted.len()).enumerate();
    windows.filter(|(_, window)| *window == wanted).map(|(at, _)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::message::batch;
    use crate::proto::remoting::{frame, Head};

    fn written(template: &Template, numbers: Numbers) -> Vec<u8> {
        let mut out = Vec::new();
        template.write(&mut out, numbers);
        out
    }

    const NUMBERS: Numbers = Numbers { slot: 41, queue: 3, key: 0xAB, offset: 4711 };

    #[test]
    fn a_send_is_one_that_the_broker_reads() {
        let out = written(&Template::send("TopicTest", "broker-a", 100, 1), NUMBERS);
        let frame = frame::next(&out).unwrap().unwrap();
        assert_eq!((frame.len, frame.body.len()), (out.len(), 100));
        let head = Head::parse(frame.serialization, frame.header).unwrap();
        assert_eq!((head.code, head.opaque), (310, 1_000_000_041));
        let header = SendHeader::decode(310, &head.ext).unwrap();
        assert_eq!((&*header.topic, header.queue_id, header.batch), ("TopicTest", 3, false));
        assert!(header.properties.str().starts_with("UNIQ_KEY\u{1}BENCH0000000000000000000000000AB\u{2}WAIT"));
    }

    #[test]
    fn a_batch_numbers_its_messages() {
        let template = Template::send("TopicTest", "broker-a", 10, 3);
        assert_eq!((template.messages, template.payload), (3, 30));
        let out = written(&template, NUMBERS);
        let frame = frame::next(&out).unwrap().unwrap();
        let head = Head::parse(frame.serialization, frame.header).unwrap();
        assert!(SendHeader::decode(head.code, &head.ext).unwrap().batch);
        let keys: Vec<_> = batch::items(frame.body).map(|item| item.unwrap().properties[25..41].to_owned()).collect();
        assert_eq!(keys, ["00000000000000AC", "00000000000000AD", "00000000000000AE"]);
    }

    #[test]
    fn a_pull_names_its_place() {
        let out = written(&Template::pull("TopicTest", "broker-a", "g", 32, true), NUMBERS);
        let frame = frame::next(&out).unwrap().unwrap();
        let head = Head::parse(frame.serialization, frame.header).unwrap();
        let header = PullHeader::decode(&head.ext).unwrap();
        assert_eq!((header.queue_id, header.queue_offset, header.commit_offset), (3, 4711, 4711));
        assert_eq!((header.max_msg_nums, header.sys_flag), (32, 7));
    }

    #[test]
    fn answers_are_read() {
        let header = br#"{"code":19,"extFields":{"minOffset":"-1","maxOffset":"12"},"flag":1,"opaque":1000000007,"remark":"NOT","version":479}"#;
        let answer = Answer::parse(header, b"").unwrap();
        assert_eq!((answer.code, answer.slot, answer.remark().as_str()), (19, 7, "NOT"));
        assert_eq!(
            (answer.field("minOffset"), answer.field("maxOffset"), answer.field("none")),
            (Some(-1), Some(12), None)
        );
        assert_eq!(Answer::parse(br#"{"code":0,"opaque":5}"#, b""), None);
        assert_eq!(Answer::parse(b"", b""), None);
    }

    #[test]
    fn records_end_where_their_sizes_say() {
        let body = [&4_u32.to_be_bytes()[..], &6_u32.to_be_bytes(), b"xy", &0_u32.to_be_bytes(), &9_u32.to_be_bytes()];
        let body = body.concat();
        let answer = Answer { code: 0, slot: 0, header: b"", body: &body };
        assert_eq!(answer.records().map(<[u8]>::len).collect::<Vec<_>>(), [4, 6, 4]);
        assert_eq!(body_of(&body), None);
    }
}
