//! Messages that waited in a topic of the system, on their way to another one: delayed and half messages.

use std::sync::Arc;

use super::service::{QueueCache, QueueHandles};
use super::shared::Shared;
use crate::broker::admin::statistics::TopicCounters;
use crate::broker::delay::DueError;
use crate::proto::message::{encode_record, parse, BodyCrc, NewRecord, Parsed, RecordView};
use crate::proto::PhysicalOffset;
use crate::store::{AppendBatch, GroupId, StoreError, TagsCode};

/// Why a message does not go anywhere.
#[derive(Debug)]
pub enum Unmoved {
    /// Not now.
    Now(StoreError),
    /// Never.
    Ever(DueError),
}

/// Reads the record at `position` into `bytes`. A damaged body must not be copied under a checksum that fits.
pub fn read<'a>(shared: &Shared, position: PhysicalOffset, bytes: &'a mut Vec<u8>) -> Result<RecordView<'a>, Unmoved> {
    bytes.clear();
    shared.store.record_at(position, bytes).map_err(|error| match error {
        StoreError::NoRecord { .. } => Unmoved::Ever(DueError::Gone),
        error => Unmoved::Now(error),
    })?;
    match parse(bytes, BodyCrc::Verify) {
        Ok(Parsed::Record(record)) => Ok(record),
        _ => Err(Unmoved::Ever(DueError::Damaged)),
    }
}

/// Adds the record that a message becomes to a batch, as part of the unit `group`. It comes from this broker.
pub fn push(
    shared: &Shared,
    queues: &mut QueueCache,
    batch: &mut AppendBatch,
    group: GroupId,
    record: &NewRecord<'_>,
    tags_code: i64,
) -> Result<Arc<TopicCounters>, Unmoved> {
    let QueueHandles { queue, counters } =
        queues.get(shared, record.topic, record.queue_id as u32).map_err(Unmoved::Now)?;
    let start = batch.bytes.len();
    let record = NewRecord { store_host: shared.advertised, ..*record };
    encode_record(&mut batch.bytes, &record).map_err(|_| Unmoved::Ever(DueError::NoCopy))?;
    batch.push_to_group(start, queue, TagsCode::Fixed(tags_code), group);
    Ok(counters)
}
