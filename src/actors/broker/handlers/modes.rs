//! How groups consume a topic: everybody pulls here, POP is not there yet.

use super::{only_on_master, Call, Refused};
use crate::broker::BrokerError;
use crate::proto::body::{from_slice, MessageRequestMode, SetMessageRequestModeRequestBody};
use crate::proto::message::names;
use crate::proto::remoting::{request, response, Response};

/// 401. To pull is what every group does already; to pop is refused as POP itself is.
pub fn set(call: &Call) -> Result<Response, Refused> {
    let SetMessageRequestModeRequestBody { consumer_group, mode, topic, .. } = from_slice(&call.command.body)?;
    only_on_master(call, "the mode of a group")?;
    if names::is_retry_topic(&topic) {
        let what = "retry topic is not allowed to set mode";
        return Ok(Response::error(response::NO_PERMISSION, what));
    }
    if call.shared.topic_directory.get(&topic).is_none() {
        return Err(BrokerError::ResetTopicNotExist { topic }.into());
    }
    if call.shared.group_directory.get(&consumer_group).is_none() {
        return Err(BrokerError::ResetGroupNotExist { group: consumer_group }.into());
    }
    match mode {
        MessageRequestMode::Pull => Ok(Response::success()),
        MessageRequestMode::Pop => Ok(Response::not_supported(request::SET_MESSAGE_REQUEST_MODE)),
    }
}

/// 402, as a slave asks it: no group has a mode other than the default.
pub fn all() -> Response {
    Response::success().with_body(r#"{"messageRequestModeMap":{}}"#)
}
