//! Mapped files.

use std::fs::File;
use std::io;
use std::sync::Arc;

use memmap2::{MmapOptions, MmapRaw};

use super::front::Front;
use crate::env::{BoxFuture, Mapping};

/// Pages are 4 KiB on every machine we run on; a larger page only makes the walk touch each one more than once.
const PAGE: usize = 4096;

/// A shared, writable mapping of the first bytes of a file.
pub(super) struct SharedMapping {
    raw: Arc<MmapRaw>,
    file: Arc<File>,
    front: Arc<Front>,
}

impl SharedMapping {
    pub(super) fn new(file: &Arc<File>, front: &Arc<Front>, len: u64) -> io::Result<Self> {
        let len = usize::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let raw = Arc::new(MmapOptions::new().len(len).map_raw(&**file)?);
        Ok(SharedMapping { raw, file: Arc::clone(file), front: Arc::clone(front) })
    }

    /// Address of `at`, after checking that `len` bytes from it are mapped.
    fn range(&self, at: usize, len: usize) -> *mut u8 {
        let end = at.checked_add(len).expect("a range within the mapping");
        assert!(end <= self.raw.len(), "{at}+{len} is beyond the mapping's {} bytes", self.raw.len());
        self.raw.as_mut_ptr().wrapping_add(at)
    }
}

impl Mapping for SharedMapping {
    fn len(&self) -> usize {
        self.raw.len()
    }

    fn read(&self, at: usize, into: &mut [u8]) {
        let from = self.range(at, into.len());
        // SAFETY: the source range is mapped (checked above) and lives as long as `self`; `into` is ours alone, so the
        // ranges do not overlap. Another thread may write elsewhere in the mapping; by the trait's contract not here.
        unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) }
    }

    fn append_to(&self, at: usize, len: usize, out: &mut Vec<u8>) {
        let from = self.range(at, len);
        out.reserve(len);
        // SAFETY: as in `read`; the destination is the reserved, unused capacity of `out`, which the copy fills before
        // the length says so.
        unsafe {
            std::ptr::copy_nonoverlapping(from, out.as_mut_ptr().add(out.len()), len);
            out.set_len(out.len() + len);
        }
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        let to = self.range(at, bytes.len());
        // SAFETY: the destination range is mapped writable (checked above); `bytes` is a shared slice outside of the
        // mapping. No other thread accesses this range before the writer publishes it (the trait's contract).
        let copy = || unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        self.front.write((at + bytes.len()) as u64, copy);
    }

    fn prefault(&self, at: usize, len: usize) -> BoxFuture<'static, ()> {
        self.range(at, len);
        let (raw, file, front) = (Arc::clone(&self.raw), Arc::clone(&self.file), Arc::clone(&self.front));
        if front.begin(at as u64) {
            expect_no_reads(&raw, at);
        }
        Box::pin(async move {
            let zero = move || {
                // A failure only means that the pages fault in later.
                while let Some(Ok((from, to))) = front.zero_some(&file, (at + len) as u64) {
                    populate(&raw, from as usize, to as usize);
                }
            };
            let _ = tokio::task::spawn_blocking(zero).await;
        })
    }

    fn release(&self, at: usize, len: usize) -> BoxFuture<'static, ()> {
        self.range(at, len);
        let raw = Arc::clone(&self.raw);
        Box::pin(async move {
            let _ = tokio::task::spawn_blocking(move || unmap(&raw, at, len)).await;
        })
    }
}

/// Takes the whole pages of a range out of the process's page table. The mapping is shared, so what was written is the
/// page cache's by then and nothing is lost; who reads them here again finds them there.
fn unmap(raw: &MmapRaw, at: usize, len: usize) {
    let (first, end) = (at.next_multiple_of(PAGE), (at + len) / PAGE * PAGE);
    if first < end {
        // SAFETY: the range is mapped (checked by the caller) for as long as `raw` lives, and of a shared mapping this
        // advice drops no byte. A failure only means that the next sync is slower.
        let _ = unsafe { libc::madvise(raw.as_mut_ptr().add(first).cast(), end - first, libc::MADV_DONTNEED) };
    }
}

/// Has the kernel read nothing ahead from `at` on: what is written there is in memory as long as it is read here. A touch
/// of a page that is missing would read ahead as much as the device is set to, and hold up its thread for as long: 18 ms
/// where that is 8 MiB.
fn expect_no_reads(raw: &MmapRaw, at: usize) {
    let first = at.next_multiple_of(PAGE).min(raw.len());
    // SAFETY: the range is mapped for as long as `raw` lives, and this advice changes no byte. A failure is only slow.
    let _ = unsafe { libc::madvise(raw.as_mut_ptr().add(first).cast(), raw.len() - first, libc::MADV_RANDOM) };
}

/// Maps pages of the file that are in memory for writing, by a system call where the kernel has one for it (5.14); else
/// the writer faults once for each.
fn populate(raw: &MmapRaw, from: usize, to: usize) {
    const MADV_POPULATE_WRITE: libc::c_int = 23;
    let first = from / PAGE * PAGE;
    // SAFETY: the range is mapped (checked by the caller) for as long as `raw` lives, and this advice changes no byte.
    let _ = unsafe { libc::madvise(raw.as_mut_ptr().add(first).cast(), to - first, MADV_POPULATE_WRITE) };
}
