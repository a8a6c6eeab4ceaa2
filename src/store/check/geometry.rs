//! How many slots and entries an index file has. The file does not say; its length gives their sum only, so a guess is
//! held against what stands in the file.

use std::io;

use crate::env::File;
use crate::store::index::{IndexEntry, IndexGeometry, IndexHeader, ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE};

/// Bytes read at once; a multiple of the size of an entry.
const WINDOW: usize = 3200 * ENTRY_SIZE;
/// RocketMQ's defaults have four entries a slot, and who changes one of the two mostly changes both.
const ENTRIES_PER_SLOT: u64 = 4;

/// The geometry of a file; `None` if no geometry explains it.
pub(super) fn detect(file: &dyn File) -> io::Result<Option<IndexGeometry>> {
    let len = file.len()?;
    let mut header = [0; HEADER_SIZE];
    if len < HEADER_SIZE as u64 || file.read_at(0, &mut header)? < HEADER_SIZE {
        return Ok(None);
    }
    let usual = [Some(IndexGeometry::DEFAULT), with_slots(len, (len - HEADER_SIZE as u64) / SLOTTED_ENTRIES_SIZE)];
    let usual = usual.into_iter().flatten().filter(|geometry| geometry.file_len() == len);
    let mut first = None;
    for geometry in usual {
        if fits(file, &header, geometry)? {
            return Ok(Some(geometry));
        }
        first = first.or(Some(geometry));
    }
    // A damaged file of the usual kind fits nothing, and then the usual is the best guess.
    Ok(search(file, len, &header)?.or(first))
}

/// A slot and its entries.
const SLOTTED_ENTRIES_SIZE: u64 = SLOT_SIZE as u64 + ENTRIES_PER_SLOT * ENTRY_SIZE as u64;

/// The geometry of `slots` slots whose entries fill the rest of `len` bytes.
fn with_slots(len: u64, slots: u64) -> Option<IndexGeometry> {
    let entries = (len - HEADER_SIZE as u64).checked_sub(slots * SLOT_SIZE as u64)? / ENTRY_SIZE as u64;
    Some(IndexGeometry::new(u32::try_from(slots).ok()?, u32::try_from(entries).ok()?))
}

/// Whether the first and the last entry and the first one's slot are where the geometry says.
fn fits(file: &dyn File, header: &[u8; HEADER_SIZE], geometry: IndexGeometry) -> io::Result<bool> {
    let Ok(header) = IndexHeader::decode(header, geometry) else { return Ok(false) };
    if header.is_empty() {
        return Ok(true);
    }
    let first = entry_at(file, geometry.entry_at(1))?;
    let last = entry_at(file, geometry.entry_at(header.index_count - 1))?;
    let mut slot = [0; SLOT_SIZE];
    file.read_at(geometry.slot_at(geometry.slot_of(first.key_hash)), &mut slot)?;
    Ok(begins(&first, &header)
        && last.phy_offset == header.end_phy_offset.0 as i64
        && (1..header.index_count).contains(&u32::from_be_bytes(slot)))
}

fn begins(entry: &IndexEntry, header: &IndexHeader) -> bool {
    entry.previous == 0 && entry.phy_offset == header.begin_phy_offset.0 as i64
}

/// Looks for the first entry: the slots before it take whole numbers of four bytes and the entries behind it of twenty,
/// so it can stand at every twentieth byte only.
fn search(file: &dyn File, len: u64, header: &[u8; HEADER_SIZE]) -> io::Result<Option<IndexGeometry>> {
    let mut window = vec![0; WINDOW];
    let mut at = HEADER_SIZE as u64 + (len - HEADER_SIZE as u64) % ENTRY_SIZE as u64;
    while at < len {
        let read = file.read_at(at, &mut window)?;
        for (place, chunk) in window[..read].chunks_exact(ENTRY_SIZE).enumerate() {
            let position = at + (place * ENTRY_SIZE) as u64;
            let Some(slots) = position.checked_sub((HEADER_SIZE + ENTRY_SIZE) as u64) else { continue };
            let Some(geometry) = with_slots(len, slots / SLOT_SIZE as u64) else { continue };
            let Ok(decoded) = IndexHeader::decode(header, geometry) else { continue };
            let entry: &[u8; ENTRY_SIZE] = chunk.try_into().expect("a chunk has the size of an entry");
            if begins(&IndexEntry::decode(entry), &decoded) && fits(file, header, geometry)? {
                return Ok(Some(geometry));
            }
        }
        if read == 0 {
            break;
        }
        at += read as u64;
    }
    Ok(None)
}

fn entry_at(file: &dyn File, at: u64) -> io::Result<IndexEntry> {
    let mut bytes = [0; ENTRY_SIZE];
    file.read_at(at, &mut bytes)?;
    Ok(IndexEntry::decode(&bytes))
}
