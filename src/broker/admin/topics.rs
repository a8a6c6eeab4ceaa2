//! Topics and groups one by one: 202, 300, 305, 316, 343, 351, 352, 353.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::broker::clients::Clients;
use crate::broker::groups::GroupView;
use crate::broker::offsets::OffsetTable;
use crate::broker::topics::{TopicTable, TopicView};
use crate::broker::BrokerError;
use crate::proto::body::stats::TopicOffset;
use crate::proto::body::{GroupForbidden, GroupList, TopicList, TopicStatsTable};
use crate::store::Store;

use super::progress::{message_queue, stored_at};
use super::statistics::Statistics;
use super::{json, Answer};

/// 202: every queue of the topic, those never written included.
pub fn topic_stats(
    broker: &str,
    topic: &str,
    view: Option<&TopicView>,
    store: &Store,
    statistics: &Statistics,
) -> Answer {
    let view = view.ok_or_else(|| BrokerError::StatsTopicNotExist { topic: topic.to_owned() })?;
    let mut stats = TopicStatsTable { topic_put_tps: statistics.put_rate(topic), ..TopicStatsTable::default() };
    for id in 0..view.queues() {
        let queue = store.queue(topic, id as u32);
        let (min, max) = queue.as_ref().map_or((0, 0), |queue| (queue.min().0 as i64, queue.max().0 as i64));
        let newest = stored_at(store, queue.as_deref(), max - 1)?;
        let offset =
            TopicOffset { last_update_timestamp: newest.map_or(0, |time| time.0), max_offset: max, min_offset: min };
        stats.offset_table.insert(message_queue(broker, topic, id), offset);
    }
    Ok(json(&stats))
}

/// 300: groups with a member that subscribes to the topic, groups with offsets in it, groups that pull from it.
pub fn groups_of_topic(topic: &str, clients: &Clients, offsets: &OffsetTable) -> Answer {
    let known = clients.consumers.groups_of(topic).chain(offsets.groups_of(topic));
    let known = known.chain(clients.pull_subscriptions.groups_of(topic));
    Ok(json(&GroupList { group_list: known.map(|group| group.to_string()).collect() }))
}

/// 343: the topics a group has offsets of.
pub fn topics_of_group(group: &str, address: &str, offsets: &OffsetTable) -> Answer {
    let topic_list = offsets.topics_of(group).map(|topic| topic.to_string()).collect();
    Ok(json(&TopicList { broker_addr: Some(address.to_owned()), topic_list }))
}

/// 305
pub fn system_topics(topics: &TopicTable) -> Answer {
    let system = topics.iter().map(|view| view.name()).filter(|name| topics.is_system(name));
    Ok(json(&TopicList { topic_list: system.map(|name| name.to_string()).collect(), broker_addr: None }))
}

/// 316: topics that have queues and no configuration. The caller deletes them, as it does a topic that is deleted by
/// request. Queues of the system's topics stay, whatever the configuration says.
pub fn unused_topics(stored: &[Arc<str>], topics: &TopicTable) -> BTreeSet<Arc<str>> {
    let unused = |topic: &&Arc<str>| topics.get(topic).is_none() && !topics.is_system(topic);
    stored.iter().filter(unused).cloned().collect()
}

/// 351
pub fn topic_config(topic: &str, view: Option<&TopicView>) -> Answer {
    let view = view.ok_or_else(|| BrokerError::TopicConfigMissing { topic: topic.to_owned() })?;
    Ok(json(view.config()))
}

/// 352, after the group was made if the settings allow it.
pub fn group_config(group: &str, view: Option<&GroupView>) -> Answer {
    let view = view.ok_or_else(|| BrokerError::GroupConfigMissing { group: group.to_owned() })?;
    Ok(json(view.config()))
}

/// 353, after the change.
pub fn group_forbidden(group: &str, topic: &str, readable: bool) -> Answer {
    Ok(json(&GroupForbidden { group: group.to_owned(), readable, topic: topic.to_owned() }))
}
