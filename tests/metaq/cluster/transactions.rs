//! Transactions over real TCP: half messages, decisions, questions, and what nobody decides. TXN and T name cases of field
//! faults and races.

use std::time::Duration;

use metaq::proto::message::{ids, parse, properties, sys_flag, BodyCrc, Parsed};
use metaq::proto::remoting::requests::{
    CheckTransactionState, DeleteTopicInBroker, EndTransaction, ResumeCheckHalfMessage,
};
use metaq::proto::remoting::{request, Command};

use super::support::{bodies, messages, until, Broker, Client, Message, Sent};

const HALF: &str = "RMQ_SYS_TRANS_HALF_TOPIC";
const OP: &str = "RMQ_SYS_TRANS_OP_HALF_TOPIC";
const GIVEN_UP: &str = "TRANS_CHECK_MAX_TIME_TOPIC";
/// Producers are asked at once and often.
const EAGER: &str = "transactionTimeOut=0\ntransactionCheckInterval=100\n";
pub const COMMIT: i32 = 8;
pub const ROLLBACK: i32 = 12;

pub async fn send_half(client: &Client, body: &str, key: &str) -> Sent {
    let pairs = [("TRAN_MSG", "true"), ("PGROUP", "pg"), ("UNIQ_KEY", key), ("TAGS", "T"), ("WAIT", "true")];
    client.send("Orders", body, &pairs).await
}

fn position(sent: &Sent) -> i64 {
    ids::parse_offset_message_id(&sent.message_id).unwrap().1 .0 as i64
}

fn end_command(place: (i64, i64), decision: i32, group: &str, id: Option<&str>) -> Command {
    let header = EndTransaction {
        topic: None,
        producer_group: group.into(),
        tran_state_table_offset: place.0,
        commit_log_offset: place.1,
        commit_or_rollback: decision,
        from_transaction_check: false,
        msg_id: None,
        transaction_id: id.map(Into::into),
    };
    Command::request(request::END_TRANSACTION).with_ext(&header)
}

pub async fn end(client: &Client, half: &Sent, decision: i32) -> (i32, String) {
    let place = (half.queue_offset, position(half));
    let answer = client.ask(end_command(place, decision, "pg", None)).await;
    (answer.code, answer.remark.unwrap_or_default())
}

/// What lies in queue 0 of a topic, now.
async fn all(client: &Client, topic: &str) -> Vec<Message> {
    messages(&client.pull("cg", topic, 0, Duration::ZERO).await.body)
}

/// Waits for question number `count`: the half that it is about, and the message it brings.
async fn question(client: &Client, count: usize) -> ((i64, i64), Message) {
    let command =
        until(&client.env, async || client.asked(request::CHECK_TRANSACTION_STATE).into_iter().nth(count - 1)).await;
    assert_ne!(command.flag & 2, 0, "one-way: clients do not answer it as a request");
    let ext = command.ext_fields().unwrap();
    let header = CheckTransactionState::decode(&ext).unwrap();
    let message = messages(&command.body).remove(0);
    assert_eq!(header.transaction_id.as_deref(), message.property("UNIQ_KEY"));
    ((header.tran_state_table_offset, header.commit_log_offset), message)
}

#[tokio::test]
async fn a_committed_half_message_is_seen_once_whatever_its_producer_says_later() {
    let broker = Broker::start("").await;
    let client = broker.client().await;
    let half = send_half(&client, "a", "K1").await;
    assert_eq!(all(&client, "Orders").await, [], "nobody sees a half message");
    assert_eq!(end(&client, &half, 0).await.0, 0);
    assert_eq!(all(&client, "Orders").await, [], "nothing was decided");

    assert_eq!(end(&client, &half, COMMIT).await.0, 0);
    let seen = client.wait_messages("cg", "Orders", 0).await;
    assert_eq!((bodies(&seen), seen[0].property("TAGS")), (vec!["a"], Some("T")));
    assert_eq!(end(&client, &half, COMMIT).await.0, 0, "T2: repeated, answered, nothing written");
    let (code, remark) = end(&client, &half, ROLLBACK).await;
    assert_eq!((code, remark.contains("has been committed")), (604, true), "{remark}");
    assert_eq!(all(&client, "Orders").await.len(), 1);
    assert_eq!(bodies(&all(&client, OP).await), ["0,"]);
}

/// T3, TXN-4
#[tokio::test]
async fn a_rolled_back_half_message_is_never_seen() {
    let broker = Broker::start("").await;
    let client = broker.client().await;
    let (first, second) = (send_half(&client, "a", "K1").await, send_half(&client, "b", "K2").await);
    assert_eq!(end(&client, &first, ROLLBACK).await.0, 0);
    assert_eq!(end(&client, &first, COMMIT).await.0, 604);
    assert_eq!(end(&client, &second, COMMIT).await.0, 0);
    let seen = client.wait_messages("cg", "Orders", 0).await;
    assert_eq!(bodies(&seen), ["b"]);
    let broker = broker.restarted().await;
    let client = broker.client().await;
    let (code, remark) = end(&client, &first, COMMIT).await;
    assert_eq!((code, remark.contains("has ended before")), (604, true), "{remark}");
    assert_eq!(all(&client, "Orders").await.len(), 1);
}

/// The records are those of an Apache broker: names of topics and properties, flags, offsets.
#[tokio::test]
async fn half_op_and_committed_records_are_apaches() {
    let broker = Broker::start("").await;
    let client = broker.client().await;
    client.send("Orders", "before", &[]).await;
    let half = send_half(&client, "tx-commit", "K1").await;
    assert_eq!(end(&client, &half, COMMIT).await.0, 0);
    client.wait_messages("cg", "Orders", 1).await;
    let of = async |topic: &str, offset| {
        let body = client.pull("cg", topic, offset, Duration::ZERO).await.body;
        let Ok(Parsed::Record(record)) = parse(&body, BodyCrc::Verify) else { panic!("no record") };
        let mut names: Vec<String> =
            properties::iterate(&record.properties()).map(|(name, _)| name.to_owned()).collect();
        names.sort();
        let kind = sys_flag::transaction_type(record.sys_flag());
        (record.queue_id(), kind, record.prepared_transaction_offset(), names)
    };
    let captured = |at: usize| {
        let bytes = crate::vectors::store("captured/records.bin");
        let Ok(Parsed::Record(record)) = parse(&bytes[at..], BodyCrc::Verify) else { panic!("no record") };
        let mut names: Vec<String> = properties::iterate(&record.properties())
            .map(|(name, _)| name.to_owned())
            .filter(|name| name != "KEYS")
            .collect();
        names.sort();
        (sys_flag::transaction_type(record.sys_flag()), names)
    };
    let (half_at, committed_at, op_at) = (3317, 3683, 4034);
    let (queue, kind, prepared, names) = of(HALF, 0).await;
    assert_eq!((queue, prepared), (0, 0));
    assert_eq!((kind, names), captured(half_at));
    let (queue, kind, prepared, names) = of("Orders", 1).await;
    assert_eq!((queue, prepared), (0, position(&half)));
    assert_eq!((kind, names), captured(committed_at));
    let (queue, kind, _, names) = of(OP, 0).await;
    assert_eq!(queue, 0);
    assert_eq!((kind, names), captured(op_at));
}

#[tokio::test]
async fn ends_that_name_no_half_message_of_theirs_are_refused() {
    let broker = Broker::start("").await;
    let client = broker.client().await;
    let half = send_half(&client, "a", "K1").await;
    let other = client.send("Orders", "other", &[]).await;
    let (offset, at) = (half.queue_offset, position(&half));
    for (place, group, id, remark) in [
        ((offset, at + 1), "pg", None, "Find prepared transaction message failed"),
        ((offset, -1), "pg", None, "Find prepared transaction message failed"),
        ((other.queue_offset, position(&other)), "pg", None, "Find prepared transaction message failed"),
        ((offset, at), "other", None, "The producer group wrong"),
        ((offset + 1, at), "pg", None, "The transaction state table offset wrong"),
        ((-1, at), "pg", None, "The transaction state table offset wrong"),
        ((offset, at), "pg", Some("K2"), "its id is another one"),
    ] {
        let answer = client.ask(end_command(place, COMMIT, group, id)).await;
        let said = answer.remark.unwrap_or_default();
        assert!(answer.code == 1 && said.contains(remark), "{place:?} {group} {id:?}: {} {said}", answer.code);
    }
    assert_eq!(bodies(&all(&client, "Orders").await), ["other"]);
    let answer = client.ask(end_command((offset, at), COMMIT, "pg", Some("K1"))).await;
    assert_eq!(answer.code, 0);
}

#[tokio::test]
async fn a_producer_that_does_not_decide_is_asked_and_its_answer_counts() {
    let broker = Broker::start(EAGER).await;
    let (client, producer) = (broker.client().await, broker.client().await);
    producer.produce_as("p", "pg").await;
    send_half(&client, "a", "K1").await;
    let ((first, _), message) = question(&producer, 1).await;
    assert_eq!((message.topic.as_str(), message.body.as_str()), ("Orders", "a"));
    assert_eq!(message.property("TRANSACTION_CHECK_TIMES"), Some("1"));
    let (place, message) = question(&producer, 2).await;
    assert_eq!(message.property("TRANSACTION_CHECK_TIMES"), Some("2"));
    assert!(place.0 > first, "each question is about a half message of its own");
    assert_eq!(producer.ask(end_command(place, COMMIT, "pg", None)).await.code, 0);
    assert_eq!(bodies(&client.wait_messages("cg", "Orders", 0).await), ["a"]);
}

/// T1: the producer decides about its half message while it is asked about a later one; then the answer comes too.
#[tokio::test]
async fn a_decision_that_crosses_a_question_counts_and_the_answer_does_not() {
    let broker = Broker::start(EAGER).await;
    let client = broker.client().await;
    client.produce_as("p", "pg").await;
    let half = send_half(&client, "a", "K1").await;
    let (asked, _) = question(&client, 1).await;
    assert_ne!(asked.0, half.queue_offset);
    assert_eq!(end(&client, &half, COMMIT).await.0, 0);
    assert_eq!(client.ask(end_command(asked, COMMIT, "pg", None)).await.code, 0);
    assert_eq!(client.ask(end_command(asked, ROLLBACK, "pg", None)).await.code, 604);
    assert_eq!(bodies(&client.wait_messages("cg", "Orders", 0).await), ["a"]);
    assert_eq!(all(&client, "Orders").await.len(), 1);
}

/// T10, T15: what nobody decides goes to the operator, and can be put into work again.
#[tokio::test]
async fn what_is_asked_about_too_often_is_kept_for_the_operator() {
    let broker = Broker::start(&format!("{EAGER}transactionCheckMax=2\n")).await;
    let client = broker.client().await;
    client.produce_as("p", "pg").await;
    let half = send_half(&client, "a", "K1").await;
    let there = async || Some(all(&client, GIVEN_UP).await).filter(|given_up| !given_up.is_empty());
    let given_up = until(&broker.env, there).await;
    assert_eq!((bodies(&given_up), given_up[0].property("TRANSACTION_CHECK_TIMES")), (vec!["a"], Some("2")));
    assert_eq!(client.asked(request::CHECK_TRANSACTION_STATE).len(), 2);
    let (code, remark) = end(&client, &half, COMMIT).await;
    assert_eq!((code, remark.contains(GIVEN_UP)), (604, true), "{remark}");

    let resume = |at: i64| {
        let id = ids::offset_message_id(broker.address(), metaq::proto::PhysicalOffset(at as u64));
        let header = ResumeCheckHalfMessage { msg_id: id.into(), topic: None };
        Command::request(request::RESUME_CHECK_HALF_MESSAGE).with_ext(&header)
    };
    client.get(resume(given_up[0].position)).await;
    assert_eq!(client.ask(resume(position(&half))).await.code, 1, "it was not given up there");
    let (place, message) = question(&client, 3).await;
    assert_eq!(message.property("TRANSACTION_CHECK_TIMES"), Some("1"));
    assert_eq!(client.ask(end_command(place, COMMIT, "pg", None)).await.code, 0);
    assert_eq!(bodies(&client.wait_messages("cg", "Orders", 0).await), ["a"]);
}

/// TXN-6, T10: a group that nobody of is there uses up no questions, and is asked when it is back.
#[tokio::test]
async fn a_group_that_comes_back_is_asked() {
    let broker = Broker::start(&format!("{EAGER}transactionCheckMax=1\n")).await;
    let client = broker.client().await;
    send_half(&client, "a", "K1").await;
    broker.env.clock.sleep(Duration::from_millis(350)).await;
    assert_eq!(client.pull("cg", GIVEN_UP, 0, Duration::ZERO).await.code, 17, "nothing was given up");
    client.produce_as("p", "pg").await;
    let (place, _) = question(&client, 1).await;
    assert_eq!(client.ask(end_command(place, ROLLBACK, "pg", None)).await.code, 0);
    assert_eq!(all(&client, "Orders").await, []);
}

#[tokio::test]
async fn a_restart_forgets_neither_what_is_open_nor_what_has_ended() {
    let broker = Broker::start("").await;
    let client = broker.client().await;
    let ended = send_half(&client, "ended", "K1").await;
    assert_eq!(end(&client, &ended, COMMIT).await.0, 0);
    let open = send_half(&client, "open", "K2").await;
    let broker = broker.restarted().await;
    let client = broker.client().await;
    assert_eq!(end(&client, &ended, COMMIT).await.0, 604);
    assert_eq!(end(&client, &open, COMMIT).await.0, 0);
    let seen = until(&broker.env, async || Some(all(&client, "Orders").await).filter(|seen| seen.len() > 1)).await;
    assert_eq!(bodies(&seen), ["ended", "open"]);
    let broker = broker.restarted().await;
    let offsets = broker.handle().shared().offsets();
    let saved = |topic| offsets.committed_offset("CID_RMQ_SYS_TRANS", topic, 0);
    assert_eq!((saved(HALF), saved(OP)), (Some(2), Some(2)), "TXN-2: both queues are done with");
}

#[tokio::test]
async fn a_commit_to_a_topic_that_is_gone_leaves_the_transaction_open() {
    let broker = Broker::start("").await;
    let client = broker.client().await;
    let half = send_half(&client, "a", "K1").await;
    let header = DeleteTopicInBroker { topic: "Orders".into() };
    client.get(Command::request(request::DELETE_TOPIC_IN_BROKER).with_ext(&header)).await;
    assert_eq!(end(&client, &half, COMMIT).await.0, 17);
    client.send("Orders", "new", &[]).await;
    assert_eq!(end(&client, &half, COMMIT).await.0, 0);
    let seen = until(&broker.env, async || Some(all(&client, "Orders").await).filter(|seen| seen.len() > 1)).await;
    assert_eq!(bodies(&seen), ["new", "a"]);
}

#[tokio::test]
async fn settings_refuse_half_messages() {
    let broker = Broker::start("halfMessagesMax=1\n").await;
    let client = broker.client().await;
    let half = send_half(&client, "a", "K1").await;
    let again = |key: &'static str| {
        super::support::send_command("Orders", "b", &[("TRAN_MSG", "true"), ("PGROUP", "pg"), ("UNIQ_KEY", key)])
    };
    assert_eq!(client.ask(again("K2")).await.code, 2, "halfMessagesMax");
    assert_eq!(end(&client, &half, ROLLBACK).await.0, 0);
    client.get(again("K3")).await;
    client.get(Command::request(request::UPDATE_BROKER_CONFIG).with_body("rejectTransactionMessage=true")).await;
    assert_eq!(client.ask(again("K4")).await.code, 16);
}

/// TXN-7: cleaning unused topics removed the op topic.
#[tokio::test]
async fn txn_7_topics_of_the_system_are_not_cleaned_up() {
    let broker = Broker::start("").await;
    let client = broker.client().await;
    let half = send_half(&client, "a", "K1").await;
    assert_eq!(end(&client, &half, COMMIT).await.0, 0);
    for topic in [HALF, OP, GIVEN_UP, "SCHEDULE_TOPIC_XXXX", "TBW102", "rmq_sys_wheel_timer"] {
        let header = DeleteTopicInBroker { topic: topic.into() };
        let refused = client.ask(Command::request(request::DELETE_TOPIC_IN_BROKER).with_ext(&header)).await;
        assert_ne!(refused.code, 0, "{topic}");
    }
    client.get(Command::request(request::CLEAN_UNUSED_TOPIC)).await;
    assert_eq!(bodies(&all(&client, HALF).await), ["a"]);
    assert_eq!(bodies(&all(&client, OP).await), ["0,"]);
    assert_eq!(end(&client, &half, ROLLBACK).await.0, 604);
}
