//! What a broker does with requests: sends and pulls at once, everything else by a handler.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Context;

use super::errors::refusal;
use super::handlers;
use super::pull::Puller;
use super::send::Sends;
use super::shared::Shared;
use crate::actors::net::{Answer, ConnectionHandle, Output, Service};
use crate::broker::admin::statistics::{GroupCounters, Statistics, TopicCounters};
use crate::broker::directory::Cache;
use crate::broker::flow::SessionFlow;
use crate::broker::groups::GroupView;
use crate::broker::pull::Expressions;
use crate::broker::topics::TopicView;
use crate::env::Canary;
use crate::proto::remoting::{encode_response, request, Command, Head, RawFrame, Response, Serialization};
use crate::store::{ConsumeQueue, StoreError};

/// Serves the connections of one broker.
pub struct BrokerService {
    shared: Arc<Shared>,
}

/// One connection and the handles it has looked up.
pub struct BrokerConnection {
    /// How to reach the peer.
    pub handle: ConnectionHandle,
    /// The peer's address.
    pub peer: SocketAddr,
    /// Topics it uses.
    pub topics: Cache<TopicView>,
    /// Groups it uses.
    pub groups: Cache<GroupView>,
    /// Queues it uses.
    pub queues: QueueCache,
    /// What is counted of the groups that pull over it.
    pub consumed: ConsumedCache,
    /// Filter expressions of its pulls.
    pub expressions: Expressions,
    /// Its budget of bytes of sends in flight.
    pub flow: SessionFlow,
    /// Its budget for other requests.
    pub other_flow: SessionFlow,
    /// Sends that are gathered or on their way.
    pub sends: Sends,
}

/// Queue handles of one connection, so that a send does not look its queue up in the store.
#[derive(Default)]
pub struct QueueCache {
    topics: HashMap<Arc<str>, TopicHandles>,
    /// The topic used last: most connections use one for long, and need not look it up each time.
    recent: Option<(Arc<str>, TopicHandles)>,
}

/// What a connection remembers of one topic.
struct TopicHandles {
    counters: Arc<TopicCounters>,
    /// Those that were used.
    queues: Vec<Arc<ConsumeQueue>>,
}

/// A queue and what is counted of its topic.
pub struct QueueHandles {
    /// The queue.
    pub queue: Arc<ConsumeQueue>,
    /// Its topic's counters.
    pub counters: Arc<TopicCounters>,
}

/// Topics whose queues one connection remembers; beyond, it begins anew.
const CACHED_TOPICS_MAX: usize = 1024;
/// Queues of a topic that one connection remembers; they are searched one after the other.
const CACHED_QUEUES_MAX: usize = 32;

impl QueueCache {
    /// The queue, made if it is not there.
    ///
    /// # Errors
    /// The store's, if it takes no more queues.
    pub fn get(&mut self, shared: &Shared, topic: &str, queue_id: u32) -> Result<QueueHandles, StoreError> {
        if self.recent.as_ref().is_none_or(|(recent, _)| **recent != *topic) {
            self.turn_to(shared, topic);
        }
        let Some((_, TopicHandles { counters, queues })) = &mut self.recent else { return Err(StoreError::Malformed) };
        let counters = Arc::clone(counters);
        if let Some(queue) = queues.iter().find(|queue| queue.id() == queue_id && !queue.is_deleted()) {
            return Ok(QueueHandles { queue: Arc::clone(queue), counters });
        }
        let queue = shared.store.queue_or_create(topic, queue_id)?;
        queues.retain(|queue| !queue.is_deleted());
        if queues.len() < CACHED_QUEUES_MAX {
            queues.push(Arc::clone(&queue));
        }
        Ok(QueueHandles { queue, counters })
    }

    /// Makes `topic` the one used last.
    fn turn_to(&mut self, shared: &Shared, topic: &str) {
        if let Some((topic, handles)) = self.recent.take() {
            if self.topics.len() >= CACHED_TOPICS_MAX {
                self.topics.clear();
            }
            self.topics.insert(topic, handles);
        }
        self.recent = Some(self.topics.remove_entry(topic).unwrap_or_else(|| {
            (topic.into(), TopicHandles { counters: shared.statistics.topic(topic), queues: Vec::new() })
        }));
    }
}

/// Counters of the groups that pull over one connection, by topic and group.
#[derive(Default)]
pub struct ConsumedCache {
    topics: HashMap<Arc<str>, HashMap<Arc<str>, Arc<GroupCounters>>>,
}

impl ConsumedCache {
    /// The counters of a group in a topic.
    pub fn get(&mut self, statistics: &Statistics, topic: &Arc<str>, group: &Arc<str>) -> Arc<GroupCounters> {
        if let Some(counters) = self.topics.get(topic).and_then(|groups| groups.get(group)) {
            return Arc::clone(counters);
        }
        if self.topics.len() >= CACHED_TOPICS_MAX {
            self.topics.clear();
        }
        let counters = statistics.group(topic, group);
        self.topics.entry(Arc::clone(topic)).or_default().insert(Arc::clone(group), Arc::clone(&counters));
        counters
    }
}

/// How a request is to be answered.
#[derive(Clone, Copy, Debug)]
pub struct ReplyTo {
    /// The request's number.
    pub opaque: i32,
    /// The request's coding.
    pub serialization: Serialization,
    /// Nobody waits for an answer.
    pub oneway: bool,
}

impl ReplyTo {
    /// Of a request.
    pub fn new(head: &Head<'_>, frame: &RawFrame<'_>) -> Self {
        ReplyTo { opaque: head.opaque, serialization: frame.serialization, oneway: head.is_oneway() }
    }

    /// Writes the answer.
    pub fn write(self, out: &mut Vec<u8>, response: &Response) {
        if !self.oneway {
            encode_response(out, self.serialization, self.opaque, response);
        }
    }

    /// The answer for later.
    pub fn answer(self, response: Response) -> Option<Answer> {
        (!self.oneway).then(|| Box::new(move |out: &mut Vec<u8>| self.write(out, &response)) as Answer)
    }
}

/// What a request under way costs besides its frame, about: its handler's state.
const REQUEST_BYTES: usize = 1024;

impl BrokerService {
    /// Serves with this state.
    pub fn new(shared: Arc<Shared>) -> Self {
        BrokerService { shared }
    }
}

impl Service for BrokerService {
    type Connection = BrokerConnection;

    fn connected(&self, handle: ConnectionHandle, peer: SocketAddr) -> Self::Connection {
        self.shared.connections().insert(handle.id(), handle.clone());
        let per_session = self.shared.settings().config.in_flight_bytes_per_session;
        BrokerConnection {
            handle,
            peer,
            topics: Cache::default(),
            groups: Cache::default(),
            queues: QueueCache::default(),
            consumed: ConsumedCache::default(),
            expressions: Expressions::default(),
            flow: SessionFlow::new(per_session, self.shared.flow.clone()),
            other_flow: SessionFlow::new(per_session, self.shared.other_flow.clone()),
            sends: Sends::default(),
        }
    }

    fn request(
        &self,
        connection: &mut Self::Connection,
        head: &Head<'_>,
        frame: &RawFrame<'_>,
        output: &mut Output,
    ) -> Result<(), String> {
        let reply = ReplyTo::new(head, frame);
        match head.code {
            request::SEND_MESSAGE | request::SEND_MESSAGE_V2 | request::SEND_BATCH_MESSAGE => {
                super::send::take(&self.shared, connection, head, frame, reply, output);
            }
            request::PULL_MESSAGE | request::LITE_PULL_MESSAGE => {
                Puller::take(&self.shared, connection, head, reply, output);
            }
            _ => {
                let permit = match connection.other_flow.acquire(frame.len + REQUEST_BYTES) {
                    Ok(permit) => permit,
                    Err(error) => {
                        reply.write(&mut output.bytes, &refusal(&error));
                        return Ok(());
                    }
                };
                let Ok(command) = Command::decode(frame) else { return Err("header cannot be read".to_owned()) };
                let call = handlers::Call {
                    shared: Arc::clone(&self.shared),
                    connection: connection.handle.clone(),
                    peer: connection.peer,
                    command,
                };
                output.later(Box::pin(async move {
                    let response = handlers::handle(call).await;
                    drop(permit);
                    reply.answer(response)
                }));
            }
        }
        Ok(())
    }

    fn submit(&self, connection: &mut Self::Connection, output: &mut Output) {
        connection.sends.submit(&self.shared, output);
    }

    fn answer(&self, connection: &mut Self::Connection, cx: &mut Context<'_>, output: &mut Output) -> bool {
        connection.sends.answer(&self.shared, cx, output)
    }

    fn disconnected(&self, connection: Self::Connection) {
        let id = connection.handle.id();
        let mut effects = Vec::new();
        self.shared.connections().remove(&id);
        if !self.shared.env.canary(Canary::DeadMemberStays) {
            self.shared.clients().on_connection_closed(id, &mut effects);
        }
        self.shared.locks().on_connection_closed(id);
        self.shared.carry_out(effects);
    }
}
