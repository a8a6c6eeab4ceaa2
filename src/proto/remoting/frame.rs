//! Cutting a byte stream into frames.
//!
//! ```text
//! | length 4 | serialization 1 | header length 3 | header | body |   big-endian; length counts what follows it
//! ```

/// The longest frame either side may send, its four length bytes included.
pub const MAX_FRAME_LEN: usize = 16 * 1024 * 1024;

/// The length field.
pub(super) const LENGTH_LEN: usize = 4;

/// How the header of a frame is written. A peer may change it from frame to frame; an answer uses its request's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Serialization {
    /// `JSON`, type byte 0.
    #[default]
    Json,
    /// `ROCKETMQ`, the binary header, type byte 1.
    RocketMq,
}

impl Serialization {
    /// The type byte in front of the header length.
    pub fn byte(self) -> u8 {
        self as u8
    }

    fn from_byte(byte: u8) -> Result<Self, FrameError> {
        match byte {
            0 => Ok(Self::Json),
            1 => Ok(Self::RocketMq),
            other => Err(FrameError::UnknownSerialization(other)),
        }
    }
}

/// One frame, cut out of the bytes received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawFrame<'a> {
    /// How `header` is to be read.
    pub serialization: Serialization,
    /// The bytes for [`Head::parse`](super::Head::parse).
    pub header: &'a [u8],
    /// What follows the header. A frame without a body and one with an empty body are the same.
    pub body: &'a [u8],
    /// Bytes of the whole frame: where the next one begins.
    pub len: usize,
}

/// Bytes that are no frame. The stream has lost its step: nothing after them can be read either, and no answer can be
/// tied to a request, so the connection closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Less than the word that every frame begins with.
    #[error("a frame of {0} bytes cannot hold its header length")]
    TooShort(u32),
    /// Above [`MAX_FRAME_LEN`], or negative in the eyes of a Java peer.
    #[error("a frame of {0} bytes exceeds the limit of {max} bytes", max = MAX_FRAME_LEN - LENGTH_LEN)]
    TooLong(u32),
    /// Neither JSON nor ROCKETMQ.
    #[error("unknown serialize type {0}")]
    UnknownSerialization(u8),
    /// A header that does not fit its frame.
    #[error("a header of {header} bytes does not fit a frame of {frame} bytes")]
    HeaderTooLong {
        /// The announced header length.
        header: u32,
        /// The announced length of the frame.
        frame: u32,
    },
}

impl FrameError {
    /// What is wrong, without the numbers.
    pub fn kind(&self) -> &'static str {
        match self {
            FrameError::TooShort(_) => "a frame too short",
            FrameError::TooLong(_) => "a frame too long",
            FrameError::UnknownSerialization(_) => "an unknown serialize type",
            FrameError::HeaderTooLong { .. } => "a header longer than its frame",
        }
    }
}

/// Cuts the first frame off `bytes`; `None` if more bytes have to come first. Looks at nothing behind that frame, and
/// complains as soon as the bytes at hand show that no more of them would help.
pub fn next(bytes: &[u8]) -> Result<Option<RawFrame<'_>>, FrameError> {
    let Some((length, rest)) = bytes.split_first_chunk() else { return Ok(None) };
    let length = check_length(u32::from_be_bytes(*length))?;
    let Some((&[serialization, length_of_header @ ..], rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
    let serialization = Serialization::from_byte(serialization)?;
    let [high, middle, low] = length_of_header;
    let header = u32::from_be_bytes([0, high, middle, low]);
    if header > length - 4 {
        return Err(FrameError::HeaderTooLong { header, frame: length });
    }
    let Some(content) = rest.get(..length as usize - 4) else { return Ok(None) };
    let (header, body) = content.split_at(header as usize);
    Ok(Some(RawFrame { serialization, header, body, len: LENGTH_LEN + length as usize }))
}

/// How many bytes the first frame of `bytes` has in all, as soon as its length field is there: what a reader needs
/// to make room for.
pub fn announced_len(bytes: &[u8]) -> Result<Option<usize>, FrameError> {
    let Some(length) = bytes.first_chunk() else { return Ok(None) };
    Ok(Some(LENGTH_LEN + check_length(u32::from_be_bytes(*length))? as usize))
}

fn check_length(length: u32) -> Result<u32, FrameError> {
    match length {
        0..4 => Err(FrameError::TooShort(length)),
        _ if length as usize > MAX_FRAME_LEN - LENGTH_LEN => Err(FrameError::TooLong(length)),
        _ => Ok(length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_cut_one_after_the_other() {
        let bytes =
            [0, 0, 0, 7, 1, 0, 0, 2, 10, 11, 12, /* the next */ 0, 0, 0, 4, 0, 0, 0, 0, /* and */ 0, 0];
        let first = next(&bytes).unwrap().unwrap();
        assert_eq!(first, RawFrame { serialization: Serialization::RocketMq, header: &[10, 11], body: &[12], len: 11 });
        let second = next(&bytes[first.len..]).unwrap().unwrap();
        assert_eq!(second, RawFrame { serialization: Serialization::Json, header: &[], body: &[], len: 8 });
        assert_eq!(next(&bytes[first.len + second.len..]), Ok(None));
    }

    #[test]
    fn a_frame_that_is_not_all_there_waits() {
        let bytes = [0, 0, 0, 7, 1, 0, 0, 2, 10, 11, 12];
        for end in 0..bytes.len() {
            assert_eq!(next(&bytes[..end]), Ok(None), "{end} bytes");
        }
        assert_eq!(announced_len(&bytes[..3]), Ok(None));
        assert_eq!(announced_len(&bytes[..4]), Ok(Some(bytes.len())));
    }

    #[test]
    fn wir_1_short_unknown_and_impossible_frames_are_errors() {
        for length in 0..4u32 {
            assert_eq!(next(&length.to_be_bytes()), Err(FrameError::TooShort(length)));
        }
        for length in [16_777_213, i32::MAX as u32, -1i32 as u32, i32::MIN as u32] {
            assert_eq!(next(&length.to_be_bytes()), Err(FrameError::TooLong(length)));
            assert_eq!(announced_len(&length.to_be_bytes()), Err(FrameError::TooLong(length)));
        }
        assert_eq!(next(&16_777_212u32.to_be_bytes()), Ok(None), "the longest frame");
        for kind in 2..=255 {
            assert_eq!(next(&[0, 0, 0, 4, kind, 0, 0, 0]), Err(FrameError::UnknownSerialization(kind)));
        }
        assert_eq!(next(&[0, 0, 0, 8, 0, 0, 0, 5]), Err(FrameError::HeaderTooLong { header: 5, frame: 8 }));
        let negative = [0, 0, 0, 8, 1, 0xFF, 0xFF, 0xFF];
        assert_eq!(next(&negative), Err(FrameError::HeaderTooLong { header: 0xFF_FFFF, frame: 8 }));
    }
}
