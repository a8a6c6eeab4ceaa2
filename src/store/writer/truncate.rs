//! Taking back the end of the log: what a slave has and its master lost, and what nobody has confirmed yet.
//!
//! Nothing confirmed is ever taken back. So nothing that readers, the index or consumers have seen changes; only queue
//! entries that nobody may see go, and the bytes behind.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use super::{LogWriter, Unconfirmed};
use crate::env::Millis;
use crate::proto::message::record::BodyCrc;
use crate::proto::PhysicalOffset;
use crate::store::consume_queue::{ConsumeQueue, EntryBlock};
use crate::store::error::StoreError;
use crate::store::recovery::{self, Scanner};

/// Zeros written at once.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

impl LogWriter {
    /// For the start, before anybody reads: nothing is confirmed above what was before. What lies above shows once
    /// [`LogWriter::set_confirm_limit`] lets it.
    ///
    /// # Errors
    /// If queue files cannot be read.
    pub fn hold_back(&mut self) -> Result<(), StoreError> {
        let limit = self.upkeep.confirmed_before();
        // The index holds only what was confirmed.
        let indexed = self.store.index.as_ref().map_or(0, |_| self.store.dispatched().0);
        let limit = limit.0.max(indexed).max(self.store.log.min());
        self.confirm_limit = Some(limit);
        if limit >= self.position {
            return Ok(());
        }
        self.store.log.lower_confirmed(limit);
        let mut held = Vec::new();
        for queue in self.store.queues.all() {
            let first = self.first_above(&queue, limit)?;
            let mut end = limit;
            let mut number = first;
            self.each_entry(&queue, first, |entry| {
                end = end.max(entry.end().0);
                number += 1;
                held.push(Unconfirmed { end, queue: Arc::clone(&queue), max: number });
            })?;
            queue.lower_max(first);
        }
        held.sort_by_key(|unconfirmed| unconfirmed.end);
        self.unconfirmed = held.into();
        Ok(())
    }

    /// Has the log begin anew at `base`, where its master's oldest file does: there is nothing here, or it lies before that
    /// file and has expired on the master. Queues keep their numbers. Bring running syncs and jobs back first.
    ///
    /// # Errors
    /// If the disk refuses; what is left then is the newer part of what was there.
    pub async fn begin_anew(&mut self, base: PhysicalOffset) -> Result<(), StoreError> {
        assert!(!self.syncing, "a running sync covers what is to go");
        assert!(base.0 >= self.position, "only what has expired on the master is given up");
        crate::sometimes!("a slave's log began anew");
        tracing::warn!(
            from = self.position,
            to = base.0,
            "the master's oldest file begins behind this log: it begins anew"
        );
        self.forget_lengths(self.position).await?;
        self.unconfirmed.clear();
        self.dirty.clear();
        for queue in self.store.queues.all() {
            queue.forget_all(&self.store.files).map_err(StoreError::io("remove an expired consume queue"))?;
        }
        let (disk, directory) = (Arc::clone(&self.store.env.disk), self.store.options.commit_log_dir.clone());
        // Oldest first, as they expire: a crash in between leaves no gap.
        while let Some(oldest) = self.store.log.segments().first().cloned() {
            disk.remove_file(oldest.path()).map_err(StoreError::io("remove an expired segment"))?;
            disk.sync_dir(&directory).await.map_err(StoreError::io("sync the commit log's directory"))?;
            self.store.log.change_segments(|segments| drop(segments.pop_first()));
        }
        self.active = None;
        self.remove_segment_ahead().await?;
        self.position = base.0;
        self.store.log.publish_end(base.0);
        self.store.log.publish_flushed(base.0);
        self.store.log.publish_confirmed(base.0);
        Ok(())
    }

    /// Cuts the log at `end`, the end of a record. Bring running syncs and jobs back first.
    ///
    /// # Errors
    /// [`StoreError::Confirmed`] if something confirmed lies above. If the disk refuses: the next start recovers whatever is
    /// left, so the log ends at or behind `end` then.
    pub async fn truncate(&mut self, end: PhysicalOffset) -> Result<(), StoreError> {
        let end = end.0;
        assert!(!self.syncing, "a running sync covers what is to go");
        if end >= self.position {
            return Ok(());
        }
        // What the master said is confirmed counts, whether it has been synced here or not.
        let told = self.confirm_limit.map_or(self.position, |limit| limit.min(self.position));
        let confirmed = self.store.log.confirmed().max(told);
        if end < confirmed {
            return Err(StoreError::Confirmed { confirmed: PhysicalOffset(confirmed) });
        }
        crate::sometimes!("the end of a log was taken back");
        tracing::warn!(from = end, to = self.position, "the end of the log is taken back: the master does not have it");
        self.forget_lengths(end).await?;
        self.confirm_limit = Some(confirmed);
        self.cut_queues(end)?;
        self.cut_log(end).await.map_err(StoreError::io("cut the commit log"))?;
        if let Some(index) = &self.store.index {
            index.feed.cut(end);
        }
        let mut deleted = self.store.deleted_topics.lock().await;
        deleted.on_recovered(self.store.log.min(), end);
        deleted.save(0).await.map_err(StoreError::io("note which topics are deleted"))
    }

    /// What says how long queues are, and up to where the log is synced, says so no more: it would be believed.
    async fn forget_lengths(&mut self, end: u64) -> Result<(), StoreError> {
        let (last, stored) = self.last_before(end).map_err(StoreError::io("read the commit log"))?;
        let store = Arc::clone(&self.store);
        let table = recovery::forget_queue_table(&store.env, &store.options.root).await;
        let table = table.map_err(|error| StoreError::io("forget the queues' lengths")(io::Error::other(error)))?;
        self.store.queues_synced.store(0, Ordering::Release);
        (self.last_record, self.last_store_time) = (last, stored);
        self.upkeep.begin_again(table, stored).await.map_err(StoreError::io("save the checkpoint"))
    }

    /// Where the last record before `end` begins and when it was stored.
    fn last_before(&self, end: u64) -> io::Result<(u64, Millis)> {
        let segments = self.store.log.segments();
        let mut last = (0, Millis(0));
        let Some(segment) = end.checked_sub(1).and_then(|at| segments.find(at)) else { return Ok(last) };
        let mut scanner = Scanner::new(&segments);
        let mut at = segment.base();
        while at < end {
            let Some(record) = scanner.record_at(at, BodyCrc::Trust)? else { break };
            last = (at, record.store_timestamp());
            at += u64::from(record.total_size());
        }
        Ok(last)
    }

    fn cut_queues(&mut self, end: u64) -> Result<(), StoreError> {
        let mut cut: BTreeMap<u32, Arc<ConsumeQueue>> = BTreeMap::new();
        for unconfirmed in self.unconfirmed.iter().filter(|unconfirmed| unconfirmed.end > end) {
            cut.insert(unconfirmed.queue.serial(), Arc::clone(&unconfirmed.queue));
        }
        self.unconfirmed.retain(|unconfirmed| unconfirmed.end <= end);
        for queue in cut.into_values() {
            let next = self.first_above(&queue, end)?;
            queue.cut(&self.store.files, next).map_err(StoreError::io("cut a consume queue"))?;
            // What several entries waited for together may have been cut in the middle.
            let mut waiting = self.unconfirmed.iter().filter(|other| Arc::ptr_eq(&other.queue, &queue));
            let known = waiting.next_back().map_or(queue.max().0, |last| last.max);
            if known < next {
                self.unconfirmed.push_back(Unconfirmed { end, queue, max: next });
            }
        }
        Ok(())
    }

    /// Number of the first unconfirmed entry of `queue` whose record ends above `limit`; what comes next if there is none.
    fn first_above(&self, queue: &ConsumeQueue, limit: u64) -> Result<u64, StoreError> {
        let failed = StoreError::io("read a consume queue");
        let (min, mut above) = (queue.min().0, queue.next());
        while above > min {
            match queue.entry(&self.store.files, above - 1) {
                Ok(Some(entry)) if entry.end().0 <= limit && !entry.is_filler() => break,
                Ok(_) => above -= 1,
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(above)
    }

    fn each_entry(
        &self,
        queue: &ConsumeQueue,
        from: u64,
        mut visit: impl FnMut(&crate::store::QueueEntry),
    ) -> Result<(), StoreError> {
        let (mut at, end) = (from, queue.next());
        let mut block = EntryBlock::default();
        while at < end {
            queue.entries(&self.store.files, at, end, &mut block).map_err(StoreError::io("read a consume queue"))?;
            let before = at;
            for entry in block.iter() {
                visit(&entry);
                at += 1;
            }
            if at == before {
                break;
            }
        }
        Ok(())
    }

    /// Newest first, and each for good before the next: a crash in between leaves no gap.
    async fn cut_log(&mut self, end: u64) -> io::Result<()> {
        let (disk, directory) = (Arc::clone(&self.store.env.disk), self.store.options.commit_log_dir.clone());
        self.remove_segment_ahead().await.map_err(io::Error::other)?;
        // Readers stay below the confirmed position, so nobody is in what goes.
        self.store.log.lower_end(end);
        let was = std::mem::replace(&mut self.position, end);
        loop {
            let segments = self.store.log.segments();
            let Some(last) = segments.last().filter(|last| last.base() >= end && segments.len() > 1) else { break };
            disk.remove_file(last.path())?;
            disk.sync_dir(&directory).await?;
            self.store.log.change_segments(|segments| drop(segments.pop_last()));
        }
        let segments = self.store.log.segments();
        self.active = segments.last().filter(|last| last.base() <= end && end < last.end()).cloned();
        if let Some(active) = &self.active {
            let mut at = end;
            while at < was.min(active.end()) {
                let len = (was.min(active.end()) - at).min(ZEROS.len() as u64);
                active.file().write_at(at - active.base(), &ZEROS[..len as usize])?;
                at += len;
            }
            active.file().sync().await?;
        }
        Ok(())
    }

    /// A segment made ahead of time holds nothing.
    pub(super) async fn remove_segment_ahead(&mut self) -> Result<(), StoreError> {
        let Some(unused) = self.upkeep.take_unused().await else { return Ok(()) };
        let disk = &self.store.env.disk;
        disk.remove_file(unused.path()).map_err(StoreError::io("remove a segment made ahead of time"))?;
        let directory = &self.store.options.commit_log_dir;
        disk.sync_dir(directory).await.map_err(StoreError::io("sync the commit log's directory"))
    }
}
