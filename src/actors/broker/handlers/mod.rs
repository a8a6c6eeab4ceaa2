//! Requests other than sends and pulls. Each handler is an async function from a call to its answer; it may wait for
//! files or for other actors, and holds no lock while it does.

mod clients;
mod exports;
mod messages;
mod offsets;
mod relays;
mod replies;
mod resets;
mod send_back;

use std::net::SocketAddr;
use std::sync::Arc;

use super::errors::refusal;
use super::shared::Shared;
use crate::actors::net::ConnectionHandle;
use crate::broker::BrokerError;
use crate::proto::remoting::{Command, ExtFields, FieldError, HeadError, Response, request, response};

/// A request and where it came from.
pub struct Call {
    /// The broker's state.
    pub shared: Arc<Shared>,
    /// The connection it came over.
    pub connection: ConnectionHandle,
    /// The peer's address.
    pub peer: SocketAddr,
    /// The request.
    pub command: Command,
}

impl Call {
    /// The request's fields.
    ///
    /// # Errors
    /// If there are too many.
    pub fn ext(&self) -> Result<ExtFields<'_>, Refused> {
        Ok(self.command.ext_fields()?)
    }
}

/// A request that is answered with an error.
#[derive(Debug)]
pub struct Refused(pub Response);

impl From<BrokerError> for Refused {
    fn from(error: BrokerError) -> Self {
        Refused(refusal(&error))
    }
}

impl From<FieldError> for Refused {
    fn from(error: FieldError) -> Self {
        Refused(Response::from(error))
    }
}

impl From<HeadError> for Refused {
    fn from(error: HeadError) -> Self {
        Refused(Response::error(response::SYSTEM_ERROR, error.to_string()))
    }
}

impl From<crate::proto::body::JsonError> for Refused {
    fn from(error: crate::proto::body::JsonError) -> Self {
        Refused(Response::error(response::SYSTEM_ERROR, format!("the body cannot be read: {error}")))
    }
}

/// What could not be saved.
impl From<String> for Refused {
    fn from(what: String) -> Self {
        Refused(Response::error(response::SYSTEM_ERROR, what))
    }
}

/// Answers a request.
pub async fn handle(call: Call) -> Response {
    let answer = match call.command.code {
        request::CONSUMER_SEND_MSG_BACK => send_back::send_back(&call).await,
        request::QUERY_MESSAGE => messages::query(&call),
        request::VIEW_MESSAGE_BY_ID => messages::view(&call),
        request::SEND_REPLY_MESSAGE | request::SEND_REPLY_MESSAGE_V2 => replies::reply(&call).await,
        request::INVOKE_BROKER_TO_RESET_OFFSET => resets::reset(&call).await,
        request::INVOKE_BROKER_TO_GET_CONSUMER_STATUS => resets::consumer_status(&call).await,
        request::CLONE_GROUP_OFFSET => resets::clone_group(&call).await,
        request::GET_CONSUMER_RUNNING_INFO => relays::running_info(&call).await,
        request::CONSUME_MESSAGE_DIRECTLY => relays::consume_directly(&call).await,
        request::GET_ALL_TOPIC_CONFIG => Ok(exports::topics(&call)),
        request::GET_ALL_CONSUMER_OFFSET => Ok(exports::consumer_offsets(&call)),
        request::GET_ALL_DELAY_OFFSET => Ok(exports::delay_offsets(&call)),
        request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG => Ok(exports::groups(&call)),
        request::HEART_BEAT => clients::heartbeat(&call).await,
        request::UNREGISTER_CLIENT => clients::unregister(&call).await,
        request::GET_CONSUMER_LIST_BY_GROUP => clients::consumer_list(&call),
        request::LOCK_BATCH_MQ => clients::lock_batch(&call),
        request::UNLOCK_BATCH_MQ => clients::unlock_batch(&call),
        request::CHECK_CLIENT_CONFIG => clients::check_config(&call),
        request::QUERY_CONSUMER_OFFSET => offsets::query(&call),
        request::UPDATE_CONSUMER_OFFSET => offsets::update(&call),
        request::GET_MAX_OFFSET => offsets::max(&call),
        request::GET_MIN_OFFSET => offsets::min(&call),
        request::SEARCH_OFFSET_BY_TIMESTAMP => offsets::search(&call),
        request::GET_EARLIEST_MSG_STORETIME => offsets::earliest_store_time(&call),
        code => Ok(Response::not_supported(code)),
    };
    answer.unwrap_or_else(|refused| refused.0)
}
