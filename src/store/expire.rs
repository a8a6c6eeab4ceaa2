//! Carrying out what the retention rules decide: deleting the oldest segments and what points into them.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use super::consume_queue::search::first_living;
use super::consume_queue::{ConsumeQueue, CQ_UNIT_SIZE};
use super::error::{Refusal, StoreError};
use super::handle::Store;
use super::retention::{local_hour, DiskGuard, Observation, RetentionEffect, Segment};
use crate::env::Canary;
use crate::proto::PhysicalOffset;

/// Queues looked at before others get their turn.
const QUEUES_PER_TURN: usize = 256;

impl Store {
    /// One pass of retention: shows `guard` the disk and carries out what it decides. To be called every 10 s, from one
    /// task.
    pub async fn clean(&self, guard: &mut DiskGuard) -> Result<(), StoreError> {
        let (disk, mut now) = (&self.env.disk, self.env.clock.now());
        if self.env.canary(Canary::DeleteYoungFiles) {
            now = now.plus(i64::from(u32::MAX));
        }
        let segments = self.segment_facts()?;
        let mut effects = Vec::new();
        guard.on_pass(
            &Observation {
                now,
                local_hour: local_hour(now, self.env.clock.local_offset_seconds()),
                log: disk.space(&self.options.commit_log_dir).ok(),
                queues: disk.space(&self.options.root).ok(),
                no_space: self.no_space.swap(false, Ordering::AcqRel),
                segments: &segments,
            },
            &mut effects,
        );
        for effect in effects {
            match effect {
                RetentionEffect::StopWrites(refusal) => self.set_disk_full(Some(refusal.to_string())),
                RetentionEffect::ResumeWrites if self.env.canary(Canary::FullForEver) => {}
                RetentionEffect::ResumeWrites => self.set_disk_full(None),
                RetentionEffect::DeleteSegments { count, min, reason } => {
                    tracing::info!(count, min = min.0, ?reason, "deleting segments");
                    self.delete_oldest_segments(count).await?;
                }
            }
        }
        Ok(())
    }

    /// The segments, oldest first, up to the one that is being written.
    pub fn segment_facts(&self) -> Result<Vec<Segment>, StoreError> {
        let segments = self.log.segments();
        let facts = segments.iter().map(|segment| {
            let metadata = self.env.disk.metadata(segment.path())?;
            let (base, len) = (PhysicalOffset(segment.base()), segment.end() - segment.base());
            Ok(Segment { base, len, modified: metadata.modified })
        });
        facts.collect::<io::Result<_>>().map_err(StoreError::io("look at the commit log's files"))
    }

    /// Refuses sends because a disk is too full, with this reason; `None` takes them again.
    pub fn set_disk_full(&self, reason: Option<String>) {
        match reason {
            Some(reason) => drop(self.state.refuse(Refusal::DiskFull, || reason)),
            None => self.state.allow(Refusal::DiskFull),
        }
    }

    /// Deletes the oldest `count` segments, but never the last one, then what pointed into them: the queues' minimum
    /// rises (a queue without any message left keeps its offsets), and queue files without a living entry go. A segment that
    /// is pinned stays, and those behind it: see [`Store::pin`]. Returns
    /// the log's new minimum. If a file cannot be deleted it stops there: the log never gets a gap.
    ///
    /// Readers that are in a deleted segment finish undisturbed.
    pub async fn delete_oldest_segments(&self, count: usize) -> Result<PhysicalOffset, StoreError> {
        let mut result = Ok(());
        if let Some(last) = count.checked_sub(1).and_then(|last| self.log.segments().iter().nth(last).cloned()) {
            self.unwanted.fetch_max(last.end(), Ordering::AcqRel);
        }
        for _ in 0..count {
            result = self.delete_oldest_segment().await;
            if result.is_err() {
                break;
            }
        }
        self.correct_queues().await.map_err(StoreError::io("delete expired queue files"))?;
        if let Some(index) = &self.index {
            index.expire(self.min()).map_err(StoreError::index)?;
        }
        result.map(|()| self.min())
    }

    async fn delete_oldest_segment(&self) -> Result<(), StoreError> {
        let segments = self.log.segments();
        // Queue entries that a power cut may take derive from the log again; without it their numbers would be given
        // out twice.
        let deletable = self.log.flushed().min(self.log.confirmed()).min(self.queues_synced.load(Ordering::Acquire));
        let pinned = match self.env.canary(Canary::RetentionTakesTimers) {
            true => u64::MAX,
            false => self.pinned.load(Ordering::Acquire),
        };
        let oldest = segments.first().filter(|oldest| segments.len() > 1 && oldest.end() <= deletable.min(pinned));
        let Some(oldest) = oldest else { return Ok(()) };
        self.env.disk.remove_file(oldest.path()).map_err(StoreError::io("delete an expired segment"))?;
        self.log.change_segments(|segments| drop(segments.pop_first()));
        tracing::info!(segment = %oldest.path().display(), "deleted an expired segment");
        // One after the other: a power cut must not bring back an older one without its successor.
        let directory = &self.options.commit_log_dir;
        self.env.disk.sync_dir(directory).await.map_err(StoreError::io("sync the commit log's directory"))
    }

    /// Brings every queue in line with the log's minimum.
    async fn correct_queues(&self) -> io::Result<()> {
        for (number, queue) in self.queues.all().iter().enumerate() {
            if number % QUEUES_PER_TURN == QUEUES_PER_TURN - 1 {
                Turn::default().await;
            }
            if !queue.is_deleted() {
                let (min, max) = (queue.min().0, queue.max().0);
                let min = first_living(min, max, self.log.min(), |number| queue.entry(&self.files, number))?;
                queue.raise_min(min);
                self.delete_queue_files(queue)?;
            }
        }
        Ok(())
    }

    /// Deletes the files that end at or below the queue's minimum, but never the last one: it keeps the numbers going.
    fn delete_queue_files(&self, queue: &ConsumeQueue) -> io::Result<()> {
        let Some(first) = queue.first_file() else { return Ok(()) };
        // Files of entries that are still in memory do not exist, but they do not matter here either.
        let last = self.files.base(queue.max().0.saturating_sub(1) * CQ_UNIT_SIZE as u64);
        let end = self.files.base(queue.min().0 * CQ_UNIT_SIZE as u64).min(last);
        for base in (first..end).step_by(self.files.file_size() as usize) {
            match self.files.remove(queue, base) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => queue.set_first_file(Some(base + self.files.file_size())),
            }
        }
        Ok(())
    }
}

/// Lets other tasks run once.
#[derive(Default)]
struct Turn {
    given: bool,
}

impl Future for Turn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.given, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
