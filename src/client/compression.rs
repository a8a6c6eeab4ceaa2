//! Bodies that travel compressed.

use std::io::{self, Read, Write};

use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder as Lz4Decoder, FrameEncoder as Lz4Encoder, FrameInfo};
use ruzstd::decoding::{FrameDecoder as ZstdDecoder, StreamingDecoder};
use ruzstd::encoding::{compress_to_vec, CompressionLevel};

use crate::proto::message::sys_flag::{self, Compression};

/// The longest body that is unpacked: a small one may claim to become anything. A Zstandard frame that wants its reader to
/// look back further is not unpacked either.
const UNPACKED_MAX: u64 = 64 * 1024 * 1024;
/// Java's level for zlib.
const LEVEL: u32 = 5;

/// How a producer compresses bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompressionType {
    /// A zlib stream, which every RocketMQ client reads.
    #[default]
    Zlib,
    /// An LZ4 frame: several times faster, and larger. Java clients from 4.9.4 on read it.
    Lz4,
    /// A Zstandard frame. Java clients from 4.9.4 on read it. It is made at the level of `zstd -1`.
    Zstd,
}

impl CompressionType {
    /// The bits of a sysFlag: compressed, and the type as current clients write it.
    fn flags(self) -> i32 {
        let number = match self {
            CompressionType::Lz4 => 1,
            CompressionType::Zstd => 2,
            CompressionType::Zlib => 3,
        };
        sys_flag::COMPRESSED | number << 8
    }

    /// What a body came compressed with; zlib if it came as it is.
    pub(super) fn of(flags: i32) -> CompressionType {
        match Compression::of(flags) {
            Compression::Lz4 => CompressionType::Lz4,
            Compression::Zstd => CompressionType::Zstd,
            Compression::None | Compression::Zlib | Compression::Unknown(_) => CompressionType::Zlib,
        }
    }
}

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
    /// A type that nobody sends.
    #[error("the body is compressed in an unknown way, type {0}")]
    UnknownType(u8),
}

/// The packed form of a body and its sysFlag bits; `None` if packing makes it no smaller.
pub(super) fn pack(kind: CompressionType, body: &[u8]) -> Option<(Vec<u8>, i32)> {
    let room = Vec::with_capacity(body.len() / 2);
    let packed = match kind {
        CompressionType::Zlib => {
            let mut encoder = ZlibEncoder::new(room, flate2::Compression::new(LEVEL));
            encoder.write_all(body).ok()?;
            encoder.finish().ok()?
        }
        CompressionType::Lz4 => {
            // Java's reader refuses blocks that refer to the ones before them.
            let info = FrameInfo::new().block_mode(BlockMode::Independent).block_size(BlockSize::Max4MB);
            let mut encoder = Lz4Encoder::with_frame_info(info, room);
            encoder.write_all(body).ok()?;
            encoder.finish().ok()?
        }
        CompressionType::Zstd => compress_to_vec(body, CompressionLevel::Fastest),
    };
    (packed.len() < body.len()).then(|| (packed, kind.flags()))
}

/// The body as its producer made it.
pub(super) fn unpack(flags: i32, body: &[u8]) -> Result<Vec<u8>, UnpackError> {
    unpack_within(flags, body, UNPACKED_MAX)
}

fn unpack_within(flags: i32, body: &[u8], max: u64) -> Result<Vec<u8>, UnpackError> {
    match Compression::of(flags) {
        Compression::None => Ok(body.to_vec()),
        Compression::Zlib => read_all(ZlibDecoder::new(body), max),
        Compression::Lz4 => read_all(Lz4Decoder::new(body.chain(CutShort)), max),
        Compression::Zstd => {
            let mut decoder = ZstdDecoder::new();
            decoder.set_max_window_size(max);
            let damaged = |error: ruzstd::decoding::errors::FrameDecoderError| UnpackError::Damaged(error.to_string());
            read_all(StreamingDecoder::new_with_decoder(body, decoder).map_err(damaged)?, max)
        }
        Compression::Unknown(number) => Err(UnpackError::UnknownType(number)),
    }
}

fn read_all(decoder: impl Read, max: u64) -> Result<Vec<u8>, UnpackError> {
    let mut unpacked = Vec::new();
    let read = decoder.take(max + 1).read_to_end(&mut unpacked);
    read.map_err(|error| UnpackError::Damaged(error.to_string()))?;
    if unpacked.len() as u64 > max {
        return Err(UnpackError::TooLong);
    }
    Ok(unpacked)
}

/// What stands behind the bytes of an LZ4 frame. Their decoder takes an end of its input between two blocks for the end of
/// the frame, so half a body would pass for a whole one.
struct CutShort;

impl Read for CutShort {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("it ends before its last block"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [CompressionType; 3] = [CompressionType::Zlib, CompressionType::Lz4, CompressionType::Zstd];

    #[test]
    fn bodies_come_out_as_they_went_in() {
        let body = b"metaq ".repeat(1000);
        for (kind, expected) in ALL.into_iter().zip([0x301, 0x101, 0x201]) {
            let (packed, flags) = pack(kind, &body).unwrap();
            assert!(packed.len() < body.len() / 10, "{kind:?}: {}", packed.len());
            assert_eq!((flags, CompressionType::of(flags)), (expected, kind));
            assert_eq!(unpack(flags, &packed).as_ref(), Ok(&body), "{kind:?}");
            assert_eq!(pack(kind, b"x"), None, "no smaller");
        }
        let (packed, _) = pack(CompressionType::Zlib, &body).unwrap();
        assert_eq!(unpack(sys_flag::COMPRESSED, &packed), Ok(body), "as old clients mark it");
        assert_eq!(unpack(0, b"plain"), Ok(b"plain".to_vec()));
    }

    #[test]
    fn what_cannot_be_unpacked_is_an_error() {
        assert_eq!(unpack(0x701, b""), Err(UnpackError::UnknownType(7)));
        let body: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8 ^ (at >> 12) as u8).collect();
        for kind in ALL {
            assert!(matches!(unpack(kind.flags(), b"something else"), Err(UnpackError::Damaged(_))), "{kind:?}");
            let (packed, flags) = pack(kind, &body).unwrap();
            for len in (0..packed.len()).step_by(7).chain([packed.len() - 4, packed.len() - 1]) {
                let cut = unpack(flags, &packed[..len]);
                assert!(matches!(cut, Err(UnpackError::Damaged(_))), "{kind:?} cut to {len} of {}", packed.len());
            }
        }
    }

    #[test]
    fn a_body_that_becomes_too_long_is_refused() {
        let max = 1 << 20;
        for kind in ALL {
            let (longest, flags) = pack(kind, &vec![0; max]).unwrap();
            assert_eq!(unpack_within(flags, &longest, max as u64).map(|body| body.len()), Ok(max), "{kind:?}");
            let (bomb, flags) = pack(kind, &vec![0; max + 1]).unwrap();
            assert_eq!(unpack_within(flags, &bomb, max as u64), Err(UnpackError::TooLong), "{kind:?}");
        }
    }
}
