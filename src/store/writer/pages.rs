//! Pages made present ahead of the writer.
//!
//! The first touch of a page of the log costs more than all that is copied into it, and under SYNC_FLUSH the first sync
//! of a page has the file system write down that its space is in use. So a job runs ahead of the writer and has both
//! done. It changes no byte: the writer may overtake it at any time and only finds the pages slow.

use std::sync::Arc;

use crate::env::BoxFuture;
use crate::store::options::FlushMode;
use crate::store::segment::Segment;
use crate::store::LogWriter;

/// How far ahead pages are made present under SYNC_FLUSH. They are dirty, so the next sync writes them: a little at a
/// time, for the sends that wait for it.
const SYNC_WINDOW: u64 = 2 << 20;

/// How far the job has come.
#[derive(Default)]
pub(super) struct PagesAhead {
    /// Pages below this position of the log were asked for.
    asked: u64,
    under_way: bool,
}

impl PagesAhead {
    /// What was asked for is present.
    pub(super) fn done(&mut self) {
        self.under_way = false;
    }
}

impl LogWriter {
    /// Less than half of the window before the writer is present.
    pub(super) fn wants_pages(&self) -> bool {
        let pages = &self.upkeep.pages;
        !pages.under_way && pages.asked < self.position + self.window() / 2 && self.segment_ahead().is_some()
    }

    /// Makes the rest of the window present.
    pub(super) fn prepare_pages(&mut self) -> Option<BoxFuture<'static, ()>> {
        if !self.wants_pages() {
            return None;
        }
        let segment = self.segment_ahead()?;
        let from = self.upkeep.pages.asked.max(self.position);
        let to = segment.end().min(self.position.saturating_add(self.window()));
        let mapping = segment.mapping();
        let pages =
            mapping.map(|mapping| mapping.prefault((from - segment.base()) as usize, (to - from) as usize)).ok();
        // Without a mapping there is nothing to prepare: it is not asked for again with every batch.
        self.upkeep.pages = PagesAhead { asked: to, under_way: pages.is_some() };
        pages
    }

    fn window(&self) -> u64 {
        let options = &self.store.options;
        match options.flush {
            FlushMode::Async => options.prefault_window,
            FlushMode::Sync => options.prefault_window.min(SYNC_WINDOW),
        }
    }

    /// The segment, written or made ahead, whose pages come next.
    fn segment_ahead(&self) -> Option<&Arc<Segment>> {
        let from = self.upkeep.pages.asked.max(self.position);
        let holds = |segment: &&Arc<Segment>| segment.base() <= from && from < segment.end() && segment.is_allocated();
        self.active.as_ref().filter(holds).or_else(|| self.upkeep.next().filter(holds))
    }
}
