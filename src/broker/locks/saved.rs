//! Locks on disk: `queueLocks.json`, our own file among RocketMQ's.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Lock, QueueLocks, LEASE_WITHOUT_CONNECTION_MS, UNKNOWN_MS};
use crate::broker::QueueKey;
use crate::env::{Canary, Millis};
use crate::proto::body::config_files::ConfigFile;

/// Who holds which queue. How long is not in it: every holder is given the time that a client can trust a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedLocks {
    /// There may be holders that are not named here.
    pub incomplete: bool,
    /// Queues by group, client and topic.
    pub groups: BTreeMap<String, BTreeMap<String, BTreeMap<String, Vec<i32>>>>,
}

/// A broker without the file knows nothing.
impl Default for SavedLocks {
    fn default() -> Self {
        SavedLocks { incomplete: true, groups: BTreeMap::new() }
    }
}

impl ConfigFile for SavedLocks {
    const NAME: &'static str = "queueLocks.json";
}

impl QueueLocks {
    /// The table of a broker that starts now: every client in the file holds what it held. Those of an `incomplete` one
    /// may be others, unless the broker `is_new` and never granted any.
    pub fn load(saved: SavedLocks, is_new: bool, limit: usize, now: Millis) -> QueueLocks {
        let mut locks = QueueLocks::new(limit);
        for (group, clients) in saved.groups {
            let queues = locks.groups.entry(group.into()).or_default();
            for (client, topics) in clients {
                let client: Arc<str> = client.into();
                let keys = topics.into_iter().flat_map(|(topic, ids)| {
                    let topic: Arc<str> = topic.into();
                    ids.into_iter().map(move |id| QueueKey::new(Arc::clone(&topic), id))
                });
                let lock = || Lock {
                    client: Arc::clone(&client),
                    connection: None,
                    granted: now,
                    lease_ms: LEASE_WITHOUT_CONNECTION_MS,
                    change: 0,
                };
                queues.extend(keys.map(|key| (key, lock())));
            }
        }
        locks.groups.retain(|_, queues| !queues.is_empty());
        locks.count = locks.groups.values().map(BTreeMap::len).sum();
        if saved.incomplete {
            // The next start finds a file that names everybody.
            locks.changes = 1;
            locks.unknown_until = (!is_new).then(|| now.plus(UNKNOWN_MS));
        }
        locks
    }

    /// Whether the clients may be told of locks that a change gave them.
    pub fn is_saved(&self, change: u64) -> bool {
        change <= self.saved || self.canaries.has(Canary::LocksNotSaved)
    }

    /// What is to be saved, and the change up to which it is complete; `None` if that is in the file already.
    pub fn unsaved(&self, now: Millis) -> Option<(SavedLocks, u64)> {
        if self.saved == self.changes || self.canaries.has(Canary::LocksNotSaved) {
            return None;
        }
        let mut saved = SavedLocks { incomplete: self.holders_are_unknown(now), ..SavedLocks::default() };
        for (group, locks) in &self.groups {
            let clients = saved.groups.entry(group.to_string()).or_default();
            for (queue, lock) in locks.iter().filter(|(_, lock)| lock.is_live(now)) {
                let topics = clients.entry(lock.client.to_string()).or_default();
                topics.entry(queue.topic.to_string()).or_default().push(queue.queue_id);
            }
        }
        saved.groups.retain(|_, clients| !clients.is_empty());
        Some((saved, self.changes))
    }

    /// The file holds all changes up to this one.
    pub fn on_saved(&mut self, change: u64) {
        self.saved = self.saved.max(change);
    }
}
