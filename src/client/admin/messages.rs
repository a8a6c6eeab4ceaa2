//! Messages, looked up.

use super::Admin;
use crate::client::error::Error;
use crate::client::message::Received;
use crate::env::Millis;
use crate::proto::body::{from_slice, ConsumeMessageDirectlyResult};
use crate::proto::message::ids::parse_offset_message_id;
use crate::proto::message::properties;
use crate::proto::message::trace::Trace;
use crate::proto::remoting::requests::{ConsumeMessageDirectly, QueryMessage, ViewMessageById};
use crate::proto::remoting::{request, response, Command};

impl Admin {
    /// The message at the place that an offset message id names.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a text that is no such id; [`Error::Refused`] if nothing is there any more.
    pub async fn message_by_id(&self, id: &str) -> Result<Received, Error> {
        let (host, at) = parse_offset_message_id(id).map_err(|error| Error::Invalid(error.to_string()))?;
        let header = ViewMessageById { offset: at.0 as i64, topic: None };
        let command = Command::request(request::VIEW_MESSAGE_BY_ID).with_ext(&header);
        let answer = self.ask(&host.to_string(), command).await?;
        let found = Received::all_in("", &answer.body)?.into_iter().next();
        found.ok_or_else(|| Error::Malformed { address: host.to_string(), what: "no message".into() })
    }

    /// Messages of a topic with a key, stored from `from` to `to`, oldest first; at most `limit` of each broker, which
    /// gives no more than 64.
    ///
    /// # Errors
    /// [`Error::NoRoute`] if there is no such topic.
    pub async fn messages_by_key(
        &self,
        topic: &str,
        key: &str,
        from: Millis,
        to: Millis,
        limit: usize,
    ) -> Result<Vec<Received>, Error> {
        let mut found = self.query(topic, key, from, to, limit, false).await?;
        // The index knows hashes: others may be among them.
        found.retain(|message| message.keys().any(|own| own == key));
        Ok(found)
    }

    /// Messages of a topic with a producer's message id: one, or several if it was sent repeatedly.
    ///
    /// # Errors
    /// [`Error::NoRoute`] if there is no such topic.
    pub async fn messages_by_unique_key(&self, topic: &str, id: &str) -> Result<Vec<Received>, Error> {
        let mut found = self.query(topic, id, Millis(0), Millis(i64::MAX), 32, true).await?;
        found.retain(|message| message.property(properties::UNIQ_KEY) == Some(id));
        Ok(found)
    }

    /// What clients noted in a trace topic about a message, found by either id or by a key; oldest first.
    ///
    /// # Errors
    /// [`Error::NoRoute`] if there is no such topic.
    pub async fn traces(&self, trace_topic: &str, id_or_key: &str) -> Result<Vec<Trace>, Error> {
        let found = self.messages_by_key(trace_topic, id_or_key, Millis(0), Millis(i64::MAX), 64).await?;
        let mut traces: Vec<Trace> = Vec::new();
        for message in found {
            traces.extend(Trace::decode_all(&String::from_utf8_lossy(&message.body)));
        }
        traces.retain(|trace| trace.is_about(id_or_key));
        // Ends that do not tell their time stay behind what was noted before them.
        traces.sort_by_key(|trace| if trace.at == 0 { i64::MAX } else { trace.at });
        Ok(traces)
    }

    async fn query(
        &self,
        topic: &str,
        key: &str,
        from: Millis,
        to: Millis,
        limit: usize,
        unique: bool,
    ) -> Result<Vec<Received>, Error> {
        let header = QueryMessage {
            topic: topic.into(),
            key: key.into(),
            max_num: limit.min(i32::MAX as usize) as i32,
            begin_timestamp: from.0,
            end_timestamp: to.0,
            unique_key_query: unique,
        };
        let command = Command::request(request::QUERY_MESSAGE).with_ext(&header);
        let mut found = Vec::new();
        for (broker, address) in self.masters_of(topic).await? {
            match self.ask(&address, command.clone()).await {
                Ok(answer) => found.extend(Received::all_in(&broker, &answer.body)?),
                Err(error) if error.code() == Some(response::QUERY_NOT_FOUND) => {}
                Err(error) => return Err(error),
            }
        }
        found.sort_by_key(|message| (message.stored_at, message.physical_offset));
        Ok(found)
    }

    /// Has a member of a group consume a message now, out of order, without touching offsets.
    ///
    /// # Errors
    /// [`Error::Refused`] if the member is not connected to the message's broker, or does not answer.
    pub async fn consume_directly(
        &self,
        group: &str,
        client_id: &str,
        offset_message_id: &str,
    ) -> Result<ConsumeMessageDirectlyResult, Error> {
        let (host, _) =
            parse_offset_message_id(offset_message_id).map_err(|error| Error::Invalid(error.to_string()))?;
        let header = ConsumeMessageDirectly {
            consumer_group: group.into(),
            client_id: Some(client_id.into()),
            msg_id: Some(offset_message_id.into()),
            topic: None,
            broker_name: None,
            topic_sys_flag: None,
            group_sys_flag: None,
        };
        let command = Command::request(request::CONSUME_MESSAGE_DIRECTLY).with_ext(&header);
        let answer = self.ask(&host.to_string(), command).await?;
        from_slice(&answer.body)
            .map_err(|error| Error::Malformed { address: host.to_string(), what: error.to_string() })
    }
}
