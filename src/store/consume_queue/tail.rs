//! The newest entries of a queue, in memory.

use std::io;

use super::{ConsumeQueue, QueueEntry, QueueExtent, QueueFiles, CQ_UNIT_SIZE};

/// Entries `first..next` in their stored form; those below `written` are in the files too.
#[derive(Default)]
pub(super) struct Tail {
    first: u64,
    written: u64,
    /// Where the record of the newest entry ends.
    last_end: u64,
    bytes: Vec<u8>,
    /// Byte at which the queue's first file begins.
    pub(super) first_file: Option<u64>,
}

impl Tail {
    pub(super) fn restored(extent: QueueExtent, first_file: Option<u64>) -> Tail {
        let QueueExtent { next, last_end, .. } = extent;
        Tail { first: next, written: next, last_end, bytes: Vec::new(), first_file }
    }

    pub(super) fn first(&self) -> u64 {
        self.first
    }

    pub(super) fn last_end(&self) -> u64 {
        self.last_end
    }

    pub(super) fn next(&self) -> u64 {
        self.first + (self.bytes.len() / CQ_UNIT_SIZE) as u64
    }

    pub(super) fn unwritten(&self) -> usize {
        (self.next() - self.written) as usize
    }

    pub(super) fn push(&mut self, at: u64, entry: &QueueEntry) {
        if self.bytes.is_empty() && self.first_file.is_none() {
            // The first entry of a queue without files may have any number.
            (self.first, self.written) = (at, at);
        }
        assert_eq!(self.next(), at, "entries are added in order");
        self.bytes.extend_from_slice(&entry.encode());
        self.last_end = entry.end().0;
    }

    /// Copies up to `count` entries from number `from` on; returns how many.
    pub(super) fn copy(&self, from: u64, count: usize, into: &mut [u8]) -> usize {
        let start = (from - self.first) as usize * CQ_UNIT_SIZE;
        let Some(bytes) = self.bytes.get(start..) else { return 0 };
        let len = bytes.len().min(count * CQ_UNIT_SIZE).min(into.len());
        into[..len].copy_from_slice(&bytes[..len]);
        len / CQ_UNIT_SIZE
    }

    pub(super) fn write(&mut self, queue: &ConsumeQueue, files: &QueueFiles, keep: usize) -> io::Result<()> {
        let unwritten = (self.written - self.first) as usize * CQ_UNIT_SIZE;
        if unwritten < self.bytes.len() {
            let at = self.written * CQ_UNIT_SIZE as u64;
            if self.first_file.is_none() {
                self.first_file = Some(files.begin(queue, at)?);
            }
            files.write(queue, at, &self.bytes[unwritten..])?;
            self.written = self.next();
        }
        self.forget_written(keep);
        Ok(())
    }

    /// Drops the entries from `next` on. Whether some of them are in the files.
    pub(super) fn cut(&mut self, next: u64, last_end: u64) -> bool {
        let written_beyond = self.written > next;
        self.bytes.truncate(next.saturating_sub(self.first) as usize * CQ_UNIT_SIZE);
        self.first = self.first.min(next);
        self.written = self.written.min(next);
        self.last_end = last_end;
        written_beyond
    }

    /// Drops entries that are in the files, but for the newest `keep`.
    pub(super) fn forget_written(&mut self, keep: usize) {
        let droppable = (self.written - self.first) as usize;
        let dropped = droppable.saturating_sub(keep);
        if dropped * CQ_UNIT_SIZE == self.bytes.len() {
            self.bytes = Vec::new();
        } else {
            self.bytes.drain(..dropped * CQ_UNIT_SIZE);
        }
        self.first += dropped as u64;
    }
}
