//! A producer takes back a message that is still waiting for its time.

use std::borrow::Cow;

use super::{Call, Refused};
use crate::actors::broker::errors::{refusal, store_failure};
use crate::actors::broker::send::tags_code;
use crate::broker::send::EntryCode;
use crate::broker::timer::record::{recall_text, RECALL_BODY, RECALL_TAG, TIMER_QUEUE};
use crate::broker::timer::DueSecond;
use crate::broker::BrokerError;
use crate::env::Millis;
use crate::proto::message::{encode_record, hash, system, NewRecord, RecallHandle};
use crate::proto::remoting::requests::RecallMessage;
use crate::proto::remoting::Response;
use crate::store::AppendBatch;

/// Request 370. What takes the message back is stored in the timer topic and waits for the same second. The answer is
/// success only if it is there before that second begins: then the message does not come.
pub async fn recall(call: &Call) -> Result<Response, Refused> {
    let settings = call.shared.settings();
    let region = |response: Response| response.with("MSG_REGION", settings.send.region.clone());
    match try_recall(call).await {
        Ok(unique_key) => Ok(region(Response::success().with("msgId", unique_key))),
        Err(Error::Field(refused)) => Err(refused),
        Err(Error::Broker(error)) => Err(Refused(region(refusal(&error)))),
    }
}

enum Error {
    Field(Refused),
    Broker(BrokerError),
}

impl From<BrokerError> for Error {
    fn from(error: BrokerError) -> Error {
        Error::Broker(error)
    }
}

async fn try_recall(call: &Call) -> Result<String, Error> {
    let shared = &call.shared;
    let settings = shared.settings();
    let ext = call.ext().map_err(Error::Field)?;
    let header = RecallMessage::decode(&ext).map_err(|error| Error::Field(error.into()))?;
    if !settings.config.recall_message_enable {
        return Err(BrokerError::RecallDisabled.into());
    }
    if shared.role.is_slave() {
        return Err(BrokerError::RecallOnSlave.into());
    }
    let wall = shared.wall();
    let accept_from = settings.send.accept_from;
    if wall < accept_from {
        return Err(BrokerError::RecallTooEarly { until_ms: accept_from.0 }.into());
    }
    let topic = &*header.topic;
    if shared.topic_directory.get(topic).is_none() {
        return Err(BrokerError::RecallTopicNotExist { topic: topic.to_owned() }.into());
    }
    let illegal = |what: &'static str| BrokerError::RecallIllegal { what };
    let handle = RecallHandle::decode(&header.recall_handle).ok_or_else(|| illegal("recall handle is invalid"))?;
    if handle.topic != topic {
        return Err(illegal("recall failed, topic not match").into());
    }
    if handle.broker != settings.config.broker_name {
        return Err(illegal("recall failed, broker service not match").into());
    }
    let left = handle.deliver_at.0.saturating_sub(wall.0);
    let due = DueSecond::at(handle.deliver_at);
    if left <= 0 || left >= settings.send.timer.delay_ms_max || shared.timer.has_begun(due) {
        return Err(illegal("recall failed, timestamp invalid").into());
    }
    shared.admit_recall(due)?;
    shared.append_one(marker(call, &header, &handle, due, wall)?).await?;
    if shared.timer.has_begun(due) {
        return Err(illegal("recall failed, its time has come").into());
    }
    Ok(handle.unique_key)
}

/// The record that takes the message of `handle` back, as RocketMQ 5.3.2 writes it.
fn marker(
    call: &Call,
    header: &RecallMessage<'_>,
    handle: &RecallHandle,
    due: DueSecond,
    wall: Millis,
) -> Result<AppendBatch, BrokerError> {
    let shared = &call.shared;
    let queue =
        shared.store.queue_or_create(system::TIMER_TOPIC, TIMER_QUEUE).map_err(|error| store_failure(&error))?;
    let group = header.producer_group.as_ref().map(Cow::as_ref).unwrap_or_default();
    let record = NewRecord {
        topic: system::TIMER_TOPIC,
        queue_id: TIMER_QUEUE as i32,
        flag: 0,
        sys_flag: 0,
        born_timestamp: wall,
        born_host: call.peer,
        store_host: shared.advertised,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: RECALL_BODY,
        properties: &recall_text(handle, group, due, wall),
        edits: &[],
    };
    let mut batch = AppendBatch::default();
    encode_record(&mut batch.bytes, &record).map_err(|_| shared.settings().send.illegal())?;
    batch.push(0, queue, tags_code(EntryCode::Tag(hash::tags_code(RECALL_TAG))));
    Ok(batch)
}
