//! Files and directories.
//!
//! What a caller may rely on after a power cut: bytes of a file for which [`File::sync`] returned `Ok` after they were
//! written, under a name for which [`Disk::sync_dir`] returned `Ok` after it was made. Nothing else. After a process
//! crash alone, everything written is there. After a failed sync the state of the unsynced bytes is unknown, and a
//! later sync that succeeds proves nothing about them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;

use super::Millis;

/// How [`Disk::open`] treats a missing or present file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// For reading; the file must be there.
    Read,
    /// For reading and writing; the file must be there.
    Write,
    /// For reading and writing; made empty if it is missing.
    CreateOrOpen,
    /// For reading and writing; it must not be there.
    CreateNew,
    /// For reading and writing; made empty whether it was there or not.
    Truncate,
}

/// What [`Disk::metadata`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Length in bytes; unspecified for a directory.
    pub len: u64,
    /// Time of the last change of the content.
    pub modified: Millis,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// File name without its directory.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// Space of the partition that holds a path, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// What is used and what this process may still use, together.
    pub total: u64,
    /// What this process may still use.
    pub available: u64,
}

/// The disk of one node. Paths are used as given. Calls that may wait for the device are futures; the others touch
/// metadata or the page cache only.
pub trait Disk: Send + Sync + 'static {
    /// Opens or makes a file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>>;

    /// Makes a directory and all missing ones above it.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Entries of a directory, sorted by name; names that are not UTF-8 are left out.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>>;

    /// Metadata of a file or directory.
    fn metadata(&self, path: &Path) -> io::Result<Metadata>;

    /// Renames a file over an existing one, atomically as seen by running processes.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. Open handles and mappings stay usable.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory and all below it.
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Makes creations, renames and removals in this directory survive a power cut.
    fn sync_dir(&self, path: &Path) -> BoxFuture<'static, io::Result<()>>;

    /// Space of the partition that holds `path`.
    fn space(&self, path: &Path) -> io::Result<Space>;

    /// Memory of this machine in bytes: about what of its files it can hold.
    fn memory(&self) -> u64 {
        10 << 30
    }

    /// Takes the exclusive lock of RocketMQ's store (an fcntl record lock on byte 0), making the file if needed.
    /// `WouldBlock` if another process holds it. Dropping the lock releases it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>>;

    /// The file that a path leads to, its symbolic links followed, also one that is not there yet.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_owned())
    }

    /// Gives the file `to` the permissions of `from`, and its owner as far as this process may.
    fn copy_permissions(&self, from: &Path, to: &Path) -> io::Result<()> {
        let _ = (from, to);
        Ok(())
    }

    /// True if a file or directory of this name exists.
    fn exists(&self, path: &Path) -> bool {
        self.metadata(path).is_ok()
    }
}

/// A held [`Disk::lock`].
pub trait FileLock: Send + Sync + 'static {}

/// An open file.
pub trait File: Send + Sync + 'static {
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// True if it holds no byte.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads from position `at` until `into` is full or the file ends; returns the number of bytes read.
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `bytes` at position `at`, making the file longer if needed. A failed call may have written a part.
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Sets the length: cuts, or adds zeros without taking space for them.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Sets the length and takes the space for it, so that later writes within it cannot fail for want of space.
    fn allocate(&self, len: u64) -> BoxFuture<'static, io::Result<()>>;

    /// Makes everything written so far, the length included, survive a power cut. Covers writes made through
    /// mappings of the file too.
    fn sync(&self) -> BoxFuture<'static, io::Result<()>>;

    /// Maps the first `len` bytes, readable and writable. The file must not be cut below `len` while it is mapped.
    fn map(&self, len: u64) -> io::Result<Arc<dyn Mapping>>;
}

/// Bytes of a file in memory, shared with [`File::read_at`] and [`File::write_at`] at once.
///
/// Reading a range while another thread writes into the same range gives unspecified bytes; the store never does, since
/// readers stay below the published end and the writer above it. Positions beyond the mapping are a bug and panic.
pub trait Mapping: Send + Sync + 'static {
    /// Length in bytes.
    fn len(&self) -> usize;

    /// True if it maps no byte.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies out.
    fn read(&self, at: usize, into: &mut [u8]);

    /// Copies `len` bytes to the end of `out`.
    fn append_to(&self, at: usize, len: usize, out: &mut Vec<u8>);

    /// Copies in.
    fn write(&self, at: usize, bytes: &[u8]);

    /// Makes the pages of a range present and writable, off the calling thread. Nothing may have been written from `at` on
    /// when it is called: bytes there are zeros, and are written as such. What is written to them meanwhile, through this
    /// mapping or the file it was made from, stays.
    fn prefault(&self, at: usize, len: usize) -> BoxFuture<'static, ()>;

    /// Says that a range will not be written for a while, off the calling thread. Its bytes stay as they are; a sync
    /// that follows is cheaper, for it need not make each page read-only for this process.
    fn release(&self, at: usize, len: usize) -> BoxFuture<'static, ()>;
}
