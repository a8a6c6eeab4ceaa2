//! Sends that go their own way: the topic or group has to be made and saved first.

use std::net::SocketAddr;
use std::sync::Arc;

use super::answers::write_answers;
use super::batch::SendBatch;
use super::Incoming;
use crate::actors::broker::errors::send_refusal;
use crate::actors::broker::service::{QueueCache, ReplyTo};
use crate::actors::broker::shared::{Settings, Shared};
use crate::actors::net::Answer;
use crate::broker::flow::{Permit, SessionFlow};
use crate::broker::send::RetryFacts;
use crate::broker::topics::FirstSend;
use crate::broker::BrokerError;
use crate::proto::message::names;
use crate::proto::remoting::requests::SendHeader;
use crate::proto::remoting::Command;

/// A send whose topic is not there, or that goes to a retry topic.
pub(super) async fn send_to_new_topic(
    shared: Arc<Shared>,
    peer: SocketAddr,
    flow: SessionFlow,
    command: Command,
    reply: ReplyTo,
) -> Option<Answer> {
    let settings = shared.settings();
    let mut sends = SendBatch::default();
    let permit = match prepare(&shared, &settings, peer, &flow, &command, &mut sends, reply).await {
        Ok(permit) => permit,
        Err(error) => return reply.answer(send_refusal(&settings.send, &error)),
    };
    let appended = shared.writer.append(std::mem::take(&mut sends.records), true).await.ok();
    Some(Box::new(move |out: &mut Vec<u8>| {
        let answers = (&sends.answers[..], &sends.unique_keys[..]);
        write_answers(out, &shared, &settings, appended.as_ref(), answers, &mut String::new());
        drop(permit);
    }) as Answer)
}

async fn prepare(
    shared: &Shared,
    settings: &Settings,
    peer: SocketAddr,
    flow: &SessionFlow,
    command: &Command,
    sends: &mut SendBatch,
    reply: ReplyTo,
) -> Result<Permit, BrokerError> {
    let malformed = |what: String| BrokerError::StoreFailed { what };
    let ext = command.ext_fields().map_err(|error| malformed(error.to_string()))?;
    let header = SendHeader::decode(command.code, &ext).map_err(|error| malformed(error.to_string()))?;
    let properties = header.properties.str();
    let incoming =
        Incoming { header, properties: &properties, body: &command.body, client_version: command.version, peer };
    let permit = flow.acquire(incoming.body.len() + incoming.properties.len())?;
    let request = incoming.request();

    let mut effects = Vec::new();
    let group = names::group_of_retry_topic(request.topic)
        .map(|name| (name, shared.groups().find_or_create(name, shared.wall(), &mut effects)));
    let first_send = FirstSend {
        topic: request.topic,
        default_topic: &incoming.header.default_topic,
        default_topic_queue_nums: incoming.header.default_topic_queue_nums,
        // Of a unit-mode producer: bit 0 marks a unit topic, bit 1 a retry topic of a unit's group.
        sys_flag: match (incoming.header.unit_mode, group.is_some()) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => 2,
        },
    };
    let topic = match &group {
        // A group that may not be made is the plan's refusal; no topic is left behind for it.
        Some((name, None)) => return Err(BrokerError::SendGroupNotExist { group: (*name).to_owned() }),
        _ => shared.topics().create_on_send(first_send, shared.wall(), &mut effects)?,
    };
    let retry = group.as_ref().map(|(name, view)| RetryFacts {
        group: view.as_deref(),
        holds_any_lock: shared.locks().holds_any(name, shared.now()),
    });
    let mut queues = QueueCache::default();
    sends.add(shared, settings, &mut queues, &incoming, &topic, retry, reply)?;
    ensure_dead_letter_topic(shared, sends, &mut effects)?;
    shared.carry_out_now(effects).await.map_err(|what| BrokerError::StoreFailed { what })?;
    Ok(permit)
}

/// A message that goes to the dead letters needs their topic in the routes.
fn ensure_dead_letter_topic(
    shared: &Shared,
    sends: &SendBatch,
    effects: &mut Vec<crate::broker::Effect>,
) -> Result<(), BrokerError> {
    for item in &sends.records.items {
        let topic = item.queue.topic();
        if names::is_dlq_topic(topic) {
            shared.topics().ensure(topic, 1, false, 0, shared.wall(), effects)?;
        }
    }
    Ok(())
}
