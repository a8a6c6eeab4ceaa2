//! Appending a batch: check, assign, copy, publish.

use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use super::{LogWriter, Unconfirmed};
use crate::env::{Canary, Millis};
use crate::proto::message::encode::{blank, patch_offsets};
use crate::proto::message::record::{self, BLANK_SIZE, OVERHEAD_V1};
use crate::proto::{PhysicalOffset, QueueOffset};
use crate::store::batch::{AppendBatch, AppendItem, AppendResult, Stored};
use crate::store::consume_queue::{ConsumeQueue, QueueEntry};
use crate::store::derive;
use crate::store::error::{Refusal, StoreError};
use crate::store::index::Fed;

/// A queue writes its entries to its files when it has this many in memory, if the clock did not make it before.
const UNWRITTEN_MAX: usize = 4096;
/// Written entries a queue keeps in memory for consumers that are close behind.
pub(super) const KEPT_ENTRIES: usize = 256;

/// How far [`LogWriter::append`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// Every item has its result.
    Done,
    /// The segment is full and the next one is not ready: [`LogWriter::finish_append`] does the rest.
    NeedsSegment,
}

/// Items that lie side by side in the batch and go to the log with one write: those from number `first` on that have
/// a result.
struct Run {
    first: usize,
    /// Their bytes in the batch.
    bytes: Range<usize>,
}

impl LogWriter {
    /// Appends the items of `batch` from number `results.len()` on and adds a result for each. Offsets and store times
    /// are patched into the batch's bytes. An item that is refused takes no offset; the others are stored all the same.
    ///
    /// When this returns, items with an `Ok` have been written; the caller may tell the client so at once under
    /// ASYNC_FLUSH, and under SYNC_FLUSH when the log is flushed up to [`Stored::end`].
    pub fn append(&mut self, batch: &mut AppendBatch, results: &mut Vec<AppendResult>) -> Progress {
        if let Some(refusal) = self.store.state.refusal().filter(|refusal| !(batch.makes_room && is_disk_full(refusal)))
        {
            return refuse_rest(batch, results, &refusal);
        }
        if self.following {
            let reason = "this broker is a slave: only its master takes messages".into();
            return refuse_rest(batch, results, &StoreError::Refused { refusal: Refusal::Following, reason });
        }
        let stored = self.store.env.clock.now().max(self.last_store_time);
        self.joinable = self.unconfirmed.len();
        let progress = self.append_items(&mut batch.bytes, &batch.items, results, stored);
        self.publish();
        progress.unwrap_or_else(|refusal| refuse_rest(batch, results, &refusal))
    }

    /// The rest of a batch for which [`LogWriter::append`] lacked a segment.
    pub async fn finish_append(&mut self, batch: &mut AppendBatch, results: &mut Vec<AppendResult>) {
        loop {
            if let Err(refusal) = self.make_room().await {
                let _ = refuse_rest(batch, results, &refusal);
                return;
            }
            crate::sometimes!(!results.is_empty(), "a batch went on in another segment");
            if self.store.env.canary(Canary::RewriteBatch) {
                results.clear();
            }
            if self.append(batch, results) == Progress::Done {
                return;
            }
        }
    }

    /// An error is the one that all items without a result get.
    fn append_items(
        &mut self,
        bytes: &mut [u8],
        items: &[AppendItem],
        results: &mut Vec<AppendResult>,
        stored: Millis,
    ) -> Result<Progress, StoreError> {
        let mut run = Run { first: results.len(), bytes: 0..0 };
        while results.len() < items.len() {
            let group = group_at(items, results.len());
            if group[0].unique.is_some() && self.deduplication.repeats(group, stored) {
                self.write_run(&run, bytes, items, results)?;
                results.extend(self.deduplication.first_results(group, stored).map(Ok));
                run = Run { first: results.len(), bytes: 0..0 };
                continue;
            }
            let size = match self.check(group, bytes) {
                Ok(size) => size,
                Err(refusal) => {
                    self.write_run(&run, bytes, items, results)?;
                    results.extend(group.iter().map(|_| Err(refusal.clone())));
                    run = Run { first: results.len(), bytes: 0..0 };
                    continue;
                }
            };
            let start = group[0].start;
            if start != run.bytes.end || !self.fits(run.bytes.len() as u64 + size) {
                self.write_run(&run, bytes, items, results)?;
                run = Run { first: results.len(), bytes: start..start };
                if !self.fits(size) && !self.roll()? {
                    return Ok(Progress::NeedsSegment);
                }
            }
            for item in group {
                let position = self.position + (item.start - run.bytes.start) as u64;
                let assigned = assign(item, bytes, position, stored);
                self.deduplication.remember(item, &assigned);
                results.push(Ok(assigned));
            }
            run.bytes.end += size as usize;
        }
        self.write_run(&run, bytes, items, results)?;
        Ok(Progress::Done)
    }

    /// Whether `size` more bytes, and the filler behind them, fit the active segment.
    fn fits(&self, size: u64) -> bool {
        let active = self.active.as_ref().filter(|segment| segment.is_allocated());
        active.is_some_and(|segment| self.position + size + BLANK_SIZE as u64 <= segment.end())
    }

    /// The bytes a unit takes, or why it can never be stored.
    fn check(&self, group: &[AppendItem], bytes: &[u8]) -> Result<u64, StoreError> {
        let options = &self.store.options;
        let mut size = 0;
        let mut end = group.first().map_or(0, |item| item.start);
        for item in group {
            let record = bytes.get(item.start..).and_then(|rest| rest.get(..item.len));
            let total_size = record.and_then(|record| record.first_chunk()).map(|size| u32::from_be_bytes(*size));
            if item.len < OVERHEAD_V1 || total_size != Some(item.len as u32) || item.start != end {
                return Err(StoreError::Malformed);
            }
            if item.len as u64 > options.max_record_size() {
                return Err(StoreError::TooLarge { bytes: item.len as u64, limit: options.max_record_size() });
            }
            if item.queue.is_deleted() {
                let (topic, queue_id) = (Arc::clone(item.queue.topic()), item.queue.id());
                return Err(StoreError::QueueDeleted { topic, queue_id });
            }
            end += item.len;
            size += item.len as u64;
        }
        let limit = options.segment_size - BLANK_SIZE as u64;
        if size > limit {
            return Err(StoreError::TooLarge { bytes: size, limit });
        }
        Ok(size)
    }

    /// Writes a run and gives its items to their queues. On an error the store is poisoned and the run's results are
    /// errors.
    fn write_run(
        &mut self,
        run: &Run,
        bytes: &[u8],
        items: &[AppendItem],
        results: &mut [AppendResult],
    ) -> Result<(), StoreError> {
        if run.bytes.is_empty() {
            return Ok(());
        }
        if let Err(refusal) = self.put("write to the commit log", &bytes[run.bytes.clone()]) {
            results[run.first..].fill(Err(refusal.clone()));
            return Err(refusal);
        }
        if let Some(Ok(last)) = results.last() {
            (self.last_record, self.last_store_time) = (last.physical.0, last.store_time);
        }
        for (item, result) in items[run.first..].iter().zip(&results[run.first..]) {
            if let Ok(stored) = result {
                self.enqueue(item, stored, bytes);
            }
        }
        self.feed_index(&items[run.first..], &results[run.first..]);
        let counters = &self.store.counters;
        counters.messages_appended.fetch_add((results.len() - run.first) as u64, Ordering::Relaxed);
        counters.bytes_appended.fetch_add(run.bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Tells the index of written records whose keys are known.
    fn feed_index(&self, items: &[AppendItem], results: &[AppendResult]) {
        let Some(index) = &self.store.index else { return };
        index.feed.put(items.iter().zip(results).filter_map(|(item, result)| {
            let (Ok(stored), Some(hashes)) = (result, &item.keys) else { return None };
            let (at, end) = (stored.physical.0, stored.end.0);
            Some(Fed { at, end, stored: stored.store_time, hashes: hashes.clone() })
        }));
    }

    /// Adds the entry of a written record to its queue, to become visible when the record is confirmed.
    fn enqueue(&mut self, item: &AppendItem, stored: &Stored, bytes: &[u8]) {
        if !derive::has_entry(sys_flag(&bytes[item.start..])) {
            return;
        }
        let number = stored.queue_offset.0;
        let entry = derive::entry(stored.physical, item.len as u32, item.tags_code, stored.store_time);
        self.add_entry(&item.queue, number, &entry);
    }

    /// Adds an entry to its queue, to become visible when its record is confirmed.
    pub(super) fn add_entry(&mut self, queue: &Arc<ConsumeQueue>, number: u64, entry: &QueueEntry) {
        match queue.push(number, entry) {
            1 => self.dirty.push_back(Arc::clone(queue)),
            UNWRITTEN_MAX.. => self.write_queue(queue),
            _ => {}
        }
        let (end, max) = (entry.end().0, number + 1);
        let joinable = self.unconfirmed.len() > self.joinable;
        match self.unconfirmed.back_mut().filter(|last| joinable && Arc::ptr_eq(&last.queue, queue)) {
            Some(last) => (last.end, last.max) = (end, max),
            None => self.unconfirmed.push_back(Unconfirmed { end, queue: Arc::clone(queue), max }),
        }
    }

    /// Goes to the next segment: writes the filler and makes the prepared segment the active one. `false` if there is
    /// none, or no space for the filler.
    pub(super) fn roll(&mut self) -> Result<bool, StoreError> {
        if self.active.as_ref().is_some_and(|active| !active.is_allocated()) {
            return Ok(false);
        }
        let Some(next) = self.upkeep.take_next() else { return Ok(false) };
        if let Some(active) = &self.active {
            let (left, end) = (active.end() - self.position, active.end());
            if left > 0 {
                self.put("end a segment", &blank(left as u32))?;
            }
            self.position = end;
        }
        assert_eq!(next.base(), self.position, "a segment begins where the one before ends");
        self.store.log.change_segments(|segments| segments.push(Arc::clone(&next)));
        self.active = Some(next);
        Ok(true)
    }

    /// Refuses writes until the store is opened again: what reached the disk is uncertain.
    pub(super) fn poison(&self, action: &'static str, error: io::Error) -> StoreError {
        let directory = self.store.options.commit_log_dir.display();
        self.store.state.refuse(Refusal::Poisoned, || {
            format!("cannot {action} in {directory}: {error}; the store takes no writes until it is reopened")
        })
    }
}

/// Errors for the items that have no result yet.
fn is_disk_full(refusal: &StoreError) -> bool {
    matches!(refusal, StoreError::Refused { refusal: Refusal::DiskFull, .. })
}

fn refuse_rest(batch: &AppendBatch, results: &mut Vec<AppendResult>, refusal: &StoreError) -> Progress {
    results.resize_with(batch.items.len(), || Err(refusal.clone()));
    Progress::Done
}

/// The unit that begins with item `at`.
fn group_at(items: &[AppendItem], at: usize) -> &[AppendItem] {
    let rest = &items[at..];
    let len = rest.iter().take_while(|item| item.group == rest[0].group).count();
    &rest[..len]
}

/// Gives an item its offsets and writes them into its record.
fn assign(item: &AppendItem, bytes: &mut [u8], position: u64, stored: Millis) -> Stored {
    let record = &mut bytes[item.start..item.start + item.len];
    let number = if derive::has_entry(sys_flag(record)) {
        let number = item.queue.next();
        item.queue.set_next(number + 1);
        number
    } else {
        0
    };
    let (physical, queue_offset) = (PhysicalOffset(position), QueueOffset(number));
    patch_offsets(record, queue_offset, physical, stored);
    Stored {
        physical,
        end: PhysicalOffset(position + item.len as u64),
        queue_offset,
        store_time: stored,
        repeated_in: None,
    }
}

/// The sysFlag of a record whose length has been checked.
fn sys_flag(record: &[u8]) -> i32 {
    record[record::SYS_FLAG_AT..].first_chunk().map_or(0, |bytes| i32::from_be_bytes(*bytes))
}
