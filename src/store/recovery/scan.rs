//! Reading the log record by record, from the files: a bad sector is an error there.

use std::io;

use crate::proto::message::parse;
use crate::proto::message::record::{BodyCrc, Parsed, RecordError, RecordView, OVERHEAD_V1, PHYSICAL_OFFSET_AT};
use crate::store::commit_log::Segments;
use crate::store::error::Unreadable;
use crate::store::segment::Segment;

/// A disk writes so many bytes whole or not at all.
const SECTOR: u64 = 512;
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
    /// A part of it never reached the disk.
    Torn,
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
            Bad::Torn => f.write_str("a part of the record was never written"),
        }
    }
}

/// Reads records in order and keeps the bytes around the current one.
pub(crate) struct Scanner<'a> {
    segments: &'a Segments,
    /// Bytes of the log from `buffered_at` on.
    buffer: Vec<u8>,
    buffered_at: u64,
    finds_tears: bool,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(segments: &'a Segments) -> Scanner<'a> {
        Scanner { segments, buffer: Vec::new(), buffered_at: 0, finds_tears: true }
    }

    /// A planted bug: whatever fits is a record.
    pub(super) fn blind_to_tears(self, blind: bool) -> Scanner<'a> {
        Scanner { finds_tears: !blind, ..self }
    }

    /// Calls `visit` for every record from `at` on, over the ends of segments, until something else is found.
    /// Bodies are compared with their CRC from `verify_from` on, and parts that were never written are looked for.
    pub(crate) fn walk(
        &mut self,
        mut at: u64,
        verify_from: u64,
        mut visit: impl FnMut(u64, &RecordView<'_>) -> io::Result<()>,
    ) -> io::Result<Stop> {
        let finds_tears = self.finds_tears;
        while let Some(segment) = self.segments.find(at) {
            let crc = if at >= verify_from { BodyCrc::Verify } else { BodyCrc::Trust };
            match self.parse_at(segment, at, crc)? {
                Ok(Parsed::Record(record))
                    if finds_tears && at >= verify_from && is_torn(&record, at - segment.base()) =>
                {
                    return Ok(Stop::Bad { at, bad: Bad::Torn });
                }
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

    /// Where what begins at `at` ends, a whole record or a filler; `None` if it is damaged.
    pub(crate) fn behind(&mut self, at: u64) -> io::Result<Option<u64>> {
        let Some(segment) = self.segments.find(at) else { return Ok(Some(at)) };
        Ok(match self.parse_at(segment, at, BodyCrc::Verify)? {
            Ok(Parsed::Record(record)) if record.physical_offset().0 == at => Some(at + u64::from(record.total_size())),
            Ok(Parsed::Blank { size }) if at + u64::from(size) == segment.end() => Some(segment.end()),
            _ => None,
        })
    }

    /// The next whole record in the segment behind the damaged one at `at`, or where the segment ends. A record says where
    /// it belongs, so nothing else is taken for one.
    pub(crate) fn next_record(&mut self, at: u64) -> io::Result<u64> {
        let Some(segment) = self.segments.find(at) else { return Ok(at) };
        let says = PHYSICAL_OFFSET_AT..PHYSICAL_OFFSET_AT + size_of::<u64>();
        let last = segment.end().saturating_sub(OVERHEAD_V1 as u64);
        for candidate in at + 1..=last {
            self.fill(segment, candidate, says.end)?;
            let says_so = self.bytes_at(candidate).get(says.clone()) == Some(&candidate.to_be_bytes()[..]);
            if says_so && self.record_at(candidate, BodyCrc::Verify)?.is_some() {
                return Ok(candidate);
            }
        }
        Ok(segment.end())
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

/// Whether a sector with a part of the record's properties, which no checksum covers, was never written. `at` is where
/// the record begins in its file.
///
/// Files are zeros before they are written, and a client's properties hold no zero byte. A tear anywhere else shows: in
/// the body by its checksum, in a length or the head because the lengths do not add up any more.
fn is_torn(record: &RecordView<'_>, at: u64) -> bool {
    let bytes = record.bytes();
    let properties = bytes.len() - record.properties_bytes().len();
    let mut from = if record.properties_bytes().is_empty() { bytes.len() } else { properties };
    while from < bytes.len() {
        // The sector's part of the record, which may begin before the properties.
        let sector = (at + from as u64) / SECTOR * SECTOR;
        let begin = sector.saturating_sub(at) as usize;
        let end = ((sector + SECTOR - at) as usize).min(bytes.len());
        if bytes[begin..end].iter().all(|byte| *byte == 0) {
            return true;
        }
        from = end;
    }
    false
}
