//! Who waits for which second: what remains when the units of the timer log are applied in order.
//!
//! A second's records are a chain in the log, of which the wheel knows both ends. So its size follows from how many
//! different seconds are waited for, at most those of the roll window, and not from how many records wait.

use std::collections::BTreeMap;

use crate::store::timer::{Mark, Pending, PendingKind, Unit, UnitPosition};

/// The chain of one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// The oldest unit.
    pub first: UnitPosition,
    /// The newest unit.
    pub last: UnitPosition,
    /// Units at or below this are done with.
    pub done: Option<UnitPosition>,
    /// How many of them take messages back.
    pub recalls: u32,
    /// How many of them are put again.
    pub rolls: u64,
}

/// The slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wheel {
    pub slots: BTreeMap<i64, Slot>,
    /// Units below are done with.
    pub floor: UnitPosition,
    pub mark: Mark,
}

impl Wheel {
    /// Takes note of the unit at `at`, the next one of the log.
    pub fn apply(&mut self, at: UnitPosition, unit: &Unit) {
        match unit {
            Unit::Pending(pending) => {
                let new = Slot { first: at, last: at, done: None, recalls: 0, rolls: 0 };
                let slot = self.slots.entry(pending.second).or_insert(new);
                slot.last = at;
                slot.recalls += u32::from(pending.kind == PendingKind::Recall);
                slot.rolls += u64::from(pending.kind == PendingKind::Roll);
                self.mark.next.0 = pending.number.0 + 1;
            }
            Unit::Done { second, through, mark } => {
                self.mark = *mark;
                match self.slots.get_mut(second) {
                    Some(slot) if slot.last > *through => slot.done = Some(*through),
                    _ => drop(self.slots.remove(second)),
                }
            }
            Unit::Trimmed { below, mark } => {
                self.mark = *mark;
                self.floor = *below;
                self.slots.retain(|_, slot| slot.last >= *below);
            }
            Unit::Mark(mark) => self.mark = *mark,
        }
    }

    /// Whether the unit at `at` still has something to do: to be delivered, or to take messages back.
    pub fn is_live(&self, at: UnitPosition, pending: &Pending) -> bool {
        let Some(slot) = self.slots.get(&pending.second) else { return false };
        let done = pending.kind != PendingKind::Recall && slot.done.is_some_and(|done| at <= done);
        at >= self.floor && at >= slot.first && !done
    }

    /// The unit before which a new one of this second comes.
    pub fn previous(&self, second: i64) -> Option<UnitPosition> {
        self.slots.get(&second).map(|slot| slot.last)
    }
}
