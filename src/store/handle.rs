//! The store as sessions see it: shared, readable at any time, never waiting for the writer.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::batch::TagsCode;
use super::commit_log::CommitLog;
use super::consume_queue::{ConsumeQueue, QueueFiles};
use super::damage::Damage;
use super::deleted_topics::DeletedTopics;
use super::error::{Refusal, StoreError};
use super::index::IndexService;
use super::options::{FlushMode, StoreOptions};
use super::queues::Queues;
use super::seldom::Seldom;
use super::state::WriteState;
use super::{derive, paths};
use crate::env::{Env, FileLock};
use crate::proto::PhysicalOffset;

/// An open store. Appending is [`super::LogWriter`]'s; everything here may be called from any thread at any time.
pub struct Store {
    pub(crate) env: Env,
    pub(crate) options: StoreOptions,
    pub(crate) log: CommitLog,
    pub(crate) queues: Queues,
    pub(crate) files: QueueFiles,
    pub(crate) index: Option<IndexService>,
    /// `indexMsgTimestamp` as the index last gave it, for the checkpoint.
    pub(crate) index_synced: AtomicI64,
    /// Up to where the log is in the index.
    pub(crate) dispatched: AtomicU64,
    /// Records below this have their queue entries in synced files, says the saved queue table.
    pub(crate) queues_synced: AtomicU64,
    /// A topic has been deleted since the queue table was saved: its queues must not be missed.
    pub(crate) queue_deleted: AtomicBool,
    /// Held over saves of the file; nothing else is asked for meanwhile.
    pub(crate) deleted_topics: futures::lock::Mutex<DeletedTopics>,
    /// Records at or above this wait in the log for something, and stay.
    pub(crate) pinned: AtomicU64,
    /// Retention wants records below this to go.
    pub(crate) unwanted: AtomicU64,
    /// The disk refused the space for a segment; for the next pass of retention.
    pub(crate) no_space: AtomicBool,
    /// Records that are damaged.
    pub(crate) damage: Damage,
    /// This process has written the log from here on.
    pub(crate) written_from: u64,
    /// For the lines about messages that are damaged.
    pub(crate) damage_told: Seldom,
    pub(crate) state: WriteState,
    pub(crate) counters: Counters,
    pub(crate) lock: Mutex<Option<Box<dyn FileLock>>>,
}

/// Counts since the store was opened.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) messages_appended: AtomicU64,
    pub(crate) bytes_appended: AtomicU64,
    pub(crate) messages_read: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
    pub(crate) syncs: AtomicU64,
}

/// A copy of the store's counters and sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Messages stored since the start.
    pub messages_appended: u64,
    /// Bytes of their records.
    pub bytes_appended: u64,
    /// Messages read by [`Store::read`].
    pub messages_read: u64,
    /// Bytes of their records.
    pub bytes_read: u64,
    /// Successful syncs of the log.
    pub syncs: u64,
    /// Queues there are.
    pub queues: usize,
    /// Segments there are.
    pub segments: usize,
}

impl Store {
    /// What the store was opened with.
    pub fn options(&self) -> &StoreOptions {
        &self.options
    }

    /// When a send counts as stored.
    pub fn flush_mode(&self) -> FlushMode {
        self.options.flush
    }

    /// A queue, if it has ever been asked for or holds a message.
    pub fn queue(&self, topic: &str, queue_id: u32) -> Option<Arc<ConsumeQueue>> {
        self.queues.get(topic, queue_id)
    }

    /// A queue, made if it is missing. It takes no disk space before its first message. Keep the handle: looking it up
    /// costs more than storing a message.
    pub fn queue_or_create(&self, topic: &str, queue_id: u32) -> Result<Arc<ConsumeQueue>, StoreError> {
        if !paths::is_directory_name(topic) || i32::try_from(queue_id).is_err() {
            return Err(StoreError::NoSuchQueue { topic: topic.into(), queue_id });
        }
        self.queues.get_or_create(topic, queue_id)
    }

    /// The queues of a topic in order.
    pub fn queues_of(&self, topic: &str) -> Vec<Arc<ConsumeQueue>> {
        self.queues.of_topic(topic)
    }

    /// Every topic that has a queue, in order.
    pub fn topics(&self) -> Vec<Arc<str>> {
        self.queues.topics()
    }

    /// The tags code of a message about to be stored, for [`super::AppendItem`].
    pub fn tags_code(&self, topic: &str, properties: &str) -> TagsCode {
        derive::tags_code(topic, properties, &self.options.delay_levels)
    }

    /// Start of the oldest record that is still there.
    pub fn min(&self) -> PhysicalOffset {
        PhysicalOffset(self.log.min())
    }

    /// Readers see records that end at or below this.
    pub fn confirmed(&self) -> PhysicalOffset {
        PhysicalOffset(self.log.confirmed())
    }

    /// Everything below this has survived a sync.
    pub fn flushed(&self) -> PhysicalOffset {
        PhysicalOffset(self.log.flushed())
    }

    /// Where the next record goes, or the filler before it.
    pub fn end(&self) -> PhysicalOffset {
        PhysicalOffset(self.log.end())
    }

    /// Records below this are in the index.
    pub fn dispatched(&self) -> PhysicalOffset {
        PhysicalOffset(self.dispatched.load(Ordering::Acquire))
    }

    /// The error that every write gets at present, with the reason in words; `None` if writes are taken.
    pub fn refusal(&self) -> Option<StoreError> {
        self.state.refusal()
    }

    /// Refuses or takes writes because the broker is about to stop.
    pub fn set_closing(&self, closing: bool) {
        if closing {
            self.state.refuse(Refusal::Closing, || "the broker is shutting down".to_owned());
        } else {
            self.state.allow(Refusal::Closing);
        }
    }

    /// From now on no segment is deleted that reaches above `from`, however full the disk is. `None` lets them all go.
    pub fn pin(&self, from: Option<PhysicalOffset>) {
        self.pinned.store(from.map_or(u64::MAX, |from| from.0), Ordering::Release);
    }

    /// Below this nothing is pinned, see [`Store::pin`].
    pub fn pinned(&self) -> Option<PhysicalOffset> {
        let pinned = self.pinned.load(Ordering::Acquire);
        (pinned != u64::MAX).then_some(PhysicalOffset(pinned))
    }

    /// Retention wants to delete what lies below this: who has pinned it should put it into the log again.
    pub fn unwanted(&self) -> PhysicalOffset {
        PhysicalOffset(self.unwanted.load(Ordering::Acquire))
    }

    /// Counters and sizes.
    pub fn statistics(&self) -> Statistics {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            messages_appended: load(&self.counters.messages_appended),
            bytes_appended: load(&self.counters.bytes_appended),
            messages_read: load(&self.counters.messages_read),
            bytes_read: load(&self.counters.bytes_read),
            syncs: load(&self.counters.syncs),
            queues: self.queues.len(),
            segments: self.log.segments().len(),
        }
    }

    /// The store's root directory.
    pub fn root(&self) -> &Path {
        &self.options.root
    }

    /// Lets another process open the store.
    pub(crate) fn unlock(&self) {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
