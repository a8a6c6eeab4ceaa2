//! What can be wrong with a disk.
//!
//! Within the promise of `env::Disk`, so that every store must live with it: syncs that fail (in three ways, as file
//! systems differ), calls that fail, space, files or names that run out, slowness, the loss of unsynced data.
//! Outside of it: a device that lies about syncs, loses, misplaces or forgets what it has, rots, is replaced. Such
//! faults destroy data that was promised to be kept, so [`super::Atlas`] is asked first.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::drive::Drive;
use super::inode::Landing;
use super::pages::SECTOR;
use super::tree::{lock, Tree};
use crate::marks;

/// What a failed sync leaves in the page cache. In all three ways the device has some of the sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailedPages {
    /// The new content, taken for clean: it can be read, no later sync brings it, a crash takes it (ext4, XFS).
    #[default]
    Clean,
    /// What the device has: readers see the write undone at once (Btrfs).
    Reverted,
    /// The new content, still dirty: a later sync tries again, and its success proves something for once.
    Dirty,
}

/// Faults that are on.
#[derive(Default)]
pub(super) struct DiskFaults {
    /// So many syncs of files fail.
    pub(super) syncs: u32,
    pub(super) failed_pages: FailedPages,
    /// So many syncs of directories fail.
    pub(super) dir_syncs: u32,
    pub(super) reads: u32,
    pub(super) writes: u32,
    pub(super) renames: u32,
    /// Most open files, if there is a limit.
    pub(super) files_max: Option<usize>,
    /// Nothing new can be made.
    pub(super) no_names: bool,
    /// Syncs say that all is well and do nothing.
    pub(super) lies: bool,
    /// So many writes go to a wrong place of their file, or nowhere, when they reach the device.
    pub(super) misdirected: u32,
    pub(super) lost: u32,
    /// Sectors that cannot be read until they are written: file, sector.
    pub(super) bad_sectors: BTreeSet<(u64, u64)>,
    /// Everything takes so many times as long until then; 0 and 1 are no change.
    pub(super) slowness: u32,
    pub(super) slow_until: Duration,
    /// Bytes that are written at full speed between pauses; 0 is no throttling.
    pub(super) burst: u64,
    pub(super) burst_left: u64,
    pub(super) throttled_until: Duration,
    /// Open files by number, of the present life.
    pub(super) open: BTreeMap<u64, usize>,
}

impl DiskFaults {
    /// How long something takes that begins `now`, would take `time`, and brings `bytes` to the device. What is under way
    /// when a fault ends goes on at full speed: a fault does not outlast its end in a single long sync.
    pub(super) fn delay(&mut self, now: Duration, time: Duration, bytes: u64) -> Duration {
        let mut time = time;
        if self.slowness > 1 && now < self.slow_until {
            marks::mattered("slow_disk");
            let (slowed, left) = (time * self.slowness, self.slow_until - now);
            time = slowed.min(left) + slowed.saturating_sub(left) / self.slowness;
        }
        if self.burst > 0 && now < self.throttled_until {
            let mut bytes = bytes.max(1);
            let mut pauses = Duration::ZERO;
            while bytes > self.burst_left {
                bytes -= self.burst_left;
                self.burst_left = self.burst;
                pauses += Duration::from_secs(1);
                marks::mattered("throttled_disk");
            }
            self.burst_left -= bytes;
            time += pauses.min(self.throttled_until - now);
        }
        time
    }

    /// Where writes go.
    pub(super) fn device(&mut self) -> impl FnMut(u64) -> Landing + '_ {
        |at| {
            if take(&mut self.lost, "lost_writes") {
                Landing::Lost
            } else if take(&mut self.misdirected, "misdirected_writes") {
                // One sector before or behind: what firmware gets wrong is an address.
                let sector = SECTOR as u64;
                Landing::At(if at >= sector { at - sector } else { at + sector })
            } else {
                Landing::Right
            }
        }
    }
}

/// An input or output error, as a device gives it.
pub(super) fn eio(what: &str) -> io::Error {
    io::Error::other(format!("input/output error ({what}, injected)"))
}

/// Takes one of what is left; true if there was one.
pub(super) fn take(left: &mut u32, kind: &'static str) -> bool {
    let some = *left > 0;
    if some {
        *left -= 1;
        marks::mattered(kind);
    }
    some
}

impl Drive {
    /// Makes the next `count` syncs of files fail; `pages` says what they leave in the page cache.
    pub fn fail_syncs_with(&self, count: u32, pages: FailedPages) {
        self.trace.note(self.node, "disk will fail", &[u64::from(count)], &format!("{pages:?}"));
        let mut state = self.lock();
        (state.faults.syncs, state.faults.failed_pages) = (count, pages);
    }

    /// The kernel fails to write back what is unsynced, while nobody syncs: the pages are clean and the device has a
    /// part of them. Each open file is told by its next sync, once. Returns how many files it befell.
    pub fn fail_write_back(&self) -> usize {
        let mut state = self.lock();
        let state = &mut *state;
        let mut count = 0;
        for file in state.tree.files() {
            let mut inode = lock(file);
            if inode.dirty_bytes() > 0 {
                let mark = inode.mark();
                inode.fail(mark, &mut state.crashes);
                inode.errors += 1;
                inode.error_told = false;
                count += 1;
            }
        }
        if count > 0 {
            marks::mattered("write_back_fails");
        }
        self.trace.note(self.node, "disk write-back failed", &[count as u64], "");
        count
    }

    /// Makes the next `count` syncs of directories fail.
    pub fn fail_dir_syncs(&self, count: u32) {
        self.note_fault("directory syncs", count);
        self.lock().faults.dir_syncs = count;
    }

    /// Makes the next `count` reads fail (not those of mapped pages, which the cache holds).
    pub fn fail_reads(&self, count: u32) {
        self.note_fault("reads", count);
        self.lock().faults.reads = count;
    }

    /// Makes the next `count` writes fail; each may have written a part.
    pub fn fail_writes(&self, count: u32) {
        self.note_fault("writes", count);
        self.lock().faults.writes = count;
    }

    /// Makes the next `count` renames fail.
    pub fn fail_renames(&self, count: u32) {
        self.note_fault("renames", count);
        self.lock().faults.renames = count;
    }

    /// The process may have so many files open; further ones fail with "too many open files".
    pub fn limit_files(&self, most: Option<usize>) {
        self.note_fault("open files", most.map_or(u32::MAX, |most| most as u32));
        self.lock().faults.files_max = most;
    }

    /// There is space, but no file or directory can be made (no inodes are left).
    pub fn fail_new_names(&self, failing: bool) {
        self.note_fault("new names", u32::from(failing));
        self.lock().faults.no_names = failing;
    }

    /// Everything takes `times` times as long, for `duration`.
    pub fn slow_down(&self, times: u32, duration: Duration) {
        self.note_fault("slowness", times);
        let faults = &mut self.lock().faults;
        (faults.slowness, faults.slow_until) = (times, self.agenda.now() + duration);
    }

    /// After every `burst` bytes synced the device pauses for a second, as a volume that is out of credits, for `duration`.
    pub fn throttle(&self, burst: u64, duration: Duration) {
        self.note_fault("burst", burst as u32);
        let faults = &mut self.lock().faults;
        (faults.burst, faults.burst_left, faults.throttled_until) = (burst, burst, self.agenda.now() + duration);
    }

    /// Syncs say that all is well and do nothing, until this is called with `false`.
    pub fn lie(&self, lying: bool) {
        self.note_fault("lies", u32::from(lying));
        self.lock().faults.lies = lying;
    }

    /// The next `count` writes that reach the device go to a wrong place of their file. The page cache is right.
    pub fn misdirect_writes(&self, count: u32) {
        self.note_fault("misdirected", count);
        self.lock().faults.misdirected = count;
    }

    /// The next `count` writes that are to reach the device do not. The page cache is right.
    pub fn lose_writes(&self, count: u32) {
        self.note_fault("lost writes", count);
        self.lock().faults.lost = count;
    }

    /// One sector of a file cannot be read any more, until it is written again.
    pub fn spoil_sector(&self, path: &Path, at: u64) -> io::Result<()> {
        let mut state = self.lock();
        let file = state.tree.file(path)?;
        let id = lock(&file).id;
        state.faults.bad_sectors.insert((id, at / SECTOR as u64));
        self.trace.note(self.node, "disk sector bad", &[id, at], &path.display().to_string());
        Ok(())
    }

    /// A file is gone, for good. Nothing may run on the machine.
    pub fn lose_file(&self, path: &Path) -> io::Result<()> {
        self.trace.note(self.node, "disk lost a file", &[], &path.display().to_string());
        let mut state = self.lock();
        state.tree.remove(path)?;
        state.tree.settle_all();
        Ok(())
    }

    /// A file ends in its middle, at a sector. Nothing may run on the machine.
    pub fn lose_second_half(&self, path: &Path) -> io::Result<()> {
        self.trace.note(self.node, "disk lost half a file", &[], &path.display().to_string());
        let mut state = self.lock();
        let file = state.tree.file(path)?;
        let mut inode = lock(&file);
        let half = inode.cache.len() / 2 / SECTOR as u64 * SECTOR as u64;
        inode.set_len(half);
        drop(inode);
        state.tree.settle_all();
        Ok(())
    }

    /// The disk is replaced by an empty one. Nothing may run on the machine.
    pub fn wipe(&self) {
        self.trace.note(self.node, "disk replaced", &[], "");
        let mut state = self.lock();
        state.tree = Tree::new();
        state.locks.clear();
    }

    /// Two machines get each other's disk. Nothing may run on either.
    pub fn swap_with(&self, other: &Drive) {
        self.trace.note(self.node, "disks swapped", &[u64::from(other.node.0)], "");
        let mine = std::mem::replace(&mut self.lock().tree, Tree::new());
        let theirs = std::mem::replace(&mut other.lock().tree, mine);
        self.lock().tree = theirs;
    }

    /// Ends every fault of this disk. What it destroyed stays destroyed.
    pub fn repair(&self) {
        let mut state = self.lock();
        let open = std::mem::take(&mut state.faults.open);
        state.faults = DiskFaults { open, ..DiskFaults::default() };
        state.stalled_until = Duration::ZERO;
    }

    /// Paths of all files, in order.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.lock().tree.paths()
    }

    /// Length of a file in bytes.
    pub fn len_of(&self, path: &Path) -> io::Result<u64> {
        let file = self.lock().tree.file(path)?;
        let len = lock(&file).cache.len();
        Ok(len)
    }

    fn note_fault(&self, what: &str, count: u32) {
        self.trace.note(self.node, "disk fault", &[u64::from(count)], what);
    }

    /// Fails a call if it is its turn.
    pub(super) fn check_call(&self, call: Call) -> io::Result<()> {
        let faults = &mut self.lock().faults;
        let (left, kind) = match call {
            Call::Read => (&mut faults.reads, "read_errors"),
            Call::Write => (&mut faults.writes, "write_errors"),
            Call::Rename => (&mut faults.renames, "rename_errors"),
            Call::DirSync => (&mut faults.dir_syncs, "dir_sync_errors"),
        };
        if !take(left, kind) {
            return Ok(());
        }
        self.trace.note(self.node, "disk error", &[], kind);
        Err(eio(kind))
    }

    /// Fails if a new name cannot be made.
    pub(super) fn check_name(&self) -> io::Result<()> {
        if self.lock().faults.no_names {
            marks::mattered("no_inodes");
            self.trace.note(self.node, "disk error", &[], "no inodes");
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    /// Counts an open file; fails if there are too many.
    pub(super) fn opened(&self, id: u64) -> io::Result<()> {
        let faults = &mut self.lock().faults;
        let count: usize = faults.open.values().sum();
        if faults.files_max.is_some_and(|most| count >= most) {
            marks::mattered("few_files");
            self.trace.note(self.node, "disk error", &[], "too many open files");
            return Err(io::Error::from_raw_os_error(24));
        }
        *faults.open.entry(id).or_default() += 1;
        Ok(())
    }

    /// An open file was closed.
    pub(super) fn closed(&self, id: u64) {
        let faults = &mut self.lock().faults;
        if let Some(count) = faults.open.get_mut(&id) {
            *count -= 1;
            if *count == 0 {
                faults.open.remove(&id);
            }
        }
    }

    /// Fails if a bad sector lies in the range.
    pub(super) fn check_sectors(&self, id: u64, at: u64, len: usize) -> io::Result<()> {
        let faults = &self.lock().faults;
        let sectors = (id, at / SECTOR as u64)..(id, (at + len as u64).div_ceil(SECTOR as u64));
        if len > 0 && !faults.bad_sectors.is_empty() && faults.bad_sectors.range(sectors).next().is_some() {
            marks::mattered("bad_sector");
            self.trace.note(self.node, "disk error", &[id, at], "bad sector");
            return Err(eio("bad sector"));
        }
        Ok(())
    }

    /// A written sector can be read again.
    pub(super) fn heal_sectors(&self, id: u64, at: u64, len: usize) {
        let faults = &mut self.lock().faults;
        if !faults.bad_sectors.is_empty() {
            let end = (at + len as u64).div_ceil(SECTOR as u64);
            (at / SECTOR as u64..end).for_each(|sector| {
                faults.bad_sectors.remove(&(id, sector));
            });
        }
    }
}

/// A call that can fail.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    Read,
    Write,
    Rename,
    DirSync,
}
