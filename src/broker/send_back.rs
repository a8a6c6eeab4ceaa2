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
    if rules.role.is_slave() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::groups::{GroupRules, GroupTable};
    use crate::broker::role::Role;
    use crate::env::Millis;
    use crate::proto::body::{SubscriptionGroupConfig, SubscriptionGroupWrapper, TopicConfig};
    use crate::proto::message::properties::find;
    use crate::proto::message::{parse, BodyCrc, Parsed};

    const RECORDS: &[u8] = include_bytes!("../../tests/vectors/store/captured/records.bin");
    /// A plain message, and one that was handed back once and delivered again.
    const PLAIN: usize = 0;
    const RETRIED: usize = 4904;

    fn captured(at: usize) -> RecordView<'static> {
        match parse(&RECORDS[at..], BodyCrc::Verify) {
            Ok(Parsed::Record(view)) => view,
            other => panic!("{other:?}"),
        }
    }

    fn rules() -> SendRules {
        SendRules {
            cluster: "DefaultCluster".to_owned(),
            region: "DefaultRegion".to_owned(),
            trace_on: true,
            stamps: String::new(),
            address: "10.0.0.1".to_owned(),
            body_bytes_max: 1000,
            writable: true,
            role: Role::master(),
            accept_from: Millis(0),
            levels: DelayLevels::default(),
            reject_transactions: false,
            timer: crate::broker::timer::TimerRules { enabled: true, delay_ms_max: 259_200_000 },
        }
    }

    fn group(retry_queue_nums: i32, retry_max_times: i32) -> std::sync::Arc<GroupView> {
        let config =
            SubscriptionGroupConfig { retry_queue_nums, retry_max_times, ..SubscriptionGroupConfig::new("cg1") };
        let limits = GroupRules { auto_create: true, groups_max: 100 };
        let mut groups = GroupTable::new(limits, SubscriptionGroupWrapper::default(), Millis(0), &mut Vec::new());
        groups.update(vec![config], Millis(0), &mut Vec::new()).unwrap();
        groups.get("cg1").unwrap().clone()
    }

    fn request(delay_level: i32, max_reconsume_times: Option<i32>) -> SendBackRequest<'static> {
        let client_version = version::CURRENT;
        SendBackRequest { offset: 0, group: "cg1", delay_level, max_reconsume_times, client_version }
    }

    fn plan_of(at: usize, request: SendBackRequest<'_>, group: &GroupView) -> SendBackPlan {
        let retry = TopicView::new(TopicConfig::new("%RETRY%cg1", 1, 6));
        plan(&rules(), &request, group, &retry, &captured(at), "ID", 7).unwrap()
    }

    #[test]
    fn a_first_failure_waits_10_seconds() {
        let plan = plan_of(PLAIN, request(0, Some(16)), &group(1, 16));
        assert_eq!((plan.topic.as_str(), plan.queue_id, plan.reconsume_times), ("SCHEDULE_TOPIC_XXXX", 2, 1));
        assert_eq!(plan.entry_code, EntryCode::DeliverAfter(10_000));
        let property = |name| find(&plan.properties, name);
        assert_eq!(property("RETRY_TOPIC"), Some("TopicTest"));
        assert_eq!(property("ORIGIN_MESSAGE_ID"), Some("ID"));
        assert_eq!(
            (property("DELAY"), property("REAL_TOPIC"), property("REAL_QID")),
            (Some("3"), Some("%RETRY%cg1"), Some("0"))
        );
        assert_eq!(property("UNIQ_KEY"), find(&captured(PLAIN).properties(), "UNIQ_KEY"));
    }

    #[test]
    fn a_second_failure_keeps_where_the_message_came_from() {
        let plan = plan_of(RETRIED, request(0, None), &group(1, 16));
        assert_eq!((plan.queue_id, plan.reconsume_times), (3, 2), "the next level");
        assert_eq!(find(&plan.properties, "RETRY_TOPIC"), Some("TopicTest"));
        assert_eq!(find(&plan.properties, "ORIGIN_MESSAGE_ID"), Some("7F000001000036570000000000001C04"));
        assert_eq!(plan_of(RETRIED, request(99, None), &group(1, 16)).queue_id, 17, "no level above the last");
    }

    /// DLY-9: the last retry went to the dead letters only after another two hours.
    #[test]
    fn dly_9_the_last_failure_goes_to_the_dead_letters_at_once() {
        for (request, group) in [
            (request(0, Some(1)), group(1, 16)),
            (request(0, None), group(1, 1)),
            (request(-1, None), group(1, 16)),
            (SendBackRequest { client_version: 1, ..request(0, Some(99)) }, group(1, 0)),
        ] {
            let plan = plan_of(RETRIED, request, &group);
            assert_eq!((plan.topic.as_str(), plan.queue_id, plan.reconsume_times), ("%DLQ%cg1", 0, 2));
            assert_eq!(find(&plan.properties, "DELAY"), Some("0"));
            assert!(matches!(plan.entry_code, EntryCode::Tag(code) if code != 0), "it can be consumed by tag");
        }
    }

    /// RTY-1: a refused hand-back is an error for the client, which tries again; only a group that wants no retries
    /// has its message dropped.
    #[test]
    fn rty_1_refusals_are_errors() {
        let check = |rules: &SendRules, group: Option<&GroupView>| precheck(rules, &request(0, None), group);
        let code = |result: Result<Option<RetryQueues>, BrokerError>| result.unwrap_err().code();
        let known = group(4, 16);
        assert_eq!(check(&rules(), Some(&known)), Ok(Some(RetryQueues { count: 4 })));
        assert_eq!(check(&rules(), Some(&group(0, 16))), Ok(None));
        assert_eq!(code(check(&rules(), None)), 26);
        assert_eq!(code(check(&SendRules { writable: false, ..rules() }, Some(&known))), 16);
        assert_eq!(code(check(&SendRules { role: Role::slave(1), ..rules() }, Some(&known))), 2);
        let read_only = TopicView::new(TopicConfig::new("%RETRY%cg1", 1, 4));
        let refused = plan(&rules(), &request(0, None), &known, &read_only, &captured(PLAIN), "ID", 0);
        assert_eq!(refused.unwrap_err().code(), 16);
    }
}
