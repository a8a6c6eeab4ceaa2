//! The commit log as readers see it: a row of segments and three positions.
//!
//! INV-LOG-1: min ≤ confirmed ≤ end and flushed ≤ end. Bytes below `end` never change, unless a damaged record is mended.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::segment::Segment;

/// The log. One writer appends; readers never wait for it.
pub(crate) struct CommitLog {
    /// Positions closer to the end than this are read through the mapping.
    memory_window: AtomicU64,
    segments: RwLock<Arc<Segments>>,
    end: AtomicU64,
    flushed: AtomicU64,
    confirmed: AtomicU64,
}

/// Segments without a gap, oldest first. Replaced as a whole when one comes or goes.
#[derive(Clone, Default)]
pub(crate) struct Segments {
    list: VecDeque<Arc<Segment>>,
}

impl CommitLog {
    /// A log that ends at `end`, all of it flushed.
    pub(crate) fn new(memory_window: u64, segments: Segments, end: u64) -> CommitLog {
        CommitLog {
            memory_window: AtomicU64::new(memory_window),
            segments: RwLock::new(Arc::new(segments)),
            end: AtomicU64::new(end),
            flushed: AtomicU64::new(end),
            confirmed: AtomicU64::new(end),
        }
    }

    /// Where the oldest segment begins; the end if there is none.
    pub(crate) fn min(&self) -> u64 {
        self.segments().first().map_or_else(|| self.end(), |segment| segment.base())
    }

    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    pub(crate) fn flushed(&self) -> u64 {
        self.flushed.load(Ordering::Acquire)
    }

    pub(crate) fn confirmed(&self) -> u64 {
        self.confirmed.load(Ordering::Acquire)
    }

    /// The writer has appended up to here.
    pub(crate) fn publish_end(&self, end: u64) {
        self.end.store(end, Ordering::Release);
    }

    /// A sync has covered everything up to here.
    pub(crate) fn publish_flushed(&self, flushed: u64) {
        assert!(flushed <= self.end(), "flushed passed the end");
        self.flushed.fetch_max(flushed, Ordering::AcqRel);
    }

    /// Readers may see everything up to here.
    pub(crate) fn publish_confirmed(&self, confirmed: u64) {
        assert!(confirmed <= self.end(), "confirmed passed the end");
        self.confirmed.fetch_max(confirmed, Ordering::AcqRel);
    }

    /// Before anybody reads: less is confirmed than recovery found.
    pub(crate) fn lower_confirmed(&self, confirmed: u64) {
        assert!(confirmed <= self.end(), "confirmed passed the end");
        self.confirmed.store(confirmed, Ordering::Release);
    }

    /// The writer takes back what lies above `end`. Nothing confirmed does.
    pub(crate) fn lower_end(&self, end: u64) {
        assert!(self.confirmed() <= end, "what is confirmed is never taken back");
        self.flushed.fetch_min(end, Ordering::AcqRel);
        self.end.store(end, Ordering::Release);
    }

    pub(crate) fn segments(&self) -> Arc<Segments> {
        Arc::clone(&self.segments.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the row of segments by what `change` makes of it.
    pub(crate) fn change_segments(&self, change: impl FnOnce(&mut Segments)) {
        let mut current = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut current));
    }

    /// Positions closer to the end than this are read through the mapping from now on.
    pub(crate) fn set_memory_window(&self, bytes: u64) {
        self.memory_window.store(bytes, Ordering::Relaxed);
    }

    /// Whether the bytes at `at` are near enough to the end to be in memory.
    pub(crate) fn is_recent(&self, at: u64) -> bool {
        self.end().saturating_sub(at) <= self.memory_window.load(Ordering::Relaxed)
    }

    /// Appends `len` bytes from position `at` on to `out`. `false` if they are not there: expired, above the confirmed
    /// position, or not within one segment.
    pub(crate) fn read(&self, segments: &Segments, at: u64, len: usize, out: &mut Vec<u8>) -> io::Result<bool> {
        self.read_below(self.confirmed(), segments, at, len, out)
    }

    /// [`CommitLog::read`] with another limit than the confirmed position.
    pub(crate) fn read_below(
        &self,
        limit: u64,
        segments: &Segments,
        at: u64,
        len: usize,
        out: &mut Vec<u8>,
    ) -> io::Result<bool> {
        let Some(segment) = segments.find(at) else { return Ok(false) };
        let Some(end) = at.checked_add(len as u64) else { return Ok(false) };
        if end > segment.end() || end > limit {
            return Ok(false);
        }
        if self.is_recent(at) {
            if let Ok(mapping) = segment.mapping() {
                mapping.append_to((at - segment.base()) as usize, len, out);
                return Ok(true);
            }
        }
        // A bad sector is an error here and would be the end of the process in a mapping.
        let start = out.len();
        out.resize(start + len, 0);
        let read = segment.read_file(at, &mut out[start..]);
        if read.is_err() {
            out.truncate(start);
        }
        read.map(|()| true)
    }
}

impl Segments {
    pub(crate) fn first(&self) -> Option<&Arc<Segment>> {
        self.list.front()
    }

    pub(crate) fn last(&self) -> Option<&Arc<Segment>> {
        self.list.back()
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Segment>> {
        self.list.iter()
    }

    /// The segment that holds the byte at `at`.
    pub(crate) fn find(&self, at: u64) -> Option<&Arc<Segment>> {
        let first = self.list.front()?;
        let size = first.end() - first.base();
        let index = at.checked_sub(first.base())? / size;
        self.list.get(usize::try_from(index).ok()?)
    }

    /// Adds a segment that begins where the last one ends.
    pub(crate) fn push(&mut self, segment: Arc<Segment>) {
        if let Some(last) = self.list.back() {
            assert_eq!(last.end(), segment.base(), "a segment begins where the one before ends");
        }
        self.list.push_back(segment);
    }

    pub(crate) fn pop_first(&mut self) -> Option<Arc<Segment>> {
        self.list.pop_front()
    }

    pub(crate) fn pop_last(&mut self) -> Option<Arc<Segment>> {
        self.list.pop_back()
    }
}
