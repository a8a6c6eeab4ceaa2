//! Consumers whose messages are pushed to a listener.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::core::Handler;
use super::listener::{of_batches, of_messages, Action, OrderlyAction};
use super::setup::Setup;
use super::stop::Held;
use super::ConsumeFrom;
use crate::client::error::Error;
use crate::client::message::Received;
use crate::client::rules::allocation::Allocation;
use crate::client::{Client, MessageQueue};
use crate::proto::filter::ExpressionType;

/// A member of a consumer group whose messages go to a listener, made by
/// [`Client::push_consumer`](super::super::Client::push_consumer).
///
/// Members of a group share the queues of its topics; every message is consumed at least once by one of them. End it with
/// [`PushConsumer::stop`]: dropped, it ends without waiting for what its listener has begun.
///
/// ```
/// # use metaq::client::{Action, ConsumeFrom, Message};
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (env, data) = (metaq::env::real::env(), tempfile::tempdir()?);
/// # let cluster = metaq::Embedded::start(&env, data.path(), "").await?;
/// # let client = metaq::client::Client::new(&env, cluster.nameserver())?;
/// # let (told, mut bills) = tokio::sync::mpsc::unbounded_channel();
/// # client.producer("shop").start()?.send(Message::new("Orders", "a book").tag("paid").key("order-1")).await?;
/// let consumer = client
///     .push_consumer("billing")
///     .subscribe("Orders", "paid || refunded")
///     .consume_from(ConsumeFrom::First)
///     .concurrently(move |message| {
/// #       let told = told.clone();
///         async move {
///             match std::str::from_utf8(&message.body) {
///                 Ok(order) => println!("{}: {order}", message.message_id()),
///                 Err(_) => return Action::DeadLetter,
///             }
/// #           told.send(message.body.clone()).unwrap();
///             Action::Done
///         }
///     })
///     .await?;
/// # assert_eq!(bills.recv().await.unwrap(), b"a book");
/// consumer.stop(Duration::from_secs(10)).await;
/// # client.close().await;
/// # cluster.stop().await?;
/// # Ok(())
/// # }
/// ```
///
/// In order, and one queue at a time:
///
/// ```no_run
/// # use metaq::client::{Client, OrderlyAction};
/// # async fn example(client: Client) -> Result<(), metaq::client::Error> {
/// let consumer = client
///     .push_consumer("ledger")
///     .subscribe("Orders", "*")
///     .max_reconsume_times(16)
///     .orderly(|message| async move {
///         println!("{:?} {}", message.keys().next(), message.offset);
///         OrderlyAction::Done
///     })
///     .await?;
/// # Ok(())
/// # }
/// ```
pub struct PushConsumer {
    core: Held,
}

/// Makes a [`PushConsumer`]; it begins with the choice of a listener.
#[must_use = "a consumer begins with `concurrently` or `orderly`"]
pub struct PushConsumerBuilder {
    setup: Setup,
}

impl Client {
    /// A consumer of a group whose messages go to a listener, to be set up and started.
    pub fn push_consumer(&self, group: impl Into<String>) -> PushConsumerBuilder {
        PushConsumerBuilder { setup: Setup::new(self.clone(), Some(group.into())) }
    }
}

impl PushConsumerBuilder {
    /// Subscribes to a topic's messages with one of these tags, `a || b`; `*` for all. All members of a group subscribe to
    /// the same.
    pub fn subscribe(mut self, topic: impl Into<String>, tags: impl Into<String>) -> Self {
        self.setup.subscriptions.push((topic.into(), ExpressionType::Tag, tags.into()));
        self
    }

    /// Subscribes to a topic's messages whose properties fit an SQL92 expression, where brokers allow that.
    pub fn subscribe_sql(mut self, topic: impl Into<String>, expression: impl Into<String>) -> Self {
        self.setup.subscriptions.push((topic.into(), ExpressionType::Sql92, expression.into()));
        self
    }

    /// Every member gets all messages, and keeps its own offsets in a file. What fails is not retried.
    pub fn broadcasting(mut self) -> Self {
        self.setup.broadcasting = true;
        self
    }

    /// Where a broadcasting member keeps its offsets: `directory/group/offsets.json`. By default
    /// `~/.rocketmq_offsets/ADDRESS@DEFAULT`, as the Java client has it. Two members on one machine need two directories.
    pub fn local_offsets(mut self, directory: impl Into<PathBuf>) -> Self {
        self.setup.local_offsets = directory.into();
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

    /// Calls of the listener that run at a time; 20. In order, each queue has at most one.
    pub fn concurrency(mut self, calls: usize) -> Self {
        self.setup.settings.concurrency = calls;
        self
    }

    /// How long a call of a concurrent listener may take; 15 min. Then it is dropped at its next await, and its messages
    /// come again.
    pub fn consume_timeout(mut self, limit: Duration) -> Self {
        self.setup.settings.consume_timeout = limit;
        self
    }

    /// How often a message that failed comes again before it goes to the dead letters; 16 times, in order without end.
    pub fn max_reconsume_times(mut self, times: i32) -> Self {
        self.setup.settings.max_reconsume_times = Some(times.max(0));
        self
    }

    /// How long a queue that is consumed in order stands still after a failure, 10 ms to 30 s; 1 s.
    pub fn suspend(mut self, pause: Duration) -> Self {
        self.setup.settings.suspend = pause;
        self
    }

    /// How much of one queue is held here at most: messages, bytes, and, unless in order, offsets between first and last;
    /// 1000, 100 MiB and 2000.
    pub fn flow_control(mut self, messages: usize, bytes: usize, span: i64) -> Self {
        let limits = &mut self.setup.settings.limits;
        (limits.count, limits.bytes, limits.span) = (messages, bytes, Some(span));
        self
    }

    /// Messages wanted of one pull, 1 to 1024; 32.
    pub fn pull_batch(mut self, messages: i32) -> Self {
        self.setup.settings.pull_batch = messages.clamp(1, 1024);
        self
    }

    /// How long a broker may hold a pull while there is nothing; 15 s. A reset by a tool is noticed with the next pull.
    pub fn long_poll(mut self, hold: Duration) -> Self {
        self.setup.settings.hold = hold;
        self
    }

    /// Starts with a listener that gets one message at a time, many at once, in no order. One that panics has failed.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a setup that cannot be; [`Error::Refused`] if a broker does not take the SQL92 expression.
    /// Topics and brokers that are not there are waited for.
    pub async fn concurrently<F>(
        self,
        listener: impl Fn(Arc<Received>) -> F + Send + Sync + 'static,
    ) -> Result<PushConsumer, Error>
    where
        F: Future<Output = Action> + Send + 'static,
    {
        self.start(Handler::Concurrent(of_messages(listener, Action::Retry))).await
    }

    /// As [`PushConsumerBuilder::concurrently`], with up to `size` messages of one queue in each call. What it returns goes
    /// for all of them.
    ///
    /// # Errors
    /// As there.
    pub async fn concurrently_in_batches<F>(
        mut self,
        size: usize,
        listener: impl Fn(Vec<Arc<Received>>) -> F + Send + Sync + 'static,
    ) -> Result<PushConsumer, Error>
    where
        F: Future<Output = Action> + Send + 'static,
    {
        self.setup.settings.consume_batch = size.clamp(1, 1024);
        self.start(Handler::Concurrent(of_batches(listener, Action::Retry))).await
    }

    /// Starts with a listener that gets the messages of each queue one after the other, in order. While it has a queue,
    /// nobody else does: should the broker's lock be lost, the call is dropped at its next await.
    ///
    /// # Errors
    /// As [`PushConsumerBuilder::concurrently`].
    pub async fn orderly<F>(
        self,
        listener: impl Fn(Arc<Received>) -> F + Send + Sync + 'static,
    ) -> Result<PushConsumer, Error>
    where
        F: Future<Output = OrderlyAction> + Send + 'static,
    {
        self.start(Handler::Orderly(of_messages(listener, OrderlyAction::Suspend))).await
    }

    async fn start(self, handler: Handler) -> Result<PushConsumer, Error> {
        Ok(PushConsumer { core: self.setup.start(handler).await? })
    }
}

impl PushConsumer {
    /// The queues it has now.
    pub fn queues(&self) -> Vec<MessageQueue> {
        self.core.owned().keys().cloned().collect()
    }

    /// Subscribes to another topic, or to other tags of one: brokers know of it when this returns. All members have to.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an illegal name or an expression that is none.
    pub async fn subscribe(&self, topic: &str, tags: &str) -> Result<(), Error> {
        self.core.resubscribe(topic, Some(tags)).await
    }

    /// Ends the subscription to a topic; its queues are given back.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an illegal name.
    pub async fn unsubscribe(&self, topic: &str) -> Result<(), Error> {
        self.core.resubscribe(topic, None).await
    }

    /// Pulls no more of any queue until [`PushConsumer::resume`]. What is here already is consumed, queues and locks are
    /// kept.
    pub fn pause(&self) {
        self.core.owned().values().for_each(|owned| owned.set_paused(true));
    }

    /// Goes on after [`PushConsumer::pause`].
    pub fn resume(&self) {
        self.core.owned().values().for_each(|owned| owned.set_paused(false));
        self.core.rebalance();
    }

    /// Ends: begins nothing more, waits at most `grace` for calls of the listener that run and then drops them, commits,
    /// gives locks back and leaves the group, so that other members take over at once.
    pub async fn stop(self, grace: Duration) {
        self.core.stop(grace).await;
    }
}
