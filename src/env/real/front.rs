//! Zeros written ahead of a writer, so that it finds pages that are there.
//!
//! The first touch of a mapped page of a file costs 1 to 2 ns a byte on ext4, page by page. Writing zeros makes the same
//! pages in large folios for 0.15 ns a byte, and mapping those costs next to nothing. But it writes, so it has to stay
//! clear of the writer.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Zeros written at once. A writer that catches up waits for so many at most, tens of microseconds.
const PIECE: usize = 128 * 1024;
static ZEROS: [u8; PIECE] = [0; PIECE];

/// How far a file has been written, by its writer or by zeros ahead of it. One writer at a time; what lies behind stays
/// out of the zeros' way for the price of one load.
pub(super) struct Front {
    /// No zeros are written below. Everything, until zeros are asked for.
    at: AtomicU64,
    /// Held by whoever writes at or above the front.
    moving: Mutex<()>,
}

impl Front {
    pub(super) fn new() -> Front {
        Front { at: AtomicU64::new(u64::MAX), moving: Mutex::new(()) }
    }

    /// Zeros may be written from `at` on: nothing is there yet. The writer's own thread says so. Returns whether it is said
    /// for the first time.
    pub(super) fn begin(&self, at: u64) -> bool {
        let _moving = self.moving();
        let front = self.at.load(Ordering::Relaxed);
        let first = front == u64::MAX;
        self.at.store(if first { at } else { front.max(at) }, Ordering::Release);
        first
    }

    /// Does what writes everything below `end`, without zeros coming upon it.
    pub(super) fn write<T>(&self, end: u64, write: impl FnOnce() -> T) -> T {
        if end <= self.at.load(Ordering::Acquire) {
            return write();
        }
        let _moving = self.moving();
        let written = write();
        self.at.fetch_max(end, Ordering::Release);
        written
    }

    /// Writes some of the zeros that are missing below `end`; `None` if none are. Returns the range that is there now.
    pub(super) fn zero_some(&self, file: &fs::File, end: u64) -> Option<io::Result<(u64, u64)>> {
        let _moving = self.moving();
        let from = self.at.load(Ordering::Relaxed);
        if from >= end {
            return None;
        }
        // The next piece ends where pieces end, so that the pages of one come in one folio.
        let to = end.min((from / PIECE as u64 + 1) * PIECE as u64);
        if let Err(error) = file.write_all_at(&ZEROS[..(to - from) as usize], from) {
            return Some(Err(error));
        }
        self.at.store(to, Ordering::Release);
        Some(Ok((from, to)))
    }

    fn moving(&self) -> MutexGuard<'_, ()> {
        self.moving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_never_come_upon_a_writer() {
        let file = tempfile::tempfile().unwrap();
        let (front, len) = (Front::new(), 8 * PIECE as u64);
        file.set_len(len).unwrap();
        let write = |at: u64| front.write(at + 16, || file.write_all_at(&[7; 16], at).unwrap());
        // Before zeros are asked for nothing is in their way.
        write(0);
        let _ = front.begin(16);
        std::thread::scope(|scope| {
            scope.spawn(|| while front.zero_some(&file, len).transpose().unwrap().is_some() {});
            for at in (16..len).step_by(16) {
                write(at);
            }
        });
        let mut bytes = vec![0; len as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 7), "zeros fell on what was written");
    }

    #[test]
    fn an_older_beginning_moves_nothing_back() {
        let file = tempfile::tempfile().unwrap();
        let front = Front::new();
        assert!(front.zero_some(&file, 4096).is_none(), "zeros that nobody asked for");
        assert!(front.begin(100));
        front.write(300, || ());
        assert!(!front.begin(200));
        assert_eq!(front.zero_some(&file, 400).unwrap().unwrap(), (300, 400));
        assert!(front.zero_some(&file, 400).is_none());
    }
}
