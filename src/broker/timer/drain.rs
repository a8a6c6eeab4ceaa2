//! One second's records on their way out.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;

use super::wheel::Slot;
use crate::env::Millis;
use crate::proto::PhysicalOffset;
use crate::store::timer::{Pending, PendingKind, Unit, UnitLog, UnitPosition};

/// Units of one second taken into memory at a time, the oldest first.
pub(super) const LOAD_MAX: usize = 32_768;
/// Pauses after failures double from the first to the last of these.
const PAUSE_MS_MIN: i64 = 100;
const PAUSE_MS_MAX: i64 = 10_000;

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Drain {
    /// In the order of the log; those that are done stay until the log says so.
    pub units: VecDeque<Item>,
    /// So many at the front are done.
    done_prefix: usize,
    /// Everything up to here was taken into memory.
    loaded_to: Option<UnitPosition>,
    /// Units that take messages back, and what they name once that was read.
    pub recalls: Vec<(UnitPosition, Pending)>,
    unread_recalls: usize,
    recalled: Arc<BTreeSet<String>>,
    /// The commit log holds no copy of these records below this but those that the timer log says are done.
    pub scan_from: PhysicalOffset,
    /// Where the last copy ends.
    copies_end: PhysicalOffset,
    /// What may be written down as done once the commit log is on disk.
    settling: Option<Settling>,
}

#[derive(Clone, Copy, Debug)]
struct Settling {
    through: UnitPosition,
    copies_end: PhysicalOffset,
    scan_from: PhysicalOffset,
}

/// A unit in memory.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub at: UnitPosition,
    pub pending: Pending,
    pub state: ItemState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemState {
    /// To be handed out, not before this monotonic time, after so many failures.
    Waiting { not_before: Millis, failures: u32 },
    /// Handed out, after so many failures.
    InFlight { failures: u32 },
    /// Done with.
    Done,
}

impl Item {
    /// To be handed out at once.
    pub fn new(at: UnitPosition, pending: Pending) -> Item {
        Item { at, pending, state: ItemState::Waiting { not_before: Millis(i64::MIN), failures: 0 } }
    }

    /// It is tried again after a pause that doubles up to 10 s.
    pub fn on_failed(&mut self, now: Millis) -> Option<Millis> {
        let ItemState::InFlight { failures } = self.state else { return None };
        let not_before = now.plus((PAUSE_MS_MIN << failures.min(10)).min(PAUSE_MS_MAX));
        self.state = ItemState::Waiting { not_before, failures: failures.saturating_add(1) };
        Some(not_before)
    }
}

impl Drain {
    pub fn new(slot: &Slot, log_end: PhysicalOffset) -> Drain {
        Drain {
            units: VecDeque::new(),
            done_prefix: 0,
            loaded_to: slot.done,
            recalls: Vec::new(),
            unread_recalls: 0,
            recalled: Arc::default(),
            scan_from: log_end,
            copies_end: PhysicalOffset(0),
            settling: None,
        }
    }

    /// Whether all that was loaded is done and the chain goes on.
    pub fn wants_load(&self, slot: &Slot) -> bool {
        self.done_prefix == self.units.len() && self.loaded_to.is_none_or(|loaded| loaded < slot.last)
    }

    /// Takes the oldest units that are not in memory yet, and all that take messages back, wherever they stand.
    pub fn load(&mut self, log: &mut impl UnitLog, slot: &Slot, floor: UnitPosition) -> io::Result<()> {
        let floor = floor.max(log.begin());
        let known = self.recalls.last().map(|(at, _)| *at);
        let mut oldest: VecDeque<Item> = VecDeque::new();
        let mut recalls = Vec::new();
        let mut next = Some(slot.last);
        while let Some(at) = next.filter(|at| *at >= floor && *at >= slot.first) {
            let wanted = self.loaded_to.is_none_or(|loaded| at > loaded);
            let recalls_wanted = slot.recalls > 0 && known.is_none_or(|known| at > known);
            if !wanted && !recalls_wanted {
                break;
            }
            let Some(Unit::Pending(pending)) = log.read(at)? else {
                let what = format!("the timer log has no waiting unit at {}", at.0);
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            };
            if recalls_wanted && pending.kind == PendingKind::Recall {
                recalls.push((at, pending));
            }
            if wanted {
                oldest.push_front(Item::new(at, pending));
                if oldest.len() > LOAD_MAX {
                    oldest.pop_back();
                }
            }
            next = pending.previous;
        }
        self.loaded_to = oldest.back().map(|item| item.at).or(self.loaded_to);
        self.units.append(&mut oldest);
        recalls.reverse();
        self.recalls.append(&mut recalls);
        Ok(())
    }

    /// The units whose messages are not known yet that they take back.
    pub fn unread_recalls(&self) -> &[(UnitPosition, Pending)] {
        &self.recalls[self.unread_recalls..]
    }

    /// What all of [`Drain::unread_recalls`] name.
    pub fn on_recalls(&mut self, names: impl IntoIterator<Item = String>) {
        self.unread_recalls = self.recalls.len();
        Arc::make_mut(&mut self.recalled).extend(names);
    }

    /// The messages that are taken back; `None` if none is.
    pub fn recalled(&self) -> Option<&Arc<BTreeSet<String>>> {
        Some(&self.recalled).filter(|recalled| !recalled.is_empty())
    }

    fn item(&mut self, at: UnitPosition) -> Option<&mut Item> {
        let index = self.units.binary_search_by_key(&at, |item| item.at).ok()?;
        self.units.get_mut(index)
    }

    /// The unit needs no copy, or has one that ends at `copy_end`.
    pub fn on_done(&mut self, at: UnitPosition, copy_end: Option<PhysicalOffset>) {
        if let Some(item) = self.item(at) {
            item.state = ItemState::Done;
        }
        self.copies_end = self.copies_end.max(copy_end.unwrap_or_default());
        while self.units.get(self.done_prefix).is_some_and(|item| item.state == ItemState::Done) {
            self.done_prefix += 1;
        }
    }

    /// The unit is tried again at the time that is returned.
    pub fn on_failed(&mut self, at: UnitPosition, now: Millis) -> Option<Millis> {
        self.item(at)?.on_failed(now)
    }

    /// Units that are in memory and not done.
    pub fn under_way(&self) -> u64 {
        self.units.range(self.done_prefix..).filter(|item| item.state != ItemState::Done).count() as u64
    }

    /// Whether a unit is not done that is put again.
    pub fn has_rolls(&self, slot: &Slot) -> bool {
        let mut undone = self.units.range(self.done_prefix..).filter(|item| item.state != ItemState::Done);
        self.wants_load(slot) || undone.any(|item| item.pending.kind == PendingKind::Roll)
    }

    /// Units that are not done, in order.
    pub fn undone(&mut self) -> impl Iterator<Item = &mut Item> {
        self.units.range_mut(self.done_prefix..).filter(|item| item.state != ItemState::Done)
    }

    /// What is known to be done now and survives a power cut once the commit log is flushed as far as it reaches;
    /// `None` while nothing new is.
    pub fn settled(&mut self, flushed: PhysicalOffset, log_end: PhysicalOffset) -> Option<UnitPosition> {
        if self.settling.is_none() {
            let through = self.done_prefix.checked_sub(1).and_then(|last| self.units.get(last))?.at;
            let all = !self.units.range(self.done_prefix..).any(|item| item.state == ItemState::Done);
            // A copy of a unit behind one that failed is not covered yet.
            let scan_from = if all { log_end } else { self.scan_from };
            self.settling = Some(Settling { through, copies_end: self.copies_end, scan_from });
        }
        let settling = self.settling.filter(|settling| settling.copies_end <= flushed)?;
        self.settling = None;
        self.scan_from = settling.scan_from;
        Some(settling.through)
    }

    /// Forgets units that the log now says are done, and shows them to `gone`.
    pub fn forget(&mut self, through: UnitPosition, mut gone: impl FnMut(&Item)) {
        while self.units.front().is_some_and(|item| item.at <= through) {
            self.done_prefix = self.done_prefix.saturating_sub(1);
            self.units.pop_front().iter().for_each(&mut gone);
        }
    }

    /// Whether anything waits for the commit log to be on disk.
    pub fn is_unsettled(&self) -> bool {
        self.done_prefix > 0
    }
}
