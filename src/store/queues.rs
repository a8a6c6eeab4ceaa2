//! All consume queues of a store, by topic and number.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use super::consume_queue::ConsumeQueue;
use super::error::StoreError;

/// The queues. Looked up once per session and queue, not once per message.
pub(crate) struct Queues {
    max: AtomicUsize,
    inner: RwLock<Inner>,
}

#[derive(Default)]
struct Inner {
    topics: BTreeMap<Arc<str>, BTreeMap<u32, Arc<ConsumeQueue>>>,
    count: usize,
    next_serial: u32,
}

impl Queues {
    pub(crate) fn new(max: usize) -> Queues {
        Queues { max: AtomicUsize::new(max), inner: RwLock::default() }
    }

    /// Changes the limit; what is there stays.
    pub(crate) fn set_max(&self, max: usize) {
        self.max.store(max, Ordering::Relaxed);
    }

    pub(crate) fn get(&self, topic: &str, id: u32) -> Option<Arc<ConsumeQueue>> {
        self.read().topics.get(topic)?.get(&id).cloned()
    }

    pub(crate) fn get_or_create(&self, topic: &str, id: u32) -> Result<Arc<ConsumeQueue>, StoreError> {
        if let Some(queue) = self.get(topic, id) {
            return Ok(queue);
        }
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let inner = &mut *inner;
        let topic: Arc<str> = match inner.topics.get_key_value(topic) {
            Some((topic, _)) => Arc::clone(topic),
            None => topic.into(),
        };
        if let Some(queue) = inner.topics.get(&topic).and_then(|queues| queues.get(&id)) {
            return Ok(Arc::clone(queue));
        }
        let limit = self.max.load(Ordering::Relaxed);
        if inner.count >= limit {
            return Err(StoreError::TooManyQueues { limit });
        }
        let queue = Arc::new(ConsumeQueue::new(Arc::clone(&topic), id, inner.next_serial));
        inner.next_serial = inner.next_serial.wrapping_add(1);
        inner.count += 1;
        inner.topics.entry(topic).or_default().insert(id, Arc::clone(&queue));
        Ok(queue)
    }

    /// Takes a topic's queues out.
    pub(crate) fn remove_topic(&self, topic: &str) -> Vec<Arc<ConsumeQueue>> {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let removed: Vec<_> = inner.topics.remove(topic).into_iter().flat_map(BTreeMap::into_values).collect();
        inner.count -= removed.len();
        removed
    }

    /// Takes those of a topic's queues out that are to go.
    pub(crate) fn remove_some(&self, topic: &str, goes: impl Fn(&ConsumeQueue) -> bool) -> Vec<Arc<ConsumeQueue>> {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let Some(queues) = inner.topics.get_mut(topic) else { return Vec::new() };
        let removed: Vec<_> = queues.values().filter(|queue| goes(queue)).cloned().collect();
        queues.retain(|_, queue| !removed.iter().any(|gone| Arc::ptr_eq(gone, queue)));
        if queues.is_empty() {
            inner.topics.remove(topic);
        }
        inner.count -= removed.len();
        removed
    }

    pub(crate) fn of_topic(&self, topic: &str) -> Vec<Arc<ConsumeQueue>> {
        self.read().topics.get(topic).into_iter().flat_map(BTreeMap::values).cloned().collect()
    }

    pub(crate) fn topics(&self) -> Vec<Arc<str>> {
        self.read().topics.keys().cloned().collect()
    }

    /// Every queue, in order of topic and number.
    pub(crate) fn all(&self) -> Vec<Arc<ConsumeQueue>> {
        self.read().topics.values().flat_map(BTreeMap::values).cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.read().count
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }
}
