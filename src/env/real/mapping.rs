//! Mapped files.

use std::sync::Arc;

use memmap2::{MmapOptions, MmapRaw};

use crate::env::{BoxFuture, Mapping};

/// Pages are 4 KiB on every machine we run on; a larger page only makes the walk touch each one more than once.
const PAGE: usize = 4096;
/// Bytes made present with one system call. It holds the process's memory map meanwhile, and whoever allocates or
/// frees a large block waits for that: with 16 MiB at once, sends stood still for tens of milliseconds.
const PIECE: usize = 256 * 1024;

/// A shared, writable mapping of the first bytes of a file.
pub(super) struct SharedMapping {
    raw: Arc<MmapRaw>,
}

impl SharedMapping {
    pub(super) fn new(file: &std::fs::File, len: u64) -> std::io::Result<Self> {
        let len = usize::try_from(len).map_err(|_| std::io::Error::from(std::io::ErrorKind::InvalidInput))?;
        Ok(SharedMapping { raw: Arc::new(MmapOptions::new().len(len).map_raw(file)?) })
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
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
    }

    fn prefault(&self, at: usize, len: usize) -> BoxFuture<'static, ()> {
        self.range(at, len);
        let raw = Arc::clone(&self.raw);
        Box::pin(async move {
            // A failure only means that the pages fault in later.
            let _ = tokio::task::spawn_blocking(move || populate(&raw, at, len)).await;
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

/// Makes the pages present and writable, by system calls where the kernel has one for it (5.14), else by touching them.
fn populate(raw: &MmapRaw, at: usize, len: usize) {
    const MADV_POPULATE_WRITE: libc::c_int = 23;
    let end = at + len;
    let mut first = at / PAGE * PAGE;
    while first < end {
        let piece = PIECE.min(end - first);
        // SAFETY: the range is mapped (checked by the caller) for as long as `raw` lives, and this advice changes no
        // byte.
        let done = unsafe { libc::madvise(raw.as_mut_ptr().add(first).cast(), piece, MADV_POPULATE_WRITE) };
        if done != 0 {
            return touch(raw, first, end);
        }
        first += piece;
    }
}

/// Touches each page of a range.
fn touch(raw: &MmapRaw, first: usize, end: usize) {
    for page in (first..end).step_by(PAGE) {
        // SAFETY: the byte is mapped and writable. Adding zero atomically changes nothing, whatever the log writer
        // stores into the same page at this moment.
        unsafe {
            let byte = raw.as_mut_ptr().add(page).cast::<std::sync::atomic::AtomicU8>();
            (*byte).fetch_add(0, std::sync::atomic::Ordering::Relaxed);
        }
    }
}
