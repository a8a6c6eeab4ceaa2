//! Topics, groups and settings, administered. A change is saved before it is answered.

use super::{only_on_master, Call, Refused};
use crate::actors::broker::keeper::SettingsError;
use crate::broker::{attributes, BrokerError};
use crate::config::broker::UpdateError;
use crate::proto::body::topic::TopicConfigList;
use crate::proto::body::{
    from_slice, to_vec, GroupForbidden, SubscriptionGroupConfig, SubscriptionGroupList, TopicConfig, TopicFilterType,
};
use crate::proto::message::names;
use crate::proto::remoting::requests::{
    DeleteSubscriptionGroup, DeleteTopicInBroker, GetSubscriptionGroupConfig, GetTopicConfig, UpdateAndCreateTopic,
    UpdateAndGetGroupForbidden,
};
use crate::proto::remoting::{response, Response};

/// 17
pub async fn update_topic(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = UpdateAndCreateTopic::decode(&ext)?;
    let config = TopicConfig {
        attributes: attributes::parse(header.attributes.as_deref().unwrap_or_default()),
        order: header.order,
        perm: header.perm,
        read_queue_nums: header.read_queue_nums,
        topic_filter_type: TopicFilterType::of_name(header.topic_filter_type.as_deref().unwrap_or_default()),
        topic_name: header.topic.into_owned(),
        topic_sys_flag: header.topic_sys_flag,
        write_queue_nums: header.write_queue_nums,
    };
    update_topics(call, vec![config]).await
}

/// 18
pub async fn update_topic_list(call: &Call) -> Result<Response, Refused> {
    let body: TopicConfigList = from_slice(&call.command.body)?;
    update_topics(call, body.topic_config_list).await
}

async fn update_topics(call: &Call, configs: Vec<TopicConfig>) -> Result<Response, Refused> {
    only_on_master(call, "its topics are")?;
    let mut effects = Vec::new();
    call.shared.topics().update(configs, call.shared.wall(), &mut effects)?;
    call.shared.carry_out_now(effects).await?;
    Ok(Response::success())
}

/// 215
pub async fn delete_topic(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = DeleteTopicInBroker::decode(&ext)?;
    only_on_master(call, "its topics are")?;
    let mut effects = Vec::new();
    call.shared.topics().delete(&header.topic, call.shared.wall(), &mut effects)?;
    call.shared.carry_out_now(effects).await?;
    Ok(Response::success())
}

/// 351
pub fn topic_config(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = GetTopicConfig::decode(&ext)?;
    match call.shared.topic_directory.get(&header.topic) {
        Some(topic) => Ok(Response::success().with_body(to_vec(topic.config()))),
        None => Err(BrokerError::TopicConfigMissing { topic: header.topic.into_owned() }.into()),
    }
}

/// 200
pub async fn update_group(call: &Call) -> Result<Response, Refused> {
    update_groups(call, vec![from_slice::<SubscriptionGroupConfig>(&call.command.body)?]).await
}

/// 225
pub async fn update_group_list(call: &Call) -> Result<Response, Refused> {
    let body: SubscriptionGroupList = from_slice(&call.command.body)?;
    update_groups(call, body.group_config_list).await
}

async fn update_groups(call: &Call, configs: Vec<SubscriptionGroupConfig>) -> Result<Response, Refused> {
    only_on_master(call, "its groups are")?;
    let mut effects = Vec::new();
    call.shared.groups().update(configs, call.shared.wall(), &mut effects)?;
    call.shared.carry_out_now(effects).await?;
    Ok(Response::success())
}

/// 207
pub async fn delete_group(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = DeleteSubscriptionGroup::decode(&ext)?;
    only_on_master(call, "its groups are")?;
    let mut effects = Vec::new();
    call.shared.groups().delete(&header.group_name, header.clean_offset, call.shared.wall(), &mut effects);
    call.shared.carry_out_now(effects).await?;
    Ok(Response::success())
}

/// 352
pub async fn group_config(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = GetSubscriptionGroupConfig::decode(&ext)?;
    let mut effects = Vec::new();
    let group = call.shared.groups().find_or_create(&header.group, call.shared.wall(), &mut effects);
    call.shared.carry_out_now(effects).await?;
    match group {
        Some(group) => Ok(Response::success().with_body(to_vec(group.config()))),
        None => Err(BrokerError::GroupConfigMissing { group: header.group.into_owned() }.into()),
    }
}

/// 353
pub async fn group_forbidden(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = UpdateAndGetGroupForbidden::decode(&ext)?;
    names::validate_topic(&header.topic).map_err(BrokerError::from)?;
    if header.readable.is_some() {
        only_on_master(call, "its groups are")?;
    }
    let mut effects = Vec::new();
    let readable = call.shared.groups().set_readable(
        &header.group,
        &header.topic,
        header.readable,
        call.shared.wall(),
        &mut effects,
    )?;
    call.shared.carry_out_now(effects).await?;
    let body = GroupForbidden { group: header.group.into_owned(), readable, topic: header.topic.into_owned() };
    Ok(Response::success().with_body(to_vec(&body)))
}

/// 25. Saved before it is answered.
pub async fn update_config(call: &Call) -> Result<Response, Refused> {
    let text = String::from_utf8_lossy(&call.command.body).into_owned();
    match call.shared.update_settings(text).await? {
        Ok(update) => {
            tracing::info!(now = ?update.now, at_next_start = ?update.at_next_start, "settings were changed by request");
            let remark = Some(update.to_string()).filter(|remark| !remark.is_empty());
            Ok(Response { remark, ..Response::success() })
        }
        Err(error @ SettingsError::Refused(UpdateError::Protected)) => {
            Err(Refused(Response::error(response::NO_PERMISSION, error.to_string())))
        }
        Err(error) => Err(Refused(Response::error(response::SYSTEM_ERROR, error.to_string()))),
    }
}

/// 306, and 329 with `delete`. RocketMQ answers before it is done, and so does this.
pub fn clean(call: &Call, delete: bool) -> Result<Response, Refused> {
    call.shared.clean(delete);
    Ok(Response::success())
}
