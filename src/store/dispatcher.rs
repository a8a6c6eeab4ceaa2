//! The log-derived dispatcher: follows the confirmed log and builds what derives from it slowly, the index.
//!
//! Consume-queue entries need no dispatcher while the store runs (the writer makes them), so nothing a consumer waits
//! for depends on its speed. It works in steps of bounded length, for an actor to drive between other work.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use super::error::StoreError;
use super::handle::Store;
use super::index::{Fed, IndexRecord, Progress};
use crate::env::{BoxFuture, Millis};
use crate::proto::message::parse;
use crate::proto::message::record::{BodyCrc, Parsed, RecordError, RecordView};
use crate::proto::PhysicalOffset;

/// Bytes of log read at once.
const CHUNK: usize = 256 << 10;
/// Records of the log writer's that are dispatched in one step.
const FED_AT_ONCE: usize = 512;

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatched {
    /// There is more to do at once.
    More,
    /// Everything confirmed is dispatched; entries may still wait to be written, for up to a second.
    CaughtUp,
}

/// Builds the index. There is exactly one per store.
pub struct Dispatcher {
    store: Arc<Store>,
    /// Records that begin below have been dispatched.
    position: u64,
    buffer: Vec<u8>,
    /// Room for what the log writer told of.
    fed: Vec<Fed>,
}

impl Dispatcher {
    pub(crate) fn new(store: Arc<Store>, position: u64) -> Dispatcher {
        store.dispatched.store(position, Ordering::Release);
        Dispatcher { store, position, buffer: Vec::new(), fed: Vec::new() }
    }

    /// Records that begin below this have been dispatched.
    pub fn position(&self) -> PhysicalOffset {
        PhysicalOffset(self.position)
    }

    /// Bytes of confirmed log that are still to be dispatched.
    pub fn behind(&self) -> u64 {
        self.store.log.confirmed().saturating_sub(self.position)
    }

    /// Does the next step: some 256 KiB of log, or a piece of what waits to be written. After an error the same step
    /// is tried again next time; wait a little.
    pub fn dispatch_some(&mut self, now: Millis) -> Result<Dispatched, StoreError> {
        let store = Arc::clone(&self.store);
        let Some(index) = &store.index else {
            self.advance(store.log.confirmed());
            return Ok(Dispatched::CaughtUp);
        };
        if index.write_is_due(now) && index.write_step().map_err(StoreError::index)? != Progress::Done {
            return Ok(Dispatched::More);
        }
        self.skip_expired();
        if self.behind() == 0 {
            // An idle store needs no buffer.
            (self.buffer, self.fed) = (Vec::new(), Vec::new());
            return Ok(Dispatched::CaughtUp);
        }
        if self.dispatch_fed(now)? {
            return Ok(self.progress());
        }
        self.read_chunk()?;
        let buffer = std::mem::take(&mut self.buffer);
        let dispatched = self.dispatch_records(&buffer, now);
        self.buffer = buffer;
        dispatched?;
        Ok(self.progress())
    }

    fn progress(&self) -> Dispatched {
        if self.behind() == 0 {
            Dispatched::CaughtUp
        } else {
            Dispatched::More
        }
    }

    /// Dispatches records that the log writer told of; `false` if it told of none that follow here.
    fn dispatch_fed(&mut self, now: Millis) -> Result<bool, StoreError> {
        let store = Arc::clone(&self.store);
        let Some(index) = &store.index else { return Ok(false) };
        let mut fed = std::mem::take(&mut self.fed);
        index.feed.take(self.position, store.log.confirmed(), FED_AT_ONCE, &mut fed);
        let found = !fed.is_empty();
        // After an error the rest is read from the log.
        let put = fed.drain(..).try_for_each(|record| {
            index.put_fed(&record, now)?;
            self.advance(record.end);
            Ok(())
        });
        self.fed = fed;
        put.map_err(StoreError::index)?;
        Ok(found)
    }

    /// Syncs index files that have been finished, for the checkpoint to say so; run it beside the dispatcher, after
    /// every step or every few seconds.
    pub fn sync_finished(&self) -> Option<BoxFuture<'static, Result<(), StoreError>>> {
        self.store.index.as_ref()?;
        let store = Arc::clone(&self.store);
        Some(Box::pin(async move {
            let Some(index) = &store.index else { return Ok(()) };
            if let Some(synced) = index.sync_finished().await.map_err(StoreError::index)? {
                store.index_synced.fetch_max(synced.0, Ordering::AcqRel);
            }
            Ok(())
        }))
    }

    /// Dispatches everything confirmed. Called before [`super::LogWriter::close`] it spares the next start that work.
    pub fn drain(&mut self, now: Millis) -> Result<(), StoreError> {
        while self.dispatch_some(now)? == Dispatched::More {}
        Ok(())
    }

    /// STO-11: what has expired is not there any more to be dispatched.
    fn skip_expired(&mut self) {
        let min = self.store.log.min();
        if self.position < min {
            tracing::info!(
                from = self.position,
                to = min,
                "dispatch goes on at the log's start: segments have expired"
            );
            self.advance(min);
        }
    }

    /// Reads confirmed log from the position on, within one segment: a chunk, or a record that is larger.
    fn read_chunk(&mut self) -> Result<(), StoreError> {
        let log = &self.store.log;
        let segments = log.segments();
        let limit = segments.find(self.position).map_or(self.position, |segment| segment.end()).min(log.confirmed());
        let read = |len: usize, into: &mut Vec<u8>| {
            into.clear();
            let len = len.min((limit - self.position) as usize);
            log.read(&segments, self.position, len, into).map_err(StoreError::io("read the commit log"))
        };
        read(4, &mut self.buffer)?;
        let size = self.buffer.first_chunk().map_or(0, |size| u32::from_be_bytes(*size));
        read(CHUNK.max(size as usize), &mut self.buffer).map(drop)
    }

    /// Gives every whole record of `bytes` to the index.
    fn dispatch_records(&mut self, bytes: &[u8], now: Millis) -> Result<(), StoreError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match parse(rest, BodyCrc::Trust) {
                Ok(Parsed::Record(record)) => {
                    self.index(&record, now)?;
                    rest = &rest[record.bytes().len()..];
                    self.advance(self.position + record.bytes().len() as u64);
                }
                Ok(Parsed::Blank { size }) => {
                    self.advance(self.position + u64::from(size));
                    return Ok(());
                }
                // The rest of it comes with the next chunk.
                Err(RecordError::Truncated { .. } | RecordError::TooShort { .. }) if rest.len() < bytes.len() => {
                    return Ok(());
                }
                Err(error) => {
                    self.skip_damage(&error);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn index(&self, record: &RecordView<'_>, now: Millis) -> Result<(), StoreError> {
        let Some(index) = &self.store.index else { return Ok(()) };
        with_index_record(record, PhysicalOffset(self.position), |record| index.put(record, now))
            .map_err(StoreError::index)
    }

    /// Damage inside the log: recovery kept what follows, and so does the dispatcher, from the next segment on.
    fn skip_damage(&mut self, error: &RecordError) {
        let end = self.store.log.segments().find(self.position).map_or(self.position, |segment| segment.end());
        let to = end.min(self.store.log.confirmed());
        crate::sometimes!("the dispatcher left out damaged records");
        tracing::warn!(at = self.position, to, %error, "dispatch skips damaged log");
        self.advance(to);
    }

    fn advance(&mut self, position: u64) {
        self.position = position;
        self.store.dispatched.store(position, Ordering::Release);
    }
}

/// Shows a record to the index.
pub(crate) fn with_index_record<T>(
    record: &RecordView<'_>,
    at: PhysicalOffset,
    use_it: impl FnOnce(&IndexRecord<'_>) -> T,
) -> T {
    let (topic, text) = (record.topic(), record.properties());
    use_it(&IndexRecord { phy_offset: at, ..IndexRecord::of(record, &topic, &text) })
}
