//! DefaultHA.
//!
//! ```text
//! slave to master   | slave's end 8 |
//! master to slave   | position 8 | size 4 | bytes of the log |     size 0: a heartbeat
//! ```

use super::{bytes, int, long, unsigned, Decoded, FrameError};
use crate::proto::PhysicalOffset;

/// Length of a slave's report.
pub const REPORT_SIZE: usize = 8;
/// Length of what stands before bytes of the log.
pub const DATA_HEADER_SIZE: usize = 12;

const _: () = assert!(REPORT_SIZE == size_of::<i64>());
const _: () = assert!(DATA_HEADER_SIZE == size_of::<i64>() + size_of::<i32>());

/// Stands before bytes of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// Where in the log they belong.
    pub at: PhysicalOffset,
    /// How many they are.
    pub size: u32,
}

/// A slave's report: up to where it has the log.
pub fn report(end: PhysicalOffset) -> [u8; REPORT_SIZE] {
    end.0.to_be_bytes()
}

/// Reads a slave's report.
///
/// # Errors
/// For a negative number.
pub fn decode_report(from: &[u8]) -> Result<Decoded<PhysicalOffset>, FrameError> {
    if bytes::<REPORT_SIZE>(from, 0).is_none() {
        return Ok(Decoded::Incomplete);
    }
    Ok(Decoded::Frame(PhysicalOffset(unsigned("position", long(from, 0))?), REPORT_SIZE))
}

impl DataHeader {
    /// The header.
    pub fn encode(&self) -> [u8; DATA_HEADER_SIZE] {
        let mut bytes = [0; DATA_HEADER_SIZE];
        bytes[..8].copy_from_slice(&self.at.0.to_be_bytes());
        bytes[8..].copy_from_slice(&self.size.to_be_bytes());
        bytes
    }

    /// Reads the header.
    ///
    /// # Errors
    /// For negative numbers.
    pub fn decode(from: &[u8]) -> Result<Decoded<DataHeader>, FrameError> {
        if bytes::<DATA_HEADER_SIZE>(from, 0).is_none() {
            return Ok(Decoded::Incomplete);
        }
        let at = PhysicalOffset(unsigned("position", long(from, 0))?);
        let size = unsigned("size", i64::from(int(from, 8)))? as u32;
        Ok(Decoded::Frame(DataHeader { at, size }, DATA_HEADER_SIZE))
    }
}
