//! The timer log in files.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Unit, UnitLog, UnitPosition, UNIT_SIZE};
use crate::env::{Disk, File, OpenMode};
use crate::store::paths;

/// Bytes of a file: 95,000 units.
pub const FILE_SIZE: u64 = 95_000 * UNIT_SIZE as u64;
/// Bytes read at once: neighbours in the log often wait for the same second.
const BLOCK: u64 = 93 * UNIT_SIZE as u64;
/// The same for a walk over all units.
const WALK_BLOCK: u64 = 9_500 * UNIT_SIZE as u64;
/// Files kept open.
const OPEN_MAX: usize = 64;

/// The timer log of a store. It survives the end of the process once written, and a power cut once synced.
pub struct TimerLog {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    begin: u64,
    /// Units below are in files, those above in `tail`.
    written: u64,
    tail: Vec<u8>,
    open: BTreeMap<u64, Arc<dyn File>>,
    /// Bytes read last and where they begin.
    block: (u64, Vec<u8>),
    /// Files with bytes that are not synced.
    unsynced: BTreeSet<u64>,
    /// Names of files have come or gone since the directory was synced.
    names_unsynced: bool,
}

impl TimerLog {
    /// Opens the timer log of the store at `root`. What lies behind the first unit that cannot be read is cut off: no
    /// crash brings it back.
    ///
    /// # Errors
    /// The disk's.
    pub async fn open(disk: Arc<dyn Disk>, root: &Path) -> io::Result<TimerLog> {
        let directory = paths::timer_log_dir(root);
        disk.create_dir_all(&directory)?;
        let bases: Vec<u64> =
            disk.read_dir(&directory)?.iter().filter_map(|entry| paths::file_base(&entry.name)).collect();
        let begin = bases.iter().copied().find(|base| base.is_multiple_of(FILE_SIZE)).unwrap_or(0);
        let mut log = TimerLog {
            disk,
            directory,
            begin,
            written: begin,
            tail: Vec::new(),
            open: BTreeMap::new(),
            block: (0, Vec::new()),
            unsynced: BTreeSet::new(),
            names_unsynced: true,
        };
        log.written = log.end_of_files()?;
        log.cut(UnitPosition(log.written)).await?;
        Ok(log)
    }

    /// Where units end, as the files' lengths have it.
    fn end_of_files(&mut self) -> io::Result<u64> {
        let mut base = self.begin;
        loop {
            let path = self.path(base);
            if !self.disk.exists(&path) {
                return Ok(base);
            }
            let units = self.disk.metadata(&path)?.len.min(FILE_SIZE) / UNIT_SIZE as u64;
            let (mut at, end) = (base, base + units * UNIT_SIZE as u64);
            self.written = end;
            while at < end {
                if self.read_in_blocks(at, WALK_BLOCK)?.is_none() {
                    return Ok(at);
                }
                at += UNIT_SIZE as u64;
            }
            if end < base + FILE_SIZE {
                return Ok(end);
            }
            base += FILE_SIZE;
        }
    }

    /// Cuts off all units from `from` on, for good.
    ///
    /// # Errors
    /// The disk's.
    pub async fn cut(&mut self, from: UnitPosition) -> io::Result<()> {
        let keep = from.0.clamp(self.begin, self.written);
        (self.written, self.block.1) = (keep, Vec::new());
        self.tail.clear();
        let mut changed = false;
        for entry in self.disk.read_dir(&self.directory)? {
            let Some(base) = paths::file_base(&entry.name) else { continue };
            let path = self.directory.join(&entry.name);
            let living = base >= self.begin && base < keep && base.is_multiple_of(FILE_SIZE);
            if !living {
                self.open.remove(&base);
                self.unsynced.remove(&base);
                self.disk.remove_file(&path)?;
                changed = true;
            } else if base + self.disk.metadata(&path)?.len > keep {
                let file = self.file(base)?;
                file.set_len(keep - base)?;
                file.sync().await?;
            }
        }
        if changed {
            self.disk.sync_dir(&self.directory).await?;
        }
        Ok(())
    }

    /// Makes all that was written survive a power cut.
    ///
    /// # Errors
    /// The disk's.
    pub async fn sync(&mut self) -> io::Result<()> {
        for base in std::mem::take(&mut self.unsynced) {
            let synced = match self.file(base) {
                Ok(file) => file.sync().await,
                Err(error) => Err(error),
            };
            if synced.is_err() {
                self.unsynced.insert(base);
                return synced;
            }
        }
        if self.names_unsynced {
            self.disk.sync_dir(&self.directory).await?;
            self.names_unsynced = false;
        }
        Ok(())
    }

    /// Whether a power cut could take something.
    pub fn is_synced(&self) -> bool {
        self.unsynced.is_empty() && self.tail.is_empty()
    }

    fn path(&self, base: u64) -> PathBuf {
        self.directory.join(paths::file_name(base))
    }

    fn file(&mut self, base: u64) -> io::Result<Arc<dyn File>> {
        if let Some(file) = self.open.get(&base) {
            return Ok(Arc::clone(file));
        }
        if self.open.len() >= OPEN_MAX {
            self.open.clear();
        }
        let file = self.disk.open(&self.path(base), OpenMode::CreateOrOpen)?;
        self.open.insert(base, Arc::clone(&file));
        Ok(file)
    }

    /// The unit at a written position; `None` if it is damaged.
    fn read_in_blocks(&mut self, at: u64, block_size: u64) -> io::Result<Option<Unit>> {
        let inside = |block: &(u64, Vec<u8>)| {
            let start = usize::try_from(at.checked_sub(block.0)?).ok()?;
            block.1.get(start..start + UNIT_SIZE)?.first_chunk().copied()
        };
        let bytes = match inside(&self.block) {
            Some(bytes) => bytes,
            None => {
                let base = at - at % FILE_SIZE;
                let start = base + (at - base) / block_size * block_size;
                let end = (start + block_size).min(base + FILE_SIZE).min(self.written);
                let file = self.file(base)?;
                let mut buffer = std::mem::take(&mut self.block.1);
                buffer.clear();
                buffer.resize((end - start) as usize, 0);
                let read = file.read_at(start - base, &mut buffer)?;
                buffer.truncate(read);
                self.block = (start, buffer);
                match inside(&self.block) {
                    Some(bytes) => bytes,
                    None => return Ok(None),
                }
            }
        };
        Ok(Unit::decode(&bytes))
    }
}

impl UnitLog for TimerLog {
    fn begin(&self) -> UnitPosition {
        UnitPosition(self.begin)
    }

    fn end(&self) -> UnitPosition {
        UnitPosition(self.written + self.tail.len() as u64)
    }

    fn file_size(&self) -> u64 {
        FILE_SIZE
    }

    fn read(&mut self, at: UnitPosition) -> io::Result<Option<Unit>> {
        if at < self.begin() || at >= self.end() || !at.0.is_multiple_of(UNIT_SIZE as u64) {
            return Ok(None);
        }
        if let Some(start) = at.0.checked_sub(self.written) {
            let bytes = self.tail.get(start as usize..).and_then(|tail| tail.first_chunk());
            return Ok(bytes.and_then(Unit::decode));
        }
        self.read_in_blocks(at.0, BLOCK)
    }

    fn walk(&mut self, visit: &mut dyn FnMut(UnitPosition, &Unit) -> io::Result<bool>) -> io::Result<()> {
        let mut at = self.begin;
        while at < self.written {
            let damaged = || io::Error::new(io::ErrorKind::InvalidData, format!("the timer's unit at {at} is damaged"));
            let unit = self.read_in_blocks(at, WALK_BLOCK)?.ok_or_else(damaged)?;
            if !visit(UnitPosition(at), &unit)? {
                break;
            }
            at += UNIT_SIZE as u64;
        }
        self.block = (0, Vec::new());
        Ok(())
    }

    fn append(&mut self, unit: &Unit) -> UnitPosition {
        let at = self.end();
        self.tail.extend_from_slice(&unit.encode());
        at
    }

    fn write(&mut self) -> io::Result<()> {
        let mut done = 0;
        while done < self.tail.len() {
            let base = self.written - self.written % FILE_SIZE;
            let room = (base + FILE_SIZE - self.written) as usize;
            let len = room.min(self.tail.len() - done);
            let is_new = self.written == base;
            let file = self.file(base)?;
            let written = file.write_at(self.written - base, &self.tail[done..done + len]);
            self.names_unsynced |= is_new;
            self.unsynced.insert(base);
            if let Err(error) = written {
                self.tail.drain(..done);
                return Err(error);
            }
            self.written += len as u64;
            done += len;
        }
        self.tail.clear();
        // What was read before ended where the file did.
        self.block.1.clear();
        Ok(())
    }

    fn delete_first_file(&mut self) -> io::Result<()> {
        let end = self.begin + FILE_SIZE;
        if self.written <= end {
            return Ok(());
        }
        self.disk.remove_file(&self.path(self.begin))?;
        self.open.remove(&self.begin);
        self.unsynced.remove(&self.begin);
        self.begin = end;
        self.names_unsynced = true;
        Ok(())
    }
}
