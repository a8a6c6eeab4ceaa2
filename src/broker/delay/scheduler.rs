//! Which delayed messages are due.
//!
//! Each level is a queue in which a message's entry holds the time it is due. The scheduler keeps, per level, how far
//! deliveries got, hands out the next due entries and takes their outcomes. Progress moves over an entry only once it is
//! delivered or known to be undeliverable; a failed one is tried again, and what was delivered behind it meanwhile is
//! remembered, so that nothing is skipped (DLY-1) and nothing is repeated but by a crash.
//!
//! RocketMQ delivers at once when an entry's time is further away than its level's delay (the clock was set back). That
//! is early by up to the whole delay. Here such an entry waits for its level's full delay, measured by the monotonic
//! clock from the moment it was first seen: never early, late by less than twice the delay.

use std::collections::{BTreeMap, BTreeSet};

use crate::broker::{Effect, Report};
use crate::env::Millis;
use crate::proto::body::DataVersion;
use crate::proto::message::DelayLevels;
use crate::proto::{PhysicalOffset, QueueOffset};

/// The most entries of one level handed out at a time.
pub const BATCH_MAX: usize = 256;

/// How often a level looks for new entries.
const POLL_MS: i64 = 100;
/// The longest a level sleeps: the wall clock may be corrected forwards meanwhile.
const SLEEP_MS_MAX: i64 = 1000;
/// Pauses after failed deliveries double from the first to the last of these.
const PAUSE_MS_MIN: i64 = 100;
const PAUSE_MS_MAX: i64 = 10_000;

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Wall-clock time: entries hold it.
    pub wall: Millis,
    /// Monotonic time: pauses are measured by it.
    pub monotonic: Millis,
}

/// One entry of a level's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayEntry {
    /// Its number in the queue.
    pub offset: QueueOffset,
    /// When its message is due.
    pub deliver_at: Millis,
    /// Where its record lies.
    pub position: PhysicalOffset,
    /// The record's size in bytes.
    pub size: u32,
}

/// What a level's queue holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueRange {
    /// The first entry still there.
    pub min: QueueOffset,
    /// Behind the last entry.
    pub max: QueueOffset,
}

/// An entry to deliver now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The level.
    pub level: i32,
    /// The entry.
    pub entry: DelayEntry,
}

/// The progress of all levels.
#[derive(Debug)]
pub struct DelayScheduler {
    pub(super) levels: Vec<Level>,
    /// Saved progress of levels the table does not have now; kept for the day it has them again.
    pub(super) unknown: BTreeMap<i32, QueueOffset>,
    pub(super) version: DataVersion,
    pub(super) version_step: u64,
    pub(super) updates: u64,
    /// Updates in all; those above are since the last step of the version.
    pub(super) moves: u64,
    pub(super) dirty: bool,
}

#[derive(Debug, Default)]
pub(super) struct Level {
    delay_ms: i64,
    /// Everything below is done with.
    pub(super) progress: QueueOffset,
    /// Done at or above `progress`.
    done: BTreeSet<QueueOffset>,
    in_flight: BTreeSet<QueueOffset>,
    failures: u32,
    /// One of the entries handed out last has failed already.
    failed: bool,
    not_before: Millis,
    guard: Option<Guard>,
    pub(super) ever_used: bool,
}

/// Entries below `up_to` were there at some moment; their delay is over at `due`, whatever the wall clock says.
#[derive(Clone, Copy, Debug)]
struct Guard {
    up_to: QueueOffset,
    due: Millis,
}

impl DelayScheduler {
    /// Starts at `saved`, the progress per level as the file had it, corrected to what the queues hold (DLY-2): beyond
    /// a queue's end is its end, below its beginning is its beginning. `ranges` tells what a level's queue holds.
    pub fn new(
        table: &DelayLevels,
        version_step: u64,
        (version, saved): (DataVersion, BTreeMap<i32, QueueOffset>),
        ranges: impl Fn(i32) -> Option<QueueRange>,
        out: &mut Vec<Effect>,
    ) -> DelayScheduler {
        let mut scheduler = DelayScheduler {
            levels: Vec::new(),
            unknown: saved
                .iter()
                .filter(|(level, _)| !(1..=table.max()).contains(*level))
                .map(|(l, o)| (*l, *o))
                .collect(),
            version,
            version_step: version_step.max(1),
            updates: 0,
            moves: 0,
            dirty: false,
        };
        for level in 1..=table.max() {
            let saved_progress = saved.get(&level).copied().unwrap_or_default();
            let range = ranges(level);
            let bounds = range.unwrap_or(QueueRange { min: QueueOffset(0), max: QueueOffset(0) });
            let progress = saved_progress.clamp(bounds.min, bounds.max.max(bounds.min));
            if progress != saved_progress && saved.contains_key(&level) {
                out.push(Effect::Report(Report::DelayProgressCorrected {
                    level,
                    saved: saved_progress,
                    corrected: progress,
                }));
                scheduler.dirty = true;
            }
            let delay_ms = table.delay_ms(level).unwrap_or(0);
            let ever_used = saved.contains_key(&level) || range.is_some();
            scheduler.levels.push(Level { delay_ms, progress, ever_used, ..Level::default() });
        }
        scheduler
    }

    /// The highest level.
    pub fn level_max(&self) -> i32 {
        self.levels.len() as i32
    }

    /// Whether to read a level's queue now, and from where: up to [`BATCH_MAX`] entries, for
    /// [`DelayScheduler::on_entries`].
    pub fn wants(&self, level: i32, now: Now) -> Option<QueueOffset> {
        let level = self.level(level)?;
        let ready = level.in_flight.is_empty() && now.monotonic >= level.not_before;
        ready.then_some(level.progress)
    }

    /// The monotonic time at which a level wants to be asked next; `None` while it waits for outcomes. Whoever knows
    /// that nothing has come into its queue since need not ask.
    pub fn wake_of(&self, level: i32) -> Option<Millis> {
        self.level(level).filter(|level| level.in_flight.is_empty()).map(|level| level.not_before)
    }

    /// Entries read from a level's queue, in order, from the offset it wanted. Those due are appended to `due`; each of
    /// them wants one outcome: [`DelayScheduler::on_delivered`], [`DelayScheduler::on_failed`] or
    /// [`DelayScheduler::on_undeliverable`].
    pub fn on_entries(
        &mut self,
        number: i32,
        now: Now,
        range: QueueRange,
        entries: &[DelayEntry],
        due: &mut Vec<Due>,
        out: &mut Vec<Effect>,
    ) {
        let Some(level) = index(number).and_then(|index| self.levels.get_mut(index)) else { return };
        level.ever_used |= range.max.0 > 0;
        level.failed = false;
        let before = level.progress;
        level.correct(number, range, out);
        level.skip_hole(number, entries, out);
        if level.progress != before {
            self.updates += 1;
            self.moves += 1;
            self.dirty = true;
        }
        // A full batch has more behind it.
        let pause_ms = if entries.len() < BATCH_MAX { POLL_MS } else { 0 };
        level.not_before = now.monotonic.plus(pause_ms);
        for entry in entries.iter().take(BATCH_MAX) {
            if entry.offset < level.progress || level.done.contains(&entry.offset) {
                continue;
            }
            let wait_ms = level.wait_ms(entry, now, range.max);
            if wait_ms > 0 {
                level.not_before = now.monotonic.plus(wait_ms.min(SLEEP_MS_MAX));
                break;
            }
            level.in_flight.insert(entry.offset);
            due.push(Due { level: number, entry: *entry });
        }
    }

    /// The message of an entry is stored under its real topic, synced and replicated or not: it must not be put again.
    pub fn on_delivered(&mut self, number: i32, offset: QueueOffset) {
        let Some(level) = index(number).and_then(|index| self.levels.get_mut(index)) else { return };
        if !level.in_flight.remove(&offset) {
            return;
        }
        level.failures = 0;
        level.done.insert(offset);
        level.advance();
        self.updates += 1;
        self.moves += 1;
        self.dirty = true;
    }

    /// The message of an entry could not be stored now. It is tried again after a pause that doubles up to 10 s (DLY-3).
    pub fn on_failed(&mut self, number: i32, offset: QueueOffset, now: Now) {
        let Some(level) = index(number).and_then(|index| self.levels.get_mut(index)) else { return };
        if !level.in_flight.remove(&offset) {
            return;
        }
        // What failed together has one pause.
        if !std::mem::replace(&mut level.failed, true) {
            level.pause(now);
        }
    }

    /// A level's queue could not be read now: as with a delivery that failed, it is asked again after a pause.
    pub fn on_unreadable(&mut self, number: i32, now: Now) {
        if let Some(level) = index(number).and_then(|index| self.levels.get_mut(index)) {
            level.pause(now);
        }
    }

    /// The message of an entry can never be delivered: its record is gone, or is not a delayed message. It is left
    /// behind with a report.
    pub fn on_undeliverable(&mut self, number: i32, offset: QueueOffset, why: &'static str, out: &mut Vec<Effect>) {
        let to = QueueOffset(offset.0 + 1);
        out.push(Effect::Report(Report::DelayedLost { level: number, from: offset, to, why }));
        self.on_delivered(number, offset);
    }

    /// Messages of a level that wait, given what its queue holds.
    pub fn waiting(&self, number: i32, range: QueueRange) -> u64 {
        self.level(number).map_or(0, |level| range.max.0.saturating_sub(level.progress.0))
    }

    fn level(&self, number: i32) -> Option<&Level> {
        self.levels.get(index(number)?)
    }
}

impl Level {
    /// The queue's head can be deleted, and its tail cut by a role change, while we run.
    fn correct(&mut self, number: i32, range: QueueRange, out: &mut Vec<Effect>) {
        let QueueRange { min, max } = range;
        if self.progress < min {
            let why = "their queue entries were deleted before they were due";
            out.push(Effect::Report(Report::DelayedLost { level: number, from: self.progress, to: min, why }));
            self.progress = min;
        } else if self.progress > max {
            let report = Report::DelayProgressCorrected { level: number, saved: self.progress, corrected: max };
            out.push(Effect::Report(report));
            self.progress = max;
            self.guard = None;
        }
        self.done.retain(|offset| (self.progress..max).contains(offset));
        self.advance();
    }

    /// Begins a pause, twice as long as the last one if nothing was delivered since.
    fn pause(&mut self, now: Now) {
        let pause_ms = (PAUSE_MS_MIN << self.failures.min(16)).min(PAUSE_MS_MAX);
        self.failures = self.failures.saturating_add(1);
        self.not_before = self.not_before.max(now.monotonic.plus(pause_ms));
    }

    /// Moves progress over what is done.
    fn advance(&mut self) {
        while self.done.remove(&self.progress) {
            self.progress = QueueOffset(self.progress.0 + 1);
        }
    }

    /// A queue file that is missing leaves a hole: the entries read begin behind it.
    fn skip_hole(&mut self, number: i32, entries: &[DelayEntry], out: &mut Vec<Effect>) {
        let Some(first) = entries.first().filter(|first| first.offset > self.progress) else { return };
        let why = "a file of the queue is missing";
        out.push(Effect::Report(Report::DelayedLost { level: number, from: self.progress, to: first.offset, why }));
        self.progress = first.offset;
        self.done = self.done.split_off(&first.offset);
        self.advance();
    }

    /// Milliseconds until an entry is due; 0 or less if it is.
    fn wait_ms(&mut self, entry: &DelayEntry, now: Now, end: QueueOffset) -> i64 {
        let wait_ms = entry.deliver_at.0.saturating_sub(now.wall.0);
        if wait_ms <= self.delay_ms {
            return wait_ms;
        }
        let guard = match self.guard {
            Some(guard) if entry.offset < guard.up_to => guard,
            _ => *self.guard.insert(Guard { up_to: end, due: now.monotonic.plus(self.delay_ms) }),
        };
        guard.due.0.saturating_sub(now.monotonic.0)
    }
}

fn index(level: i32) -> Option<usize> {
    usize::try_from(level.checked_sub(1)?).ok()
}
