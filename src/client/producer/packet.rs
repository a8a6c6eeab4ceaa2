//! A message, or a batch, in the form in which it travels: made once, whatever the number of attempts.

use std::sync::Arc;

use smallvec::{smallvec, SmallVec};

use super::options::Settings;
use super::Message;
use crate::client::compression::pack;
use crate::client::error::Error;
use crate::client::instance::Shared;
use crate::env::Millis;
use crate::proto::message::{batch, names, properties};

/// What is sent.
pub(super) struct Packet {
    pub topic: String,
    /// Every attempt sends this one.
    pub body: Arc<Vec<u8>>,
    pub properties: String,
    pub sys_flag: i32,
    pub flag: i32,
    pub born_at: Millis,
    /// The unique key of each message in it.
    pub ids: SmallVec<[String; 1]>,
    pub is_batch: bool,
    /// It answers a request, and goes on to the client that waits for it.
    pub is_reply: bool,
}

/// Whether a message may share a batch with others: RocketMQ delays no batches, and hands none back.
pub(super) fn fits_a_batch(message: &Message) -> bool {
    !message.properties.contains_key(properties::DELAY)
        && !message.properties.keys().any(|name| name.starts_with("TIMER_"))
        && !names::is_retry_topic(&message.topic)
}

impl Packet {
    pub fn of_message(message: Message, client: &Shared, settings: &Settings) -> Packet {
        let born_at = client.env.clock.now();
        let id = client.keys.next(born_at);
        let mut properties = String::with_capacity(64);
        message.encode_properties(&id, &mut properties);
        let compresses = settings.compress_above.is_some_and(|above| message.body.len() >= above);
        let packed = if compresses { pack(settings.compress_with, &message.body) } else { None };
        let (body, sys_flag) = packed.unwrap_or((message.body, 0));
        let is_reply =
            message.properties.get(properties::MESSAGE_TYPE).is_some_and(|kind| kind == super::request::REPLY);
        let Message { topic, flag, .. } = message;
        let body = Arc::new(body);
        Packet { topic, body, properties, sys_flag, flag, born_at, ids: smallvec![id], is_batch: false, is_reply }
    }

    pub fn of_batch(messages: &[Message], client: &Shared, settings: &Settings) -> Result<Packet, Error> {
        let invalid = |what: &str| Err(Error::Invalid(what.to_owned()));
        let Some(first) = messages.first() else { return invalid("the batch is empty") };
        let wait = first.properties.get(properties::WAIT);
        let (born_at, mut ids) = (client.env.clock.now(), SmallVec::with_capacity(messages.len()));
        let (mut body, mut item_properties) = (Vec::new(), String::new());
        for message in messages {
            message.check(settings.body_max)?;
            if message.topic != first.topic {
                return invalid("the messages of a batch have different topics");
            }
            if message.properties.get(properties::WAIT) != wait {
                return invalid("some messages of the batch wait until they are stored, others do not");
            }
            if !fits_a_batch(message) {
                return invalid("a batch cannot hold delayed messages or messages for a retry topic");
            }
            let id = client.keys.next(born_at);
            item_properties.clear();
            message.encode_properties(&id, &mut item_properties);
            let item = batch::Item { flag: message.flag, body: &message.body, properties: &item_properties };
            batch::push_item(&mut body, &item).map_err(|error| Error::Invalid(error.to_string()))?;
            ids.push(id);
        }
        if body.len() > settings.body_max {
            return Err(Error::Invalid(format!("the batch has {} bytes, more than {}", body.len(), settings.body_max)));
        }
        let mut properties = String::new();
        if let Some(wait) = wait {
            properties::append(&mut properties, properties::WAIT, wait);
        }
        let (topic, body) = (first.topic.clone(), Arc::new(body));
        Ok(Packet { topic, body, properties, sys_flag: 0, flag: 0, born_at, ids, is_batch: true, is_reply: false })
    }
}
