//! Syncing the log: one sync at a time, each covering everything appended before it began.

use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use super::LogWriter;
use crate::env::{BoxFuture, Canary, Millis};
use crate::proto::PhysicalOffset;
use crate::store::error::StoreError;
use crate::store::options::FlushMode;
use crate::store::segment::Segment;

/// A sync has ended; goes to [`LogWriter::finish_sync`].
#[derive(Debug)]
pub struct SyncDone {
    up_to: u64,
    /// Store time of the last record it covers.
    store_time: Millis,
    result: io::Result<()>,
}

impl LogWriter {
    /// Begins a sync of everything appended so far; `None` if all is flushed or a sync is running. Run the future away
    /// from the writer, so that the next batches gather meanwhile, and bring its value back.
    ///
    /// The names and lengths of segments were synced when they were made, so only their bytes are left to do.
    pub fn start_sync(&mut self) -> Option<BoxFuture<'static, SyncDone>> {
        let (flushed, up_to) = (self.store.log.flushed(), self.position);
        if self.syncing || flushed == up_to || self.store.state.poisoned().is_some() {
            return None;
        }
        self.syncing = true;
        let segments = self.store.log.segments();
        let dirty = segments.iter().filter(|segment| segment.end() > flushed && segment.base() < up_to);
        let dirty: Vec<Arc<Segment>> = dirty.cloned().collect();
        let mapped = self.store.options.flush == FlushMode::Async;
        let store_time = self.last_store_time;
        Some(Box::pin(async move {
            let result = sync_all(&dirty, mapped.then_some(flushed..up_to)).await;
            SyncDone { up_to, store_time, result }
        }))
    }

    /// Takes note of a sync: under SYNC_FLUSH what it covers becomes visible to consumers. Returns the position up to
    /// which everything is on disk. After a failed one the store is poisoned: a later sync that succeeds would prove
    /// nothing about these bytes.
    pub fn finish_sync(&mut self, done: SyncDone) -> Result<PhysicalOffset, StoreError> {
        self.syncing = false;
        match done.result {
            Err(error) if !self.store.env.canary(Canary::IgnoreSyncError) => {
                crate::sometimes!("the store took no more writes");
                return Err(self.poison("sync the commit log", error));
            }
            _ => {}
        }
        if let Some(poisoned) = self.store.state.poisoned() {
            return Err(poisoned);
        }
        self.store.counters.syncs.fetch_add(1, Ordering::Relaxed);
        self.store.log.publish_flushed(done.up_to);
        self.upkeep.on_flushed(done.store_time);
        if self.store.options.flush == FlushMode::Sync {
            self.confirm_up_to(done.up_to);
        }
        Ok(PhysicalOffset(done.up_to))
    }

    /// Whether a sync is running.
    pub fn is_syncing(&self) -> bool {
        self.syncing
    }
}

/// Syncs the segments. `mapped` is what was written through their mappings.
async fn sync_all(dirty: &[Arc<Segment>], mapped: Option<Range<u64>>) -> io::Result<()> {
    for segment in dirty {
        if let Some(written) = &mapped {
            segment.release(written).await;
        }
        segment.file().sync().await?;
    }
    Ok(())
}
