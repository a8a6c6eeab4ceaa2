//! Consume queues against the log.
//!
//! The log is read once. Each record looks up the entry of its number, so the entries of a queue are met in order, and
//! a queue needs to remember only which entry comes next. An entry that no record met points to nothing.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::report::{CheckReport, Severity};
use crate::env::{Disk, Millis, OpenMode};
use crate::proto::message::{hash, names, properties, sys_flag, system, DelayLevels, RecordView};
use crate::proto::PhysicalOffset;

/// Bytes of an entry: physical offset 8, size 4, tags code 8.
const ENTRY_SIZE: u64 = 20;
/// Size in entries that only fill the front of a queue's first file.
const PRE_BLANK_SIZE: i32 = i32::MAX;
/// Bytes of queue files read at once.
const WINDOW: usize = 4000;
/// Windows kept in memory.
const WINDOWS_MAX: usize = 1024;
/// Tags codes up to this one are addresses in `consumequeue_ext`.
const EXT_ADDRESS_MAX: i64 = i32::MIN as i64 - 1;

/// An entry as stored.
#[derive(Clone, Copy)]
struct Entry {
    phy_offset: i64,
    size: i32,
    tags_code: i64,
}

impl Entry {
    fn decode(bytes: &[u8]) -> Entry {
        let number = |from: usize, to: usize| bytes[from..to].iter().fold(0_u64, |n, byte| n << 8 | u64::from(*byte));
        Entry { phy_offset: number(0, 8) as i64, size: number(8, 12) as u32 as i32, tags_code: number(12, 20) as i64 }
    }

    fn is_empty(&self) -> bool {
        self.size <= 0
    }

    fn is_pre_blank(&self) -> bool {
        self.phy_offset == 0 && self.size == PRE_BLANK_SIZE
    }
}

/// The files of a queue and how far the log has come in it.
struct Queue {
    directory: PathBuf,
    /// First byte of the first file, and the length of each.
    base: u64,
    file_len: u64,
    files: u64,
    /// The first entry that a record met.
    first: Option<u64>,
    /// The entry behind the last one that a record met.
    next: u64,
    /// Records in the log whose entry is empty.
    missing: u64,
    /// The last record whose entry points elsewhere, and the entry's number; settled when that entry is met or passed.
    unsettled: Option<(u64, PhysicalOffset)>,
}

impl Queue {
    fn end(&self) -> u64 {
        (self.base + self.files * self.file_len) / ENTRY_SIZE
    }

    /// File and byte of an entry, for findings.
    fn place(&self, entry: u64) -> (PathBuf, u64) {
        let position = (entry * ENTRY_SIZE).clamp(self.base, self.base + self.files * self.file_len);
        let base = position - (position - self.base) % self.file_len;
        (self.directory.join(format!("{base:020}")), position - base)
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
    windows: HashMap<(usize, u64), Vec<u8>>,
    with_ext: bool,
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
            windows: HashMap::new(),
            with_ext: disk.exists(&root.join("consumequeue_ext")),
            disk,
        };
        let directory = root.join("consumequeue");
        for topic in super::list(&*checker.disk, &directory)?.into_iter().filter(|entry| entry.is_dir) {
            for queue in super::list(&*checker.disk, &directory.join(&topic.name))?.into_iter().filter(|e| e.is_dir) {
                let Ok(queue_id) = queue.name.parse::<i32>() else { continue };
                let found = checker.list_queue(directory.join(&topic.name).join(&queue.name), report)?;
                let Some(found) = found else { continue };
                checker.by_name.entry(topic.name.clone()).or_default().insert(queue_id, checker.queues.len());
                checker.queues.push(found);
            }
        }
        for unchecked in ["batchconsumequeue", "consumequeue_ext"] {
            if !super::list(&*checker.disk, &root.join(unchecked))?.is_empty() {
                report.add(Severity::Note, &root.join(unchecked), 0, "files of this kind are not checked");
            }
        }
        report.queues = checker.queues.len() as u64;
        Ok(checker)
    }

    fn list_queue(&self, directory: PathBuf, report: &mut CheckReport) -> io::Result<Option<Queue>> {
        let mut queue =
            Queue { directory, base: 0, file_len: 0, files: 0, first: None, next: 0, missing: 0, unsettled: None };
        for entry in super::list(&*self.disk, &queue.directory)?.into_iter().filter(|entry| !entry.is_dir) {
            let path = queue.directory.join(&entry.name);
            let len = self.disk.metadata(&path)?.len;
            match super::parse_base(&entry.name) {
                None => report.damage(&path, 0, "not the name of a queue file: RocketMQ does not start with it"),
                Some(_) if len == 0 => report.add(Severity::Repairable, &path, 0, "empty queue file"),
                Some(base) if queue.files == 0 => {
                    (queue.base, queue.file_len, queue.files) = (base, len, 1);
                    if len % ENTRY_SIZE != 0 || base % ENTRY_SIZE != 0 {
                        report.damage(&path, 0, "name or length is not a whole number of entries");
                        return Ok(None);
                    }
                }
                Some(base) if base == queue.base + queue.files * queue.file_len && len == queue.file_len => {
                    queue.files += 1;
                }
                Some(_) => report.damage(&path, 0, "the file does not follow the one before, or is of another length"),
            }
        }
        Ok((queue.files > 0).then_some(queue))
    }

    /// Compares one record of the log.
    pub(super) fn on_record(&mut self, view: &RecordView<'_>, report: &mut CheckReport) -> io::Result<()> {
        let kind = sys_flag::transaction_type(view.sys_flag());
        if !matches!(kind, sys_flag::TRANSACTION_NONE | sys_flag::TRANSACTION_COMMIT) {
            return Ok(());
        }
        let (topic, properties) = (view.topic(), view.properties());
        let tags_code = self.tags_code(&topic, &properties, view.store_timestamp());
        let entry = Entry { phy_offset: view.physical_offset().0 as i64, size: view.total_size() as i32, tags_code };
        match self.find(&topic, view.queue_id()) {
            Some(queue) => self.compare(queue, view.queue_offset().0, entry, report)?,
            None => *self.without_queue.entry(topic.into_owned()).or_default() += 1,
        }
        let light = properties::find(&properties, properties::INNER_MULTI_DISPATCH).unwrap_or_default();
        let offsets = properties::find(&properties, properties::INNER_MULTI_QUEUE_OFFSET).unwrap_or_default();
        for (name, offset) in light.split(',').zip(offsets.split(',')) {
            let queue = self.find(name, 0).filter(|_| name.starts_with(names::LMQ_PREFIX));
            if let (Some(queue), Ok(offset)) = (queue, offset.parse::<u64>()) {
                self.compare(queue, offset, entry, report)?;
            }
        }
        Ok(())
    }

    fn find(&self, topic: &str, queue_id: i32) -> Option<usize> {
        self.by_name.get(topic)?.get(&queue_id).copied()
    }

    fn tags_code(&self, topic: &str, properties: &str, stored: Millis) -> i64 {
        if topic == system::SCHEDULE_TOPIC {
            match properties::find_number::<i32>(properties, properties::DELAY) {
                Some(level) if level > 0 => return self.delay_levels.deliver_at(level, stored).0,
                _ => {}
            }
        }
        properties::find(properties, properties::TAGS).map_or(0, hash::tags_code)
    }

    /// Compares the record `wanted` describes with entry `number` of its queue.
    fn compare(&mut self, queue: usize, number: u64, wanted: Entry, report: &mut CheckReport) -> io::Result<()> {
        let found = self.entry(queue, number)?;
        let at = PhysicalOffset(wanted.phy_offset as u64);
        let state = &mut self.queues[queue];
        let Some(found) = found.filter(|found| !found.is_empty()) else {
            state.missing += 1;
            return Ok(());
        };
        let (file, byte) = state.place(number);
        if found.phy_offset != wanted.phy_offset {
            // Two records may share a number (RocketMQ gives one again after some crashes): then one has no entry.
            settle(state, report);
            state.unsettled = Some((number, at));
            return Ok(());
        }
        if let Some((shared, other)) = state.unsettled.take_if(|(unsettled, _)| *unsettled == number) {
            let what = format!("entry {shared} is of the record at {}, the one at {} has none", at.0, other.0);
            report.add(Severity::Note, &file, byte, what);
        }
        settle(state, report);
        if state.first.is_some() && number > state.next {
            let (file, byte) = state.place(state.next);
            let what = format!("entries {} to {} point to no record of this queue", state.next, number - 1);
            report.damage(&file, byte, what);
        }
        state.first.get_or_insert(number);
        state.next = state.next.max(number + 1);
        report.queue_entries += 1;
        if found.size != wanted.size {
            report.damage(
                &file,
                byte + 8,
                format!("entry {number} has size {}, its record {}", found.size, wanted.size),
            );
        }
        if found.tags_code != wanted.tags_code && !(self.with_ext && found.tags_code <= EXT_ADDRESS_MAX) {
            let what = format!("entry {number} has tags code {}, its record {}", found.tags_code, wanted.tags_code);
            report.damage(&file, byte + 12, what);
        }
        Ok(())
    }

    /// After the whole log: what no record met, and records without an entry.
    pub(super) fn finish(&mut self, report: &mut CheckReport) -> io::Result<()> {
        for queue in 0..self.queues.len() {
            settle(&mut self.queues[queue], report);
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
        let (start, end) = (state.base / ENTRY_SIZE, state.first.unwrap_or(state.end()));
        for number in start..end {
            let Some(entry) = self.entry(queue, number)? else { break };
            if entry.is_empty() && self.queues[queue].first.is_none() {
                self.queues[queue].next = number;
                return Ok(());
            }
            let expired = (entry.phy_offset as u64).saturating_add(entry.size as u64) <= report.log_min.0;
            if entry.is_empty() || entry.phy_offset < 0 || !(expired || entry.is_pre_blank()) {
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
            _ if state.missing > 0 => {
                let what = format!("{} records in the log have no entry", state.missing);
                report.add(Severity::Repairable, &file, byte, what);
            }
            _ => {}
        }
        Ok(())
    }

    fn entry(&mut self, queue: usize, number: u64) -> io::Result<Option<Entry>> {
        let state = &self.queues[queue];
        let position = number.saturating_mul(ENTRY_SIZE);
        if position < state.base || number >= state.end() {
            return Ok(None);
        }
        let (path, byte) = state.place(number);
        let window_start = byte - byte % WINDOW as u64;
        let key = (queue, position - byte + window_start);
        if !self.windows.contains_key(&key) {
            let mut window = vec![0; WINDOW];
            let got = self.disk.open(&path, OpenMode::Read)?.read_at(window_start, &mut window)?;
            window.truncate(got);
            if self.windows.len() >= WINDOWS_MAX {
                self.windows.clear();
            }
            self.windows.insert(key, window);
        }
        let start = (byte - window_start) as usize;
        let bytes = self.windows.get(&key).and_then(|window| window.get(start..start + ENTRY_SIZE as usize));
        Ok(bytes.map(Entry::decode))
    }
}

/// A record whose entry pointed elsewhere, and no other record claimed that entry.
fn settle(state: &mut Queue, report: &mut CheckReport) {
    let Some((number, at)) = state.unsettled.take() else { return };
    let (file, byte) = state.place(number);
    if state.first.is_some_and(|first| first <= number) && number < state.next {
        let what = format!("the record at {} shares number {number} with another and has no entry", at.0);
        report.add(Severity::Note, &file, byte, what);
    } else {
        report.damage(&file, byte, format!("entry {number} does not point to its record at {}", at.0));
    }
}
