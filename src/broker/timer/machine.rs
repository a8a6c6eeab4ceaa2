//! The timer: takes in the records of the timer topic, hands out those whose second has begun, and writes down in the
//! timer log what is done.
//!
//! INV-TMR-1: at every prefix of the timer log, a record that has neither a unit that is done nor a copy in the commit log
//! at or above `scan_from` is delivered later, and any other one is not. So a crash may leave any prefix.
//!
//! That something is done is written only once the commit log is on disk as far as the copy reaches: a power cut takes
//! the copy and keeps the record waiting, or keeps both the copy and what is known of it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::accept::DueSecond;
use super::drain::{Drain, Item, ItemState, LOAD_MAX};
use super::trim::Trim;
use super::wheel::Wheel;
use crate::broker::delay::Now;
use crate::env::{Canaries, Canary, Millis};
use crate::proto::{PhysicalOffset, QueueOffset};
use crate::store::timer::{Mark, Pending, PendingKind, Unit, UnitLog, UnitPosition};

/// Units in memory, of all seconds together.
const LOADED_MAX: usize = 4 * LOAD_MAX;
/// Seconds that are delivered at once.
const DRAINS_MAX: usize = 4096;
/// How long it waits for what has to be done before.
const BLOCKED_MS: i64 = 10;
/// The longest the timer sleeps: the wall clock may be corrected forwards meanwhile.
const SLEEP_MS_MAX: i64 = 1000;
/// How far the commit log may grow before a crash's search for copies begins later.
const SCAN_BYTES_MAX: u64 = 64 << 20;

/// A record to deliver or to put into the timer topic again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerDue {
    /// Its unit.
    pub at: UnitPosition,
    /// What the unit says.
    pub pending: Pending,
}

/// See the module's text.
#[derive(Clone, Debug)]
pub struct Timer<L> {
    pub(super) log: L,
    pub(super) wheel: Wheel,
    /// How many live units each file holds.
    live: BTreeMap<u64, u64>,
    pub(super) draining: BTreeMap<i64, Drain>,
    /// Records that have copies which no unit tells of, found after a crash.
    pub(super) copied: BTreeSet<u64>,
    /// Where the copies of `copied` are.
    pub(super) copied_in: Range<PhysicalOffset>,
    /// Records that are put again for retention.
    pub(super) trim: Option<Trim>,
    /// When the first record that failed is tried again.
    pub(super) retry_at: Option<Millis>,
    pending: u64,
    canaries: Canaries,
}

impl<L: UnitLog> Timer<L> {
    /// The state that the log's units amount to. [`Timer::adopt_copies`] comes next.
    ///
    /// # Errors
    /// The disk's.
    pub fn open(mut log: L, canaries: Canaries) -> io::Result<Timer<L>> {
        let mut wheel = Wheel { floor: log.begin(), ..Wheel::default() };
        log.walk(&mut |at, unit| {
            wheel.apply(at, unit);
            Ok(true)
        })?;
        wheel.floor = wheel.floor.max(log.begin());
        Ok(Timer {
            log,
            wheel,
            live: BTreeMap::new(),
            draining: BTreeMap::new(),
            copied: BTreeSet::new(),
            copied_in: PhysicalOffset(0)..PhysicalOffset(0),
            trim: None,
            retry_at: None,
            pending: 0,
            canaries,
        })
    }

    /// Where to look for copies in the commit log.
    pub fn scan_from(&self) -> PhysicalOffset {
        self.wheel.mark.scan_from
    }

    /// Takes what was found in the commit log from [`Timer::scan_from`] to `end`: the numbers of records that have a copy.
    ///
    /// # Errors
    /// The disk's.
    pub fn adopt_copies(&mut self, found: &BTreeSet<u64>, end: PhysicalOffset) -> io::Result<()> {
        let wheel = &self.wheel;
        let (mut pending_count, mut copied) = (0, BTreeSet::new());
        let mut live: BTreeMap<u64, u64> = BTreeMap::new();
        let file_size = self.log.file_size();
        self.log.walk(&mut |at, unit| {
            if let Unit::Pending(pending) = unit {
                if wheel.is_live(at, pending) {
                    *live.entry(at.0 - at.0 % file_size).or_default() += 1;
                    pending_count += u64::from(pending.kind != PendingKind::Recall);
                    if found.contains(&pending.number.0) {
                        copied.insert(pending.number.0);
                    }
                }
            }
            Ok(true)
        })?;
        copied.extend(found.range(self.wheel.mark.next.0..));
        self.live = live;
        self.pending = pending_count;
        self.copied = copied;
        self.copied_in = self.wheel.mark.scan_from..end;
        Ok(())
    }

    /// The first record of the timer topic that is not taken in yet.
    pub fn next(&self) -> QueueOffset {
        self.wheel.mark.next
    }

    /// Takes a record in; `previous` is found here. It counts at once and stays if the next [`Timer::write`] succeeds.
    pub fn take_in(&mut self, pending: Pending) {
        let end = self.log.end();
        if self.file_of(end) == end.0 {
            // Each file can begin the log one day.
            let mark = Unit::Mark(self.wheel.mark);
            self.add(&mark);
        }
        let previous = self.wheel.previous(pending.second);
        let at = self.add(&Unit::Pending(Pending { previous, ..pending }));
        let file = self.file_of(at);
        *self.live.entry(file).or_default() += 1;
        self.pending += u64::from(pending.kind != PendingKind::Recall);
    }

    /// Leaves the next records out, up to `to`: they are gone, or nothing that the timer can deliver.
    pub fn leave_out(&mut self, to: QueueOffset) {
        self.wheel.mark.next = self.wheel.mark.next.max(to);
    }

    /// Writes what was taken in and what is done.
    ///
    /// # Errors
    /// The disk's; the next call tries again.
    pub fn write(&mut self) -> io::Result<()> {
        self.log.write()
    }

    /// The log, to sync it.
    pub fn log(&mut self) -> &mut L {
        &mut self.log
    }

    /// Records that wait to be delivered.
    pub fn pending(&self) -> u64 {
        self.pending
    }

    /// The first second that somebody waits for.
    pub fn first(&self) -> Option<i64> {
        self.wheel.slots.keys().next().copied()
    }

    /// Messages that are being delivered.
    pub fn under_way(&self) -> u64 {
        self.draining.values().map(Drain::under_way).sum()
    }

    /// How many messages are to be taken back in each second that waits.
    pub fn recalls(&self) -> impl Iterator<Item = (i64, u32)> + '_ {
        self.wheel.slots.iter().filter(|(_, slot)| slot.recalls > 0).map(|(second, slot)| (*second, slot.recalls))
    }

    /// Appends up to `max` records to `out` whose second has begun. Each wants one outcome: [`Timer::on_done`] or
    /// [`Timer::on_failed`]. Everything that the timer topic held when `now` was taken has to be taken in before, or a
    /// message could come out although it was taken back.
    ///
    /// # Errors
    /// The timer log's.
    pub fn due(&mut self, now: Now, log_end: PhysicalOffset, max: usize, out: &mut Vec<TimerDue>) -> io::Result<()> {
        let early = i64::from(self.canaries.has(Canary::TimerTooEarly));
        let last = DueSecond::last_begun(now.wall).0 + early;
        self.retry_at = None;
        let mut loaded: usize = self.draining.values().map(|drain| drain.units.len()).sum();
        for (second, slot) in self.wheel.slots.range(..=last) {
            if out.len() >= max {
                break;
            }
            if !self.draining.contains_key(second) {
                if self.draining.len() >= DRAINS_MAX || loaded + LOAD_MAX > LOADED_MAX || self.trim.is_some() {
                    break;
                }
                self.draining.insert(*second, Drain::new(slot, log_end));
            }
            let Some(drain) = self.draining.get_mut(second) else { continue };
            if drain.wants_load(slot) && loaded + LOAD_MAX <= LOADED_MAX {
                let before = drain.units.len();
                drain.load(&mut self.log, slot, self.wheel.floor)?;
                loaded += drain.units.len() - before;
            }
            if !drain.unread_recalls().is_empty() {
                break;
            }
            let (mut done, mut found) = (Vec::new(), false);
            for item in drain.undone() {
                let ItemState::Waiting { not_before, failures } = item.state else { continue };
                let is_copied = self.copied.remove(&item.pending.number.0);
                found |= is_copied;
                if is_copied || item.pending.kind == PendingKind::Recall {
                    done.push(item.at);
                } else if not_before <= now.monotonic {
                    item.state = ItemState::InFlight { failures };
                    out.push(TimerDue { at: item.at, pending: item.pending });
                    if out.len() >= max {
                        break;
                    }
                } else {
                    self.retry_at = Some(self.retry_at.map_or(not_before, |at| at.min(not_before)));
                }
            }
            if found {
                // Until it is written down that they are done, a crash has to find their copies again.
                drain.scan_from = drain.scan_from.min(self.copied_in.start);
            }
            let copies_end = found.then_some(self.copied_in.end);
            done.into_iter().for_each(|at| drain.on_done(at, copies_end));
            if slot.rolls > 0 && drain.has_rolls(slot) {
                // What is put again may belong to the next second, together with what takes it back.
                break;
            }
        }
        Ok(())
    }

    /// A second whose messages cannot be delivered before it is known which of them are taken back: read these records
    /// for [`Timer::on_recalls`].
    pub fn unread_recalls(&self) -> Option<(i64, Vec<Pending>)> {
        let (second, drain) = self.draining.iter().find(|(_, drain)| !drain.unread_recalls().is_empty())?;
        Some((*second, drain.unread_recalls().iter().map(|(_, pending)| *pending).collect()))
    }

    /// The messages that are taken back in a second, as `TIMER_DEL_UNIQKEY` names them.
    pub fn on_recalls(&mut self, second: i64, names: Vec<String>) {
        if let Some(drain) = self.draining.get_mut(&second) {
            drain.on_recalls(names);
        }
    }

    /// The messages that are taken back in a second, by their names; `None` if none is.
    pub fn recalled(&self, second: i64) -> Option<Arc<BTreeSet<String>>> {
        self.draining.get(&second)?.recalled().cloned()
    }

    /// A record is done with: its copy ends at `copy_end` in the commit log, or it needs none.
    pub fn on_done(&mut self, due: &TimerDue, copy_end: Option<PhysicalOffset>) {
        let of_trim = self.trim.as_mut().is_some_and(|trim| trim.on_done(due.at, copy_end));
        if let Some(drain) = self.draining.get_mut(&due.pending.second).filter(|_| !of_trim) {
            drain.on_done(due.at, copy_end);
        }
    }

    /// A record could not be copied now.
    pub fn on_failed(&mut self, due: &TimerDue, now: Now) {
        let of_trim = self.trim.as_mut().and_then(|trim| trim.on_failed(due.at, now.monotonic));
        let drain = self.draining.get_mut(&due.pending.second).filter(|_| of_trim.is_none());
        let retry_at = of_trim.or_else(|| drain?.on_failed(due.at, now.monotonic));
        self.retry_at = self.retry_at.into_iter().chain(retry_at).min();
    }

    /// Writes down what is done and, with the commit log on disk up to `flushed`, cannot be undone by a power cut. Says
    /// whether something is still to be written down once more of it is.
    ///
    /// # Errors
    /// The timer log's; the next call tries again.
    pub fn settle(&mut self, flushed: PhysicalOffset, log_end: PhysicalOffset) -> io::Result<bool> {
        let mut done = Vec::new();
        for (second, drain) in &mut self.draining {
            if let Some(through) = drain.settled(flushed, log_end) {
                done.push((*second, through));
            }
        }
        let mut something_done = !done.is_empty();
        for (second, through) in done {
            let mark = self.wheel.mark;
            self.add(&Unit::Done { second, through, mark });
            self.forget(second, through);
        }
        if let Some(below) = self.trim.as_mut().and_then(|trim| trim.settled(flushed)) {
            self.finish_trim(below);
            something_done = true;
        }
        self.mark(log_end, something_done);
        self.log.write()?;
        Ok(self.trim.is_some() || self.draining.values().any(Drain::is_unsettled))
    }

    /// Deletes the files at the log's beginning that hold nothing live. The log has to be synced before: what is done
    /// must not come back when the file is gone that says so.
    ///
    /// # Errors
    /// The disk's.
    pub fn delete_files(&mut self) -> io::Result<()> {
        while self.first_file_is_dead() {
            let before = self.log.begin();
            self.log.delete_first_file()?;
            if self.log.begin() == before {
                break;
            }
            self.live.remove(&before.0);
            self.wheel.floor = self.wheel.floor.max(self.log.begin());
        }
        Ok(())
    }

    /// Whether [`Timer::delete_files`] has something to do.
    pub fn first_file_is_dead(&self) -> bool {
        let begin = self.log.begin();
        let live = self.live.get(&begin.0).is_some_and(|live| *live > 0);
        !live && self.file_of(self.log.end()) > begin.0
    }

    /// The monotonic time at which to ask again for what is due; `None` while nothing waits.
    pub fn wake_at(&self, now: Now) -> Option<Millis> {
        // A second that has begun and is not being delivered has to wait for others.
        let sleep = |wait: i64| now.monotonic.plus(wait.clamp(BLOCKED_MS, SLEEP_MS_MAX));
        let next = self.wheel.slots.keys().find(|second| !self.draining.contains_key(second));
        let next = next.map(|second| sleep(DueSecond(*second).begins().0.saturating_sub(now.wall.0)));
        let slots = self.draining.iter().filter_map(|(second, drain)| Some((drain, self.wheel.slots.get(second)?)));
        let more = slots.into_iter().any(|(drain, slot)| drain.wants_load(slot)).then(|| sleep(0));
        self.retry_at.into_iter().chain(next).chain(more).min()
    }

    /// Whether anything is being delivered or put again.
    pub fn is_busy(&self) -> bool {
        !self.draining.is_empty() || self.trim.is_some()
    }

    /// Whether a second is being delivered.
    pub(super) fn is_draining(&self, second: i64) -> bool {
        self.draining.contains_key(&second)
    }

    /// Where the first file begins that holds something live.
    pub(super) fn first_live_file(&self) -> Option<UnitPosition> {
        self.live.iter().find(|(_, live)| **live > 0).map(|(base, _)| UnitPosition(*base))
    }

    pub(super) fn add(&mut self, unit: &Unit) -> UnitPosition {
        let at = self.log.append(unit);
        self.wheel.apply(at, unit);
        at
    }

    pub(super) fn unit_is_gone(&mut self, at: UnitPosition, pending: &Pending) {
        let file = self.file_of(at);
        if let Some(live) = self.live.get_mut(&file) {
            *live = live.saturating_sub(1);
        }
        self.pending = self.pending.saturating_sub(u64::from(pending.kind != PendingKind::Recall));
    }

    fn file_of(&self, at: UnitPosition) -> u64 {
        at.0 - at.0 % self.log.file_size()
    }

    /// Units of a second are done, says the log now.
    fn forget(&mut self, second: i64, through: UnitPosition) {
        let Some(mut drain) = self.draining.remove(&second) else { return };
        let mut gone: Vec<(UnitPosition, Pending)> = Vec::new();
        drain.forget(through, |Item { at, pending, .. }| {
            if pending.kind != PendingKind::Recall {
                gone.push((*at, *pending));
            }
        });
        if self.wheel.slots.contains_key(&second) {
            self.draining.insert(second, drain);
        } else {
            gone.append(&mut drain.recalls);
        }
        gone.iter().for_each(|(at, pending)| self.unit_is_gone(*at, pending));
    }

    /// Lets the next search for copies begin later, if that is worth a unit.
    fn mark(&mut self, log_end: PhysicalOffset, something_done: bool) {
        let drains = self.draining.values().map(|drain| drain.scan_from);
        let trim = self.trim.as_ref().map(|trim| trim.scan_from);
        let found = (!self.copied.is_empty()).then_some(self.copied_in.start);
        let scan_from = drains.chain(trim).chain(found).fold(log_end, PhysicalOffset::min);
        let grown = scan_from.0.saturating_sub(self.wheel.mark.scan_from.0);
        let is_used = self.log.end() > UnitPosition(0);
        if grown > 0 && something_done || is_used && grown > SCAN_BYTES_MAX {
            self.add(&Unit::Mark(Mark { scan_from, next: self.wheel.mark.next }));
        }
    }
}
