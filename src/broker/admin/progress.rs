//! How far groups are: GET_CONSUME_STATS (208), GET_BROKER_CONSUME_STATS (317), QUERY_CONSUME_TIME_SPAN (303).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::broker::clients::Clients;
use crate::broker::directory::Directory;
use crate::broker::offsets::OffsetTable;
use crate::broker::topics::TopicView;
use crate::broker::BrokerError;
use crate::env::Millis;
use crate::proto::body::stats::{ConsumeStatsList, OffsetWrapper, QueryConsumeTimeSpanBody, QueueTimeSpan};
use crate::proto::body::{ConsumeStats, MessageQueue};
use crate::proto::QueueOffset;
use crate::store::{ConsumeQueue, Store};

use super::statistics::Statistics;
use super::{json, unreadable, Answer};

/// Which topics of a group are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// All it has offsets of.
    All,
    /// One.
    Topic(&'a str),
    /// Several, with semicolons between them.
    List(&'a str),
}

impl<'a> Wanted<'a> {
    /// What the fields `topic` and `topicList` ask for; an empty one counts as absent.
    pub fn of(topic: Option<&'a str>, list: Option<&'a str>) -> Wanted<'a> {
        match (topic, list) {
            (Some(topic), _) if !topic.trim().is_empty() => Wanted::Topic(topic),
            (_, Some(list)) if !list.trim().is_empty() => Wanted::List(list),
            _ => Wanted::All,
        }
    }

    pub(super) fn topics(self, group: &str, offsets: &OffsetTable) -> Vec<Arc<str>> {
        match self {
            Wanted::All => offsets.topics_of(group).cloned().collect(),
            Wanted::Topic(topic) => vec![topic.into()],
            Wanted::List(list) => {
                list.split(';').map(str::trim).filter(|topic| !topic.is_empty()).map(Arc::from).collect()
            }
        }
    }
}

/// How far a group is in one topic.
#[derive(Debug)]
pub struct Progress {
    topic: Arc<TopicView>,
    group: Arc<str>,
    /// By queue number: committed and pulled offset.
    queues: Vec<(i64, i64)>,
}

impl Progress {
    /// How far `group` is in `topic`, read queues first; nothing committed counts as 0.
    pub fn of(topic: Arc<TopicView>, group: &str, offsets: &OffsetTable) -> Progress {
        let queue = |id: i32| {
            let committed = offsets.committed_offset(group, topic.name(), id).unwrap_or(0).max(0);
            (committed, offsets.pulled_offset(group, topic.name(), id).unwrap_or(0).max(committed))
        };
        let queues = (0..topic.queues()).map(queue).collect();
        Progress { topic, group: group.into(), queues }
    }

    /// The topic.
    pub fn topic(&self) -> &Arc<str> {
        self.topic.name()
    }
}

/// How far a group is in the topics wanted. Topics that do not exist are left out, and so are those that the group's
/// members, if it has any, do not subscribe to any more.
pub fn progress(
    group: &str,
    wanted: Wanted<'_>,
    topics: &Directory<TopicView>,
    clients: &Clients,
    offsets: &OffsetTable,
) -> Vec<Progress> {
    let info = clients.consumers.info(group);
    let subscribed = |topic: &str| {
        info.as_ref().is_none_or(|info| {
            info.subscriptions.is_empty() || info.subscriptions.iter().any(|known| known.topic == topic)
        })
    };
    let wanted = wanted.topics(group, offsets);
    let existing = wanted.iter().filter(|topic| subscribed(topic)).filter_map(|topic| topics.get(topic));
    existing.map(|topic| Progress::of(topic, group, offsets)).collect()
}

/// 208
pub fn consume_stats(broker: &str, store: &Store, statistics: &Statistics, progress: &[Progress]) -> Answer {
    let mut stats = ConsumeStats::default();
    for one in progress {
        add(&mut stats, broker, store, statistics, one, one.topic.read_queues())?;
    }
    Ok(json(&stats))
}

/// 317: one entry per group, with one entry per topic; with `ordered_only` of ordered topics only.
pub fn broker_consume_stats(
    broker: &str,
    address: &str,
    store: &Store,
    statistics: &Statistics,
    progress: &[Progress],
    ordered_only: bool,
) -> Answer {
    let mut list = ConsumeStatsList { broker_addr: address.to_owned(), ..ConsumeStatsList::default() };
    let mut groups: BTreeMap<&str, Vec<ConsumeStats>> = BTreeMap::new();
    for one in progress.iter().filter(|one| !ordered_only || one.topic.is_order()) {
        let mut stats = ConsumeStats::default();
        add(&mut stats, broker, store, statistics, one, one.topic.write_queues())?;
        list.total_diff = list.total_diff.saturating_add(stats.total_diff());
        list.total_inflight_diff = list.total_inflight_diff.saturating_add(stats.total_inflight_diff());
        groups.entry(&one.group).or_default().push(stats);
    }
    list.consume_stats_list =
        groups.into_iter().map(|(group, stats)| BTreeMap::from([(group.to_owned(), stats)])).collect();
    Ok(json(&list))
}

fn add(
    stats: &mut ConsumeStats,
    broker: &str,
    store: &Store,
    statistics: &Statistics,
    progress: &Progress,
    queues: i32,
) -> Result<(), BrokerError> {
    let topic = progress.topic.name();
    for (id, (committed, pulled)) in (0..queues).zip(&progress.queues) {
        let queue = store.queue(topic, id as u32);
        let offset = OffsetWrapper {
            broker_offset: queue.as_ref().map_or(0, |queue| queue.max().0 as i64),
            consumer_offset: *committed,
            last_timestamp: stored_at(store, queue.as_deref(), committed - 1)?.map_or(0, |time| time.0),
            pull_offset: *pulled,
        };
        stats.offset_table.insert(message_queue(broker, topic, id), offset);
    }
    stats.consume_tps += statistics.get_rate(topic, &progress.group);
    Ok(())
}

/// 303: per write queue the times of its oldest and newest message and of the group's last one, and how long the group's
/// next message has waited. What is not there has the time −1, as in RocketMQ.
pub fn consume_time_span(broker: &str, store: &Store, progress: &Progress, wall: Millis) -> Answer {
    let topic = progress.topic.name();
    let mut body = QueryConsumeTimeSpanBody::default();
    for (id, (committed, _)) in (0..progress.topic.write_queues()).zip(&progress.queues) {
        let queue = store.queue(topic, id as u32);
        let stored = |offset: i64| stored_at(store, queue.as_deref(), offset);
        let time = |offset: i64| stored(offset).map(|time| time.map_or(-1, |time| time.0));
        let (min, max) = queue.as_ref().map_or((0, 0), |queue| (queue.min().0 as i64, queue.max().0 as i64));
        let min_time_stamp = time(min)?;
        let waiting_since = stored((*committed).max(min))?;
        body.consume_time_span_set.push(QueueTimeSpan {
            consume_time_stamp: if *committed > 0 { time(committed - 1)? } else { min_time_stamp },
            delay_time: waiting_since.map_or(0, |since| wall.since(since) as i64),
            max_time_stamp: time(max - 1)?,
            message_queue: message_queue(broker, topic, id),
            min_time_stamp,
        });
    }
    Ok(json(&body))
}

/// When the message `offset` of a queue was stored; nothing if it is not there.
pub(super) fn stored_at(
    store: &Store,
    queue: Option<&ConsumeQueue>,
    offset: i64,
) -> Result<Option<Millis>, BrokerError> {
    match (queue, u64::try_from(offset)) {
        (Some(queue), Ok(offset)) => store.store_time(queue, QueueOffset(offset)).map_err(unreadable),
        _ => Ok(None),
    }
}

pub(super) fn message_queue(broker: &str, topic: &str, queue_id: i32) -> MessageQueue {
    MessageQueue { broker_name: broker.to_owned(), queue_id, topic: topic.to_owned() }
}
