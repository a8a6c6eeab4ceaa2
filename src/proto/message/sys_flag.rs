//! The bits of a message's sysFlag. The sender sets compression and transaction bits, the broker the two address bits.

/// The body is compressed.
pub const COMPRESSED: i32 = 0x1;
/// The topic filters by several tags; unused today.
pub const MULTI_TAGS: i32 = 0x2;
/// Mask of the two transaction bits.
pub const TRANSACTION_MASK: i32 = 0xC;
/// Transaction bits of an ordinary message.
pub const TRANSACTION_NONE: i32 = 0x0;
/// Transaction bits of a half message as its producer sends it.
pub const TRANSACTION_PREPARED: i32 = 0x4;
/// Transaction bits of a committed message.
pub const TRANSACTION_COMMIT: i32 = 0x8;
/// Transaction bits of a rollback record.
pub const TRANSACTION_ROLLBACK: i32 = 0xC;
/// The born host is an IPv6 address. Set by whoever encodes the record, whatever the client sent.
pub const BORN_HOST_V6: i32 = 0x10;
/// The store host is an IPv6 address. Set by whoever encodes the record, whatever the client sent.
pub const STORE_HOST_V6: i32 = 0x20;
/// The consumer has to split an inner batch.
pub const NEED_UNWRAP: i32 = 0x40;
/// The record is an inner batch.
pub const INNER_BATCH: i32 = 0x80;
/// Mask of the compression type; see [`Compression::of`].
pub const COMPRESSION_MASK: i32 = 0x700;

/// How a body was compressed by its producer. The broker stores and serves the bytes as they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// As sent.
    None,
    /// A zlib stream (RFC 1950), type 0 (old clients, Go, C++) or 3.
    Zlib,
    /// LZ4 frame format, type 1.
    Lz4,
    /// A Zstandard frame, type 2.
    Zstd,
    /// A type no client is known to send, 4 to 7.
    Unknown(u8),
}

impl Compression {
    /// The compression that a sysFlag tells of.
    pub fn of(sys_flag: i32) -> Compression {
        if sys_flag & COMPRESSED == 0 {
            return Compression::None;
        }
        match (sys_flag & COMPRESSION_MASK) >> 8 {
            0 | 3 => Compression::Zlib,
            1 => Compression::Lz4,
            2 => Compression::Zstd,
            other => Compression::Unknown(other as u8),
        }
    }
}

/// The transaction bits of a sysFlag: one of the four `TRANSACTION_` constants.
pub fn transaction_type(sys_flag: i32) -> i32 {
    sys_flag & TRANSACTION_MASK
}

/// `sys_flag` with its transaction bits replaced.
pub fn with_transaction_type(sys_flag: i32, transaction_type: i32) -> i32 {
    (sys_flag & !TRANSACTION_MASK) | (transaction_type & TRANSACTION_MASK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compression_types() {
        assert_eq!(Compression::of(0x300), Compression::None, "a type without the bit says nothing");
        assert_eq!(Compression::of(0x001), Compression::Zlib);
        assert_eq!(Compression::of(0x101), Compression::Lz4);
        assert_eq!(Compression::of(0x201), Compression::Zstd);
        assert_eq!(Compression::of(0x301), Compression::Zlib);
        assert_eq!(Compression::of(0x701), Compression::Unknown(7));
    }

    #[test]
    fn transaction_bits_are_replaced() {
        assert_eq!(with_transaction_type(0x304 | COMPRESSED, TRANSACTION_COMMIT), 0x309);
        assert_eq!(transaction_type(0x30D), TRANSACTION_ROLLBACK);
    }
}
