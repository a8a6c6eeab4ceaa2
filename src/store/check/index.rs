//! Index files against the log.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::log::LogReader;
use super::report::{CheckReport, Severity};
use crate::env::{Disk, File, Millis, OpenMode};
use crate::proto::PhysicalOffset;
use crate::store::index::{IndexEntry, IndexGeometry, IndexHeader, IndexRecord, ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE};

/// Bytes read at once.
const WINDOW: u64 = 64 * 1024;

/// Keys and time of the record that the last entry pointed to: entries of one record follow each other.
struct LastRecord {
    at: i64,
    /// Hashes of its keys, sorted; `None` if there is no record.
    hashes: Option<Vec<u32>>,
    stored: Millis,
}

/// Checks all index files in `directory`.
pub(super) fn check(
    disk: &Arc<dyn Disk>,
    directory: &Path,
    configured: Option<IndexGeometry>,
    log: &mut LogReader,
    report: &mut CheckReport,
) -> io::Result<()> {
    for entry in super::list(&**disk, directory)? {
        let path = directory.join(&entry.name);
        if entry.is_dir || entry.name.len() != 17 || !entry.name.bytes().all(|byte| byte.is_ascii_digit()) {
            report.add(Severity::Note, &path, 0, "not the name of an index file");
            continue;
        }
        report.index_files += 1;
        let file = disk.open(&path, OpenMode::Read)?;
        let len = file.len()?;
        let geometry = match configured {
            Some(geometry) => geometry,
            None => super::geometry::detect(&*file)?.unwrap_or(IndexGeometry::DEFAULT),
        };
        if len != geometry.file_len() {
            let expected = geometry.file_len();
            let what = format!(
                "not checked: it has {len} bytes, {} slots and {} entries make {expected}",
                geometry.slots(),
                geometry.entries()
            );
            report.add(Severity::Note, &path, 0, what);
            continue;
        }
        let mut header = [0; HEADER_SIZE];
        file.read_at(0, &mut header)?;
        match IndexHeader::decode(&header, geometry) {
            Ok(header) => check_file(&path, &*file, geometry, &header, log, report)?,
            Err(error) => report.damage_if_closed(&path, 0, error.to_string()),
        }
    }
    Ok(())
}

/// Follows the entries in the order in which they were put and so knows what every slot must hold in the end.
fn check_file(
    path: &Path,
    file: &dyn File,
    geometry: IndexGeometry,
    header: &IndexHeader,
    log: &mut LogReader,
    report: &mut CheckReport,
) -> io::Result<()> {
    let mut newest = vec![0_u32; geometry.slots() as usize];
    let mut last = LastRecord { at: -1, hashes: None, stored: Millis(0) };
    let mut ends = (header.begin_phy_offset.0 as i64, header.begin_phy_offset.0 as i64);
    let entries_at = geometry.entry_at(1);
    let entries_len = u64::from(header.index_count - 1) * ENTRY_SIZE as u64;
    let window = WINDOW - WINDOW % ENTRY_SIZE as u64;
    read_windows(file, entries_at, entries_len, window, |at, bytes| {
        for (place, raw) in bytes.chunks_exact(ENTRY_SIZE).enumerate() {
            let at = at + (place * ENTRY_SIZE) as u64;
            let number = ((at - geometry.entry_at(0)) / ENTRY_SIZE as u64) as u32;
            let mut bytes = [0; ENTRY_SIZE];
            bytes.copy_from_slice(raw);
            let entry = IndexEntry::decode(&bytes);
            let slot = &mut newest[geometry.slot_of(entry.key_hash) as usize];
            if entry.previous != *slot as i32 {
                let what = format!("entry {number} follows {} in its chain, not {}", *slot, entry.previous);
                report.damage_if_closed(path, at + 16, what);
            }
            *slot = number;
            if number == 1 {
                ends.0 = entry.phy_offset;
            }
            ends.1 = entry.phy_offset;
            check_entry(path, at, number, &entry, header, &mut last, log, report)?;
        }
        Ok(())
    })?;
    if ends != (header.begin_phy_offset.0 as i64, header.end_phy_offset.0 as i64) {
        let what = format!(
            "the header spans {} to {}, the entries {} to {}",
            header.begin_phy_offset.0, header.end_phy_offset.0, ends.0, ends.1
        );
        report.damage_if_closed(path, 16, what);
    }
    check_slots(path, file, geometry, header, &newest, report)
}

#[allow(clippy::too_many_arguments)] // an entry, where it lies and what it is compared with
fn check_entry(
    path: &Path,
    at: u64,
    number: u32,
    entry: &IndexEntry,
    header: &IndexHeader,
    last: &mut LastRecord,
    log: &mut LogReader,
    report: &mut CheckReport,
) -> io::Result<()> {
    if (0..report.log_min.0 as i64).contains(&entry.phy_offset) {
        return Ok(()); // the record expired
    }
    if last.at != entry.phy_offset {
        let mut found = LastRecord { at: entry.phy_offset, hashes: None, stored: Millis(0) };
        if let (Ok(view), true) = (log.record(PhysicalOffset(entry.phy_offset as u64))?, entry.phy_offset >= 0) {
            let (topic, properties) = (view.topic(), view.properties());
            let record = IndexRecord::of(&view, &topic, &properties);
            let mut hashes: Vec<u32> = record.keys().map(|key| crate::store::index::key_hash(&topic, key)).collect();
            hashes.sort_unstable();
            found.hashes = Some(hashes);
            found.stored = view.store_timestamp();
        }
        *last = found;
    }
    match &last.hashes {
        None => {
            let what = format!("entry {number} points to {}, where no record is", entry.phy_offset);
            report.damage_if_closed(path, at + 4, what);
        }
        Some(hashes) if hashes.binary_search(&entry.key_hash).is_err() => {
            let what = format!("entry {number}: the record at {} has no key of that hash", entry.phy_offset);
            report.damage_if_closed(path, at, what);
        }
        // The first entry's time counts from the file before, see IndexEntry::time_diff.
        Some(_) if number > 1 && entry.time_diff != header.time_diff(last.stored) as i32 => {
            let expected = header.time_diff(last.stored);
            let what = format!("entry {number} has time {} s, its record {expected} s", entry.time_diff);
            report.damage_if_closed(path, at + 12, what);
        }
        Some(_) => report.index_entries += 1,
    }
    if last.hashes.is_some() {
        let (field, in_header, at) = match number {
            1 => ("beginTimestamp", header.begin_timestamp, 0),
            _ if number + 1 == header.index_count => ("endTimestamp", header.end_timestamp, 8),
            _ => return Ok(()),
        };
        if in_header != last.stored {
            let what = format!("{field} is {}, its record has {}", in_header.0, last.stored.0);
            report.damage_if_closed(path, at, what);
        }
    }
    Ok(())
}

fn check_slots(
    path: &Path,
    file: &dyn File,
    geometry: IndexGeometry,
    header: &IndexHeader,
    newest: &[u32],
    report: &mut CheckReport,
) -> io::Result<()> {
    let mut expected = newest.iter();
    read_windows(file, geometry.slot_at(0), newest.len() as u64 * SLOT_SIZE as u64, WINDOW, |at, bytes| {
        for (place, raw) in bytes.chunks_exact(SLOT_SIZE).enumerate() {
            let expected = expected.next().copied().unwrap_or_default();
            let found = u32::from_be_bytes([raw[0], raw[1], raw[2], raw[3]]);
            if found != expected {
                let at = at + (place * SLOT_SIZE) as u64;
                report.damage_if_closed(path, at, format!("the slot holds entry {found}, its newest is {expected}"));
            }
        }
        Ok(())
    })?;
    let used = newest.iter().filter(|number| **number != 0).count();
    if used != header.hash_slot_count as usize {
        let what = format!("the header counts {} slots in use, there are {used}", header.hash_slot_count);
        report.damage_if_closed(path, 32, what);
    }
    Ok(())
}

/// Reads a range in windows.
fn read_windows(
    file: &dyn File,
    start: u64,
    len: u64,
    window: u64,
    mut each: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    let mut at = start;
    while at < start + len {
        bytes.resize(window.min(start + len - at) as usize, 0);
        if file.read_at(at, &mut bytes)? < bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        each(at, &bytes)?;
        at += bytes.len() as u64;
    }
    Ok(())
}
