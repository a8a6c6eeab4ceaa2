//! The ways to consume.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use futures::{pin_mut, StreamExt};
use metaq::client::{ConsumeFrom, Error, Message, NextPull, OrderlyAction, Position, Received};
use metaq::env::Millis;

use super::scene::{body, send_many, send_to_each_queue, sent, until, Inbox, Scene, LIMIT, QUEUES};
use super::Check;

pub const CHECKS: [Check; 8] = [
    ("push", |scene| Box::pin(push(scene))),
    ("orderly", |scene| Box::pin(orderly(scene))),
    ("tags", |scene| Box::pin(tags(scene))),
    ("sql", |scene| Box::pin(sql(scene))),
    ("pull", |scene| Box::pin(pull(scene))),
    ("poll", |scene| Box::pin(poll(scene))),
    ("stream", |scene| Box::pin(stream(scene))),
    ("scheduled", |scene| Box::pin(scheduled(scene))),
];

/// A consumer that waits gets each of many messages once, whatever the queue.
async fn push(scene: Arc<Scene>) {
    let topic = scene.topic().await;
    let (_consumer, inbox) = scene.consume(&topic, "*").await;
    inbox.await_exactly(&send_many(&scene.producer(), &topic, "m", 200).await).await;
    let queues: BTreeSet<i32> = inbox.all().iter().map(|message| message.queue.queue_id).collect();
    assert_eq!(queues.len(), QUEUES);
}

/// Each key's messages come in the order sent, although one is first refused.
async fn orderly(scene: Arc<Scene>) {
    let (topic, inbox, refused) = (scene.topic().await, Inbox::default(), Arc::new(AtomicBool::new(false)));
    let (got, refuses) = (inbox.clone(), Arc::clone(&refused));
    let listener = move |message: Arc<Received>| {
        let action = if message.body == b"key1-7" && !refuses.swap(true, Ordering::SeqCst) {
            OrderlyAction::SuspendFor(Duration::from_millis(100))
        } else {
            got.add(message);
            OrderlyAction::Done
        };
        async move { action }
    };
    let _consumer = scene.consumer(&topic, "*").orderly(listener).await.unwrap();
    let producer = scene.producer();
    let mut bodies = Vec::new();
    for number in 0..20 {
        for key in 0..6 {
            bodies.push(format!("key{key}-{number}"));
            let message = Message::new(&topic, bodies[bodies.len() - 1].as_str());
            sent(producer.send_ordered(message, &format!("key{key}")).await);
        }
    }
    inbox.await_exactly(&bodies).await;
    assert!(refused.load(Ordering::SeqCst));
    assert_in_order(&inbox.bodies());
}

/// Bodies `KEY-NUMBER` whose numbers follow each other within each key.
pub fn assert_in_order(bodies: &[String]) {
    let mut next = BTreeMap::new();
    for body in bodies {
        let (key, number) = body.split_once('-').unwrap();
        let next = next.entry(key).or_insert(0);
        assert_eq!(*next, number.parse::<i32>().unwrap(), "order of {key}");
        *next += 1;
    }
}

async fn tags(scene: Arc<Scene>) {
    let (topic, producer) = (scene.topic().await, scene.producer());
    for number in 0..30 {
        let tag = ["A", "B", "C"][number % 3];
        sent(producer.send(Message::new(&topic, format!("{tag}{number}")).tag(tag)).await);
    }
    send_to_each_queue(&producer, Message::new(&topic, "end").tag("C")).await;
    let (_consumer, inbox) = scene.consume(&topic, "A || C").await;
    until("the last of each queue", async || inbox.count("end") == QUEUES).await;
    assert_eq!(inbox.all().len(), 20 + QUEUES);
    assert!(inbox.all().iter().all(|message| message.tag() != Some("B")));
}

/// SQL92, evaluated at the broker; a consumer with a broken expression does not start.
async fn sql(scene: Arc<Scene>) {
    let (topic, producer) = (scene.topic().await, scene.producer());
    for number in 0..20 {
        let tag = if number % 2 == 0 { "A" } else { "B" };
        let message = Message::new(&topic, format!("m{number}")).tag(tag).property("n", number.to_string());
        sent(producer.send(message).await);
    }
    send_to_each_queue(&producer, Message::new(&topic, "end").tag("end").property("last", "true")).await;
    let expression = "TAGS IN ('A', 'end') AND (n BETWEEN 3 AND 14 OR last = TRUE)";
    let group = |name: &str| scene.client().push_consumer(scene.group() + name).consume_from(ConsumeFrom::First);
    let inbox = Inbox::default();
    let _consumer = inbox.take(group("").subscribe_sql(&topic, expression)).await;
    let wanted = ["m4", "m6", "m8", "m10", "m12", "m14", "end", "end", "end", "end"].map(str::to_owned);
    until("the last of each queue", async || inbox.count("end") == QUEUES).await;
    inbox.await_exactly(&wanted).await;
    let broken = group("_broken").subscribe_sql(&topic, "n >").concurrently(|_| async { unreachable!() }).await;
    assert!(matches!(broken, Err(Error::Refused { code: 23, .. })), "{:?}", broken.err());
}

/// A reader in no group: from any offset, time, or end of a queue.
async fn pull(scene: Arc<Scene>) {
    let (topic, producer, admin) = (scene.topic().await, scene.producer(), scene.client().admin());
    let queue = producer.queues(&topic).await.unwrap()[1].clone();
    for number in 0..50 {
        sent(producer.send_to(Message::new(&topic, format!("m{number}")), &queue).await);
    }
    assert_eq!((admin.min_offset(&queue).await, admin.max_offset(&queue).await), (Ok(0), Ok(50)));
    let reader = scene.client().reader().assign(vec![queue.clone()]).consume_from(ConsumeFrom::First);
    let mut reader = reader.start().await.unwrap();
    let places = [Position::Begin, Position::Offset(37), Position::Time(Millis(1)), Position::Offset(3)];
    for (place, first) in places.into_iter().zip([0, 37, 0, 3]) {
        reader.seek(&queue, place).await.unwrap();
        let mut got = Vec::new();
        while got.len() < 50 - first {
            let messages = reader.poll(LIMIT).await.unwrap();
            assert!(!messages.is_empty(), "only {got:?} from {place:?}");
            got.extend(messages.iter().map(body));
        }
        assert_eq!(got, (first..50).map(|number| format!("m{number}")).collect::<Vec<_>>(), "from {place:?}");
    }
    assert!(matches!(reader.seek(&queue, Position::Offset(1000)).await, Err(Error::Invalid(_))));
    reader.close().await;
}

/// A pull consumer that shares the topic's queues, and goes on where the last one stopped.
async fn poll(scene: Arc<Scene>) {
    let (topic, producer) = (scene.topic().await, scene.producer());
    for name in ["first", "second"] {
        let builder = scene.client().pull_consumer(scene.group()).subscribe(&topic, "*");
        let mut consumer = builder.consume_from(ConsumeFrom::First).start().await.unwrap();
        let bodies = send_many(&producer, &topic, name, 60).await;
        let inbox = Inbox::default();
        while inbox.all().len() < bodies.len() {
            let messages = consumer.poll(LIMIT).await.unwrap();
            assert!(!messages.is_empty(), "only {:?}", inbox.bodies());
            messages.into_iter().for_each(|message| inbox.add(message));
        }
        inbox.await_exactly(&bodies).await;
        consumer.commit().await.unwrap();
        consumer.close().await;
    }
    assert_eq!(scene.client().admin().lag(&scene.group(), Some(&topic)).await.unwrap().total(), 0);
}

async fn stream(scene: Arc<Scene>) {
    let topic = scene.topic().await;
    let bodies = send_many(&scene.producer(), &topic, "m", 40).await;
    let builder = scene.client().pull_consumer(scene.group()).subscribe(&topic, "*");
    let mut consumer = builder.consume_from(ConsumeFrom::First).start().await.unwrap();
    let inbox = Inbox::default();
    {
        let messages = consumer.stream().take(bodies.len());
        pin_mut!(messages);
        while let Some(message) = messages.next().await {
            inbox.add(message);
        }
    }
    inbox.await_exactly(&bodies).await;
    consumer.close().await;
}

async fn scheduled(scene: Arc<Scene>) {
    let (topic, inbox) = (scene.topic().await, Inbox::default());
    let got = inbox.clone();
    let task = move |_, messages: Vec<Arc<Received>>| {
        messages.into_iter().for_each(|message| got.add(message));
        async { NextPull::After(Duration::from_millis(50)) }
    };
    let builder = scene.client().pull_consumer(scene.group()).subscribe(&topic, "*");
    let consumer = builder.consume_from(ConsumeFrom::First).scheduled(task).await.unwrap();
    inbox.await_exactly(&send_many(&scene.producer(), &topic, "m", 60).await).await;
    consumer.stop(LIMIT).await;
    assert_eq!(scene.client().admin().lag(&scene.group(), Some(&topic)).await.unwrap().total(), 0);
}
