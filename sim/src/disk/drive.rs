//! The disk of one machine: it outlives processes and power cuts.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metaq::env::{Clock, Millis};

use super::crash::{Choose, Style};
use super::faults::{eio, DiskFaults, FailedPages};
use super::pages::PAGE;
use super::tree::{lock, FileRef, Tree};
use crate::agenda::Agenda;
use crate::random::Stream;
use crate::trace::Trace;
use crate::world::NodeId;

/// How a device behaves.
#[derive(Clone, Copy, Debug)]
pub struct DriveSettings {
    /// Shortest time of a sync.
    pub sync_min: Duration,
    /// Longest time of a sync of little data.
    pub sync_max: Duration,
    /// Data per second that a sync brings to the device.
    pub bytes_per_second: u64,
    /// Of 1,000 syncs, how many take a hundred times as long.
    pub stalls_per_mille: u64,
    /// Space in bytes.
    pub capacity: u64,
}

impl DriveSettings {
    /// A good SSD.
    pub const SSD: DriveSettings = DriveSettings {
        sync_min: Duration::from_micros(60),
        sync_max: Duration::from_micros(600),
        bytes_per_second: 400_000_000,
        stalls_per_mille: 2,
        capacity: 64 << 30,
    };

    /// Settings for the disk of one run: from a good SSD to a busy hard disk.
    pub fn draw(random: &mut Stream) -> DriveSettings {
        let sync_max = Duration::from_micros(*random.pick(&[200, 600, 3_000, 20_000]));
        DriveSettings { sync_min: sync_max / 10, sync_max, stalls_per_mille: *random.pick(&[0, 2, 20]), ..Self::SSD }
    }
}

/// What is on the disk and what is wrong with it.
pub(super) struct State {
    pub(super) tree: Tree,
    pub(super) settings: DriveSettings,
    pub(super) locks: BTreeSet<PathBuf>,
    pub(super) faults: DiskFaults,
    pub(super) stalled_until: Duration,
    latency: Stream,
    pub(super) crashes: Stream,
}

/// The disk of one machine.
pub struct Drive {
    pub(super) agenda: Arc<Agenda>,
    pub(super) trace: Arc<Trace>,
    pub(super) node: NodeId,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

impl Drive {
    /// An empty disk.
    pub fn new(
        seed: u64,
        node: NodeId,
        settings: DriveSettings,
        clock: Arc<dyn Clock>,
        agenda: Arc<Agenda>,
        trace: Arc<Trace>,
    ) -> Arc<Drive> {
        let state = State {
            tree: Tree::new(),
            settings,
            locks: BTreeSet::new(),
            faults: DiskFaults::default(),
            stalled_until: Duration::ZERO,
            latency: Stream::new(seed, &format!("disk {}", node.0)),
            crashes: Stream::new(seed, &format!("crash {}", node.0)),
        };
        Arc::new(Drive { agenda, trace, node, clock, state: Mutex::new(state) })
    }

    /// Draws everything from now on from other streams.
    pub fn branch(&self, number: u64) {
        let mut state = self.lock();
        let salt = state.latency.draw() ^ number;
        state.latency = Stream::new(salt, "latency branch");
        state.crashes = Stream::new(salt, "crash branch");
    }

    /// Makes the next `count` syncs of files fail. What they were to bring to the device is partly there, stays
    /// readable, and no later sync brings it.
    pub fn fail_syncs(&self, count: u32) {
        self.fail_syncs_with(count, FailedPages::Clean);
    }

    /// Lets every sync wait until `duration` has passed.
    pub fn stall(&self, duration: Duration) {
        self.trace.note(self.node, "disk stalls", &[duration.as_millis() as u64], "");
        self.lock().stalled_until = self.agenda.now() + duration;
    }

    /// Changes the disk's size; writes that need space beyond it fail.
    pub fn set_capacity(&self, bytes: u64) {
        self.trace.note(self.node, "disk capacity", &[bytes], "");
        self.lock().settings.capacity = bytes;
    }

    /// Fills the disk up to `bytes`, or empties it again, with what is nobody's.
    pub fn leave_free(&self, bytes: u64) {
        let used = self.lock().tree.used_pages() * PAGE as u64;
        self.set_capacity(used + bytes);
    }

    /// Changes one bit of a file, on the device and in memory.
    pub fn flip_bit(&self, path: &Path, at: u64, bit: u8) -> io::Result<()> {
        self.trace.note(self.node, "disk rots", &[at, u64::from(bit)], &path.display().to_string());
        let file = self.lock().tree.file(path)?;
        lock(&file).flip_bit(at, bit);
        Ok(())
    }

    /// Brings everything to the device, as if the machine had been idle for long.
    pub fn settle(&self) {
        self.lock().tree.settle_all();
    }

    /// The process died: its locks are free, everything it wrote is still in the page cache.
    pub fn kill(&self) {
        let mut state = self.lock();
        state.locks.clear();
        state.faults.open.clear();
    }

    /// The machine lost its power: of what was not synced, a random part is gone.
    pub fn power_cut(&self) {
        let mut state = self.lock();
        let mut random = state.crashes.clone();
        // One style for the whole disk in half of all cuts: losses of different files then fit together.
        let common = (random.below(2) == 0).then(|| Style::draw(&mut random));
        let mut styles = Stream::new(random.draw(), "styles");
        let State { tree, locks, faults, .. } = &mut *state;
        tree.power_cut(&mut || common.unwrap_or_else(|| Style::draw(&mut styles)), &mut random);
        locks.clear();
        faults.open.clear();
        state.stalled_until = Duration::ZERO;
        state.crashes = random;
    }

    /// The kernel stopped and the machine started again: the page cache is gone, but the device ends what it was given,
    /// so no write is torn.
    pub fn os_crash(&self) {
        let mut state = self.lock();
        let mut random = state.crashes.clone();
        let State { tree, locks, faults, .. } = &mut *state;
        let mut styles = Stream::new(random.draw(), "styles");
        let mut style = || *styles.pick(&[Style::Nothing, Style::Everything, Style::Writes]);
        tree.power_cut(&mut style, &mut random);
        locks.clear();
        faults.open.clear();
        state.stalled_until = Duration::ZERO;
        state.crashes = random;
    }

    /// As [`Drive::power_cut`], every choice made by `choose`.
    pub fn power_cut_by(&self, choose: &mut dyn Choose) {
        let mut state = self.lock();
        state.tree.power_cut(&mut || Style::Each, choose);
        state.locks.clear();
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Millis {
        self.clock.now()
    }

    /// How long a sync of `bytes` takes.
    pub(super) fn sync_time(&self, bytes: usize) -> Duration {
        let mut state = self.lock();
        let settings = state.settings;
        let low = settings.sync_min.as_nanos() as u64;
        let nanos = state.latency.between(low, low.max(settings.sync_max.as_nanos() as u64));
        let slow = if state.latency.chance(settings.stalls_per_mille) { 100 } else { 1 };
        let transfer = bytes as u64 * 1_000_000_000 / settings.bytes_per_second.max(1);
        let now = self.agenda.now();
        let stall = state.stalled_until.saturating_sub(now);
        if !stall.is_zero() {
            crate::marks::mattered("stall");
        }
        stall + state.faults.delay(now + stall, Duration::from_nanos(nanos * slow + transfer), bytes as u64)
    }

    /// The device answers a sync of `file` that covers the changes before `mark`.
    pub(super) fn finish_sync(&self, file: &FileRef, mark: u64, told: &mut u64) -> io::Result<()> {
        let mut state = self.lock();
        let State { faults, crashes, .. } = &mut *state;
        let mut inode = lock(file);
        if inode.errors > *told {
            *told = inode.errors;
            inode.error_told = true;
            self.trace.note(self.node, "disk sync tells of a failure", &[inode.id], "");
            return Err(eio("write-back"));
        }
        if faults.syncs > 0 {
            faults.syncs -= 1;
            crate::marks::mattered(match faults.failed_pages {
                FailedPages::Clean => "fail_syncs",
                FailedPages::Reverted => "fail_syncs_reverting",
                FailedPages::Dirty => "fail_syncs_keeping",
            });
            match faults.failed_pages {
                FailedPages::Clean => inode.fail(mark, crashes),
                FailedPages::Reverted => inode.fail_reverting(mark, crashes),
                FailedPages::Dirty => {}
            }
            self.trace.note(self.node, "disk sync failed", &[inode.id, mark], "");
            return Err(eio("sync"));
        }
        if faults.lies {
            if inode.dirty_bytes() > 0 {
                crate::marks::mattered("lying_disk");
            }
            self.trace.note(self.node, "disk sync", &[inode.id, mark], "a lie");
            return Ok(());
        }
        inode.settle_by(mark, &mut faults.device());
        self.trace.note(self.node, "disk sync", &[inode.id, mark], "");
        Ok(())
    }

    /// Bytes that may still be taken.
    pub(super) fn available(&self) -> u64 {
        let mut state = self.lock();
        let used = state.tree.used_pages() * PAGE as u64;
        state.settings.capacity.saturating_sub(used)
    }

    /// Fails if `pages` more pages do not fit. A disk of the default size is taken for endless.
    pub(super) fn check_space(&self, pages: u64) -> io::Result<()> {
        if pages == 0 || self.lock().settings.capacity >= DriveSettings::SSD.capacity {
            return Ok(());
        }
        if self.available() < pages * PAGE as u64 {
            crate::marks::mattered("disk_full");
            self.trace.note(self.node, "disk full", &[pages], "");
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}
