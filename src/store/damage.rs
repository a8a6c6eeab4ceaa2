//! Damaged records: what is not as it was written any more, and what becomes of it.
//!
//! A record is compared with its checksum when it comes from the device: before this process wrote, or so far back that
//! memory has lost it. Besides, [`Store::scrub`] reads the log bit by bit. What is damaged is never given to anybody. If
//! somebody mends ([`Store::on_damage`]), readers wait before such a record until it has been written again from another
//! broker's log, or until it is known that nobody has it: then they go on behind it.
//!
//! The checksum covers the body. Of the rest, size, position, topic, queue and number are compared with what the queue
//! says; damage to other fields (flags, times, hosts, properties) cannot be seen.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::consume_queue::ConsumeQueue;
use super::error::StoreError;
use super::handle::Store;
use super::recovery::Scanner;
use crate::env::{Canary, Millis};
use crate::proto::message::parse;
use crate::proto::message::record::{BodyCrc, Parsed};
use crate::proto::PhysicalOffset;

/// Damaged records that are known at once; further ones are passed over until some of these are mended.
const KNOWN_MAX: usize = 1_024;
/// What nobody had is asked for again after this long, in milliseconds.
const AGAIN_MS: u64 = 60_000;

/// What is known of damage.
#[derive(Default)]
pub(crate) struct Damage {
    records: Mutex<BTreeMap<u64, State>>,
    told: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Somebody may have it.
    Wanted,
    /// Nobody had it then.
    Lost(Millis),
}

impl Damage {
    fn records(&self) -> MutexGuard<'_, BTreeMap<u64, State>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store {
    /// From now on `told` hears when a damaged record is found: [`Store::damaged`] names them. Only the first call counts.
    pub fn on_damage(&self, told: impl Fn() + Send + Sync + 'static) {
        let _ = self.damage.told.set(Box::new(told));
    }

    /// Where damaged records begin that are wanted.
    pub fn damaged(&self) -> Vec<PhysicalOffset> {
        let records = self.damage.records();
        let wanted = records.iter().filter(|(_, state)| **state == State::Wanted);
        wanted.map(|(at, _)| PhysicalOffset(*at)).collect()
    }

    /// Nobody has the record at `at`: readers go on behind it.
    pub fn give_up_record(&self, at: PhysicalOffset) {
        let now = self.monotonic();
        if let Some(state) = self.damage.records().get_mut(&at.0) {
            *state = State::Lost(now);
        }
    }

    /// Writes the record at `at` again, as another broker has it. `false` if these bytes are not that record.
    ///
    /// # Errors
    /// If the disk refuses.
    pub async fn mend(&self, at: PhysicalOffset, bytes: &[u8]) -> Result<bool, StoreError> {
        let failed = StoreError::io("write a damaged record again");
        let segments = self.log.segments();
        let Some(segment) = segments.find(at.0).cloned() else { return Ok(false) };
        let end = at.0 + bytes.len() as u64;
        let is_record = matches!(parse(bytes, BodyCrc::Verify), Ok(Parsed::Record(record))
            if record.physical_offset() == at && record.bytes().len() == bytes.len());
        if !is_record || end > segment.end().min(self.log.end()) {
            return Ok(false);
        }
        // It reaches into no other record, or it is not the one that was here.
        if Scanner::new(&segments).next_record(at.0).map_err(failed)? < end {
            return Ok(false);
        }
        let failed = StoreError::io("write a damaged record again");
        segment.file().write_at(at.0 - segment.base(), bytes).map_err(failed)?;
        segment.file().sync().await.map_err(StoreError::io("sync a record that was written again"))?;
        self.damage.records().remove(&at.0);
        Ok(true)
    }

    /// Reads on in the log from `from`, about `most` bytes, and takes note of what is damaged. Returns where to go on, from
    /// the beginning again after the end.
    ///
    /// # Errors
    /// If the disk cannot read.
    pub fn scrub(&self, from: PhysicalOffset, most: u64) -> Result<PhysicalOffset, StoreError> {
        let failed = StoreError::io("read the commit log");
        let segments = self.log.segments();
        let (min, end) = (self.log.min(), self.log.flushed().min(self.log.confirmed()));
        let mut at = if from.0 < min || from.0 >= end { min } else { from.0 };
        let stop = end.min(at.saturating_add(most));
        let mut scanner = Scanner::new(&segments);
        while at < stop {
            at = match scanner.behind(at).and_then(|behind| match behind {
                Some(behind) => Ok(behind),
                None => {
                    self.note_damage(PhysicalOffset(at));
                    scanner.next_record(at)
                }
            }) {
                Ok(next) => next,
                Err(error) => return Err(failed(error)),
            };
        }
        Ok(PhysicalOffset(at))
    }

    /// Looks whether a whole record, or a filler, begins at `at`, where one must.
    pub fn look_at(&self, at: PhysicalOffset) {
        let segments = self.log.segments();
        if at.0 >= self.log.min() && at.0 < self.log.end() {
            if let Ok(None) = Scanner::new(&segments).behind(at.0) {
                self.note_damage(at);
            }
        }
    }

    /// The record at `at` is damaged; `true` if readers should wait for it.
    pub(crate) fn note_damage(&self, at: PhysicalOffset) -> bool {
        let Some(told) = self.damage.told.get().filter(|_| !self.env.canary(Canary::DamageSkipped)) else {
            return false;
        };
        let now = self.monotonic();
        let mut records = self.damage.records();
        let wants = match records.get(&at.0) {
            Some(State::Wanted) => return true,
            Some(State::Lost(since)) => now.since(*since) >= AGAIN_MS,
            None => records.len() < KNOWN_MAX,
        };
        if !wants {
            return false;
        }
        let was_lost = records.insert(at.0, State::Wanted).is_some();
        drop(records);
        told();
        // Who has waited once does not wait again.
        !was_lost
    }

    /// Whether a record there may come from the device, and is to be compared with its checksum.
    pub(crate) fn verifies(&self, at: PhysicalOffset) -> bool {
        at.0 < self.written_from || !self.log.is_recent(at.0)
    }

    fn monotonic(&self) -> Millis {
        Millis(self.env.clock.monotonic().as_millis() as i64)
    }
}

/// Whether these bytes are a whole record of `queue` with this number.
pub(crate) fn is_whole(bytes: &[u8], queue: &ConsumeQueue, number: u64) -> bool {
    match parse(bytes, BodyCrc::Verify) {
        Ok(Parsed::Record(record)) => {
            record.bytes().len() == bytes.len()
                && record.queue_offset().0 == number
                && record.queue_id() as u32 == queue.id()
                && record.topic_bytes() == queue.topic().as_bytes()
        }
        _ => false,
    }
}
