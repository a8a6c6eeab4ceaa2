//! What the files of a queue hold.

use std::io;

use super::{QueueReplay, UNIT};
use crate::store::consume_queue::search::first_living;
use crate::store::consume_queue::{EntryBlock, QueueEntry, QueueFiles, CQ_UNIT_SIZE};

impl QueueReplay {
    /// The first entry whose record is still in the log; the end if there is none.
    pub(super) fn first_at_or_above(&self, files: &QueueFiles, log_min: u64) -> io::Result<u64> {
        first_living(self.extent.min, self.extent.next, log_min, |number| self.on_disk(files, number))
    }

    /// The newest entry below `end` that is no filler.
    pub(super) fn last_record(&self, files: &QueueFiles, first: u64, end: u64) -> io::Result<Option<QueueEntry>> {
        for at in (first..end).rev() {
            match self.on_disk(files, at)? {
                Some(entry) if entry.is_filler() => {}
                found => return Ok(found),
            }
        }
        Ok(None)
    }

    /// Numbers of the first entry and of the one behind the last, going by files in a row. Only the newest file with
    /// entries is looked into, or, to be sure of all, `each`.
    pub(super) fn valid_range(&mut self, files: &QueueFiles, each: bool) -> io::Result<Option<(u64, u64)>> {
        for &base in &self.bases {
            files.complete(&self.queue, base)?;
        }
        // The newest row of files counts: what lies before a missing file has expired with it.
        let size = files.file_size();
        let breaks = self.bases.windows(2).rposition(|pair| pair[1] != pair[0] + size);
        let row = &self.bases[breaks.map_or(0, |at| at + 1)..];
        let Some(&first) = row.first() else { return Ok(None) };
        let mut range = None;
        for &base in row.iter().rev() {
            let written = self.written_in(files, base)?;
            if written < size / UNIT || range.is_none() {
                range = (written > 0).then_some((first / UNIT, base / UNIT + written));
            }
            if range.is_some() && !each {
                break;
            }
        }
        Ok(range)
    }

    /// Entries in a row from the start of a file on.
    fn written_in(&self, files: &QueueFiles, base: u64) -> io::Result<u64> {
        let mut block = EntryBlock::default();
        let per_file = files.file_size() / UNIT;
        let mut count = 0;
        while count < per_file {
            let end = base / UNIT + per_file;
            files.read_block(&self.queue, base / UNIT + count, end, &mut block)?;
            let written = block.iter().count();
            count += written as u64;
            if written == 0 || written < block.len() {
                break;
            }
        }
        Ok(count)
    }

    /// The entry with this number in the files.
    pub(in super::super) fn on_disk(&self, files: &QueueFiles, number: u64) -> io::Result<Option<QueueEntry>> {
        let mut bytes = [0; CQ_UNIT_SIZE];
        let read = files.read(&self.queue, number * UNIT, &mut bytes)?;
        Ok(QueueEntry::decode(&bytes).filter(|_| read == CQ_UNIT_SIZE))
    }
}
