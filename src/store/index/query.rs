//! Finding records by key.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::file::{newest_entry, walk_chain};
use super::keys::key_hash;
use super::layout::{IndexEntry, IndexHeader, TIME_RESOLUTION_MS};
use super::service::{FinishedFile, IndexError, IndexService};
use crate::env::{File, Millis, OpenMode};
use crate::proto::PhysicalOffset;

/// Most records one query returns (`maxMsgsNumBatch`).
pub const QUERY_RECORDS_MAX: usize = 64;

/// What to look for.
#[derive(Clone, Copy, Debug)]
pub struct KeyQuery<'a> {
    /// Topic of the records.
    pub topic: &'a str,
    /// One key, or the unique key.
    pub key: &'a str,
    /// How many records are wanted; no more than [`QUERY_RECORDS_MAX`] are returned.
    pub max: usize,
    /// Earliest store time.
    pub begin: Millis,
    /// Latest store time.
    pub end: Millis,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyAnswer {
    /// Starts of the newest records, in log order.
    pub offsets: Vec<PhysicalOffset>,
    /// Store time of the last record indexed, 0 in an empty index (`indexLastUpdateTimestamp`).
    pub last_update_timestamp: Millis,
    /// Start of the last record indexed (`indexLastUpdatePhyoffset`).
    pub last_update_offset: PhysicalOffset,
}

/// Store times that match a query.
///
/// Entries keep whole seconds, cut off, so a record may look up to a second older than it is; and clients take their
/// times from ids made by another clock in other units (IDX-3). So both ends are a second wider than asked, and the
/// lower one another second.
#[derive(Clone, Copy)]
struct Window {
    begin: Millis,
    end: Millis,
}

impl Window {
    fn new(query: &KeyQuery<'_>) -> Window {
        Window { begin: query.begin.plus(1 - 2 * TIME_RESOLUTION_MS), end: query.end.plus(TIME_RESOLUTION_MS) }
    }

    fn holds(&self, time: Millis) -> bool {
        self.begin <= time && time <= self.end
    }

    fn meets(&self, header: &IndexHeader) -> bool {
        header.begin_timestamp <= self.end && self.begin <= header.end_timestamp
    }
}

/// Takes candidates, newest first, until there are enough.
struct Search<'a> {
    hash: u32,
    window: Window,
    max: usize,
    found: Vec<PhysicalOffset>,
    accept: &'a mut dyn FnMut(PhysicalOffset) -> bool,
}

impl Search<'_> {
    fn offer(&mut self, number: u32, entry: &IndexEntry, header: &IndexHeader) -> ControlFlow<()> {
        if entry.key_hash == self.hash && self.window.holds(entry.time(number, header)) {
            self.offer_offset(entry.phy_offset);
        }
        self.done()
    }

    fn offer_offset(&mut self, phy_offset: i64) {
        let Ok(offset) = u64::try_from(phy_offset).map(PhysicalOffset) else { return };
        if self.found.len() < self.max && !self.found.contains(&offset) && (self.accept)(offset) {
            self.found.push(offset);
        }
    }

    fn done(&self) -> ControlFlow<()> {
        if self.found.len() < self.max {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }
}

/// What of the current file is needed to search it without holding the lock.
struct CurrentPart {
    header: IndexHeader,
    /// Matches that are not in the file yet, newest first.
    waiting: Vec<i64>,
    file: Arc<dyn File>,
    newest_written: u32,
}

impl IndexService {
    /// Finds the newest records of a topic that have a key. `accept` is asked for each candidate, newest first, and
    /// has to read the record there and check it with [`super::IndexRecord::answers`].
    pub fn query(
        &self,
        query: &KeyQuery<'_>,
        accept: &mut dyn FnMut(PhysicalOffset) -> bool,
    ) -> Result<KeyAnswer, IndexError> {
        let mut search = Search {
            hash: key_hash(query.topic, query.key),
            window: Window::new(query),
            max: query.max.min(QUERY_RECORDS_MAX),
            found: Vec::new(),
            accept,
        };
        let failed = |error| self.failed("read", error);
        let (current, finished) = self.parts_to_search(&search).map_err(failed)?;
        let newest = current.as_ref().map(|part| part.header).or_else(|| finished.last().map(|file| file.header));
        let go_on = match &current {
            Some(part) => self.search_current(part, &mut search).map_err(failed)?,
            None => true,
        };
        if go_on {
            self.search_finished(&finished, &mut search).map_err(failed)?;
        }
        search.found.sort_unstable();
        Ok(KeyAnswer {
            offsets: search.found,
            last_update_timestamp: newest.map_or(Millis(0), |header| header.end_timestamp),
            last_update_offset: newest.map_or(PhysicalOffset(0), |header| header.end_phy_offset),
        })
    }

    fn parts_to_search(&self, search: &Search<'_>) -> io::Result<(Option<CurrentPart>, Vec<Arc<FinishedFile>>)> {
        let state = self.lock();
        let Some(current) = &state.current else { return Ok((None, state.finished.clone())) };
        let header = *current.file.header();
        let mut waiting = Vec::new();
        current.file.visit_waiting(search.hash, |number, entry| {
            if search.window.holds(entry.time(number, &header)) {
                waiting.push(entry.phy_offset);
            }
        });
        let newest_written = current.file.newest_written(search.hash)?;
        let part = CurrentPart { header, waiting, file: current.file.file().clone(), newest_written };
        Ok((Some(part), state.finished.clone()))
    }

    /// True if older files may hold matches.
    fn search_current(&self, part: &CurrentPart, search: &mut Search<'_>) -> io::Result<bool> {
        part.waiting.iter().for_each(|offset| search.offer_offset(*offset));
        if search.done().is_continue() && search.window.meets(&part.header) {
            walk_chain(&*part.file, self.options.geometry, part.newest_written, |number, entry| {
                search.offer(number, entry, &part.header)
            })?;
        }
        Ok(part.header.begin_timestamp >= search.window.begin)
    }

    fn search_finished(&self, files: &[Arc<FinishedFile>], search: &mut Search<'_>) -> io::Result<()> {
        for FinishedFile { name, header } in files.iter().rev().map(|file| &**file) {
            if search.done().is_break() {
                break;
            }
            if search.window.meets(header) {
                let file = match self.disk.open(&self.options.directory.join(name), OpenMode::Read) {
                    Ok(file) => file,
                    // It expired a moment ago, and so did those before it.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                    Err(error) => return Err(error),
                };
                let newest = newest_entry(&*file, self.options.geometry, header, search.hash)?;
                walk_chain(&*file, self.options.geometry, newest, |number, entry| search.offer(number, entry, header))?;
            }
            if header.begin_timestamp < search.window.begin {
                break;
            }
        }
        Ok(())
    }
}
