//! Closing the store.

use std::io;
use std::sync::atomic::Ordering;

use super::LogWriter;
use crate::env::Millis;
use crate::store::error::StoreError;
use crate::store::paths;
use crate::store::queue_table::QueueTable;

impl LogWriter {
    /// Writes and syncs everything, so that the next start has nothing to read, removes the marker of an unclean exit
    /// and gives the lock back. Readers may go on; appends are refused.
    ///
    /// Bring running syncs and jobs back first. On an error the marker stays, and the next start recovers.
    pub async fn close(mut self) -> Result<(), StoreError> {
        self.store.set_closing(true);
        let closed = self.write_everything().await;
        self.store.unlock();
        closed
    }

    async fn write_everything(&mut self) -> Result<(), StoreError> {
        if let Some(poisoned) = self.store.state.poisoned() {
            return Err(poisoned);
        }
        self.syncing = false;
        if let Some(sync) = self.start_sync() {
            self.finish_sync(sync.await)?;
        }
        self.write_all_queues().await?;
        let synced = self.close_index().await?;
        self.save_state_for_good(synced).await?;
        self.remove_segment_ahead().await?;
        let (disk, root) = (&self.store.env.disk, &self.store.options.root);
        disk.remove_file(&paths::abort(root)).map_err(StoreError::io("remove the abort marker"))?;
        disk.sync_dir(root).await.map_err(StoreError::io("sync the store's directory"))
    }

    async fn write_all_queues(&mut self) -> Result<(), StoreError> {
        let files = &self.store.files;
        while let Some(queue) = self.dirty.pop_front() {
            queue.write_tail(files, 0).map_err(StoreError::io("write a consume queue"))?;
        }
        files.sync(files.take_unsynced()).await.map_err(StoreError::io("sync the consume queues"))
    }

    /// Brings the index to disk. Returns what the queue table has to say about it.
    async fn close_index(&self) -> Result<(u64, u64), StoreError> {
        let Some(index) = &self.store.index else { return Ok((0, 0)) };
        let indexed = self.store.dispatched().0;
        if let Some(synced) = index.close().await.map_err(StoreError::index)? {
            self.store.index_synced.fetch_max(synced.0, Ordering::AcqRel);
        }
        Ok((index.next().0, indexed))
    }

    async fn save_state_for_good(&mut self, (index_next, indexed): (u64, u64)) -> Result<(), StoreError> {
        let (mut files, mut checkpoint) = self.upkeep.take_state()?;
        let table = QueueTable { index_next, indexed, ..self.queue_table() };
        let unsaved = |error| StoreError::io("save the queue table")(error);
        let table = table.encode().map_err(io::Error::other).map_err(unsaved)?;
        files.queue_table.save(&table).await.map_err(io::Error::other).map_err(unsaved)?;
        self.store.save_deleted_topics().await.map_err(StoreError::io("save the deleted topics"))?;
        checkpoint.logics_msg_timestamp = self.last_store_time;
        checkpoint.confirm_phy_offset = self.store.log.confirmed().min(self.store.log.flushed()) as i64;
        checkpoint.index_msg_timestamp = Millis(self.store.index_synced.load(Ordering::Acquire));
        files.checkpoint.save(&checkpoint).await.map_err(StoreError::io("save the checkpoint"))
    }
}
