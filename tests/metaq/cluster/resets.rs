//! Offsets moved by tools.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::{join, join3, join_all};
use metaq::proto::body::{from_slice, GetConsumerStatusBody, MessageQueue, ResetOffsetBody, ResetOffsetBodyForC};
use metaq::proto::remoting::requests::{
    DeleteTopicInBroker, GetConsumerStatus, OffsetResponse, QueryConsumerOffset, ResetOffset, UpdateConsumerOffset,
};
use metaq::proto::remoting::{request, Command, Language, Response};

use super::support::{bodies, messages, next_offset, pull_command, send_command, until, Broker, Client};

const RESET: i32 = 21;

fn reset(offset: Option<i64>, timestamp: i64) -> Command {
    Command::request(request::INVOKE_BROKER_TO_RESET_OFFSET).with_ext(&ResetOffset {
        topic: "Orders".into(),
        group: "cg".into(),
        timestamp,
        is_force: true,
        queue_id: -1,
        offset,
    })
}

async fn commit(client: &Client, offset: i64) -> Command {
    let header = UpdateConsumerOffset {
        consumer_group: "cg".into(),
        topic: "Orders".into(),
        queue_id: Some(0),
        commit_offset: Some(offset),
    };
    client.get(Command::request(request::UPDATE_CONSUMER_OFFSET).with_ext(&header)).await
}

async fn committed(client: &Client) -> i64 {
    let header = QueryConsumerOffset {
        consumer_group: "cg".into(),
        topic: "Orders".into(),
        queue_id: 0,
        set_zero_if_not_found: true,
    };
    let answer = client.get(Command::request(request::QUERY_CONSUMER_OFFSET).with_ext(&header)).await;
    OffsetResponse::decode(&answer.ext_fields().unwrap()).unwrap().offset
}

/// A broker with ten messages and a member that has consumed them all.
async fn consumed(settings: &str) -> (Broker, Client) {
    let broker = Broker::start(settings).await;
    let client = broker.client().await;
    for n in 0..10 {
        client.send("Orders", &n.to_string(), &[]).await;
    }
    client.join("a", "cg", "Orders", Language::Java).await;
    client.pull("cg", "Orders", 0, Duration::ZERO).await;
    commit(&client, 10).await;
    (broker, client)
}

/// OFF-3: the consumer that fetched the reset crashes; another starts where the reset said, and a restart keeps it.
#[tokio::test]
async fn off_3_a_reset_survives_the_consumer_that_fetched_it() {
    let (broker, a) = consumed("").await;
    let tool = broker.client().await;
    let answer = tool.get(reset(Some(4), 0)).await;
    let targets: ResetOffsetBody = from_slice(&answer.body).unwrap();
    assert_eq!(targets.offset_table.values().collect::<Vec<_>>(), [&4]);
    let moved = a.pull("cg", "Orders", 10, Duration::ZERO).await;
    assert_eq!((moved.code, next_offset(&moved)), (RESET, 4));
    a.handle.close();

    let b = broker.client().await;
    b.join("b", "cg", "Orders", Language::Java).await;
    assert_eq!(committed(&b).await, 4);
    let pulled = b.wait_messages("cg", "Orders", 4).await;
    assert_eq!(bodies(&pulled), ["4", "5", "6", "7", "8", "9"]);
    commit(&b, 5).await;

    let broker = broker.restarted().await;
    assert_eq!(committed(&broker.client().await).await, 5);
}

/// OFF-6: a reset to "now" leaves no lag; one to a time in the future is the same.
#[tokio::test]
async fn off_6_a_reset_to_now_leaves_no_lag() {
    let (broker, _a) = consumed("").await;
    let tool = broker.client().await;
    for timestamp in [-1, i64::MAX] {
        tool.get(reset(Some(3), 0)).await;
        tool.get(reset(None, timestamp)).await;
        assert_eq!(committed(&tool).await, 10);
    }
    tool.get(reset(None, 0)).await;
    assert_eq!(committed(&tool).await, 0, "the beginning of time is the queue's beginning");
    let refused = tool.ask(reset(Some(12), 0)).await;
    let remark = "Target offset 12 not in consume queue range [0-10]".to_owned();
    assert_eq!((refused.code, refused.remark), (1, Some(remark)));
    assert_eq!(committed(&tool).await, 0, "a refused reset moves nothing");
}

/// OFF-7: the running consumer's next commits do not undo the reset.
#[tokio::test]
async fn off_7_a_running_consumer_does_not_undo_a_reset() {
    let (broker, a) = consumed("").await;
    let tool = broker.client().await;
    tool.get(reset(Some(2), 0)).await;
    let ignored = commit(&a, 10).await;
    assert_eq!(ignored.remark.as_deref(), Some("Offset has been previously reset"));
    let moved = a.pull("cg", "Orders", 10, Duration::ZERO).await;
    assert_eq!((moved.code, next_offset(&moved)), (RESET, 2));
    commit(&a, 10).await;
    assert_eq!(committed(&a).await, 2, "an old Java client commits once more before it obeys");
    let pulled = a.pull("cg", "Orders", 2, Duration::ZERO).await;
    assert_eq!(messages(&pulled.body).len(), 8);
    commit(&a, 3).await;
    assert_eq!(committed(&a).await, 3);
}

#[tokio::test]
async fn what_is_unknown_cannot_be_reset() {
    let (broker, _a) = consumed("").await;
    let tool = broker.client().await;
    for (topic, group, code, remark) in [
        ("Unknown", "cg", 17, "Topic Unknown does not exist"),
        ("Orders", "unknown", 26, "Group unknown does not exist"),
    ] {
        let mut command = reset(None, -1);
        command.ext.set("topic", topic);
        command.ext.set("group", group);
        let refused = tool.ask(command).await;
        assert_eq!((refused.code, refused.remark.as_deref()), (code, Some(remark)));
    }
}

/// Members are told in the form that each can read.
#[tokio::test]
async fn without_server_side_resets_the_members_are_told() {
    let (broker, java) = consumed("useServerSideResetOffset=false\n").await;
    let cpp = broker.client().await;
    cpp.join("b", "cg", "Orders", Language::Cpp).await;
    let tool = broker.client().await;
    tool.get(reset(None, 0)).await;
    let queue = MessageQueue { broker_name: "broker-a".into(), queue_id: 0, topic: "Orders".into() };
    let told = java.wait_asked(request::RESET_CONSUMER_CLIENT_OFFSET).await;
    assert!(told.is_oneway() && told.ext("isForce") == Some("false") && told.ext("group") == Some("cg"));
    let object: ResetOffsetBody = from_slice(&told.body).unwrap();
    assert_eq!(object.offset_table.get(&queue), Some(&0));
    assert!(told.body.starts_with(b"{\"offsetTable\":{{"));
    let told = cpp.wait_asked(request::RESET_CONSUMER_CLIENT_OFFSET).await;
    let list: ResetOffsetBodyForC = from_slice(&told.body).unwrap();
    assert_eq!((list.offset_table.len(), list.offset_table[0].offset), (1, 0));
    assert!(told.body.starts_with(b"{\"offsetTable\":[{"));
    assert_eq!(committed(&tool).await, 10, "the members bring the new offset themselves");
}

#[tokio::test]
async fn members_tell_where_they_are() {
    let (broker, a) = consumed("").await;
    let queue = MessageQueue { broker_name: "broker-a".into(), queue_id: 0, topic: "Orders".into() };
    let body = br#"{"messageQueueTable":{{"brokerName":"broker-a","queueId":0,"topic":"Orders"}:7}}"#;
    a.answers(request::GET_CONSUMER_STATUS_FROM_CLIENT, Response::success().with_body(body.as_slice()));
    let header = GetConsumerStatus { topic: "Orders".into(), group: "cg".into(), client_addr: None };
    let ask = |header: &GetConsumerStatus<'_>| {
        Command::request(request::INVOKE_BROKER_TO_GET_CONSUMER_STATUS).with_ext(header)
    };
    let tool = broker.client().await;
    let answer = tool.get(ask(&header)).await;
    let status: GetConsumerStatusBody = from_slice(&answer.body).unwrap();
    assert_eq!(status.consumer_table["a"][&queue], 7);
    let absent = GetConsumerStatus { client_addr: Some("b".into()), ..header };
    assert_eq!(tool.ask(ask(&absent)).await.code, 206);
}

/// A member that waits for messages hears of a reset at once, also when the queue has never held any.
#[tokio::test]
async fn a_waiting_pull_is_woken_by_a_reset() {
    let (broker, a) = consumed("").await;
    let (tool, other) = (broker.client().await, broker.client().await);
    let shared = broker.handle().shared();
    let parked =
        |count| until(&broker.env, async move || (shared.parked_pulls.load(Ordering::Relaxed) == count).then_some(()));
    let waiting = a.pull("cg", "Orders", 10, Duration::from_secs(15));
    let (moved, _, _) = join3(waiting, other.pull("other", "Orders", 10, Duration::from_secs(2)), async {
        parked(2).await;
        tool.get(reset(Some(4), 0)).await;
        parked(1).await;
    })
    .await;
    assert_eq!((moved.code, next_offset(&moved)), (RESET, 4), "it did not wait for its 15 s");
    assert_eq!(messages(&a.pull("cg", "Orders", 4, Duration::ZERO).await.body).len(), 6);
}

/// A topic that is deleted has nothing left to wait for, and does not come back by those who waited.
#[tokio::test]
async fn a_waiting_pull_is_told_that_its_topic_was_deleted() {
    let (broker, a) = consumed("").await;
    let tool = broker.client().await;
    let shared = broker.handle().shared();
    let (told, ()) = join(a.pull("cg", "Orders", 10, Duration::from_secs(15)), async {
        until(&broker.env, async || (shared.parked_pulls.load(Ordering::Relaxed) == 1).then_some(())).await;
        let delete = DeleteTopicInBroker { topic: "Orders".into() };
        tool.get(Command::request(request::DELETE_TOPIC_IN_BROKER).with_ext(&delete)).await;
    })
    .await;
    assert_eq!(told.code, 17, "{:?}", told.remark);
    assert!(shared.store.queue("Orders", 0).is_none(), "the queue is gone");
}

/// An offset beyond the queue's end would have the group miss what comes; a queue that is none has none.
#[tokio::test]
async fn offsets_and_queues_that_do_not_exist_are_not_committed() {
    let (broker, client) = consumed("").await;
    let ask = async |queue_id: i32, offset: i64| {
        let header = UpdateConsumerOffset {
            consumer_group: "cg".into(),
            topic: "Orders".into(),
            queue_id: Some(queue_id),
            commit_offset: Some(offset),
        };
        client.ask(Command::request(request::UPDATE_CONSUMER_OFFSET).with_ext(&header)).await
    };
    for (queue_id, offset) in [(0, 11), (0, i64::MAX), (0, -2), (0, i64::MIN), (-1, 0), (1, 0), (i32::MAX, 0)] {
        let refused = ask(queue_id, offset).await;
        let remark = refused.remark.unwrap_or_default();
        assert!(refused.code == 29 && remark.contains("is illegal"), "{queue_id} {offset}: {remark}");
    }
    assert_eq!(committed(&client).await, 10);
    let mut pull = pull_command("cg", "Orders", 10, Duration::ZERO);
    pull.ext.set("commitOffset", "99");
    pull.ext.set("sysFlag", "5");
    assert_eq!(client.ask(pull).await.code, 19);
    assert_eq!(committed(&client).await, 10, "nor with a pull");
    assert_eq!(ask(0, -1).await.code, 0);
    let mut query = Command::request(request::QUERY_CONSUMER_OFFSET);
    for (name, value) in [("consumerGroup", "cg"), ("topic", "Orders"), ("queueId", "7"), ("setZeroIfNotFound", "true")]
    {
        query.ext.push(name, value);
    }
    assert_eq!(broker.client().await.ask(query).await.code, 22, "a queue the topic has not got has no offset");
}

/// Sends that meet the deletion of their topic are stored, or told that it is gone: clients then ask for the route.
#[tokio::test]
async fn sends_during_a_deletion_are_stored_or_told_that_the_topic_is_gone() {
    let broker = Broker::start("autoCreateTopicEnable=true\n").await;
    let (producer, tool) = (broker.client().await, broker.client().await);
    for round in 0..20 {
        producer.send("Orders", "a", &[]).await;
        let sends = join_all((0..200).map(|_| producer.ask(send_command("Orders", "b", &[]))));
        let delete = DeleteTopicInBroker { topic: "Orders".into() };
        let deleted = tool.get(Command::request(request::DELETE_TOPIC_IN_BROKER).with_ext(&delete));
        let (answers, _) = join(sends, deleted).await;
        let odd: Vec<_> = answers.iter().filter(|answer| !matches!(answer.code, 0 | 17)).collect();
        assert!(odd.is_empty(), "round {round}: {:?}", odd[0]);
    }
}
