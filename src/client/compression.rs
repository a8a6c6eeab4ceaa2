//! Bodies that travel compressed.

use std::io::{Read, Write};

use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use crate::proto::message::sys_flag::{self, Compression};

/// The longest body that is unpacked: a small one may claim to become anything.
const UNPACKED_MAX: u64 = 64 * 1024 * 1024;
/// Java's level.
const LEVEL: u32 = 5;
/// The type bits of zlib as current clients write them; older ones write none and read these too.
const ZLIB_TYPE: i32 = 3 << 8;

/// Why a body cannot be unpacked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnpackError {
    /// The bytes are not what their sender says.
    #[error("the compressed body is damaged: {0}")]
    Damaged(String),
    /// It would become longer than 64 MiB.
    #[error("the compressed body becomes longer than {UNPACKED_MAX} bytes")]
    TooLong,
    /// LZ4, Zstandard, or a type that nobody sends.
    #[error("bodies compressed as {0:?} cannot be read")]
    Unsupported(Compression),
}

/// The packed form of a body and its sysFlag bits; `None` if packing makes it no smaller.
pub(super) fn pack(body: &[u8]) -> Option<(Vec<u8>, i32)> {
    let mut encoder = ZlibEncoder::new(Vec::with_capacity(body.len() / 2), flate2::Compression::new(LEVEL));
    encoder.write_all(body).ok()?;
    let packed = encoder.finish().ok()?;
    (packed.len() < body.len()).then_some((packed, sys_flag::COMPRESSED | ZLIB_TYPE))
}

/// The body as its producer made it.
pub(super) fn unpack(flags: i32, body: &[u8]) -> Result<Vec<u8>, UnpackError> {
    match Compression::of(flags) {
        Compression::None => Ok(body.to_vec()),
        Compression::Zlib => {
            let mut unpacked = Vec::new();
            let read = ZlibDecoder::new(body).take(UNPACKED_MAX + 1).read_to_end(&mut unpacked);
            read.map_err(|error| UnpackError::Damaged(error.to_string()))?;
            if unpacked.len() as u64 > UNPACKED_MAX {
                return Err(UnpackError::TooLong);
            }
            Ok(unpacked)
        }
        other => Err(UnpackError::Unsupported(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_come_out_as_they_went_in() {
        let body = b"metaq ".repeat(1000);
        let (packed, flags) = pack(&body).unwrap();
        assert!(packed.len() < body.len() / 10);
        assert_eq!(flags, 0x301);
        assert_eq!(unpack(flags, &packed), Ok(body.clone()));
        assert_eq!(unpack(sys_flag::COMPRESSED, &packed), Ok(body), "as old clients mark it");
        assert_eq!(unpack(0, b"plain"), Ok(b"plain".to_vec()));
        assert_eq!(pack(b"x"), None, "no smaller");
    }

    #[test]
    fn what_cannot_be_unpacked_is_an_error() {
        assert!(matches!(unpack(0x301, b"no zlib"), Err(UnpackError::Damaged(_))));
        let (bomb, flags) = pack(&vec![0; UNPACKED_MAX as usize + 1]).unwrap();
        assert_eq!(unpack(flags, &bomb), Err(UnpackError::TooLong));
        assert_eq!(unpack(0x701, b""), Err(UnpackError::Unsupported(Compression::Unknown(7))));
    }
}
