//! Appending what a master has: the same bytes at the same place, and whatever follows from them.
//!
//! Only whole records are appended, so the log ends at a record here as it does everywhere else.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use super::LogWriter;
use crate::proto::message::parse;
use crate::proto::message::record::{BodyCrc, Parsed, RecordError, RecordView, OVERHEAD_V1};
use crate::proto::PhysicalOffset;
use crate::store::consume_queue::{ConsumeQueue, QueueEntry, QueueExtent};
use crate::store::error::StoreError;
use crate::store::{derive, paths};

/// Why a master's bytes are not appended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplicateError {
    /// They are no record, or one for another place: the master's log is damaged there, or the bytes were on the way.
    #[error("what the master has at {} is no record for that place: {what}", .at.0)]
    Damaged {
        /// Where it lies in the log.
        at: PhysicalOffset,
        /// What is wrong with it.
        what: String,
    },
    /// A file of the master's log ends where none ends here.
    #[error(
        "the master's log files end at {}, here they are {segment_size} bytes each: mappedFileSizeCommitLog has to be the \
         same",
        .at.0
    )]
    FileSize {
        /// Where a file ends there.
        at: PhysicalOffset,
        /// How large files are here.
        segment_size: u64,
    },
    /// They do not follow what is here.
    #[error("a master's bytes belong at {}, and this log ends at {}", .at.0, .end.0)]
    Elsewhere {
        /// Where they belong.
        at: PhysicalOffset,
        /// Where the log ends.
        end: PhysicalOffset,
    },
    /// The store takes nothing.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl LogWriter {
    /// Whether the log follows a master's from now on. If it does, nothing is appended but what the master has.
    pub fn set_following(&mut self, following: bool) {
        self.following = following;
    }

    /// Whether the log follows a master's.
    pub fn is_following(&self) -> bool {
        self.following
    }

    /// Appends the whole records at the start of `bytes`, which the master has at `at`, where this log ends, and says how
    /// many bytes that were. The rest is to come again with what follows it.
    ///
    /// # Errors
    /// Whatever stands before the one record that is wrong has been appended.
    pub async fn append_replicated(&mut self, at: PhysicalOffset, bytes: &[u8]) -> Result<usize, ReplicateError> {
        if !self.following || at.0 != self.position {
            return Err(ReplicateError::Elsewhere { at, end: self.end() });
        }
        let mut done = 0;
        while done < bytes.len() {
            if let Some(refusal) = self.store.state.refusal() {
                return Err(refusal.into());
            }
            self.make_segment().await?;
            let appended = self.append_in_segment(&bytes[done..]).await;
            self.publish();
            match appended? {
                0 => break,
                appended => done += appended,
            }
        }
        Ok(done)
    }

    /// Appends bytes that the master has where this log ends and that are no record, so that the log goes on behind them.
    /// They are in no queue, and nobody is given them.
    ///
    /// # Errors
    /// If the disk refuses.
    pub async fn take_damaged(&mut self, at: PhysicalOffset, bytes: &[u8]) -> Result<(), StoreError> {
        self.make_segment().await?;
        let segment = self.active.as_ref().filter(|segment| at.0 + bytes.len() as u64 <= segment.end());
        if segment.is_none() || !self.following || at.0 != self.position {
            return Err(StoreError::Malformed);
        }
        self.put("write to the commit log", bytes)?;
        self.joinable = usize::MAX;
        self.publish();
        Ok(())
    }

    /// Has an active segment with the log's end in it.
    async fn make_segment(&mut self) -> Result<(), StoreError> {
        while self.active.as_ref().is_none_or(|active| self.position == active.end()) {
            self.make_room().await?;
            let _ = self.roll()?;
        }
        if self.active.as_ref().is_some_and(|active| !active.is_allocated()) {
            self.make_room().await?;
        }
        Ok(())
    }

    /// Appends whole records as far as the active segment goes.
    async fn append_in_segment(&mut self, bytes: &[u8]) -> Result<usize, ReplicateError> {
        let Some(segment) = self.active.clone() else { return Ok(0) };
        let (base, mut len) = (self.position, 0);
        let mut wrong = None;
        while base + (len as u64) < segment.end() {
            let at = PhysicalOffset(base + len as u64);
            match parse(&bytes[len..], BodyCrc::Verify) {
                Ok(Parsed::Record(record)) if record.physical_offset() == at => {
                    if at.0 + u64::from(record.total_size()) > segment.end() {
                        let segment_size = segment.end() - segment.base();
                        wrong = Some(ReplicateError::FileSize { at: PhysicalOffset(segment.end()), segment_size });
                        break;
                    }
                    len += record.bytes().len();
                }
                Ok(Parsed::Record(_)) => {
                    wrong = Some(ReplicateError::Damaged { at, what: "it was written for another place".to_owned() });
                    break;
                }
                Ok(Parsed::Blank { size }) if at.0 + u64::from(size) != segment.end() => {
                    let (at, segment_size) = (PhysicalOffset(at.0 + u64::from(size)), segment.end() - segment.base());
                    wrong = Some(ReplicateError::FileSize { at, segment_size });
                    break;
                }
                Ok(Parsed::Blank { size }) => len += size as usize,
                Err(RecordError::Truncated { total_size, .. }) if at.0 + total_size as u64 > segment.end() => {
                    let what = format!("it has {total_size} bytes and reaches beyond the end of the file");
                    wrong = Some(ReplicateError::Damaged { at, what });
                    break;
                }
                Err(RecordError::Truncated { .. } | RecordError::TooShort { .. }) => break,
                Err(error) => {
                    wrong = Some(ReplicateError::Damaged { at, what: error.to_string() });
                    break;
                }
            }
        }
        self.append_run(&bytes[..len]).await?;
        wrong.map_or(Ok(len), |wrong| if len > 0 { Ok(len) } else { Err(wrong) })
    }

    /// Writes records and gives them to their queues.
    async fn append_run(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let base = self.position;
        self.put("write to the commit log", bytes)?;
        // Each record's entry by itself: a master that lost something may take any of them back.
        self.joinable = usize::MAX;
        let (mut at, mut records) = (0, 0);
        while let Ok(Parsed::Record(record)) = parse(&bytes[at..], BodyCrc::Trust) {
            let physical = base + at as u64;
            (self.last_record, self.last_store_time) = (physical, record.store_timestamp().max(self.last_store_time));
            self.enqueue_replicated(&record, PhysicalOffset(physical)).await?;
            at += record.bytes().len();
            records += 1;
        }
        let counters = &self.store.counters;
        counters.messages_appended.fetch_add(records, Ordering::Relaxed);
        counters.bytes_appended.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    async fn enqueue_replicated(&mut self, record: &RecordView<'_>, at: PhysicalOffset) -> Result<(), StoreError> {
        let Some(entry) = derive::entry_of(record, at, &self.store.options.delay_levels) else { return Ok(()) };
        let (topic, Ok(id)) = (record.topic(), u32::try_from(record.queue_id())) else { return Ok(()) };
        let number = record.queue_offset().0;
        // As in recovery: no queue can be that long, and no directory have that name.
        if number > i64::MAX as u64 / 20 || !paths::is_directory_name(&topic) {
            return Ok(());
        }
        // The topic was deleted since, and the master has told so.
        if at < self.store.deleted_at(&topic).await {
            return Ok(());
        }
        let mut queue = self.store.queues.get_or_create(&topic, id)?;
        if number < queue.next() {
            if number > 0 {
                tracing::warn!(%topic, id, number, next = queue.next(), "a message's number was there before");
                return Ok(());
            }
            // The topic was deleted on the master and made again. Where that was nobody has told yet; what comes before this
            // queue's last message is old, and another queue's messages behind it may be new.
            let old = PhysicalOffset(queue.extent().last_end);
            self.store.delete_topic_below(&topic, old).await?;
            self.forget_deleted();
            queue = self.store.queues.get_or_create(&topic, id)?;
        }
        if !self.bring_to(&queue, number, at) {
            return Ok(());
        }
        queue.set_next(number + 1);
        self.add_entry(&queue, number, &entry);
        Ok(())
    }

    /// Has `number` come next in a queue whose records before it are not in this log; `false` if it cannot be right: it is
    /// the one field that no checksum covers, and every message takes its bytes of the log.
    fn bring_to(&mut self, queue: &Arc<ConsumeQueue>, number: u64, at: PhysicalOffset) -> bool {
        let extent = queue.extent();
        let next = queue.next();
        if number - next > at.0.saturating_sub(extent.last_end) / OVERHEAD_V1 as u64 {
            tracing::warn!(topic = %queue.topic(), id = queue.id(), next, number, "a message's number cannot be right");
            return false;
        }
        let is_empty = queue.min().0 == next && queue.max().0 == next && queue.first_file().is_none();
        if is_empty && number > next {
            queue.restore(QueueExtent { min: number, next: number, last_end: 0 }, None);
        }
        for missing in queue.next()..number {
            self.add_filler(queue, missing);
        }
        true
    }

    fn add_filler(&mut self, queue: &Arc<ConsumeQueue>, number: u64) {
        if queue.push(number, &QueueEntry::FILLER) == 1 {
            self.dirty.push_back(Arc::clone(queue));
        }
    }

    /// Entries of deleted queues wait for nothing.
    fn forget_deleted(&mut self) {
        self.unconfirmed.retain(|next| !next.queue.is_deleted());
    }
}
