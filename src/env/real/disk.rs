//! Files of the operating system.

use std::ffi::CString;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{chown, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use super::front::Front;
use super::mapping::SharedMapping;
use crate::env::{BoxFuture, DirEntry, Disk, File, FileLock, Mapping, Metadata, Millis, OpenMode, Space};

/// The machine's file systems.
pub(super) struct FileDisk;

impl Disk for FileDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let mut options = OpenOptions::new();
        options.read(true);
        match mode {
            OpenMode::Read => &mut options,
            OpenMode::Write => options.write(true),
            OpenMode::CreateOrOpen => options.write(true).create(true).truncate(false),
            OpenMode::CreateNew => options.write(true).create_new(true),
            OpenMode::Truncate => options.write(true).create(true).truncate(true),
        };
        Ok(Arc::new(OpenFile { file: Arc::new(options.open(path)?), front: Arc::new(Front::new()) }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string() {
                entries.push(DirEntry { name, is_dir: entry.file_type()?.is_dir() });
            }
        }
        entries.sort();
        Ok(entries)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let metadata = fs::metadata(path)?;
        let modified = metadata.modified()?.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
        Ok(Metadata { len: metadata.len(), modified: Millis(modified), is_dir: metadata.is_dir() })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    fn sync_dir(&self, path: &Path) -> BoxFuture<'static, io::Result<()>> {
        let path: PathBuf = path.to_owned();
        Box::pin(blocking(move || fs::File::open(path)?.sync_all()))
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: `path` is a C string that outlives the call, and the kernel fills the `statvfs` we own; an all-zero
        // one is a valid value.
        let stat = unsafe {
            let mut stat: libc::statvfs = std::mem::zeroed();
            if libc::statvfs(path.as_ptr(), &mut stat) != 0 {
                return Err(io::Error::last_os_error());
            }
            stat
        };
        // Blocks that only root may use are neither used nor available, and count for nobody.
        let (used, available) = (stat.f_blocks - stat.f_bfree, stat.f_bavail);
        Ok(Space { total: (used + available) * stat.f_frsize, available: available * stat.f_frsize })
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        match fs::canonicalize(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(match (fs::read_link(path), path.parent()) {
                (Ok(target), Some(directory)) => directory.join(target),
                _ => path.to_owned(),
            }),
            resolved => resolved,
        }
    }

    fn copy_permissions(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, now) = (fs::metadata(from)?, fs::metadata(to)?);
        if (from.uid(), from.gid()) != (now.uid(), now.gid()) {
            // Only root may give a file away; for anybody else it stays their own.
            let _ = chown(to, Some(from.uid()), Some(from.gid()));
        }
        fs::set_permissions(to, from.permissions())
    }

    fn memory(&self) -> u64 {
        super::process::memory().unwrap_or(10 << 30)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let request = libc::flock {
            l_type: libc::F_WRLCK as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: 0,
            l_len: 1,
            l_pid: 0,
        };
        // SAFETY: the descriptor is open for the whole call, and the kernel only reads `request`.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &request) } != 0 {
            let error = io::Error::last_os_error();
            let held = matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES));
            return Err(if held { io::ErrorKind::WouldBlock.into() } else { error });
        }
        Ok(Box::new(HeldLock { _file: file }))
    }
}

/// Closing the file releases the record lock.
struct HeldLock {
    _file: fs::File,
}

impl FileLock for HeldLock {}

struct OpenFile {
    file: Arc<fs::File>,
    front: Arc<Front>,
}

impl File for OpenFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        while read < into.len() {
            match self.file.read_at(&mut into[read..], at + read as u64) {
                Ok(0) => break,
                Ok(bytes) => read += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.front.write(at + bytes.len() as u64, || self.file.write_all_at(bytes, at))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, len: u64) -> BoxFuture<'static, io::Result<()>> {
        let file = Arc::clone(&self.file);
        Box::pin(blocking(move || allocate(&file, len)))
    }

    fn sync(&self) -> BoxFuture<'static, io::Result<()>> {
        let file = Arc::clone(&self.file);
        // fdatasync also writes the length where it changed.
        Box::pin(blocking(move || file.sync_data()))
    }

    fn map(&self, len: u64) -> io::Result<Arc<dyn Mapping>> {
        if len > self.file.metadata()?.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the file is shorter than the mapping asked for"));
        }
        Ok(Arc::new(SharedMapping::new(&self.file, &self.front, len)?))
    }
}

fn allocate(file: &fs::File, len: u64) -> io::Result<()> {
    let length = libc::off_t::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: the descriptor is open for the whole call; no memory is passed.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) } {
        // fallocate never makes a file shorter.
        0 => file.set_len(len),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Runs `work` where it may wait for the device.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(stopped) => Err(io::Error::other(stopped)),
    }
}
