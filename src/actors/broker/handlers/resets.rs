//! Offsets of whole groups, moved by tools.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;

use super::{Call, Refused};
use crate::actors::broker::errors::store_failure;
use crate::actors::broker::shared::{Settings, Shared};
use crate::actors::net::ConnectionHandle;
use crate::broker::offsets::{reset_target, ResetRequest};
use crate::broker::topics::TopicView;
use crate::broker::{BrokerError, Effect};
use crate::env::Millis;
use crate::proto::body::{
    from_slice, to_vec, GetConsumerStatusBody, MessageQueue, ResetOffsetBody, ResetOffsetBodyForC,
};
use crate::proto::remoting::requests::{GetConsumerStatus, ResetConsumerClientOffset, ResetOffset};
use crate::proto::remoting::{request, response, Command, Language, Response};
use crate::store::Boundary;

/// How long a member may take to tell its offsets.
const STATUS_LIMIT: Duration = Duration::from_secs(5);

/// 222
pub async fn reset(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = ResetOffset::decode(&ext)?;
    let shared = &call.shared;
    let settings = shared.settings();
    if shared.role.is_slave() {
        return Err(BrokerError::ResetOnSlave.into());
    }
    let topic = shared
        .topic_directory
        .get(&header.topic)
        .ok_or_else(|| BrokerError::ResetTopicNotExist { topic: header.topic.clone().into_owned() })?;
    if shared.group_directory.get(&header.group).is_none() {
        return Err(BrokerError::ResetGroupNotExist { group: header.group.into_owned() }.into());
    }
    if header.queue_id >= 0 && !topic.has_queue(header.queue_id) {
        let (topic, queue_id, queues) = (header.topic.into_owned(), header.queue_id, topic.queues());
        return Err(BrokerError::QueueId { topic, queue_id, queues }.into());
    }
    let targets = match settings.config.use_server_side_reset_offset {
        true => reset_here(shared, &header, &topic).await?,
        false => reset_by_members(shared, &settings, &header, &topic)?,
    };
    Ok(Response::success().with_body(to_vec(&body(&settings, &topic, &targets))))
}

/// Moves the group in the broker's own table, where the next pulls meet it. All queues are moved or none is.
async fn reset_here(
    shared: &Shared,
    header: &ResetOffset<'_>,
    topic: &TopicView,
) -> Result<BTreeMap<i32, i64>, Refused> {
    let mut targets = BTreeMap::new();
    for queue_id in queues(header, topic.read_queues()) {
        targets.insert(queue_id, target(shared, header, topic, queue_id)?);
    }
    let mut effects = Vec::new();
    for (queue_id, target) in &targets {
        shared.offsets().reset(&header.group, (topic.name(), *queue_id), *target, &mut effects);
    }
    effects.push(Effect::PersistOffsets);
    shared.wake_for_reset(topic.name(), targets.keys().copied());
    shared.carry_out_now(effects).await?;
    Ok(targets)
}

/// Tells the members to move, as brokers before 5.2 do. Without force no queue moves forward.
fn reset_by_members(
    shared: &Shared,
    settings: &Settings,
    header: &ResetOffset<'_>,
    topic: &TopicView,
) -> Result<BTreeMap<i32, i64>, BrokerError> {
    let (group, name) = (&*header.group, &**topic.name());
    let mut targets = BTreeMap::new();
    for queue_id in queues(header, topic.write_queues()) {
        let committed = shared.offsets().committed_offset(group, name, queue_id);
        let committed = committed.ok_or_else(|| BrokerError::ResetGroupWithoutOffsets { group: group.to_owned() })?;
        let target = target(shared, header, topic, queue_id)?;
        targets.insert(queue_id, if header.is_force { target } else { target.min(committed) });
    }
    let members = members(shared, group, None);
    if members.is_empty() {
        let (group, topic) = (group.to_owned(), name.to_owned());
        return Err(BrokerError::ResetNotOnline { group, topic, timestamp: header.timestamp });
    }
    let body = body(settings, topic, &targets);
    let command =
        Command::request(request::RESET_CONSUMER_CLIENT_OFFSET).oneway().with_ext(&ResetConsumerClientOffset {
            topic: name.into(),
            group: group.into(),
            timestamp: header.timestamp,
            // The C++ client takes only numbers for true; the offsets in the body say it all.
            is_force: false,
            queue_id: -1,
        });
    for member in members {
        let body = match member.language {
            Language::Cpp => to_vec(&ResetOffsetBodyForC::from(&body)),
            _ => to_vec(&body),
        };
        if let Err(error) = member.handle.send_one_way(command.clone().with_body(body)) {
            tracing::warn!(group, client = &*member.client, %error, "a member was not told to reset its offsets");
        }
    }
    Ok(targets)
}

fn queues(header: &ResetOffset<'_>, count: i32) -> std::ops::Range<i32> {
    match header.queue_id {
        ..0 => 0..count,
        asked => asked..asked.saturating_add(1),
    }
}

/// Where a queue is reset to.
fn target(shared: &Shared, header: &ResetOffset<'_>, topic: &TopicView, queue_id: i32) -> Result<i64, BrokerError> {
    let Some(queue) = shared.store.queue(topic.name(), queue_id as u32) else {
        return reset_target(asked(header, 0), 0, 0);
    };
    let found = match header.timestamp {
        ..0 => 0,
        time => {
            let found = shared.store.offset_by_time(&queue, Millis(time), Boundary::Lower);
            found.map_err(|error| store_failure(&error))?.0 as i64
        }
    };
    reset_target(asked(header, found), queue.min().0 as i64, queue.max().0 as i64)
}

fn asked(header: &ResetOffset<'_>, found: i64) -> ResetRequest {
    match (header.offset, header.timestamp) {
        (Some(offset), _) if offset != -1 => ResetRequest::Offset(offset),
        (_, ..0) => ResetRequest::Latest,
        _ => ResetRequest::AtTime { found },
    }
}

fn body(settings: &Settings, topic: &TopicView, targets: &BTreeMap<i32, i64>) -> ResetOffsetBody {
    let queue = |queue_id: i32| MessageQueue {
        broker_name: settings.config.broker_name.clone(),
        queue_id,
        topic: topic.name().to_string(),
    };
    ResetOffsetBody { offset_table: targets.iter().map(|(queue_id, offset)| (queue(*queue_id), *offset)).collect() }
}

struct Member {
    client: Arc<str>,
    language: Language,
    handle: ConnectionHandle,
}

/// The members of a group that can be reached, or the one of that client id.
fn members(shared: &Shared, group: &str, client: Option<&str>) -> Vec<Member> {
    let clients = shared.clients();
    let Some(info) = clients.consumers.info(group) else { return Vec::new() };
    let connections = shared.connections();
    let wanted = info.members.iter().filter(|member| client.is_none_or(|client| *member.client == *client));
    wanted
        .filter_map(|member| {
            let handle = connections.get(&member.connection.id)?.clone();
            Some(Member { client: Arc::clone(&member.client), language: member.connection.language, handle })
        })
        .collect()
}

/// 223: asks the members where they are (221) and puts their answers together. One that does not answer is left out.
pub async fn consumer_status(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = GetConsumerStatus::decode(&ext)?;
    let shared = &call.shared;
    let members = members(shared, &header.group, header.client_addr.as_deref());
    if members.is_empty() {
        return Err(BrokerError::ConsumerNotOnline { group: header.group.into_owned() }.into());
    }
    let command = Command::request(request::GET_CONSUMER_STATUS_FROM_CLIENT)
        .with_ext(&GetConsumerStatus { client_addr: None, ..header });
    let asked = members.iter().map(|member| member.handle.call(&*shared.env.clock, command.clone(), STATUS_LIMIT));
    let mut status = GetConsumerStatusBody::default();
    for (member, answer) in members.iter().zip(join_all(asked).await) {
        match answer {
            Ok(answer) if answer.code == response::SUCCESS => match from_slice::<GetConsumerStatusBody>(&answer.body) {
                Ok(told) => drop(status.consumer_table.insert(member.client.to_string(), told.message_queue_table)),
                Err(error) => tracing::warn!(client = &*member.client, %error, "a member's offsets cannot be read"),
            },
            Ok(answer) => tracing::warn!(client = &*member.client, answer.code, "a member does not tell its offsets"),
            Err(error) => tracing::warn!(client = &*member.client, %error, "a member does not tell its offsets"),
        }
    }
    Ok(Response::success().with_body(to_vec(&status)))
}
