//! Questions of tools to one consumer, passed on to it and back.

use std::time::Duration;

use super::{Call, Refused};
use crate::actors::broker::errors::store_failure;
use crate::actors::net::CallError;
use crate::broker::BrokerError;
use crate::proto::message::ids;
use crate::proto::remoting::requests::{ConsumeMessageDirectly, GetConsumerRunningInfo};
use crate::proto::remoting::{request, response, version, Command, Response};
use crate::store::StoreError;

/// How long a client may take for its answer.
const LIMIT: Duration = Duration::from_secs(10);

/// 307
pub async fn running_info(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = GetConsumerRunningInfo::decode(&ext)?;
    let mut command = Command::request(request::GET_CONSUMER_RUNNING_INFO);
    command.ext.clone_from(&call.command.ext);
    relay(call, &header.consumer_group, &header.client_id, command).await
}

/// 309. The client gets the message's record with the request.
pub async fn consume_directly(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = ConsumeMessageDirectly::decode(&ext)?;
    let shared = &call.shared;
    let mut command = Command::request(request::CONSUME_MESSAGE_DIRECTLY);
    command.ext.clone_from(&call.command.ext);
    if let Some(id) = &header.msg_id {
        let (_, at) = ids::parse_offset_message_id(id)
            .map_err(|error| Refused(Response::error(response::SYSTEM_ERROR, error.to_string())))?;
        shared.store.record_at(at, &mut command.body).map_err(|error| match error {
            StoreError::NoRecord { at } => BrokerError::NoRecord { offset: at.0 as i64 },
            error => store_failure(&error),
        })?;
        command.ext.set("brokerName", &shared.settings().config.broker_name);
    }
    if let Some(topic) = header.topic.as_deref().and_then(|topic| shared.topic_directory.get(topic)) {
        command.ext.set("topicSysFlag", &topic.config().topic_sys_flag.to_string());
    }
    if let Some(group) = shared.group_directory.get(&header.consumer_group) {
        command.ext.set("groupSysFlag", &group.config().group_sys_flag.to_string());
    }
    relay(call, &header.consumer_group, header.client_id.as_deref().unwrap_or_default(), command).await
}

/// The client's answer as it is.
async fn relay(call: &Call, group: &str, client: &str, command: Command) -> Result<Response, Refused> {
    let shared = &call.shared;
    let absent = || BrokerError::ClientNotOnline { group: group.to_owned(), client: client.to_owned() };
    let member = shared.clients().consumers.connection_of(group, client).map(|member| member.connection);
    let member = member.ok_or_else(absent)?;
    if member.version < version::V3_1_8_SNAPSHOT {
        return Err(
            BrokerError::ClientTooOld { client: client.to_owned(), version: version::name(member.version) }.into()
        );
    }
    let handle = shared.connections().get(&member.id).cloned().ok_or_else(absent)?;
    match handle.call(&*shared.env.clock, command, LIMIT).await {
        Ok(Command { code, remark, ext, body, .. }) => {
            Ok(Response { code, remark, ext: Vec::new(), body }.with_fields_of_peer(&ext))
        }
        Err(CallError::TimedOut) => {
            let timeout_ms = LIMIT.as_millis() as u64;
            Err(BrokerError::ClientTimeout { group: group.to_owned(), client: client.to_owned(), timeout_ms }.into())
        }
        Err(CallError::Closed | CallError::Busy) => Err(absent().into()),
    }
}
