//! Sending messages together with a local transaction.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::packet::Packet;
use super::{Durability, Inner, Producer, ProducerBuilder, SendError, Sent, Target};
use crate::client::error::Error;
use crate::client::members::Checker;
use crate::client::{Message, Received};
use crate::env::BoxFuture;
use crate::proto::message::{ids, properties, sys_flag};
use crate::proto::remoting::requests::EndTransaction;
use crate::proto::remoting::{request, Command};

/// How long the broker may take to say that it has taken a decision.
const END_LIMIT: Duration = Duration::from_secs(3);

/// What became of a local transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LocalTransaction {
    /// It is committed: consumers get the message.
    Commit,
    /// It is rolled back: nobody ever sees the message.
    Rollback,
    /// Nobody knows yet: the broker asks later.
    Unknown,
}

impl LocalTransaction {
    /// As END_TRANSACTION says it.
    pub(in crate::client) fn code(self) -> i32 {
        match self {
            LocalTransaction::Commit => sys_flag::TRANSACTION_COMMIT,
            LocalTransaction::Rollback => sys_flag::TRANSACTION_ROLLBACK,
            LocalTransaction::Unknown => sys_flag::TRANSACTION_NONE,
        }
    }
}

/// A message whose local transaction has run.
#[derive(Debug)]
#[non_exhaustive]
pub struct Transacted {
    /// Where the message waited for its decision. [`Sent::queue`] is the queue in which consumers find it.
    pub half: Sent,
    /// What became of the local transaction.
    pub state: LocalTransaction,
    /// Whether the broker has taken the decision. After an error, or if the state is unknown, it asks for it.
    pub told: Result<(), Error>,
}

/// Sends messages that consumers get if, and only if, a local transaction is committed: a change of a database, say. Cheap
/// to clone; made by [`ProducerBuilder::transactional`].
///
/// The broker keeps each message back until it is told the decision. If it is not, because this process died or a frame was
/// lost, it asks any live producer of the group, so what was decided has to be found by the message alone.
///
/// ```
/// # use metaq::client::{LocalTransaction, Message};
/// # async fn reserve(id: &str) -> bool { true }
/// # async fn is_reserved(key: Option<&str>) -> bool { true }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (env, data) = (metaq::env::real::env(), tempfile::tempdir()?);
/// # let cluster = metaq::Embedded::start(&env, data.path(), "").await?;
/// # let client = metaq::client::Client::new(&env, cluster.nameserver())?;
/// let producer = client.producer("order-service").transactional(|asked| async move {
///     if is_reserved(asked.keys().next()).await { LocalTransaction::Commit } else { LocalTransaction::Rollback }
/// })?;
/// let order = Message::new("Orders", "a book").key("order-17");
/// let done = producer.send(order, |_| async {
///     if reserve("order-17").await { LocalTransaction::Commit } else { LocalTransaction::Rollback }
/// });
/// let done = done.await?;
/// assert_eq!(done.state, LocalTransaction::Commit);
/// # assert_eq!(done.told, Ok(()));
/// # client.close().await;
/// # cluster.stop().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TransactionProducer {
    producer: Producer,
}

impl ProducerBuilder {
    /// Joins the group as a producer of transactions. `check` is asked about messages whose decision the broker does not
    /// know, perhaps those of another process of the group; of several questions at once each gets a call of its own.
    ///
    /// # Errors
    /// As [`ProducerBuilder::start`].
    pub fn transactional<F, D>(self, check: F) -> Result<TransactionProducer, Error>
    where
        F: Fn(Received) -> D + Send + Sync + 'static,
        D: Future<Output = LocalTransaction> + Send + 'static,
    {
        let checker: Checker = Arc::new(move |message| -> BoxFuture<'static, i32> {
            let decision = check(message);
            Box::pin(async move { decision.await.code() })
        });
        Ok(TransactionProducer { producer: self.join(Some(checker))? })
    }
}

impl TransactionProducer {
    /// Stores a message that nobody sees, runs the local transaction, and tells the broker what became of it.
    ///
    /// The local transaction runs only if the message is as safe as the broker's settings promise; if it is stored, but its
    /// disk or slave was too slow, it is rolled back and the local transaction not run. A delay level of the message does
    /// not count. Dropping the future leaves the decision to the broker's question.
    ///
    /// # Errors
    /// As [`Producer::send`]; the local transaction has not run then. What failed attempts may have stored is asked about
    /// later, under the same message id.
    pub async fn send<F, D>(&self, message: Message, local: F) -> Result<Transacted, SendError>
    where
        F: FnOnce(&Sent) -> D,
        D: Future<Output = LocalTransaction>,
    {
        let inner = &self.producer.inner;
        let half = inner.send_half(message).await?;
        let state = match half.durability {
            Durability::AsAsked => local(&half).await,
            _ => LocalTransaction::Rollback,
        };
        let told = inner.end(&half, state).await;
        if let Err(error) = &told {
            crate::sometimes!("a producer could not end a transaction");
            tracing::warn!(id = half.message_id, %error, "the broker was not told what became of a transaction");
        }
        Ok(Transacted { half, state, told })
    }

    /// The group.
    pub fn group(&self) -> &str {
        self.producer.group()
    }

    /// Leaves the group: others of it are asked from now on.
    pub async fn close(&self) {
        self.producer.close().await;
    }
}

impl Inner {
    async fn send_half(&self, mut message: Message) -> Result<Sent, SendError> {
        message.properties.remove(properties::DELAY);
        let message = message
            .property(properties::TRANSACTION_PREPARED, "true")
            .property(properties::PRODUCER_GROUP, &*self.group);
        message.check(self.settings.body_max)?;
        let mut packet = Packet::of_message(message, &self.client, &self.settings);
        packet.sys_flag |= sys_flag::TRANSACTION_PREPARED;
        let mut sent = self.deliver(packet, Target::Any, self.deadline()).await?;
        sent.pop().ok_or_else(|| Error::Malformed { address: "the broker".into(), what: "no result".into() }.into())
    }

    /// Tells the broker of a half message what was decided. RocketMQ's clients do not wait for the answer.
    async fn end(&self, half: &Sent, state: LocalTransaction) -> Result<(), Error> {
        if state == LocalTransaction::Unknown {
            return Ok(());
        }
        let address = self.client.master(&half.queue.broker_name)?;
        let malformed = |what: String| Error::Malformed { address: address.clone(), what };
        let (_, position) =
            ids::parse_offset_message_id(&half.offset_message_id).map_err(|error| malformed(error.to_string()))?;
        let named = Named {
            topic: Some(half.queue.topic.as_str()),
            group: &self.group,
            id: &half.message_id,
            offset: half.offset,
            position: position.0 as i64,
        };
        self.client.ask(&address, named.end(state.code(), false), END_LIMIT).await.map(drop)
    }
}

/// A half message, as END_TRANSACTION names it.
pub(in crate::client) struct Named<'a> {
    pub topic: Option<&'a str>,
    pub group: &'a str,
    /// The transaction's id: the message's unique key.
    pub id: &'a str,
    /// Its number in the half queue.
    pub offset: i64,
    /// Where in the broker's log it lies.
    pub position: i64,
}

impl Named<'_> {
    /// END_TRANSACTION with a decision; `asked`: as the answer to a question.
    pub fn end(&self, decision: i32, asked: bool) -> Command {
        let header = EndTransaction {
            topic: self.topic.map(Into::into),
            producer_group: self.group.into(),
            tran_state_table_offset: self.offset,
            commit_log_offset: self.position,
            commit_or_rollback: decision,
            from_transaction_check: asked,
            msg_id: Some(self.id.into()),
            transaction_id: Some(self.id.into()),
        };
        Command::request(request::END_TRANSACTION).with_ext(&header)
    }
}
