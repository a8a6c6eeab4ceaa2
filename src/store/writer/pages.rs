//! How bytes reach the file, and pages made present ahead of the writer.
//!
//! A `pwrite` of many bytes makes their pages in large folios and fills them at once, for 0.6 ns a byte; but one of a small
//! record costs a microsecond and more. Copying into a mapped page costs a fifth of that, if the page is there: its first
//! touch is dearer than all that is copied into it. So while writes are small a job runs ahead of the writer and makes
//! pages, by writing zeros where zeros are; who overtakes it writes by `pwrite`.
//!
//! Under SYNC_FLUSH everything goes by `pwrite`, for each sync would make the mapped page in work read-only again. There
//! the job has another use: the first sync of a page has the file system write down that its space is in use, and it does
//! so for the zeros ahead, too.

use std::sync::Arc;

use crate::env::BoxFuture;
use crate::store::error::StoreError;
use crate::store::options::FlushMode;
use crate::store::segment::Segment;
use crate::store::LogWriter;

/// Up to so many bytes are a small write.
const SMALL: usize = 32 << 10;

/// How far the job has come.
#[derive(Default)]
pub(super) struct PagesAhead {
    /// Pages below this position of the log were asked for.
    asked: u64,
    /// Pages between the writer and this position are there.
    present: u64,
    under_way: bool,
    /// The last write was a small one.
    small: bool,
}

impl PagesAhead {
    /// What was asked for is present.
    pub(super) fn done(&mut self) {
        self.under_way = false;
        self.present = self.asked;
    }
}

impl LogWriter {
    /// Writes where the log ends, into the active segment, which has the room. On an error the store is poisoned.
    pub(super) fn put(&mut self, action: &'static str, bytes: &[u8]) -> Result<(), StoreError> {
        let segment = self.active.as_ref().expect("a segment with the room");
        let (at, end) = (self.position - segment.base(), self.position + bytes.len() as u64);
        let pages = &mut self.upkeep.pages;
        pages.small = bytes.len() <= SMALL;
        let mapped = pages.small && end <= pages.present && self.store.options.flush == FlushMode::Async;
        let written = match segment.mapping().ok().filter(|_| mapped) {
            Some(mapping) => {
                mapping.write(at as usize, bytes);
                Ok(())
            }
            None => segment.file().write_at(at, bytes),
        };
        if let Err(error) = written {
            // A part may have been written: no zeros over it.
            self.upkeep.pages.asked = u64::MAX;
            return Err(self.poison(action, error));
        }
        self.position = end;
        Ok(())
    }

    /// Less than half of the window before the writer is present.
    pub(super) fn wants_pages(&self) -> bool {
        let (pages, options) = (&self.upkeep.pages, &self.store.options);
        (pages.small || options.flush == FlushMode::Sync)
            && !pages.under_way
            && pages.asked < self.position + options.prefault_window / 2
            && self.segment_ahead().is_some()
    }

    /// Makes the rest of the window present.
    pub(super) fn prepare_pages(&mut self) -> Option<BoxFuture<'static, ()>> {
        if !self.wants_pages() {
            return None;
        }
        let segment = self.segment_ahead()?;
        let from = self.upkeep.pages.asked.max(self.position);
        let to = segment.end().min(self.position.saturating_add(self.store.options.prefault_window));
        let mapping = segment.mapping();
        let job = mapping.map(|mapping| mapping.prefault((from - segment.base()) as usize, (to - from) as usize)).ok();
        let pages = &mut self.upkeep.pages;
        // Without a mapping there is nothing to prepare: it is not asked for again with every batch.
        (pages.asked, pages.under_way) = (to, job.is_some());
        job
    }

    /// The segment, written or made ahead, whose pages come next.
    fn segment_ahead(&self) -> Option<&Arc<Segment>> {
        let from = self.upkeep.pages.asked.max(self.position);
        let holds = |segment: &&Arc<Segment>| segment.base() <= from && from < segment.end() && segment.is_allocated();
        self.active.as_ref().filter(holds).or_else(|| self.upkeep.next().filter(holds))
    }
}
