//! A consume queue: the messages of one (topic, queue id) in order, as entries that point into the commit log.
//!
//! ```text
//!   min ........ max ........ next          min ≤ max ≤ next
//!    |  consumers |  stored,   |
//!    |  see these |  not yet   |
//!    |            |  confirmed |
//!         written ----+
//!         first --+   |                     entries below `written` are in the queue's files,
//!                 [ tail in memory )        those from `first` on in memory
//! ```
//!
//! Only the log writer adds entries. Readers hold the queue by an `Arc` and look at the atomics; the short lock guards
//! the tail. Entries derive from the log, so they are written to files late and in pieces, and recovery makes them again.

mod entry;
mod files;
pub(crate) mod search;
mod tail;
mod waiters;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use entry::{QueueEntry, CQ_UNIT_SIZE};
pub(crate) use files::QueueFiles;
use tail::Tail;
use waiters::Waiters;
pub use waiters::{Waiter, WaiterId};

use crate::proto::QueueOffset;

/// One queue of a topic. See the module's text for who may do what.
pub struct ConsumeQueue {
    topic: Arc<str>,
    id: u32,
    /// Distinguishes the queues of one store, also those of a topic that was deleted and made again.
    serial: u32,
    min: AtomicU64,
    max: AtomicU64,
    next: AtomicU64,
    deleted: AtomicBool,
    waiters: Waiters,
    tail: Mutex<Tail>,
}

/// Entries copied out of a queue.
pub(crate) struct EntryBlock {
    bytes: [u8; EntryBlock::CAPACITY * CQ_UNIT_SIZE],
    len: usize,
}

/// What recovery and the queue table know of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct QueueExtent {
    /// First entry a consumer may ask for.
    pub min: u64,
    /// Number of the next entry.
    pub next: u64,
    /// Where the newest record of the queue ends in the log; 0 if unknown.
    pub last_end: u64,
}

impl ConsumeQueue {
    /// A queue without any entry.
    pub(crate) fn new(topic: Arc<str>, id: u32, serial: u32) -> ConsumeQueue {
        ConsumeQueue {
            topic,
            id,
            serial,
            min: AtomicU64::new(0),
            max: AtomicU64::new(0),
            next: AtomicU64::new(0),
            deleted: AtomicBool::new(false),
            waiters: Waiters::default(),
            tail: Mutex::new(Tail::default()),
        }
    }

    /// The topic.
    pub fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    /// The queue's number within the topic.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The first message that can be read; equal to [`ConsumeQueue::max`] if there is none.
    pub fn min(&self) -> QueueOffset {
        QueueOffset(self.min.load(Ordering::Acquire))
    }

    /// One above the last message that consumers may see.
    pub fn max(&self) -> QueueOffset {
        QueueOffset(self.max.load(Ordering::Acquire))
    }

    /// True once the topic was deleted: nothing is stored under this handle any more.
    pub fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::Acquire)
    }

    /// Parks a reader that has seen everything below `from`: `waiter` is called once, from the log writer, with the
    /// new maximum, as soon as that is above `from`. If it is already, `waiter` comes back and nothing is parked.
    pub fn add_waiter(&self, from: QueueOffset, waiter: Waiter) -> Result<WaiterId, Waiter> {
        let id = self.waiters.add(from, waiter);
        // The writer publishes, fences and looks for waiters; here a waiter is added, and then the length is looked at.
        // One of the two sees the other.
        std::sync::atomic::fence(Ordering::SeqCst);
        if self.max() > from || self.is_deleted() {
            if let Some(waiter) = self.waiters.remove(id) {
                return Err(waiter);
            }
        }
        Ok(id)
    }

    /// Takes a parked reader back, because it has waited long enough; `None` if it has been called.
    pub fn remove_waiter(&self, id: WaiterId) -> Option<Waiter> {
        self.waiters.remove(id)
    }

    /// Takes all parked readers, to answer them otherwise: at shutdown, when the topic goes.
    pub fn take_waiters(&self) -> Vec<Waiter> {
        self.waiters.take_all()
    }

    /// Readers that are parked.
    pub fn waiting(&self) -> usize {
        self.waiters.len()
    }

    pub(crate) fn serial(&self) -> u32 {
        self.serial
    }

    /// Number of the next entry. Only the log writer and recovery change it.
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    pub(crate) fn set_next(&self, next: u64) {
        self.next.store(next, Ordering::Relaxed);
    }

    /// Adds the entry with number `at`, which is the tail's end. Returns how many entries are to be written to the
    /// queue's files.
    pub(crate) fn push(&self, at: u64, entry: &QueueEntry) -> usize {
        let mut tail = self.tail();
        // A deleted topic takes its queues' entries with it.
        if self.is_deleted() {
            return 0;
        }
        tail.push(at, entry);
        tail.unwritten()
    }

    /// Makes everything below `max` visible and wakes who waited for it.
    pub(crate) fn publish(&self, max: u64) {
        self.max.store(max, Ordering::Release);
        std::sync::atomic::fence(Ordering::SeqCst);
        if self.waiters.any() {
            self.waiters.wake(QueueOffset(max));
        }
    }

    pub(crate) fn mark_deleted(&self) {
        self.deleted.store(true, Ordering::Release);
        *self.tail() = Tail::default();
    }

    /// Sets everything, as recovery found it: entries below `extent.next` are in the files from byte `first_file` on.
    pub(crate) fn restore(&self, extent: QueueExtent, first_file: Option<u64>) {
        *self.tail() = Tail::restored(extent, first_file);
        self.min.store(extent.min, Ordering::Release);
        self.next.store(extent.next, Ordering::Relaxed);
        self.max.store(extent.next, Ordering::Release);
    }

    /// Raises the minimum; it never falls and never passes the maximum.
    pub(crate) fn raise_min(&self, min: u64) {
        let min = min.min(self.max.load(Ordering::Acquire));
        self.min.fetch_max(min, Ordering::AcqRel);
    }

    /// Before anybody reads: entries from `max` on are not confirmed yet.
    pub(crate) fn lower_max(&self, max: u64) {
        self.max.store(max, Ordering::Release);
    }

    /// All its records have expired: its files go, and its numbers go on.
    pub(crate) fn forget_all(&self, files: &QueueFiles) -> io::Result<()> {
        for base in files.bases(self)? {
            files.remove(self, base)?;
        }
        let next = self.next();
        self.restore(QueueExtent { min: next, next, last_end: 0 }, None);
        Ok(())
    }

    /// Takes back the entries from `next` on, which nobody may see yet.
    pub(crate) fn cut(&self, files: &QueueFiles, next: u64) -> io::Result<()> {
        assert!(self.max().0 <= next, "what is confirmed is never taken back");
        let last_end = match next.checked_sub(1) {
            Some(last) => self.entry(files, last)?.map_or(0, |entry| entry.end().0),
            None => 0,
        };
        let written_beyond = self.tail().cut(next, last_end);
        self.set_next(next);
        if written_beyond {
            let bases = files.bases(self)?;
            files.cut(self, next * CQ_UNIT_SIZE as u64, &bases)?;
            if bases.iter().all(|base| *base >= next * CQ_UNIT_SIZE as u64) {
                self.set_first_file(None);
            }
        }
        Ok(())
    }

    /// Writes what is not in the files yet and keeps at most `keep` entries in memory.
    pub(crate) fn write_tail(&self, files: &QueueFiles, keep: usize) -> io::Result<()> {
        let mut tail = self.tail();
        // With the lock held: whoever deletes the topic waits for it before the files go.
        if self.is_deleted() {
            return Ok(());
        }
        tail.write(self, files, keep)
    }

    /// Gives the tail's memory back if nothing is left to write.
    pub(crate) fn rest(&self) {
        self.tail().forget_written(0);
    }

    /// Everything that has been added, whether it is in the files or not.
    pub(crate) fn extent(&self) -> QueueExtent {
        let tail = self.tail();
        QueueExtent { min: self.min().0, next: tail.next(), last_end: tail.last_end() }
    }

    /// Byte at which the first file begins; `None` if there is no file.
    pub(crate) fn first_file(&self) -> Option<u64> {
        self.tail().first_file
    }

    pub(crate) fn set_first_file(&self, base: Option<u64>) {
        self.tail().first_file = base;
    }

    /// Copies entries from number `from` on, at most [`EntryBlock::CAPACITY`] and none from `end` on. A short block is
    /// no sign of the end.
    pub(crate) fn entries(&self, files: &QueueFiles, from: u64, end: u64, block: &mut EntryBlock) -> io::Result<()> {
        block.len = 0;
        let wanted = end.saturating_sub(from).min(EntryBlock::CAPACITY as u64) as usize;
        if wanted == 0 {
            return Ok(());
        }
        let in_files = {
            let tail = self.tail();
            let in_files = tail.first().saturating_sub(from);
            if in_files == 0 {
                block.len = tail.copy(from, wanted, &mut block.bytes);
                return Ok(());
            }
            in_files
        };
        files.read_block(self, from, end.min(from + in_files), block)
    }

    /// One entry; `None` if there is none at this number.
    pub(crate) fn entry(&self, files: &QueueFiles, at: u64) -> io::Result<Option<QueueEntry>> {
        let mut block = EntryBlock::default();
        self.entries(files, at, at + 1, &mut block)?;
        let entry = block.iter().next();
        Ok(entry)
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        // Nothing panics while it is held, and if something did the tail's numbers would still be consistent.
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for ConsumeQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (min, max) = (self.min().0, self.max().0);
        write!(f, "ConsumeQueue({}/{} {min}..{max})", self.topic, self.id)
    }
}

impl EntryBlock {
    /// Entries a block holds: enough for two ordinary pulls, small enough for the stack.
    pub(crate) const CAPACITY: usize = 64;

    /// The entries, up to the first that was never written.
    pub(crate) fn iter(&self) -> impl Iterator<Item = QueueEntry> + '_ {
        QueueEntry::decode_all(&self.bytes[..self.len * CQ_UNIT_SIZE])
    }

    /// Entries read, written ones and others.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Default for EntryBlock {
    fn default() -> EntryBlock {
        EntryBlock { bytes: [0; EntryBlock::CAPACITY * CQ_UNIT_SIZE], len: 0 }
    }
}
