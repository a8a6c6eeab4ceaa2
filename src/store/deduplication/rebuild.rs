//! The table of a broker that starts, or becomes the master.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::{Deduplication, Entry, UniqueSend, WINDOW_MS_MAX};
use crate::env::Millis;
use crate::proto::message::record::{self, BodyCrc, Parsed};
use crate::proto::message::{properties, system};
use crate::proto::{PhysicalOffset, QueueOffset};
use crate::store::consume_queue::ConsumeQueue;
use crate::store::error::StoreError;
use crate::store::{Boundary, Store};

/// Entries of a queue that are looked at together.
const BLOCK: usize = 1024;

/// The windows of all topics.
pub struct Windows<F> {
    /// A topic's, in ms; 0 for none.
    pub of: F,
    /// The longest of them, in ms.
    pub longest_ms: i64,
}

/// Reads which sends were stored within the windows of their topics, the newest `keys_max` of them: from the queues of
/// those topics and of delayed messages, backwards in time as far as the windows reach, and nothing else of the log.
/// What is not confirmed yet counts: a broker that becomes the master has it, and will confirm it.
///
/// # Errors
/// If the store cannot be read.
pub fn rebuild(
    store: &Store,
    windows: &Windows<impl Fn(&str) -> i64>,
    keys_max: usize,
    now: Millis,
) -> Result<Deduplication, StoreError> {
    let mut newest = Newest { sends: BinaryHeap::new(), max: keys_max };
    for topic in store.topics() {
        let window = match &*topic == system::SCHEDULE_TOPIC {
            true => windows.longest_ms,
            false => (windows.of)(&topic),
        };
        if window > 0 {
            for queue in store.queues_of(&topic) {
                newest.read(store, &queue, now.plus(-window.min(WINDOW_MS_MAX)), &windows.of)?;
            }
        }
    }
    let mut table = Deduplication::new(keys_max);
    for Reverse(Found { entry, .. }) in newest.sends.into_sorted_vec().into_iter().rev() {
        if !entry.is_over(now) {
            table.push(entry);
        }
    }
    Ok(table)
}

/// The newest sends; the oldest of them on top.
struct Newest {
    sends: BinaryHeap<Reverse<Found>>,
    max: usize,
}

impl Newest {
    fn read(
        &mut self,
        store: &Store,
        queue: &Arc<ConsumeQueue>,
        since: Millis,
        window_ms: &impl Fn(&str) -> i64,
    ) -> Result<(), StoreError> {
        let found = store.offset_by_time(queue, since, Boundary::Lower)?;
        let end = queue.next();
        let mut next = found.0.max(end.saturating_sub(self.max as u64));
        let (mut entries, mut bytes) = (Vec::new(), Vec::new());
        while next < end {
            entries.clear();
            store.entries_unconfirmed_too(queue, QueueOffset(next), BLOCK, &mut entries)?;
            for (offset, entry) in entries.drain(..) {
                bytes.clear();
                store.record_at(entry.physical, &mut bytes)?;
                if let Some((send, stored)) = unique_send(&bytes, window_ms) {
                    let (queue, len, physical) = (Arc::clone(queue), bytes.len() as u32, entry.physical);
                    self.add(Entry { send, queue, offset, physical, len, stored });
                }
            }
            next += BLOCK as u64;
        }
        Ok(())
    }

    fn add(&mut self, entry: Entry) {
        self.sends.push(Reverse(Found { physical: entry.physical, entry }));
        if self.sends.len() > self.max {
            self.sends.pop();
        }
    }
}

/// Compared by its place in the log.
struct Found {
    physical: PhysicalOffset,
    entry: Entry,
}

impl PartialEq for Found {
    fn eq(&self, other: &Self) -> bool {
        self.physical == other.physical
    }
}

impl Eq for Found {}

impl PartialOrd for Found {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Found {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.physical.cmp(&other.physical)
    }
}

/// The send that a record comes from, and when it was stored; a delayed message's is the one to its real topic. What a broker
/// put there by itself, a delayed message that was due or a committed one, was sent when its original was.
fn unique_send(bytes: &[u8], window_ms: &impl Fn(&str) -> i64) -> Option<(UniqueSend, Millis)> {
    let Ok(Parsed::Record(message)) = record::parse(bytes, BodyCrc::Trust) else { return None };
    let (topic, text) = (message.topic(), message.properties());
    let key = properties::find(&text, properties::UNIQ_KEY)?;
    if message.reconsume_times() > 0 {
        return None;
    }
    let real_topic = properties::find(&text, properties::REAL_TOPIC);
    let (topic, queue_id) = match (&*topic == system::SCHEDULE_TOPIC, real_topic) {
        (true, Some(real_topic)) => (real_topic, properties::find(&text, properties::REAL_QUEUE_ID)?.parse().ok()?),
        (false, None) => (&*topic, message.queue_id()),
        _ => return None,
    };
    Some((UniqueSend::new(topic, key, window_ms(topic), queue_id)?, message.store_timestamp()))
}
