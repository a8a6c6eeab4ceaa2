//! Deleting topics: by whoever has them, and at a slave, whose log is not where its master's was.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use super::consume_queue::ConsumeQueue;
use super::error::StoreError;
use super::handle::Store;
use super::paths;
use crate::proto::PhysicalOffset;

impl Store {
    /// Deletes the queues of a topic and their files; its records stay in the log until their segments expire. Gives
    /// back the dead handles, so that the caller can answer whoever is parked on them. A topic of the same name starts
    /// anew at offset 0. When this returns `Ok`, no crash brings the queues back; after an error one may, and deleting the
    /// topic again makes it sure.
    pub async fn delete_topic(&self, topic: &str) -> Result<Vec<Arc<ConsumeQueue>>, StoreError> {
        if !paths::is_directory_name(topic) {
            return Ok(Vec::new());
        }
        let removed = self.queues.remove_topic(topic);
        self.abandon(&removed);
        // From here on the writer takes nothing for these queues, and a new topic's records come behind.
        let log_end = self.log.end();
        let directory = paths::consume_queue_dir(&self.options.root);
        let its_own = directory.join(topic);
        // Before anything is waited for: a new topic of that name may make the directory again.
        let files_gone = match self.env.disk.exists(&its_own) {
            true => self.env.disk.remove_dir_all(&its_own),
            false => Ok(()),
        };
        let had_messages = removed.iter().any(|queue| queue.next() > 0);
        self.note_deleted(topic, had_messages.then_some(log_end)).await?;
        files_gone.map_err(StoreError::io("delete the topic's queues"))?;
        self.env.disk.sync_dir(&directory).await.map_err(StoreError::io("sync the queues' directory"))?;
        Ok(removed)
    }

    /// Deletes what a topic has of records below `deleted_at`: its master deleted it when the log ended there. What lies
    /// behind is a newer topic's of the same name, whose queues stay; what is still to come from below makes no queue.
    /// Otherwise as [`Store::delete_topic`].
    pub async fn delete_topic_below(
        &self,
        topic: &str,
        deleted_at: PhysicalOffset,
    ) -> Result<Vec<Arc<ConsumeQueue>>, StoreError> {
        if !paths::is_directory_name(topic) {
            return Ok(Vec::new());
        }
        // A queue's numbers begin anew with the topic, and the queue with them: none has records on both sides.
        let is_old = |queue: &ConsumeQueue| queue.extent().last_end <= deleted_at.0;
        let removed = self.queues.remove_some(topic, is_old);
        self.abandon(&removed);
        let (mut files_gone, directory) = (Ok(()), paths::consume_queue_dir(&self.options.root).join(topic));
        for queue in &removed {
            match self.env.disk.remove_dir_all(&directory.join(queue.id().to_string())) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => files_gone = Err(error),
                _ => {}
            }
        }
        self.note_deleted(topic, Some(deleted_at.0)).await?;
        files_gone.map_err(StoreError::io("delete the topic's queues"))?;
        if self.env.disk.exists(&directory) {
            self.env.disk.sync_dir(&directory).await.map_err(StoreError::io("sync the queues' directory"))?;
        }
        Ok(removed)
    }

    /// Where the log ended when topics were deleted of which it still has records.
    pub async fn deletions(&self) -> BTreeMap<Arc<str>, PhysicalOffset> {
        let deleted = self.deleted_topics.lock().await;
        deleted.ends().iter().map(|(topic, end)| (Arc::clone(topic), PhysicalOffset(end))).collect()
    }

    /// The topic's records below this belong to no queue.
    pub async fn deleted_at(&self, topic: &str) -> PhysicalOffset {
        PhysicalOffset(self.deleted_topics.lock().await.ends().of(topic))
    }

    /// Writes down which topics are deleted, if that could not be done at once or has changed with the log.
    pub(crate) async fn save_deleted_topics(&self) -> io::Result<()> {
        self.deleted_topics.lock().await.save(self.log.min()).await
    }

    fn abandon(&self, queues: &[Arc<ConsumeQueue>]) {
        for queue in queues {
            queue.mark_deleted();
            self.files.forget(queue);
        }
        self.queue_deleted.fetch_or(!queues.is_empty(), Ordering::AcqRel);
    }

    async fn note_deleted(&self, topic: &str, deleted_at: Option<u64>) -> Result<(), StoreError> {
        let mut deleted_topics = self.deleted_topics.lock().await;
        if let Some(deleted_at) = deleted_at {
            deleted_topics.add(topic, deleted_at);
        }
        deleted_topics.save(self.log.min()).await.map_err(StoreError::io("note that the topic is deleted"))
    }
}
