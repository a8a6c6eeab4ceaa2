//! The store and its disk, below a running broker.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{join, join_all, FutureExt};
use metaq::env::{real, Env};
use metaq::proto::remoting::requests::{QueryConsumerOffset, QueryMessage, UpdateConsumerOffset, ViewMessageById};
use metaq::proto::remoting::{request, response, Command, Language};

use crate::cluster::support::{bodies, messages, pull_command, send_command, until, Broker, Client};
use crate::store::support::{Faults, TestDisk};

const LIMIT: Duration = Duration::from_secs(20);

/// The real world, with a disk that fails on request.
fn failing_world() -> (Env, Arc<Faults>) {
    let mut env = real::env();
    let disk = TestDisk::new(env.disk);
    let faults = Arc::clone(&disk.faults);
    env.disk = Arc::new(disk);
    (env, faults)
}

fn by_key(key: &str) -> Command {
    Command::request(request::QUERY_MESSAGE).with_ext(&QueryMessage {
        topic: "Orders".into(),
        key: key.into(),
        max_num: 10,
        begin_timestamp: 0,
        end_timestamp: i64::MAX,
        unique_key_query: false,
    })
}

/// Asks until the index has come as far as the key.
async fn found(client: &Client, key: &str) -> Command {
    until(&client.env, async || Some(client.ask(by_key(key)).await).filter(|answer| answer.code == 0)).await
}

/// STO-4: after one unexpected error inside append, all later sends were refused as busy for ever.
#[tokio::test]
async fn sto_4_a_failed_append_fails_alone() {
    let (env, faults) = failing_world();
    let broker = Broker::start_in(env, "mappedFileSizeCommitLog=65536\n").await;
    let client = broker.client().await;
    let body = "x".repeat(20_000);
    faults.allocations_fail.store(true, Ordering::Relaxed);
    let mut sent = 0;
    let refused = loop {
        let answer = client.ask(send_command("Orders", &body, &[])).await;
        if answer.code != response::SUCCESS {
            break answer;
        }
        sent += 1;
        assert!(sent < 20, "no segment was needed");
    };
    assert!(refused.remark.is_some_and(|remark| remark.contains("segment")));
    faults.allocations_fail.store(false, Ordering::Relaxed);
    for n in 0..5 {
        assert_eq!(client.send("Orders", &body, &[]).await.queue_offset, sent + n);
    }
    until(&client.env, async || (broker.handle().shared().flow.used() == 0).then_some(())).await;
}

/// STO-8: a clean stop while dispatch was behind lost messages for consumers. Here nothing of what was just sent is in
/// the index yet.
#[tokio::test]
async fn sto_8_a_stop_right_after_sends_loses_nothing() {
    for flush in ["ASYNC_FLUSH", "SYNC_FLUSH"] {
        let broker = Broker::start(&format!("flushDiskType={flush}\n")).await;
        let client = broker.client().await;
        client.send("Orders", "0", &[("KEYS", "k0")]).await;
        join_all((1..100).map(|n| {
            let (body, key, client) = (n.to_string(), format!("k{n}"), &client);
            async move { client.send("Orders", &body, &[("KEYS", &key)]).await }
        }))
        .await;

        let broker = broker.restarted().await;
        let client = broker.client().await;
        let mut came = Vec::new();
        while came.len() < 100 {
            came.extend(client.wait_messages("cg", "Orders", came.len() as i64).await);
        }
        assert!(came.iter().zip(0..).all(|(message, offset)| message.queue_offset == offset), "{flush}");
        let mut numbers: Vec<i32> = came.iter().map(|message| message.body.parse().unwrap()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..100).collect::<Vec<_>>(), "{flush}");
        for n in [0, 50, 99] {
            assert_eq!(bodies(&messages(&found(&client, &format!("k{n}")).await.body)), [n.to_string()], "{flush}");
        }
    }
}

/// STO-10: under SYNC_FLUSH a message sent without waiting was not consumable until another one came.
#[tokio::test]
async fn sto_10_a_send_that_does_not_wait_is_consumable_without_more() {
    let broker = Broker::start("flushDiskType=SYNC_FLUSH\n").await;
    let client = broker.client().await;
    client.send("Orders", "alone", &[("WAIT", "false")]).await;
    let pull = client.pull("cg", "Orders", 0, Duration::from_secs(5)).await;
    assert_eq!(bodies(&messages(&pull.body)), ["alone"]);
}

/// DSK-4: the broker died when its disk turned read-only.
#[tokio::test]
async fn dsk_4_a_read_only_disk_refuses_sends_and_serves_reads() {
    for flush in ["ASYNC_FLUSH", "SYNC_FLUSH"] {
        let (env, faults) = failing_world();
        let broker = Broker::start_in(env, &format!("flushDiskType={flush}\nflushIntervalCommitLog=10\n")).await;
        let client = broker.client().await;
        client.send("Orders", "old", &[("KEYS", "k")]).await;
        let old = client.wait_messages("cg", "Orders", 0).await.remove(0);
        found(&client, "k").await;
        faults.writes_fail.store(true, Ordering::Relaxed);
        faults.syncs_fail.store(true, Ordering::Relaxed);

        // Under ASYNC_FLUSH it shows with the next flush, of the log or of the consume queues.
        let unavailable = |answer: &Command| answer.code == response::SERVICE_NOT_AVAILABLE;
        let send = send_command("Orders", "new", &[]);
        // The queues' files may be first to fail; the log is the more serious reason, and is told once it is known.
        let told = |answer: &Command| answer.remark.as_ref().is_some_and(|remark| remark.contains("commitlog"));
        until(&client.env, async || {
            Some(client.ask(send.clone()).await).filter(|answer| unavailable(answer) && told(answer))
        })
        .await;
        assert!(unavailable(&client.ask(send).await), "it stays unwritable");

        assert_eq!(client.wait_messages("cg", "Orders", 0).await[0], old);
        assert_eq!(messages(&found(&client, "k").await.body), std::slice::from_ref(&old));
        let view = ViewMessageById { offset: old.position, topic: None };
        let viewed = client.get(Command::request(request::VIEW_MESSAGE_BY_ID).with_ext(&view)).await;
        assert_eq!(messages(&viewed.body), [old]);
        assert_eq!(broker.handle().failed().now_or_never(), None, "the broker stays up");
    }
}

/// OFF-2: consumers jumped to 0 when the broker was stopped while they were reading.
#[tokio::test]
async fn off_2_a_stop_while_reading_moves_no_offset() {
    let broker = Broker::start("").await;
    let client = broker.client().await;
    client.join("c", "cg", "Orders", Language::Java).await;
    for n in 0..5 {
        client.send("Orders", &n.to_string(), &[]).await;
    }
    let commit = UpdateConsumerOffset {
        consumer_group: "cg".into(),
        topic: "Orders".into(),
        queue_id: Some(0),
        commit_offset: Some(5),
    };
    client.get(Command::request(request::UPDATE_CONSUMER_OFFSET).with_ext(&commit)).await;
    let waits = client.handle.call(&*client.env.clock, pull_command("cg", "Orders", 5, LIMIT), LIMIT);
    let (ended, broker) = join(waits, async {
        let shared = Arc::clone(broker.handle().shared());
        until(&client.env, async || (shared.parked_pulls.load(Ordering::Relaxed) == 1).then_some(())).await;
        broker.restarted().await
    })
    .await;
    if let Ok(answer) = ended {
        let moves = [response::PULL_OFFSET_MOVED, response::SUCCESS].contains(&answer.code);
        assert!(!moves, "a stop is not an answer about offsets: {answer:?}");
    }
    let query = QueryConsumerOffset {
        consumer_group: "cg".into(),
        topic: "Orders".into(),
        queue_id: 0,
        set_zero_if_not_found: false,
    };
    let answer = broker.client().await.get(Command::request(request::QUERY_CONSUMER_OFFSET).with_ext(&query)).await;
    assert_eq!(answer.ext("offset"), Some("5"));
}
