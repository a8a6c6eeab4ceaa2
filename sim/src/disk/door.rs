//! The product's view: paths, open files, mappings.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use metaq::env::{DirEntry, Disk, File, FileLock, Mapping, Metadata, OpenMode, Space};

use super::drive::Drive;
use super::faults::Call;
use super::pages::PAGE;
use super::tree::{lock, Entry, FileRef};
use crate::world::Life;

/// The disk of one incarnation of a node.
pub struct SimDisk {
    drive: Arc<Drive>,
    life: Life,
}

impl SimDisk {
    /// The disk as it is for as long as `life` lasts.
    pub fn new(drive: Arc<Drive>, life: Life) -> SimDisk {
        SimDisk { drive, life }
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        self.life.check()?;
        let now = self.drive.now();
        let mut state = self.drive.lock();
        let found = state.tree.file(path);
        let missing = matches!(&found, Err(error) if error.kind() == io::ErrorKind::NotFound);
        if matches!(&found, Err(error) if error.kind() == io::ErrorKind::NotADirectory) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        if missing && mode != OpenMode::Read && mode != OpenMode::Write {
            drop(state);
            self.drive.check_name()?;
            state = self.drive.lock();
        }
        let inode = match mode {
            OpenMode::Read | OpenMode::Write => found?,
            OpenMode::CreateNew if !missing => return Err(io::ErrorKind::AlreadyExists.into()),
            OpenMode::CreateNew | OpenMode::CreateOrOpen | OpenMode::Truncate if missing => {
                let inode = state.tree.create(path, now)?;
                let id = lock(&inode).id;
                self.drive.trace.note(self.drive.node, "disk create", &[id], &path.display().to_string());
                inode
            }
            OpenMode::Truncate => {
                let inode = found?;
                lock(&inode).set_len(0);
                inode
            }
            OpenMode::CreateNew | OpenMode::CreateOrOpen => found?,
        };
        drop(state);
        let (drive, life) = (self.drive.clone(), self.life.clone());
        let (id, told) = {
            let inode = lock(&inode);
            // Whoever opens a file hears of a failure that nobody was told of.
            (inode.id, if inode.error_told { inode.errors } else { inode.errors - 1 })
        };
        drive.opened(id)?;
        Ok(Arc::new(SimFile {
            drive,
            life,
            inode,
            id,
            told: Arc::new(Mutex::new(told)),
            writable: mode != OpenMode::Read,
        }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.life.check()?;
        if self.drive.lock().tree.find(path).is_err() {
            self.drive.check_name()?;
        }
        self.drive.lock().tree.create_dir_all(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.life.check()?;
        let entries = self.drive.lock().tree.list(path)?;
        let entry = |(name, entry)| DirEntry { name, is_dir: matches!(entry, Entry::Directory(_)) };
        Ok(entries.into_iter().map(entry).collect())
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.life.check()?;
        let state = self.drive.lock();
        match state.tree.find(path)? {
            Entry::Directory(_) => Ok(Metadata { len: 0, modified: self.drive.now(), is_dir: true }),
            Entry::File(_) => {
                let file = state.tree.file(path)?;
                let inode = lock(&file);
                Ok(Metadata { len: inode.cache.len(), modified: inode.modified, is_dir: false })
            }
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.life.check()?;
        self.drive.check_call(Call::Rename)?;
        self.drive.trace.note(self.drive.node, "disk rename", &[], &format!("{} {}", from.display(), to.display()));
        self.drive.lock().tree.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.life.check()?;
        self.drive.trace.note(self.drive.node, "disk remove", &[], &path.display().to_string());
        let mut state = self.drive.lock();
        state.tree.file(path)?;
        state.tree.remove(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.life.check()?;
        self.drive.trace.note(self.drive.node, "disk remove", &[], &path.display().to_string());
        let mut state = self.drive.lock();
        state.tree.directory(path)?;
        state.tree.remove(path)
    }

    fn sync_dir(&self, path: &Path) -> BoxFuture<'static, io::Result<()>> {
        let mark = self.life.check().and_then(|()| self.drive.lock().tree.mark(path));
        let (drive, life, time) = (self.drive.clone(), self.life.clone(), self.drive.sync_time(0));
        let path = path.to_owned();
        Box::pin(async move {
            let mark = mark?;
            drive.agenda.sleep(time).await;
            life.check()?;
            drive.check_call(Call::DirSync)?;
            if drive.lock().faults.lies {
                return Ok(());
            }
            drive.lock().tree.settle(mark);
            drive.trace.note(drive.node, "disk sync dir", &[mark.1], &path.display().to_string());
            Ok(())
        })
    }

    fn space(&self, _path: &Path) -> io::Result<Space> {
        self.life.check()?;
        let total = self.drive.lock().settings.capacity;
        Ok(Space { total, available: self.drive.available() })
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        self.open(path, OpenMode::CreateOrOpen)?;
        if !self.drive.lock().locks.insert(path.to_owned()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(SimLock { drive: self.drive.clone(), life: self.life.clone(), path: path.to_owned() }))
    }
}

struct SimLock {
    drive: Arc<Drive>,
    life: Life,
    path: PathBuf,
}

impl FileLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        if self.life.is_alive() {
            self.drive.lock().locks.remove(&self.path);
        }
    }
}

struct SimFile {
    drive: Arc<Drive>,
    life: Life,
    inode: FileRef,
    id: u64,
    /// Failures to write back that this handle was told of.
    told: Arc<Mutex<u64>>,
    writable: bool,
}

impl Drop for SimFile {
    fn drop(&mut self) {
        if self.life.is_alive() {
            self.drive.closed(self.id);
        }
    }
}

impl SimFile {
    fn check_write(&self) -> io::Result<()> {
        self.life.check()?;
        if self.writable {
            Ok(())
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }
}

impl File for SimFile {
    fn len(&self) -> io::Result<u64> {
        self.life.check()?;
        Ok(lock(&self.inode).cache.len())
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.life.check()?;
        self.drive.check_call(Call::Read)?;
        self.drive.check_sectors(self.id, at, into.len())?;
        Ok(lock(&self.inode).cache.read(at, into))
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.check_write()?;
        let missing = lock(&self.inode).cache.missing(at, bytes.len());
        self.drive.check_space(missing)?;
        if let Err(error) = self.drive.check_call(Call::Write) {
            // A failed call may have written a part.
            lock(&self.inode).write(at, &bytes[..bytes.len() / 2]);
            return Err(error);
        }
        self.drive.heal_sectors(self.id, at, bytes.len());
        let mut inode = lock(&self.inode);
        inode.write(at, bytes);
        inode.modified = self.drive.now();
        self.drive.trace.note(self.drive.node, "disk write", &[inode.id, at, bytes.len() as u64], "");
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_write()?;
        let mut inode = lock(&self.inode);
        inode.set_len(len);
        inode.modified = self.drive.now();
        self.drive.trace.note(self.drive.node, "disk length", &[inode.id, len], "");
        Ok(())
    }

    fn allocate(&self, len: u64) -> BoxFuture<'static, io::Result<()>> {
        let (drive, life, inode) = (self.drive.clone(), self.life.clone(), self.inode.clone());
        let allowed = self.check_write();
        let time = self.drive.sync_time(0);
        Box::pin(async move {
            allowed?;
            drive.agenda.sleep(time).await;
            life.check()?;
            let used = lock(&inode).cache.used();
            drive.check_space(len.div_ceil(PAGE as u64).saturating_sub(used))?;
            let mut inode = lock(&inode);
            inode.set_len(len);
            inode.cache.fill_holes();
            drive.trace.note(drive.node, "disk allocate", &[inode.id, len], "");
            Ok(())
        })
    }

    fn sync(&self) -> BoxFuture<'static, io::Result<()>> {
        let (mark, dirty) = {
            let inode = lock(&self.inode);
            (inode.mark(), inode.dirty_bytes())
        };
        let (drive, life, inode) = (self.drive.clone(), self.life.clone(), self.inode.clone());
        let (time, told) = (self.drive.sync_time(dirty), self.told.clone());
        Box::pin(async move {
            life.check()?;
            drive.agenda.sleep(time).await;
            life.check()?;
            let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
            drive.finish_sync(&inode, mark, &mut told)
        })
    }

    fn map(&self, len: u64) -> io::Result<Arc<dyn Mapping>> {
        self.life.check()?;
        if len > lock(&self.inode).cache.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a mapping beyond the end of the file"));
        }
        let (drive, life, inode) = (self.drive.clone(), self.life.clone(), self.inode.clone());
        Ok(Arc::new(SimMapping { drive, life, inode, len: len as usize }))
    }
}

struct SimMapping {
    drive: Arc<Drive>,
    life: Life,
    inode: FileRef,
    len: usize,
}

impl SimMapping {
    fn check(&self, at: usize, len: usize) {
        assert!(at.checked_add(len).is_some_and(|end| end <= self.len), "{len} bytes at {at} leave the mapping");
    }
}

impl Mapping for SimMapping {
    fn len(&self) -> usize {
        self.len
    }

    fn read(&self, at: usize, into: &mut [u8]) {
        self.check(at, into.len());
        let read = lock(&self.inode).cache.read(at as u64, into);
        assert!(read == into.len() || !self.life.is_alive(), "bus error: a mapped page behind the end of its file");
    }

    fn append_to(&self, at: usize, len: usize, out: &mut Vec<u8>) {
        self.check(at, len);
        let start = out.len();
        out.resize(start + len, 0);
        self.read(at, &mut out[start..]);
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        self.check(at, bytes.len());
        if !self.life.is_alive() {
            return;
        }
        let missing = lock(&self.inode).cache.missing(at as u64, bytes.len());
        assert!(self.drive.check_space(missing).is_ok(), "bus error: no space for a mapped page");
        let mut inode = lock(&self.inode);
        assert!(at as u64 + bytes.len() as u64 <= inode.cache.len(), "bus error: a page behind the end of its file");
        inode.write(at as u64, bytes);
        inode.modified = self.drive.now();
        self.drive.trace.note(self.drive.node, "disk store", &[inode.id, at as u64, bytes.len() as u64], "");
    }

    fn prefault(&self, at: usize, len: usize) -> BoxFuture<'static, ()> {
        let mut bytes = Vec::new();
        self.append_to(at, len, &mut bytes);
        assert!(bytes.iter().all(|byte| *byte == 0), "zeros would be written over what is there");
        Box::pin(std::future::ready(()))
    }

    fn release(&self, at: usize, len: usize) -> BoxFuture<'static, ()> {
        self.check(at, len);
        Box::pin(std::future::ready(()))
    }
}
