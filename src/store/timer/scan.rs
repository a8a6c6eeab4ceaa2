//! Reading the commit log from a position to its end, a piece at a time.

use crate::proto::message::record::RecordError;
use crate::proto::message::{parse, BodyCrc, Parsed, RecordView};
use crate::proto::PhysicalOffset;
use crate::store::{Store, StoreError};

/// Bytes read at once.
const CHUNK: u64 = 1 << 20;

/// A walk over the records of the commit log.
pub struct LogScan {
    at: u64,
    to: u64,
    buffer: Vec<u8>,
}

impl LogScan {
    /// From the first record at or above `from` to where the log ends now. `from` has to be a record's beginning, unless
    /// that part of the log has expired.
    pub fn new(store: &Store, from: PhysicalOffset) -> LogScan {
        LogScan { at: from.0.max(store.min().0), to: store.confirmed().0, buffer: Vec::new() }
    }

    /// Shows the next records to `visit`; `false` once all were shown. Damaged parts are left out: what is not a record
    /// up to the end of its segment.
    ///
    /// # Errors
    /// If the log cannot be read; the next call tries again.
    pub fn step(&mut self, store: &Store, visit: &mut dyn FnMut(&RecordView<'_>)) -> Result<bool, StoreError> {
        self.at = self.at.max(store.min().0);
        if self.at >= self.to {
            return Ok(false);
        }
        let segments = store.log.segments();
        let end = segments.find(self.at).map_or(self.to, |segment| segment.end()).min(self.to);
        let read = |at: u64, len: u64, buffer: &mut Vec<u8>| {
            buffer.clear();
            let len = len.min(end - at) as usize;
            store.log.read(&segments, at, len, buffer).map_err(StoreError::io("read the commit log"))
        };
        read(self.at, 4, &mut self.buffer)?;
        let size = self.buffer.first_chunk().map_or(0, |size| u32::from_be_bytes(*size));
        if !read(self.at, CHUNK.max(u64::from(size)), &mut self.buffer)? {
            // Expired meanwhile.
            self.at = end;
            return Ok(true);
        }
        let mut rest = &self.buffer[..];
        while !rest.is_empty() {
            match parse(rest, BodyCrc::Trust) {
                Ok(Parsed::Record(record)) => {
                    visit(&record);
                    rest = &rest[record.bytes().len()..];
                    self.at += record.bytes().len() as u64;
                }
                Err(RecordError::Truncated { .. } | RecordError::TooShort { .. }) if rest.len() < self.buffer.len() => {
                    break;
                }
                Ok(Parsed::Blank { .. }) | Err(_) => {
                    self.at = end;
                    break;
                }
            }
        }
        Ok(true)
    }
}
