//! Reading the commit log from end to end.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::report::{CheckReport, Severity};
use crate::env::{Disk, File, OpenMode};
use crate::proto::message::record::{parse, BodyCrc, Parsed, RecordError, RecordView, BLANK_SIZE};
use crate::proto::PhysicalOffset;

/// Bytes read at once.
const WINDOW: usize = 256 * 1024;
/// No record is longer; a size above it is damage, and must not make the check take as much memory.
const RECORD_MAX: usize = 128 * 1024 * 1024;

/// A segment file.
struct Segment {
    base: u64,
    path: PathBuf,
    len: u64,
}

/// The commit log, read through a window.
pub(super) struct LogReader {
    disk: Arc<dyn Disk>,
    segments: Vec<Segment>,
    open: Option<(usize, Arc<dyn File>)>,
    window: Vec<u8>,
    window_at: (usize, u64),
}

/// What stands where a record should.
enum Step {
    /// A record of so many bytes.
    Record(u64),
    /// The filler of the segment.
    Blank,
    /// Nothing was written from here on.
    End,
    /// The bytes are neither.
    Bad { what: String, go_on_after: Option<u64> },
}

impl LogReader {
    /// Lists the segments. Whatever stops a broker from loading them is a finding.
    pub(super) fn open(disk: Arc<dyn Disk>, directory: &Path, report: &mut CheckReport) -> io::Result<LogReader> {
        let mut segments: Vec<Segment> = Vec::new();
        for entry in super::list(&*disk, directory)? {
            let path = directory.join(&entry.name);
            if entry.is_dir {
                continue;
            }
            let len = disk.metadata(&path)?.len;
            match super::parse_base(&entry.name) {
                None => report.damage(&path, 0, "not the name of a segment: RocketMQ does not start with it"),
                Some(_) if len == 0 => report.add(Severity::Repairable, &path, 0, "empty segment"),
                Some(base) => segments.push(Segment { base, path, len }),
            }
        }
        for pair in segments.windows(2) {
            if pair[1].base != pair[0].base + pair[0].len {
                let what = format!("the segment before ends at {}", pair[0].base + pair[0].len);
                report.damage(&pair[1].path, 0, what);
            }
        }
        for (number, pair) in segments.windows(2).enumerate().filter(|(_, pair)| pair[1].len != pair[0].len) {
            let shorter_last = number + 2 == segments.len() && pair[1].len < pair[0].len;
            let next = if shorter_last { "; the next start brings it to that length" } else { "" };
            let what = format!("{} bytes, the segment before has {}{next}", pair[1].len, pair[0].len);
            match shorter_last {
                true => report.damage_if_closed(&pair[1].path, 0, what),
                false => report.damage(&pair[1].path, 0, what),
            }
        }
        report.segments = segments.len();
        report.log_min = PhysicalOffset(segments.first().map_or(0, |segment| segment.base));
        report.log_end = report.log_min;
        Ok(LogReader { disk, segments, open: None, window: Vec::new(), window_at: (0, 0) })
    }

    /// Reads all records in order and hands the good ones on.
    pub(super) fn walk(
        &mut self,
        property_crc: bool,
        report: &mut CheckReport,
        on_record: &mut dyn FnMut(&RecordView<'_>, &mut CheckReport) -> io::Result<()>,
    ) -> io::Result<()> {
        for number in 0..self.segments.len() {
            if !self.walk_segment(number, property_crc, report, on_record)? {
                return self.check_behind_end(number + 1, report);
            }
        }
        Ok(())
    }

    /// False if the log ends in this segment.
    fn walk_segment(
        &mut self,
        number: usize,
        property_crc: bool,
        report: &mut CheckReport,
        on_record: &mut dyn FnMut(&RecordView<'_>, &mut CheckReport) -> io::Result<()>,
    ) -> io::Result<bool> {
        let Segment { base, path, len } = &self.segments[number];
        let (base, path, len) = (*base, path.clone(), *len);
        let mut at = 0;
        while len - at >= BLANK_SIZE as u64 {
            report.log_end = PhysicalOffset(base + at);
            let step = match self.parse_at(number, at)? {
                Ok(Parsed::Record(view)) => {
                    let size = u64::from(view.total_size());
                    match check_record(&view, base + at, property_crc) {
                        Ok(()) => {
                            on_record(&view, report)?;
                            Step::Record(size)
                        }
                        Err(what) => Step::Bad { what, go_on_after: Some(size) },
                    }
                }
                Ok(Parsed::Blank { size }) if u64::from(size) == len - at => Step::Blank,
                Ok(Parsed::Blank { size }) => {
                    let what = format!("a filler of {size} bytes where {} are left", len - at);
                    Step::Bad { what, go_on_after: None }
                }
                Err(error) => self.judge(number, at, error)?,
            };
            match step {
                Step::Record(size) => {
                    report.records += 1;
                    at += size;
                }
                Step::Blank => {
                    report.blanks += 1;
                    report.log_end = PhysicalOffset(base + len);
                    return Ok(true);
                }
                Step::End => return Ok(false),
                Step::Bad { what, go_on_after } => {
                    let ends = go_on_after.is_none() && number + 1 == self.segments.len();
                    let next = if ends { "; the next start ends the log here" } else { "" };
                    report.damage_if_closed(&path, at, format!("{what}{next}"));
                    let Some(size) = go_on_after else { return Ok(false) };
                    at += size;
                }
            }
        }
        report.damage(&path, at, "the segment ends without a filler");
        report.log_end = PhysicalOffset(base + len);
        Ok(true)
    }

    /// What an unreadable record means: the end of the log, or damage, and then whether records go on behind it.
    fn judge(&mut self, number: usize, at: u64, error: RecordError) -> io::Result<Step> {
        let head = self.bytes(number, at, BLANK_SIZE)?;
        let size = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        if size == 0 && error.is_unwritten() {
            return Ok(Step::End);
        }
        let next = at + u64::from(size);
        let left = self.segments[number].len - at;
        let plausible = matches!(
            error,
            RecordError::Magic { .. }
                | RecordError::BodyCrc { .. }
                | RecordError::Length { .. }
                | RecordError::TotalSize { .. }
        );
        let goes_on = plausible
            && (BLANK_SIZE as u64..left).contains(&u64::from(size))
            && !matches!(self.parse_at(number, next)?, Err(RecordError::Magic { .. } | RecordError::TooShort { .. }));
        Ok(Step::Bad { what: error.to_string(), go_on_after: goes_on.then_some(u64::from(size)) })
    }

    /// Segments behind the log's end are prepared ones, and those hold zeros.
    fn check_behind_end(&mut self, from: usize, report: &mut CheckReport) -> io::Result<()> {
        for number in from..self.segments.len() {
            let head = self.bytes(number, 0, BLANK_SIZE)?;
            if head.iter().any(|byte| *byte != 0) {
                let what = format!("the log ends at {} but this segment is written to", report.log_end.0);
                report.damage_if_closed(&self.segments[number].path, 0, what);
            }
        }
        Ok(())
    }

    /// The record at a position of the log, for those who follow a pointer.
    pub(super) fn record(&mut self, at: PhysicalOffset) -> io::Result<Result<RecordView<'_>, String>> {
        let number = self.segments.partition_point(|segment| segment.base <= at.0);
        let segment = number.checked_sub(1).map(|number| &self.segments[number]);
        let Some(segment) = segment.filter(|segment| at.0 < segment.base + segment.len) else {
            return Ok(Err("there is no such segment".to_string()));
        };
        let position = at.0 - segment.base;
        Ok(match self.parse_at(number - 1, position)? {
            Ok(Parsed::Record(view)) if view.physical_offset() == at => Ok(view),
            Ok(Parsed::Record(view)) => Err(format!("a record that says it belongs to {}", view.physical_offset().0)),
            Ok(Parsed::Blank { .. }) => Err("a filler".to_string()),
            Err(error) => Err(error.to_string()),
        })
    }

    fn parse_at(&mut self, number: usize, at: u64) -> io::Result<Result<Parsed<'_>, RecordError>> {
        let left = self.segments[number].len - at;
        let head = self.bytes(number, at, left.min(BLANK_SIZE as u64) as usize)?;
        let size = match parse(head, BodyCrc::Trust) {
            Err(RecordError::Truncated { total_size, .. }) => total_size as usize,
            Ok(Parsed::Blank { size }) => return Ok(Ok(Parsed::Blank { size })),
            _ => BLANK_SIZE,
        };
        let available = left.min(RECORD_MAX as u64) as usize;
        let bytes = self.bytes(number, at, size.min(available))?;
        Ok(parse(bytes, BodyCrc::Verify))
    }

    fn bytes(&mut self, number: usize, at: u64, len: usize) -> io::Result<&[u8]> {
        let (window_segment, window_start) = self.window_at;
        let inside = window_segment == number
            && at >= window_start
            && at + len as u64 <= window_start + self.window.len() as u64;
        if !inside {
            self.load_window(number, at, len)?;
        }
        let start = (at - self.window_at.1) as usize;
        self.window.get(start..start + len).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn load_window(&mut self, number: usize, at: u64, len: usize) -> io::Result<()> {
        if self.open.as_ref().is_none_or(|(open, _)| *open != number) {
            self.open = Some((number, self.disk.open(&self.segments[number].path, OpenMode::Read)?));
        }
        let Some((_, file)) = &self.open else { return Err(io::ErrorKind::NotFound.into()) };
        let left = (self.segments[number].len - at).min(WINDOW.max(len) as u64) as usize;
        self.window.resize(left, 0);
        let got = file.read_at(at, &mut self.window)?;
        self.window.truncate(got);
        self.window_at = (number, at);
        Ok(())
    }
}

fn check_record(view: &RecordView<'_>, at: u64, property_crc: bool) -> Result<(), String> {
    if view.physical_offset().0 != at {
        return Err(format!("the record says it belongs to {}, it lies at {at}", view.physical_offset().0));
    }
    if std::str::from_utf8(view.topic_bytes()).is_err() {
        return Err("the topic is not UTF-8".to_string());
    }
    if std::str::from_utf8(view.properties_bytes()).is_err() {
        return Err("the properties are not UTF-8".to_string());
    }
    if view.body().is_empty() && view.body_crc() != 0 {
        return Err("the crc of an empty body is not 0".to_string());
    }
    if property_crc {
        view.check_property_crc().map_err(|error| error.to_string())?;
    }
    Ok(())
}
