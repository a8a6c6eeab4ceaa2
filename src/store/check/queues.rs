//! Consume queues against the log.
//!
//! The log is read once. Each record looks up the entry of its number, so the entries of a queue are met in order, and
//! a queue needs to remember only which entry comes next. An entry that no record met points to nothing.
//!
//! Numbers may go back: a topic was deleted and made again, or RocketMQ gave numbers out again after a crash. Entries
//! belong to one of the records then, and that the others have none is right.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::entry::{decode_ext, BatchPart, Entry, BATCH_SIZE, EXT_HEAD_SIZE, SIMPLE_SIZE};
use super::family::{Family, Windows};
use super::report::{CheckReport, Severity};
use crate::env::Disk;
use crate::proto::message::{names, properties, sys_flag, DelayLevels, RecordView};
use crate::proto::PhysicalOffset;

/// A queue and how far the log has come in it.
struct Queue {
    files: Family,
    unit: u64,
    /// Files of `consumequeue_ext` that hold its tags codes.
    ext: Option<Family>,
    /// The first entry that a record met.
    first: Option<u64>,
    /// The entry behind the last one that a record met.
    next: u64,
    /// The number of the last record, and whether it ever was no higher than the one before.
    last: Option<u64>,
    went_back: bool,
    /// Records whose entry is empty.
    missing: Numbers,
    /// Records whose entry points elsewhere, and where the first of them lies.
    elsewhere: Numbers,
    first_elsewhere: Option<PhysicalOffset>,
    /// Records without an entry whose number, or a lower one, was given out again.
    superseded: u64,
}

/// How many records, and the numbers from the lowest up to behind the highest of them.
#[derive(Default)]
struct Numbers {
    count: u64,
    from: u64,
    to: u64,
}

impl Numbers {
    fn add(&mut self, number: u64) {
        self.from = if self.count == 0 { number } else { self.from.min(number) };
        self.to = self.to.max(number + 1);
        self.count += 1;
    }

    /// Takes out those from `number` on and returns how many.
    fn cut(&mut self, number: u64) -> u64 {
        let kept = number.saturating_sub(self.from).min(self.count);
        let cut = self.count - kept;
        *self = Numbers { count: kept, to: self.to.min(number), ..*self };
        cut
    }
}

impl Queue {
    fn start(&self) -> u64 {
        self.files.base / self.unit
    }

    fn end(&self) -> u64 {
        self.files.end() / self.unit
    }

    /// File and byte of an entry, for findings.
    fn place(&self, number: u64) -> (PathBuf, u64) {
        self.files.place(number.saturating_mul(self.unit))
    }

    /// After the whole log: whether records without an entry of their own were superseded by others. Only then were all
    /// their entries met.
    fn settle(&mut self, report: &mut CheckReport) {
        let Numbers { count, from, to } = self.elsewhere;
        let met = self.first.is_some_and(|first| first <= from) && to <= self.next;
        if count > 0 && self.went_back && met {
            self.superseded += count;
        } else if let Some(at) = self.first_elsewhere {
            let (file, byte) = self.place(from);
            let what = format!("{count} of the entries {from} to {} do not point to their records", to - 1);
            let what = if count == 1 { format!("entry {from} does not point to its record at {}", at.0) } else { what };
            report.damage(&file, byte, what);
        }
        if self.superseded > 0 {
            let what = format!(
                "{} older records have no entry, newer ones have their numbers: the topic was deleted and made again, or a \
                 crash gave numbers out again",
                self.superseded
            );
            report.add(Severity::Note, self.files.directory(), 0, what);
        }
    }
}

/// Compares records with the entries of their queues.
pub(super) struct QueueChecker {
    disk: Arc<dyn Disk>,
    delay_levels: DelayLevels,
    queues: Vec<Queue>,
    by_name: HashMap<String, BTreeMap<i32, usize>>,
    /// Records of queues that have no files, by topic: topics deleted while their records are still in the log.
    without_queue: BTreeMap<String, u64>,
    windows: Windows,
}

impl QueueChecker {
    /// Lists the queues of the store in `root`.
    pub(super) fn open(
        disk: Arc<dyn Disk>,
        root: &Path,
        delay_levels: &DelayLevels,
        report: &mut CheckReport,
    ) -> io::Result<QueueChecker> {
        let mut checker = QueueChecker {
            delay_levels: delay_levels.clone(),
            queues: Vec::new(),
            by_name: HashMap::new(),
            without_queue: BTreeMap::new(),
            windows: Windows::new(disk.clone()),
            disk,
        };
        for (kind, unit) in [("consumequeue", SIMPLE_SIZE), ("batchconsumequeue", BATCH_SIZE)] {
            checker.list_queues(root, kind, unit, report)?;
        }
        report.queues = checker.queues.len() as u64;
        Ok(checker)
    }

    fn list_queues(&mut self, root: &Path, kind: &str, unit: u64, report: &mut CheckReport) -> io::Result<()> {
        let directory = root.join(kind);
        for topic in super::list(&*self.disk, &directory)?.into_iter().filter(|entry| entry.is_dir) {
            for queue in super::list(&*self.disk, &directory.join(&topic.name))?.into_iter().filter(|e| e.is_dir) {
                let Ok(queue_id) = queue.name.parse::<i32>() else { continue };
                let place = Path::new(&topic.name).join(&queue.name);
                let Some(files) = Family::list(&*self.disk, directory.join(&place), unit, report)? else { continue };
                let ext = root.join("consumequeue_ext").join(&place);
                let ext = Family::list(&*self.disk, ext, 1, report)?;
                let queues = self.by_name.entry(topic.name.clone()).or_default();
                if queues.insert(queue_id, self.queues.len()).is_some() {
                    report.damage(files.directory(), 0, "the topic is in consumequeue too: RocketMQ does not start");
                }
                self.queues.push(Queue {
                    files,
                    unit,
                    ext,
                    first: None,
                    next: 0,
                    last: None,
                    went_back: false,
                    missing: Numbers::default(),
                    elsewhere: Numbers::default(),
                    first_elsewhere: None,
                    superseded: 0,
                });
            }
        }
        Ok(())
    }

    /// Compares one record of the log.
    pub(super) fn on_record(&mut self, view: &RecordView<'_>, report: &mut CheckReport) -> io::Result<()> {
        let kind = sys_flag::transaction_type(view.sys_flag());
        if !matches!(kind, sys_flag::TRANSACTION_NONE | sys_flag::TRANSACTION_COMMIT) {
            return Ok(());
        }
        let (topic, properties) = (view.topic(), view.properties());
        let entry = Entry::of(view, &topic, &properties, &self.delay_levels);
        let stored = view.store_timestamp().0;
        match self.find(&topic, view.queue_id()) {
            Some(queue) if self.queues[queue].unit == BATCH_SIZE => {
                let entry = Entry { batch: Some(BatchPart::of(view, &properties)), ..entry };
                let number = self.batch_number(queue, &entry, report.log_min)?;
                self.compare(queue, number, entry, stored, report)?;
            }
            Some(queue) => self.compare(queue, view.queue_offset().0, entry, stored, report)?,
            None => *self.without_queue.entry(topic.into_owned()).or_default() += 1,
        }
        let light = properties::find(&properties, properties::INNER_MULTI_DISPATCH).unwrap_or_default();
        let offsets = properties::find(&properties, properties::INNER_MULTI_QUEUE_OFFSET).unwrap_or_default();
        for (name, offset) in light.split(',').zip(offsets.split(',')) {
            let queue = self.find(name, 0).filter(|_| name.starts_with(names::LMQ_PREFIX));
            if let (Some(queue), Ok(offset)) = (queue, offset.parse::<u64>()) {
                self.compare(queue, offset, entry, stored, report)?;
            }
        }
        Ok(())
    }

    fn find(&self, topic: &str, queue_id: i32) -> Option<usize> {
        self.by_name.get(topic)?.get(&queue_id).copied()
    }

    /// Entries of batch queues are not numbered by queue offset: each record has the next one, behind expired ones.
    fn batch_number(&mut self, queue: usize, wanted: &Entry, log_min: PhysicalOffset) -> io::Result<u64> {
        let mut number = match self.queues[queue].first {
            Some(_) => return Ok(self.queues[queue].next),
            None => self.queues[queue].start(),
        };
        while let Some(entry) = self.entry(queue, number)? {
            if entry.phy_offset >= wanted.phy_offset || entry.is_empty() || !entry.ends_below(log_min.0) {
                break;
            }
            number += 1;
        }
        Ok(number)
    }

    /// Compares entry `number` of a queue with what it has to be.
    fn compare(
        &mut self,
        queue: usize,
        number: u64,
        wanted: Entry,
        stored: i64,
        report: &mut CheckReport,
    ) -> io::Result<()> {
        let found = self.entry(queue, number)?;
        let at = PhysicalOffset(wanted.phy_offset as u64);
        let state = &mut self.queues[queue];
        let own_number = wanted.batch.map_or(number, |batch| batch.base_offset());
        if state.last.replace(own_number).is_some_and(|last| own_number <= last) {
            state.went_back = true;
            state.superseded += state.missing.cut(number);
        }
        let Some(found) = found.filter(|found| !found.is_empty()) else {
            state.missing.add(number);
            return Ok(());
        };
        if found.phy_offset != wanted.phy_offset {
            state.elsewhere.add(number);
            state.first_elsewhere.get_or_insert(at);
            return Ok(());
        }
        let (file, byte) = state.place(number);
        if state.first.is_some() && number > state.next {
            let (file, byte) = state.place(state.next);
            let what = format!("entries {} to {} point to no record of this queue", state.next, number - 1);
            report.damage(&file, byte, what);
        }
        state.first.get_or_insert(number);
        state.next = state.next.max(number + 1);
        report.queue_entries += 1;
        if found.size != wanted.size {
            let what = format!("entry {number} has size {}, its record {}", found.size, wanted.size);
            report.damage(&file, byte + 8, what);
        }
        if found.batch != wanted.batch {
            report.damage(&file, byte + 20, format!("entry {number} is not of the batch its record is"));
        }
        match self.tags_code(queue, &found, stored)? {
            Some(code) if code == wanted.tags_code => {}
            Some(code) => {
                let what = format!("entry {number} has tags code {code}, its record {}", wanted.tags_code);
                report.damage(&file, byte + 12, what);
            }
            None => report.damage(&file, byte + 12, format!("entry {number} points to no unit in consumequeue_ext")),
        }
        Ok(())
    }

    /// The tags code of an entry, from `consumequeue_ext` if it is there; `None` if there is no such unit.
    fn tags_code(&self, queue: usize, entry: &Entry, stored: i64) -> io::Result<Option<i64>> {
        let ext = self.queues[queue].ext.as_ref();
        let Some((ext, position)) = ext.zip(entry.ext_position()) else { return Ok(Some(entry.tags_code)) };
        let mut head = [0; EXT_HEAD_SIZE];
        if ext.read_at(&*self.disk, position, &mut head)? < EXT_HEAD_SIZE {
            return Ok(None);
        }
        Ok(decode_ext(&head).filter(|(_, time)| *time == stored).map(|(code, _)| code))
    }

    /// After the whole log: what no record met, and records without an entry.
    pub(super) fn finish(&mut self, report: &mut CheckReport) -> io::Result<()> {
        for queue in 0..self.queues.len() {
            self.queues[queue].settle(report);
            self.check_front(queue, report)?;
            self.check_behind(queue, report)?;
        }
        for (topic, records) in &self.without_queue {
            let what = format!("{records} records of topic {topic} have no queue: it was deleted or is to be built");
            report.add(Severity::Note, Path::new("consumequeue"), 0, what);
        }
        Ok(())
    }

    /// Entries before the first one met have to be fillers or of records that expired.
    fn check_front(&mut self, queue: usize, report: &mut CheckReport) -> io::Result<()> {
        let state = &self.queues[queue];
        let (start, end) = (state.start(), state.first.unwrap_or(state.end()));
        for number in start..end {
            let Some(entry) = self.entry(queue, number)? else { break };
            if entry.is_empty() && self.queues[queue].first.is_none() {
                self.queues[queue].next = number;
                return Ok(());
            }
            if entry.is_empty() || !(entry.ends_below(report.log_min.0) || entry.is_pre_blank()) {
                let (file, byte) = self.queues[queue].place(number);
                let what = format!("entry {number} points to {}, where no record of it is", entry.phy_offset);
                report.damage_if_closed(&file, byte, what);
                return Ok(());
            }
        }
        if self.queues[queue].first.is_none() {
            self.queues[queue].next = end;
        }
        Ok(())
    }

    /// Behind the last entry met nothing may follow.
    fn check_behind(&mut self, queue: usize, report: &mut CheckReport) -> io::Result<()> {
        let next = self.queues[queue].next;
        let entry = self.entry(queue, next)?;
        let state = &self.queues[queue];
        let (file, byte) = state.place(next);
        match entry.filter(|entry| !entry.is_empty()) {
            Some(entry) if state.first.is_some() || !entry.is_pre_blank() => {
                let what = format!("entry {next} points to {}, where no record of it is", entry.phy_offset);
                report.damage_if_closed(&file, byte, what);
            }
            _ if state.missing.count > 0 => {
                let what = format!("{} records in the log have no entry", state.missing.count);
                report.add(Severity::Repairable, &file, byte, what);
            }
            _ => {}
        }
        Ok(())
    }

    fn entry(&mut self, queue: usize, number: u64) -> io::Result<Option<Entry>> {
        let state = &self.queues[queue];
        let unit = self.windows.unit(queue, &state.files, number.saturating_mul(state.unit))?;
        Ok(unit.map(Entry::decode))
    }
}
