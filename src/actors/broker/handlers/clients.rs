//! Heartbeats, group members and queue locks.

use super::{Call, Refused};
use crate::actors::broker::still_master::is_still_master;
use crate::broker::clients::{on_heartbeat, Connection, HeartbeatTables};
use crate::broker::pull::check_expression;
use crate::broker::{BrokerError, Effect, QueueKey};
use crate::proto::body::small::GetConsumerListByGroupResponseBody;
use crate::proto::body::{
    from_slice, to_vec, CheckClientRequestBody, HeartbeatData, LockBatchRequestBody, LockBatchResponseBody,
    MessageQueue,
};
use crate::proto::remoting::requests::{GetConsumerListByGroup, HeartbeatResponse, UnregisterClient};
use crate::proto::remoting::Response;

/// 34. The group and its retry topic are saved before the answer: the client goes on to ask for their route.
pub async fn heartbeat(call: &Call) -> Result<Response, Refused> {
    let data: HeartbeatData = from_slice(&call.command.body)?;
    let shared = &call.shared;
    let connection = Connection {
        id: call.connection.id(),
        peer: call.peer,
        language: call.command.language,
        version: call.command.version,
    };
    let mut effects = Vec::new();
    let reply = {
        let settings = shared.settings();
        let (mut topics, mut groups, mut clients) = (shared.topics(), shared.groups(), shared.clients());
        // The connection may have closed while this request waited its turn: then nobody would take it out again.
        if call.connection.is_closed() {
            return Ok(Response::success());
        }
        let mut tables = HeartbeatTables {
            topics: &mut topics,
            groups: &mut groups,
            clients: &mut clients,
            reject_pull_consumers: settings.config.reject_pull_consumer_enable,
        };
        on_heartbeat(&mut tables, connection, &data, (shared.now(), shared.wall()), &mut effects)
    };
    shared.carry_out_now(effects).await?;
    Ok(Response::success()
        .with_ext(&HeartbeatResponse { is_support_heart_beat_v2: Some(true), is_sub_change: Some(reply.sub_change) }))
}

/// 35
pub async fn unregister(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = UnregisterClient::decode(&ext)?;
    let (producer, consumer) = (header.producer_group.unwrap_or_default(), header.consumer_group.unwrap_or_default());
    let mut effects = Vec::new();
    let left = call.shared.clients().unregister(call.connection.id(), &producer, &consumer, &mut effects);
    if let Some(client) = left {
        call.shared.locks().on_unregistered(&consumer, &client);
    }
    call.shared.carry_out_now(effects).await?;
    Ok(Response::success())
}

/// 38
pub fn consumer_list(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = GetConsumerListByGroup::decode(&ext)?;
    let members = call.shared.clients().consumers.client_ids(&header.consumer_group);
    if members.is_empty() {
        return Err(BrokerError::NoConsumer { group: header.consumer_group.into_owned() }.into());
    }
    let list = GetConsumerListByGroupResponseBody {
        consumer_id_list: members.iter().map(|client| client.to_string()).collect(),
    };
    Ok(Response::success().with_body(to_vec(&list)))
}

/// 41. Only a master grants locks: elsewhere nobody holds anything.
pub async fn lock_batch(call: &Call) -> Result<Response, Refused> {
    let body: LockBatchRequestBody = from_slice(&call.command.body)?;
    let shared = &call.shared;
    if !shared.role.takes_writes() || !is_still_master(shared).await {
        return Ok(Response::success().with_body(to_vec(&LockBatchResponseBody::default())));
    }
    let held = shared.locks().lock_batch(
        &body.consumer_group,
        &body.client_id,
        call.connection.id(),
        queue_keys(&body),
        shared.now(),
    );
    let is_saved = shared.locks().is_saved(held.change);
    if !is_saved {
        shared.carry_out_now(vec![Effect::PersistLocks]).await?;
    }
    let broker_name = &shared.settings().config.broker_name;
    let held = held.queues.into_iter().map(|queue| MessageQueue {
        broker_name: broker_name.clone(),
        queue_id: queue.queue_id,
        topic: queue.topic.to_string(),
    });
    Ok(Response::success().with_body(to_vec(&LockBatchResponseBody { lock_ok_mq_set: held.collect() })))
}

/// 42
pub fn unlock_batch(call: &Call) -> Result<Response, Refused> {
    let body: LockBatchRequestBody = from_slice(&call.command.body)?;
    call.shared.locks().unlock_batch(&body.consumer_group, &body.client_id, &queue_keys(&body));
    Ok(Response::success())
}

fn queue_keys(body: &LockBatchRequestBody) -> Vec<QueueKey> {
    body.mq_set.iter().map(|queue| QueueKey::new(queue.topic.as_str(), queue.queue_id)).collect()
}

/// 46
pub fn check_config(call: &Call) -> Result<Response, Refused> {
    let body: CheckClientRequestBody = from_slice(&call.command.body)?;
    let subscription = &body.subscription_data;
    check_expression(&call.shared.settings().pull, &subscription.expression_type, &subscription.sub_string)?;
    Ok(Response::success())
}
