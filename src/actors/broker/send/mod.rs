//! Sends: each is checked and encoded into its final record by the session; all sends of one read go to the log writer
//! in one message and are answered with one write.

mod answers;
mod batch;
mod new_topic;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Context;

use slab::Slab;

use super::errors::send_refusal;
use super::service::{BrokerConnection, ReplyTo};
use super::shared::{Settings, Shared};
use crate::actors::log_writer::{Appended, Inbox, Ticket};
use crate::actors::net::Output;
use crate::broker::send::{EntryCode, SendRequest};
use crate::broker::BrokerError;
use crate::proto::message::{names, properties};
use crate::proto::remoting::requests::SendHeader;
use crate::proto::remoting::{Command, Head, RawFrame, Response};
use crate::store::{FlushMode, TagsCode};
use answers::write_answers;
use batch::SendBatch;
use new_topic::send_to_new_topic;

/// The sends of one connection: those gathered from one read, and those on their way.
#[derive(Default)]
pub struct Sends {
    /// Those whose answers wait for what the flush mode promises.
    waiting: SendBatch,
    /// Those that do not want to wait for disk or slaves where others do (`WAIT` is `false`).
    hasty: SendBatch,
    settings: Option<Arc<Settings>>,
    /// With the log writer, by their tickets.
    on_their_way: Slab<(SendBatch, Arc<Settings>)>,
    inbox: Arc<Inbox>,
    /// Room for what the inbox holds.
    arrived: Vec<(Ticket, Option<Appended>)>,
    /// Room for the message ids of an answer.
    message_ids: String,
}

thread_local! {
    /// The properties of the send at hand, their JSON escapes undone.
    static UNESCAPED: RefCell<String> = const { RefCell::new(String::new()) };
}

impl Sends {
    /// Hands the gathered sends to the log writer.
    pub fn submit(&mut self, shared: &Shared, output: &mut Output) {
        let Some(settings) = self.settings.take() else { return };
        for (wait, gathered) in [(true, &mut self.waiting), (false, &mut self.hasty)] {
            if gathered.answers.is_empty() {
                continue;
            }
            let mut batch = std::mem::take(gathered);
            let (records, results) = (std::mem::take(&mut batch.records), std::mem::take(&mut batch.results));
            let ticket = self.on_their_way.insert((batch, Arc::clone(&settings)));
            shared.writer.append_for(&self.inbox, ticket, records, results, wait);
            output.outstanding += 1;
        }
    }

    /// Writes the answers that have arrived; `false` if there is none.
    pub fn answer(&mut self, shared: &Shared, cx: &mut Context<'_>, output: &mut Output) -> bool {
        self.inbox.take(cx, &mut self.arrived);
        let progress = !self.arrived.is_empty();
        for (ticket, appended) in self.arrived.drain(..) {
            let (mut batch, settings) = self.on_their_way.remove(ticket);
            output.outstanding -= 1;
            let answers = (&batch.answers[..], &batch.unique_keys[..]);
            let out = &mut output.bytes;
            write_answers(out, shared, &settings, appended.as_ref(), answers, &mut self.message_ids);
            if let Some(Appended { batch: records, results, .. }) = appended {
                (batch.records, batch.results) = (records, results);
                batch.retire();
            }
        }
        progress
    }
}

/// A send as it came.
struct Incoming<'a> {
    header: SendHeader<'a>,
    properties: &'a str,
    body: &'a [u8],
    client_version: i32,
    peer: SocketAddr,
}

impl Incoming<'_> {
    fn request(&self) -> SendRequest<'_> {
        SendRequest {
            topic: &self.header.topic,
            queue_id: self.header.queue_id,
            sys_flag: self.header.sys_flag,
            properties: self.properties,
            reconsume_times: self.header.reconsume_times,
            max_reconsume_times: self.header.max_reconsume_times,
            body: self.body,
            client_version: self.client_version,
            peer: self.peer,
        }
    }
}

/// Takes a send. It is answered when its batch is, or refused at once.
pub fn take(
    shared: &Arc<Shared>,
    connection: &mut BrokerConnection,
    head: &Head<'_>,
    frame: &RawFrame<'_>,
    reply: ReplyTo,
    output: &mut Output,
) {
    let header = match SendHeader::decode(head.code, &head.ext) {
        Ok(header) => header,
        Err(error) => return reply.write(&mut output.bytes, &Response::from(error)),
    };
    let settings = Arc::clone(connection.sends.settings.get_or_insert_with(|| shared.settings()));
    let taken = UNESCAPED.with_borrow_mut(|unescaped| {
        let properties = header.properties.str_in(unescaped);
        let (client_version, peer) = (head.version, connection.peer);
        let incoming = Incoming { header, properties, body: frame.body, client_version, peer };
        gather(shared, connection, &settings, &incoming, reply)
    });
    match taken {
        Ok(Taken::Yes) => {}
        Ok(Taken::NeedsTopic) => {
            // Rare: the topic or group has to be made and saved first, so the send goes its own way.
            let Ok(command) = Command::decode(frame) else { return };
            let (shared, peer, flow) = (Arc::clone(shared), connection.peer, connection.flow.clone());
            output.later(Box::pin(send_to_new_topic(shared, peer, flow, command, reply)));
        }
        Err(error) => reply.write(&mut output.bytes, &send_refusal(&settings.send, &error)),
    }
}

enum Taken {
    Yes,
    NeedsTopic,
}

fn gather(
    shared: &Shared,
    connection: &mut BrokerConnection,
    settings: &Settings,
    incoming: &Incoming<'_>,
    reply: ReplyTo,
) -> Result<Taken, BrokerError> {
    let request = incoming.request();
    settings.send.precheck(&request, || shared.wall())?;
    if names::is_retry_topic(request.topic) {
        return Ok(Taken::NeedsTopic);
    }
    let Some(topic) = connection.topics.get(&shared.topic_directory, request.topic) else {
        return Ok(Taken::NeedsTopic);
    };
    let waits = shared.store.flush_mode() == FlushMode::Sync || shared.ha.quorum().waits();
    // Whoever runs a local transaction believes that its half message is safe.
    let hasty = waits
        && properties::find(incoming.properties, properties::WAIT) == Some("false")
        && properties::find(incoming.properties, properties::TRANSACTION_PREPARED).is_none();
    let sends = if hasty { &mut connection.sends.hasty } else { &mut connection.sends.waiting };
    if sends.answers.capacity() == 0 {
        *sends = SendBatch::reused();
    }
    let bytes = incoming.body.len() + incoming.properties.len();
    match &mut sends.permit {
        Some(permit) => permit.grow(bytes)?,
        none => *none = Some(connection.flow.acquire(bytes)?),
    }
    let added = sends.add(shared, settings, &mut connection.queues, incoming, topic, None, reply);
    if let (Err(_), Some(permit)) = (&added, &mut sends.permit) {
        permit.shrink(bytes);
    }
    added.map(|()| Taken::Yes)
}

/// What the writer is told about the queue entry.
pub fn tags_code(entry_code: EntryCode) -> TagsCode {
    match entry_code {
        EntryCode::Tag(code) => TagsCode::Fixed(code),
        EntryCode::DeliverAfter(millis) => TagsCode::DeliverAfter(millis),
    }
}
