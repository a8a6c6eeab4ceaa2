//! Moving what waits to the end of the commit log, so that retention can delete its beginning.
//!
//! Records wait in the commit log, and far ones are put into it again once a day or two. Where files are kept for a
//! shorter time, or the disk runs full, the oldest are put again before their segment goes: the timer's units are in the
//! order of the commit log, so those concerned are the first ones.

use std::io;

use super::drain::{Item, ItemState};
use super::machine::{Timer, TimerDue};
use crate::env::Millis;
use crate::proto::PhysicalOffset;
use crate::store::timer::{Pending, Unit, UnitLog, UnitPosition, UNIT_SIZE};

/// Units looked at for one trim.
const TRIM_UNITS_MAX: usize = 4096;

/// Units that are put again together.
#[derive(Clone, Debug)]
pub(super) struct Trim {
    units: Vec<Item>,
    /// What lies below is done with, once all of them are.
    below: UnitPosition,
    /// None of their copies lies below.
    pub scan_from: PhysicalOffset,
    copies_end: PhysicalOffset,
}

impl Trim {
    fn item(&mut self, at: UnitPosition) -> Option<&mut Item> {
        let index = self.units.binary_search_by_key(&at, |item| item.at).ok()?;
        self.units.get_mut(index)
    }

    /// Whether the unit is one of these.
    pub fn on_done(&mut self, at: UnitPosition, copy_end: Option<PhysicalOffset>) -> bool {
        let Some(item) = self.item(at) else { return false };
        item.state = ItemState::Done;
        self.copies_end = self.copies_end.max(copy_end.unwrap_or_default());
        true
    }

    /// When the unit is tried again, if it is one of these.
    pub fn on_failed(&mut self, at: UnitPosition, now: Millis) -> Option<Millis> {
        self.item(at)?.on_failed(now)
    }

    /// Below which unit everything is done, once that survives a power cut.
    pub fn settled(&self, flushed: PhysicalOffset) -> Option<UnitPosition> {
        let done = self.units.iter().all(|item| item.state == ItemState::Done) && self.copies_end <= flushed;
        done.then_some(self.below)
    }
}

impl<L: UnitLog> Timer<L> {
    /// Where the oldest record lies in the commit log that waits and was taken in; `None` if none does.
    ///
    /// # Errors
    /// The timer log's.
    pub fn oldest_record(&mut self) -> io::Result<Option<PhysicalOffset>> {
        let Some(mut at) = self.first_live_file().map(|base| base.max(self.wheel.floor)) else { return Ok(None) };
        while let Some(unit) = self.log.read(at)? {
            if let Unit::Pending(pending) = unit {
                return Ok(Some(pending.record));
            }
            at.0 += UNIT_SIZE as u64;
        }
        Ok(None)
    }

    /// Begins to put records again that lie below `below` in the commit log, a few thousand at most, unless that is
    /// under way. [`Timer::due_for_trim`] hands them out. Deliveries of other seconds begin again when they are done.
    ///
    /// # Errors
    /// The timer log's.
    pub fn start_trim(&mut self, below: PhysicalOffset, log_end: PhysicalOffset) -> io::Result<()> {
        if self.trim.is_some() {
            return Ok(());
        }
        let Some(start) = self.first_live_file().map(|base| base.max(self.wheel.floor)) else { return Ok(()) };
        let (mut at, mut units) = (start, Vec::new());
        let (mut scan_from, mut copies_end) = (log_end, PhysicalOffset(0));
        for _ in 0..TRIM_UNITS_MAX {
            match self.log.read(at)? {
                Some(Unit::Pending(pending)) if self.stops_trim(at, &pending, below) => break,
                Some(Unit::Pending(pending)) if self.wheel.is_live(at, &pending) => {
                    let mut item = Item::new(at, pending);
                    if self.copied.remove(&pending.number.0) {
                        // A crash came between its copy and the unit that says so.
                        item.state = ItemState::Done;
                        scan_from = scan_from.min(self.copied_in.start);
                        copies_end = copies_end.max(self.copied_in.end);
                    }
                    units.push(item);
                }
                Some(_) => {}
                None => break,
            }
            at.0 += UNIT_SIZE as u64;
        }
        if at > start {
            self.trim = Some(Trim { units, below: at, scan_from, copies_end });
        }
        Ok(())
    }

    /// Whether that is under way.
    pub fn is_trimming(&self) -> bool {
        self.trim.is_some()
    }

    /// Records to put into the timer topic again; see [`Timer::due`] for what they want.
    pub fn due_for_trim(&mut self, now: Millis, max: usize, out: &mut Vec<TimerDue>) {
        let Some(trim) = &mut self.trim else { return };
        for item in &mut trim.units {
            let ItemState::Waiting { not_before, failures } = item.state else { continue };
            if out.len() >= max {
                break;
            }
            if not_before <= now {
                item.state = ItemState::InFlight { failures };
                out.push(TimerDue { at: item.at, pending: item.pending });
            } else {
                self.retry_at = Some(self.retry_at.map_or(not_before, |at| at.min(not_before)));
            }
        }
    }

    /// Writes down that all below is done with.
    pub(super) fn finish_trim(&mut self, below: UnitPosition) {
        let Some(trim) = self.trim.take() else { return };
        let mark = self.wheel.mark;
        self.add(&Unit::Trimmed { below, mark });
        trim.units.iter().for_each(|item| self.unit_is_gone(item.at, &item.pending));
    }

    fn stops_trim(&self, at: UnitPosition, pending: &Pending, below: PhysicalOffset) -> bool {
        let young = pending.record >= below;
        young || self.wheel.is_live(at, pending) && self.is_draining(pending.second)
    }
}
