use super::*;
use crate::broker::groups::{GroupRules, GroupTable};
use crate::broker::topics::TopicView;
use crate::proto::body::{SubscriptionGroupWrapper, TopicConfig};
use crate::proto::message::properties::{edited, find, iterate};

const WALL: Millis = Millis(1_700_000_000_000);

fn rules() -> SendRules {
    SendRules {
        cluster: "DefaultCluster".to_owned(),
        region: "DefaultRegion".to_owned(),
        trace_on: true,
        stamps: stamps("DefaultRegion", true, "DefaultCluster"),
        address: "10.0.0.1".to_owned(),
        body_bytes_max: 1000,
        writable: true,
        role: Role::master(),
        accept_from: Millis(0),
        levels: DelayLevels::default(),
        reject_transactions: false,
        timer: TimerRules { enabled: true, delay_ms_max: 259_200_000 },
    }
}

fn request<'a>(topic: &'a str, properties: &'a str) -> SendRequest<'a> {
    SendRequest {
        topic,
        queue_id: 1,
        sys_flag: 0,
        properties,
        reconsume_times: 0,
        max_reconsume_times: None,
        body: b"body",
        client_version: version::CURRENT,
        peer: "1.2.3.4:5".parse().unwrap(),
    }
}

fn request_of(properties: &str) -> SendRequest<'_> {
    request("t", properties)
}

fn topic(perm: i32, read: i32, write: i32) -> TopicView {
    let config = TopicConfig { read_queue_nums: read, write_queue_nums: write, ..TopicConfig::new("t", 1, perm) };
    TopicView::new(config)
}

/// A text of pairs, `name=value` separated by blanks.
fn text(pairs: &str) -> String {
    pairs.split_whitespace().map(|pair| format!("{}\u{2}", pair.replacen('=', "\u{1}", 1))).collect()
}

fn pairs(text: &str) -> Vec<String> {
    let mut pairs: Vec<String> = iterate(text).map(|(name, value)| format!("{name}={value}")).collect();
    pairs.sort();
    pairs
}

fn stored(plan: &SendPlan<'_>, sent: &str) -> Vec<String> {
    pairs(&edited(sent, &plan.edits(&rules(), "MADE")))
}

#[test]
fn names_and_forbidden_topics_are_checked_before_anything_else() {
    let code = |topic: &str| rules().precheck(&request(topic, ""), || WALL).map_err(|error| error.code());
    for allowed in ["orders", "TBW102", "BenchmarkTest", "RMQ_SYS_TRACE_TOPIC", "DefaultCluster_REPLY_TOPIC"] {
        assert_eq!(code(allowed), Ok(()), "{allowed}");
    }
    for forbidden in ["SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "SELF_TEST_TOPIC", "rmq_sys_wheel_timer"] {
        assert_eq!(code(forbidden), Err(16), "{forbidden}");
    }
    for illegal in ["", "a b", "ä", &"t".repeat(128)] {
        assert_eq!(code(illegal), Err(29), "{illegal}");
    }
    let slave = SendRules { role: Role::slave(1), ..rules() };
    assert_eq!(slave.precheck(&request("t", ""), || WALL), Err(BrokerError::Rejected));
    let later = SendRules { accept_from: WALL.plus(1), ..rules() };
    assert_eq!(later.precheck(&request("t", ""), || WALL).unwrap_err().code(), 1);
}

#[test]
fn queue_and_permission_are_checked() {
    let plan = |queue_id, view: &TopicView, random| {
        let request = SendRequest { queue_id, ..request("t", "") };
        rules()
            .plan(&request, view, None, random, || WALL)
            .map(|plan| plan.reply_queue_id)
            .map_err(|error| error.code())
    };
    assert_eq!(plan(7, &topic(6, 8, 4), 0), Ok(7), "below the larger of both numbers");
    assert_eq!(plan(8, &topic(6, 8, 4), 0), Err(29));
    assert_eq!(plan(-1, &topic(6, 8, 4), 7), Ok(3), "chosen among the write queues");
    assert_eq!(plan(0, &topic(4, 4, 4), 0), Err(16), "the topic's own bit");
    assert_eq!(plan(-1, &topic(6, 4, 0), 0), Err(16), "no queue to write");
    let read_only = SendRules { writable: false, ..rules() };
    assert!(read_only.plan(&request("t", ""), &topic(6, 4, 4), None, 0, || WALL).is_ok());
    let order = TopicView::new(TopicConfig { order: true, ..TopicConfig::new("t", 4, 6) });
    assert_eq!(read_only.plan(&request("t", ""), &order, None, 0, || WALL).unwrap_err().code(), 16);
    let error =
        rules().plan(&SendRequest { queue_id: 9, ..request("t", "") }, &topic(6, 4, 4), None, 0, || WALL).unwrap_err();
    assert_eq!(
        error.to_string(),
        "request queueId[9] is illegal, TopicConfig [topicName=t, readQueueNums=4, writeQueueNums=4, perm=RW-, \
         topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false, attributes={}] Producer: 1.2.3.4:5"
    );
}

#[test]
fn a_message_is_stamped_and_loses_what_it_must_not_have() {
    let sent = text("KEYS=k UNIQ_KEY=U TAGS=TagA WAIT=false POP_CK=x CLUSTER=other");
    let request = SendRequest { sys_flag: 0x309, ..request("t", &sent) };
    let plan = rules().plan(&request, &topic(6, 4, 4), None, 0, || WALL).unwrap();
    assert_eq!(plan.target.place(), ("t", 1));
    assert_eq!((plan.sys_flag, plan.wait_store, plan.unique_key), (0x301, false, Some("U")));
    assert_eq!(plan.entry_code, EntryCode::Tag(2_598_919));
    assert_eq!(
        stored(&plan, &sent),
        [
            "CLUSTER=DefaultCluster",
            "KEYS=k",
            "MSG_REGION=DefaultRegion",
            "TAGS=TagA",
            "TRACE_ON=true",
            "UNIQ_KEY=U",
            "WAIT=false"
        ]
    );
    let plan = rules().plan(&super::tests::request("t", ""), &topic(6, 4, 4), None, 0, || WALL).unwrap();
    assert!(stored(&plan, "").contains(&"UNIQ_KEY=MADE".to_owned()));
}

#[test]
fn bodies_are_neither_empty_nor_too_long() {
    let plan =
        |body: &[u8]| rules().plan(&SendRequest { body, ..request("t", "") }, &topic(6, 4, 4), None, 0, || WALL).err();
    assert_eq!(plan(&[0; 1000]), None, "equal is allowed");
    assert_eq!(plan(&[0; 1001]), Some(rules().illegal()));
    assert_eq!(plan(&[]), Some(rules().illegal()));
}

#[test]
fn a_delayed_message_goes_to_its_levels_queue() {
    let sent = text("DELAY=99 TIMER_DELAY_SEC=5 TIMER_DELIVER_MS=1 TAGS=a");
    let plan = rules().plan(&request("t", &sent), &topic(6, 4, 4), None, 0, || WALL).unwrap();
    assert_eq!(plan.target.place(), ("SCHEDULE_TOPIC_XXXX", 17));
    assert_eq!(plan.reply_queue_id, 1, "the answer names the queue asked for");
    assert_eq!(plan.entry_code, EntryCode::DeliverAfter(7_200_000));
    let stored = stored(&plan, &sent);
    for pair in ["DELAY=18", "REAL_TOPIC=t", "REAL_QID=1", "TAGS=a"] {
        assert!(stored.contains(&pair.to_owned()), "{pair} in {stored:?}");
    }
    assert!(!stored.iter().any(|pair| pair.starts_with("TIMER")));
}

#[test]
fn a_message_with_a_time_goes_to_the_timer() {
    let sent = text("TIMER_DELAY_SEC=5 TAGS=a");
    let plan = rules().plan(&request("t", &sent), &topic(6, 4, 4), None, 0, || WALL).unwrap();
    assert_eq!(plan.target.place(), ("rmq_sys_wheel_timer", 0));
    assert_eq!(plan.reply_queue_id, 1, "the answer names the queue asked for");
    assert_eq!(plan.entry_code, EntryCode::Tag(97));
    let stored = stored(&plan, &sent);
    for pair in ["REAL_TOPIC=t", "REAL_QID=1", "TIMER_DELAY_SEC=5", "TIMER_OUT_MS=1700000004000"] {
        assert!(stored.contains(&pair.to_owned()), "{pair} in {stored:?}");
    }
    for at_once in ["TIMER_DELIVER_MS=1", "TIMER_DELAY_SEC=5 TIMER_OUT_MS=1"] {
        let sent = text(at_once);
        let plan = rules().plan(&request("t", &sent), &topic(6, 4, 4), None, 0, || WALL).unwrap();
        assert_eq!(plan.target.place(), ("t", 1), "{at_once}");
    }
}

#[test]
fn timers_are_refused_clearly() {
    let refused =
        |pairs: &str| rules().plan(&request("t", &text(pairs)), &topic(6, 4, 4), None, 0, || WALL).unwrap_err();
    assert_eq!(refused("TIMER_DELAY_SEC=259201").code(), 13);
    let off = SendRules { timer: TimerRules { enabled: false, delay_ms_max: 0 }, ..rules() };
    let sent = text("TIMER_DELAY_SEC=5");
    let refused_off = off.plan(&request("t", &sent), &topic(6, 4, 4), None, 0, || WALL).unwrap_err();
    assert_eq!(refused_off, BrokerError::TimerNotEnabled);
    assert_eq!(refused("TIMER_DELAY_SEC=5 TRAN_MSG=true PGROUP=p").code(), 13);
}

#[test]
fn a_half_message_goes_to_the_half_topic_and_names_where_it_belongs() {
    let sent = text("TRAN_MSG=true PGROUP=p UNIQ_KEY=U TAGS=TagA DELAY=3");
    let request = SendRequest { sys_flag: 4 | 1, ..request("t", &sent) };
    let plan = rules().plan(&request, &topic(6, 4, 4), None, 0, || WALL).unwrap();
    assert_eq!(plan.target.place(), ("RMQ_SYS_TRANS_HALF_TOPIC", 0));
    assert_eq!((plan.reply_queue_id, plan.sys_flag, plan.entry_code), (1, 1, EntryCode::Tag(2_598_919)));
    let stored = stored(&plan, &sent);
    for pair in ["REAL_TOPIC=t", "REAL_QID=1", "TRAN_MSG=true", "PGROUP=p", "__transactionId__=U", "UNIQ_KEY=U"] {
        assert!(stored.contains(&pair.to_owned()), "{pair} in {stored:?}");
    }
    assert!(!stored.iter().any(|pair| pair.starts_with("DELAY")), "no time decides about it");

    let without_key = text("TRAN_MSG=true PGROUP=p");
    let made = edited(
        &without_key,
        &rules().plan(&request_of(&without_key), &topic(6, 4, 4), None, 0, || WALL).unwrap().edits(&rules(), "MADE"),
    );
    assert_eq!((find(&made, "UNIQ_KEY"), find(&made, "__transactionId__")), (Some("MADE"), Some("MADE")));
}

#[test]
fn half_messages_that_nobody_could_decide_about_are_refused() {
    let plan = |rules: SendRules, sys_flag, pairs: &str| {
        let sent = text(pairs);
        let request = SendRequest { sys_flag, ..request("t", &sent) };
        rules
            .plan(&request, &topic(6, 4, 4), None, 0, || WALL)
            .map(|plan| plan.target.place().0.to_owned())
            .map_err(|e| e.code())
    };
    assert_eq!(plan(rules(), 0, "TRAN_MSG=false"), Ok("t".to_owned()));
    assert_eq!(plan(rules(), 4, "PGROUP=p"), Err(13), "without its mark");
    assert_eq!(plan(rules(), 4, "TRAN_MSG=true"), Err(13), "without a group");
    let rejecting = SendRules { reject_transactions: true, ..rules() };
    assert_eq!(plan(rejecting, 4, "TRAN_MSG=true PGROUP=p"), Err(16));
}

fn groups() -> GroupTable {
    let rules = GroupRules { auto_create: true, groups_max: 100 };
    let mut groups = GroupTable::new(rules, SubscriptionGroupWrapper::default(), WALL, &mut Vec::new());
    groups.find_or_create("g", WALL, &mut Vec::new());
    groups
}

fn retry(reconsume_times: i32, max: Option<i32>, client_version: i32, holds_any_lock: bool) -> Option<String> {
    let groups = groups();
    let facts = RetryFacts { group: groups.get("g").map(|group| &**group), holds_any_lock };
    let sent = text("DELAY=4 UNIQ_KEY=U RETRY_TOPIC=t");
    let request = SendRequest {
        reconsume_times,
        max_reconsume_times: max,
        client_version,
        queue_id: 0,
        ..request("%RETRY%g", &sent)
    };
    let plan = rules().plan(&request, &topic(6, 1, 1), Some(facts), 0, || WALL).unwrap();
    match &plan.target {
        Target::DeadLetters { topic } => {
            assert_eq!(find(&edited(&sent, &plan.edits(&rules(), "")), "DELAY"), Some("-1"));
            assert_eq!((topic.as_str(), plan.entry_code), ("%DLQ%g", EntryCode::Tag(0)));
            Some(topic.clone())
        }
        other => {
            assert_eq!(*other, Target::Delayed { queue_id: 3 });
            None
        }
    }
}

/// RTY-2: an ordered message over its retry limit came back for ever.
#[test]
fn rty_2_what_was_tried_too_often_goes_to_the_dead_letters() {
    assert_eq!(retry(16, None, version::CURRENT, false), None, "the group's limit is 16");
    assert!(retry(17, None, version::CURRENT, false).is_some());
    assert!(retry(2, Some(1), version::CURRENT, false).is_some(), "the request's limit wins");
    assert_eq!(retry(2, Some(1), version::V3_4_9 - 1, false), None, "but not from the oldest clients");
    assert!(retry(1, Some(1), version::CURRENT, true).is_some(), "an orderly group sends on only what is hopeless");
}

/// RTY-3: a producer writing to a retry topic directly crashed the broker's handler.
#[test]
fn rty_3_a_plain_send_to_a_retry_topic_is_stored_or_refused() {
    let groups = groups();
    let facts = |group| Some(RetryFacts { group, holds_any_lock: false });
    let request = SendRequest { queue_id: 0, ..request("%RETRY%g", "") };
    let known = groups.get("g").map(|group| &**group);
    let plan = rules().plan(&request, &topic(6, 1, 1), facts(known), 0, || WALL).unwrap();
    assert_eq!(plan.target.place(), ("%RETRY%g", 0));
    assert_eq!(rules().plan(&request, &topic(6, 1, 1), facts(None), 0, || WALL).unwrap_err().code(), 26);
    assert_eq!(rules().plan(&request, &topic(6, 1, 1), None, 0, || WALL).unwrap_err().code(), 26);
}

#[test]
fn a_retried_transaction_message_is_no_half_message() {
    let groups = groups();
    let facts = RetryFacts { group: groups.get("g").map(|group| &**group), holds_any_lock: false };
    let sent = text("TRAN_MSG=true DELAY=3");
    let request = SendRequest { sys_flag: 4, reconsume_times: 1, queue_id: 0, ..request("%RETRY%g", &sent) };
    let plan = rules().plan(&request, &topic(6, 1, 1), Some(facts), 0, || WALL).unwrap();
    assert_eq!((plan.target.clone(), plan.sys_flag), (Target::Delayed { queue_id: 2 }, 0));
}

#[test]
fn items_of_a_batch_keep_their_own_key() {
    let header = text("UNIQ_KEY=BATCH WAIT=false INSTANCE_ID=n");
    let plan = rules().plan_batch(&request("t", &header), &topic(6, 4, 4), 0).unwrap();
    assert_eq!((plan.unique_key, plan.wait_store, plan.queue_id), (Some("BATCH"), false, 1));
    let item = text("UNIQ_KEY=OWN WAIT=true TAGS=TagA");
    let rules = rules();
    let BatchItem { entry_code: code, edits, .. } = plan.item(&rules, &item, || "MADE");
    assert_eq!(code, EntryCode::Tag(2_598_919));
    let stored = pairs(&edited(&item, &edits));
    assert_eq!(
        stored,
        [
            "CLUSTER=DefaultCluster",
            "INSTANCE_ID=n",
            "MSG_REGION=DefaultRegion",
            "TAGS=TagA",
            "TRACE_ON=true",
            "UNIQ_KEY=OWN",
            "WAIT=true"
        ]
    );
    let BatchItem { edits, .. } = plan.item(&rules, "", || "MADE");
    assert_eq!(find(&edited("", &edits), "UNIQ_KEY"), Some("MADE"));
}

#[test]
fn the_keys_told_to_the_index_are_those_that_are_stored() {
    let header = text("UNIQ_KEY=BATCH KEYS=shared");
    let plan = rules().plan_batch(&request("t", &header), &topic(6, 4, 4), 0).unwrap();
    let rules = rules();
    for item in ["", "UNIQ_KEY=OWN KEYS=own", "KEYS=a KEYS=b UNIQ_KEY=1 UNIQ_KEY=2", "KEYS="] {
        let item = text(item);
        let BatchItem { edits, unique_key, keys, .. } = plan.item(&rules, &item, || "MADE");
        let stored = edited(&item, &edits);
        assert_eq!((find(&stored, "UNIQ_KEY"), find(&stored, "KEYS")), (Some(unique_key), keys), "{stored:?}");
        let single = rules.plan(&request("t", &stored), &topic(6, 4, 4), None, 0, || WALL).unwrap();
        assert_eq!((single.unique_key, single.keys), (Some(unique_key), keys), "{stored:?}");
    }
}

#[test]
fn batches_are_refused_where_rocketmq_refuses_them() {
    let code = |request: SendRequest<'_>| rules().plan_batch(&request, &topic(6, 4, 4), 0).unwrap_err().code();
    assert_eq!(code(request("%RETRY%g", "")), 13);
    assert_eq!(code(request("t", &text("DELAY=1"))), 13);
    assert_eq!(code(SendRequest { sys_flag: 4, ..request("t", "") }), 13);
    assert_eq!(code(SendRequest { body: &[0; 1001], ..request("t", "") }), 13);
    let many: String = (0..17).map(|n| text(&format!("N{n}=v"))).collect();
    assert_eq!(code(request("t", &many)), 13);
    let most: String = (0..16).map(|n| text(&format!("N{n}=v"))).collect();
    let rules = rules();
    let plan = rules.plan_batch(&request("t", &most), &topic(6, 4, 4), 0).unwrap();
    let item = text("POP_CK=x");
    let BatchItem { edits, .. } = plan.item(&rules, &item, || "MADE");
    assert_eq!(pairs(&edited("", &edits)).len(), 20);
}
