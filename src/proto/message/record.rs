//! Reading a stored record: the unit of the commit log, of pull answers and of replication.
//!
//! ```text
//!   0 totalSize i32        whole record, this field included
//!   4 magic i32            V1, V2 or BLANK
//!   8 bodyCRC i32          CRC-32 of the stored body & 0x7FFFFFFF
//!  12 queueId i32
//!  16 flag i32             the application's own
//!  20 queueOffset i64
//!  28 physicalOffset i64   of byte 0 of this record
//!  36 sysFlag i32
//!  40 bornTimestamp i64    ms, client clock
//!  48 bornHost             4 or 16 bytes of address, i32 port
//!     storeTimestamp i64   ms, broker clock
//!     storeHost            4 or 16 bytes of address, i32 port
//!     reconsumeTimes i32
//!     preparedTransactionOffset i64
//!     bodyLength i32, body
//!     topicLength          V1: i8, V2: i16, both signed; topic
//!     propertiesLength i16, properties
//! ```
//!
//! All big-endian, no alignment: the next record starts at once.

use super::sys_flag;
use super::view::i32_at;
pub use super::view::RecordView;

/// Magic of a record with a one-byte topic length: 0xAABBCCDD ^ (1880681586 + 8).
pub const MAGIC_V1: u32 = 0xDAA3_20A7;
/// Magic of a record with a two-byte topic length.
pub const MAGIC_V2: u32 = 0xDAA3_20AB;
/// Magic of the filler at the end of a commit-log file: 0xBBCCDDEE ^ (1880681586 + 8).
pub const MAGIC_BLANK: u32 = 0xCBD4_3194;

/// Position of totalSize.
pub const TOTAL_SIZE_AT: usize = 0;
/// Position of the magic.
pub const MAGIC_AT: usize = 4;
/// Position of bodyCRC.
pub const BODY_CRC_AT: usize = 8;
/// Position of queueId.
pub const QUEUE_ID_AT: usize = 12;
/// Position of flag.
pub const FLAG_AT: usize = 16;
/// Position of queueOffset.
pub const QUEUE_OFFSET_AT: usize = 20;
/// Position of physicalOffset.
pub const PHYSICAL_OFFSET_AT: usize = 28;
/// Position of sysFlag.
pub const SYS_FLAG_AT: usize = 36;
/// Position of bornTimestamp.
pub const BORN_TIMESTAMP_AT: usize = 40;
/// Position of bornHost.
pub const BORN_HOST_AT: usize = 48;

/// Bytes of a host: address and i32 port.
pub const HOST_V4_SIZE: usize = 8;
/// Bytes of an IPv6 host: address and i32 port.
pub const HOST_V6_SIZE: usize = 20;

/// Bytes of a V1 record with IPv4 hosts apart from body, topic and properties.
pub const OVERHEAD_V1: usize = 91;
/// Bytes of the smallest filler: size and magic.
pub const BLANK_SIZE: usize = 8;

const _: () = assert!(BORN_HOST_AT == BORN_TIMESTAMP_AT + size_of::<i64>());
const _: () = assert!(OVERHEAD_V1 == BORN_HOST_AT + HOST_V4_SIZE + 8 + HOST_V4_SIZE + 4 + 8 + 4 + 1 + 2);

/// The longest topic a V1 record can hold, in bytes: its length is a signed byte.
pub const TOPIC_V1_MAX: usize = 127;
/// The longest properties text, in bytes: its length is a signed 16-bit number.
pub const PROPERTIES_MAX: usize = 32_767;

/// The CRC stored with a body: IEEE CRC-32 without its highest bit, so 0 for an empty body.
pub fn body_crc(body: &[u8]) -> u32 {
    crc32fast::hash(body) & 0x7FFF_FFFF
}

/// Whether [`parse`] recomputes the body's CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyCrc {
    /// A body that differs from its CRC is an error. Zero is a CRC like any other.
    Verify,
    /// The field is not looked at.
    Trust,
}

/// What lies at a position of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A message.
    Record(RecordView<'a>),
    /// The filler behind the last record of a file: go on at the next file's start.
    Blank {
        /// Bytes from the filler's start to the end of the file.
        size: u32,
    },
}

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// Not even a size and a magic.
    #[error("{have} bytes are no record")]
    TooShort {
        /// Bytes there are.
        have: usize,
    },
    /// The record says it is longer than what is there.
    #[error("the record says it has {total_size} bytes, {have} are there")]
    Truncated {
        /// The record's totalSize.
        total_size: i32,
        /// Bytes there are.
        have: usize,
    },
    /// Neither a record nor a filler; 0 where nothing was written yet.
    #[error("0x{magic:08x} is not a record's magic")]
    Magic {
        /// What stands in the magic's place.
        magic: u32,
    },
    /// A length inside the record is negative or reaches beyond the bytes.
    #[error("the length of its {field} is out of bounds")]
    Length {
        /// The field with the bad length.
        field: &'static str,
    },
    /// The body is not what was written.
    #[error("the body's crc is {computed}, the record says {stored}")]
    BodyCrc {
        /// The record's bodyCRC.
        stored: u32,
        /// The CRC of the body that is there.
        computed: u32,
    },
    /// The fields add up to another size than totalSize says.
    #[error("its fields make {computed} bytes, the record says {total_size}")]
    TotalSize {
        /// The record's totalSize.
        total_size: i32,
        /// Bytes of the fields.
        computed: usize,
    },
    /// The record CRC among the properties is missing or wrong.
    #[error("the record's own crc property is missing or wrong")]
    PropertyCrc,
}

impl RecordError {
    /// Nothing was ever written here: the zeroes of a preallocated file.
    pub fn is_unwritten(self) -> bool {
        self == RecordError::Magic { magic: 0 }
    }
}

/// Reads the record at the start of `bytes`, which may go on behind it.
///
/// The checks and their order are those of the reference broker's recovery, so the two agree on where a damaged log
/// ends. Whether physicalOffset is the place where the bytes were found is the caller's to compare.
pub fn parse(bytes: &[u8], crc: BodyCrc) -> Result<Parsed<'_>, RecordError> {
    if bytes.len() < BLANK_SIZE {
        return Err(RecordError::TooShort { have: bytes.len() });
    }
    let total_size = i32_at(bytes, TOTAL_SIZE_AT);
    if total_size > 0 && total_size as usize > bytes.len() {
        return Err(RecordError::Truncated { total_size, have: bytes.len() });
    }
    let magic = i32_at(bytes, MAGIC_AT) as u32;
    match magic {
        MAGIC_V1 | MAGIC_V2 => {}
        MAGIC_BLANK if total_size >= BLANK_SIZE as i32 => return Ok(Parsed::Blank { size: total_size as u32 }),
        MAGIC_BLANK => return Err(RecordError::Length { field: "filler" }),
        _ => return Err(RecordError::Magic { magic }),
    }
    let record = bytes.get(..total_size.max(0) as usize).unwrap_or_default();
    fields(record, total_size, magic, crc).map(Parsed::Record)
}

/// Takes a record of exactly these bytes apart.
fn fields(bytes: &[u8], total_size: i32, magic: u32, crc: BodyCrc) -> Result<RecordView<'_>, RecordError> {
    if bytes.len() < SYS_FLAG_AT + 4 {
        return Err(RecordError::Length { field: "head" });
    }
    let (born, store) = host_sizes(i32_at(bytes, SYS_FLAG_AT));
    let mut rest = Rest { bytes, at: BORN_HOST_AT + born + 8 + store + 4 + 8 };
    let length = rest.length(4, "body")?;
    let body = rest.take(length, "body")?;
    if crc == BodyCrc::Verify && !body.is_empty() {
        let (stored, computed) = (i32_at(bytes, BODY_CRC_AT) as u32, body_crc(body));
        if stored != computed {
            return Err(RecordError::BodyCrc { stored, computed });
        }
    }
    let length = rest.length(if magic == MAGIC_V1 { 1 } else { 2 }, "topic")?;
    let topic = rest.take(length, "topic")?;
    let length = rest.length(2, "properties")?;
    let properties = rest.take(length, "properties")?;
    if rest.at != bytes.len() {
        return Err(RecordError::TotalSize { total_size, computed: rest.at });
    }
    Ok(RecordView { bytes, body, topic, properties })
}

/// All records in `bytes`, up to its end or the first error, which is yielded last.
pub fn iterate(bytes: &[u8], crc: BodyCrc) -> Records<'_> {
    Records { rest: bytes, crc }
}

/// See [`iterate`]. A filler ends the sequence: it is never sent to clients.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    crc: BodyCrc,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<RecordView<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let bytes = std::mem::take(&mut self.rest);
        match parse(bytes, self.crc) {
            Ok(Parsed::Record(view)) => {
                self.rest = &bytes[view.bytes().len()..];
                Some(Ok(view))
            }
            Ok(Parsed::Blank { .. }) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

/// Position of storeTimestamp in a record with this sysFlag.
pub fn store_timestamp_at(sys_flag: i32) -> usize {
    BORN_HOST_AT + host_sizes(sys_flag).0
}

/// Bytes of born host and store host in a record with this sysFlag.
pub(super) fn host_sizes(sys_flag: i32) -> (usize, usize) {
    let size = |bit| if sys_flag & bit == 0 { HOST_V4_SIZE } else { HOST_V6_SIZE };
    (size(sys_flag::BORN_HOST_V6), size(sys_flag::STORE_HOST_V6))
}

/// Reads on behind a position, every length checked.
struct Rest<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize, field: &'static str) -> Result<&'a [u8], RecordError> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or(RecordError::Length { field })?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    /// A signed length of `width` bytes: 1, 2 or 4.
    fn length(&mut self, width: usize, field: &'static str) -> Result<usize, RecordError> {
        let length = match *self.take(width, field)? {
            [a] => i32::from(a as i8),
            [a, b] => i32::from(i16::from_be_bytes([a, b])),
            [a, b, c, d] => i32::from_be_bytes([a, b, c, d]),
            _ => -1,
        };
        usize::try_from(length).map_err(|_| RecordError::Length { field })
    }
}
