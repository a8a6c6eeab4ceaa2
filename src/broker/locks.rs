//! Queue locks of orderly consumers (LOCK_BATCH_MQ, UNLOCK_BATCH_MQ).
//!
//! A lock is a lease of one client of a group on one queue, held in memory only. It ends by being given back, or by not
//! being renewed. RocketMQ's clients renew every 20 s and stop trusting their own lock 30 s after the answer to the last
//! renewal, so the broker, which waits 60 s, never grants a queue to a second one while the first still works on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::env::{Canaries, Canary, Millis};

use super::{ConnectionId, QueueKey};

/// A lock not renewed for this long is free (`rocketmq.broker.rebalance.lockMaxLiveTime`).
pub const LEASE_MS: i64 = 60_000;

/// The lease of a client whose connection broke. The client may be alive and working, and trusts its lock for 30 s after
/// it got the answer, which it waits for 1 s at most; so the queue is free after this, and not at once (REB-2).
pub const LEASE_WITHOUT_CONNECTION_MS: i64 = 31_000;

/// The locks of all groups. `now` is monotonic time.
#[derive(Debug)]
pub struct QueueLocks {
    groups: BTreeMap<Arc<str>, BTreeMap<QueueKey, Lock>>,
    count: usize,
    limit: usize,
    canaries: Canaries,
}

#[derive(Debug)]
struct Lock {
    client: Arc<str>,
    connection: ConnectionId,
    /// Last granted at.
    granted: Millis,
    lease_ms: i64,
}

impl Lock {
    fn is_live(&self, now: Millis) -> bool {
        now.since(self.granted) <= self.lease_ms as u64
    }
}

impl QueueLocks {
    /// No locks yet. Beyond `limit` (`locksMax`) none is granted.
    pub fn new(limit: usize) -> QueueLocks {
        QueueLocks { groups: BTreeMap::new(), count: 0, limit, canaries: Canaries::default() }
    }

    /// The same table with planted bugs.
    pub fn with_canaries(self, canaries: Canaries) -> QueueLocks {
        QueueLocks { canaries, ..self }
    }

    /// Locks or renews each of `queues` for `client`; returns those it now holds.
    pub fn lock_batch(
        &mut self,
        group: &str,
        client: &str,
        connection: ConnectionId,
        queues: Vec<QueueKey>,
        now: Millis,
    ) -> Vec<QueueKey> {
        if !self.groups.contains_key(group) {
            self.groups.insert(group.into(), BTreeMap::new());
        }
        let Some(locks) = self.groups.get_mut(group) else { return Vec::new() };
        let client: Arc<str> = client.into();
        let mut held = Vec::with_capacity(queues.len());
        for queue in queues {
            let lock = Lock { client: client.clone(), connection, granted: now, lease_ms: LEASE_MS };
            match locks.get_mut(&queue) {
                Some(other) if other.client != client && self.canaries.has(Canary::LockForEver) => continue,
                Some(other)
                    if other.client != client && other.is_live(now) && !self.canaries.has(Canary::LockNotExclusive) =>
                {
                    continue
                }
                Some(other) if other.client == client && self.canaries.has(Canary::LockNotRenewed) => {}
                Some(other) => {
                    crate::sometimes!(other.client != client, "a lock that ran out went to another client");
                    *other = lock;
                }
                None if self.count >= self.limit => continue,
                None => {
                    self.count += 1;
                    locks.insert(queue.clone(), lock);
                }
            }
            held.push(queue);
        }
        if locks.is_empty() {
            self.groups.remove(group);
        }
        held
    }

    /// Gives back those of `queues` that `client` holds.
    pub fn unlock_batch(&mut self, group: &str, client: &str, queues: &[QueueKey]) {
        let Some(locks) = self.groups.get_mut(group) else { return };
        for queue in queues {
            let anybody = self.canaries.has(Canary::AnybodyUnlocks);
            if locks.get(queue).is_some_and(|lock| &*lock.client == client || anybody) {
                locks.remove(queue);
                self.count -= 1;
            }
        }
        if locks.is_empty() {
            self.groups.remove(group);
        }
    }

    /// A client left the group in an orderly way: it has stopped working, its locks are free.
    pub fn on_unregistered(&mut self, group: &str, client: &str) {
        self.retain(Some(group), |lock| &*lock.client != client);
    }

    /// A connection ended without a word: the locks granted over it end as soon as the client itself distrusts them.
    pub fn on_connection_closed(&mut self, connection: ConnectionId) {
        for lock in self.groups.values_mut().flat_map(BTreeMap::values_mut) {
            if lock.connection == connection {
                lock.lease_ms = match self.canaries.has(Canary::LockEndsWithConnection) {
                    true => 0,
                    false => LEASE_WITHOUT_CONNECTION_MS,
                };
            }
        }
    }

    /// The client that holds a queue for its group.
    pub fn holder(&self, group: &str, queue: &QueueKey, now: Millis) -> Option<&Arc<str>> {
        let lock = self.groups.get(group)?.get(queue)?;
        lock.is_live(now).then_some(&lock.client)
    }

    /// Whether the group holds any queue: then it consumes in order, and what it sends to its retry topic is meant for
    /// the dead letters.
    pub fn holds_any(&self, group: &str, now: Millis) -> bool {
        self.groups.get(group).is_some_and(|locks| locks.values().any(|lock| lock.is_live(now)))
    }

    /// Forgets what has run out. Locks end by themselves; this frees their memory.
    pub fn on_tick(&mut self, now: Millis) {
        if !self.canaries.has(Canary::LockForEver) {
            self.retain(None, |lock| lock.is_live(now));
        }
    }

    /// Locks held, expired ones not yet forgotten included.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn retain(&mut self, only: Option<&str>, keep: impl Fn(&Lock) -> bool) {
        self.groups.retain(|group, locks| {
            if only.is_none_or(|only| only == &**group) {
                locks.retain(|_, lock| keep(lock));
            }
            !locks.is_empty()
        });
        self.count = self.groups.values().map(BTreeMap::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ConnectionId = ConnectionId(1);
    const B: ConnectionId = ConnectionId(2);

    fn queue(queue_id: i32) -> QueueKey {
        QueueKey::new("orders", queue_id)
    }

    #[test]
    fn a_queue_has_one_holder() {
        let mut locks = QueueLocks::new(100);
        assert_eq!(locks.lock_batch("g", "a", A, vec![queue(0), queue(1)], Millis(0)), [queue(0), queue(1)]);
        assert_eq!(locks.lock_batch("g", "b", B, vec![queue(1), queue(2)], Millis(1)), [queue(2)]);
        assert_eq!(locks.lock_batch("other", "b", B, vec![queue(1)], Millis(1)), [queue(1)], "groups are apart");
        assert_eq!(locks.holder("g", &queue(1), Millis(1)).map(|c| &**c), Some("a"));
        locks.unlock_batch("g", "b", &[queue(1)]);
        assert_eq!(locks.holder("g", &queue(1), Millis(1)).map(|c| &**c), Some("a"), "only the holder gives back");
        locks.unlock_batch("g", "a", &[queue(1)]);
        assert_eq!(locks.lock_batch("g", "b", B, vec![queue(1)], Millis(2)), [queue(1)]);
        assert_eq!(locks.len(), 4);
        let mut full = QueueLocks::new(1);
        assert_eq!(full.lock_batch("g", "a", A, vec![queue(0), queue(1)], Millis(0)), [queue(0)]);
    }

    #[test]
    fn an_unrenewed_lock_is_free_after_60_seconds() {
        let mut locks = QueueLocks::new(100);
        locks.lock_batch("g", "a", A, vec![queue(0)], Millis(0));
        locks.lock_batch("g", "a", A, vec![queue(0)], Millis(20_000));
        assert_eq!(locks.lock_batch("g", "b", B, vec![queue(0)], Millis(80_000)), []);
        assert!(locks.holds_any("g", Millis(80_000)));
        assert!(!locks.holds_any("g", Millis(80_001)));
        assert_eq!(locks.lock_batch("g", "b", B, vec![queue(0)], Millis(80_001)), [queue(0)]);
        locks.on_tick(Millis(200_000));
        assert!(locks.is_empty());
    }

    /// REB-2: two consumers worked on one queue. A broken connection does not mean a dead consumer.
    #[test]
    fn reb_2_a_lock_outlives_its_connection_as_long_as_its_client_trusts_it() {
        let mut locks = QueueLocks::new(100);
        locks.lock_batch("g", "a", A, vec![queue(0)], Millis(0));
        locks.on_connection_closed(A);
        assert_eq!(locks.lock_batch("g", "b", B, vec![queue(0)], Millis(31_000)), []);
        assert_eq!(locks.lock_batch("g", "b", B, vec![queue(0)], Millis(31_001)), [queue(0)]);
        locks.on_connection_closed(A);
        assert!(locks.holder("g", &queue(0), Millis(90_000)).is_some(), "the old connection is not b's");
    }

    #[test]
    fn a_client_that_says_goodbye_frees_its_queues_at_once() {
        let mut locks = QueueLocks::new(100);
        locks.lock_batch("g", "a", A, vec![queue(0)], Millis(0));
        locks.lock_batch("h", "a", A, vec![queue(0)], Millis(0));
        locks.on_unregistered("g", "a");
        assert_eq!(locks.lock_batch("g", "b", B, vec![queue(0)], Millis(1)), [queue(0)]);
        assert!(locks.holds_any("h", Millis(1)));
    }
}
