//! Consumers that ask for their messages.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{unfold, Stream};
use tokio::sync::{oneshot, Notify};

use super::core::Handler;
use super::owned::OwnedQueue;
use super::rebalance::RebalanceMessage;
use super::setup::Setup;
use super::stop::Held;
use super::ConsumeFrom;
use crate::client::error::Error;
use crate::client::message::Received;
use crate::client::rules::allocation::Allocation;
use crate::client::timing::{within, Deadline};
use crate::client::{Client, MessageQueue};
use crate::env::Millis;
use crate::proto::filter::ExpressionType;

/// How long a stream waits between looks whether its consumer still lives.
const STREAM_POLL: Duration = Duration::from_secs(30);

/// A consumer that asks for messages when it wants some, made by
/// [`Client::pull_consumer`](super::super::Client::pull_consumer) or [`Client::reader`](super::super::Client::reader).
///
/// Polling again says that what the last poll gave is consumed; only then does the group's offset pass it. So each message
/// is consumed at least once, provided it is done with before the next poll. There are no retries and no dead letters.
///
/// ```
/// # use metaq::client::{ConsumeFrom, Message};
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (env, data) = (metaq::env::real::env(), tempfile::tempdir()?);
/// # let cluster = metaq::Embedded::start(&env, data.path(), "").await?;
/// # let client = metaq::client::Client::new(&env, cluster.nameserver())?;
/// # client.producer("shop").start()?.send(Message::new("Orders", "a book")).await?;
/// let mut consumer =
///     client.pull_consumer("audit").subscribe("Orders", "*").consume_from(ConsumeFrom::First).start().await?;
/// for message in consumer.poll(Duration::from_secs(5)).await? {
///     assert_eq!(message.body, b"a book");
///     println!("{}/{} {}", message.queue.queue_id, message.offset, message.message_id());
/// }
/// consumer.close().await;
/// # client.close().await;
/// # cluster.stop().await?;
/// # Ok(())
/// # }
/// ```
pub struct PullConsumer {
    core: Held,
    poll_max: usize,
    /// The queue that gave messages last: the next ones come from another, if there is one.
    last: Option<MessageQueue>,
}

/// A place in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Its first message.
    Begin,
    /// Behind its last message.
    End,
    /// This offset.
    Offset(i64),
    /// The first message stored at this time or later.
    Time(Millis),
}

/// Makes a [`PullConsumer`].
#[must_use = "a consumer begins with `start` or `scheduled`"]
pub struct PullConsumerBuilder {
    pub(super) setup: Setup,
    pub(super) poll_max: usize,
}

impl Client {
    /// A consumer of a group that asks for its messages, to be set up and started.
    pub fn pull_consumer(&self, group: impl Into<String>) -> PullConsumerBuilder {
        PullConsumerBuilder { setup: Setup::new(self.clone(), Some(group.into())), poll_max: 32 }
    }

    /// A consumer in no group: it reads the queues it is assigned, and no offset is kept.
    ///
    /// ```no_run
    /// # use metaq::client::{Client, ConsumeFrom};
    /// # async fn example(client: Client) -> Result<(), metaq::client::Error> {
    /// let queues = client.admin().queues("Orders").await?;
    /// let reader = client.reader().assign(queues).consume_from(ConsumeFrom::First).start().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn reader(&self) -> PullConsumerBuilder {
        let mut setup = Setup::new(self.clone(), None);
        setup.settings.auto_commit = false;
        setup.assigned = Some(Vec::new());
        PullConsumerBuilder { setup, poll_max: 32 }
    }
}

impl PullConsumerBuilder {
    /// Subscribes to a topic's messages with one of these tags, `a || b`; `*` for all. Members of the group share its
    /// queues, unless queues are assigned.
    pub fn subscribe(mut self, topic: impl Into<String>, tags: impl Into<String>) -> Self {
        self.setup.subscriptions.push((topic.into(), ExpressionType::Tag, tags.into()));
        self
    }

    /// Subscribes to a topic's messages whose properties fit an SQL92 expression, where brokers allow that.
    pub fn subscribe_sql(mut self, topic: impl Into<String>, expression: impl Into<String>) -> Self {
        self.setup.subscriptions.push((topic.into(), ExpressionType::Sql92, expression.into()));
        self
    }

    /// Reads these queues, whatever other members read. Without a subscription to a queue's topic, all its messages.
    pub fn assign(mut self, queues: Vec<MessageQueue>) -> Self {
        self.setup.assigned = Some(queues);
        self
    }

    /// Where to begin in a queue for which the group has no offset; at its end.
    pub fn consume_from(mut self, from: ConsumeFrom) -> Self {
        self.setup.settings.consume_from = from;
        self
    }

    /// How members share queues; as evenly as can be, neighbours together. All members use the same.
    pub fn allocation(mut self, allocation: Allocation) -> Self {
        self.setup.settings.allocation = allocation;
        self
    }

    /// Whether offsets are committed every 5 s and at the end; true. Else only [`PullConsumer::commit`] does.
    pub fn auto_commit(mut self, commits: bool) -> Self {
        self.setup.settings.auto_commit = commits && self.setup.group.is_some();
        self
    }

    /// The most messages of one poll; 32.
    pub fn poll_max(mut self, messages: usize) -> Self {
        self.poll_max = messages.max(1);
        self
    }

    /// How much of one queue is held here at most: messages and bytes; 1000 and 100 MiB.
    pub fn flow_control(mut self, messages: usize, bytes: usize) -> Self {
        let limits = &mut self.setup.settings.limits;
        (limits.count, limits.bytes) = (messages, bytes);
        self
    }

    /// Starts; messages are fetched from now on, ahead of polls.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a setup that cannot be; [`Error::Refused`] if a broker does not take the SQL92 expression.
    /// Topics and brokers that are not there are waited for.
    pub async fn start(mut self) -> Result<PullConsumer, Error> {
        self.setup.settings.limits.span = None;
        let core = self.setup.start(Handler::Poll(Notify::new())).await?;
        Ok(PullConsumer { core, poll_max: self.poll_max, last: None })
    }
}

impl PullConsumer {
    /// Messages of one queue in order, as soon as there are some; none if none come within `wait`. What the last poll gave
    /// counts as consumed from now on.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub async fn poll(&mut self, wait: Duration) -> Result<Vec<Arc<Received>>, Error> {
        self.taken_done();
        let clock = Arc::clone(&self.core.client.env.clock);
        let deadline = Deadline::after(&*clock, wait);
        loop {
            if self.core.client.is_closed() || self.core.is_stopping() {
                return Err(Error::Closed);
            }
            let messages = self.take();
            if !messages.is_empty() {
                return Ok(messages);
            }
            let Handler::Poll(arrived) = &self.core.handler else { return Ok(Vec::new()) };
            if within(&*clock, deadline.left(&*clock), arrived.notified()).await.is_none() {
                return Ok(self.take());
            }
        }
    }

    /// Messages one by one, without end; it ends when the client is closed. Asking for the next one says that all before
    /// it are consumed.
    pub fn stream(&mut self) -> impl Stream<Item = Arc<Received>> + '_ {
        unfold((self, VecDeque::new()), |(consumer, mut batch): (_, VecDeque<Arc<Received>>)| async move {
            while batch.is_empty() {
                batch.extend(consumer.poll(STREAM_POLL).await.ok()?);
            }
            let next = batch.pop_front()?;
            Some((next, (consumer, batch)))
        })
    }

    /// Commits the offsets behind all that was polled, the last poll included.
    ///
    /// # Errors
    /// The first one that a broker did not take; the others are committed.
    pub async fn commit(&mut self) -> Result<(), Error> {
        self.taken_done();
        let mut result = Ok(());
        for owned in self.owned() {
            result = result.and(self.core.commit(&owned, None).await);
        }
        result.and(self.core.offsets.save().await)
    }

    /// Goes on at another place of a queue it has. What was polled before is left as it is.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an offset beyond the queue's ends, or a queue it does not have; or its broker does not answer.
    pub async fn seek(&mut self, queue: &MessageQueue, to: Position) -> Result<(), Error> {
        if !self.core.owned().contains_key(queue) {
            return Err(Error::Invalid(format!("the queue {queue:?} is not with this consumer")));
        }
        let client = &self.core.client;
        let offset = match to {
            Position::Begin => client.min_offset(queue).await?,
            Position::End => client.max_offset(queue).await?,
            Position::Time(time) => client.search_offset(queue, time).await?,
            Position::Offset(offset) => {
                let (min, max) = (client.min_offset(queue).await?, client.max_offset(queue).await?);
                if !(min..=max).contains(&offset) {
                    return Err(Error::Invalid(format!("the queue has offsets {min} to {max}, not {offset}")));
                }
                offset
            }
        };
        let (done, sought) = oneshot::channel();
        self.core.tell(RebalanceMessage::Seek { queue: queue.clone(), offset, done });
        sought.await.map_err(|_| Error::Closed)
    }

    /// Reads these queues from now on instead of those it had. Only for one that was started with assigned queues.
    ///
    /// # Errors
    /// [`Error::Invalid`] if its queues are shared among members.
    pub async fn assign(&mut self, queues: Vec<MessageQueue>) -> Result<(), Error> {
        {
            let mut assigned = self.core.assigned.lock().expect("no holder panics");
            if assigned.is_none() {
                return Err(Error::Invalid("this consumer shares its queues with other members".into()));
            }
            *assigned = Some(queues.clone());
        }
        self.core.subscribe_to_all_of(&queues);
        let (done, taken) = oneshot::channel();
        self.core.tell(RebalanceMessage::Assign { done });
        taken.await.map_err(|_| Error::Closed)
    }

    /// The queues it has now, and the offset of each that the next poll gives or waits for.
    pub fn positions(&self) -> Vec<(MessageQueue, i64)> {
        let position = |owned: Arc<OwnedQueue>| (owned.queue.clone(), owned.process().position());
        self.owned().into_iter().map(position).collect()
    }

    /// Fetches no more of these queues until [`PullConsumer::resume`].
    pub fn pause(&self, queues: &[MessageQueue]) {
        self.set_paused(queues, true);
    }

    /// Goes on with queues that were paused.
    pub fn resume(&self, queues: &[MessageQueue]) {
        self.set_paused(queues, false);
    }

    /// Ends: all that was polled counts as consumed and is committed, if offsets are, and the group is left. Dropped
    /// instead, the last poll's messages come again.
    pub async fn close(self) {
        self.taken_done();
        self.core.stop(Duration::ZERO).await;
    }

    fn owned(&self) -> Vec<Arc<OwnedQueue>> {
        self.core.owned().values().cloned().collect()
    }

    fn taken_done(&self) {
        self.owned().iter().for_each(|owned| owned.taken_done());
    }

    fn set_paused(&self, queues: &[MessageQueue], paused: bool) {
        let owned = self.core.owned();
        queues.iter().filter_map(|queue| owned.get(queue)).for_each(|owned| owned.set_paused(paused));
    }

    /// The next messages of the queue after the last one that has some.
    fn take(&mut self) -> Vec<Arc<Received>> {
        let mut queues = self.owned();
        if let Some(last) = &self.last {
            let behind = queues.partition_point(|owned| owned.queue <= *last);
            queues.rotate_left(behind);
        }
        let has_some = queues.into_iter().find(|owned| !owned.is_paused() && owned.process().has_more());
        let Some(owned) = has_some else { return Vec::new() };
        self.last = Some(owned.queue.clone());
        let taken = owned.process().take(self.poll_max);
        if let Some(recorder) = self.core.recorder() {
            recorder.consumed(&self.core.group, &taken);
        }
        taken
    }
}
