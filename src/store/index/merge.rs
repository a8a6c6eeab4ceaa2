//! Brings a batch of entries into an index file.
//!
//! Entries are written one after the other, but each also changes a slot, and slots lie scattered over 20 MB. Changing
//! them one by one costs two calls per key. So entries wait in memory; a merge groups them by slot, reads, changes and
//! writes each stretch of slots once, then writes the entries in one piece, then the header. It runs in small steps,
//! so that whoever runs it can let others have the thread in between.

use std::io;

use super::layout::{i32_at, IndexGeometry, IndexHeader, ENTRY_PREVIOUS_AT, ENTRY_SIZE, SLOT_SIZE};
use crate::env::File;

/// Groups of slots; one group is about 20 KB of a default file.
const GROUPS: u32 = 1024;
/// Slots further apart than this are read and written on their own.
const GAP_SLOTS: u32 = 512;
/// Most slots read and written at once.
const STRETCH_SLOTS: u32 = 8192;
/// Stretches of slots changed in one step.
const STEP_STRETCHES: u32 = 32;
/// Bytes of entries written in one step.
const STEP_BYTES: usize = 256 * 1024;

/// Whether a piece of work is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Call again.
    More,
    /// Nothing is left to do.
    Done,
}

/// A batch on its way into the file.
pub(super) struct Merge {
    /// Number of the first entry of the batch.
    first: u32,
    /// Entries of the batch.
    count: usize,
    /// Places in the batch, grouped by slot.
    order: Vec<u32>,
    /// Group g is `order[starts[g]..starts[g + 1]]`.
    starts: Vec<u32>,
    /// The next group to do.
    group: usize,
    /// Bytes of the entries already written.
    written: usize,
    /// The header once the batch is in the file.
    header: IndexHeader,
    /// Entries below this number may have been hooked in by an attempt that failed.
    hooked_until: u32,
    slots: Vec<u8>,
}

impl Merge {
    /// Prepares to bring `entries` into a file; `header` already counts them. `hooked_until` comes from the attempt
    /// before if that failed, and is 0 otherwise.
    pub(super) fn new(geometry: IndexGeometry, header: IndexHeader, entries: &[u8], hooked_until: u32) -> Merge {
        let count = entries.len() / ENTRY_SIZE;
        let width = geometry.slots().div_ceil(GROUPS);
        let group_of = |place: u32| (slot_of(geometry, entries, place) / width) as usize;
        let mut starts = vec![0_u32; GROUPS as usize + 1];
        for place in 0..count as u32 {
            starts[group_of(place) + 1] += 1;
        }
        for group in 0..GROUPS as usize {
            starts[group + 1] += starts[group];
        }
        let mut next = starts.clone();
        let mut order = vec![0; count];
        for place in 0..count as u32 {
            let at = &mut next[group_of(place)];
            order[*at as usize] = place;
            *at += 1;
        }
        let first = header.index_count - count as u32;
        Merge { first, count, order, starts, group: 0, written: 0, header, hooked_until, slots: Vec::new() }
    }

    /// Bytes of the batch.
    pub(super) fn len(&self) -> usize {
        self.count * ENTRY_SIZE
    }

    /// The header on disk once the merge is done.
    pub(super) fn header(&self) -> &IndexHeader {
        &self.header
    }

    /// After an error: what a new merge has to be told, so that it recognises the slots that this one changed.
    pub(super) fn may_have_hooked_until(&self) -> u32 {
        self.header.index_count
    }

    /// Does the next piece. `entries` starts with the batch; entries added since may follow.
    pub(super) fn step(
        &mut self,
        file: &dyn File,
        geometry: IndexGeometry,
        entries: &mut [u8],
    ) -> io::Result<Progress> {
        if self.group < GROUPS as usize {
            let mut stretches = 0;
            while self.group < GROUPS as usize && stretches < STEP_STRETCHES {
                stretches += self.merge_group(file, geometry, entries)?;
                self.group += 1;
            }
            return Ok(Progress::More);
        }
        if self.written < self.len() {
            let end = self.len().min(self.written + STEP_BYTES);
            let at = geometry.entry_at(self.first) + self.written as u64;
            file.write_at(at, &entries[self.written..end])?;
            self.written = end;
            return Ok(Progress::More);
        }
        file.write_at(0, &self.header.encode())?;
        Ok(Progress::Done)
    }

    /// Chains the entries of one group; returns the number of stretches it took.
    fn merge_group(&mut self, file: &dyn File, geometry: IndexGeometry, entries: &mut [u8]) -> io::Result<u32> {
        let range = self.starts[self.group] as usize..self.starts[self.group + 1] as usize;
        let mut places = std::mem::take(&mut self.order);
        places[range.clone()].sort_unstable_by_key(|place| (slot_of(geometry, entries, *place), *place));
        let merged = self.merge_places(file, geometry, entries, &places[range]);
        self.order = places;
        merged
    }

    fn merge_places(
        &mut self,
        file: &dyn File,
        geometry: IndexGeometry,
        entries: &mut [u8],
        mut places: &[u32],
    ) -> io::Result<u32> {
        let mut stretches = 0;
        while let Some(first) = places.first() {
            let start = slot_of(geometry, entries, *first);
            let mut end = start;
            let mut taken = 1;
            for place in &places[1..] {
                let slot = slot_of(geometry, entries, *place);
                if slot - end > GAP_SLOTS || slot - start >= STRETCH_SLOTS {
                    break;
                }
                end = slot;
                taken += 1;
            }
            self.merge_stretch(file, geometry, entries, start, end, &places[..taken])?;
            places = &places[taken..];
            stretches += 1;
        }
        Ok(stretches)
    }

    /// Reads slots `start..=end`, hooks in the entries at `places` (ordered by slot, then age) and writes them back.
    fn merge_stretch(
        &mut self,
        file: &dyn File,
        geometry: IndexGeometry,
        entries: &mut [u8],
        start: u32,
        end: u32,
        places: &[u32],
    ) -> io::Result<()> {
        let at = geometry.slot_at(start);
        self.slots.resize((end - start + 1) as usize * SLOT_SIZE, 0);
        if file.read_at(at, &mut self.slots)? < self.slots.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut opened = 0;
        for &place in places {
            let number = self.first + place;
            let slot_at = (slot_of(geometry, entries, place) - start) as usize * SLOT_SIZE;
            let previous = valid_number(i32_at(&self.slots, slot_at), number.max(self.hooked_until));
            if previous >= number {
                continue;
            }
            let entry_at = place as usize * ENTRY_SIZE + ENTRY_PREVIOUS_AT;
            entries[entry_at..entry_at + 4].copy_from_slice(&previous.to_be_bytes());
            self.slots[slot_at..slot_at + SLOT_SIZE].copy_from_slice(&number.to_be_bytes());
            opened += u32::from(previous == 0);
        }
        file.write_at(at, &self.slots)?;
        self.header.hash_slot_count += opened;
        Ok(())
    }
}

/// A slot's value as an entry number; 0 for none and for values that no entry has.
pub(super) fn valid_number(value: i32, index_count: u32) -> u32 {
    match value {
        1.. if (value as u32) < index_count => value as u32,
        _ => 0,
    }
}

fn slot_of(geometry: IndexGeometry, entries: &[u8], place: u32) -> u32 {
    geometry.slot_of(i32_at(entries, place as usize * ENTRY_SIZE) as u32)
}
