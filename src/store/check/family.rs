//! Files that continue each other, each named after the position of its first byte.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::report::{CheckReport, Severity};
use crate::env::{Disk, OpenMode};

/// Units read at once.
const WINDOW_UNITS: u64 = 200;
/// Windows kept in memory.
const WINDOWS_MAX: usize = 1024;

/// The files of one queue.
pub(super) struct Family {
    directory: PathBuf,
    /// Position of the first byte of the first file.
    pub(super) base: u64,
    file_len: u64,
    files: u64,
    /// Bytes of a unit; no unit lies in two files.
    unit: u64,
}

impl Family {
    /// Lists the files of a directory; `None` if there are none. Whatever stops a broker from loading them is a
    /// finding.
    pub(super) fn list(
        disk: &dyn Disk,
        directory: PathBuf,
        unit: u64,
        report: &mut CheckReport,
    ) -> io::Result<Option<Family>> {
        let mut family = Family { directory, base: 0, file_len: 0, files: 0, unit };
        for entry in super::list(disk, &family.directory)?.into_iter().filter(|entry| !entry.is_dir) {
            let path = family.directory.join(&entry.name);
            let len = disk.metadata(&path)?.len;
            match super::parse_base(&entry.name) {
                None => report.damage(&path, 0, "not the name of a queue file: RocketMQ does not start with it"),
                Some(_) if len == 0 => report.add(Severity::Repairable, &path, 0, "empty queue file"),
                Some(base) if family.files == 0 => {
                    if len % unit != 0 || base % unit != 0 {
                        report.damage(&path, 0, "name or length is not a whole number of entries");
                        return Ok(None);
                    }
                    (family.base, family.file_len, family.files) = (base, len, 1);
                }
                Some(base) if base == family.end() && len == family.file_len => family.files += 1,
                Some(_) => report.damage(&path, 0, "the file does not follow the one before, or is of another length"),
            }
        }
        Ok((family.files > 0).then_some(family))
    }

    /// Position behind the last file.
    pub(super) fn end(&self) -> u64 {
        self.base + self.files * self.file_len
    }

    /// File and byte of a position.
    pub(super) fn place(&self, position: u64) -> (PathBuf, u64) {
        let position = position.clamp(self.base, self.end());
        let base = position - (position - self.base) % self.file_len;
        (self.file(base), position - base)
    }

    fn file(&self, base: u64) -> PathBuf {
        self.directory.join(format!("{base:020}"))
    }

    /// Reads at a position, past no file's end. Returns how much it got.
    pub(super) fn read_at(&self, disk: &dyn Disk, position: u64, into: &mut [u8]) -> io::Result<usize> {
        if position < self.base || position >= self.end() {
            return Ok(0);
        }
        let (path, byte) = self.place(position);
        disk.open(&path, OpenMode::Read)?.read_at(byte, into)
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }
}

/// Reads units of many families through windows, a bounded number of which is kept.
pub(super) struct Windows {
    disk: Arc<dyn Disk>,
    kept: HashMap<(usize, u64), Vec<u8>>,
}

impl Windows {
    pub(super) fn new(disk: Arc<dyn Disk>) -> Windows {
        Windows { disk, kept: HashMap::new() }
    }

    /// The unit at a position; `None` outside of the files. `id` tells the families apart.
    pub(super) fn unit(&mut self, id: usize, family: &Family, position: u64) -> io::Result<Option<&[u8]>> {
        if position < family.base || position >= family.end() {
            return Ok(None);
        }
        let in_file = (position - family.base) % family.file_len;
        let start = position - in_file % (WINDOW_UNITS * family.unit);
        if !self.kept.contains_key(&(id, start)) {
            let mut window = vec![0; (WINDOW_UNITS * family.unit) as usize];
            let got = family.read_at(&*self.disk, start, &mut window)?;
            window.truncate(got);
            if self.kept.len() >= WINDOWS_MAX {
                self.kept.clear();
            }
            self.kept.insert((id, start), window);
        }
        let at = (position - start) as usize;
        Ok(self.kept.get(&(id, start)).and_then(|window| window.get(at..at + family.unit as usize)))
    }
}
