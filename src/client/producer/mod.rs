//! Sending messages.

mod deliver;
mod gather;
mod options;
mod packet;
mod request;
mod result;
mod transaction;

use std::collections::BTreeMap;
use std::slice::from_mut;
use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;
use tracing::Instrument;

use self::gather::Gathering;
use self::options::Settings;
use self::packet::Packet;
use super::error::Error;
use super::instance::Shared;
use super::recorder::Sending;
use super::rules::choice::{by_key, RoundRobin};
use super::rules::latency::LatencyTable;
use super::timing::Deadline;
use super::{Message, MessageQueue};
pub use options::{AutoBatch, ProducerBuilder};
pub use request::RequestError;
pub use result::{Attempt, Durability, SendError, Sent};
pub(super) use transaction::Named;
pub use transaction::{LocalTransaction, Transacted, TransactionProducer};

/// Sends messages as a member of a producer group. Cheap to clone; made by [`Client::producer`](super::Client::producer).
///
/// Every send is bounded by one time-out over all its attempts. Dropping the future of a send leaves nothing behind; the
/// message may or may not be stored, as after a time-out.
///
/// ```
/// # use metaq::client::Message;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (env, data) = (metaq::env::real::env(), tempfile::tempdir()?);
/// # let cluster = metaq::Embedded::start(&env, data.path(), "").await?;
/// # let client = metaq::client::Client::new(&env, cluster.nameserver())?;
/// let producer = client.producer("order-service").start()?;
/// let sent = producer.send(Message::new("Orders", "a book").key("order-17")).await?;
/// println!("{} is number {} of {}/{}", sent.message_id, sent.offset, sent.queue.broker_name, sent.queue.queue_id);
///
/// match producer.send(Message::new("Orders", "a pen")).await {
///     Ok(sent) => println!("stored, {:?}", sent.durability),
///     Err(error) if error.may_be_stored() => println!("nobody knows: {error}"),
///     Err(error) => println!("certainly not stored: {error}"),
/// }
/// # assert_eq!(client.admin().message_by_id(&sent.offset_message_id).await?.body, b"a book");
/// # client.close().await;
/// # cluster.stop().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Producer {
    inner: Arc<Inner>,
}

struct Inner {
    client: Arc<Shared>,
    group: String,
    settings: Settings,
    choices: Mutex<Choices>,
    gathering: Mutex<Gathering>,
    /// Messages, and KiB of their bodies, that may be under way.
    messages: Semaphore,
    kib: Semaphore,
}

/// What queues are chosen by.
#[derive(Default)]
struct Choices {
    latency: LatencyTable,
    robins: BTreeMap<String, RoundRobin>,
}

/// Where a message is to go.
enum Target {
    /// To any queue of the topic.
    Any,
    /// To this queue and no other.
    Queue(MessageQueue),
}

impl Producer {
    /// Sends a message to one of its topic's queues in turn and waits until it is stored. What fails at one broker is
    /// tried at another, under the same message id.
    ///
    /// # Errors
    /// [`SendError`], which lists the attempts and tells whether one of them may have stored the message.
    pub async fn send(&self, message: Message) -> Result<Sent, SendError> {
        if self.inner.settings.auto_batch.is_some() && packet::fits_a_batch(&message) {
            return self.gather(message).await;
        }
        self.inner.send_one(message, Target::Any, self.inner.deadline()).await
    }

    /// Sends a message to the queue of its key: messages with one key stand in one queue, in the order in which their
    /// sends succeeded. Await each before the next.
    ///
    /// It is repeated only if it was certainly not stored, and never at another queue. If the topic's queues change, keys
    /// move to other queues.
    ///
    /// # Errors
    /// As [`Producer::send`].
    pub async fn send_ordered(&self, message: Message, key: &str) -> Result<Sent, SendError> {
        self.send_with(message, |queues, _| by_key(key, queues.len())).await
    }

    /// Sends a message to the queue that `select` chooses by its place in the list, in the order of brokers and numbers.
    /// As with [`Producer::send_ordered`] no other queue is tried.
    ///
    /// # Errors
    /// As [`Producer::send`].
    pub async fn send_with(
        &self,
        message: Message,
        select: impl FnOnce(&[MessageQueue], &Message) -> usize,
    ) -> Result<Sent, SendError> {
        message.check(self.inner.settings.body_max)?;
        let deadline = self.inner.deadline();
        let route = self.inner.route_in_time(&message.topic, deadline).await?;
        if route.writable.is_empty() {
            return Err(Error::NoRoute { topic: message.topic }.into());
        }
        let chosen = select(&route.writable, &message);
        let queue = route.writable.get(chosen).cloned().ok_or_else(|| {
            let have = route.writable.len();
            Error::Invalid(format!("queue {chosen} of topic `{}` was chosen, it has {have}", message.topic))
        })?;
        self.inner.send_one(message, Target::Queue(queue), deadline).await
    }

    /// Sends a message to a given queue.
    ///
    /// # Errors
    /// As [`Producer::send`]; [`Error::Invalid`] if the queue belongs to another topic.
    pub async fn send_to(&self, message: Message, queue: &MessageQueue) -> Result<Sent, SendError> {
        if queue.topic != message.topic {
            let what = format!("a message for topic `{}` cannot go to a queue of `{}`", message.topic, queue.topic);
            return Err(Error::Invalid(what).into());
        }
        self.inner.send_one(message, Target::Queue(queue.clone()), self.inner.deadline()).await
    }

    /// Sends messages of one topic to one queue in one request: all are stored, one after the other, or none.
    ///
    /// # Errors
    /// As [`Producer::send`]; [`Error::Invalid`] for messages that cannot share a batch: delayed ones, of different
    /// topics, or together longer than a message may be.
    pub async fn send_batch(&self, messages: Vec<Message>) -> Result<Vec<Sent>, SendError> {
        self.inner.send_batch(messages).await
    }

    /// Sends a message and waits for nothing: it may be lost without a word.
    ///
    /// # Errors
    /// What went wrong before the message was handed to a connection.
    pub async fn send_oneway(&self, mut message: Message) -> Result<(), SendError> {
        message.check(self.inner.settings.body_max)?;
        // Nobody will say what came of it.
        drop(self.inner.recorded(from_mut(&mut message)));
        let packet = Packet::of_message(message, &self.inner.client, &self.inner.settings);
        self.inner.throw(&packet).await
    }

    /// Takes back a message of `topic` that waits for a time of its own, with the handle that came of its sending; the
    /// message's id. When this returns `Ok`, the message does not come.
    ///
    /// # Errors
    /// [`Error::Refused`] if its time has come, or if the broker does not allow it (`recallMessageEnable`); after any
    /// other error it may come or not.
    pub async fn recall(&self, topic: &str, handle: &str) -> Result<String, Error> {
        self.inner.recall(topic, handle).await
    }

    /// The queues a topic's messages go to now, in the order in which [`Producer::send_with`] sees them.
    ///
    /// # Errors
    /// [`Error::NoRoute`] if there is no such topic, or no NameServer answers.
    pub async fn queues(&self, topic: &str) -> Result<Vec<MessageQueue>, Error> {
        Ok(self.inner.route(topic).await?.writable.clone())
    }

    /// The group.
    pub fn group(&self) -> &str {
        &self.inner.group
    }

    /// Leaves the group. Sends under way go on; the client's connections stay.
    pub async fn close(&self) {
        self.inner.client.leave_producers(&self.inner.group).await;
    }
}

impl Inner {
    /// When a send that begins now is given up.
    fn deadline(&self) -> Deadline {
        Deadline::after(&*self.client.env.clock, self.settings.timeout)
    }

    async fn send_one(&self, mut message: Message, target: Target, deadline: Deadline) -> Result<Sent, SendError> {
        message.check(self.settings.body_max)?;
        let recorded = self.recorded(from_mut(&mut message));
        let packet = Packet::of_message(message, &self.client, &self.settings);
        let mut sent = self.deliver_recorded(packet, target, deadline, recorded).await?;
        sent.pop().ok_or_else(|| Error::Malformed { address: "the broker".into(), what: "no result".into() }.into())
    }

    /// Sends a message and tells neither recorder nor trace.
    async fn send_unnoticed(&self, message: Message, target: Target) -> Result<Sent, SendError> {
        message.check(self.settings.body_max)?;
        let mut sent =
            self.deliver(Packet::of_message(message, &self.client, &self.settings), target, self.deadline()).await?;
        sent.pop().ok_or_else(|| Error::Malformed { address: "the broker".into(), what: "no result".into() }.into())
    }

    async fn send_batch(&self, mut messages: Vec<Message>) -> Result<Vec<Sent>, SendError> {
        let recorded = self.recorded(&mut messages);
        let packet = Packet::of_batch(&messages, &self.client, &self.settings)?;
        self.deliver_recorded(packet, Target::Any, self.deadline(), recorded).await
    }

    /// Tells the recorder, if there is one, of messages that are about to be sent.
    fn recorded(&self, messages: &mut [Message]) -> Option<Sending> {
        self.client.recorder.get().map(|recorder| recorder.sending(messages))
    }

    async fn deliver_recorded(
        &self,
        packet: Packet,
        target: Target,
        deadline: Deadline,
        recorded: Option<Sending>,
    ) -> Result<Vec<Sent>, SendError> {
        let about = (packet.properties.as_str(), packet.body.len());
        let traced = self.client.trace_sending(&self.group, &packet.topic, &packet.ids, about);
        let (group, topic, messages) = (&*self.group, &*packet.topic, packet.ids.len());
        let span = tracing::debug_span!("send", group, topic, messages);
        let result = self.deliver(packet, target, deadline).instrument(span).await;
        if let Some(recorded) = recorded {
            recorded.ended(&result);
        }
        if let Some(traced) = traced {
            self.client.trace_sent(traced, &result);
        }
        result
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Whoever wants the brokers told at once calls `close`.
        self.client.members().producers.remove(&self.group);
    }
}
