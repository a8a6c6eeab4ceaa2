//! Batches that gather by themselves.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::result::{SendError, Sent};
use super::{Inner, Producer, Target};
use crate::client::error::Error;
use crate::client::rules::accumulator::Accumulator;
use crate::client::Message;
use crate::proto::message::{batch::ITEM_OVERHEAD, properties};

/// What the messages of a batch have in common: topic, and whether they wait.
type Kind = (String, Option<String>);

/// A message that waits for its batch, and who waits for it.
pub(super) struct Waiting {
    message: Message,
    reply: oneshot::Sender<Result<Sent, SendError>>,
}

/// The batches of one producer that are open.
pub(super) type Gathering = Accumulator<Kind, Waiting>;

impl Producer {
    /// Sends a message with others.
    pub(super) async fn gather(&self, message: Message) -> Result<Sent, SendError> {
        let settings = &self.inner.settings;
        message.check(settings.body_max)?;
        let kind = (message.topic.clone(), message.properties.get(properties::WAIT).cloned());
        let bytes = size_of(&message);
        let (reply, answer) = oneshot::channel();
        let pushed = {
            let mut gathering = self.inner.gathering.lock().expect("no holder panics");
            gathering.push(&kind, Waiting { message, reply }, bytes)
        };
        for full in pushed.full {
            let inner = Arc::clone(&self.inner);
            ractor::concurrency::spawn(async move { inner.send_gathered(full).await });
        }
        if let Some(number) = pushed.opened {
            let (inner, hold) = (Arc::clone(&self.inner), settings.auto_batch.unwrap_or_default().hold);
            ractor::concurrency::spawn(async move {
                inner.client.env.clock.sleep(hold).await;
                let batch = inner.gathering.lock().expect("no holder panics").take(&kind, number);
                if let Some(batch) = batch {
                    inner.send_gathered(batch).await;
                }
            });
        }
        answer.await.unwrap_or_else(|_| Err(Error::Closed.into()))
    }
}

impl Inner {
    async fn send_gathered(&self, batch: Vec<Waiting>) {
        let (mut messages, replies): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|waiting| (waiting.message, waiting.reply)).unzip();
        let sent = match messages.len() {
            1 => self.send_one(messages.remove(0), Target::Any, self.deadline()).await.map(|sent| vec![sent]),
            _ => self.send_batch(messages).await,
        };
        // Whoever stopped waiting meanwhile is not told.
        match sent {
            Ok(sent) => replies.into_iter().zip(sent).for_each(|(reply, sent)| drop(reply.send(Ok(sent)))),
            Err(error) => replies.into_iter().for_each(|reply| drop(reply.send(Err(error.clone())))),
        }
    }
}

/// Bytes of a message within a batch, with its unique key.
fn size_of(message: &Message) -> usize {
    const KEY_LEN: usize = 64;
    let properties: usize = message.properties.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    message.body.len() + properties + ITEM_OVERHEAD + KEY_LEN
}
