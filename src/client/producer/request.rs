//! Requests that another group answers, and answers to such requests.
//!
//! A request is a message like any other that says who waits for an answer. The answer goes to the broker that the request
//! lay at, which knows the one who waits by its heartbeats and hands it over.

use std::sync::Arc;
use std::time::Duration;

use super::{Message, MessageQueue, Producer, SendError, Sent, Target};
use crate::client::error::Error;
use crate::client::instance::Shared;
use crate::client::message::Received;
use crate::client::requests::Waiting;
use crate::client::timing::{within, Deadline};
use crate::proto::message::properties;

/// What replies say they are.
pub(super) const REPLY: &str = "reply";

/// A request without a reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// It could not be sent. If [`SendError::may_be_stored`], somebody may have got it all the same.
    #[error("the request was not sent: {0}")]
    NotSent(#[from] SendError),
    /// It was sent, and nobody replied in time. It may be consumed yet.
    #[error("no reply came within {} ms", after.as_millis())]
    NoReply {
        /// How long it was waited for.
        after: Duration,
    },
}

impl Producer {
    /// Sends a message and waits until a consumer has [replied](Producer::reply) to it, `limit` at most.
    ///
    /// # Errors
    /// [`RequestError`]; either way the request may have been consumed.
    pub async fn request(&self, message: Message, limit: Duration) -> Result<Received, RequestError> {
        let client = &self.inner.client;
        let clock = &*client.env.clock;
        let deadline = Deadline::after(clock, limit);
        self.introduce(&message.topic).await?;
        let id = client.keys.next(client.env.clock.now());
        let mut waiting = Waiting::new(client, &id);
        let message = message
            .property(properties::CORRELATION_ID, &id)
            .property(properties::REPLY_TO_CLIENT, &client.id)
            .property(properties::TTL, limit.as_millis().to_string());
        let sent =
            within(clock, deadline.left(clock), self.inner.send_one(message, Target::Any, self.inner.deadline())).await;
        // If somebody may have got it all the same, the reply would say so.
        if let Some(Err(error)) = sent.as_ref().filter(|sent| sent.as_ref().is_err_and(|error| !error.may_be_stored()))
        {
            return Err(RequestError::NotSent(error.clone()));
        }
        let reply = within(clock, deadline.left(clock), waiting.reply()).await.flatten();
        match (reply, sent) {
            (Some(reply), _) => Ok(reply),
            (None, Some(Err(error))) => Err(RequestError::NotSent(error)),
            (None, _) => Err(RequestError::NoReply { after: limit }),
        }
    }

    /// Replies to a request that was consumed. When this returns `Ok`, the one who waits has the reply.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the message is no request; [`Error::Refused`] if nobody waits for the reply any more.
    pub async fn reply(&self, request: &Received, body: impl Into<Vec<u8>>) -> Result<Sent, SendError> {
        let property = |name: &'static str| {
            let missing = || Error::Invalid(format!("the message is no request: it has no property `{name}`"));
            request.property(name).ok_or_else(missing)
        };
        let topic = format!("{}_REPLY_TOPIC", property(properties::CLUSTER)?);
        let queue = MessageQueue { topic, broker_name: request.queue.broker_name.clone(), queue_id: 0 };
        let mut reply = Message::new(queue.topic.clone(), body)
            .property(properties::MESSAGE_TYPE, REPLY)
            .property(properties::CORRELATION_ID, property(properties::CORRELATION_ID)?)
            .property(properties::REPLY_TO_CLIENT, property(properties::REPLY_TO_CLIENT)?);
        if let Some(ttl) = request.property(properties::TTL) {
            reply = reply.property(properties::TTL, ttl);
        }
        self.inner.send_unnoticed(reply, Target::Queue(queue)).await
    }

    /// Sees to it that the topic's brokers know this client, so that they can hand it replies.
    async fn introduce(&self, topic: &str) -> Result<(), SendError> {
        let client: &Arc<Shared> = &self.inner.client;
        if client.requests.is_introduced(topic) {
            return Ok(());
        }
        self.inner.route(topic).await?;
        client.heartbeat_all().await;
        client.requests.introduced(topic);
        Ok(())
    }
}
