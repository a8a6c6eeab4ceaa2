//! Reading a queue: what a pull gets.

use std::sync::atomic::Ordering;

use super::commit_log::Segments;
use super::consume_queue::{ConsumeQueue, EntryBlock, QueueEntry};
use super::damage::is_whole;
use super::error::StoreError;
use super::handle::Store;
use crate::env::Millis;
use crate::proto::message::parse;
use crate::proto::message::record::{self, BodyCrc, MAGIC_V1, MAGIC_V2};
use crate::proto::{PhysicalOffset, QueueOffset};

/// Entries one read looks at, at least, before it gives up finding a match (`maxFilterMessageSize` of 16,000 bytes).
const EXAMINED_MIN: u64 = 800;

/// How much a read may return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Records wanted; at least one is returned even for 0.
    pub records: u32,
    /// Bytes wanted; the first record is returned whatever its size.
    pub bytes: u32,
    /// What one answer holds at most of records near the end of the log.
    pub recent: Portion,
    /// What it holds at most of records further back.
    pub cold: Portion,
}

/// The most that one answer holds; the first record always fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portion {
    /// Records.
    pub records: u32,
    /// Bytes.
    pub bytes: u32,
}

impl Default for Portion {
    /// 32 records and 256 KiB, RocketMQ's portion from memory.
    fn default() -> Portion {
        Portion { records: 32, bytes: 256 << 10 }
    }
}

impl ReadLimits {
    /// So many records and bytes, in portions of the default size.
    pub fn new(records: u32, bytes: u32) -> ReadLimits {
        ReadLimits { records, bytes, recent: Portion::default(), cold: Portion::default() }
    }
}

/// What a filter is told of an entry before its record is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryForFilter {
    /// The entry's number.
    pub offset: QueueOffset,
    /// Hash of the tag; in the delay topic the time of delivery.
    pub tags_code: i64,
    /// Where the record lies.
    pub physical: PhysicalOffset,
    /// Bytes of the record.
    pub size: u32,
}

/// Chooses messages. A closure over entries is a filter; one that has to see records implements the trait.
pub trait MessageFilter {
    /// Whether the entry's message may be wanted.
    fn matches_entry(&mut self, entry: &EntryForFilter) -> bool;

    /// Whether the message is wanted, now that its record is there.
    fn matches_record(&mut self, record: &[u8]) -> bool {
        let _ = record;
        true
    }
}

impl<F: FnMut(&EntryForFilter) -> bool> MessageFilter for F {
    fn matches_entry(&mut self, entry: &EntryForFilter) -> bool {
        self(entry)
    }
}

/// RocketMQ's `GetMessageStatus`. A queue that does not exist is the caller's case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadStatus {
    /// At least one record.
    Found,
    /// Entries were looked at, none matched.
    NoMatchedMessage,
    /// Entries matched, their records are gone.
    MessageWasRemoving,
    /// The entries cannot be found; never the case with intact files.
    OffsetFoundNull,
    /// Above the maximum.
    OffsetOverflowBadly,
    /// At the maximum: wait for the next message.
    OffsetOverflowOne,
    /// Below the minimum.
    OffsetTooSmall,
    /// The queue never had a message.
    NoMessageInQueue,
}

/// What a read found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOutcome {
    /// What was found.
    pub status: ReadStatus,
    /// Where to read next.
    pub next: QueueOffset,
    /// The queue's minimum.
    pub min: QueueOffset,
    /// The queue's maximum.
    pub max: QueueOffset,
    /// Records appended to the output.
    pub records: u32,
    /// Whether the next entries lie in cold parts of the log, so that a slave could serve them better.
    pub cold: bool,
}

impl Store {
    /// Appends records of `queue` from number `from` on to `out`, raw and one behind the other, as far as `limits`
    /// allow. A short answer is no sign of the end. No record above the confirmed position is ever returned.
    ///
    /// An error only if nothing could be read; `out` is as before then.
    pub fn read(
        &self,
        queue: &ConsumeQueue,
        from: QueueOffset,
        limits: &ReadLimits,
        filter: &mut dyn MessageFilter,
        out: &mut Vec<u8>,
    ) -> Result<ReadOutcome, StoreError> {
        let (min, max) = (queue.min(), queue.max());
        let outcome = |status, next| ReadOutcome { status, next, min, max, records: 0, cold: false };
        if max.0 == 0 {
            return Ok(outcome(ReadStatus::NoMessageInQueue, QueueOffset(0)));
        }
        if from < min {
            return Ok(outcome(ReadStatus::OffsetTooSmall, min));
        }
        if from == max {
            return Ok(outcome(ReadStatus::OffsetOverflowOne, from));
        }
        if from > max {
            return Ok(outcome(ReadStatus::OffsetOverflowBadly, max));
        }
        let mut scan = Scan::new(self, limits, out);
        let end = max.0.min(from.0.saturating_add(EXAMINED_MIN.max(u64::from(limits.records))));
        scan.run(queue, from.0, end, filter)?;
        let (records, cold) = (scan.records, scan.cold);
        let status = match scan {
            Scan { records: 1.., .. } => ReadStatus::Found,
            Scan { missing: true, .. } => ReadStatus::MessageWasRemoving,
            Scan { next, .. } if next == from.0 => ReadStatus::OffsetFoundNull,
            _ => ReadStatus::NoMatchedMessage,
        };
        let next = match status {
            ReadStatus::OffsetFoundNull => from.0 + 1,
            _ => scan.next,
        };
        self.counters.messages_read.fetch_add(records as u64, Ordering::Relaxed);
        self.counters.bytes_read.fetch_add((scan.out.len() - scan.start) as u64, Ordering::Relaxed);
        Ok(ReadOutcome { records: records as u32, cold, ..outcome(status, QueueOffset(next)) })
    }

    /// Appends up to `max` entries of `queue` from number `from` on to `out`, each with its number, and reads no records.
    /// None is appended for what was never written. A short answer is no sign of the end.
    pub fn entries(
        &self,
        queue: &ConsumeQueue,
        from: QueueOffset,
        max: usize,
        out: &mut Vec<(QueueOffset, QueueEntry)>,
    ) -> Result<(), StoreError> {
        let end = queue.max().0.min(from.0.saturating_add(max as u64));
        self.entries_below(queue, from, end, out)
    }

    /// As [`Store::entries`], and those whose records are not confirmed yet as well: nothing that a consumer may see.
    pub(crate) fn entries_unconfirmed_too(
        &self,
        queue: &ConsumeQueue,
        from: QueueOffset,
        max: usize,
        out: &mut Vec<(QueueOffset, QueueEntry)>,
    ) -> Result<(), StoreError> {
        let end = queue.next().min(from.0.saturating_add(max as u64));
        self.entries_below(queue, from, end, out)
    }

    fn entries_below(
        &self,
        queue: &ConsumeQueue,
        from: QueueOffset,
        end: u64,
        out: &mut Vec<(QueueOffset, QueueEntry)>,
    ) -> Result<(), StoreError> {
        let mut block = EntryBlock::default();
        let mut next = from.max(queue.min()).0;
        while next < end {
            queue.entries(&self.files, next, end, &mut block).map_err(StoreError::io("read the consume queue"))?;
            let before = next;
            for entry in block.iter() {
                if !entry.is_filler() {
                    out.push((QueueOffset(next), entry));
                }
                next += 1;
            }
            if next == before {
                break;
            }
        }
        Ok(())
    }

    /// Appends the record that begins at `at` to `out`. Checks that one does: a position from a message id may be
    /// anything.
    pub fn record_at(&self, at: PhysicalOffset, out: &mut Vec<u8>) -> Result<(), StoreError> {
        let segments = self.log.segments();
        let start = out.len();
        let found = self.log.read(&segments, at.0, 4, out).map_err(StoreError::io("read the commit log"))?;
        let size = out[start..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        out.truncate(start);
        let size = if found && size >= record::OVERHEAD_V1 as u32 { size as usize } else { 0 };
        if size == 0 || !self.read_record(&segments, at, size, out)? {
            return Err(StoreError::NoRecord { at });
        }
        if self.verifies(at) && is_damaged(&out[start..]) {
            self.note_damage(at);
            out.truncate(start);
            return Err(StoreError::NoRecord { at });
        }
        Ok(())
    }

    /// Appends the `size` bytes at `at`, a record or its beginning; `false` if none begins there, because it has expired, or
    /// never was. Nothing is compared with a checksum.
    fn read_record(
        &self,
        segments: &Segments,
        at: PhysicalOffset,
        size: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool, StoreError> {
        let start = out.len();
        if !self.log.read(segments, at.0, size, out).map_err(StoreError::io("read the commit log"))? {
            return Ok(false);
        }
        let right = is_record_of(&out[start..], at);
        if !right {
            out.truncate(start);
        }
        Ok(right)
    }

    /// When the message with number `offset` was stored; `None` if it is not there.
    pub fn store_time(&self, queue: &ConsumeQueue, offset: QueueOffset) -> Result<Option<Millis>, StoreError> {
        if offset < queue.min() || offset >= queue.max() {
            return Ok(None);
        }
        let entry = queue.entry(&self.files, offset.0).map_err(StoreError::io("read the consume queue"))?;
        match entry {
            Some(entry) if !entry.is_filler() => self.store_time_at(&entry),
            _ => Ok(None),
        }
    }

    /// When the oldest message of a queue that is still there was stored.
    pub fn earliest_store_time(&self, queue: &ConsumeQueue) -> Result<Option<Millis>, StoreError> {
        self.store_time(queue, queue.min())
    }

    /// What counts as being in memory from now on, see [`StoreOptions::memory_window`](super::StoreOptions).
    pub fn set_memory_window(&self, bytes: u64) {
        self.log.set_memory_window(bytes);
    }

    /// Whether an entry is there and its record is near enough to the log's end to be in memory, presumably.
    pub fn is_recent(&self, queue: &ConsumeQueue, offset: QueueOffset) -> bool {
        if offset < queue.min() || offset >= queue.max() {
            return false;
        }
        match queue.entry(&self.files, offset.0) {
            Ok(Some(entry)) => !entry.is_filler() && self.log.is_recent(entry.physical.0),
            _ => false,
        }
    }

    /// Store time of the record an entry points to; `None` if the record is gone.
    pub(crate) fn store_time_at(&self, entry: &QueueEntry) -> Result<Option<Millis>, StoreError> {
        let mut head = Vec::with_capacity(record::OVERHEAD_V1);
        let segments = self.log.segments();
        let len = record::OVERHEAD_V1.min(entry.size as usize);
        if !self.read_record(&segments, entry.physical, len, &mut head)? {
            return Ok(None);
        }
        let sys_flag = head[record::SYS_FLAG_AT..].first_chunk().map_or(0, |bytes| i32::from_be_bytes(*bytes));
        let time = head.get(record::store_timestamp_at(sys_flag)..).and_then(|rest| rest.first_chunk());
        Ok(time.map(|bytes| Millis(i64::from_be_bytes(*bytes))))
    }
}

/// One read under way.
struct Scan<'a> {
    store: &'a Store,
    limits: &'a ReadLimits,
    out: &'a mut Vec<u8>,
    start: usize,
    records: usize,
    /// Number of the next entry to look at.
    next: u64,
    /// A matching entry's record is gone.
    missing: bool,
    cold: bool,
}

impl<'a> Scan<'a> {
    fn new(store: &'a Store, limits: &'a ReadLimits, out: &'a mut Vec<u8>) -> Scan<'a> {
        let start = out.len();
        Scan { store, limits, out, start, records: 0, next: 0, missing: false, cold: false }
    }

    fn run(
        &mut self,
        queue: &ConsumeQueue,
        from: u64,
        end: u64,
        filter: &mut dyn MessageFilter,
    ) -> Result<(), StoreError> {
        let segments = self.store.log.segments();
        let mut block = EntryBlock::default();
        self.next = from;
        while self.next < end {
            let read = queue.entries(&self.store.files, self.next, end, &mut block);
            if let Err(error) = read {
                return self.failed(StoreError::io("read the consume queue")(error));
            }
            let before = self.next;
            for entry in block.iter() {
                match self.add(queue, &segments, &entry, filter) {
                    Ok(true) => self.next += 1,
                    Ok(false) => return Ok(()),
                    Err(error) => return self.failed(error),
                }
            }
            if self.next == before {
                return Ok(());
            }
        }
        Ok(())
    }

    /// What has been read already is worth an answer; the next read meets the error again.
    fn failed(&self, error: StoreError) -> Result<(), StoreError> {
        if self.records > 0 {
            Ok(())
        } else {
            Err(error)
        }
    }

    /// Looks at one entry; `false` if the answer is full without it.
    fn add(
        &mut self,
        queue: &ConsumeQueue,
        segments: &Segments,
        entry: &QueueEntry,
        filter: &mut dyn MessageFilter,
    ) -> Result<bool, StoreError> {
        if entry.is_filler() {
            return Ok(true);
        }
        self.cold = !self.store.log.is_recent(entry.physical.0);
        if self.is_full(entry.size as usize) {
            return Ok(false);
        }
        let QueueEntry { physical, size, tags_code } = *entry;
        if !filter.matches_entry(&EntryForFilter { offset: QueueOffset(self.next), tags_code, physical, size }) {
            return Ok(true);
        }
        let before = self.out.len();
        let found = self.store.read_record(segments, physical, size as usize, self.out)?;
        let verifies = self.store.verifies(physical);
        if !found || verifies && !is_whole(&self.out[before..], queue, self.next) {
            self.out.truncate(before);
            let is_there = physical >= self.store.min() && physical < self.store.confirmed();
            if is_there && self.store.note_damage(physical) {
                return Err(StoreError::Damaged { at: physical });
            }
            self.missing = true;
            self.tell_damage(queue, physical);
        } else if filter.matches_record(&self.out[before..]) {
            self.records += 1;
        } else {
            self.out.truncate(before);
        }
        Ok(true)
    }

    /// An entry's message is not where it should be: if it has not expired it is damaged, and its consumers miss it.
    fn tell_damage(&self, queue: &ConsumeQueue, at: PhysicalOffset) {
        if at < self.store.min() {
            return;
        }
        crate::sometimes!("a pull met a damaged record");
        let now = Millis(self.store.env.clock.monotonic().as_millis() as i64);
        if let Some(left_out) = self.store.damage_told.ask(now) {
            let (topic, id) = (queue.topic(), queue.id());
            tracing::warn!(
                topic = &**topic,
                queue = id,
                offset = self.next,
                position = at.0,
                left_out,
                "a pull left out a damaged message; `metaq store check` tells of all"
            );
        }
    }

    /// Whether a record of `size` bytes does not fit any more. The first one always does.
    fn is_full(&self, size: usize) -> bool {
        if self.records == 0 {
            return false;
        }
        let portion = if self.cold { self.limits.cold } else { self.limits.recent };
        let total = self.out.len() - self.start + size;
        self.records >= portion.records.min(self.limits.records) as usize
            || total > portion.bytes.min(self.limits.bytes) as usize
    }
}

/// Whether bytes read from `at` are those of a record that was written there, or the beginning of one.
fn is_record_of(bytes: &[u8], at: PhysicalOffset) -> bool {
    let magic = bytes.get(record::MAGIC_AT..).and_then(|rest| rest.first_chunk()).map(|m| u32::from_be_bytes(*m));
    let written = bytes.get(record::PHYSICAL_OFFSET_AT..).and_then(|rest| rest.first_chunk());
    matches!(magic, Some(MAGIC_V1 | MAGIC_V2)) && written.map(|p| u64::from_be_bytes(*p)) == Some(at.0)
}

/// Whether a record's bytes are not as they were written.
fn is_damaged(bytes: &[u8]) -> bool {
    parse(bytes, BodyCrc::Verify).is_err()
}
