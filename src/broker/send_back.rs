//! Messages that a consumer hands back (CONSUMER_SEND_MSG_BACK): again later, or to the dead letters.

use crate::proto::message::properties::{self, Edit};
use crate::proto::message::{hash, names, system, DelayLevels, RecordView};
use crate::proto::remoting::version;

use super::groups::GroupView;
use super::send::{EntryCode, SendRules};
use super::topics::TopicView;
use super::BrokerError;

/// A request to take a message back.
#[derive(Clone, Copy, Debug)]
pub struct SendBackRequest<'a> {
    /// Where the record lies.
    pub offset: i64,
    /// The consumer group.
    pub group: &'a str,
    /// Below 0: dead letters; 0: a level longer than the last one; above: that level.
    pub delay_level: i32,
    /// How often the message may be consumed, unless the group says it.
    pub max_reconsume_times: Option<i32>,
    /// The client's version number.
    pub client_version: i32,
}

/// What to store for it: a copy of the record with another topic, queue and property text. The answer waits for the
/// disk as that of a send does. (RocketMQ's does not, so a power cut could lose a message which its consumer believes
/// to be in good hands.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendBackPlan {
    /// The topic.
    pub topic: String,
    /// The queue.
    pub queue_id: i32,
    /// The whole property text.
    pub properties: String,
    /// The copy's reconsume times.
    pub reconsume_times: i32,
    /// For the consume queue.
    pub entry_code: EntryCode,
}

/// Where the copy will go; the topics to make before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryQueues {
    /// Queues of the retry topic.
    pub count: i32,
}

/// The checks that come before the record is read. `None`: the group keeps no retries; answer SUCCESS, store nothing.
pub fn precheck(
    rules: &SendRules,
    request: &SendBackRequest<'_>,
    group: Option<&GroupView>,
) -> Result<Option<RetryQueues>, BrokerError> {
    if rules.slave {
        return Err(BrokerError::Rejected);
    }
    let Some(group) = group else {
        return Err(BrokerError::SendGroupNotExist { group: request.group.to_owned() });
    };
    if !rules.writable {
        return Err(BrokerError::BrokerNotWritable { address: rules.address.clone() });
    }
    Ok((group.retry_queues() > 0).then_some(RetryQueues { count: group.retry_queues() }))
}

/// What to store. `retry_topic` is the group's, made if it was not there; `message_id` is the offset id of the record.
///
/// A message that was tried as often as it may goes to the dead letters at once, not after one more delay (DLY-9).
pub fn plan(
    rules: &SendRules,
    request: &SendBackRequest<'_>,
    group: &GroupView,
    retry_topic: &TopicView,
    record: &RecordView<'_>,
    message_id: &str,
    random: u64,
) -> Result<SendBackPlan, BrokerError> {
    let retry_name = retry_topic.name();
    if !retry_topic.is_writable() {
        return Err(BrokerError::RetryTopicNotWritable { topic: retry_name.to_string() });
    }
    let (text, origin) = (record.properties(), record.topic());
    let asked = request.max_reconsume_times.filter(|_| request.client_version >= version::V3_4_9);
    let max = asked.unwrap_or(group.retry_max_times());
    let tried = record.reconsume_times();
    let mut edits = vec![
        Edit::SetIfAbsent(properties::RETRY_TOPIC, &origin),
        Edit::SetIfAbsent(properties::ORIGIN_MESSAGE_ID, message_id),
        // A delay level replaces them, and the dead letters know no delay.
        Edit::Remove(properties::TIMER_DELIVER_MS),
        Edit::Remove(properties::TIMER_DELAY_SEC),
        Edit::Remove(properties::TIMER_DELAY_MS),
    ];
    let reconsume_times = tried.saturating_add(1);
    if tried >= max || request.delay_level < 0 {
        edits.push(Edit::Set(properties::DELAY, "0"));
        let entry_code = EntryCode::Tag(properties::find(&text, properties::TAGS).map_or(0, hash::tags_code));
        let (topic, properties) = (names::dlq_topic(request.group), properties::edited(&text, &edits));
        return Ok(SendBackPlan { topic, queue_id: 0, properties, reconsume_times, entry_code });
    }
    let level = match request.delay_level {
        0 => tried.saturating_add(3),
        asked => asked,
    };
    let level = rules.levels.clamp(level.max(1));
    let retry_queue = (random % group.retry_queues().max(1) as u64).to_string();
    let level_text = level.to_string();
    edits.push(Edit::Set(properties::DELAY, &level_text));
    edits.push(Edit::Set(properties::REAL_TOPIC, retry_name));
    edits.push(Edit::Set(properties::REAL_QUEUE_ID, &retry_queue));
    Ok(SendBackPlan {
        topic: system::SCHEDULE_TOPIC.to_owned(),
        queue_id: DelayLevels::queue_id(level),
        properties: properties::edited(&text, &edits),
        reconsume_times,
        entry_code: EntryCode::DeliverAfter(rules.levels.delay_ms(level).unwrap_or(0)),
    })
}
