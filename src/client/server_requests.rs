//! What brokers ask of this client.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use tokio::sync::Semaphore;

use super::instance::Shared;
use super::members::GroupMember;
use super::message::Received;
use super::producer::Named;
use crate::actors::net::{Answer, ConnectionHandle, Output, Service};
use crate::proto::body::{from_slice, to_vec, GetConsumerStatusBody, MessageQueue, ResetOffsetBody};
use crate::proto::message::properties;
use crate::proto::remoting::requests::{
    CheckTransactionState, ConsumeMessageDirectly, GetConsumerRunningInfo, GetConsumerStatus, NotifyConsumerIdsChanged,
    PushReplyMessage, ResetConsumerClientOffset,
};
use crate::proto::remoting::{encode_response, request, response, Head, RawFrame, Response};

/// Serves the requests of all connections of one client.
pub(super) struct ServerRequests {
    client: Weak<Shared>,
    /// Questions about transactions that may be open at once.
    checks: Arc<Semaphore>,
}

/// Questions about transactions that wait for their answers at once. The broker asks again for those beyond.
const CHECKS_MAX: usize = 256;

/// An answer at hand, or one on its way.
enum Reply {
    Now(Response),
    Later(crate::env::BoxFuture<'static, Response>),
}

impl ServerRequests {
    pub fn new(client: Weak<Shared>) -> ServerRequests {
        ServerRequests { client, checks: Arc::new(Semaphore::new(CHECKS_MAX)) }
    }

    fn member(&self, group: &str) -> Result<Arc<dyn GroupMember>, Response> {
        let member = self.client.upgrade().and_then(|client| client.consumer(group));
        member.ok_or_else(|| {
            let remark = format!("The Consumer Group <{group}> not exist in this consumer");
            Response::error(response::SYSTEM_ERROR, remark)
        })
    }

    fn reply(&self, head: &Head<'_>, body: &[u8]) -> Result<Reply, Response> {
        match head.code {
            request::NOTIFY_CONSUMER_IDS_CHANGED => {
                let header = NotifyConsumerIdsChanged::decode(&head.ext)?;
                self.member(&header.consumer_group)?.members_changed();
                Ok(Reply::Now(Response::success()))
            }
            request::RESET_CONSUMER_CLIENT_OFFSET => {
                let header = ResetConsumerClientOffset::decode(&head.ext)?;
                let offsets: ResetOffsetBody = read(body)?;
                self.member(&header.group)?.reset(&header.topic, offsets.offset_table);
                Ok(Reply::Now(Response::success()))
            }
            request::GET_CONSUMER_STATUS_FROM_CLIENT => {
                let header = GetConsumerStatus::decode(&head.ext)?;
                let message_queue_table: BTreeMap<MessageQueue, i64> =
                    self.member(&header.group)?.progress(&header.topic);
                let body = GetConsumerStatusBody { message_queue_table, ..GetConsumerStatusBody::default() };
                Ok(Reply::Now(Response::success().with_body(to_vec(&body))))
            }
            request::GET_CONSUMER_RUNNING_INFO => {
                let header = GetConsumerRunningInfo::decode(&head.ext)?;
                let info = self.member(&header.consumer_group)?.running_info();
                Ok(Reply::Now(Response::success().with_body(info)))
            }
            request::CONSUME_MESSAGE_DIRECTLY => {
                let header = ConsumeMessageDirectly::decode(&head.ext)?;
                let member = self.member(&header.consumer_group)?;
                let broker = header.broker_name.unwrap_or_default();
                let message = one_message(&broker, body)?;
                Ok(Reply::Later(Box::pin(async move {
                    Response::success().with_body(to_vec(&member.consume_directly(message).await))
                })))
            }
            request::PUSH_REPLY_MESSAGE_TO_CLIENT => {
                let reply = Received::of_reply(&PushReplyMessage::decode(&head.ext)?, body);
                if let Some(client) = self.client.upgrade() {
                    client.requests.replied(reply);
                }
                Ok(Reply::Now(Response::success()))
            }
            code => Err(Response::not_supported(code)),
        }
    }
}

fn read<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, Response> {
    from_slice(body).map_err(|error| Response::error(response::SYSTEM_ERROR, error.to_string()))
}

fn one_message(broker: &str, body: &[u8]) -> Result<Received, Response> {
    let illegal = |what: String| Response::error(response::SYSTEM_ERROR, what);
    let mut messages = Received::all_in(broker, body).map_err(|error| illegal(error.to_string()))?;
    messages.pop().ok_or_else(|| illegal("the body is no message".into()))
}

impl Service for ServerRequests {
    type Connection = ConnectionHandle;

    fn connected(&self, connection: ConnectionHandle, _: SocketAddr) -> ConnectionHandle {
        connection
    }

    fn request(
        &self,
        connection: &mut ConnectionHandle,
        head: &Head<'_>,
        frame: &RawFrame<'_>,
        output: &mut Output,
    ) -> Result<(), String> {
        if head.code == request::CHECK_TRANSACTION_STATE {
            if let Err(error) = self.check(connection, head, frame.body) {
                // TXN-8: an error, not silence.
                tracing::warn!(%error, "a question about a transaction is not answered");
                return self.write(head, frame, output, Reply::Now(Response::error(response::SYSTEM_ERROR, error)));
            }
            return self.write(head, frame, output, Reply::Now(Response::success()));
        }
        let reply = self.reply(head, frame.body).unwrap_or_else(Reply::Now);
        self.write(head, frame, output, reply)
    }

    fn submit(&self, _: &mut ConnectionHandle, _: &mut Output) {}

    fn disconnected(&self, _: ConnectionHandle) {}
}

impl ServerRequests {
    /// Has the question answered by the producer of the message's group: over the connection on which it came, once it
    /// is known.
    fn check(&self, connection: &ConnectionHandle, head: &Head<'_>, body: &[u8]) -> Result<(), String> {
        let header = CheckTransactionState::decode(&head.ext).map_err(|error| error.to_string())?;
        let broker = header.broker_name.unwrap_or_default();
        let message = one_message(&broker, body).map_err(|error| error.remark.unwrap_or_default())?;
        let group =
            message.property(properties::PRODUCER_GROUP).ok_or("the message names no producer group")?.to_owned();
        let client = self.client.upgrade().ok_or("the client is closed")?;
        let checker = client.checker(&group);
        let checker =
            checker.ok_or_else(|| format!("no producer of group `{group}` here decides about transactions"))?;
        let turn = Arc::clone(&self.checks).try_acquire_owned();
        let turn = turn.map_err(|_| format!("{CHECKS_MAX} questions wait for their answers already"))?;
        let (offset, position) = (header.tran_state_table_offset, header.commit_log_offset);
        let connection = connection.clone();
        ractor::concurrency::spawn(async move {
            let (topic, id) = (message.topic.clone(), message.message_id());
            let decision = checker(message).await;
            let named = Named { topic: Some(&topic), group: &group, id: &id, offset, position };
            // If it does not arrive, the broker asks again.
            let _ = connection.send_one_way(named.end(decision, true).oneway());
            drop(turn);
        });
        Ok(())
    }

    fn write(&self, head: &Head<'_>, frame: &RawFrame<'_>, output: &mut Output, reply: Reply) -> Result<(), String> {
        if head.is_oneway() {
            return Ok(());
        }
        let (serialization, opaque) = (frame.serialization, head.opaque);
        match reply {
            Reply::Now(response) => encode_response(&mut output.bytes, serialization, opaque, &response),
            Reply::Later(response) => output.later(Box::pin(async move {
                let response = response.await;
                let write = move |out: &mut Vec<u8>| encode_response(out, serialization, opaque, &response);
                Some(Box::new(write) as Answer)
            })),
        }
        Ok(())
    }
}
