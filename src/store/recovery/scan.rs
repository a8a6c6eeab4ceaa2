//! Reading the log record by record, from the files: a bad sector is an error there.

use std::io;

use crate::proto::message::parse;
use crate::proto::message::record::{BodyCrc, Parsed, RecordError, RecordView};
use crate::store::commit_log::Segments;
use crate::store::error::Unreadable;
use crate::store::segment::Segment;

/// Bytes read at once.
const CHUNK: usize = 1 << 20;

/// Why the record at a position could not be read.
#[derive(Debug)]
pub(crate) enum Bad {
    /// Nothing was ever written here.
    Unwritten,
    /// What stands here is no valid record.
    Record(RecordError),
    /// It is a record, or a filler, that was written for another place.
    Misplaced,
}

/// Where a walk over records stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    /// At the end of the last segment.
    EndOfFiles { at: u64 },
    /// At something else than a record.
    Bad { at: u64, bad: Bad },
}

impl std::fmt::Display for Bad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bad::Unwritten => f.write_str("nothing was written here"),
            Bad::Record(error) => error.fmt(f),
            Bad::Misplaced => f.write_str("what stands here was written for another place"),
        }
    }
}

/// Reads records in order and keeps the bytes around the current one.
pub(crate) struct Scanner<'a> {
    segments: &'a Segments,
    /// Bytes of the log from `buffered_at` on.
    buffer: Vec<u8>,
    buffered_at: u64,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(segments: &'a Segments) -> Scanner<'a> {
        Scanner { segments, buffer: Vec::new(), buffered_at: 0 }
    }

    /// Calls `visit` for every record from `at` on, over the ends of segments, until something else is found.
    /// Bodies are compared with their CRC from `verify_from` on.
    pub(crate) fn walk(
        &mut self,
        mut at: u64,
        verify_from: u64,
        mut visit: impl FnMut(u64, &RecordView<'_>) -> io::Result<()>,
    ) -> io::Result<Stop> {
        while let Some(segment) = self.segments.find(at) {
            let crc = if at >= verify_from { BodyCrc::Verify } else { BodyCrc::Trust };
            match self.parse_at(segment, at, crc)? {
                Ok(Parsed::Record(record)) if record.physical_offset().0 == at => {
                    visit(at, &record)?;
                    at += u64::from(record.total_size());
                }
                Ok(Parsed::Blank { size }) if at + u64::from(size) == segment.end() => at = segment.end(),
                Ok(_) => return Ok(Stop::Bad { at, bad: Bad::Misplaced }),
                Err(error) if error.is_unwritten() => return Ok(Stop::Bad { at, bad: Bad::Unwritten }),
                Err(error) => return Ok(Stop::Bad { at, bad: Bad::Record(error) }),
            }
        }
        Ok(Stop::EndOfFiles { at })
    }

    /// The record at `at`, if one was written there.
    pub(crate) fn record_at(&mut self, at: u64, crc: BodyCrc) -> io::Result<Option<RecordView<'_>>> {
        let Some(segment) = self.segments.find(at) else { return Ok(None) };
        match self.parse_at(segment, at, crc)? {
            Ok(Parsed::Record(record)) if record.physical_offset().0 == at => Ok(Some(record)),
            _ => Ok(None),
        }
    }

    fn parse_at(&mut self, segment: &Segment, at: u64, crc: BodyCrc) -> io::Result<Result<Parsed<'_>, RecordError>> {
        self.fill(segment, at, CHUNK.min(1 << 12))?;
        let size = self.bytes_at(at).first_chunk().map_or(0, |size| u32::from_be_bytes(*size));
        // A size that reaches beyond the segment is the parser's to refuse.
        if u64::from(size) <= segment.end() - at {
            self.fill(segment, at, size as usize)?;
        }
        Ok(parse(self.bytes_at(at), crc))
    }

    fn bytes_at(&self, at: u64) -> &[u8] {
        let start = at.checked_sub(self.buffered_at).and_then(|start| usize::try_from(start).ok());
        start.and_then(|start| self.buffer.get(start..)).unwrap_or_default()
    }

    /// Has at least `len` bytes from `at` on in the buffer, or all up to the segment's end.
    fn fill(&mut self, segment: &Segment, at: u64, len: usize) -> io::Result<()> {
        let left = (segment.end() - at) as usize;
        let same = self.buffered_at >= segment.base() && self.buffered_at <= at;
        if same && self.bytes_at(at).len() >= len.min(left) {
            return Ok(());
        }
        self.buffer.resize(len.max(CHUNK).min(left), 0);
        self.buffered_at = at;
        segment.read_file(at, &mut self.buffer).map_err(Unreadable::at(segment.path(), at - segment.base()))
    }
}
