//! What may be sent, and what becomes of it on its way to the log.
//!
//! Pure functions in RocketMQ's order of checks. A session calls [`SendRules::precheck`], looks the topic up (and has it
//! created, if [`super::topics`] allows), then [`SendRules::plan`] or [`SendRules::plan_batch`], and encodes the record
//! from the plan. The property text is never rebuilt: the plan tells which names to set or drop.

mod plan;
mod scan;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use crate::env::Millis;
use crate::proto::message::{names, properties, sys_flag, system, DelayLevels};
use crate::proto::remoting::version;

use super::groups::GroupView;
use super::role::Role;
use super::timer::{DueSecond, TimerRules};
use super::topics::TopicView;
use super::BrokerError;

pub use plan::{stamps, BatchItem, BatchPlan, Edits, EntryCode, SendPlan, Target};
use plan::{Delay, Half, SHARED_MAX};
use scan::Found;

/// What the broker's settings say about sending.
#[derive(Clone, Debug)]
pub struct SendRules {
    /// The cluster, stamped on each message.
    pub cluster: String,
    /// The region, stamped on each message.
    pub region: String,
    /// Whether clients shall trace.
    pub trace_on: bool,
    /// The stamps as property text, see [`stamps`].
    pub stamps: String,
    /// The broker's address in remarks.
    pub address: String,
    /// Most bytes of a body.
    pub body_bytes_max: u32,
    /// The broker as a whole may be written.
    pub writable: bool,
    /// Only a master takes messages.
    pub role: Role,
    /// No sends before this time.
    pub accept_from: Millis,
    /// The delay levels.
    pub levels: DelayLevels,
    /// Half messages are refused.
    pub reject_transactions: bool,
    /// Times of delivery.
    pub timer: TimerRules,
}

/// A send request.
#[derive(Clone, Copy, Debug)]
pub struct SendRequest<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The queue; a negative number lets the broker choose.
    pub queue_id: i32,
    /// The message's sysFlag as the client sent it.
    pub sys_flag: i32,
    /// The message's properties, of a batch those of its header.
    pub properties: &'a str,
    /// How often the message was consumed in vain.
    pub reconsume_times: i32,
    /// How often it may be.
    pub max_reconsume_times: Option<i32>,
    /// The body.
    pub body: &'a [u8],
    /// The client's version number.
    pub client_version: i32,
    /// The client's address.
    pub peer: SocketAddr,
}

/// What is needed to know of a group whose retry topic is sent to.
#[derive(Clone, Copy, Debug)]
pub struct RetryFacts<'a> {
    /// The group, found or created.
    pub group: Option<&'a GroupView>,
    /// The group holds a queue lock, see [`super::locks::QueueLocks::holds_any`].
    pub holds_any_lock: bool,
}

impl SendRules {
    /// The checks that come before the topic is looked up.
    pub fn precheck(&self, request: &SendRequest<'_>, wall: impl FnOnce() -> Millis) -> Result<(), BrokerError> {
        if self.role.is_slave() {
            return Err(BrokerError::Rejected);
        }
        if self.accept_from > Millis(0) && wall() < self.accept_from {
            return Err(BrokerError::NotAcceptingYet { until_ms: self.accept_from.0 });
        }
        names::validate_topic(request.topic)?;
        // RocketMQ takes sends to its `rmq_sys_` topics, and one to the timer's stops its timer for good.
        let forbidden =
            system::is_forbidden_to_send(request.topic) || request.topic.starts_with(system::SYSTEM_TOPIC_PREFIX);
        if forbidden {
            return Err(BrokerError::TopicForbidden { topic: request.topic.to_owned() });
        }
        Ok(())
    }

    /// What to store for a single message. `retry` is wanted for `%RETRY%` topics; `random` chooses the queue if the
    /// client leaves that to us; `wall` is asked if the message is to be delivered later.
    pub fn plan<'a>(
        &self,
        request: &SendRequest<'a>,
        topic: &TopicView,
        retry: Option<RetryFacts<'_>>,
        random: u64,
        wall: impl FnOnce() -> Millis,
    ) -> Result<SendPlan<'a>, BrokerError> {
        let queue_id = self.check_topic(request, topic, random)?;
        let found = Found::scan(request.properties);
        let dead_letter = self.is_dead_letter(request, retry)?;
        if topic.is_compaction() && found.keys.is_none() {
            return Err(self.illegal());
        }
        let half = self.is_half(request, &found)?;
        self.check_body(request.body)?;
        self.check_properties(request.properties)?;
        let mut plan = SendPlan {
            target: Target::Asked { topic: request.topic, queue_id },
            reply_queue_id: queue_id,
            sys_flag: sys_flag::with_transaction_type(request.sys_flag, sys_flag::TRANSACTION_NONE),
            entry_code: EntryCode::Tag(found.tags_code),
            wait_store: found.wait_store,
            unique_key: found.unique_key,
            keys: found.keys,
            delay: None,
            half: None,
            dead_letter: dead_letter.is_some(),
            drop_timers: false,
            drop_pop: found.has_pop,
            stamped: found.stamped,
        };
        if let Some(dead_letters) = dead_letter {
            plan.target = Target::DeadLetters { topic: dead_letters };
            plan.drop_timers = found.has_timer;
        } else if half {
            if found.has_timer {
                // It would have to wait twice: for its producer and for its time.
                return Err(self.illegal());
            }
            plan.target = Target::Half;
            let (real_topic, real_queue_id) = (request.topic, queue_id.to_string());
            plan.half = Some(Half { real_topic, real_queue_id, drop_level: found.level > 0 });
        } else if found.level > 0 {
            self.delay(&mut plan, request.topic, queue_id, &found);
        } else if found.timer.is_timed() {
            if let Some(due) = self.timer.due(&found.timer, wall())? {
                wait_until(&mut plan, request.topic, queue_id, due, found.timer.recalls);
            }
        }
        Ok(plan)
    }

    /// What to store for a batch. Its items are records of their own, see [`BatchPlan::item`].
    pub fn plan_batch<'a>(
        &self,
        request: &SendRequest<'a>,
        topic: &TopicView,
        random: u64,
    ) -> Result<BatchPlan<'a>, BrokerError> {
        let queue_id = self.check_topic(request, topic, random)?;
        if names::is_retry_topic(request.topic) {
            return Err(BrokerError::BatchToRetryTopic { topic: request.topic.to_owned() });
        }
        let found = Found::scan(request.properties);
        let transaction = sys_flag::transaction_type(request.sys_flag) != sys_flag::TRANSACTION_NONE;
        if found.level > 0 || transaction || found.transaction || found.has_timer {
            return Err(self.illegal());
        }
        self.check_body(request.body)?;
        self.check_properties(request.properties)?;
        // What is the batch's own, and what the broker stamps.
        let own = [properties::UNIQ_KEY, properties::POP_CHECK_POINT, properties::DELAY];
        let stamped = [properties::MSG_REGION, properties::TRACE_ON, properties::CLUSTER];
        let is_shared = |name: &str| !own.contains(&name) && !stamped.contains(&name);
        let shared: Vec<_> = properties::iterate(request.properties).filter(|(name, _)| is_shared(name)).collect();
        if shared.len() > SHARED_MAX {
            return Err(self.illegal());
        }
        let mut appended = self.stamps.clone();
        for (at, (name, value)) in shared.iter().enumerate() {
            // Of a repeated name the first counts: an item that has it already is not given it again.
            if !shared[..at].iter().any(|(earlier, _)| earlier == name) {
                properties::append(&mut appended, name, value);
            }
        }
        Ok(BatchPlan {
            topic: request.topic,
            queue_id,
            sys_flag: request.sys_flag,
            wait_store: found.wait_store,
            unique_key: found.unique_key,
            shared,
            appended,
        })
    }

    /// The refusal of a message or property text that is too long, empty, or both.
    pub fn illegal(&self) -> BrokerError {
        BrokerError::MessageIllegal { body_bytes_max: self.body_bytes_max }
    }

    /// Whether properties may be stored: recovery takes zeros in them for a part of a record that was never written.
    pub fn check_properties(&self, properties: &str) -> Result<(), BrokerError> {
        match properties.as_bytes().contains(&0) {
            true => Err(self.illegal()),
            false => Ok(()),
        }
    }

    /// Whether a body may be stored: RocketMQ fails on an empty one with a null pointer.
    pub fn check_body(&self, body: &[u8]) -> Result<(), BrokerError> {
        if body.is_empty() || body.len() > self.body_bytes_max as usize {
            return Err(self.illegal());
        }
        Ok(())
    }

    fn check_topic(&self, request: &SendRequest<'_>, topic: &TopicView, random: u64) -> Result<i32, BrokerError> {
        // An old route may still name a broker that was made read-only: RocketMQ refuses only where order is at stake.
        if !self.writable && topic.is_order() {
            return Err(BrokerError::BrokerNotWritable { address: self.address.clone() });
        }
        let writable = topic.is_writable() && topic.write_queues() > 0;
        if !writable {
            return Err(BrokerError::TopicNotWritable { topic: request.topic.to_owned() });
        }
        if request.queue_id < 0 {
            return Ok((random % topic.write_queues() as u64) as i32);
        }
        if request.queue_id >= topic.write_queues().max(topic.read_queues()) {
            let (config, peer) = (topic.config().to_string(), request.peer.to_string());
            return Err(BrokerError::SendQueueId { queue_id: request.queue_id, config, peer });
        }
        Ok(request.queue_id)
    }

    /// The dead-letter topic, if that is where a message sent to a retry topic belongs: it was tried often enough, or
    /// its group consumes in order, where only hopeless messages are sent on.
    fn is_dead_letter(
        &self,
        request: &SendRequest<'_>,
        retry: Option<RetryFacts<'_>>,
    ) -> Result<Option<String>, BrokerError> {
        let Some(group) = names::group_of_retry_topic(request.topic) else { return Ok(None) };
        let Some(RetryFacts { group: Some(view), holds_any_lock }) = retry else {
            return Err(BrokerError::SendGroupNotExist { group: group.to_owned() });
        };
        let asked = request.max_reconsume_times.filter(|_| request.client_version >= version::V3_4_9);
        let max = asked.unwrap_or(view.retry_max_times());
        let hopeless = request.reconsume_times > max || holds_any_lock;
        Ok(hopeless.then(|| names::dlq_topic(group)))
    }

    /// Whether this is a half message, which waits for its producer's decision. Not meant: a committed message that a
    /// consumer sends to its retry topic, which old clients do without taking the mark off (TXN-5).
    ///
    /// A half message without a group or without its mark could never be decided about: RocketMQ takes it, and nobody
    /// ever sees it.
    fn is_half(&self, request: &SendRequest<'_>, found: &Found<'_>) -> Result<bool, BrokerError> {
        let prepared = sys_flag::transaction_type(request.sys_flag) == sys_flag::TRANSACTION_PREPARED;
        if !(found.transaction || prepared) || names::is_retry_topic(request.topic) {
            return Ok(false);
        }
        if self.reject_transactions {
            return Err(BrokerError::TransactionForbidden { address: self.address.clone() });
        }
        if !found.transaction || !found.has_group {
            return Err(self.illegal());
        }
        Ok(true)
    }

    fn delay<'a>(&self, plan: &mut SendPlan<'a>, topic: &'a str, queue_id: i32, found: &Found<'a>) {
        let level = self.levels.clamp(found.level);
        plan.target = Target::Delayed { queue_id: DelayLevels::queue_id(level) };
        plan.entry_code = EntryCode::DeliverAfter(self.levels.delay_ms(level).unwrap_or(0));
        plan.drop_timers = found.has_timer;
        plan.delay = Some(Delay {
            real_topic: topic,
            real_queue_id: queue_id.to_string(),
            clamped_level: (level != found.level).then(|| level.to_string()),
            out_ms: None,
        });
    }
}

fn wait_until<'a>(plan: &mut SendPlan<'a>, topic: &'a str, queue_id: i32, due: DueSecond, recalls: bool) {
    plan.target = Target::Timed { due, recalls };
    plan.delay = Some(Delay {
        real_topic: topic,
        real_queue_id: queue_id.to_string(),
        clamped_level: None,
        out_ms: Some(due.out_ms().to_string()),
    });
}
