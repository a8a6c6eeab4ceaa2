//! Our own state as bytes: what has no format of RocketMQ's.
//!
//! ```text
//! magic 8 | version 4 | length 4 | content | CRC-32 of everything before 4        big-endian
//! ```
//! The content is bincode with integers of fixed size, so an entry's size does not depend on its values. bincode's 2.0 line
//! is the last one that works (3.0 is an empty crate) and gets no more changes, which is what a file format wants; it
//! stands behind these two functions, so that another library or version is a change in one place.

use serde::de::DeserializeOwned;
use serde::Serialize;

/// The largest content that is read, in bytes: a table of a million queues with long names.
pub const CONTENT_LEN_MAX: usize = 256 << 20;

const HEAD_LEN: usize = 16;
const CRC_LEN: usize = 4;

/// What a snapshot holds. A change of the content's layout raises `version`; old versions count as absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Tells snapshots apart.
    pub magic: [u8; 8],
    /// Of the content's layout.
    pub version: u32,
}

/// Why bytes are no snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// Bytes are missing or too many.
    #[error("it has another length than it says")]
    Length,
    /// It holds something else, or another version of it.
    #[error("it is of another kind or version")]
    Kind,
    /// A bit has changed.
    #[error("its checksum is wrong")]
    Checksum,
    /// The content cannot be read although it is what was written: a bug of the writer.
    #[error("its content cannot be read")]
    Content,
}

/// The snapshot of a value.
///
/// # Errors
/// [`SnapshotError::Content`] if the value does not go into [`CONTENT_LEN_MAX`] bytes.
pub fn encode<T: Serialize>(kind: Kind, value: &T) -> Result<Vec<u8>, SnapshotError> {
    let content = bincode::serde::encode_to_vec(value, config()).map_err(|_| SnapshotError::Content)?;
    if content.len() > CONTENT_LEN_MAX {
        return Err(SnapshotError::Content);
    }
    let mut out = Vec::with_capacity(HEAD_LEN + content.len() + CRC_LEN);
    out.extend_from_slice(&kind.magic);
    out.extend_from_slice(&kind.version.to_be_bytes());
    out.extend_from_slice(&(content.len() as u32).to_be_bytes());
    out.extend_from_slice(&content);
    let checksum = crc32fast::hash(&out);
    out.extend_from_slice(&checksum.to_be_bytes());
    Ok(out)
}

/// The value of a snapshot.
///
/// # Errors
/// Any [`SnapshotError`]; damaged bytes are never a value.
pub fn decode<T: DeserializeOwned>(kind: Kind, bytes: &[u8]) -> Result<T, SnapshotError> {
    let (covered, checksum) = bytes.split_last_chunk::<CRC_LEN>().ok_or(SnapshotError::Length)?;
    let (magic, rest) = covered.split_first_chunk::<8>().ok_or(SnapshotError::Length)?;
    let (version, rest) = rest.split_first_chunk::<4>().ok_or(SnapshotError::Length)?;
    let (length, content) = rest.split_first_chunk::<4>().ok_or(SnapshotError::Length)?;
    if *magic != kind.magic || *version != kind.version.to_be_bytes() {
        return Err(SnapshotError::Kind);
    }
    if content.len() != u32::from_be_bytes(*length) as usize {
        return Err(SnapshotError::Length);
    }
    if crc32fast::hash(covered).to_be_bytes() != *checksum {
        return Err(SnapshotError::Checksum);
    }
    match bincode::serde::decode_from_slice(content, config()) {
        Ok((value, used)) if used == content.len() => Ok(value),
        _ => Err(SnapshotError::Content),
    }
}

/// Bytes of the snapshot that begins here, by its own words; `None` if there are too few to tell. For files that hold one
/// after the other.
pub fn length(bytes: &[u8]) -> Option<usize> {
    let content = bytes.get(HEAD_LEN - 4..HEAD_LEN)?.first_chunk().map(|length| u32::from_be_bytes(*length))? as usize;
    (content <= CONTENT_LEN_MAX).then_some(HEAD_LEN + content + CRC_LEN)
}

fn config() -> impl bincode::config::Config {
    bincode::config::standard().with_big_endian().with_fixed_int_encoding().with_limit::<CONTENT_LEN_MAX>()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KIND: Kind = Kind { magic: *b"metaqTST", version: 1 };

    #[test]
    fn a_damaged_or_foreign_snapshot_is_refused() {
        let bytes = encode(KIND, &vec![("topic".to_owned(), 7_u64)]).unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(decode::<Vec<(String, u64)>>(KIND, &damaged).is_err(), "byte {at}");
            assert!(decode::<Vec<(String, u64)>>(KIND, &bytes[..at]).is_err(), "cut at {at}");
        }
        let newer = Kind { version: 2, ..KIND };
        assert_eq!(decode::<Vec<(String, u64)>>(newer, &bytes), Err(SnapshotError::Kind));
        assert_eq!(decode::<u8>(KIND, &bytes), Err(SnapshotError::Content));
    }

    proptest! {
        #[test]
        fn values_come_back(value: Vec<(String, u32, i64)>) {
            prop_assert_eq!(decode::<Vec<(String, u32, i64)>>(KIND, &encode(KIND, &value).unwrap()), Ok(value));
        }

        #[test]
        fn any_bytes_are_a_value_or_an_error(bytes: Vec<u8>) {
            let _ = decode::<Vec<(String, u32, i64)>>(KIND, &bytes);
        }
    }
}
