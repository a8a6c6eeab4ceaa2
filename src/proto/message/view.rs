//! A record where it lies: its fields by name.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::record::{
    body_crc, host_sizes, store_timestamp_at, RecordError, BODY_CRC_AT, BORN_HOST_AT, BORN_TIMESTAMP_AT, FLAG_AT,
    HOST_V4_SIZE, MAGIC_AT, PHYSICAL_OFFSET_AT, QUEUE_ID_AT, QUEUE_OFFSET_AT, SYS_FLAG_AT,
};
use crate::env::Millis;
use crate::proto::{PhysicalOffset, QueueOffset};

/// A valid record, borrowed from where it lies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RecordView<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) body: &'a [u8],
    pub(super) topic: &'a [u8],
    pub(super) properties: &'a [u8],
}

impl<'a> RecordView<'a> {
    /// The record as it is stored.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Bytes of the whole record.
    pub fn total_size(&self) -> u32 {
        self.bytes.len() as u32
    }

    /// [`super::record::MAGIC_V1`] or [`super::record::MAGIC_V2`].
    pub fn magic(&self) -> u32 {
        i32_at(self.bytes, MAGIC_AT) as u32
    }

    /// The stored CRC of the body.
    pub fn body_crc(&self) -> u32 {
        i32_at(self.bytes, BODY_CRC_AT) as u32
    }

    /// The queue within the topic.
    pub fn queue_id(&self) -> i32 {
        i32_at(self.bytes, QUEUE_ID_AT)
    }

    /// The application's own flag.
    pub fn flag(&self) -> i32 {
        i32_at(self.bytes, FLAG_AT)
    }

    /// The record's number in its queue.
    pub fn queue_offset(&self) -> QueueOffset {
        QueueOffset(i64_at(self.bytes, QUEUE_OFFSET_AT) as u64)
    }

    /// The place in the log the record was written for.
    pub fn physical_offset(&self) -> PhysicalOffset {
        PhysicalOffset(i64_at(self.bytes, PHYSICAL_OFFSET_AT) as u64)
    }

    /// Compression, transaction and address bits: [`super::sys_flag`].
    pub fn sys_flag(&self) -> i32 {
        i32_at(self.bytes, SYS_FLAG_AT)
    }

    /// When the producer made the message, by the producer's clock.
    pub fn born_timestamp(&self) -> Millis {
        Millis(i64_at(self.bytes, BORN_TIMESTAMP_AT))
    }

    /// Where the message came from.
    pub fn born_host(&self) -> SocketAddr {
        host_at(self.bytes, BORN_HOST_AT, self.born_size())
    }

    /// When the broker took the message, by the broker's clock.
    pub fn store_timestamp(&self) -> Millis {
        Millis(i64_at(self.bytes, self.store_timestamp_at()))
    }

    /// The broker that took the message; part of the message id.
    pub fn store_host(&self) -> SocketAddr {
        host_at(self.bytes, self.store_timestamp_at() + 8, self.store_size())
    }

    /// How often consumers gave the message back.
    pub fn reconsume_times(&self) -> i32 {
        i32_at(self.bytes, self.after_store_host())
    }

    /// For a committed message the place of its half message, else 0.
    pub fn prepared_transaction_offset(&self) -> i64 {
        i64_at(self.bytes, self.after_store_host() + 4)
    }

    /// The body as the producer sent it, perhaps compressed.
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// The topic. Bytes that are not UTF-8 read as U+FFFD.
    pub fn topic(&self) -> Cow<'a, str> {
        text(self.topic)
    }

    /// The topic's bytes.
    pub fn topic_bytes(&self) -> &'a [u8] {
        self.topic
    }

    /// The properties, for [`super::properties`]. Bytes that are not UTF-8 read as U+FFFD.
    pub fn properties(&self) -> Cow<'a, str> {
        text(self.properties)
    }

    /// The properties' bytes.
    pub fn properties_bytes(&self) -> &'a [u8] {
        self.properties
    }

    /// Checks the CRC over the whole record that brokers with `enabledAppendPropCRC` keep as the last property: ten
    /// decimal digits, the least significant first. metaq reads it where asked to and never writes it.
    pub fn check_property_crc(&self) -> Result<(), RecordError> {
        const TRAILER: usize = b"__CRC32#".len() + 1 + 10 + 1;
        let covered = self.bytes.len().saturating_sub(TRAILER);
        let digits = self
            .properties
            .len()
            .checked_sub(TRAILER)
            .and_then(|at| self.properties[at..].strip_prefix(b"__CRC32#\x01")?.strip_suffix(b"\x02"));
        let stored = digits
            .filter(|d| d.iter().all(u8::is_ascii_digit))
            .map(|d| d.iter().rev().fold(0u64, |sum, digit| sum * 10 + u64::from(digit - b'0')));
        match stored {
            Some(crc) if crc == u64::from(body_crc(&self.bytes[..covered])) => Ok(()),
            _ => Err(RecordError::PropertyCrc),
        }
    }

    fn born_size(&self) -> usize {
        host_sizes(self.sys_flag()).0
    }

    fn store_size(&self) -> usize {
        host_sizes(self.sys_flag()).1
    }

    fn store_timestamp_at(&self) -> usize {
        store_timestamp_at(self.sys_flag())
    }

    fn after_store_host(&self) -> usize {
        self.store_timestamp_at() + 8 + self.store_size()
    }
}

impl std::fmt::Debug for RecordView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordView")
            .field("total_size", &self.total_size())
            .field("topic", &self.topic())
            .field("queue_id", &self.queue_id())
            .field("queue_offset", &self.queue_offset())
            .field("physical_offset", &self.physical_offset())
            .field("body_len", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// The caller has checked that the bytes are there.
pub(super) fn i32_at(bytes: &[u8], at: usize) -> i32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    i32::from_be_bytes(word)
}

/// The caller has checked that the bytes are there.
pub(super) fn i64_at(bytes: &[u8], at: usize) -> i64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    i64::from_be_bytes(word)
}

/// A host of `size` bytes. The port is an i32 on disk, of which a real one needs 16 bits.
fn host_at(bytes: &[u8], at: usize, size: usize) -> SocketAddr {
    let address: IpAddr = if size == HOST_V4_SIZE {
        let mut octets = [0; 4];
        octets.copy_from_slice(&bytes[at..at + 4]);
        Ipv4Addr::from(octets).into()
    } else {
        let mut octets = [0; 16];
        octets.copy_from_slice(&bytes[at..at + 16]);
        Ipv6Addr::from(octets).into()
    };
    SocketAddr::new(address, i32_at(bytes, at + size - 4) as u16)
}

/// Bytes as text. Nearly all are, and to find that out is quicker than to look for those that are not.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}
