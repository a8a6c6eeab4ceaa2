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

    /// The monotonic time at which some level wants to be asked next. Levels that wait for outcomes have none.
    pub fn next_wake(&self) -> Option<Millis> {
        self.levels.iter().filter(|level| level.in_flight.is_empty()).map(|level| level.not_before).min()
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
        let before = level.progress;
        level.correct(number, range, out);
        if level.progress != before {
            self.updates += 1;
            self.dirty = true;
        }
        level.not_before = now.monotonic.plus(POLL_MS);
        for entry in entries.iter().take(BATCH_MAX) {
            if entry.offset < level.progress || level.done.contains(&entry.offset) {
                continue;
            }
            let wait_ms = level.wait_ms(entry, now, range.max);
            if wait_ms > 0 {
                if level.in_flight.is_empty() {
                    level.not_before = now.monotonic.plus(wait_ms.min(SLEEP_MS_MAX));
                }
                break;
            }
            level.in_flight.insert(entry.offset);
            due.push(Due { level: number, entry: *entry });
        }
        if entries.len() >= BATCH_MAX && level.in_flight.len() >= BATCH_MAX {
            level.not_before = now.monotonic;
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
        while level.done.remove(&level.progress) {
            level.progress = QueueOffset(level.progress.0 + 1);
        }
        self.updates += 1;
        self.dirty = true;
    }

    /// The message of an entry could not be stored now. It is tried again after a pause that doubles up to 10 s (DLY-3).
    pub fn on_failed(&mut self, number: i32, offset: QueueOffset, now: Now) {
        let Some(level) = index(number).and_then(|index| self.levels.get_mut(index)) else { return };
        if !level.in_flight.remove(&offset) {
            return;
        }
        let pause_ms = (PAUSE_MS_MIN << level.failures.min(16)).min(PAUSE_MS_MAX);
        level.failures = level.failures.saturating_add(1);
        level.not_before = level.not_before.max(now.monotonic.plus(pause_ms));
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
        while self.done.remove(&self.progress) {
            self.progress = QueueOffset(self.progress.0 + 1);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [u64; 0] = [];

    fn entry(offset: u64, deliver_at: i64) -> DelayEntry {
        DelayEntry {
            offset: QueueOffset(offset),
            deliver_at: Millis(deliver_at),
            position: PhysicalOffset(offset * 100),
            size: 100,
        }
    }

    fn at(ms: i64) -> Now {
        Now { wall: Millis(ms), monotonic: Millis(ms) }
    }

    fn range(min: u64, max: u64) -> QueueRange {
        QueueRange { min: QueueOffset(min), max: QueueOffset(max) }
    }

    /// Level 3 (10 s) with `saved` progress in a queue that holds `held`.
    fn level_3(saved: u64, held: QueueRange) -> (DelayScheduler, Vec<Effect>) {
        let mut out = Vec::new();
        let saved = (DataVersion::default(), BTreeMap::from([(3, QueueOffset(saved))]));
        let only = |level| (level == 3).then_some(held);
        (DelayScheduler::new(&DelayLevels::default(), 200, saved, only, &mut out), out)
    }

    fn due_offsets(scheduler: &mut DelayScheduler, now: Now, held: QueueRange, entries: &[DelayEntry]) -> Vec<u64> {
        let Some(from) = scheduler.wants(3, now) else { return Vec::new() };
        let read: Vec<DelayEntry> = entries.iter().filter(|entry| entry.offset >= from).copied().collect();
        let mut due = Vec::new();
        scheduler.on_entries(3, now, held, &read, &mut due, &mut Vec::new());
        due.iter().map(|due| due.entry.offset.0).collect()
    }

    #[test]
    fn messages_are_due_in_order_and_never_early() {
        let (mut scheduler, _) = level_3(0, range(0, 3));
        let entries = [entry(0, 10_000), entry(1, 10_001), entry(2, 12_000)];
        assert_eq!(due_offsets(&mut scheduler, at(9_999), range(0, 3), &entries), NONE);
        assert_eq!(scheduler.wants(3, at(9_999)), None, "it sleeps until the first is due");
        assert_eq!(due_offsets(&mut scheduler, at(10_000), range(0, 3), &entries), [0]);
        assert_eq!(scheduler.wants(3, at(20_000)), None, "one batch at a time");
        scheduler.on_delivered(3, QueueOffset(0));
        assert_eq!(due_offsets(&mut scheduler, at(12_000), range(0, 3), &entries), [1, 2]);
    }

    /// DLY-1: when delivering a due message failed, the retry began at the following entry.
    #[test]
    fn dly_1_a_failed_delivery_is_tried_again_and_nothing_else_is() {
        let (mut scheduler, _) = level_3(0, range(0, 3));
        let entries = [entry(0, 1), entry(1, 2), entry(2, 3)];
        assert_eq!(due_offsets(&mut scheduler, at(10), range(0, 3), &entries), [0, 1, 2]);
        scheduler.on_delivered(3, QueueOffset(0));
        scheduler.on_failed(3, QueueOffset(1), at(10));
        scheduler.on_delivered(3, QueueOffset(2));
        assert_eq!(scheduler.wants(3, at(109)), None);
        assert_eq!(due_offsets(&mut scheduler, at(110), range(0, 3), &entries), [1]);
        scheduler.on_delivered(3, QueueOffset(1));
        assert_eq!(due_offsets(&mut scheduler, at(300), range(0, 3), &entries), NONE);
        assert_eq!(scheduler.waiting(3, range(0, 3)), 0);
    }

    /// DLY-2: saved progress beyond the end of the queue: messages of that level never came.
    #[test]
    fn dly_2_progress_beyond_the_queue_is_corrected() {
        let (mut scheduler, out) = level_3(77, range(0, 74));
        let corrected = Report::DelayProgressCorrected { level: 3, saved: QueueOffset(77), corrected: QueueOffset(74) };
        assert_eq!(out, [Effect::Report(corrected)]);
        assert!(scheduler.dirty, "the correction is saved");
        assert_eq!(due_offsets(&mut scheduler, at(5), range(0, 75), &[entry(74, 5)]), [74]);
        let (scheduler, _) = level_3(3, range(10, 20));
        assert_eq!(scheduler.wants(3, at(0)), Some(QueueOffset(10)), "below the beginning is the beginning");
    }

    /// DLY-3: a message was appended again and again while the store was not available.
    #[test]
    fn dly_3_attempts_are_bounded_by_growing_pauses() {
        let (mut scheduler, _) = level_3(0, range(0, 1));
        let mut attempts = Vec::new();
        for ms in 0..30_000 {
            for offset in due_offsets(&mut scheduler, at(ms), range(0, 1), &[entry(0, 0)]) {
                attempts.push(ms);
                match ms < 5_000 {
                    true => scheduler.on_failed(3, QueueOffset(offset), at(ms)),
                    false => scheduler.on_delivered(3, QueueOffset(offset)),
                }
            }
        }
        assert_eq!(attempts, [0, 100, 300, 700, 1500, 3100, 6300]);
    }

    /// DLY-11: restart delivered all pending messages at once.
    #[test]
    fn dly_11_a_restart_keeps_the_times() {
        let entries: Vec<DelayEntry> = (0..50).map(|n| entry(n, 60_000 * (n as i64 + 1))).collect();
        let (mut scheduler, _) = level_3(5, range(0, 50));
        for level in &mut scheduler.levels {
            level.delay_ms = 60_000 * 50;
        }
        assert_eq!(due_offsets(&mut scheduler, at(60_000 * 5), range(0, 50), &entries), NONE);
        let now = Now { wall: Millis(60_000 * 6), monotonic: Millis(400_000) };
        assert_eq!(due_offsets(&mut scheduler, now, range(0, 50), &entries), [5]);
    }

    #[test]
    fn a_clock_set_back_delays_by_the_level_at_most_and_never_hurries() {
        let (mut scheduler, _) = level_3(0, range(0, 2));
        let entries = [entry(0, 3_610_000), entry(1, 3_610_001)];
        for ms in [0, 1_000, 5_000, 9_999] {
            assert_eq!(due_offsets(&mut scheduler, at(ms), range(0, 2), &entries), NONE, "early at {ms}");
        }
        assert_eq!(due_offsets(&mut scheduler, at(10_999), range(0, 2), &entries), [0, 1]);
    }

    #[test]
    fn deleted_and_unreadable_entries_are_reported() {
        let (mut scheduler, _) = level_3(0, range(0, 9));
        let (mut due, mut out) = (Vec::new(), Vec::new());
        scheduler.on_entries(3, at(10), range(4, 9), &[entry(4, 1)], &mut due, &mut out);
        assert_eq!(due.len(), 1);
        scheduler.on_undeliverable(3, QueueOffset(4), "its record is gone", &mut out);
        assert_eq!(out.len(), 2);
        assert_eq!(scheduler.waiting(3, range(4, 9)), 4);
    }

    #[test]
    fn outcomes_nobody_waits_for_change_nothing() {
        let (mut scheduler, _) = level_3(5, range(0, 9));
        scheduler.on_delivered(3, QueueOffset(5));
        scheduler.on_failed(3, QueueOffset(6), at(0));
        scheduler.on_delivered(0, QueueOffset(0));
        scheduler.on_delivered(i32::MIN, QueueOffset(0));
        assert_eq!(scheduler.wants(3, at(0)), Some(QueueOffset(5)));
        assert_eq!(scheduler.wants(99, at(0)), None);
    }
}
