//! Queue locks over TCP: over a restart, and as a fence around a group's offsets.

use std::time::Duration;

use metaq::proto::body::{from_slice, to_vec, LockBatchRequestBody, LockBatchResponseBody, MessageQueue};
use metaq::proto::remoting::requests::{OffsetResponse, QueryConsumerOffset, UpdateConsumerOffset};
use metaq::proto::remoting::{request, response, Command, Language};

use super::support::{Broker, Client};

/// How many of the queues of `Orders` a client is given.
async fn lock(client: &Client, id: &str, queues: i32) -> usize {
    let queue = |queue_id| MessageQueue { topic: "Orders".to_owned(), broker_name: "broker-a".to_owned(), queue_id };
    let body = LockBatchRequestBody {
        client_id: id.to_owned(),
        consumer_group: "cg".to_owned(),
        mq_set: (0..queues).map(queue).collect(),
        only_this_broker: false,
    };
    let answer = client.get(Command::request(request::LOCK_BATCH_MQ).with_body(to_vec(&body))).await;
    from_slice::<LockBatchResponseBody>(&answer.body).unwrap().lock_ok_mq_set.len()
}

async fn commit(client: &Client, offset: i64) -> i32 {
    let header = UpdateConsumerOffset {
        consumer_group: "cg".into(),
        topic: "Orders".into(),
        queue_id: Some(0),
        commit_offset: Some(offset),
    };
    client.ask(Command::request(request::UPDATE_CONSUMER_OFFSET).with_ext(&header)).await.code
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

/// A broker with messages in one queue, and a member of a group.
async fn with_messages() -> (Broker, Client) {
    let broker = Broker::start("").await;
    let client = broker.client().await;
    for n in 0..10 {
        client.send("Orders", &n.to_string(), &[]).await;
    }
    client.join("a", "cg", "Orders", Language::Java).await;
    (broker, client)
}

/// REB-2: a broker that restarted gave a queue to another one while its owner still worked on it.
#[tokio::test]
async fn reb_2_locks_survive_a_restart() {
    let (broker, a) = with_messages().await;
    assert_eq!(lock(&a, "a", 2).await, 2);
    assert_eq!(lock(&broker.client().await, "b", 3).await, 1, "one is free");
    let broker = broker.restarted().await;
    let (a, b) = (broker.client().await, broker.client().await);
    assert_eq!(lock(&b, "b", 3).await, 1);
    assert_eq!(lock(&a, "a", 3).await, 2, "whoever held them goes on at once");
}

#[tokio::test]
async fn of_a_locked_queue_nobody_but_its_holder_commits() {
    let (broker, a) = with_messages().await;
    let (b, nobody) = (broker.client().await, broker.client().await);
    b.join("b", "cg", "Orders", Language::Java).await;
    a.pull("cg", "Orders", 0, Duration::ZERO).await;
    assert_eq!((lock(&a, "a", 1).await, commit(&a, 3).await), (1, response::SUCCESS));
    assert_eq!(commit(&b, 9).await, response::SUCCESS, "ignored, as RocketMQ's clients expect it");
    assert_eq!(commit(&nobody, 9).await, response::SYSTEM_ERROR, "perhaps a former holder that came back");
    assert_eq!(committed(&b).await, 3);
    // The holder on a new connection, before its heartbeat: renewing the lock says who it is.
    let again = broker.client().await;
    assert_eq!(commit(&again, 4).await, response::SYSTEM_ERROR);
    assert_eq!((lock(&again, "a", 1).await, commit(&again, 5).await), (1, response::SUCCESS));
    assert_eq!(committed(&b).await, 5);
}
