//! What a broker does, written down once more in the simplest way: one thread, no disk, no network, no concurrency.
//!
//! It shares no code with the product. Two things compare the product with it: the scenario `model` sends one request
//! after the other to both and compares every answer, and the checker [`follow`](crate::checkers::follow) reads the
//! history of every run and asks whether one such broker could have said and shown all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long a lock lasts that is not renewed.
const LEASE: Duration = Duration::from_secs(60);
/// The same for a client whose connection has ended.
const LEASE_WITHOUT_CONNECTION: Duration = Duration::from_secs(31);

/// What a client asks for. Groups are there from the beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// To store a message with a tag, or none.
    Send(Queue, u64, Option<String>),
    /// To read from an offset on, only messages with one of these tags; all if there are none.
    Pull(Queue, u64, BTreeSet<String>),
    /// For the beginning and the end of a queue.
    Range(Queue),
    /// A client wants a group's offset to be kept.
    Commit(String, String, Queue, u64),
    /// For a group's kept offset; if the last is true a group that has none begins a young queue at 0.
    Offset(String, Queue, bool),
    /// A client of a group wants to have queues for itself.
    Lock(String, String, BTreeSet<Queue>),
    /// A client of a group gives them back.
    Unlock(String, String, BTreeSet<Queue>),
    /// A client wants to be a member of a group.
    Join(String, String),
    /// A client wants to be none any more.
    Leave(String, String),
    /// For the members of a group.
    Members(String),
    /// To make a topic.
    MakeTopic(String),
    /// To remove it with all its messages.
    DeleteTopic(String),
}

/// A queue of a topic.
pub type Queue = (String, u32);

/// What a broker answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The message lies there.
    Stored(u64),
    /// Offsets and messages, and where to go on.
    Messages(Vec<(u64, u64)>, u64),
    /// Nothing there yet.
    NotFound,
    /// The offset is not in the queue; this one is.
    Moved(u64),
    /// There is something, but nothing with these tags up to here.
    NoMatch(u64),
    /// Beginning and end.
    Range(u64, u64),
    /// An offset, or none.
    Offset(Option<u64>),
    /// The queues that the client has now.
    Held(BTreeSet<Queue>),
    /// Names.
    Names(BTreeSet<String>),
    /// It is done.
    Done,
    /// There is no such topic.
    NoTopic,
    /// It asks for what cannot be.
    Refused,
}

/// One message in a queue.
#[derive(Clone, Debug)]
struct Stored {
    message: u64,
    tag: Option<String>,
}

/// A lock.
#[derive(Clone, Debug)]
struct Lock {
    client: String,
    granted: Duration,
    lease: Duration,
    /// The connection over which it was granted is still there.
    connected: bool,
}

impl Lock {
    fn is_live(&self, now: Duration) -> bool {
        now <= self.granted + self.lease
    }
}

/// The broker.
#[derive(Clone, Debug, Default)]
pub struct Model {
    topics: BTreeSet<String>,
    queues: BTreeMap<Queue, Vec<Stored>>,
    offsets: BTreeMap<(String, Queue), u64>,
    locks: BTreeMap<(String, Queue), Lock>,
    members: BTreeMap<String, BTreeSet<String>>,
}

impl Model {
    /// Answers a request that arrives at `now`.
    pub fn answer(&mut self, request: &Request, now: Duration) -> Answer {
        match request {
            Request::Send(queue, ..) | Request::Pull(queue, ..) | Request::Commit(_, _, queue, _)
                if !self.topics.contains(&queue.0) =>
            {
                Answer::NoTopic
            }
            Request::Send(queue, message, tag) => {
                let stored = self.queues.entry(queue.clone()).or_default();
                stored.push(Stored { message: *message, tag: tag.clone() });
                Answer::Stored(stored.len() as u64 - 1)
            }
            Request::Pull(queue, from, tags) => self.pull(queue, *from, tags),
            Request::Range(queue) => Answer::Range(0, self.end(queue)),
            // One above the end would have the group miss the messages between.
            Request::Commit(_, _, queue, offset) if *offset > self.end(queue) => Answer::Refused,
            Request::Commit(group, client, queue, offset) => {
                let key = (group.clone(), queue.clone());
                let lock = self.locks.get(&key).filter(|lock| lock.is_live(now));
                let holds = lock.is_some_and(|lock| lock.client == *client);
                match lock {
                    // A member that lost the queue to another one is late; it is not told.
                    Some(_) if !holds && self.is_member(group, client) => return Answer::Done,
                    // Nobody knows who this is: it may be one that lost the queue.
                    Some(lock) if !self.is_member(group, client) && !(holds && lock.connected) => {
                        return Answer::Refused
                    }
                    _ => {}
                }
                self.offsets.insert(key, *offset);
                Answer::Done
            }
            Request::Offset(group, queue, or_zero) => {
                let kept = self.offsets.get(&(group.clone(), queue.clone())).copied();
                let young = (*or_zero && self.topics.contains(&queue.0)).then_some(0);
                Answer::Offset(kept.or(young))
            }
            Request::Lock(group, client, queues) => {
                Answer::Held(queues.iter().filter(|queue| self.lock(group, client, queue, now)).cloned().collect())
            }
            Request::Unlock(group, client, queues) => {
                self.locks
                    .retain(|(of, queue), lock| !(of == group && lock.client == *client && queues.contains(queue)));
                Answer::Done
            }
            Request::Join(group, client) => {
                self.members.entry(group.clone()).or_default().insert(client.clone());
                Answer::Done
            }
            Request::Leave(group, client) => {
                // Who says goodbye frees what it holds; a stranger's goodbye means nothing.
                if self.members.entry(group.clone()).or_default().remove(client) {
                    self.locks.retain(|(of, _), lock| of != group || lock.client != *client);
                }
                Answer::Done
            }
            Request::Members(group) => Answer::Names(self.members.get(group).cloned().unwrap_or_default()),
            Request::MakeTopic(topic) => {
                self.topics.insert(topic.clone());
                Answer::Done
            }
            Request::DeleteTopic(topic) => {
                self.topics.remove(topic);
                self.queues.retain(|queue, _| queue.0 != *topic);
                self.offsets.retain(|(_, queue), _| queue.0 != *topic);
                Answer::Done
            }
        }
    }

    /// A client's connection ended: it is no member any more, and its locks will not last long.
    pub fn disconnected(&mut self, client: &str) {
        for members in self.members.values_mut() {
            members.remove(client);
        }
        for lock in self.locks.values_mut().filter(|lock| lock.client == client) {
            (lock.lease, lock.connected) = (LEASE_WITHOUT_CONNECTION, false);
        }
    }

    /// The process ended and was started again, so long ago that locks of before have run out: what is only in memory is gone.
    pub fn restarted(&mut self) {
        self.locks.clear();
        self.members.clear();
    }

    /// After a crash a group's offset may be an older one that was saved; `told` is the one that is there.
    pub fn adopt_offset(&mut self, group: &str, queue: &Queue, told: Option<u64>) {
        let key = (group.to_owned(), queue.clone());
        match told {
            Some(told) => drop(self.offsets.insert(key, told)),
            None => drop(self.offsets.remove(&key)),
        }
    }

    /// Whether a client is a member of a group.
    pub fn is_member(&self, group: &str, client: &str) -> bool {
        self.members.get(group).is_some_and(|members| members.contains(client))
    }

    /// A group's offset.
    pub fn offset(&self, group: &str, queue: &Queue) -> Option<u64> {
        self.offsets.get(&(group.to_owned(), queue.clone())).copied()
    }

    /// Where the next message of a queue goes.
    pub fn end(&self, queue: &Queue) -> u64 {
        self.queues.get(queue).map_or(0, |stored| stored.len() as u64)
    }

    fn pull(&self, queue: &Queue, from: u64, tags: &BTreeSet<String>) -> Answer {
        let end = self.end(queue);
        if from > end {
            return Answer::Moved(end);
        }
        let matches = |stored: &Stored| tags.is_empty() || stored.tag.as_ref().is_some_and(|tag| tags.contains(tag));
        let rest = self.queues.get(queue).map_or(&[][..], |stored| &stored[from as usize..]);
        let found = (from..).zip(rest).filter(|(_, stored)| matches(stored)).map(|(at, stored)| (at, stored.message));
        let found: Vec<(u64, u64)> = found.collect();
        match found.is_empty() {
            true if from == end => Answer::NotFound,
            true => Answer::NoMatch(end),
            false => Answer::Messages(found, end),
        }
    }

    fn lock(&mut self, group: &str, client: &str, queue: &Queue, now: Duration) -> bool {
        let key = (group.to_owned(), queue.clone());
        let foreign = self.locks.get(&key).is_some_and(|lock| lock.client != client && lock.is_live(now));
        if !foreign {
            self.locks.insert(key, Lock { client: client.to_owned(), granted: now, lease: LEASE, connected: true });
        }
        !foreign
    }
}

/// Whether a broker's answer is one that the model's allows: a pull may bring less than there is, but at least one
/// message, and must say where it stopped.
pub fn allows(expected: &Answer, got: &Answer) -> bool {
    match (expected, got) {
        (Answer::Messages(all, end), Answer::Messages(some, next)) => {
            let left_out = all.get(some.len()).map_or(*end, |(offset, _)| *offset);
            let last = some.last().map_or(0, |(offset, _)| offset + 1);
            !some.is_empty() && all.starts_with(some) && (last..=left_out).contains(next)
        }
        (Answer::NoMatch(end), Answer::NoMatch(next)) => next <= end,
        (expected, got) => expected == got,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Queue {
        ("orders".to_owned(), 0)
    }

    fn model() -> Model {
        let mut model = Model::default();
        model.answer(&Request::MakeTopic("orders".to_owned()), Duration::ZERO);
        for (message, tag) in [(1, Some("a")), (2, None), (3, Some("b"))] {
            let tag = tag.map(str::to_owned);
            model.answer(&Request::Send(queue(), message, tag), Duration::ZERO);
        }
        model
    }

    fn pull(model: &mut Model, from: u64, tags: &[&str]) -> Answer {
        let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        model.answer(&Request::Pull(queue(), from, tags), Duration::ZERO)
    }

    #[test]
    fn pulls_find_what_was_sent() {
        let mut model = model();
        assert_eq!(pull(&mut model, 0, &[]), Answer::Messages(vec![(0, 1), (1, 2), (2, 3)], 3));
        assert_eq!(pull(&mut model, 1, &["b"]), Answer::Messages(vec![(2, 3)], 3));
        assert_eq!(pull(&mut model, 1, &["a"]), Answer::NoMatch(3));
        assert_eq!(pull(&mut model, 3, &[]), Answer::NotFound);
        assert_eq!(pull(&mut model, 4, &[]), Answer::Moved(3));
        model.answer(&Request::DeleteTopic("orders".to_owned()), Duration::ZERO);
        assert_eq!(pull(&mut model, 0, &[]), Answer::NoTopic);
    }

    #[test]
    fn a_pull_may_bring_less_but_not_something_else() {
        let all = Answer::Messages(vec![(0, 1), (2, 3)], 4);
        for (got, right) in [
            (Answer::Messages(vec![(0, 1), (2, 3)], 4), true),
            (Answer::Messages(vec![(0, 1), (2, 3)], 3), true),
            (Answer::Messages(vec![(0, 1)], 2), true),
            (Answer::Messages(vec![(0, 1)], 3), false),
            (Answer::Messages(vec![(0, 1)], 0), false),
            (Answer::Messages(vec![(2, 3)], 4), false),
            (Answer::Messages(vec![], 0), false),
            (Answer::NotFound, false),
        ] {
            assert_eq!(allows(&all, &got), right, "{got:?}");
        }
    }

    #[test]
    fn locks_last_a_minute_or_as_long_as_a_lost_client_trusts_in_them() {
        let (mut model, second) = (model(), Duration::from_secs(1));
        let lock = |model: &mut Model, client: &str, at: u32| {
            let (group, queues) = ("g".to_owned(), BTreeSet::from([queue()]));
            let request = Request::Lock(group, client.to_owned(), queues);
            matches!(model.answer(&request, second * at), Answer::Held(held) if !held.is_empty())
        };
        assert!(lock(&mut model, "a", 0));
        assert!(!lock(&mut model, "b", 60));
        assert!(lock(&mut model, "b", 61));
        model.disconnected("b");
        assert!(!lock(&mut model, "a", 92));
        assert!(lock(&mut model, "a", 93));
        model.restarted();
        assert!(lock(&mut model, "b", 94));
    }
}
