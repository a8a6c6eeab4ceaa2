//! Requests other than sends and pulls. Each handler is an async function from a call to its answer; it may wait for
//! files or for other actors, and holds no lock while it does.

mod admin;
mod clients;
mod exports;
mod messages;
mod modes;
mod offsets;
mod recall;
mod relays;
mod replies;
mod resets;
mod send_back;
mod slaves;
mod statistics;
mod timers;
mod transactions;

use std::net::SocketAddr;
use std::sync::Arc;

use super::errors::refusal;
use super::shared::Shared;
use crate::actors::net::ConnectionHandle;
use crate::broker::BrokerError;
use crate::proto::remoting::{own_request, request, response, Command, ExtFields, FieldError, HeadError, Response};

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

/// Refuses on a slave what would be lost there when it next hears from its master.
///
/// # Errors
/// [`BrokerError::ChangeOnSlave`]; `what` says what is the master's.
pub fn only_on_master(call: &Call, what: &'static str) -> Result<(), Refused> {
    match call.shared.role.takes_writes() {
        true => Ok(()),
        false => Err(BrokerError::ChangeOnSlave { what }.into()),
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
        request::RECALL_MESSAGE => recall::recall(&call).await,
        request::END_TRANSACTION => transactions::end(&call).await,
        request::RESUME_CHECK_HALF_MESSAGE => transactions::resume(&call).await,
        request::QUERY_MESSAGE => messages::query(&call),
        request::VIEW_MESSAGE_BY_ID => messages::view(&call),
        request::SEND_REPLY_MESSAGE | request::SEND_REPLY_MESSAGE_V2 => replies::reply(&call).await,
        request::INVOKE_BROKER_TO_RESET_OFFSET => resets::reset(&call).await,
        request::INVOKE_BROKER_TO_GET_CONSUMER_STATUS => resets::consumer_status(&call).await,
        request::GET_CONSUMER_RUNNING_INFO => relays::running_info(&call).await,
        request::CONSUME_MESSAGE_DIRECTLY => relays::consume_directly(&call).await,
        request::GET_ALL_TOPIC_CONFIG => Ok(exports::topics(&call)),
        request::GET_ALL_CONSUMER_OFFSET => Ok(exports::consumer_offsets(&call)),
        request::GET_ALL_DELAY_OFFSET => Ok(exports::delay_offsets(&call)),
        request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG => Ok(exports::groups(&call)),
        own_request::WAIT_METADATA_CHANGE => slaves::wait_metadata_change(&call).await,
        own_request::GET_KEPT_OFFSETS => Ok(slaves::kept_offsets(&call)),
        own_request::GET_DELETED_TOPICS => slaves::deleted_topics(&call).await,
        own_request::GET_STANDING => Ok(slaves::standing(&call)),
        own_request::SUPERSEDE => slaves::supersede(&call),
        own_request::LEAVE_MASTER => slaves::leave_master(&call).await,
        own_request::PROMOTE_BROKER => slaves::promote(&call).await,
        request::GET_BROKER_HA_STATUS => Ok(slaves::ha_status(&call)),
        request::EXCHANGE_BROKER_HA_INFO => slaves::ha_info(&call),
        request::GET_TIMER_CHECK_POINT => Ok(timers::checkpoint(&call)),
        request::GET_TIMER_METRICS => Ok(timers::metrics(&call)),
        request::SET_MESSAGE_REQUEST_MODE => modes::set(&call),
        request::GET_ALL_MESSAGE_REQUEST_MODE => Ok(modes::all()),
        request::HEART_BEAT => clients::heartbeat(&call).await,
        request::UNREGISTER_CLIENT => clients::unregister(&call).await,
        request::GET_CONSUMER_LIST_BY_GROUP => clients::consumer_list(&call),
        request::LOCK_BATCH_MQ => clients::lock_batch(&call).await,
        request::UNLOCK_BATCH_MQ => clients::unlock_batch(&call),
        request::CHECK_CLIENT_CONFIG => clients::check_config(&call),
        request::QUERY_CONSUMER_OFFSET => offsets::query(&call),
        request::UPDATE_CONSUMER_OFFSET => offsets::update(&call),
        request::GET_MAX_OFFSET => offsets::max(&call),
        request::GET_MIN_OFFSET => offsets::min(&call),
        request::SEARCH_OFFSET_BY_TIMESTAMP => offsets::search(&call),
        request::GET_EARLIEST_MSG_STORETIME => offsets::earliest_store_time(&call),
        request::UPDATE_AND_CREATE_TOPIC => admin::update_topic(&call).await,
        request::UPDATE_AND_CREATE_TOPIC_LIST => admin::update_topic_list(&call).await,
        request::DELETE_TOPIC_IN_BROKER => admin::delete_topic(&call).await,
        request::GET_TOPIC_CONFIG => admin::topic_config(&call),
        request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP => admin::update_group(&call).await,
        request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST => admin::update_group_list(&call).await,
        request::DELETE_SUBSCRIPTIONGROUP => admin::delete_group(&call).await,
        request::GET_SUBSCRIPTIONGROUP_CONFIG => admin::group_config(&call).await,
        request::UPDATE_AND_GET_GROUP_FORBIDDEN => admin::group_forbidden(&call).await,
        request::CLEAN_EXPIRED_CONSUMEQUEUE => admin::clean(&call, false),
        request::DELETE_EXPIRED_COMMITLOG => admin::clean(&call, true),
        request::UPDATE_BROKER_CONFIG => admin::update_config(&call).await,
        request::GET_BROKER_CONFIG => statistics::config(&call),
        request::GET_BROKER_RUNTIME_INFO => statistics::runtime(&call),
        request::GET_TOPIC_STATS_INFO => statistics::topic_stats(&call),
        request::GET_CONSUMER_CONNECTION_LIST => statistics::consumer_connections(&call),
        request::GET_PRODUCER_CONNECTION_LIST => statistics::producer_connections(&call),
        request::GET_ALL_PRODUCER_INFO => statistics::all_producers(&call),
        request::GET_CONSUME_STATS => statistics::consume_stats(&call),
        request::GET_BROKER_CONSUME_STATS => statistics::broker_consume_stats(&call),
        request::QUERY_CONSUME_TIME_SPAN => statistics::consume_time_span(&call),
        request::QUERY_TOPIC_CONSUME_BY_WHO => statistics::groups_of_topic(&call),
        request::QUERY_TOPICS_BY_CONSUMER => statistics::topics_of_group(&call),
        request::QUERY_SUBSCRIPTION_BY_CONSUMER => statistics::subscription(&call),
        request::GET_SYSTEM_TOPIC_LIST_FROM_BROKER => statistics::system_topics(&call),
        request::QUERY_CORRECTION_OFFSET => statistics::correction_offsets(&call),
        request::VIEW_BROKER_STATS_DATA => statistics::stats(&call),
        request::QUERY_CONSUME_QUEUE => statistics::queue_entries(&call),
        request::CLONE_GROUP_OFFSET => statistics::clone_offsets(&call).await,
        request::CLEAN_UNUSED_TOPIC => statistics::clean_unused_topics(&call).await,
        code => Ok(Response::not_supported(code)),
    };
    answer.unwrap_or_else(|refused| refused.0)
}
