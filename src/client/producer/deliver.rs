//! Carries one packet to a broker: chooses, sends, and tries again as [`rules::retry`](crate::client::rules::retry) says.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::SemaphorePermit;

use super::packet::Packet;
use super::result::{Attempt, Durability, SendError, Sent};
use super::{Choices, Inner, Target};
use crate::actors::net::Request;
use crate::client::error::Error;
use crate::client::instance::refusal;
use crate::client::rules::choice::RoundRobin;
use crate::client::rules::retry::{certainly_not_stored, Attempts, Failure};
use crate::client::rules::route::{Route, TEMPLATE_TOPIC};
use crate::client::timing::{within, Deadline};
use crate::client::MessageQueue;
use crate::env::Canary;
use crate::proto::message::RecallHandle;
use crate::proto::remoting::requests::{RecallMessage, SendHeader, SendNames, SendResponse};
use crate::proto::remoting::{request, response, Command, Text};

/// The region of brokers that name none.
const DEFAULT_REGION: &str = "DefaultRegion";
/// How long to wait before a route that went away is asked for again.
const ROUTE_PAUSE: Duration = Duration::from_millis(100);
/// Topics whose turn a producer remembers.
const ROBINS_MAX: usize = 10_000;

/// Where an attempt has put a packet.
#[derive(Clone)]
struct Placed {
    offset_ids: String,
    queue_id: i32,
    offset: i64,
    durability: Durability,
    recall_handle: Option<String>,
    trace_region: Option<String>,
}

impl Inner {
    /// The route to send by, that of the template for a topic that does not exist yet.
    pub async fn route(&self, topic: &str) -> Result<Arc<Route>, Error> {
        self.client.route_to_send(topic, self.settings.default_queues).await
    }

    /// The route within what time there is. What will come back is waited for: a route that was there before and is not
    /// now, because the only broker restarts, and the master of one whose brokers have none, because a slave takes its place.
    pub async fn route_in_time(&self, topic: &str, deadline: Deadline) -> Result<Arc<Route>, Error> {
        let clock = &*self.client.env.clock;
        if let Some(route) = self.client.known_route(topic).filter(|route| !route.lacks_master()) {
            return Ok(route);
        }
        let mut was_there = self.choices().robins.contains_key(topic);
        let mut route = within(clock, deadline.left(clock), self.route(topic)).await;
        loop {
            let comes_back = match &route {
                Some(Ok(route)) => route.lacks_master() && !self.client.env.canary(Canary::StaleRouteKept),
                Some(Err(Error::NoRoute { .. } | Error::NoNameServer { .. })) => was_there,
                Some(Err(_)) | None => false,
            };
            if !comes_back || deadline.left(clock) <= ROUTE_PAUSE {
                return route.unwrap_or_else(|| Err(self.late_route()));
            }
            clock.sleep(ROUTE_PAUSE).await;
            was_there = true;
            route = match route {
                Some(Ok(_)) => within(clock, deadline.left(clock), self.client.fresh_route(topic)).await,
                _ => within(clock, deadline.left(clock), self.route(topic)).await,
            };
        }
    }

    /// Sends a packet before the deadline; one [`Sent`] for each message in it.
    pub async fn deliver(&self, packet: Packet, target: Target, deadline: Deadline) -> Result<Vec<Sent>, SendError> {
        let clock = &*self.client.env.clock;
        let _permits = self.permits(&packet, deadline).await?;
        let mut attempts = Attempts::new(self.settings.retries, deadline.at(), matches!(target, Target::Queue(_)));
        let mut failed: Vec<Attempt> = Vec::new();
        loop {
            let route = match self.route_in_time(&packet.topic, deadline).await {
                Ok(route) => route,
                Err(error) => return Err(SendError { error, attempts: failed }),
            };
            let (began, before) = (clock.monotonic(), failed.last().map(|attempt| &*attempt.broker));
            let chosen = self.choose(&route, &target, &packet.topic, before, began);
            let Some(queue) = chosen else {
                return Err(SendError { error: Error::NoRoute { topic: packet.topic }, attempts: failed });
            };
            let others = route.writable.iter().any(|other| other.broker_name != queue.broker_name);
            let Some(limit) = attempts.begin(began, others) else {
                let error = failed.last().map_or_else(|| self.late_route(), |attempt| attempt.error.clone());
                return Err(SendError { error, attempts: failed });
            };
            let error = match self.attempt(&packet, queue, limit).await {
                Ok(placed) => {
                    let now = clock.monotonic();
                    self.choices().latency.on_answer(&queue.broker_name, now.saturating_sub(began), now);
                    return Ok(results(packet, queue, placed, failed));
                }
                Err(error) => error,
            };
            let (now, failure) = (clock.monotonic(), failure_of(&error));
            if failure != Failure::Final {
                self.choices().latency.on_failure(&queue.broker_name, now);
            }
            self.look_again(&packet.topic, &error).await;
            tracing::debug!(topic = packet.topic, broker = queue.broker_name, %error, "an attempt to send failed");
            let took = now.saturating_sub(began);
            failed.push(Attempt { broker: queue.broker_name.clone(), took, error: error.clone() });
            match attempts.failed(failure, clock.monotonic(), others) {
                Some(pause) if pause.is_zero() => {}
                Some(pause) => clock.sleep(pause).await,
                None => return Err(SendError { error, attempts: failed }),
            }
        }
    }

    /// Sends a packet once and waits for nothing.
    pub async fn throw(&self, packet: &Packet) -> Result<(), SendError> {
        let route = self.route(&packet.topic).await?;
        let queue = self.choose(&route, &Target::Any, &packet.topic, None, self.client.env.clock.monotonic());
        let queue = queue.ok_or_else(|| Error::NoRoute { topic: packet.topic.clone() })?;
        let address = self.client.master(&queue.broker_name)?;
        let command = self.command(packet, queue).oneway();
        let request = Request::with_shared_body(command, Arc::clone(&packet.body));
        Ok(self.client.connections.send_one_way(&address, request, self.settings.timeout).await?)
    }

    fn choose<'q>(
        &self,
        route: &'q Route,
        target: &'q Target,
        topic: &str,
        failed: Option<&str>,
        now: Duration,
    ) -> Option<&'q MessageQueue> {
        if let Target::Queue(queue) = target {
            return Some(queue);
        }
        let mut choices = self.choices();
        let Choices { latency, robins } = &mut *choices;
        if let Some(robin) = robins.get_mut(topic) {
            return robin.pick(&route.writable, failed, latency, now);
        }
        if robins.len() >= ROBINS_MAX {
            robins.clear();
        }
        let mut robin = RoundRobin::starting_at(self.client.env.rng.next_u64() as u32);
        let picked = robin.pick(&route.writable, failed, latency, now);
        robins.insert(topic.to_owned(), robin);
        picked
    }

    async fn attempt(&self, packet: &Packet, queue: &MessageQueue, limit: Duration) -> Result<Placed, Error> {
        let address = self.client.master(&queue.broker_name)?;
        let (command, body) = (self.command(packet, queue), Arc::clone(&packet.body));
        let answer = self.client.connections.call_with_body(&address, command, Some(body), limit).await?;
        let Some(durability) = Durability::of_code(answer.code) else { return Err(refusal(&address, answer)) };
        let malformed = |what: String| Error::Malformed { address: address.clone(), what };
        let fields = answer.ext_fields().map_err(|error| malformed(error.to_string()))?;
        let fields = SendResponse::decode(&fields).map_err(|error| malformed(error.to_string()))?;
        Ok(Placed {
            offset_ids: fields.msg_id.into_owned(),
            queue_id: fields.queue_id,
            offset: fields.queue_offset,
            durability,
            recall_handle: fields.recall_handle.map(std::borrow::Cow::into_owned),
            trace_region: fields
                .trace_on
                .unwrap_or(false)
                .then(|| fields.region.unwrap_or(DEFAULT_REGION.into()).into_owned()),
        })
    }

    /// Takes back a message that waits, at the broker that holds it; its unique key.
    pub async fn recall(&self, topic: &str, handle: &str) -> Result<String, Error> {
        let invalid = || Error::Invalid(format!("`{handle}` is no handle of a message that waits"));
        let broker = RecallHandle::decode(handle).ok_or_else(invalid)?.broker;
        self.route(topic).await?;
        let address = self.client.master(&broker)?;
        let request = Command::request(request::RECALL_MESSAGE).with_ext(&RecallMessage {
            producer_group: Some(self.group.as_str().into()),
            topic: topic.into(),
            recall_handle: handle.into(),
        });
        let answer = self.client.connections.call(&address, request, self.settings.timeout).await?;
        if answer.code != response::SUCCESS {
            return Err(refusal(&address, answer));
        }
        Ok(answer.ext("msgId").unwrap_or_default().to_owned())
    }

    /// What to send but for the body.
    fn command(&self, packet: &Packet, queue: &MessageQueue) -> Command {
        let header = SendHeader {
            producer_group: self.group.as_str().into(),
            topic: packet.topic.as_str().into(),
            default_topic: TEMPLATE_TOPIC.into(),
            default_topic_queue_nums: self.settings.default_queues,
            queue_id: queue.queue_id,
            sys_flag: packet.sys_flag,
            born_timestamp: packet.born_at.0,
            flag: packet.flag,
            properties: Text::plain(&packet.properties),
            batch: packet.is_batch,
            broker_name: Some(queue.broker_name.as_str().into()),
            ..SendHeader::default()
        };
        let code = match packet {
            Packet { is_batch: true, .. } => request::SEND_BATCH_MESSAGE,
            Packet { is_reply: true, .. } => request::SEND_REPLY_MESSAGE_V2,
            _ => request::SEND_MESSAGE_V2,
        };
        Command::request(code).with_ext(&(SendNames::V2, &header))
    }

    /// After an error that may come of an old route, fetches it anew: at once where the next attempt needs it.
    async fn look_again(&self, topic: &str, error: &Error) {
        match error {
            Error::NoBroker { .. } | Error::Refused { code: response::TOPIC_NOT_EXIST, .. } => {
                let _ = self.client.fresh_route(topic).await;
            }
            Error::Unreachable { .. } | Error::Disconnected { .. } => {
                let (client, topic) = (Arc::clone(&self.client), topic.to_owned());
                ractor::concurrency::spawn(async move {
                    let _ = client.fresh_route(&topic).await;
                });
            }
            _ => {}
        }
    }

    async fn permits(
        &self,
        packet: &Packet,
        deadline: Deadline,
    ) -> Result<(SemaphorePermit<'_>, SemaphorePermit<'_>), SendError> {
        let clock = &*self.client.env.clock;
        let kib = (packet.body.len() / 1024).min(self.settings.in_flight_bytes_max / 1024) as u32;
        // Mostly there is room, and nobody to wait behind.
        if let (Ok(message), Ok(kib)) = (self.messages.try_acquire(), self.kib.try_acquire_many(kib)) {
            return Ok((message, kib));
        }
        let acquired = within(clock, deadline.left(clock), async {
            Ok((self.messages.acquire().await?, self.kib.acquire_many(kib).await?))
        });
        match acquired.await {
            Some(Ok(permits)) => Ok(permits),
            Some(Err::<_, tokio::sync::AcquireError>(_)) => Err(Error::Closed.into()),
            None => Err(Error::Busy { address: "the brokers".into() }.into()),
        }
    }

    fn late_route(&self) -> Error {
        Error::NoNameServer { reason: format!("no route within {} ms", self.settings.timeout.as_millis()) }
    }

    fn choices(&self) -> std::sync::MutexGuard<'_, Choices> {
        self.choices.lock().expect("no holder panics")
    }
}

fn failure_of(error: &Error) -> Failure {
    match error {
        _ if !error.retryable() => Failure::Final,
        Error::Refused { code, .. } if !certainly_not_stored(*code) => Failure::Unknown,
        _ if error.outcome_unknown() => Failure::Unknown,
        _ => Failure::NotStored,
    }
}

fn results(packet: Packet, queue: &MessageQueue, mut placed: Placed, failed: Vec<Attempt>) -> Vec<Sent> {
    let broker_name = queue.broker_name.clone();
    let queue = MessageQueue { topic: packet.topic, broker_name, queue_id: placed.queue_id };
    match packet.ids.into_inner() {
        Ok([id]) => vec![placed.sent(id, queue, failed)],
        Err(ids) => {
            let offset_ids = std::mem::take(&mut placed.offset_ids);
            let mut offset_ids = offset_ids.split(',');
            let sent = ids.into_iter().zip(placed.offset..).map(|(id, offset)| {
                let offset_ids = offset_ids.next().unwrap_or_default().to_owned();
                Placed { offset_ids, offset, ..placed.clone() }.sent(id, queue.clone(), failed.clone())
            });
            sent.collect()
        }
    }
}

impl Placed {
    /// The result for the one message placed here.
    fn sent(self, message_id: String, queue: MessageQueue, failed_attempts: Vec<Attempt>) -> Sent {
        Sent {
            message_id,
            offset_message_id: self.offset_ids,
            queue,
            offset: self.offset,
            recall_handle: self.recall_handle,
            durability: self.durability,
            trace_region: self.trace_region,
            failed_attempts,
        }
    }
}
