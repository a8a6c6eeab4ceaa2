//! What brokers ask of this client.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use super::instance::Shared;
use super::members::GroupMember;
use super::message::Received;
use crate::actors::net::{Answer, ConnectionHandle, Output, Service};
use crate::proto::body::{from_slice, to_vec, GetConsumerStatusBody, MessageQueue, ResetOffsetBody};
use crate::proto::remoting::requests::{
    ConsumeMessageDirectly, GetConsumerRunningInfo, GetConsumerStatus, NotifyConsumerIdsChanged, PushReplyMessage,
    ResetConsumerClientOffset,
};
use crate::proto::remoting::{encode_response, request, response, Head, RawFrame, Response};

/// Serves the requests of all connections of one client.
pub(super) struct ServerRequests {
    client: Weak<Shared>,
}

/// An answer at hand, or one on its way.
enum Reply {
    Now(Response),
    Later(crate::env::BoxFuture<'static, Response>),
}

impl ServerRequests {
    pub fn new(client: Weak<Shared>) -> ServerRequests {
        ServerRequests { client }
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
            // Transactions belong to producers that this client does not have yet.
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
    type Connection = ();

    fn connected(&self, _: ConnectionHandle, _: SocketAddr) {}

    fn request(&self, _: &mut (), head: &Head<'_>, frame: &RawFrame<'_>, output: &mut Output) -> Result<(), String> {
        let reply = self.reply(head, frame.body).unwrap_or_else(Reply::Now);
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

    fn submit(&self, _: &mut (), _: &mut Output) {}

    fn disconnected(&self, _: ()) {}
}
