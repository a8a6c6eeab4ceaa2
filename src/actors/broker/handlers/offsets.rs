//! Offsets: what groups have consumed, what queues hold.

use std::sync::Arc;

use super::{Call, Refused};
use crate::actors::broker::errors::store_failure;
use crate::broker::offsets::{check_commit, Commit, QueueFacts, Who};
use crate::broker::{BrokerError, QueueKey};
use crate::env::Millis;
use crate::proto::remoting::requests::{
    BoundaryType, GetEarliestMsgStoretime, GetMaxOffset, GetMinOffset, OffsetResponse, QueryConsumerOffset,
    SearchOffsetByTimestamp, StoretimeResponse, UpdateConsumerOffset,
};
use crate::proto::remoting::Response;
use crate::proto::QueueOffset;
use crate::store::{Boundary, ConsumeQueue};

/// 14
pub fn query(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = QueryConsumerOffset::decode(&ext)?;
    let shared = &call.shared;
    let queue = queue(call, &header.topic, header.queue_id);
    let topic = shared.topic_directory.get(&header.topic);
    let facts = QueueFacts {
        topic_exists: topic.is_some_and(|topic| topic.has_queue(header.queue_id) || queue.is_some()),
        min: queue.as_ref().map_or(0, |queue| queue.min().0 as i64),
        max: queue.as_ref().map_or(0, |queue| queue.max().0 as i64),
        first_is_recent: queue.as_ref().is_some_and(|queue| shared.store.is_recent(queue, QueueOffset(0))),
    };
    let queue = (&*header.topic, header.queue_id);
    let offsets = shared.offsets();
    let committed = offsets.committed_offset(&header.consumer_group, queue.0, queue.1);
    if committed.is_none() && !offsets.knows_who_is_new() {
        // Whoever took this for "none" would begin at its start policy (OTH-6).
        return Err(BrokerError::NotSyncedYet.into());
    }
    let found = offsets.query(&header.consumer_group, queue, header.set_zero_if_not_found, facts);
    match (found, header.set_zero_if_not_found) {
        (Some(offset), _) => Ok(Response::success().with_ext(&OffsetResponse { offset })),
        (None, true) => Err(BrokerError::OffsetNotFound.into()),
        (None, false) => Err(BrokerError::OffsetNotFoundNotZero.into()),
    }
}

/// 15
pub fn update(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = UpdateConsumerOffset::decode(&ext)?;
    let shared = &call.shared;
    let (group, topic) = (&*header.consumer_group, &*header.topic);
    let view = shared.topic_directory.get(topic);
    let group_known = shared.group_directory.get(group).is_some();
    let (Some(queue_id), Some(offset)) = (header.queue_id, header.commit_offset) else {
        // What is unknown is said first: the queue and offset of any that is known do for asking.
        check_commit((group, group_known), (topic, view.as_deref()), (0, Some(0)), 0)?;
        return Err(BrokerError::CommitOffsetMissing { topic: topic.to_owned() }.into());
    };
    // A slave's queue may lag behind what its groups have consumed at the master.
    let end = |queue: Arc<ConsumeQueue>| if shared.role.is_slave() { i64::MAX } else { queue.max().0 as i64 };
    let max = match queue(call, topic, queue_id).map(end) {
        None if shared.role.is_slave() => Some(i64::MAX),
        known => known,
    };
    check_commit((group, group_known), (topic, view.as_deref()), (queue_id, max), offset)?;
    let (client, holder) = shared.committer(group, &QueueKey::new(topic, queue_id), call.connection.id());
    let by = client.as_ref().map_or(Who::Other, Who::Member);
    let mut effects = Vec::new();
    let commit =
        shared.offsets().commit(group, (topic, queue_id), offset, (by, holder.as_deref()), shared.now(), &mut effects);
    shared.carry_out(effects);
    let mut response = Response::success();
    match (commit, holder) {
        (Commit::Resetting, _) => response.remark = Some("Offset has been previously reset".to_owned()),
        (Commit::Locked, Some(holder)) => {
            let (topic, holder) = (topic.to_owned(), holder.to_string());
            return Err(BrokerError::CommitLocked { topic, queue_id, holder }.into());
        }
        _ => {}
    }
    Ok(response)
}

/// 30
pub fn max(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = GetMaxOffset::decode(&ext)?;
    Ok(offset(queue(call, &header.topic, header.queue_id).map_or(0, |queue| queue.max().0)))
}

/// 31
pub fn min(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = GetMinOffset::decode(&ext)?;
    Ok(offset(queue(call, &header.topic, header.queue_id).map_or(0, |queue| queue.min().0)))
}

/// 29
pub fn search(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = SearchOffsetByTimestamp::decode(&ext)?;
    let boundary = match header.boundary_type {
        BoundaryType::Lower => Boundary::Lower,
        BoundaryType::Upper => Boundary::Upper,
    };
    let store = &call.shared.store;
    let Some(queue) = queue(call, &header.topic, header.queue_id) else { return Ok(offset(0)) };
    let found =
        store.offset_by_time(&queue, Millis(header.timestamp), boundary).map_err(|error| store_failure(&error))?;
    Ok(offset(found.0))
}

/// 32
pub fn earliest_store_time(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = GetEarliestMsgStoretime::decode(&ext)?;
    let store = &call.shared.store;
    let earliest = match queue(call, &header.topic, header.queue_id) {
        Some(queue) => store.earliest_store_time(&queue).map_err(|error| store_failure(&error))?,
        None => None,
    };
    Ok(Response::success().with_ext(&StoretimeResponse { timestamp: earliest.map_or(-1, |time| time.0) }))
}

/// The queue, if anything was ever written to it.
fn queue(call: &Call, topic: &str, queue_id: i32) -> Option<Arc<ConsumeQueue>> {
    call.shared.store.queue(topic, u32::try_from(queue_id).ok()?)
}

fn offset(offset: u64) -> Response {
    Response::success().with_ext(&OffsetResponse { offset: offset as i64 })
}
