//! Queue locks of orderly consumers (LOCK_BATCH_MQ, UNLOCK_BATCH_MQ).
//!
//! A lock is a lease of one client of a group on one queue. It ends by being given back, or by not being renewed.
//! RocketMQ's clients renew every 20 s and stop trusting their own lock 30 s after the answer to the last renewal, so the
//! broker, which waits 60 s, never grants a queue to a second one while the first still works on it.
//!
//! RocketMQ's broker forgets its locks when it ends, while their clients go on. Here a client is told of a new lock only
//! once it is saved that it is the holder (`queueLocks.json`); renewals change nothing in the file, and neither do locks
//! that end have to be saved at once. Whoever may trust a lock when a broker ends is therefore in its file, perhaps with
//! some that gave theirs back: the next life holds all of them for [`LEASE_WITHOUT_CONNECTION_MS`], as long as any of their
//! clients can rely on them, and a holder that comes back meanwhile goes on at once (REB-2).
//!
//! Where holders are not known, on a slave that becomes the master or without the file, nobody is given a lock for as long, and
//! 10 s more: a master that is cut off from its group grants for as long as that ([`HEARD_WITHIN_MS`]).

mod saved;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::env::{Canaries, Canary, Millis};

use super::{ConnectionId, QueueKey};

pub use saved::SavedLocks;

/// A lock not renewed for this long is free (`rocketmq.broker.rebalance.lockMaxLiveTime`).
pub const LEASE_MS: i64 = 60_000;

/// The lease of a client whose connection broke, with the broker's process for example. The client may be alive and
/// working, and trusts its lock for 30 s after it got the answer, which it waits for 1 s at most; so the queue is free after
/// this, and not at once (REB-2).
pub const LEASE_WITHOUT_CONNECTION_MS: i64 = 31_000;

/// A SYNC_MASTER gives out and renews locks for this long after it last heard enough of its slaves, or at a NameServer's word
/// that it still is the master: the others of its name leave it when one of them is promoted.
pub const HEARD_WITHIN_MS: u64 = 10_000;

/// How long somebody may trust a lock that was granted elsewhere, by a master that is cut off.
const UNKNOWN_MS: i64 = LEASE_WITHOUT_CONNECTION_MS + HEARD_WITHIN_MS as i64;

/// The locks of all groups. `now` is monotonic time.
#[derive(Debug)]
pub struct QueueLocks {
    groups: BTreeMap<Arc<str>, BTreeMap<QueueKey, Lock>>,
    count: usize,
    limit: usize,
    /// Until then somebody may trust a lock that nobody here knows of.
    unknown_until: Option<Millis>,
    /// Counts changes of who holds what.
    changes: u64,
    /// All changes up to this one are in the file.
    saved: u64,
    canaries: Canaries,
}

#[derive(Debug)]
struct Lock {
    client: Arc<str>,
    /// Over which it was granted last; none in this life of the broker.
    connection: Option<ConnectionId>,
    /// Last granted at.
    granted: Millis,
    lease_ms: i64,
    /// The change that made this client the holder.
    change: u64,
}

impl Lock {
    fn is_live(&self, now: Millis) -> bool {
        now.since(self.granted) <= self.lease_ms as u64
    }
}

/// What a client has locked.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Those of the queues asked for.
    pub queues: Vec<QueueKey>,
    /// The client may be told of them once this change is saved: [`QueueLocks::is_saved`].
    pub change: u64,
}

/// Who holds a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The client.
    pub client: Arc<str>,
    /// Over which its lock was granted last, if that was in this life of the broker.
    pub connection: Option<ConnectionId>,
}

impl QueueLocks {
    /// No locks yet. Beyond `limit` (`locksMax`) none is granted.
    pub fn new(limit: usize) -> QueueLocks {
        QueueLocks {
            groups: BTreeMap::new(),
            count: 0,
            limit,
            unknown_until: None,
            changes: 0,
            saved: 0,
            canaries: Canaries::default(),
        }
    }

    /// The same table with planted bugs.
    pub fn with_canaries(self, canaries: Canaries) -> QueueLocks {
        let unknown_until = self.unknown_until.filter(|_| !canaries.has(Canary::LocksNotSaved));
        QueueLocks { canaries, unknown_until, ..self }
    }

    /// Locks or renews each of `queues` for `client`; returns those it now holds.
    pub fn lock_batch(
        &mut self,
        group: &str,
        client: &str,
        connection: ConnectionId,
        queues: Vec<QueueKey>,
        now: Millis,
    ) -> Held {
        if self.holders_are_unknown(now) {
            return Held::default();
        }
        if !self.groups.contains_key(group) {
            self.groups.insert(group.into(), BTreeMap::new());
        }
        let Some(locks) = self.groups.get_mut(group) else { return Held::default() };
        let client: Arc<str> = client.into();
        let mut held = Held { queues: Vec::with_capacity(queues.len()), change: 0 };
        let next = self.changes + 1;
        for queue in queues {
            let connection = Some(connection);
            let mut lock = Lock { client: client.clone(), connection, granted: now, lease_ms: LEASE_MS, change: next };
            match locks.get_mut(&queue) {
                Some(other) if other.client != client && self.canaries.has(Canary::LockForEver) => continue,
                Some(other)
                    if other.client != client && other.is_live(now) && !self.canaries.has(Canary::LockNotExclusive) =>
                {
                    continue
                }
                Some(other) if other.client == client && self.canaries.has(Canary::LockNotRenewed) => {
                    lock.change = other.change;
                }
                Some(other) => {
                    crate::sometimes!(other.client != client, "a lock that ran out went to another client");
                    // One that ran out may have left the file already.
                    if other.client == client && other.is_live(now) {
                        lock.change = other.change;
                    }
                    held.change = held.change.max(lock.change);
                    *other = lock;
                }
                None if self.count >= self.limit => continue,
                None => {
                    self.count += 1;
                    held.change = next;
                    locks.insert(queue.clone(), lock);
                }
            }
            held.queues.push(queue);
        }
        if held.change == next {
            self.changes = next;
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
                self.changes += 1;
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
            if lock.connection == Some(connection) {
                lock.lease_ms = match self.canaries.has(Canary::LockEndsWithConnection) {
                    true => 0,
                    false => LEASE_WITHOUT_CONNECTION_MS,
                };
            }
        }
    }

    /// This broker takes the place of another one, whose locks it does not know: nobody is given a queue until all that
    /// were granted there have run out.
    pub fn on_promoted(&mut self, now: Millis) {
        self.groups.clear();
        self.count = 0;
        self.changes += 1;
        if !self.canaries.has(Canary::PromotedLocksAtOnce) {
            self.unknown_until = Some(now.plus(UNKNOWN_MS));
        }
    }

    /// The client that holds a queue for its group: only its commits count.
    pub fn holder(&self, group: &str, queue: &QueueKey, now: Millis) -> Option<Holder> {
        let lock = self.groups.get(group)?.get(queue)?;
        lock.is_live(now).then(|| Holder { client: Arc::clone(&lock.client), connection: lock.connection })
    }

    /// Whether the group holds any queue: then it consumes in order, and what it sends to its retry topic is meant for
    /// the dead letters.
    pub fn holds_any(&self, group: &str, now: Millis) -> bool {
        self.groups.get(group).is_some_and(|locks| locks.values().any(|lock| lock.is_live(now)))
    }

    /// Forgets what has run out. Locks end by themselves; this frees their memory.
    pub fn on_tick(&mut self, now: Millis) {
        if self.unknown_until.take_if(|until| now > *until).is_some() {
            self.changes += 1;
        }
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

    fn holders_are_unknown(&self, now: Millis) -> bool {
        self.unknown_until.is_some_and(|until| now <= until)
    }

    fn retain(&mut self, only: Option<&str>, keep: impl Fn(&Lock) -> bool) {
        let before = self.count;
        self.groups.retain(|group, locks| {
            if only.is_none_or(|only| only == &**group) {
                locks.retain(|_, lock| keep(lock));
            }
            !locks.is_empty()
        });
        self.count = self.groups.values().map(BTreeMap::len).sum();
        if self.count != before {
            self.changes += 1;
        }
    }
}
