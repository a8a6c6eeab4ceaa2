//! De-duplication: a send that was tried again because its answer was lost is answered with its first result.
//!
//! The table knows the newest sends with a key of their own (UNIQ_KEY), up to a number of keys, each for as long as its
//! topic's window. The log writer asks it right before a record would get its offsets, so nothing comes between the
//! question and the answer. A key that was stored counts only while its message is there: one whose topic was deleted, or
//! that has expired, is stored again.
//!
//! The table is in memory and derived: [`rebuild`](rebuild::rebuild) makes it from the queues of topics that have a window.
//! A key takes about 110 bytes, and once the table has grown nothing is allocated.

mod rebuild;

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;

use super::batch::{AppendItem, Stored};
use super::consume_queue::ConsumeQueue;
use crate::env::Millis;
use crate::proto::{PhysicalOffset, QueueOffset};

pub use rebuild::{rebuild, Windows};

/// The longest window: a week, in ms.
pub const WINDOW_MS_MAX: i64 = 7 * 24 * 3_600_000;

/// What a send is known by, made by its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UniqueSend {
    key: (u64, u64),
    window_ms: u32,
    /// The queue that its answer names: not where the record lies if the message is delayed.
    queue_id: u32,
}

impl UniqueSend {
    /// A send to a queue of `topic`, remembered for `window_ms`; `None` if the topic has no window.
    pub fn new(topic: &str, unique_key: &str, window_ms: i64, queue_id: i32) -> Option<UniqueSend> {
        let window_ms = u32::try_from(window_ms.min(WINDOW_MS_MAX)).ok().filter(|window| *window > 0)?;
        let half = |number: u8| {
            let mut hasher = DefaultHasher::new();
            (number, topic, unique_key).hash(&mut hasher);
            hasher.finish()
        };
        Some(UniqueSend { key: (half(0), half(1)), window_ms, queue_id: u32::try_from(queue_id).ok()? })
    }
}

/// A stored send.
#[derive(Clone, Debug)]
struct Entry {
    send: UniqueSend,
    queue: Arc<ConsumeQueue>,
    offset: QueueOffset,
    physical: PhysicalOffset,
    len: u32,
    stored: Millis,
}

impl Entry {
    fn is_over(&self, now: Millis) -> bool {
        now.since(self.stored) > u64::from(self.send.window_ms)
    }

    fn result(&self) -> Stored {
        Stored {
            physical: self.physical,
            end: PhysicalOffset(self.physical.0 + u64::from(self.len)),
            queue_offset: self.offset,
            store_time: self.stored,
            repeated_in: Some(self.send.queue_id),
        }
    }
}

/// See the module's text. `now` is the time by which records are stored.
#[derive(Debug, Default)]
pub struct Deduplication {
    /// In the order of the log.
    entries: VecDeque<Entry>,
    /// Where an entry is, counted from the first one that ever was.
    places: HashMap<(u64, u64), u64, BuildHasherDefault<KeyHasher>>,
    /// The number of the first entry.
    first: u64,
    keys_max: usize,
}

impl Deduplication {
    /// An empty table of at most `keys_max` keys.
    pub fn new(keys_max: usize) -> Deduplication {
        Deduplication { keys_max, ..Deduplication::default() }
    }

    /// Keys that are known.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether a unit was stored before: each of its items, with offsets in a row in one queue. A batch of which only a
    /// part is known is no repetition of anything.
    pub(super) fn repeats(&self, group: &[AppendItem], now: Millis) -> bool {
        let Some(first) = group.first().and_then(|item| self.find(item, now)) else { return false };
        group.iter().enumerate().skip(1).all(|(at, item)| {
            let entry = self.find(item, now);
            entry.is_some_and(|entry| {
                Arc::ptr_eq(&entry.queue, &first.queue) && entry.offset.0 == first.offset.0 + at as u64
            })
        })
    }

    /// The first results of a unit that [repeats](Deduplication::repeats).
    pub(super) fn first_results<'a>(
        &'a self,
        group: &'a [AppendItem],
        now: Millis,
    ) -> impl Iterator<Item = Stored> + 'a {
        group.iter().filter_map(move |item| self.find(item, now)).map(Entry::result)
    }

    /// Remembers what an item has become.
    pub(super) fn remember(&mut self, item: &AppendItem, stored: &Stored) {
        let Some(send) = item.unique else { return };
        let (queue, len) = (Arc::clone(&item.queue), item.len as u32);
        let (offset, physical) = (stored.queue_offset, stored.physical);
        self.push(Entry { send, queue, offset, physical, len, stored: stored.store_time });
    }

    fn find(&self, item: &AppendItem, now: Millis) -> Option<&Entry> {
        let send = item.unique?;
        let at = self.places.get(&send.key)?.checked_sub(self.first)?;
        let entry = self.entries.get(usize::try_from(at).ok()?)?;
        let within = now.since(entry.stored) <= u64::from(send.window_ms);
        let is_there = !entry.queue.is_deleted() && entry.offset >= entry.queue.min();
        (within && is_there).then_some(entry)
    }

    fn push(&mut self, entry: Entry) {
        while self
            .entries
            .front()
            .is_some_and(|first| self.entries.len() >= self.keys_max || first.is_over(entry.stored))
        {
            self.pop();
        }
        if self.keys_max == 0 {
            return;
        }
        self.places.insert(entry.send.key, self.first + self.entries.len() as u64);
        self.entries.push_back(entry);
    }

    fn pop(&mut self) {
        let Some(entry) = self.entries.pop_front() else { return };
        if self.places.get(&entry.send.key) == Some(&self.first) {
            self.places.remove(&entry.send.key);
        }
        self.first += 1;
    }
}

/// Keys are hashes already: their second half is as good as all.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, half: u64) {
        self.0 = half;
    }
}
