//! Writing a stored record.

use std::net::{IpAddr, SocketAddr};

use super::properties::{self, Edit};
use super::record::{
    self, RecordView, BLANK_SIZE, HOST_V4_SIZE, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, OVERHEAD_V1, PHYSICAL_OFFSET_AT,
    PROPERTIES_MAX, QUEUE_OFFSET_AT, TOPIC_V1_MAX,
};
use super::sys_flag;
use super::view::i32_at;
use crate::env::Millis;
use crate::proto::remoting::response;
use crate::proto::{PhysicalOffset, QueueOffset};

/// The longest topic any record may hold, in bytes: `%RETRY%` and `%DLQ%` topics of long groups.
pub const TOPIC_MAX: usize = 255;

/// A message about to be stored. Offsets and storeTimestamp are not known yet: [`patch_offsets`] fills them in.
#[derive(Clone, Copy, Debug)]
pub struct NewRecord<'a> {
    /// Where it goes, at most [`TOPIC_MAX`] bytes.
    pub topic: &'a str,
    /// The queue within the topic.
    pub queue_id: i32,
    /// The application's own flag.
    pub flag: i32,
    /// Compression and transaction bits; the address bits are set from the two hosts.
    pub sys_flag: i32,
    /// When the producer made it.
    pub born_timestamp: Millis,
    /// Whose connection brought it.
    pub born_host: SocketAddr,
    /// The address this broker is reached at.
    pub store_host: SocketAddr,
    /// How often consumers gave it back.
    pub reconsume_times: i32,
    /// Place of the half message for a committed message, else 0.
    pub prepared_transaction_offset: i64,
    /// The body as sent.
    pub body: &'a [u8],
    /// The properties as sent.
    pub properties: &'a str,
    /// What the broker changes about the properties.
    pub edits: &'a [Edit<'a>],
}

impl<'a> NewRecord<'a> {
    /// The message of `view` again, for another topic or queue or with other properties: what retries, delayed
    /// deliveries and commits are made of.
    pub fn copy_of(view: &RecordView<'a>, topic: &'a str, properties: &'a str) -> NewRecord<'a> {
        NewRecord {
            topic,
            queue_id: view.queue_id(),
            flag: view.flag(),
            sys_flag: view.sys_flag(),
            born_timestamp: view.born_timestamp(),
            born_host: view.born_host(),
            store_host: view.store_host(),
            reconsume_times: view.reconsume_times(),
            prepared_transaction_offset: view.prepared_transaction_offset(),
            body: view.body(),
            properties,
            edits: &[],
        }
    }
}

/// Why a message cannot be a record. Clients get [`EncodeError::CODE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The topic is empty or too long.
    #[error("a topic of {bytes} bytes: it has to have 1 to 255")]
    Topic {
        /// Bytes of the topic.
        bytes: usize,
    },
    /// The properties, with what the broker added, do not fit their 15 bits.
    #[error("{bytes} bytes of properties, at most 32767 can be stored")]
    Properties {
        /// Bytes of the properties.
        bytes: usize,
    },
    /// The record would not fit its 31-bit size.
    #[error("a body of {bytes} bytes does not fit a record")]
    Body {
        /// Bytes of the body.
        bytes: usize,
    },
}

impl EncodeError {
    /// RocketMQ's response code for each: MESSAGE_ILLEGAL.
    pub const CODE: i32 = response::MESSAGE_ILLEGAL;
}

/// Appends the whole record to `out` and returns its size, with queueOffset, physicalOffset and storeTimestamp 0.
/// On an error `out` is as before.
///
/// V1 wherever the topic fits: the Go and C++ clients ignore the magic and always read one length byte.
pub fn encode_record(out: &mut Vec<u8>, record: &NewRecord<'_>) -> Result<usize, EncodeError> {
    let topic = record.topic.as_bytes();
    if topic.is_empty() || topic.len() > TOPIC_MAX {
        return Err(EncodeError::Topic { bytes: topic.len() });
    }
    if record.body.len() > i32::MAX as usize - (1 << 17) {
        return Err(EncodeError::Body { bytes: record.body.len() });
    }
    let start = out.len();
    out.reserve(OVERHEAD_V1 + 32 + record.body.len() + topic.len() + record.properties.len() + 256);

    let version_2 = topic.len() > TOPIC_V1_MAX;
    let mut sys_flag = record.sys_flag & !(sys_flag::BORN_HOST_V6 | sys_flag::STORE_HOST_V6);
    sys_flag |= if record.born_host.is_ipv6() { sys_flag::BORN_HOST_V6 } else { 0 };
    sys_flag |= if record.store_host.is_ipv6() { sys_flag::STORE_HOST_V6 } else { 0 };

    put_u32(out, 0); // totalSize, patched below
    put_u32(out, if version_2 { MAGIC_V2 } else { MAGIC_V1 });
    put_u32(out, record::body_crc(record.body));
    put_i32(out, record.queue_id);
    put_i32(out, record.flag);
    put_i64(out, 0); // queueOffset
    put_i64(out, 0); // physicalOffset
    put_i32(out, sys_flag);
    put_i64(out, record.born_timestamp.0);
    put_host(out, record.born_host);
    put_i64(out, 0); // storeTimestamp
    put_host(out, record.store_host);
    put_i32(out, record.reconsume_times);
    put_i64(out, record.prepared_transaction_offset);
    put_i32(out, record.body.len() as i32);
    out.extend_from_slice(record.body);
    if version_2 {
        out.extend_from_slice(&(topic.len() as u16).to_be_bytes());
    } else {
        out.push(topic.len() as u8);
    }
    out.extend_from_slice(topic);

    let length_at = out.len();
    out.extend_from_slice(&[0; 2]);
    properties::write_edited(out, record.properties, record.edits);
    let properties = out.len() - length_at - 2;
    if properties > PROPERTIES_MAX {
        out.truncate(start);
        return Err(EncodeError::Properties { bytes: properties });
    }
    out[length_at..length_at + 2].copy_from_slice(&(properties as u16).to_be_bytes());

    let size = out.len() - start;
    out[start..start + 4].copy_from_slice(&(size as u32).to_be_bytes());
    Ok(size)
}

/// Fills in what only the log writer knows. `bytes` starts with a record of [`encode_record`].
///
/// # Panics
///
/// If `bytes` is shorter than a record's fixed fields.
pub fn patch_offsets(bytes: &mut [u8], queue: QueueOffset, physical: PhysicalOffset, stored: Millis) {
    let stored_at = record::store_timestamp_at(i32_at(bytes, record::SYS_FLAG_AT));
    bytes[QUEUE_OFFSET_AT..QUEUE_OFFSET_AT + 8].copy_from_slice(&queue.0.to_be_bytes());
    bytes[PHYSICAL_OFFSET_AT..PHYSICAL_OFFSET_AT + 8].copy_from_slice(&physical.0.to_be_bytes());
    bytes[stored_at..stored_at + 8].copy_from_slice(&stored.0.to_be_bytes());
}

/// The defined part of a filler that reaches `size` bytes, at least 8, to the end of its file.
pub fn blank(size: u32) -> [u8; BLANK_SIZE] {
    let mut bytes = [0; BLANK_SIZE];
    bytes[..4].copy_from_slice(&size.to_be_bytes());
    bytes[4..].copy_from_slice(&MAGIC_BLANK.to_be_bytes());
    bytes
}

fn put_host(out: &mut Vec<u8>, host: SocketAddr) {
    match host.ip() {
        IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
        IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
    }
    put_i32(out, i32::from(host.port()));
}

const _: () = assert!(HOST_V4_SIZE == 4 + size_of::<i32>());

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn put_i32(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn put_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&value.to_be_bytes());
}
