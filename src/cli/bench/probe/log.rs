//! The probe's log: whole records in one mapped file whose pages are all present, and queue entries that point to them.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};

use crate::env::{Disk, Mapping, Millis, OpenMode};
use crate::proto::message::record::{MAGIC_V1, OVERHEAD_V1};

/// Bytes of the fields before the body, with IPv4 addresses.
const BEFORE_BODY: usize = 88;

/// Where a record is.
#[derive(Clone, Copy)]
struct Entry {
    at: u64,
    size: u32,
    /// Part of what a queue entry holds; nobody filters by it here.
    _tags_code: i64,
}

/// The log. When it is full it begins anew, with empty queues.
pub struct Log {
    mapping: Arc<dyn Mapping>,
    position: usize,
    topics: HashMap<Vec<u8>, usize>,
    queues: Vec<Vec<Entry>>,
}

/// Queues of one topic.
const QUEUES: usize = 16;

/// A message to be stored.
pub struct Message<'a> {
    /// Its topic.
    pub topic: &'a [u8],
    /// The queue's number within the topic.
    pub queue: i64,
    /// When it was made.
    pub born: i64,
    /// Its body.
    pub body: &'a [u8],
    /// Its properties.
    pub properties: &'a [u8],
    /// The time.
    pub stored: Millis,
}

impl Log {
    /// Makes the file and all its pages.
    pub fn create(disk: &dyn Disk, path: &Path, bytes: u64) -> Result<Log> {
        let file = disk.open(path, OpenMode::Truncate).with_context(|| format!("cannot make {}", path.display()))?;
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let mapping = runtime.block_on(async {
            file.allocate(bytes).await?;
            let mapping = file.map(bytes)?;
            mapping.prefault(0, mapping.len()).await;
            std::io::Result::Ok(mapping)
        });
        let mapping = mapping.with_context(|| format!("{} needs {bytes} bytes", path.display()))?;
        Ok(Log { mapping, position: 0, topics: HashMap::new(), queues: Vec::new() })
    }

    /// The handle of a topic's first queue; the others follow it.
    pub fn topic(&mut self, topic: &[u8]) -> usize {
        if let Some(first) = self.topics.get(topic) {
            return *first;
        }
        let first = self.queues.len();
        self.queues.resize_with(first + QUEUES, Vec::new);
        self.topics.insert(topic.to_vec(), first);
        first
    }

    /// Stores a message in the queues that begin with handle `first`; returns where, and its number in the queue.
    pub fn append(&mut self, first: usize, message: &Message<'_>) -> (u64, u64) {
        let Message { topic, body, properties, .. } = *message;
        let size = BEFORE_BODY + body.len() + 1 + topic.len() + 2 + properties.len();
        debug_assert_eq!(size - body.len() - topic.len() - properties.len(), OVERHEAD_V1);
        if self.position + size > self.mapping.len() {
            self.position = 0;
            self.queues.iter_mut().for_each(Vec::clear);
        }
        let at = self.position;
        let queue = &mut self.queues[first + message.queue.clamp(0, QUEUES as i64 - 1) as usize];
        let number = queue.len() as u64;
        let head = head(message, size as u32, at as u64, number);
        let mut position = at;
        for part in
            [&head[..], body, &[topic.len() as u8], topic, &(properties.len() as u16).to_be_bytes()[..], properties]
        {
            self.mapping.write(position, part);
            position += part.len();
        }
        self.position = position;
        queue.push(Entry { at: at as u64, size: size as u32, _tags_code: 2_598_919 });
        (at as u64, number)
    }

    /// Messages in a queue.
    pub fn len(&self, queue: usize) -> u64 {
        self.queues[queue].len() as u64
    }

    /// Appends up to `count` records from number `from` on to `out`; returns how many.
    pub fn read(&self, queue: usize, from: u64, count: usize, out: &mut Vec<u8>) -> u64 {
        let entries = self.queues[queue].iter().skip(from as usize).take(count);
        let mut read = 0;
        for entry in entries {
            self.mapping.append_to(entry.at as usize, entry.size as usize, out);
            read += 1;
        }
        read
    }
}

/// The fields before the body.
fn head(message: &Message<'_>, size: u32, at: u64, number: u64) -> [u8; BEFORE_BODY] {
    let host = [127, 0, 0, 1, 0, 0, 0x2A, 0x9F];
    let mut head = [0; BEFORE_BODY];
    let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &size.to_be_bytes());
    put(4, &MAGIC_V1.to_be_bytes());
    put(8, &(crc32fast::hash(message.body) & 0x7FFF_FFFF).to_be_bytes());
    put(12, &(message.queue as u32).to_be_bytes());
    put(20, &number.to_be_bytes());
    put(28, &at.to_be_bytes());
    put(40, &message.born.to_be_bytes());
    put(48, &host);
    put(56, &message.stored.0.to_be_bytes());
    put(64, &host);
    put(84, &(message.body.len() as u32).to_be_bytes());
    head
}
