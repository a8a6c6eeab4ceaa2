//! Consume queues during recovery: what is on disk, and what the log says has to be there.

mod on_disk;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::plan::Exit;
use super::report::{QueueName, Repair};
use crate::proto::message::record::OVERHEAD_V1;
use crate::store::consume_queue::{ConsumeQueue, QueueEntry, QueueExtent, QueueFiles, CQ_UNIT_SIZE};

/// Entries are compared and written in pieces of this many.
const PIECE: usize = 256;
const UNIT: u64 = CQ_UNIT_SIZE as u64;

/// A queue put in order.
pub(super) struct Finished {
    pub repairs: Vec<Repair>,
    /// The queue, if it has entries that found no place on a full disk.
    pub unwritten: Option<Arc<ConsumeQueue>>,
}

/// One queue while the log is read.
pub(super) struct QueueReplay {
    pub queue: Arc<ConsumeQueue>,
    /// First bytes of its files.
    bases: Vec<u64>,
    /// What is trusted, and grows as records are read.
    pub extent: QueueExtent,
    /// Entries that were right before anything was read.
    pub(super) was: u64,
    /// Whether `extent.next` is known: from the table, from entries on disk or from a record.
    known: bool,
    /// The number that the table says comes next: it is not given out twice, whatever is lost.
    floor: u64,
    /// Records below this position have their entries.
    skip_below: u64,
    /// Records below this position are of a topic that was deleted.
    born_at: u64,
    /// A record with a number that the queue had before. The next one tells whether it is damaged.
    held: Option<(u64, QueueEntry)>,
    /// How the store was left.
    exit: Exit,
    /// Entries that wait to be compared and written, from number `piece_at` on.
    piece: Vec<u8>,
    piece_at: u64,
    replaced: u64,
    /// The disk is full: what is still to be written waits in memory.
    disk_full: bool,
    /// Whether files may hold something behind the end.
    touched: bool,
    repairs: Vec<Repair>,
}

impl QueueReplay {
    /// A queue as it lies on disk. Nothing of it is trusted yet. Records below `born_at` are of a deleted topic.
    pub(super) fn find(
        queue: Arc<ConsumeQueue>,
        files: &QueueFiles,
        exit: Exit,
        born_at: u64,
    ) -> io::Result<QueueReplay> {
        let bases = files.bases(&queue)?;
        files.check_sizes(&queue, &bases)?;
        Ok(QueueReplay {
            queue,
            bases,
            extent: QueueExtent::default(),
            was: 0,
            known: false,
            floor: 0,
            skip_below: 0,
            born_at,
            held: None,
            exit,
            piece: Vec::new(),
            piece_at: 0,
            replaced: 0,
            disk_full: false,
            touched: false,
            repairs: Vec::new(),
        })
    }

    /// Trusts what the queue table says, that all records below `log_end` have their entries, if the files are there to back it. `false` if the queue is shorter.
    pub(super) fn trust_table(&mut self, files: &QueueFiles, extent: QueueExtent, log_end: u64) -> io::Result<bool> {
        self.extent = extent;
        (self.was, self.known, self.floor) = (extent.next, true, extent.next);
        self.skip_below = log_end;
        let Some(newest) = extent.next.checked_sub(1) else { return Ok(true) };
        let wanted = files.base(extent.min.min(newest) * UNIT)..=files.base(newest * UNIT);
        let mut there = 0;
        for base in self.bases.iter().filter(|base| wanted.contains(base)) {
            // The newest one may be shorter, as long as it has the last entry.
            there += u64::from(base == wanted.end() || files.is_whole(&self.queue, *base)?);
        }
        let complete = there == (wanted.end() - wanted.start()) / files.file_size() + 1;
        Ok(complete && self.on_disk(files, newest)?.is_some_and(|last| last.end().0 == extent.last_end))
    }

    /// A queue that the table does not know: all its records lie behind the table's log end, and whatever its files
    /// hold without one is left over from a deleted topic.
    pub(super) fn trust_nothing(&mut self) {
        self.touched = true;
    }

    /// Trusts the entries on disk up to the first that is missing, if `is_right` knows the record of the last one and they
    /// begin no later than the queue did when the table was written, at `min`.
    /// Returns the position up to which the queue has entries of all records.
    pub(super) fn trust_disk(
        &mut self,
        files: &QueueFiles,
        min: Option<u64>,
        is_right: &mut dyn FnMut(u64, &QueueEntry) -> io::Result<bool>,
    ) -> io::Result<u64> {
        (self.extent, self.known, self.skip_below, self.was) = (QueueExtent::default(), false, 0, 0);
        let Some((first, end)) = self.valid_range(files, true)? else { return Ok(0) };
        let Some(last) = self.last_record(files, first, end)? else { return Ok(0) };
        // The names of the first files are gone: what they held lies in the log.
        if min.is_some_and(|min| first > min) {
            return Ok(0);
        }
        if !is_right(end - 1, &last)? {
            return Ok(0);
        }
        self.extent = QueueExtent { min: first, next: end, last_end: last.end().0 };
        (self.was, self.known) = (end, true);
        self.skip_below = last.end().0;
        Ok(self.skip_below)
    }

    /// Takes the entries on disk for what they are, to be compared with a log that begins at `log_min`: those of
    /// records before stay.
    pub(super) fn compare_all(&mut self, files: &QueueFiles, log_min: u64) -> io::Result<()> {
        if let Some((first, end)) = self.valid_range(files, false)? {
            self.extent = QueueExtent { min: first, next: end, last_end: 0 };
            self.was = end;
        }
        (self.known, self.skip_below, self.touched) = (false, log_min, true);
        Ok(())
    }

    /// A record of this queue lies in the log.
    pub(super) fn on_record(&mut self, files: &QueueFiles, number: u64, entry: &QueueEntry) -> io::Result<()> {
        if entry.physical.0 < self.skip_below.max(self.born_at) {
            return Ok(());
        }
        self.touched = true;
        if let Some((held, held_entry)) = self.held.take() {
            if number == held + 1 {
                self.start_again(files, held)?;
                self.add(files, held, &held_entry)?;
            } else {
                self.leave_out(held, &held_entry);
            }
        }
        if !self.is_possible(number, entry) {
            self.leave_out(number, entry);
        } else if !self.known {
            self.begin(files, number)?;
            self.add(files, number, entry)?;
        } else if number < self.extent.next {
            self.held = Some((number, *entry));
        } else {
            if number > self.extent.next {
                self.fill_gap(files, number, entry.physical.0)?;
            }
            self.add(files, number, entry)?;
        }
        Ok(())
    }

    /// Whether the queue can have come to this number. Numbers are dense, and every message takes its bytes of the log:
    /// a higher number is damage to the one field that no checksum covers, and following it would lose the queue.
    fn is_possible(&self, number: u64, entry: &QueueEntry) -> bool {
        let (next, from) = if self.known { (self.extent.next, self.extent.last_end) } else { (0, 0) };
        number.saturating_sub(next) <= entry.physical.0.saturating_sub(from) / OVERHEAD_V1 as u64
    }

    /// A record whose number cannot be right.
    fn leave_out(&mut self, found: u64, entry: &QueueEntry) {
        let (queue, at, next) = (self.name(), entry.physical, self.extent.next);
        self.repairs.push(Repair::ImpossibleOffset { queue, at, next, found });
    }

    /// The queue went back to a number it had before: its topic was deleted and made again, or a broker gave the number
    /// out twice. The newer records count.
    fn start_again(&mut self, files: &QueueFiles, number: u64) -> io::Result<()> {
        self.write_piece(files)?;
        // What a full disk left waiting goes back as well.
        self.piece.truncate(number.saturating_sub(self.piece_at) as usize * CQ_UNIT_SIZE);
        self.repairs.push(Repair::OffsetReused { queue: self.name(), was: self.extent.next, is: number });
        self.extent.min = self.extent.min.min(number);
        self.extent.next = number;
        Ok(())
    }

    /// Adds the entry that comes next.
    fn add(&mut self, files: &QueueFiles, number: u64, entry: &QueueEntry) -> io::Result<()> {
        if self.piece.is_empty() {
            self.piece_at = number;
        }
        self.piece.extend_from_slice(&entry.encode());
        self.extent.next = number + 1;
        self.extent.last_end = entry.end().0;
        if self.piece.len() >= PIECE * CQ_UNIT_SIZE && !self.disk_full {
            self.write_piece(files)?;
        }
        Ok(())
    }

    /// All records have been read; the log ends at `log_end` and begins at `log_min`. Puts the files in order and gives
    /// the queue its extent.
    pub(super) fn finish(mut self, files: &QueueFiles, log_min: u64, log_end: u64) -> io::Result<Finished> {
        match self.held.take() {
            // No other record tells whether it is damaged: these two numbers are what a new start or a repeat gives.
            Some((held, entry)) if held == 0 || held + 1 == self.extent.next => {
                self.start_again(files, held)?;
                self.add(files, held, &entry)?;
            }
            Some((held, entry)) => self.leave_out(held, &entry),
            None => {}
        }
        self.write_piece(files)?;
        if !self.known {
            // No record of it is left in the log; its entries keep the numbers going.
            let (min, next) = (self.extent.min, self.extent.next);
            self.extent.last_end = self.last_record(files, min, next)?.map_or(0, |last| last.end().0);
        }
        if self.extent.last_end > log_end {
            self.cut_to_log(files, log_end)?;
        }
        if !self.known && self.extent.next < self.floor {
            // Neither its records nor the files that tell of them are there any more.
            for base in self.bases.drain(..) {
                files.remove(&self.queue, base)?;
            }
            self.extent = QueueExtent { min: self.floor, next: self.floor, last_end: 0 };
        }
        let next = self.extent.next;
        let waiting = std::mem::take(&mut self.piece);
        if !waiting.is_empty() {
            self.extent.next = self.piece_at;
        }
        if self.touched {
            // Whether there is anything behind the end would take longer to find out than to clear it.
            files.cut(&self.queue, self.extent.next * UNIT, &self.bases)?;
            self.bases.retain(|base| *base < self.extent.next * UNIT);
        }
        if waiting.is_empty() || self.extent.min < self.extent.next {
            self.extent.min = self.first_at_or_above(files, log_min)?;
        }
        let (queue, was) = (self.name(), self.was);
        if self.replaced > 0 {
            self.repairs.push(Repair::EntriesReplaced { queue: queue.clone(), count: self.replaced });
        }
        match next {
            is if is > was => self.repairs.push(Repair::QueueExtended { queue, was, is }),
            is if is < was => self.repairs.push(Repair::QueueCut { queue, was, is }),
            _ => {}
        }
        self.queue.restore(self.extent, self.bases.first().copied());
        for (number, entry) in (self.extent.next..).zip(QueueEntry::decode_all(&waiting)) {
            self.queue.push(number, &entry);
        }
        self.queue.set_next(next);
        self.queue.publish(next);
        let unwritten = (!waiting.is_empty()).then_some(self.queue);
        Ok(Finished { repairs: self.repairs, unwritten })
    }

    /// Whether the log skipped numbers of this queue.
    pub(super) fn lacks_entries(&self) -> bool {
        self.repairs.iter().any(|repair| matches!(repair, Repair::EntriesMissing { .. }))
    }

    fn name(&self) -> QueueName {
        QueueName { topic: Arc::clone(self.queue.topic()), id: self.queue.id() }
    }

    /// The first record that is found has this number: entries on disk stay if they lead up to it.
    fn begin(&mut self, files: &QueueFiles, number: u64) -> io::Result<()> {
        self.known = true;
        let QueueExtent { min, next, .. } = self.extent;
        if next < number || min > number {
            self.extent.next = if min > number { 0 } else { next };
            self.start_at(files, number)?;
        }
        (self.extent.min, self.extent.next) = (number, number);
        Ok(())
    }

    /// The log has no records for the numbers from the queue's end up to `number`. Entries that are on disk stay, for
    /// their records may only be unreadable; the others become fillers.
    fn fill_gap(&mut self, files: &QueueFiles, number: u64, before: u64) -> io::Result<()> {
        self.write_piece(files)?;
        let from = self.extent.next;
        if !self.piece.is_empty() {
            // The disk is full: fillers wait with the rest.
            self.piece.extend(QueueEntry::FILLER.encode().repeat((number - from) as usize));
            self.repairs.push(Repair::EntriesMissing { queue: self.name(), from, to: number });
            return Ok(());
        }
        let mut missing = None;
        let base = files.base(number * UNIT);
        let connected = files.base(from * UNIT) == base || self.bases.contains(&base);
        if !connected {
            self.start_at(files, number)?;
            self.extent.min = number;
            missing = Some((from, number));
        }
        let mut at = if connected { from } else { number };
        while at < number {
            let kept = self.on_disk(files, at)?.filter(|entry| !entry.is_filler() && entry.end().0 <= before);
            if kept.is_none() {
                files.write(&self.queue, at * UNIT, &QueueEntry::FILLER.encode())?;
                self.note_file(files.base(at * UNIT));
                let first = missing.map_or(at, |(first, _)| first);
                missing = Some((first, at + 1));
            }
            at += 1;
        }
        if let Some((from, to)) = missing {
            self.repairs.push(Repair::EntriesMissing { queue: self.name(), from, to });
        }
        Ok(())
    }

    /// Makes the files lead up to `number`: what is missing before it in its file becomes filler, and files that do not
    /// connect to it go.
    fn start_at(&mut self, files: &QueueFiles, number: u64) -> io::Result<()> {
        let base = files.base(number * UNIT);
        for &gone in self.bases.iter().filter(|other| **other != base) {
            files.remove(&self.queue, gone)?;
        }
        self.bases.retain(|other| *other == base);
        let from = (self.extent.next * UNIT).max(base);
        if from < number * UNIT {
            let count = (number * UNIT - from) / UNIT;
            files.write(&self.queue, from, &QueueEntry::FILLER.encode().repeat(count as usize))?;
            self.note_file(base);
        }
        Ok(())
    }

    /// Writes the waiting entries where they differ from what is on disk.
    fn write_piece(&mut self, files: &QueueFiles) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let at = self.piece_at * UNIT;
        let mut there = vec![0; self.piece.len()];
        let read = files.read(&self.queue, at, &mut there)?;
        // What is right need not be on disk: a killed process leaves it in the page cache, and after a failed sync the
        // kernel takes it for clean there, so that only writing it again makes the next sync bring it.
        if self.exit == Exit::Unclean || there != self.piece || read < there.len() {
            let (old, _) = there.as_chunks::<CQ_UNIT_SIZE>();
            let (new, _) = self.piece.as_chunks::<CQ_UNIT_SIZE>();
            let wrong = old.iter().zip(new).filter(|(old, new)| old != new && QueueEntry::decode(old).is_some());
            self.replaced += wrong.count() as u64;
            match files.write(&self.queue, at, &self.piece) {
                Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                    // The store has to open for retention to make room.
                    self.disk_full = true;
                    return Ok(());
                }
                written => written?,
            }
        }
        let (first, last) = (files.base(at), files.base(at + self.piece.len() as u64 - 1));
        for base in (first..=last).step_by(files.file_size() as usize) {
            self.note_file(base);
            files.note_unknown(&self.queue, base);
        }
        self.piece.clear();
        Ok(())
    }

    fn note_file(&mut self, base: u64) {
        if let Err(place) = self.bases.binary_search(&base) {
            self.bases.insert(place, base);
        }
    }

    /// Steps back over entries of records that are not in the log any more.
    fn cut_to_log(&mut self, files: &QueueFiles, log_end: u64) -> io::Result<()> {
        self.touched = true;
        let mut last_end = 0;
        while self.extent.next > self.extent.min {
            match self.on_disk(files, self.extent.next - 1)? {
                Some(entry) if entry.is_filler() => self.extent.next -= 1,
                Some(entry) if entry.end().0 <= log_end => {
                    last_end = entry.end().0;
                    break;
                }
                _ => self.extent.next -= 1,
            }
        }
        self.extent.last_end = last_end;
        Ok(())
    }
}

/// All queues during recovery.
#[derive(Default)]
pub(super) struct Replays {
    topics: BTreeMap<Arc<str>, BTreeMap<u32, QueueReplay>>,
}

impl Replays {
    pub(super) fn insert(&mut self, replay: QueueReplay) -> &mut QueueReplay {
        let queues = self.topics.entry(Arc::clone(replay.queue.topic())).or_default();
        queues.entry(replay.queue.id()).or_insert(replay)
    }

    pub(super) fn get(&mut self, topic: &str, id: u32) -> Option<&mut QueueReplay> {
        self.topics.get_mut(topic)?.get_mut(&id)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut QueueReplay> {
        self.topics.values_mut().flat_map(BTreeMap::values_mut)
    }

    pub(super) fn into_iter(self) -> impl Iterator<Item = QueueReplay> {
        self.topics.into_values().flat_map(BTreeMap::into_values)
    }
}
