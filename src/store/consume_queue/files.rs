//! The files of all consume queues: written with positioned writes, sparse, and open only while they are in use.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::stream::{FuturesUnordered, StreamExt};

use super::{ConsumeQueue, EntryBlock, QueueEntry, CQ_UNIT_SIZE};
use crate::env::{Disk, File, OpenMode};
use crate::store::error::Unreadable;
use crate::store::paths;

/// Reads and writes queue files by byte position in a queue's family of files. Keeps a bounded number of them open and
/// remembers which have to be synced.
pub(crate) struct QueueFiles {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    file_size: u64,
    open: Mutex<OpenFiles>,
    unsynced: Mutex<Unsynced>,
    /// A sync has failed: what the kernel still has of the files it may take for clean.
    sync_failed: AtomicBool,
}

/// Files that are synced at once.
const SYNCS_AT_ONCE: usize = 32;

/// A queue's serial number and the first byte of one of its files.
type FileKey = (u32, u64);

/// The open files, the least recently used one first in `by_use`.
struct OpenFiles {
    max: usize,
    uses: u64,
    files: HashMap<FileKey, (Arc<dyn File>, u64)>,
    by_use: BTreeMap<u64, FileKey>,
}

/// What was written since the last sync.
#[derive(Default)]
pub(crate) struct Unsynced {
    files: BTreeMap<FileKey, (Arc<str>, u32)>,
    directories: BTreeSet<PathBuf>,
}

impl QueueFiles {
    pub(crate) fn new(disk: Arc<dyn Disk>, root: PathBuf, file_size: u64, open_max: usize) -> QueueFiles {
        let open = OpenFiles { max: open_max.max(1), uses: 0, files: HashMap::new(), by_use: BTreeMap::new() };
        QueueFiles {
            disk,
            root,
            file_size,
            open: Mutex::new(open),
            unsynced: Mutex::default(),
            sync_failed: AtomicBool::new(false),
        }
    }

    pub(crate) fn file_size(&self) -> u64 {
        self.file_size
    }

    /// First byte of the file that holds the byte `at`.
    pub(crate) fn base(&self, at: u64) -> u64 {
        at / self.file_size * self.file_size
    }

    /// Makes the first file of a queue whose first entry is at byte `at`, and fills it up to there.
    pub(super) fn begin(&self, queue: &ConsumeQueue, at: u64) -> io::Result<u64> {
        let base = self.base(at);
        let filler = QueueEntry::FILLER.encode().repeat(((at - base) as usize) / CQ_UNIT_SIZE);
        self.write(queue, base, &filler)?;
        Ok(base)
    }

    /// Reads from the byte `at` on, over the ends of files; fewer bytes than asked for if a file is missing.
    pub(crate) fn read(&self, queue: &ConsumeQueue, mut at: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        while read < into.len() {
            let base = self.base(at);
            let len = (into.len() - read).min((base + self.file_size - at) as usize);
            let file = match self.open(queue, base, false) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            };
            let place = || self.directory(queue).join(paths::file_name(base));
            let got = file
                .read_at(at - base, &mut into[read..read + len])
                .map_err(|error| Unreadable::at(&place(), at - base)(error))?;
            read += got;
            at += got as u64;
            if got < len {
                break;
            }
        }
        Ok(read)
    }

    /// Reads the entries with numbers `from..end`, as many as fit the block.
    pub(crate) fn read_block(
        &self,
        queue: &ConsumeQueue,
        from: u64,
        end: u64,
        block: &mut EntryBlock,
    ) -> io::Result<()> {
        let wanted = end.saturating_sub(from).min(EntryBlock::CAPACITY as u64) as usize;
        let bytes = &mut block.bytes[..wanted * CQ_UNIT_SIZE];
        block.len = self.read(queue, from * CQ_UNIT_SIZE as u64, bytes)? / CQ_UNIT_SIZE;
        Ok(())
    }

    /// Writes from the byte `at` on, making files as needed.
    pub(crate) fn write(&self, queue: &ConsumeQueue, mut at: u64, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let base = self.base(at);
            let (now, later) = bytes.split_at(bytes.len().min((base + self.file_size - at) as usize));
            let file = self.open(queue, base, true)?;
            file.write_at(at - base, now)?;
            self.note_unsynced(queue, base);
            at += now.len() as u64;
            bytes = later;
        }
        Ok(())
    }

    /// Removes everything from the byte `end` on: later files go, the rest of the file that holds `end` is zeroed.
    pub(crate) fn cut(&self, queue: &ConsumeQueue, end: u64, bases: &[u64]) -> io::Result<()> {
        for &base in bases.iter().filter(|base| **base >= end) {
            self.remove(queue, base)?;
        }
        let base = self.base(end);
        if end > base && bases.contains(&base) {
            let file = self.open(queue, base, false)?;
            file.set_len(end - base)?;
            file.set_len(self.file_size)?;
            self.note_unsynced(queue, base);
        }
        Ok(())
    }

    /// What the file that begins at `base` holds may be in the page cache only.
    pub(crate) fn note_unsynced(&self, queue: &ConsumeQueue, base: u64) {
        self.unsynced().files.insert((queue.serial(), base), (Arc::clone(queue.topic()), queue.id()));
    }

    /// Neither what the file that begins at `base` holds nor its name need be on disk.
    pub(crate) fn note_unknown(&self, queue: &ConsumeQueue, base: u64) {
        self.note_unsynced(queue, base);
        self.note_unsynced_names(&self.directory(queue));
    }

    /// Removes one file of a queue.
    pub(crate) fn remove(&self, queue: &ConsumeQueue, base: u64) -> io::Result<()> {
        let key = (queue.serial(), base);
        self.opened().forget(key);
        let mut unsynced = self.unsynced();
        unsynced.files.remove(&key);
        let directory = self.directory(queue);
        self.disk.remove_file(&directory.join(paths::file_name(base)))?;
        unsynced.directories.insert(directory);
        Ok(())
    }

    /// Forgets a deleted topic's queue, so that nothing writes to its files through an open handle.
    pub(crate) fn forget(&self, queue: &ConsumeQueue) {
        let range = (queue.serial(), 0)..=(queue.serial(), u64::MAX);
        let mut open = self.opened();
        let keys: BTreeSet<FileKey> = open.files.keys().copied().filter(|key| range.contains(key)).collect();
        keys.into_iter().for_each(|key| open.forget(key));
        self.unsynced().files.retain(|key, _| !range.contains(key));
    }

    /// Takes what has to be synced, for [`QueueFiles::sync`].
    pub(crate) fn take_unsynced(&self) -> Unsynced {
        std::mem::take(&mut self.unsynced())
    }

    /// Syncs files and directories. After a failed sync no later one succeeds: it would prove nothing. The next start
    /// then writes again what was not synced before.
    pub(crate) async fn sync(&self, taken: Unsynced) -> io::Result<()> {
        let result = self.sync_each(&taken).await;
        if result.is_err() {
            let mut unsynced = self.unsynced();
            unsynced.files.extend(taken.files);
            unsynced.directories.extend(taken.directories);
        }
        result
    }

    async fn sync_each(&self, taken: &Unsynced) -> io::Result<()> {
        if self.sync_failed.load(Ordering::Acquire) {
            return Err(io::Error::other("an earlier sync of consume queues failed"));
        }
        let (mut syncs, mut result) = (FuturesUnordered::new(), Ok(()));
        // Syncs that wait together share the journal's commits: thousands of files one after the other take seconds.
        for ((_, base), (topic, id)) in &taken.files {
            if syncs.len() >= SYNCS_AT_ONCE {
                result = result.and(syncs.next().await.unwrap_or(Ok(())));
            }
            syncs.push(self.sync_file(paths::queue_dir(&self.root, topic, *id).join(paths::file_name(*base))));
        }
        // To the end also after a failure: one that nobody takes note of is told to nobody else.
        while let Some(synced) = syncs.next().await {
            result = result.and(synced);
        }
        result?;
        // Innermost first, so that a directory that survives is not empty.
        for directory in taken.directories.iter().rev() {
            match self.disk.sync_dir(directory).await {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                synced => self.note_failure(synced)?,
            }
        }
        Ok(())
    }

    async fn sync_file(&self, path: PathBuf) -> io::Result<()> {
        match self.disk.open(&path, OpenMode::Write) {
            Ok(file) => self.note_failure(file.sync().await),
            // Deleted meanwhile, by retention or with its topic.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn note_failure(&self, synced: io::Result<()>) -> io::Result<()> {
        if synced.is_err() {
            self.sync_failed.store(true, Ordering::Release);
        }
        synced
    }

    /// Bytes at which the files of a queue begin, in order. Files of foreign names are left out.
    pub(crate) fn bases(&self, queue: &ConsumeQueue) -> io::Result<Vec<u64>> {
        let entries = match self.disk.read_dir(&self.directory(queue)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        Ok(entries.iter().filter(|entry| !entry.is_dir).filter_map(|entry| paths::file_base(&entry.name)).collect())
    }

    /// Looks whether the files are of the configured size, going by their names and the first one's length. That may be
    /// shorter: names and lengths survive a power cut each on its own.
    pub(crate) fn check_sizes(&self, queue: &ConsumeQueue, bases: &[u64]) -> io::Result<()> {
        let Some(first) = bases.first() else { return Ok(()) };
        let path = self.directory(queue).join(paths::file_name(*first));
        let len = self.disk.metadata(&path)?.len;
        let size = self.file_size;
        match bases.iter().find(|base| !base.is_multiple_of(size)) {
            None if len <= size => Ok(()),
            None => Err(foreign(&path, format!("has {len} bytes"), size)),
            Some(base) => Err(foreign(&path.with_file_name(paths::file_name(*base)), "begins elsewhere".into(), size)),
        }
    }

    /// Whether a file has the length of all.
    pub(crate) fn is_whole(&self, queue: &ConsumeQueue, base: u64) -> io::Result<bool> {
        let path = self.directory(queue).join(paths::file_name(base));
        Ok(self.disk.metadata(&path)?.len == self.file_size)
    }

    /// Brings a file of another length to that of all, as a crash may have left it.
    pub(crate) fn complete(&self, queue: &ConsumeQueue, base: u64) -> io::Result<()> {
        self.open(queue, base, true).map(|_| ())
    }

    fn directory(&self, queue: &ConsumeQueue) -> PathBuf {
        paths::queue_dir(&self.root, queue.topic(), queue.id())
    }

    fn open(&self, queue: &ConsumeQueue, base: u64, create: bool) -> io::Result<Arc<dyn File>> {
        let key = (queue.serial(), base);
        if let Some(file) = self.opened().get(key) {
            return Ok(file);
        }
        let directory = self.directory(queue);
        let path = directory.join(paths::file_name(base));
        let file = match self.disk.open(&path, OpenMode::Write) {
            Err(error) if create && error.kind() == io::ErrorKind::NotFound => self.create(&directory, &path)?,
            other => other?,
        };
        if create && file.len()? != self.file_size {
            file.set_len(self.file_size)?;
        }
        self.opened().put(key, Arc::clone(&file));
        Ok(file)
    }

    fn create(&self, directory: &Path, path: &Path) -> io::Result<Arc<dyn File>> {
        self.disk.create_dir_all(directory)?;
        let file = self.disk.open(path, OpenMode::CreateOrOpen)?;
        self.note_unsynced_names(directory);
        Ok(file)
    }

    fn note_unsynced_names(&self, directory: &Path) {
        let mut unsynced = self.unsynced();
        let above = directory.ancestors().take_while(|above| *above != self.root).map(Path::to_owned);
        unsynced.directories.extend(above);
        unsynced.directories.insert(self.root.clone());
    }

    fn opened(&self) -> MutexGuard<'_, OpenFiles> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unsynced(&self) -> MutexGuard<'_, Unsynced> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error for a queue of another file size.
fn foreign(path: &Path, what: String, size: u64) -> io::Error {
    let path = path.display();
    io::Error::other(format!("{path} {what}, but the configured file size is {size} (mappedFileSizeConsumeQueue)"))
}

impl OpenFiles {
    fn get(&mut self, key: FileKey) -> Option<Arc<dyn File>> {
        let (file, used) = self.files.get_mut(&key)?;
        self.by_use.remove(used);
        self.uses += 1;
        *used = self.uses;
        self.by_use.insert(self.uses, key);
        Some(Arc::clone(file))
    }

    fn put(&mut self, key: FileKey, file: Arc<dyn File>) {
        self.forget(key);
        while self.files.len() >= self.max {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            self.files.remove(&oldest);
        }
        self.uses += 1;
        self.files.insert(key, (file, self.uses));
        self.by_use.insert(self.uses, key);
    }

    fn forget(&mut self, key: FileKey) {
        if let Some((_, used)) = self.files.remove(&key) {
            self.by_use.remove(&used);
        }
    }
}
