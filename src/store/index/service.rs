//! All index files of a store.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;

use super::feed::{Fed, Feed};
use super::file::{newest_entry, walk_chain, IndexFile};
use super::keys::IndexRecord;
use super::layout::{IndexGeometry, IndexHeader};
use super::merge::Progress;
use super::names;
use crate::env::{Disk, File, Millis, OpenMode};
use crate::proto::PhysicalOffset;

/// Waiting entries are brought into the file at least this often.
const WRITE_INTERVAL_MS: i64 = 1000;

/// How the index is kept.
#[derive(Clone, Debug)]
pub struct IndexOptions {
    /// Directory of the files, `<store>/index`.
    pub directory: PathBuf,
    /// `maxHashSlotNum` and `maxIndexNum`.
    pub geometry: IndexGeometry,
    /// Seconds by which local time is ahead of UTC; files are named after local time.
    pub utc_offset_seconds: i32,
    /// Entries that may wait in memory before a write is due; twice as many are the hard limit. 20 bytes each.
    pub batch_entries_max: usize,
}

impl IndexOptions {
    /// RocketMQ's geometry and batches of 16 Ki entries: 330 KB under load, nothing when idle. Larger ones measured no
    /// faster.
    pub fn new(directory: PathBuf) -> IndexOptions {
        IndexOptions {
            directory,
            geometry: IndexGeometry::DEFAULT,
            utc_offset_seconds: 0,
            batch_entries_max: 16 * 1024,
        }
    }
}

/// Something the disk refused. Nothing is lost by it: entries keep waiting, and a record that could not be put is put
/// again by whoever builds the index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The disk refused.
    #[error("cannot {step} in the index {}: {error}", directory.display())]
    Io {
        /// What was tried.
        step: &'static str,
        /// Directory of the index.
        directory: PathBuf,
        /// What the disk said.
        error: io::Error,
    },
}

/// A full file; only its header is kept in memory.
#[derive(Debug)]
pub(super) struct FinishedFile {
    pub(super) name: String,
    pub(super) header: IndexHeader,
}

/// The file that takes entries.
pub(super) struct CurrentFile {
    pub(super) name: String,
    pub(super) file: IndexFile,
}

#[derive(Default)]
pub(super) struct State {
    /// Oldest first.
    pub(super) finished: Vec<Arc<FinishedFile>>,
    pub(super) current: Option<CurrentFile>,
    /// Finished files not known to be synced, each with the store time of its last entry.
    unsynced: Vec<(Arc<dyn File>, Millis)>,
    waiting_since: Option<Millis>,
}

/// The index of a store. One builder puts records in log order; any number of sessions query. No lock is held across
/// a wait, nor while a query reads records.
pub struct IndexService {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) options: IndexOptions,
    pub(super) state: Mutex<State>,
    sync_failed: Arc<AtomicBool>,
    /// Records on their way here.
    pub(crate) feed: Feed,
}

impl IndexService {
    pub(super) fn with_state(disk: Arc<dyn Disk>, options: IndexOptions, state: State) -> IndexService {
        IndexService { disk, options, state: Mutex::new(state), sync_failed: Arc::default(), feed: Feed::default() }
    }

    /// Where building goes on: records that start below are indexed, the one that starts here may be.
    pub fn next(&self) -> PhysicalOffset {
        self.lock().end().unwrap_or_default()
    }

    /// Indexes a record unless it already is. Records come in log order; repeats are skipped. `now` names the file if a
    /// new one is needed. After an error put the same record again later: keys already taken are recognised.
    pub fn put(&self, record: &IndexRecord<'_>, now: Millis) -> Result<(), IndexError> {
        self.put_all(std::iter::once(*record), now)
    }

    /// [`IndexService::put`] for many records under one lock.
    pub fn put_all<'a>(
        &self,
        records: impl IntoIterator<Item = IndexRecord<'a>>,
        now: Millis,
    ) -> Result<(), IndexError> {
        let mut state = self.lock();
        for record in records {
            self.put_record(&mut state, &record, now)?;
        }
        Ok(())
    }

    /// True if entries have waited for a second or enough of them wait: call [`IndexService::write_step`] until done.
    pub fn write_is_due(&self, now: Millis) -> bool {
        let state = self.lock();
        let Some(since) = state.waiting_since else { return false };
        state.waiting_entries() >= self.options.batch_entries_max || since.plus(WRITE_INTERVAL_MS) <= now || now < since
    }

    /// Brings a piece of the waiting entries into the file: a few hundred microseconds of work at most.
    pub fn write_step(&self) -> Result<Progress, IndexError> {
        let mut state = self.lock();
        let progress = match &mut state.current {
            Some(current) => current.file.write_step().map_err(|error| self.failed("write entries", error))?,
            None => Progress::Done,
        };
        if progress == Progress::Done {
            state.waiting_since = None;
        }
        Ok(progress)
    }

    /// Syncs the files that have been finished since the last call. The future's value is the new `indexMsgTimestamp`
    /// of the checkpoint; `None` if nothing was finished or after a failed sync, since when the index is only as good
    /// as the log it derives from.
    pub fn sync_finished(&self) -> BoxFuture<'static, Result<Option<Millis>, IndexError>> {
        let finished = std::mem::take(&mut self.lock().unsynced);
        let (disk, failed) = (self.disk.clone(), self.sync_failed.clone());
        let directory = self.options.directory.clone();
        Box::pin(async move {
            if finished.is_empty() || failed.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let sync_all = async {
                for (file, _) in &finished {
                    file.sync().await?;
                }
                disk.sync_dir(&directory).await
            };
            sync_all.await.map_err(|error| {
                failed.store(true, Ordering::Relaxed);
                IndexError::Io { step: "sync a finished file", directory: directory.clone(), error }
            })?;
            Ok(finished.iter().map(|(_, end)| *end).max())
        })
    }

    /// Brings everything into the files and syncs them, for a clean stop. The value is as for
    /// [`IndexService::sync_finished`]: the current file does not move `indexMsgTimestamp`.
    pub fn close(&self) -> BoxFuture<'static, Result<Option<Millis>, IndexError>> {
        let mut state = self.lock();
        let written = match &mut state.current {
            Some(current) => current.file.write_all(),
            None => Ok(()),
        };
        let current = state.current.as_ref().map(|current| current.file.sync());
        state.waiting_since = None;
        drop(state);
        let finished = self.sync_finished();
        let failed = self.failure();
        let directory = self.options.directory.clone();
        let disk = self.disk.clone();
        Box::pin(async move {
            written.map_err(|error| failed("write entries", error))?;
            if let Some(current) = current {
                current.await.map_err(|error| failed("sync the current file", error))?;
                disk.sync_dir(&directory).await.map_err(|error| failed("sync the directory", error))?;
            }
            finished.await
        })
    }

    /// Deletes files that end below the log's minimum, never the newest. Returns how many.
    pub fn expire(&self, log_min: PhysicalOffset) -> Result<usize, IndexError> {
        let mut state = self.lock();
        let removable = match state.current {
            Some(_) => state.finished.len(),
            None => state.finished.len().saturating_sub(1),
        };
        let expired = |file: &&Arc<FinishedFile>| file.header.end_phy_offset < log_min;
        let count = state.finished[..removable].iter().take_while(expired).count();
        for _ in 0..count {
            let path = self.options.directory.join(&state.finished[0].name);
            self.remove(&path).map_err(|error| self.failed("delete an expired file", error))?;
            state.finished.remove(0);
        }
        Ok(count)
    }

    /// Forgets records at and above `log_end`, which recovery cut off: files that know of one go as a whole, and
    /// building goes on from [`IndexService::next`]. Returns how many files went. Only for recovery, before building.
    pub fn truncate(&self, log_end: PhysicalOffset) -> Result<usize, IndexError> {
        let mut state = self.lock();
        let beyond = |header: &IndexHeader| !header.is_empty() && header.end_phy_offset >= log_end;
        let keep = state.finished.iter().take_while(|file| !beyond(&file.header)).count();
        let current_goes =
            keep < state.finished.len() || state.current.as_ref().is_some_and(|c| beyond(c.file.header()));
        let mut removed = 0;
        state.unsynced.clear();
        if let Some(current) = state.current.take_if(|_| current_goes) {
            let path = self.options.directory.join(&current.name);
            self.remove(&path).map_err(|error| self.failed("delete a file beyond the log's end", error))?;
            state.waiting_since = None;
            removed += 1;
        }
        while state.finished.len() > keep {
            let Some(file) = state.finished.pop() else { break };
            let path = self.options.directory.join(&file.name);
            self.remove(&path).map_err(|error| self.failed("delete a file beyond the log's end", error))?;
            removed += 1;
        }
        Ok(removed)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while the lock was held left at worst an entry that a query filters out.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn failed(&self, step: &'static str, error: io::Error) -> IndexError {
        IndexError::Io { step, directory: self.options.directory.clone(), error }
    }

    fn failure(&self) -> impl Fn(&'static str, io::Error) -> IndexError + Send + 'static {
        let directory = self.options.directory.clone();
        move |step, error| IndexError::Io { step, directory: directory.clone(), error }
    }

    fn remove(&self, path: &std::path::Path) -> io::Result<()> {
        match self.disk.remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// [`IndexService::put`] for a record whose keys have been hashed, by [`key_hashes`](super::key_hashes).
    pub(crate) fn put_fed(&self, record: &Fed, now: Millis) -> Result<(), IndexError> {
        self.put_hashes(&mut self.lock(), &record.hashes, PhysicalOffset(record.at), record.stored, now)
    }

    fn put_record(&self, state: &mut State, record: &IndexRecord<'_>, now: Millis) -> Result<(), IndexError> {
        self.put_hashes(state, &record.key_hashes(), record.phy_offset, record.store_timestamp, now)
    }

    fn put_hashes(
        &self,
        state: &mut State,
        hashes: &[u32],
        at: PhysicalOffset,
        stored: Millis,
        now: Millis,
    ) -> Result<(), IndexError> {
        let end = state.end();
        if end.is_some_and(|end| at < end) {
            return Ok(());
        }
        if state.waiting_entries() >= 2 * self.options.batch_entries_max {
            self.write_current(state)?;
        }
        let may_be_there = end == Some(at);
        for hash in hashes {
            if may_be_there && self.contains(state, *hash, at)? {
                continue;
            }
            let file = self.file_with_room(state, now)?;
            // The file has room, so this cannot be refused.
            let _ = file.put(*hash, at, stored);
            state.waiting_since.get_or_insert(now);
        }
        Ok(())
    }

    fn file_with_room<'a>(&self, state: &'a mut State, now: Millis) -> Result<&'a mut IndexFile, IndexError> {
        if state.current.as_ref().is_some_and(|current| current.file.is_full()) {
            self.write_current(state)?;
            if let Some(CurrentFile { name, file }) = state.current.take() {
                state.unsynced.push((file.file().clone(), file.header().end_timestamp));
                state.finished.push(Arc::new(FinishedFile { name, header: *file.header() }));
            }
        }
        let current = match state.current.take() {
            Some(current) => current,
            None => self.make_file(state, now).map_err(|error| self.failed("make a file", error))?,
        };
        Ok(&mut state.current.insert(current).file)
    }

    fn make_file(&self, state: &State, now: Millis) -> io::Result<CurrentFile> {
        let directory = &self.options.directory;
        let newest = state.finished.iter().map(|file| file.name.as_str()).max();
        let name = names::next_name(now, self.options.utc_offset_seconds, newest);
        self.disk.create_dir_all(directory)?;
        // A file of this name can only be left over from a failed attempt: all others were loaded.
        let path = directory.join(&name);
        let file = self.disk.open(&path, OpenMode::Truncate)?;
        let previous = state.finished.last().map(|file| &file.header);
        match IndexFile::create(file, self.options.geometry, previous) {
            Ok(file) => Ok(CurrentFile { file, name }),
            Err(error) => {
                // A full disk must not be left one more file with each try: the next one has another name.
                self.remove(&path)?;
                Err(error)
            }
        }
    }

    fn write_current(&self, state: &mut State) -> Result<(), IndexError> {
        let Some(current) = &mut state.current else { return Ok(()) };
        current.file.write_all().map_err(|error| self.failed("write entries", error))?;
        state.waiting_since = None;
        Ok(())
    }

    /// Looks for an entry in the two newest files: a record's keys may be split between them.
    fn contains(&self, state: &State, key_hash: u32, phy_offset: PhysicalOffset) -> Result<bool, IndexError> {
        let failed = |error| self.failed("read", error);
        if let Some(current) = &state.current {
            if current.file.contains(key_hash, phy_offset).map_err(failed)? {
                return Ok(true);
            }
        }
        let Some(last) = state.finished.last() else { return Ok(false) };
        let path = self.options.directory.join(&last.name);
        let mut found = false;
        let mut look = || {
            let file = self.disk.open(&path, OpenMode::Read)?;
            let newest = newest_entry(&*file, self.options.geometry, &last.header, key_hash)?;
            walk_chain(&*file, self.options.geometry, newest, |_, entry| {
                found |= entry.key_hash == key_hash && entry.phy_offset == phy_offset.0 as i64;
                if found {
                    std::ops::ControlFlow::Break(())
                } else {
                    std::ops::ControlFlow::Continue(())
                }
            })
        };
        look().map_err(failed)?;
        Ok(found)
    }
}

impl State {
    /// Start of the last record indexed; `None` in an empty index.
    fn end(&self) -> Option<PhysicalOffset> {
        let current = self.current.as_ref().map(|current| current.file.header());
        let header = current.or_else(|| self.finished.last().map(|file| &file.header))?;
        Some(header.end_phy_offset)
    }

    fn waiting_entries(&self) -> usize {
        self.current.as_ref().map_or(0, |current| current.file.waiting_entries())
    }
}
