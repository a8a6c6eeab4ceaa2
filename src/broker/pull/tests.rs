use std::sync::Arc;

use super::*;
use crate::broker::clients::{Clients, Connection, Registration};
use crate::broker::groups::{GroupRules, GroupTable};
use crate::broker::{Effect, QueueKey, Report};
use crate::env::Millis;
use crate::proto::body::{ConsumerData, MessageModel, SubscriptionGroupConfig, SubscriptionGroupWrapper, TopicConfig};
use crate::proto::filter::SubscriptionData;
use crate::proto::message::hash::tags_code;
use crate::proto::remoting::Language;

const CONNECTION: ConnectionId = ConnectionId(1);

fn rules() -> PullRules {
    PullRules {
        address: "10.0.0.1".to_owned(),
        readable: true,
        lite_pull: true,
        slave_read: false,
        offset_check_in_slave: false,
        role: Role::master(),
        property_filter: false,
    }
}

fn request(sys_flag: i32) -> PullRequest<'static> {
    PullRequest {
        lite: false,
        group: "g",
        topic: "t",
        queue_id: 0,
        sys_flag,
        subscription: None,
        sub_version: 1,
        expression_type: None,
        connection: CONNECTION,
        peer: "1.2.3.4:5".parse().unwrap(),
    }
}

fn topic(perm: i32) -> TopicView {
    TopicView::new(TopicConfig::new("t", 4, perm))
}

fn group(config: SubscriptionGroupConfig) -> Arc<GroupView> {
    let limits = GroupRules { auto_create: true, groups_max: 100 };
    let mut groups = GroupTable::new(limits, SubscriptionGroupWrapper::default(), Millis(0), &mut Vec::new());
    groups
        .update(vec![SubscriptionGroupConfig { group_name: "g".to_owned(), ..config }], Millis(0), &mut Vec::new())
        .unwrap();
    groups.get("g").unwrap().clone()
}

fn clients(subscription: Option<SubscriptionData>, message_model: MessageModel) -> Clients {
    let mut clients = Clients::new(10, 1000);
    let data = ConsumerData {
        group_name: "g".to_owned(),
        message_model,
        subscription_data_set: subscription.into_iter().collect(),
        ..ConsumerData::default()
    };
    let peer = "1.2.3.4:5".parse().unwrap();
    let registration = Registration {
        connection: Connection { id: CONNECTION, peer, language: Language::Java, version: 479 },
        client: "c",
        data: &data,
        fingerprint: 0,
        without_subscriptions: false,
        notify: true,
    };
    clients.consumers.register(&registration, Millis(0), &mut Vec::new());
    clients
}

fn subscription(kind: &str, expression: &str, version: i64) -> Option<SubscriptionData> {
    SubscriptionData::new("t", ExpressionType::of_name(Some(kind)), expression, version).ok()
}

fn checked(
    rules: &PullRules,
    request: &PullRequest<'_>,
    group: Option<&GroupView>,
    topic: Option<&TopicView>,
    registered: &ConsumerGroups,
) -> Result<Arc<Filter>, BrokerError> {
    check(rules, request, group, topic, registered, &mut Expressions::default())
}

/// Code and forbiddenType of the refusal.
fn refusal(result: Result<Arc<Filter>, BrokerError>) -> (i32, Option<i32>) {
    let error = result.unwrap_err();
    (error.code(), error.forbidden_type())
}

#[test]
fn what_forbids_a_pull_is_told_in_rocketmqs_order() {
    let nobody = Clients::new(10, 1000).consumers;
    let (known, open) = (group(SubscriptionGroupConfig::default()), topic(6));
    let (view, open) = (Some(&*known), Some(&open));
    let off = group(SubscriptionGroupConfig { consume_enable: false, ..SubscriptionGroupConfig::default() });
    let lite = PullRequest { lite: true, ..request(0) };
    let closed = PullRules { readable: false, ..rules() };
    assert_eq!(refusal(checked(&closed, &request(0), None, None, &nobody)), (16, Some(1)));
    let no_lite = PullRules { lite_pull: false, ..rules() };
    assert_eq!(refusal(checked(&no_lite, &lite, None, None, &nobody)), (16, Some(1)));
    let slave = PullRules { role: Role::slave(1), ..rules() };
    slave.role.set_master_registered(true);
    assert_eq!(refusal(checked(&slave, &request(0), view, open, &nobody)), (2, None));
    slave.role.set_master_registered(false);
    assert_eq!(refusal(checked(&slave, &request(0), None, None, &nobody)), (26, None), "without a master it serves");
    assert_eq!(refusal(checked(&rules(), &request(0), None, None, &nobody)), (26, None));
    assert_eq!(refusal(checked(&rules(), &request(0), Some(&off), None, &nobody)), (16, Some(2)));
    assert_eq!(refusal(checked(&rules(), &request(0), view, None, &nobody)), (17, None));
    assert_eq!(refusal(checked(&rules(), &request(0), view, Some(&topic(2)), &nobody)), (16, Some(3)));
    for queue_id in [-1, 4, i32::MAX] {
        let request = PullRequest { queue_id, ..request(0) };
        assert_eq!(refusal(checked(&rules(), &request, view, open, &nobody)), (29, None));
    }
    assert_eq!(refusal(checked(&rules(), &request(0), view, open, &nobody)), (24, None));
}

#[test]
fn a_pull_may_bring_its_own_filter() {
    let nobody = Clients::new(10, 1000).consumers;
    let (known, open) = (group(SubscriptionGroupConfig::default()), topic(6));
    let pull = |expression, kind| {
        let request = PullRequest { subscription: expression, expression_type: kind, ..request(flag::SUBSCRIPTION) };
        checked(&rules(), &request, Some(&known), Some(&open), &nobody)
    };
    assert_eq!(pull(Some("*"), None), Ok(Arc::new(Filter::ALL)));
    assert_eq!(pull(None, Some("")), Ok(Arc::new(Filter::ALL)), "the Rust client sends none");
    assert!(pull(Some("A || B"), Some("TAG")).unwrap().matches_code(tags_code("B")));
    assert_eq!(refusal(pull(Some("||"), Some("TAG"))), (23, None));
    assert_eq!(refusal(pull(Some("a > 1"), Some("SQL92"))), (1, None));
    assert_eq!(refusal(pull(Some("x"), Some("XPATH"))), (23, None), "RocketMQ would return everything");
}

#[test]
fn otherwise_the_heartbeats_subscription_counts() {
    let (known, open) = (group(SubscriptionGroupConfig::default()), topic(6));
    let pull = |clients: &Clients, known: &GroupView, version| {
        let request = PullRequest { sub_version: version, ..request(0) };
        checked(&rules(), &request, Some(known), Some(&open), &clients.consumers)
    };
    let member = clients(subscription("TAG", "A", 5), MessageModel::Clustering);
    assert!(!pull(&member, &known, 5).unwrap().matches_code(tags_code("B")));
    assert_eq!(refusal(pull(&clients(None, MessageModel::Clustering), &known, 5)), (24, None));
    let sql = clients(subscription("SQL92", "a > 1", 5), MessageModel::Clustering);
    assert_eq!(refusal(pull(&sql, &known, 5)), (1, None));
    let alone =
        group(SubscriptionGroupConfig { consume_broadcast_enable: false, ..SubscriptionGroupConfig::default() });
    let broadcast = clients(subscription("TAG", "A", 5), MessageModel::Broadcasting);
    assert!(pull(&broadcast, &known, 5).is_ok());
    assert_eq!(refusal(pull(&broadcast, &alone, 5)), (16, Some(4)));
}

#[test]
fn sql_is_evaluated_where_the_broker_is_told_to() {
    let rules = PullRules { property_filter: true, ..rules() };
    let (known, open) = (group(SubscriptionGroupConfig::default()), topic(6));
    let nobody = Clients::new(10, 1000).consumers;
    let brought = |expression| PullRequest {
        subscription: Some(expression),
        expression_type: Some("SQL92"),
        ..request(flag::SUBSCRIPTION)
    };
    assert!(matches!(
        &*checked(&rules, &brought("a > 1"), Some(&known), Some(&open), &nobody).unwrap(),
        Filter::Sql(_)
    ));
    let broken = checked(&rules, &brought("a > "), Some(&known), Some(&open), &nobody).unwrap_err();
    assert_eq!((broken.code(), broken.to_string().contains("character 5")), (23, true), "{broken}");

    let pull = |expression, version| {
        let member = clients(subscription("SQL92", expression, 5), MessageModel::Clustering);
        let request = PullRequest { sub_version: version, ..request(0) };
        checked(&rules, &request, Some(&known), Some(&open), &member.consumers)
    };
    assert!(matches!(&*pull("a > 1", 5).unwrap(), Filter::Sql(_)));
    assert_eq!(refusal(pull("a >", 5)), (23, None), "rather than all or nothing");
    assert_eq!(
        refusal(pull("a > 1", 6)),
        (25, None),
        "clients do not look at properties, so the old filter would lose"
    );
}

#[test]
fn a_consumer_is_told_at_its_start_whether_its_expression_works() {
    let sql = |rules: &PullRules, expression| check_expression(rules, &ExpressionType::Sql92, expression);
    assert_eq!(sql(&rules(), "a > 1").unwrap_err().code(), 1);
    let on = PullRules { property_filter: true, ..rules() };
    assert!(sql(&on, "a > 1").is_ok());
    assert_eq!(sql(&on, "a > ").unwrap_err().code(), 23);
    assert_eq!(check_expression(&on, &ExpressionType::Other("XPATH".into()), "a").unwrap_err().code(), 23);
}

/// SUB-3: a consumer added tags, and until the broker heard of it messages were skipped.
#[test]
fn sub_3_a_newer_subscription_than_the_heartbeats_gets_everything() {
    let (known, open) = (group(SubscriptionGroupConfig::default()), topic(6));
    let member = clients(subscription("TAG", "A", 5), MessageModel::Clustering);
    let newer = PullRequest { sub_version: 6, ..request(0) };
    let filter = checked(&rules(), &newer, Some(&known), Some(&open), &member.consumers).unwrap();
    assert!(filter.matches_code(tags_code("B")));
}

/// SUB-2: tags with one hash: nothing was left after the client's filter, and the offset did not move.
#[test]
fn sub_2_messages_that_only_share_a_hash_move_the_offset() {
    let filter = Filter::compile(&ExpressionType::Tag, "Aa").unwrap();
    assert!(filter.matches_code(tags_code("BB")), "the client is to drop it");
    assert_eq!(answer(&read(ReadStatus::Found, 50)), (0, 53), "and goes on behind it");
}

fn read(status: ReadStatus, from: i64) -> Read {
    Read { status, from, examined_to: from + 3, min: 10, max: 100, far_behind: false }
}

fn answer(read: &Read) -> (i32, i64) {
    match verdict(read, false, false) {
        Verdict::Answer(answer) => (answer.code, answer.next),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_end_of_a_read_has_its_code_and_offset() {
    for (status, from, expected) in [
        (ReadStatus::Found, 50, (0, 53)),
        (ReadStatus::NoMatchedMessage, 50, (20, 53)),
        (ReadStatus::MessageWasRemoving, 50, (20, 53)),
        (ReadStatus::OffsetFoundNull, 50, (19, 53)),
        (ReadStatus::OffsetOverflowOne, 100, (19, 100)),
        (ReadStatus::OffsetOverflowBadly, 103, (21, 100)),
        (ReadStatus::OffsetTooSmall, 3, (21, 10)),
        (ReadStatus::OffsetReset, 50, (21, 53)),
    ] {
        assert_eq!(answer(&read(status, from)), expected, "{}", status.name());
    }
    let empty = |from| Read { min: 0, max: 0, ..read(ReadStatus::NoMessageInQueue, from) };
    assert_eq!(answer(&empty(0)), (19, 0));
    assert_eq!(answer(&empty(7)), (21, 0));
}

/// DSK-5: consumers a little above the end were sent back to offset 0.
#[test]
fn dsk_5_beyond_the_end_is_the_end_and_is_reported() {
    let read = read(ReadStatus::OffsetOverflowBadly, 103);
    let Verdict::Answer(answer) = verdict(&read, true, false) else { panic!("it must not wait") };
    assert_eq!((answer.code, answer.next), (21, 100));
    let queue = QueueKey::new("t", 0);
    let moved = Report::OffsetMoved { group: "g".into(), queue: queue.clone(), from: 103, to: 100 };
    assert_eq!(moved.to_string(), "group g asked for offset 103 of t queue 0: moved to 100");
    assert_eq!(report_moved(&read, &answer, "g", || queue.clone()), Some(Effect::Report(moved)));
    let reset = Read { status: ReadStatus::OffsetReset, ..read };
    assert_eq!(report_moved(&reset, &answer, "g", || queue.clone()), None);
    let expired = Read { min: 100, max: 100, from: 150, ..read };
    assert!(matches!(verdict(&expired, false, false), Verdict::Answer(Answer { next: 100, .. })));
}

#[test]
fn a_pull_at_the_end_waits_and_one_woken_by_other_tags_goes_on_waiting() {
    assert_eq!(verdict(&read(ReadStatus::OffsetOverflowOne, 100), true, false), Verdict::Wait { from: 100 });
    let empty = Read { min: 0, max: 0, ..read(ReadStatus::NoMessageInQueue, 0) };
    assert_eq!(verdict(&empty, true, false), Verdict::Wait { from: 0 });
    let other_tags = read(ReadStatus::NoMatchedMessage, 97);
    assert_eq!(verdict(&other_tags, true, true), Verdict::Wait { from: 100 });
    assert!(matches!(verdict(&other_tags, true, false), Verdict::Answer(Answer { code: 20, next: 100, .. })));
    assert!(matches!(verdict(&other_tags, false, true), Verdict::Answer(Answer { code: 20, next: 100, .. })));
}

#[test]
fn a_slave_is_suggested_only_if_slaves_serve_pulls() {
    let known = group(SubscriptionGroupConfig::default());
    let far = Read { far_behind: true, ..read(ReadStatus::Found, 50) };
    assert_eq!(suggested_broker_id(&rules(), &known, &far), 0);
    let slaves_serve = PullRules { slave_read: true, ..rules() };
    assert_eq!(suggested_broker_id(&slaves_serve, &known, &far), 1);
    assert_eq!(suggested_broker_id(&slaves_serve, &known, &read(ReadStatus::Found, 50)), 0);
}
