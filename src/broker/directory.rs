//! Lookups that sessions make for every request, shared without a lock being held across anything.
//!
//! The owner of a table publishes each entry here as an immutable handle. A session keeps the handles it uses in a
//! [`Cache`] and asks the directory again only when its version has moved, so that the usual lookup is one load and one
//! search in a small map of its own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Published entries by name.
#[derive(Debug)]
pub struct Directory<V> {
    version: AtomicU64,
    entries: RwLock<HashMap<Arc<str>, Arc<V>>>,
}

impl<V> Default for Directory<V> {
    fn default() -> Self {
        Directory { version: AtomicU64::new(1), entries: RwLock::default() }
    }
}

impl<V> Directory<V> {
    /// The entry of that name.
    pub fn get(&self, name: &str) -> Option<Arc<V>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Moves with every change.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Publishes or replaces an entry.
    pub(super) fn publish(&self, name: Arc<str>, entry: Arc<V>) {
        self.entries.write().unwrap_or_else(PoisonError::into_inner).insert(name, entry);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Takes an entry back.
    pub(super) fn withdraw(&self, name: &str) {
        self.entries.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        self.version.fetch_add(1, Ordering::Release);
    }
}

/// The most entries a cache keeps; beyond it is emptied.
const CACHED_MAX: usize = 1024;

/// One session's view of a directory.
#[derive(Debug)]
pub struct Cache<V> {
    version: u64,
    entries: HashMap<Arc<str>, Arc<V>>,
    /// What was asked for last: mostly that is asked for again.
    recent: Option<(Arc<str>, Arc<V>)>,
}

impl<V> Default for Cache<V> {
    fn default() -> Self {
        Cache { version: 0, entries: HashMap::new(), recent: None }
    }
}

impl<V> Cache<V> {
    /// The entry of that name as the directory has it now. What is absent is looked up each time.
    pub fn get(&mut self, directory: &Directory<V>, name: &str) -> Option<&Arc<V>> {
        let version = directory.version();
        if version != self.version || self.entries.len() >= CACHED_MAX {
            self.entries.clear();
            self.recent = None;
            // Read before the lookups that follow: an entry published after this load makes the next call look again.
            self.version = version;
        }
        if self.recent.as_ref().is_none_or(|(recent, _)| **recent != *name) {
            self.recent = Some(match self.entries.get_key_value(name) {
                Some((name, entry)) => (Arc::clone(name), Arc::clone(entry)),
                None => {
                    let (name, entry): (Arc<str>, _) = (name.into(), directory.get(name)?);
                    self.entries.insert(Arc::clone(&name), Arc::clone(&entry));
                    (name, entry)
                }
            });
        }
        self.recent.as_ref().map(|(_, entry)| entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_follows_its_directory() {
        let (directory, mut cache) = (Directory::default(), Cache::default());
        assert_eq!(cache.get(&directory, "a"), None);
        directory.publish("a".into(), Arc::new(1));
        assert_eq!(cache.get(&directory, "a"), Some(&Arc::new(1)));
        directory.publish("a".into(), Arc::new(2));
        assert_eq!(cache.get(&directory, "a"), Some(&Arc::new(2)));
        directory.withdraw("a");
        assert_eq!(cache.get(&directory, "a"), None);
    }

    #[test]
    fn a_cache_is_bounded() {
        let (directory, mut cache) = (Directory::default(), Cache::default());
        for n in 0..CACHED_MAX * 3 {
            directory.publish(n.to_string().into(), Arc::new(n));
        }
        for n in 0..CACHED_MAX * 3 {
            assert_eq!(cache.get(&directory, &n.to_string()), Some(&Arc::new(n)));
            assert!(cache.entries.len() <= CACHED_MAX);
        }
    }
}
