//! The log writer: the only one that assigns offsets and changes the end of the log.

mod append;
mod close;
mod pages;
mod replicated;
mod sync;
mod truncate;
mod upkeep;

use std::collections::VecDeque;
use std::sync::Arc;

pub use append::Progress;
pub use replicated::ReplicateError;
pub use sync::SyncDone;
pub use upkeep::JobDone;
pub(crate) use upkeep::StateFiles;

use super::checkpoint::Checkpoint;
use super::consume_queue::ConsumeQueue;
use super::deduplication::Deduplication;
use super::handle::Store;
use super::options::FlushMode;
use super::queue_table::QueueTable;
use super::segment::Segment;
use crate::env::{Canary, Millis};
use crate::proto::PhysicalOffset;
use upkeep::Upkeep;

/// Appends to the log. There is exactly one per store, owned by one actor.
///
/// Records are read through the segment's mapping. Under ASYNC_FLUSH small ones are written through it as well, and all can
/// be read at once. Under SYNC_FLUSH they are written with positioned writes (a dirty mapped page can cost up to 1 MiB of
/// write-back per sync) and can be read once [`LogWriter::finish_sync`] has confirmed them.
///
/// After a failed write or sync the store is poisoned: nothing is appended or confirmed until it is opened again.
pub struct LogWriter {
    store: Arc<Store>,
    /// Where the next record goes.
    position: u64,
    /// The segment that holds `position`; `None` before the first record and if the log ends with a full segment.
    active: Option<Arc<Segment>>,
    /// Where the last record before `position` begins.
    last_record: u64,
    /// When that was stored. Store timestamps never fall, whatever the clock does.
    last_store_time: Millis,
    /// Queue lengths that become visible once the log is confirmed up to `end`, in log order.
    unconfirmed: VecDeque<Unconfirmed>,
    /// Those before this index are of earlier batches: a running sync may cover them and not what comes now.
    joinable: usize,
    /// Whether a sync is running.
    syncing: bool,
    /// Nothing above is confirmed, however durable it is here: slaves do not have it yet, or the master has not said so.
    confirm_limit: Option<u64>,
    /// The log follows a master's.
    following: bool,
    /// What was sent lately, where topics want to know.
    deduplication: Deduplication,
    /// Queues whose newest entries are in memory only, the oldest first; a queue may stand here twice.
    dirty: VecDeque<Arc<ConsumeQueue>>,
    upkeep: Upkeep,
}

struct Unconfirmed {
    end: u64,
    queue: Arc<ConsumeQueue>,
    max: u64,
}

impl LogWriter {
    /// The writer of a store that was just opened.
    pub(crate) fn new(
        store: Arc<Store>,
        files: StateFiles,
        checkpoint: Checkpoint,
        (last_record, last_store_time): (u64, Millis),
        unwritten: Vec<Arc<ConsumeQueue>>,
    ) -> LogWriter {
        let position = store.log.end();
        let active = store.log.segments().find(position).cloned();
        let upkeep = Upkeep::new(files, checkpoint, store.env.clock.now());
        LogWriter {
            store,
            position,
            active,
            last_record,
            last_store_time,
            unconfirmed: VecDeque::new(),
            joinable: 0,
            syncing: false,
            confirm_limit: None,
            following: false,
            deduplication: Deduplication::default(),
            dirty: unwritten.into(),
            upkeep,
        }
    }

    /// Sends that are in this table are answered with what they got first.
    pub fn set_deduplication(&mut self, table: Deduplication) {
        self.deduplication = table;
    }

    /// Where the next record goes, or the filler before it.
    pub fn end(&self) -> PhysicalOffset {
        PhysicalOffset(self.position)
    }

    /// The store it writes to.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The lengths of all queues as they follow from the log up to its end.
    fn queue_table(&self) -> QueueTable {
        QueueTable {
            log_end: self.position,
            last_record: self.last_record,
            last_store_time: self.last_store_time,
            ..QueueTable::of(&self.store.queues.all())
        }
    }

    /// Tells readers about everything appended.
    fn publish(&mut self) {
        self.store.log.publish_end(self.position);
        if self.store.options.flush == FlushMode::Async || self.store.env.canary(Canary::ShowUnsynced) {
            self.confirm_up_to(self.position);
        }
    }

    /// Confirms nothing above `limit` from now on, and at once what lies below it and is durable.
    pub fn set_confirm_limit(&mut self, limit: Option<PhysicalOffset>) {
        self.confirm_limit = limit.map(|limit| limit.0);
        self.confirm_up_to(match self.store.options.flush {
            FlushMode::Async => self.position,
            FlushMode::Sync => self.store.log.flushed(),
        });
    }

    /// Confirms up to `limit` as [`LogWriter::set_confirm_limit`] does, unless more was allowed before.
    pub fn raise_confirm_limit(&mut self, limit: PhysicalOffset) {
        let limit = self.confirm_limit.map_or(limit, |before| limit.max(PhysicalOffset(before)));
        self.set_confirm_limit(Some(limit));
    }

    /// Confirms what is as durable here as the flush mode wants, as far as the limit lets it.
    fn confirm_up_to(&mut self, durable: u64) {
        let position = match self.confirm_limit {
            // Nobody knows whether a limit is the end of a record.
            Some(limit) if limit < durable && !self.store.env.canary(Canary::ShowUnreplicated) => {
                let below = self.unconfirmed.iter().take_while(|next| next.end <= limit).last();
                below.map_or(0, |last| last.end)
            }
            _ => durable,
        };
        if position > self.store.log.confirmed() {
            self.confirm(position);
        }
    }

    /// Makes everything below `position` visible and wakes parked readers.
    fn confirm(&mut self, position: u64) {
        self.store.log.publish_confirmed(position);
        while self.unconfirmed.front().is_some_and(|next| next.end <= position) {
            let Some(next) = self.unconfirmed.pop_front() else { break };
            next.queue.publish(next.max);
        }
    }
}
