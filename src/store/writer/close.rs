//! Closing the store.

use std::sync::Arc;

use super::LogWriter;
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
        let store = Arc::clone(&self.store);
        while let Some(queue) = self.dirty.pop_front() {
            queue.write_tail(&store.files, 0).map_err(StoreError::io("write a consume queue"))?;
        }
        let unsynced = store.files.take_unsynced();
        store.files.sync(unsynced).await.map_err(StoreError::io("sync the consume queues"))?;
        let (mut files, mut checkpoint) = self.upkeep.take_state()?;
        let table = QueueTable::of(&store.queues.all(), self.position).encode();
        files
            .queue_table
            .save(&table)
            .await
            .map_err(|error| StoreError::io("save the queue table")(std::io::Error::other(error)))?;
        checkpoint.logics_msg_timestamp = self.last_store_time;
        files.checkpoint.save(&checkpoint).await.map_err(StoreError::io("save the checkpoint"))?;
        self.remove_unused_segment().await?;
        let root = &store.options.root;
        store.env.disk.remove_file(&paths::abort(root)).map_err(StoreError::io("remove the abort marker"))?;
        store.env.disk.sync_dir(root).await.map_err(StoreError::io("sync the store's directory"))
    }

    /// A segment made ahead of time holds nothing.
    async fn remove_unused_segment(&mut self) -> Result<(), StoreError> {
        let Some(unused) = self.upkeep.take_unused().await else { return Ok(()) };
        let disk = &self.store.env.disk;
        disk.remove_file(unused.path()).map_err(StoreError::io("remove an unused segment"))?;
        let directory = &self.store.options.commit_log_dir;
        disk.sync_dir(directory).await.map_err(StoreError::io("sync the commit log's directory"))
    }
}
