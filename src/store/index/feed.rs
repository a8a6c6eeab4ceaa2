//! Records on their way to the index, as the log writer saw them.
//!
//! Whoever encodes a message has its keys at hand; reading it back from the log to find them again costs as much as all
//! the rest of a batched send. The log stays what the index derives from: what does not fit the row, or came without
//! its keys' hashes, is read there.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::keys::KeyHashes;
use crate::env::Millis;

/// Records that may wait, 56 bytes each: what comes in at full speed until the dispatcher has its turn.
const WAITING_MAX: usize = 64 * 1024;

/// A record that is in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fed {
    /// Where it begins.
    pub(crate) at: u64,
    /// Where it ends.
    pub(crate) end: u64,
    pub(crate) stored: Millis,
    pub(crate) hashes: KeyHashes,
}

/// The row, in log order. One writer puts records in, one dispatcher takes them.
#[derive(Default)]
pub(crate) struct Feed {
    row: Mutex<VecDeque<Fed>>,
}

impl Feed {
    /// Adds records; those that find no room are left to be read from the log.
    pub(crate) fn put(&self, records: impl Iterator<Item = Fed>) {
        let mut row = self.lock();
        let room = WAITING_MAX.saturating_sub(row.len());
        row.extend(records.take(room));
    }

    /// Forgets records that end above `end`: the log was cut there.
    pub(crate) fn cut(&self, end: u64) {
        self.lock().retain(|fed| fed.end <= end);
    }

    /// Moves the records that follow each other from `from` on and end at or below `limit` to `out`, at most `max`.
    pub(crate) fn take(&self, from: u64, limit: u64, max: usize, out: &mut Vec<Fed>) {
        let mut row = self.lock();
        while row.front().is_some_and(|first| first.at < from) {
            row.pop_front();
        }
        let mut next = from;
        while out.len() < max {
            if !row.front().is_some_and(|first| first.at == next && first.end <= limit) {
                break;
            }
            let Some(fed) = row.pop_front() else { break };
            next = fed.end;
            out.push(fed);
        }
        if row.is_empty() {
            // An idle store needs no row.
            *row = VecDeque::new();
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Fed>> {
        self.row.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(at: u64, end: u64) -> Fed {
        Fed { at, end, stored: Millis(1), hashes: KeyHashes::new() }
    }

    fn taken(feed: &Feed, from: u64, limit: u64) -> Vec<u64> {
        let mut out = Vec::new();
        feed.take(from, limit, 10, &mut out);
        out.iter().map(|fed| fed.at).collect()
    }

    #[test]
    fn only_what_follows_without_a_gap_and_is_confirmed_is_taken() {
        let feed = Feed::default();
        feed.put([fed(0, 10), fed(10, 20), fed(30, 40), fed(40, 50)].into_iter());
        assert_eq!(taken(&feed, 0, 15), [0]);
        assert_eq!(taken(&feed, 10, 50), [10], "a gap ends it");
        assert_eq!(taken(&feed, 20, 50), [0; 0], "the log is read from 20 to 30");
        assert_eq!(taken(&feed, 40, 50), [40], "what was read from the log is passed over");
        assert_eq!(taken(&feed, 50, 50), [0; 0]);
    }

    #[test]
    fn a_full_row_takes_no_more() {
        let feed = Feed::default();
        feed.put((0..2 * WAITING_MAX as u64).map(|at| fed(at, at + 1)));
        let mut out = Vec::new();
        feed.take(0, u64::MAX, usize::MAX, &mut out);
        assert_eq!(out.len(), WAITING_MAX);
    }
}
