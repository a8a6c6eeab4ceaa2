//! Pulls that wait for messages.
//!
//! A pull that found nothing may wait until its queue grows or its time is over; either way it is then carried out once
//! more. The registry keeps one session's or a whole broker's waiters: who waits for which queue, and until when.

use std::collections::{BTreeMap, BTreeSet};

use crate::env::Millis;
use crate::proto::QueueOffset;

use super::{ConnectionId, QueueKey};

/// A waiting request: its connection and a number the session gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaiterId {
    /// The connection the request came over.
    pub connection: ConnectionId,
    /// The session's number for it. Not the opaque, which a client may use twice.
    pub request: u64,
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The wanted offset exists now.
    Arrived(WaiterId),
    /// The time is over.
    Expired(WaiterId),
}

/// There is no room for another waiter: answer PULL_NOT_FOUND at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("as many pulls wait as may: {limit}")]
pub struct Full {
    /// The limit.
    pub limit: usize,
}

/// Waiting pulls. `now` is monotonic time.
#[derive(Debug)]
pub struct PullHold {
    queues: BTreeMap<QueueKey, Vec<(WaiterId, QueueOffset)>>,
    waiters: BTreeMap<WaiterId, (QueueKey, Millis)>,
    deadlines: BTreeSet<(Millis, WaiterId)>,
    limit: usize,
}

impl PullHold {
    /// A registry of at most `limit` waiters.
    pub fn new(limit: usize) -> PullHold {
        PullHold { queues: BTreeMap::new(), waiters: BTreeMap::new(), deadlines: BTreeSet::new(), limit }
    }

    /// Lets a pull wait until `queue` holds an entry at `from`, but not beyond `deadline`.
    pub fn park(&mut self, id: WaiterId, queue: QueueKey, from: QueueOffset, deadline: Millis) -> Result<(), Full> {
        self.remove(id);
        if self.waiters.len() >= self.limit {
            return Err(Full { limit: self.limit });
        }
        self.queues.entry(queue.clone()).or_default().push((id, from));
        self.deadlines.insert((deadline, id));
        self.waiters.insert(id, (queue, deadline));
        Ok(())
    }

    /// Wakes every waiter whose wanted offset now exists, that is, lies below `end`, in the order they came.
    pub fn on_arrival(&mut self, queue: &QueueKey, end: QueueOffset, out: &mut Vec<Wake>) {
        let Some(waiting) = self.queues.get_mut(queue) else { return };
        waiting.retain(|(id, from)| {
            if *from >= end {
                return true;
            }
            if let Some((_, deadline)) = self.waiters.remove(id) {
                self.deadlines.remove(&(deadline, *id));
            }
            out.push(Wake::Arrived(*id));
            false
        });
        if waiting.is_empty() {
            self.queues.remove(queue);
        }
    }

    /// Ends every wait whose deadline has come.
    pub fn on_tick(&mut self, now: Millis, out: &mut Vec<Wake>) {
        while let Some(&(deadline, id)) = self.deadlines.first() {
            if deadline > now {
                break;
            }
            self.remove(id);
            out.push(Wake::Expired(id));
        }
    }

    /// Drops the waits of a connection that ended. Nobody is left to be answered.
    pub fn on_connection_closed(&mut self, connection: ConnectionId) {
        let first = WaiterId { connection, request: 0 };
        let last = WaiterId { connection, request: u64::MAX };
        let gone: Vec<WaiterId> = self.waiters.range(first..=last).map(|(id, _)| *id).collect();
        for id in gone {
            self.remove(id);
        }
    }

    /// When to call [`PullHold::on_tick`] next.
    pub fn next_deadline(&self) -> Option<Millis> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Pulls that wait.
    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    fn remove(&mut self, id: WaiterId) {
        let Some((queue, deadline)) = self.waiters.remove(&id) else { return };
        self.deadlines.remove(&(deadline, id));
        if let Some(waiting) = self.queues.get_mut(&queue) {
            waiting.retain(|(waiter, _)| *waiter != id);
            if waiting.is_empty() {
                self.queues.remove(&queue);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(connection: u64, request: u64) -> WaiterId {
        WaiterId { connection: ConnectionId(connection), request }
    }

    fn queue(queue_id: i32) -> QueueKey {
        QueueKey::new("t", queue_id)
    }

    #[test]
    fn a_message_wakes_all_that_wait_for_its_queue_and_nobody_else() {
        let (mut hold, mut out) = (PullHold::new(10), Vec::new());
        hold.park(id(1, 1), queue(0), QueueOffset(10), Millis(15_000)).unwrap();
        hold.park(id(2, 1), queue(0), QueueOffset(10), Millis(15_000)).unwrap();
        hold.park(id(2, 2), queue(0), QueueOffset(11), Millis(15_000)).unwrap();
        hold.park(id(2, 3), queue(1), QueueOffset(10), Millis(15_000)).unwrap();
        hold.on_arrival(&queue(0), QueueOffset(11), &mut out);
        assert_eq!(out, [Wake::Arrived(id(1, 1)), Wake::Arrived(id(2, 1))]);
        out.clear();
        hold.on_tick(Millis(15_000), &mut out);
        assert_eq!(out, [Wake::Expired(id(2, 2)), Wake::Expired(id(2, 3))], "a woken one does not also expire");
        assert!(hold.is_empty());
    }

    #[test]
    fn a_full_registry_says_so() {
        let mut hold = PullHold::new(1);
        hold.park(id(1, 1), queue(0), QueueOffset(0), Millis(5)).unwrap();
        assert_eq!(hold.park(id(1, 2), queue(0), QueueOffset(0), Millis(5)), Err(Full { limit: 1 }));
        hold.park(id(1, 1), queue(0), QueueOffset(1), Millis(6)).expect("the same waiter takes its own place");
        assert_eq!(hold.next_deadline(), Some(Millis(6)));
    }

    /// RES-5: the table of waiters grew with every short-lived one.
    #[test]
    fn res_5_nothing_stays_of_waiters_that_ended() {
        let (mut hold, mut out) = (PullHold::new(100_000), Vec::new());
        for n in 0..10_000u64 {
            hold.park(id(n, n), queue(n as i32), QueueOffset(0), Millis(n as i64)).unwrap();
            match n % 3 {
                0 => hold.on_arrival(&queue(n as i32), QueueOffset(1), &mut out),
                1 => hold.on_tick(Millis(n as i64), &mut out),
                _ => hold.on_connection_closed(ConnectionId(n)),
            }
        }
        assert!(hold.is_empty() && hold.queues.is_empty() && hold.deadlines.is_empty());
        assert_eq!(out.len(), 6667);
    }
}
