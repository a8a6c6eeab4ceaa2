//! Frames between a master and its slaves, on the HA port. All numbers are big-endian.
//!
//! [`plain`] is what RocketMQ speaks outside controller mode (DefaultHA), [`switch`] what it speaks in it
//! (AutoSwitchHA), with epochs and the confirmed position. metaq's brokers speak the second among themselves.

pub mod plain;
pub mod switch;

/// What a decoder found at the start of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded<T> {
    /// A frame's head and its length; what follows is its body, if it has one.
    Frame(T, usize),
    /// More bytes have to come first.
    Incomplete,
}

/// Why bytes are no frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The first number of a frame says what it is, or in what state the peer is.
    #[error("a frame begins with {found}, expected is {expected}")]
    State {
        /// What stands there.
        found: i32,
        /// What has to.
        expected: i32,
    },
    /// A number that cannot be.
    #[error("a frame gives {found} as its {field}")]
    Field {
        /// Which number.
        field: &'static str,
        /// What stands there.
        found: i64,
    },
}

/// The bytes at `at`, if they have come.
fn bytes<const N: usize>(from: &[u8], at: usize) -> Option<[u8; N]> {
    from.get(at..)?.first_chunk().copied()
}

fn int(from: &[u8], at: usize) -> i32 {
    bytes(from, at).map_or(0, i32::from_be_bytes)
}

fn long(from: &[u8], at: usize) -> i64 {
    bytes(from, at).map_or(0, i64::from_be_bytes)
}

/// A number that is a position or a length: never negative.
fn unsigned(field: &'static str, found: i64) -> Result<u64, FrameError> {
    u64::try_from(found).map_err(|_| FrameError::Field { field, found })
}
