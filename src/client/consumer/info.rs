//! What brokers and tools may ask of a consumer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use serde::Serialize;

use super::core::{Core, Handler};
use super::listener::Verdict;
use super::rebalance::RebalanceMessage;
use crate::client::members::GroupMember;
use crate::client::message::Received;
use crate::client::MessageQueue;
use crate::env::BoxFuture;
use crate::proto::body::client::ConsumeResult;
use crate::proto::body::{to_vec, ConsumeMessageDirectlyResult, ConsumeType, ConsumerData, MessageModel};
use crate::proto::filter::SubscriptionData;
use crate::proto::remoting::version;

/// What a consumer has done, by topic.
#[derive(Default)]
pub(super) struct Counters(Mutex<BTreeMap<String, Counted>>);

#[derive(Clone, Copy, Default)]
struct Counted {
    done: u64,
    failed: u64,
    took: Duration,
}

impl Counters {
    /// The listener was called with `count` messages.
    pub fn consumed(&self, topic: &str, done: bool, count: usize, took: Duration) {
        let mut table = self.0.lock().expect("no holder panics");
        if !table.contains_key(topic) {
            table.insert(topic.to_owned(), Counted::default());
        }
        if let Some(counted) = table.get_mut(topic) {
            *(if done { &mut counted.done } else { &mut counted.failed }) += count as u64;
            counted.took += took;
        }
    }
}

/// A consumer as a member of its group.
pub(super) struct Member(pub Weak<Core>);

impl GroupMember for Member {
    fn heartbeat(&self) -> ConsumerData {
        self.0.upgrade().map(|core| core.heartbeat()).unwrap_or_default()
    }

    fn members_changed(&self) {
        if let Some(core) = self.0.upgrade() {
            core.rebalance();
        }
    }

    fn reset(&self, topic: &str, offsets: BTreeMap<MessageQueue, i64>) {
        if let Some(core) = self.0.upgrade() {
            let offsets = offsets.into_iter().filter(|(queue, _)| queue.topic == topic).collect();
            core.tell(RebalanceMessage::Reset { offsets });
        }
    }

    fn progress(&self, topic: &str) -> BTreeMap<MessageQueue, i64> {
        let Some(core) = self.0.upgrade() else { return BTreeMap::new() };
        let owned = core.owned();
        let of_topic = owned.values().filter(|owned| owned.queue.topic == topic);
        of_topic.map(|owned| (owned.queue.clone(), owned.process().progress())).collect()
    }

    fn running_info(&self) -> Vec<u8> {
        self.0.upgrade().map(|core| to_vec(&core.running_info())).unwrap_or_default()
    }

    fn consume_directly(&self, message: Received) -> BoxFuture<'static, ConsumeMessageDirectlyResult> {
        let core = self.0.upgrade();
        Box::pin(async move {
            let Some(core) = core else { return ConsumeMessageDirectlyResult::default() };
            let began = core.now();
            let (listener, order) = match &core.handler {
                Handler::Concurrent(listener) => (listener, false),
                Handler::Orderly(listener) => (listener, true),
                Handler::Poll(_) | Handler::Scheduled(_) => {
                    let remark = Some("this consumer asks for messages, it has no listener".to_owned());
                    let consume_result = ConsumeResult::CrThrowException;
                    return ConsumeMessageDirectlyResult { remark, consume_result, ..Default::default() };
                }
            };
            let verdict = listener(vec![Arc::new(message)]).await;
            ConsumeMessageDirectlyResult {
                auto_commit: true,
                consume_result: if verdict == Verdict::Done {
                    ConsumeResult::CrSuccess
                } else {
                    ConsumeResult::CrLater
                },
                order,
                remark: None,
                spent_time_mills: core.now().saturating_sub(began).as_millis() as i64,
            }
        })
    }
}

/// Body of GET_CONSUMER_RUNNING_INFO's answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RunningInfo {
    mq_table: BTreeMap<MessageQueue, QueueInfo>,
    properties: BTreeMap<&'static str, String>,
    status_table: BTreeMap<String, TopicInfo>,
    subscription_set: Vec<SubscriptionData>,
}

/// `droped` is RocketMQ's spelling.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct QueueInfo {
    cached_msg_count: usize,
    cached_msg_max_offset: i64,
    cached_msg_min_offset: i64,
    #[serde(rename = "cachedMsgSizeInMiB")]
    cached_msg_size_in_mib: usize,
    commit_offset: i64,
    droped: bool,
    last_consume_timestamp: i64,
    last_lock_timestamp: i64,
    last_pull_timestamp: i64,
    locked: bool,
    transaction_msg_count: usize,
    transaction_msg_max_offset: i64,
    transaction_msg_min_offset: i64,
    try_unlock_times: i64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TopicInfo {
    consume_failed_msgs: u64,
    #[serde(rename = "consumeFailedTPS")]
    consume_failed_tps: f64,
    #[serde(rename = "consumeOKTPS")]
    consume_ok_tps: f64,
    #[serde(rename = "consumeRT")]
    consume_rt: f64,
    #[serde(rename = "pullRT")]
    pull_rt: f64,
    #[serde(rename = "pullTPS")]
    pull_tps: f64,
}

impl Core {
    fn heartbeat(&self) -> ConsumerData {
        ConsumerData {
            consume_from_where: self.settings.consume_from.in_heartbeat(),
            consume_type: if self.handler.asks() {
                ConsumeType::ConsumeActively
            } else {
                ConsumeType::ConsumePassively
            },
            group_name: self.group.clone(),
            message_model: if self.broadcasting { MessageModel::Broadcasting } else { MessageModel::Clustering },
            subscription_data_set: self.subscriptions().values().cloned().collect(),
            unit_mode: false,
        }
    }

    fn running_info(&self) -> RunningInfo {
        let now = self.now();
        let queue = |owned: &Arc<super::owned::OwnedQueue>| {
            let process = owned.process();
            let (first, last) = process.ends().unwrap_or((0, 0));
            let info = QueueInfo {
                cached_msg_count: process.count(),
                cached_msg_max_offset: last,
                cached_msg_min_offset: first,
                cached_msg_size_in_mib: process.bytes() >> 20,
                commit_offset: process.progress(),
                droped: owned.is_dropped(),
                last_consume_timestamp: 0,
                last_lock_timestamp: 0,
                last_pull_timestamp: 0,
                locked: owned.is_locked(now),
                transaction_msg_count: 0,
                transaction_msg_max_offset: 0,
                transaction_msg_min_offset: 0,
                try_unlock_times: 0,
            };
            (owned.queue.clone(), info)
        };
        let seconds = (self.client.env.clock.now().since(self.started_at) as f64 / 1000.0).max(1.0);
        let counted = self.counters.0.lock().expect("no holder panics").clone();
        let topic = |(topic, counted): (String, Counted)| {
            let info = TopicInfo {
                consume_failed_msgs: counted.failed,
                consume_failed_tps: counted.failed as f64 / seconds,
                consume_ok_tps: counted.done as f64 / seconds,
                consume_rt: counted.took.as_millis() as f64 / (counted.done + counted.failed).max(1) as f64,
                pull_rt: 0.0,
                pull_tps: 0.0,
            };
            (topic, info)
        };
        let orderly = matches!(self.handler, Handler::Orderly(_));
        let kind = if self.handler.asks() { "CONSUME_ACTIVELY" } else { "CONSUME_PASSIVELY" };
        RunningInfo {
            mq_table: self.owned().values().map(queue).collect(),
            properties: BTreeMap::from([
                ("PROP_CLIENT_VERSION", version::name(version::CURRENT)),
                ("PROP_CONSUMEORDERLY", orderly.to_string()),
                ("PROP_CONSUMER_START_TIMESTAMP", self.started_at.0.to_string()),
                ("PROP_CONSUME_TYPE", kind.to_owned()),
                ("PROP_NAMESERVER_ADDR", self.client.nameservers.addresses().join(";")),
                ("PROP_THREADPOOL_CORE_SIZE", self.settings.concurrency.to_string()),
            ]),
            status_table: counted.into_iter().map(topic).collect(),
            subscription_set: self.subscriptions().values().cloned().collect(),
        }
    }
}
