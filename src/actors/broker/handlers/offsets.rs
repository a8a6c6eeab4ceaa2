//! Offsets: what groups have consumed, what queues hold.

use super::{Call, Refused};
use crate::actors::broker::errors::store_failure;
use crate::broker::offsets::{Commit, QueueFacts, Who};
use crate::broker::{BrokerError, QueueKey};
use crate::env::Millis;
use crate::proto::remoting::requests::{
    BoundaryType, GetEarliestMsgStoretime, GetMaxOffset, GetMinOffset, OffsetResponse, QueryConsumerOffset,
    SearchOffsetByTimestamp, StoretimeResponse, UpdateConsumerOffset,
};
use crate::proto::remoting::Response;
use crate::proto::QueueOffset;
use crate::store::Boundary;

/// 14
pub fn query(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = QueryConsumerOffset::decode(&ext)?;
    let shared = &call.shared;
    let queue = shared.store.queue(&header.topic, header.queue_id as u32);
    let facts = QueueFacts {
        topic_exists: shared.topic_directory.get(&header.topic).is_some(),
        min: queue.as_ref().map_or(0, |queue| queue.min().0 as i64),
        max: queue.as_ref().map_or(0, |queue| queue.max().0 as i64),
        first_is_recent: queue.as_ref().is_some_and(|queue| shared.store.is_recent(queue, QueueOffset(0))),
    };
    let queue = (&*header.topic, header.queue_id);
    let found = shared.offsets().query(&header.consumer_group, queue, header.set_zero_if_not_found, facts);
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
    if shared.group_directory.get(group).is_none() {
        return Err(BrokerError::CommitGroupNotExist { group: group.to_owned() }.into());
    }
    if shared.topic_directory.get(topic).is_none() {
        return Err(BrokerError::CommitTopicNotExist { topic: topic.to_owned() }.into());
    }
    let (Some(queue_id), Some(offset)) = (header.queue_id, header.commit_offset) else {
        return Err(BrokerError::CommitOffsetMissing { topic: topic.to_owned() }.into());
    };
    let client = shared.clients().consumers.client_of(group, call.connection.id()).cloned();
    let holder = shared.locks().holder(group, &QueueKey::new(topic, queue_id), shared.now()).cloned();
    let by = client.as_ref().map_or(Who::Other, Who::Member);
    let mut effects = Vec::new();
    let commit =
        shared.offsets().commit(group, (topic, queue_id), offset, (by, holder.as_deref()), shared.now(), &mut effects);
    shared.carry_out(effects);
    let mut response = Response::success();
    if commit == Commit::Resetting {
        response.remark = Some("Offset has been previously reset".to_owned());
    }
    Ok(response)
}

/// 30
pub fn max(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = GetMaxOffset::decode(&ext)?;
    let queue = call.shared.store.queue(&header.topic, header.queue_id as u32);
    Ok(offset(queue.map_or(0, |queue| queue.max().0)))
}

/// 31
pub fn min(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = GetMinOffset::decode(&ext)?;
    let queue = call.shared.store.queue(&header.topic, header.queue_id as u32);
    Ok(offset(queue.map_or(0, |queue| queue.min().0)))
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
    let Some(queue) = store.queue(&header.topic, header.queue_id as u32) else { return Ok(offset(0)) };
    let found =
        store.offset_by_time(&queue, Millis(header.timestamp), boundary).map_err(|error| store_failure(&error))?;
    Ok(offset(found.0))
}

/// 32
pub fn earliest_store_time(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = GetEarliestMsgStoretime::decode(&ext)?;
    let store = &call.shared.store;
    let earliest = match store.queue(&header.topic, header.queue_id as u32) {
        Some(queue) => store.earliest_store_time(&queue).map_err(|error| store_failure(&error))?,
        None => None,
    };
    Ok(Response::success().with_ext(&StoretimeResponse { timestamp: earliest.map_or(-1, |time| time.0) }))
}

fn offset(offset: u64) -> Response {
    Response::success().with_ext(&OffsetResponse { offset: offset as i64 })
}
