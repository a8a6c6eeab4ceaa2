//! A filter at work in a queue.

use crate::proto::filter::Filter;
use crate::store::{EntryForFilter, MessageFilter};

/// The messages a filter chooses: by their entries where that is enough, else by their records.
#[derive(Debug)]
pub struct Chosen<'a>(pub &'a Filter);

impl MessageFilter for Chosen<'_> {
    fn matches_entry(&mut self, entry: &EntryForFilter) -> bool {
        self.0.matches_code(entry.tags_code)
    }

    fn matches_record(&mut self, record: &[u8]) -> bool {
        self.0.matches_record(record)
    }
}
