//! Traces: what this client sends and consumes, noted in a topic as RocketMQ's clients note it.
//!
//! Notes gather beside the work and never hold it up: if more come than can be written, they are left out.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::instance::{Client, Shared};
use super::message::Received;
use super::producer::{SendError, Sent};
use super::timing::{within, Deadline};
use super::{Error, Message};
use crate::env::Clock;
use crate::proto::message::names::validate_topic;
use crate::proto::message::properties;
use crate::proto::message::system::{is_system_topic, TRACE_TOPIC};
use crate::proto::message::trace::{Trace, TraceKind};

/// The group in whose name traces are sent.
const GROUP: &str = "CLIENT_INNER_TRACE_PRODUCER";
/// Notes that wait; further ones are left out.
const WAITING_MAX: usize = 2048;
/// Bytes of one trace message, as RocketMQ's clients have it, and of the keys it is found by.
const BODY_MAX: usize = 128_000;
const KEYS_MAX: usize = 16_000;
/// How long a note waits for others.
const HOLD: Duration = Duration::from_millis(500);
/// Kinds of messages, in RocketMQ's numbers.
const PLAIN: i32 = 0;
const HALF: i32 = 1;
const DELAYED: i32 = 3;
/// How long a client that ends waits for its last notes.
const FLUSH_LIMIT: Duration = Duration::from_secs(3);

/// Takes notes.
pub(super) struct Tracer {
    topic: String,
    notes: mpsc::Sender<Note>,
    left_out: AtomicU64,
}

enum Note {
    Trace(Box<Trace>),
    /// Tell when all before it is written.
    Flush(oneshot::Sender<()>),
}

impl Client {
    /// Notes in the cluster's trace topic what this client's producers and push consumers do from now on, so that
    /// `metaq message trace` and RocketMQ's tools can tell the story of a message. Brokers have the topic if
    /// `traceTopicEnable` is set. Traces may be lost; sends and deliveries never suffer.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it does so already.
    pub fn trace(&self) -> Result<(), Error> {
        self.trace_to(TRACE_TOPIC)
    }

    /// As [`Client::trace`], in a topic of one's own.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an illegal name, or if it does so already.
    pub fn trace_to(&self, topic: &str) -> Result<(), Error> {
        validate_topic(topic).map_err(|error| Error::Invalid(error.to_string()))?;
        let (notes, noted) = mpsc::channel(WAITING_MAX);
        let tracer = Tracer { topic: topic.to_owned(), notes, left_out: AtomicU64::new(0) };
        if self.shared.tracer.set(tracer).is_err() {
            return Err(Error::Invalid("this client writes traces already".into()));
        }
        let (client, clock) = (Arc::downgrade(&self.shared), Arc::clone(&self.shared.env.clock));
        ractor::concurrency::spawn(write(client, clock, topic.to_owned(), noted));
        Ok(())
    }
}

impl Tracer {
    fn note(&self, trace: Trace) {
        if self.notes.try_send(Note::Trace(Box::new(trace))).is_err() {
            let left_out = self.left_out.fetch_add(1, Ordering::Relaxed) + 1;
            if left_out.is_power_of_two() {
                tracing::warn!(left_out, "traces come faster than they can be written");
            }
        }
    }

    /// Waits until what was noted is written, a moment at most.
    pub async fn flush(&self, clock: &dyn Clock) {
        let (written, waits) = oneshot::channel();
        within(clock, FLUSH_LIMIT, async {
            if self.notes.send(Note::Flush(written)).await.is_ok() {
                let _ = waits.await;
            }
        })
        .await;
    }
}

impl Shared {
    /// The tracer, unless it is the trace itself that is sent or consumed.
    fn tracer_for(&self, topic: &str) -> Option<&Tracer> {
        self.tracer.get().filter(|tracer| tracer.topic != topic && !is_system_topic(topic))
    }

    /// A send begins, of one message or of a batch; the properties are those of the message.
    pub fn trace_sending(
        &self,
        group: &str,
        topic: &str,
        ids: &[String],
        (text, body_bytes): (&str, usize),
    ) -> Option<Sending> {
        self.tracer_for(topic)?;
        let property = |name| properties::find(text, name);
        let message_type = match property(properties::TRANSACTION_PREPARED) {
            Some("true") => HALF,
            _ if property(properties::DELAY).is_some() => DELAYED,
            _ => PLAIN,
        };
        Some(Sending {
            at: self.env.clock.now().0,
            began: self.env.clock.monotonic(),
            group: group.to_owned(),
            topic: topic.to_owned(),
            message_id: ids.join(","),
            tags: property(properties::TAGS).unwrap_or_default().to_owned(),
            keys: property(properties::KEYS).unwrap_or_default().to_owned(),
            body_bytes: body_bytes as i64,
            message_type,
        })
    }

    /// It has ended.
    pub fn trace_sent(&self, sending: Sending, result: &Result<Vec<Sent>, SendError>) {
        let Some(tracer) = self.tracer.get() else { return };
        let first = result.as_ref().ok().and_then(|sent| sent.first());
        let region = match first {
            // A broker that wants no traces says so.
            Some(Sent { trace_region: None, .. }) => return,
            Some(Sent { trace_region: Some(region), .. }) => region.clone(),
            None => String::new(),
        };
        let store_host = first.and_then(|sent| self.master(&sent.queue.broker_name).ok());
        tracer.note(Trace {
            at: sending.at,
            group: sending.group,
            message_id: sending.message_id,
            keys: sending.keys,
            kind: TraceKind::Sent {
                region,
                topic: sending.topic,
                tags: sending.tags,
                store_host: store_host.unwrap_or_default(),
                body_bytes: sending.body_bytes,
                took_ms: self.env.clock.monotonic().saturating_sub(sending.began).as_millis() as i64,
                message_type: sending.message_type,
                offset_message_id: first.map(|sent| sent.offset_message_id.clone()).unwrap_or_default(),
                success: first.is_some(),
                client_host: self.env.net.own_address().to_string(),
            },
        });
    }

    /// A listener gets messages. What the broker marked as not to be traced is left out.
    pub fn trace_consuming(&self, group: &str, batch: &[Arc<Received>]) -> Option<Consuming> {
        let tracer = self.tracer_for(&batch.first()?.topic)?;
        let request_id = self.keys.next(self.env.clock.now());
        let wanted = |message: &&Arc<Received>| message.property(properties::TRACE_ON) != Some("false");
        let messages: Vec<Arc<Received>> = batch.iter().filter(wanted).cloned().collect();
        for message in &messages {
            tracer.note(Trace {
                at: self.env.clock.now().0,
                group: group.to_owned(),
                message_id: message.message_id(),
                keys: message.property(properties::KEYS).unwrap_or_default().to_owned(),
                kind: TraceKind::Consuming {
                    region: message.property(properties::MSG_REGION).unwrap_or_default().to_owned(),
                    request_id: request_id.clone(),
                    retry_times: message.reconsume_times,
                    client_host: self.id.clone(),
                },
            });
        }
        Some(Consuming { group: group.to_owned(), request_id, messages })
    }

    /// It is done with them.
    pub fn trace_consumed(&self, consuming: Consuming, code: ConsumeCode, took: Duration) {
        let Some(tracer) = self.tracer.get() else { return };
        for message in &consuming.messages {
            tracer.note(Trace {
                at: self.env.clock.now().0,
                group: consuming.group.clone(),
                message_id: message.message_id(),
                keys: message.property(properties::KEYS).unwrap_or_default().to_owned(),
                kind: TraceKind::Consumed {
                    request_id: consuming.request_id.clone(),
                    took_ms: (took.as_millis() / consuming.messages.len().max(1) as u128) as i64,
                    success: code == ConsumeCode::Success,
                    code: code as i32,
                },
            });
        }
    }
}

/// A send under way.
pub(super) struct Sending {
    at: i64,
    began: Duration,
    group: String,
    topic: String,
    message_id: String,
    tags: String,
    keys: String,
    body_bytes: i64,
    message_type: i32,
}

/// A call of a listener under way.
pub(super) struct Consuming {
    group: String,
    request_id: String,
    messages: Vec<Arc<Received>>,
}

/// How a call of a listener ended, in RocketMQ's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConsumeCode {
    Success = 0,
    TimedOut = 1,
    Failed = 4,
}

/// Writes notes for as long as the client lives.
async fn write(client: Weak<Shared>, clock: Arc<dyn Clock>, topic: String, mut notes: mpsc::Receiver<Note>) {
    while let Some(note) = notes.recv().await {
        let deadline = Deadline::after(&*clock, HOLD);
        let (mut batch, mut flush, mut next) = (Batch::default(), None, Some(note));
        while let Some(note) = next.take() {
            match note {
                Note::Trace(trace) => batch.add(&trace),
                Note::Flush(written) => flush = Some(written),
            }
            if flush.is_none() && !batch.is_full() {
                next = within(&*clock, deadline.left(&*clock), notes.recv()).await.flatten();
            }
        }
        let Some(client) = client.upgrade() else { return };
        batch.send(Client { shared: client }, &topic).await;
        if let Some(written) = flush {
            let _ = written.send(());
        }
    }
}

/// Notes that share a message.
#[derive(Default)]
struct Batch {
    body: String,
    keys: BTreeSet<String>,
    keys_bytes: usize,
}

impl Batch {
    fn add(&mut self, trace: &Trace) {
        trace.encode(&mut self.body);
        for key in trace.message_id.split(',').chain(trace.keys.split(' ')).filter(|key| !key.is_empty()) {
            if self.keys.insert(key.to_owned()) {
                self.keys_bytes += key.len() + 1;
            }
        }
    }

    fn is_full(&self) -> bool {
        self.body.len() >= BODY_MAX || self.keys_bytes >= KEYS_MAX
    }

    async fn send(self, client: Client, topic: &str) {
        if self.body.is_empty() {
            return;
        }
        let message = self.keys.into_iter().fold(Message::new(topic, self.body), |message, key| message.key(key));
        let sent = client.producer(GROUP).send_unnoticed(message).await;
        if let Err(error) = sent {
            tracing::debug!(topic, %error, "traces were not written");
        }
    }
}
