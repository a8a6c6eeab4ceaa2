//! One file of the commit log.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::paths;
use crate::env::{Canary, Env, File, Mapping, OpenMode};

/// Bytes that [`Segment::rewrite`] takes at once.
const REWRITE_CHUNK: u64 = 1 << 20;

/// A segment: `size` bytes of the log from byte `base` on, in a file of that length.
pub(crate) struct Segment {
    base: u64,
    size: u64,
    path: PathBuf,
    file: Arc<dyn File>,
    /// Made when it is first needed: old segments are read from the file.
    mapping: OnceLock<Arc<dyn Mapping>>,
    /// Whether the disk has taken the space of the whole file; a mapped page without space would kill the process.
    allocated: AtomicBool,
}

impl Segment {
    /// An existing file, whose length the caller has checked. Whether its space is taken is not known.
    pub(crate) fn open(env: &Env, directory: &Path, base: u64, size: u64) -> io::Result<Segment> {
        let path = directory.join(paths::file_name(base));
        let file = env.disk.open(&path, OpenMode::Write)?;
        Ok(Segment { base, size, path, file, mapping: OnceLock::new(), allocated: AtomicBool::new(false) })
    }

    /// Makes a segment of zeros. When this returns, file, length and name survive a power cut, and later writes
    /// cannot fail for want of space.
    pub(crate) async fn create(env: Env, directory: PathBuf, base: u64, size: u64) -> io::Result<Segment> {
        let path = directory.join(paths::file_name(base));
        // A file of this name can only be a leftover: the log ends before it.
        let file = env.disk.open(&path, OpenMode::Truncate)?;
        if let Err(error) = file.allocate(size).await {
            // Half a segment is of no use, and its space is needed.
            let _ = env.disk.remove_file(&path);
            return Err(error);
        }
        file.sync().await?;
        if !env.canary(Canary::NoDirectorySync) {
            env.disk.sync_dir(&directory).await?;
        }
        Ok(Segment { base, size, path, file, mapping: OnceLock::new(), allocated: AtomicBool::new(true) })
    }

    /// Position in the log of its first byte.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Position in the log behind its last byte.
    pub(crate) fn end(&self) -> u64 {
        self.base + self.size
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// The whole file in memory.
    pub(crate) fn mapping(&self) -> io::Result<&Arc<dyn Mapping>> {
        if let Some(mapping) = self.mapping.get() {
            return Ok(mapping);
        }
        let mapping = self.file.map(self.size)?;
        Ok(self.mapping.get_or_init(|| mapping))
    }

    /// Says of the part of a range of the log that lies here that it has been written through the mapping for good.
    pub(crate) async fn release(&self, written: &Range<u64>) {
        let Some(mapping) = self.mapping.get() else { return };
        let (from, to) = (written.start.max(self.base), written.end.min(self.end()));
        if from < to {
            mapping.release((from - self.base) as usize, (to - from) as usize).await;
        }
    }

    pub(crate) fn is_allocated(&self) -> bool {
        self.allocated.load(Ordering::Relaxed)
    }

    /// Takes the space of the whole file.
    pub(crate) async fn allocate(&self) -> io::Result<()> {
        self.file.allocate(self.size).await?;
        self.allocated.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Zeroes everything from the position `end` on: bytes behind the end of the log may look like records. The
    /// segment must not be mapped yet.
    pub(crate) async fn clear_from(&self, end: u64) -> io::Result<()> {
        self.file.set_len(end.saturating_sub(self.base))?;
        // On a full disk the space comes later, or sends are refused; the store can be read either way.
        if self.allocate().await.is_err() {
            self.file.set_len(self.size)?;
        }
        self.file.sync().await
    }

    /// Writes what is there once more, between two positions in the log: the next sync brings it to the device whatever
    /// became of earlier ones.
    pub(crate) fn rewrite(&self, from: u64, to: u64) -> io::Result<()> {
        let mut bytes = Vec::new();
        let mut at = from;
        while at < to {
            bytes.resize((to - at).min(REWRITE_CHUNK) as usize, 0);
            self.read_file(at, &mut bytes)?;
            self.file.write_at(at - self.base, &bytes)?;
            at += bytes.len() as u64;
        }
        Ok(())
    }

    /// Reads from the file. Fewer bytes than asked for are an error.
    pub(crate) fn read_file(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        match self.file.read_at(at - self.base, into)? {
            read if read == into.len() => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
