//! HEART_BEAT: what one message of a client changes in all tables.

use std::sync::Arc;

use crate::broker::groups::GroupTable;
use crate::broker::topics::TopicTable;
use crate::broker::{Effect, Report};
use crate::env::Millis;
use crate::proto::body::{ConsumeType, ConsumerData, HeartbeatData};
use crate::proto::message::names;

use super::{Clients, Connection, Registration};

/// `topicSysFlag` of a retry topic whose group is in unit mode: "unit subscription".
pub const UNIT_SUBSCRIPTION: i32 = 2;

/// The tables that a heartbeat touches.
#[derive(Debug)]
pub struct HeartbeatTables<'a> {
    /// The broker's topics.
    pub topics: &'a mut TopicTable,
    /// The broker's groups.
    pub groups: &'a mut GroupTable,
    /// The clients.
    pub clients: &'a mut Clients,
    /// Leave out consumers that pull on their own account (`rejectPullConsumerEnable`).
    pub reject_pull_consumers: bool,
}

/// The ext fields of the answer. Its code is always SUCCESS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatReply {
    /// `IS_SUB_CHANGE`: a client that speaks heartbeat v2 shall send all subscriptions next time.
    pub sub_change: bool,
}

/// Carries out a heartbeat. A consumer group that is unknown and not to be created is left out. Each consumer group has
/// its retry topic from the first heartbeat on.
pub fn on_heartbeat(
    tables: &mut HeartbeatTables<'_>,
    connection: Connection,
    data: &HeartbeatData,
    (now, wall): (Millis, Millis),
    out: &mut Vec<Effect>,
) -> HeartbeatReply {
    let mut sub_change = data.heartbeat_fingerprint == 0;
    for consumer in &data.consumer_data_set {
        if tables.reject_pull_consumers && consumer.consume_type == ConsumeType::ConsumeActively {
            continue;
        }
        let Some(group) = tables.groups.find_or_create(&consumer.group_name, wall, out) else { continue };
        let order = consumer
            .subscription_data_set
            .iter()
            .any(|subscription| tables.topics.get(&subscription.topic).is_some_and(|topic| topic.is_order()));
        ensure_retry_topic(tables.topics, consumer, group.retry_queues(), order, wall, out);
        let registration = Registration {
            connection,
            client: &data.client_id,
            data: consumer,
            fingerprint: data.heartbeat_fingerprint,
            without_subscriptions: data.without_sub && data.heartbeat_fingerprint != 0,
            notify: group.notifies(),
        };
        sub_change |= tables.clients.consumers.register(&registration, now, out);
    }
    for producer in data.producer_data_set.iter().filter(|producer| !producer.group_name.is_empty()) {
        let producers = &mut tables.clients.producers;
        if !producers.register(&producer.group_name, &data.client_id, connection, now) {
            let full = Report::TableFull { setting: "clientsMax", limit: producers.len() };
            out.push(Effect::Report(full));
        }
    }
    HeartbeatReply { sub_change }
}

fn ensure_retry_topic(
    topics: &mut TopicTable,
    consumer: &ConsumerData,
    queues: i32,
    order: bool,
    wall: Millis,
    out: &mut Vec<Effect>,
) {
    let name: Arc<str> = names::retry_topic(&consumer.group_name).into();
    // A short heartbeat says nothing about order; only a full one changes the mark.
    if consumer.subscription_data_set.is_empty() && topics.get(&name).is_some() {
        return;
    }
    let sys_flag = if consumer.unit_mode { UNIT_SUBSCRIPTION } else { 0 };
    if let Err(error) = topics.ensure(&name, queues, order, sys_flag, wall, out) {
        tracing::warn!(topic = &*name, %error, "cannot make the retry topic");
    }
}
