//! Looking into a broker: what it has, how far its groups are, who is connected.

use super::{only_on_master, Call, Refused};
use crate::actors::broker::delay;
use crate::actors::broker::shared::Shared;
use crate::broker::admin::progress::{progress, Progress, Wanted};
use crate::broker::admin::queues::{asked_subscription, entries, EntryQuery};
use crate::broker::admin::runtime::{broker_config, runtime_info, stats_data, Copies, Copy, RuntimeFacts};
use crate::broker::admin::{clients, offsets, progress as consumption, topics};
use crate::broker::timer::record::TIMER_QUEUE;
use crate::broker::{BrokerError, Effect};
use crate::ha::replicas::{SlaveId, SlaveView};
use crate::proto::message::system;
use crate::proto::remoting::requests::{
    CloneGroupOffset, GetBrokerConsumeStats, GetConsumeStats, GetConsumerConnectionList, GetProducerConnectionList,
    GetTopicStatsInfo, QueryConsumeQueue, QueryConsumeTimeSpan, QueryCorrectionOffset, QuerySubscriptionByConsumer,
    QueryTopicConsumeByWho, QueryTopicsByConsumer, ViewBrokerStatsData,
};
use crate::proto::remoting::Response;
use crate::proto::QueueOffset;
use std::sync::atomic::Ordering;

/// 26
pub fn config(call: &Call) -> Result<Response, Refused> {
    let version = call.shared.topics().version();
    Ok(broker_config(&call.shared.settings().stored, &version)?)
}

/// 28
pub fn runtime(call: &Call) -> Result<Response, Refused> {
    let shared = &call.shared;
    let settings = shared.settings();
    let options = shared.store.options();
    let space = |path: &std::path::Path| shared.env.disk.space(path).ok();
    let status = shared.ha.status();
    let slaves: Vec<Copy> = status.slaves.into_iter().map(copy).collect();
    let copies = Copies { needed: status.needed, in_sync: status.in_sync, slaves: &slaves };
    let facts = RuntimeFacts {
        config: &settings.config,
        started: shared.started,
        wall: shared.wall(),
        space: (space(&options.commit_log_dir), space(shared.store.root())),
        delays: &delay::progress(shared),
        parked_pulls: shared.parked_pulls.load(Ordering::Relaxed),
        copies: (!status.is_slave).then_some(copies),
        timer: shared.timer.facts(shared.wall(), timed_end(shared)),
    };
    Ok(runtime_info(&facts, &shared.store, &shared.statistics)?)
}

fn copy(slave: SlaveView) -> Copy {
    let name = match slave.id {
        SlaveId::Broker(id) => id.to_string(),
        SlaveId::Machine(address) => address.to_string(),
    };
    Copy { name, behind: slave.behind, behind_ms: slave.behind_ms, in_sync: slave.in_sync }
}

/// Where the timer topic ends.
fn timed_end(shared: &Shared) -> QueueOffset {
    let queue = shared.store.queue(system::TIMER_TOPIC, TIMER_QUEUE);
    queue.map_or(QueueOffset(0), |queue| queue.max())
}

/// 202
pub fn topic_stats(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = GetTopicStatsInfo::decode(&ext)?;
    let shared = &call.shared;
    let view = shared.topic_directory.get(&header.topic);
    let broker = &shared.settings().config.broker_name;
    Ok(topics::topic_stats(broker, &header.topic, view.as_deref(), &shared.store, &shared.statistics)?)
}

/// 203
pub fn consumer_connections(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = GetConsumerConnectionList::decode(&ext)?;
    Ok(clients::consumer_connections(&header.consumer_group, &call.shared.clients())?)
}

/// 204
pub fn producer_connections(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = GetProducerConnectionList::decode(&ext)?;
    Ok(clients::producer_connections(&header.producer_group, &call.shared.clients())?)
}

/// 328
pub fn all_producers(call: &Call) -> Result<Response, Refused> {
    let shared = &call.shared;
    Ok(clients::all_producers(&shared.clients(), shared.now(), shared.wall())?)
}

/// 208
pub fn consume_stats(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = GetConsumeStats::decode(&ext)?;
    let shared = &call.shared;
    let wanted = Wanted::of(header.topic.as_deref(), header.topic_list.as_deref());
    let found = progress_of(shared, &header.consumer_group, wanted);
    let broker = &shared.settings().config.broker_name;
    Ok(consumption::consume_stats(broker, &shared.store, &shared.statistics, &found)?)
}

/// 317
pub fn broker_consume_stats(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = GetBrokerConsumeStats::decode(&ext)?;
    let shared = &call.shared;
    let groups: Vec<_> = shared.groups().iter().map(|group| group.name().clone()).collect();
    let found: Vec<Progress> =
        groups.iter().flat_map(|group| progress_of(shared, group, Wanted::of(None, None))).collect();
    Ok(consumption::broker_consume_stats(
        &shared.settings().config.broker_name,
        &shared.advertised.to_string(),
        &shared.store,
        &shared.statistics,
        &found,
        header.is_order,
    )?)
}

fn progress_of(shared: &Shared, group: &str, wanted: Wanted<'_>) -> Vec<Progress> {
    progress(group, wanted, &shared.topic_directory, &shared.clients(), &shared.offsets())
}

/// 303
pub fn consume_time_span(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = QueryConsumeTimeSpan::decode(&ext)?;
    let shared = &call.shared;
    let Some(topic) = shared.topic_directory.get(&header.topic) else {
        return Err(BrokerError::StatsTopicNotExist { topic: header.topic.into_owned() }.into());
    };
    let found = Progress::of(topic, &header.group, &shared.offsets());
    let broker = &shared.settings().config.broker_name;
    Ok(consumption::consume_time_span(broker, &shared.store, &found, shared.wall())?)
}

/// 300
pub fn groups_of_topic(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = QueryTopicConsumeByWho::decode(&ext)?;
    Ok(topics::groups_of_topic(&header.topic, &call.shared.clients(), &call.shared.offsets())?)
}

/// 343
pub fn topics_of_group(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = QueryTopicsByConsumer::decode(&ext)?;
    Ok(topics::topics_of_group(&header.group, &call.shared.advertised.to_string(), &call.shared.offsets())?)
}

/// 345
pub fn subscription(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = QuerySubscriptionByConsumer::decode(&ext)?;
    let topic = header.topic.unwrap_or_default();
    Ok(clients::subscription(&header.group, &topic, &call.shared.clients())?)
}

/// 305
pub fn system_topics(call: &Call) -> Result<Response, Refused> {
    Ok(topics::system_topics(&call.shared.topics())?)
}

/// 308
pub fn correction_offsets(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = QueryCorrectionOffset::decode(&ext)?;
    let filter = header.filter_groups.unwrap_or_default();
    let shared = &call.shared;
    Ok(offsets::correction_offsets(&header.topic, &header.compare_group, &filter, &shared.offsets(), &shared.store)?)
}

/// 314
pub async fn clone_offsets(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = CloneGroupOffset::decode(&ext)?;
    only_on_master(call, "its offsets are")?;
    let shared = &call.shared;
    let mut effects = Vec::new();
    let copied = offsets::clone_offsets(
        &header.src_group,
        &header.dest_group,
        (header.topic.as_deref(), header.offline),
        (&shared.topic_directory, &shared.clients()),
        &mut shared.offsets(),
        &mut effects,
    );
    tracing::info!(from = &*header.src_group, to = &*header.dest_group, queues = copied, "offsets were cloned");
    effects.push(Effect::PersistOffsets);
    let moved: Vec<_> = shared.offsets().topics_of(&header.dest_group).cloned().collect();
    for topic in moved.iter().filter_map(|topic| shared.topic_directory.get(topic)) {
        shared.wake_for_reset(topic.name(), 0..topic.queues());
    }
    shared.carry_out_now(effects).await?;
    Ok(Response::success())
}

/// 315
pub fn stats(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = ViewBrokerStatsData::decode(&ext)?;
    let cluster = &call.shared.settings().config.broker_cluster_name;
    Ok(stats_data(&header.stats_name, &header.stats_key, cluster, &call.shared.statistics)?)
}

/// 316
pub async fn clean_unused_topics(call: &Call) -> Result<Response, Refused> {
    // A slave may have messages of topics that it has not heard of yet.
    only_on_master(call, "its topics are")?;
    let shared = &call.shared;
    let stored = shared.store.topics();
    let unused = topics::unused_topics(&stored, &shared.topics());
    let effects = unused.into_iter().map(|topic| Effect::DropQueues { topic }).collect();
    shared.carry_out_now(effects).await?;
    Ok(Response::success())
}

/// 321
pub fn queue_entries(call: &Call) -> Result<Response, Refused> {
    let ext = call.ext()?;
    let header = QueryConsumeQueue::decode(&ext)?;
    let query = EntryQuery {
        topic: &header.topic,
        queue_id: header.queue_id,
        index: header.index,
        count: header.count,
        group: header.consumer_group.as_deref(),
    };
    let subscription = asked_subscription(&query, &call.shared.clients());
    Ok(entries(&query, subscription, &call.shared.store)?)
}
