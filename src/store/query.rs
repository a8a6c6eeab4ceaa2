//! Finding messages by key.

use super::dispatcher::with_index_record;
use super::error::StoreError;
use super::handle::Store;
use super::index::KeyQuery;
use crate::env::Millis;
use crate::proto::message::parse;
use crate::proto::message::record::{BodyCrc, Parsed};
use crate::proto::PhysicalOffset;

/// What [`Store::query_by_key`] found, besides the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryAnswer {
    /// Records appended to the output.
    pub records: usize,
    /// Store time of the last record indexed; 0 in an empty index (`indexLastUpdateTimestamp`).
    pub last_update_timestamp: Millis,
    /// Start of the last record indexed (`indexLastUpdatePhyoffset`).
    pub last_update_offset: PhysicalOffset,
}

impl Store {
    /// Appends to `out` the newest records of a topic that have a key, or this unique key, oldest first. Each record
    /// has been compared with topic and key: a hash alone finds nothing (IDX-1). None is above the confirmed position.
    pub fn query_by_key(&self, query: &KeyQuery<'_>, out: &mut Vec<u8>) -> Result<QueryAnswer, StoreError> {
        let Some(index) = &self.index else { return Ok(QueryAnswer::default()) };
        let mut record = Vec::new();
        let mut failed = None;
        let found = index.query(query, &mut |at| {
            record.clear();
            match self.record_at(at, &mut record) {
                Ok(()) => answers(&record, at, query),
                Err(StoreError::NoRecord { .. }) => false,
                Err(error) => {
                    failed = Some(error);
                    false
                }
            }
        });
        let found = found.map_err(StoreError::index)?;
        let mut answer = QueryAnswer {
            records: 0,
            last_update_timestamp: found.last_update_timestamp,
            last_update_offset: found.last_update_offset,
        };
        for at in found.offsets {
            // It may have expired a moment ago.
            if self.record_at(at, out).is_ok() {
                answer.records += 1;
            }
        }
        match failed {
            Some(error) if answer.records == 0 => Err(error),
            _ => Ok(answer),
        }
    }
}

fn answers(bytes: &[u8], at: PhysicalOffset, query: &KeyQuery<'_>) -> bool {
    match parse(bytes, BodyCrc::Trust) {
        Ok(Parsed::Record(record)) => with_index_record(&record, at, |record| record.answers(query.topic, query.key)),
        _ => false,
    }
}
