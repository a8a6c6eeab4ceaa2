//! A file as the kernel and the device hold it: the page cache, what is on the device, and what lies between.

use std::collections::{BTreeMap, BTreeSet};

use metaq::env::Millis;

use super::crash::{Choose, Style};
use super::pages::{Pages, PAGE, SECTOR};

/// Unsynced bytes of one file above which the kernel begins to write by itself.
const DIRTY_MAX: usize = 4 << 20;

/// A change that is in the page cache and perhaps not on the device.
#[derive(Clone, Copy)]
enum Change {
    /// Bytes at a position, kept in the arena from `start` (counted from the file's first change) on.
    Write { at: u64, start: u64, len: usize },
    /// A new length.
    SetLen(u64),
}

/// Where a write goes when it reaches the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Landing {
    Right,
    /// To this position of the same file.
    At(u64),
    /// Nowhere.
    Lost,
}

/// A file without its names.
pub(super) struct Inode {
    pub(super) id: u64,
    pub(super) cache: Pages,
    pub(super) modified: Millis,
    durable: Pages,
    /// Unsynced changes in order; `settled` counts the ones before them.
    changes: Vec<Change>,
    settled: u64,
    arena: Vec<u8>,
    arena_start: u64,
    /// Failures to write back while nobody synced.
    pub(super) errors: u64,
    /// Whether somebody was told of the last one; nobody who opens the file later is told again.
    pub(super) error_told: bool,
    /// Pages that a failed sync left clean in the cache though the device does not have them.
    lost: BTreeSet<usize>,
}

impl Inode {
    pub(super) fn new(id: u64, now: Millis) -> Inode {
        Inode {
            id,
            cache: Pages::default(),
            modified: now,
            durable: Pages::default(),
            changes: Vec::new(),
            settled: 0,
            arena: Vec::new(),
            arena_start: 0,
            errors: 0,
            error_told: true,
            lost: BTreeSet::new(),
        }
    }

    /// Writes into the page cache.
    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = at + bytes.len() as u64;
        if end > self.cache.len() {
            self.set_len(end);
        }
        self.cache.write(at, bytes);
        let start = self.arena_start + self.arena.len() as u64;
        self.arena.extend_from_slice(bytes);
        self.changes.push(Change::Write { at, start, len: bytes.len() });
        if self.arena.len() > DIRTY_MAX {
            self.settle(self.settled + self.changes.len() as u64 / 2);
        }
    }

    pub(super) fn set_len(&mut self, len: u64) {
        if len != self.cache.len() {
            self.cache.set_len(len);
            self.changes.push(Change::SetLen(len));
        }
    }

    /// Stands for all changes made so far.
    pub(super) fn mark(&self) -> u64 {
        self.settled + self.changes.len() as u64
    }

    /// Unsynced bytes.
    pub(super) fn dirty_bytes(&self) -> usize {
        self.arena.len()
    }

    /// Brings all changes before `mark` to the device.
    pub(super) fn settle(&mut self, mark: u64) {
        self.settle_by(mark, &mut |_| Landing::Right);
    }

    /// As [`Inode::settle`], `device` deciding where each write goes.
    pub(super) fn settle_by(&mut self, mark: u64, device: &mut dyn FnMut(u64) -> Landing) {
        let count = (mark.saturating_sub(self.settled) as usize).min(self.changes.len());
        for change in &self.changes[..count] {
            match *change {
                Change::SetLen(len) => self.durable.set_len(len),
                Change::Write { at, start, len } => {
                    let start = (start - self.arena_start) as usize;
                    let bytes = &self.arena[start..start + len];
                    match device(at) {
                        Landing::Right => self.durable.write(at, bytes),
                        Landing::Lost => {}
                        Landing::At(wrong) => {
                            let len = self.durable.len().saturating_sub(wrong).min(len as u64) as usize;
                            self.durable.write(wrong.min(self.durable.len()), &bytes[..len]);
                        }
                    }
                    let pages = (at / PAGE as u64) as usize..=((at + len as u64) / PAGE as u64) as usize;
                    let lost: Vec<usize> = self.lost.range(pages).copied().collect();
                    for page in lost {
                        // The page is dirty again, so the device gets all of it.
                        self.lost.remove(&page);
                        self.durable.copy_page(page, &self.cache);
                    }
                }
            }
        }
        self.forget(count);
    }

    /// A sync of all changes before `mark` failed: some sectors reached the device, and the cache takes all for clean.
    pub(super) fn fail(&mut self, mark: u64, choose: &mut dyn Choose) {
        let count = (mark.saturating_sub(self.settled) as usize).min(self.changes.len());
        for change in &self.changes[..count] {
            if let Change::Write { at, len, .. } = *change {
                self.lost.extend((at / PAGE as u64) as usize..=((at + len.max(1) as u64 - 1) / PAGE as u64) as usize);
            }
        }
        // A file system that cannot even write its journal stops; lengths are journaled.
        let lengths = self.lengths(count);
        self.durable = self.image(count, lengths, Style::Each, choose);
        self.forget(count);
    }

    /// As [`Inode::fail`], but the cache has again what the device has.
    pub(super) fn fail_reverting(&mut self, mark: u64, choose: &mut dyn Choose) {
        self.fail(mark, choose);
        let later = !self.changes.is_empty();
        for page in std::mem::take(&mut self.lost) {
            self.cache.copy_page(page, &self.durable);
        }
        if later {
            // Changes made since are still there.
            let changes = self.changes.clone();
            for change in changes {
                if let Change::Write { at, start, len } = change {
                    let start = (start - self.arena_start) as usize;
                    let bytes = self.arena[start..start + len].to_vec();
                    let end = (at + len as u64).min(self.cache.len());
                    if at < end {
                        self.cache.write(at, &bytes[..(end - at) as usize]);
                    }
                }
            }
        }
    }

    /// The machine lost its power: what `style` and `choose` pick of the unsynced changes is on the device, and the
    /// cache is filled from there.
    pub(super) fn power_cut(&mut self, style: Style, choose: &mut dyn Choose) {
        let lengths = style.lengths(self.lengths(self.changes.len()), choose);
        self.durable = self.image(self.changes.len(), lengths, style, choose);
        self.forget(self.changes.len());
        self.lost.clear();
        self.cache = self.durable.clone();
    }

    /// Changes one bit on the device and in the cache.
    pub(super) fn flip_bit(&mut self, at: u64, bit: u8) {
        let mut byte = [0];
        if self.cache.read(at, &mut byte) == 1 {
            byte[0] ^= 1 << (bit % 8);
            self.cache.write(at, &byte);
            if at < self.durable.len() {
                self.durable.write(at, &byte);
            }
        }
    }

    fn forget(&mut self, count: usize) {
        self.changes.drain(..count);
        self.settled += count as u64;
        let next = self.changes.iter().find_map(|change| match change {
            Change::Write { start, .. } => Some(*start),
            Change::SetLen(_) => None,
        });
        let end = self.arena_start + self.arena.len() as u64;
        let keep_from = next.unwrap_or(end);
        self.arena.drain(..(keep_from - self.arena_start) as usize);
        self.arena_start = keep_from;
    }

    /// How many of the first `count` changes are lengths.
    fn lengths(&self, count: usize) -> usize {
        self.changes[..count].iter().filter(|change| matches!(change, Change::SetLen(_))).count()
    }

    /// The device's content if the machine stopped within the first `count` changes and `lengths_landed` lengths.
    ///
    /// Lengths land in order. Each sector holds what it held after some number of the writes to it; that number is
    /// chosen sector by sector, so writes land in any order and tear at sectors. Bytes written behind a cut of the
    /// length that did not land are not there either.
    fn image(&self, count: usize, lengths_landed: usize, style: Style, choose: &mut dyn Choose) -> Pages {
        let changes = &self.changes[..count];
        let versions = self.choose_versions(changes, style, choose);
        let mut image = self.durable.clone();
        let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
        let (mut lengths_seen, mut length, mut limit) = (0, image.len(), u64::MAX);
        for change in changes {
            match *change {
                Change::SetLen(len) => {
                    lengths_seen += 1;
                    if lengths_seen <= lengths_landed {
                        image.set_len(len);
                    } else if len < length {
                        limit = limit.min(len);
                    }
                    length = len;
                }
                Change::Write { at, start, len } => {
                    for (sector, from, to) in sectors(at, len) {
                        let number = seen.entry(sector).or_default();
                        *number += 1;
                        let to = to.min(image.len()).min(limit);
                        if *number <= versions[&sector] && from < to {
                            let offset = (start - self.arena_start + (from - at)) as usize;
                            image.write(from, &self.arena[offset..offset + (to - from) as usize]);
                        }
                    }
                }
            }
        }
        image
    }

    /// How many of the writes to each sector land.
    fn choose_versions(&self, changes: &[Change], style: Style, choose: &mut dyn Choose) -> BTreeMap<u64, u64> {
        let mut writes: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (index, change) in changes.iter().enumerate() {
            if let Change::Write { at, len, .. } = *change {
                for (sector, ..) in sectors(at, len) {
                    writes.entry(sector).or_default().push(index);
                }
            }
        }
        let total = changes.len();
        let whole: Vec<bool> = match style {
            Style::Writes => changes.iter().map(|_| choose.choose(2) == 1).collect(),
            _ => Vec::new(),
        };
        writes.into_iter().map(|(sector, at)| (sector, style.version(&at, total, &whole, choose))).collect()
    }
}

/// The sectors of a range, each with the part of the range in it.
fn sectors(at: u64, len: usize) -> impl Iterator<Item = (u64, u64, u64)> {
    let (unit, end) = (SECTOR as u64, at + len as u64);
    (at / unit..end.div_ceil(unit)).map(move |sector| (sector, at.max(sector * unit), end.min((sector + 1) * unit)))
}
