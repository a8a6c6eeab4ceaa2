//! Consuming in order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metaq::client::{Client, ConsumeFrom, Message, OrderlyAction, PushConsumerBuilder, Received};

use super::consuming::{send, Seen};
use super::support::{until, Cluster, LIMIT};

fn first(client: &Client) -> PushConsumerBuilder {
    client.push_consumer("cg").subscribe("Orders", "*").consume_from(ConsumeFrom::First)
}

/// REB-9: out of order right after the start.
#[tokio::test]
async fn reb_9_keys_are_consumed_in_order_though_some_fail() {
    let cluster = Cluster::start(2, "").await;
    cluster.make_topic("Orders", 2).await;
    let client = cluster.client();
    let producer = client.producer("pg").start().unwrap();
    for number in 0..30 {
        let key = format!("k{}", number % 3);
        producer.send_ordered(Message::new("Orders", format!("{number}")).key(&key), &key).await.unwrap();
    }
    let seen = Seen::default();
    let heard = seen.clone();
    let consumer = first(&client)
        .orderly(move |message| {
            let fails = message.body.ends_with(b"7") && message.reconsume_times < 2;
            if !fails {
                heard.add(&message);
            }
            async move {
                if fails {
                    OrderlyAction::SuspendFor(Duration::from_millis(20))
                } else {
                    OrderlyAction::Done
                }
            }
        })
        .await
        .unwrap();
    let got = seen.wait(&cluster, 30).await;
    let mut by_key: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for message in &got {
        let number = String::from_utf8_lossy(&message.body).parse().unwrap();
        by_key.entry(message.keys().next().unwrap().to_owned()).or_default().push(number);
    }
    for (key, numbers) in by_key {
        assert!(numbers.is_sorted() && numbers.len() == 10, "{key}: {numbers:?}");
    }
    consumer.stop(LIMIT).await;
    assert_eq!(client.admin().lag("cg", Some("Orders")).await.unwrap().total(), 0);
}

/// RTY-2: a message over its limit came back for ever.
#[tokio::test]
async fn rty_2_a_message_over_its_limit_makes_room() {
    let cluster = Cluster::start(1, "").await;
    cluster.make_topic("Orders", 1).await;
    let client = cluster.client();
    send(&client.producer("pg").start().unwrap(), "Orders", 0..4).await;
    let seen = Seen::default();
    let heard = seen.clone();
    let consumer = first(&client)
        .max_reconsume_times(1)
        .suspend(Duration::from_millis(20))
        .orderly(move |message| {
            heard.add(&message);
            async move {
                match &message.body[..] {
                    b"m1" => OrderlyAction::Suspend,
                    b"m2" => OrderlyAction::DeadLetter,
                    _ => OrderlyAction::Done,
                }
            }
        })
        .await
        .unwrap();
    seen.wait(&cluster, 5).await;
    assert_eq!(seen.bodies(), ["m0", "m1", "m1", "m2", "m3"]);
    let dead = until(&cluster.env, async || {
        let queues = client.admin().queues("%DLQ%cg").await.ok()?;
        let mut reader = client.reader().assign(queues).consume_from(ConsumeFrom::First).start().await.unwrap();
        let dead = reader.poll(Duration::from_millis(500)).await.unwrap();
        (dead.len() == 2).then_some(dead)
    })
    .await;
    assert_eq!((&dead[0].body[..], &dead[1].body[..]), (&b"m1"[..], &b"m2"[..]));
    consumer.stop(LIMIT).await;
}

/// REB-4: an orderly stop left its locks behind, and the next member waited a minute.
#[tokio::test]
async fn reb_4_a_stopped_member_leaves_no_locks() {
    let cluster = Cluster::start(1, "").await;
    cluster.make_topic("Orders", 4).await;
    let clients = [cluster.client(), cluster.client()];
    let producer = clients[0].producer("pg").start().unwrap();
    let working: Arc<Mutex<BTreeMap<i32, usize>>> = Arc::default();
    let seen = Seen::default();
    let start = async |client: &Client, number: usize| {
        let (seen, working) = (seen.clone(), Arc::clone(&working));
        let listener = move |message: Arc<Received>| {
            let (seen, working) = (seen.clone(), Arc::clone(&working));
            async move {
                let queue = message.queue.queue_id;
                let other = working.lock().unwrap().insert(queue, number);
                assert_eq!(other, None, "two members work on queue {queue}");
                tokio::task::yield_now().await;
                seen.add(&message);
                working.lock().unwrap().remove(&queue);
                OrderlyAction::Done
            }
        };
        first(client).orderly(listener).await.unwrap()
    };
    let one = start(&clients[0], 1).await;
    let two = start(&clients[1], 2).await;
    let of_topic =
        |queues: Vec<metaq::client::MessageQueue>| queues.iter().filter(|queue| queue.topic == "Orders").count();
    send(&producer, "Orders", 0..40).await;
    until(&cluster.env, async || (of_topic(one.queues()) == 2 && of_topic(two.queues()) == 2).then_some(())).await;
    send(&producer, "Orders", 40..80).await;
    seen.wait(&cluster, 80).await;
    one.stop(LIMIT).await;
    until(&cluster.env, async || (of_topic(two.queues()) == 4).then_some(())).await;
    send(&producer, "Orders", 80..100).await;
    seen.wait(&cluster, 100).await;
    two.stop(LIMIT).await;
    let mut last = BTreeMap::new();
    for message in seen.all() {
        let before = last.insert(message.queue.clone(), message.offset);
        assert!(before.is_none_or(|before| before < message.offset), "order is kept across the handing over");
    }
    assert_eq!(seen.all().len(), 100);
}
