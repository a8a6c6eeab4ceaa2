//! Groups: several members, messages that are refused, and where a group goes on.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use metaq::client::{Action, ConsumeFrom, Message, OrderlyAction, PushConsumer, Received};

use super::scene::{body, send_many, send_to_each_queue, sent, until, Inbox, Scene, LIMIT, QUEUES};
use super::Check;

/// Deliveries of a message that is always refused, after the first one.
const RETRIES: i32 = 2;

pub const CHECKS: [Check; 8] = [
    ("retry-dlq", |scene| Box::pin(retry(scene))),
    ("retry-dlq-orderly", |scene| Box::pin(retry_in_order(scene))),
    ("join-leave", |scene| Box::pin(join_and_leave(scene, false))),
    ("join-leave-orderly", |scene| Box::pin(join_and_leave(scene, true))),
    ("broadcast", |scene| Box::pin(broadcast(scene))),
    ("resume-client", |scene| Box::pin(resume_client(scene))),
    ("resume-broker-before", |scene| Box::pin(consume_first_half(scene))),
    ("resume-broker-after", |scene| Box::pin(consume_second_half(scene))),
];

/// A refused message comes again twice, then lies in the dead-letter topic; its neighbour is done.
async fn retry(scene: Arc<Scene>) {
    let (topic, inbox, producer) = (scene.topic().await, Inbox::default(), scene.producer());
    let got = inbox.clone();
    let listener = move |message: Arc<Received>| {
        let bad = message.body == b"bad";
        got.add(message);
        async move {
            if bad {
                Action::Retry
            } else {
                Action::Done
            }
        }
    };
    let consumer = scene.consumer(&topic, "*").max_reconsume_times(RETRIES);
    let _consumer = consumer.concurrently(listener).await.unwrap();
    let bad = sent(producer.send(Message::new(&topic, "bad").tag("t").key("k")).await);
    sent(producer.send(Message::new(&topic, "good")).await);
    let dead = await_dead(&scene).await;
    assert_eq!((inbox.count("good"), inbox.count("bad")), (1, 1 + RETRIES as usize));
    let deliveries = inbox.all().into_iter().filter(|message| message.body == b"bad");
    for (times, got) in deliveries.enumerate() {
        assert_eq!((got.reconsume_times, &*got.topic, got.tag()), (times as i32, &*topic, Some("t")));
        assert_eq!(got.message_id(), bad.message_id);
    }
    assert_eq!((dead.message_id(), dead.keys().collect()), (bad.message_id, vec!["k"]));
    assert_eq!(dead.property("RETRY_TOPIC"), Some(topic.as_str()));
    assert_eq!(dead.property("ORIGIN_MESSAGE_ID"), Some(bad.offset_message_id.as_str()));
}

/// An orderly consumer retries in place, then gives the message up and goes on.
async fn retry_in_order(scene: Arc<Scene>) {
    let (topic, inbox, producer) = (scene.topic().await, Inbox::default(), scene.producer());
    let got = inbox.clone();
    let listener = move |message: Arc<Received>| {
        let bad = message.body == b"bad";
        got.add(message);
        async move {
            if bad {
                OrderlyAction::Suspend
            } else {
                OrderlyAction::Done
            }
        }
    };
    let consumer = scene.consumer(&topic, "*").max_reconsume_times(RETRIES).suspend(Duration::from_millis(100));
    let _consumer = consumer.orderly(listener).await.unwrap();
    for body in ["bad", "good"] {
        sent(producer.send_with(Message::new(&topic, body), |_, _| 0).await);
    }
    assert_eq!(await_dead(&scene).await.body, b"bad");
    until("the good message", async || inbox.count("good") == 1).await;
    assert_eq!(inbox.bodies(), ["bad", "bad", "bad", "good"]);
}

/// Waits for the dead-letter topic, then for its only message.
async fn await_dead(scene: &Scene) -> Arc<Received> {
    let (topic, client) = (format!("%DLQ%{}", scene.group()), scene.client());
    until("dead letters", async || client.admin().route(&topic).await.is_ok()).await;
    let queues = client.admin().queues(&topic).await.unwrap();
    let mut reader = client.reader().assign(queues).consume_from(ConsumeFrom::First).start().await.unwrap();
    let dead = reader.poll(LIMIT).await.unwrap();
    assert_eq!(dead.iter().map(body).collect::<Vec<_>>(), ["bad"]);
    dead[0].clone()
}

async fn start(scene: &Scene, topic: &str, inbox: &Inbox, in_order: bool) -> PushConsumer {
    let consumer = scene.consumer(topic, "*");
    if !in_order {
        return inbox.take(consumer).await;
    }
    let inbox = inbox.clone();
    let listener = move |message| {
        inbox.add(message);
        async { OrderlyAction::Done }
    };
    consumer.orderly(listener).await.unwrap()
}

/// A second consumer takes over half of the queues and gives them back when it leaves. Messages flow all the time and none
/// is lost.
async fn join_and_leave(scene: Arc<Scene>, in_order: bool) {
    let (topic, one, two) = (scene.topic().await, Inbox::default(), Inbox::default());
    let mut sent = Vec::new();
    let _first = start(&scene, &topic, &one, in_order).await;
    send_until(&scene, "alone", &mut sent, |round| queues(&one, round) == QUEUES).await;
    let second = start(&scene, &topic, &two, in_order).await;
    send_until(&scene, "both", &mut sent, |round| queues(&one, round) == 2 && queues(&two, round) == 2).await;
    second.stop(LIMIT).await;
    send_until(&scene, "again", &mut sent, |round| queues(&one, round) == QUEUES).await;
    until("all that was sent", async || {
        let got: BTreeSet<String> = one.bodies().into_iter().chain(two.bodies()).collect();
        sent.iter().all(|body| got.contains(body))
    })
    .await;
}

/// How many queues the messages of a round came from.
fn queues(inbox: &Inbox, round: &str) -> usize {
    let of_round = inbox.all().into_iter().filter(|message| body(message).starts_with(round));
    of_round.map(|message| message.queue.queue_id).collect::<BTreeSet<_>>().len()
}

/// Sends rounds of a message per queue until one round arrived where it should.
async fn send_until(scene: &Scene, phase: &str, all: &mut Vec<String>, settled: impl Fn(&str) -> bool) {
    let (producer, topic) = (scene.producer(), scene.topic_name());
    for round in 0..200 {
        let name = format!("{phase}{round}-");
        for queue in 0..QUEUES {
            all.push(format!("{name}{queue}"));
            let message = Message::new(&topic, all[all.len() - 1].as_str());
            sent(producer.send_with(message, |_, _| queue).await);
        }
        for _ in 0..25 {
            if settled(&name) {
                return;
            }
            metaq::env::real::env().clock.sleep(Duration::from_millis(20)).await;
        }
    }
    panic!("the queues are not shared: {phase}");
}

/// Every broadcast consumer gets everything.
async fn broadcast(scene: Arc<Scene>) {
    let (topic, inboxes) = (scene.topic().await, [Inbox::default(), Inbox::default()]);
    let mut consumers = Vec::new();
    for (number, inbox) in inboxes.iter().enumerate() {
        let offsets = std::env::temp_dir().join(format!("{}-{number}", scene.group()));
        consumers.push(inbox.take(scene.consumer(&topic, "*").broadcasting().local_offsets(offsets)).await);
    }
    let bodies = send_many(&scene.producer(), &topic, "m", 40).await;
    for inbox in &inboxes {
        inbox.await_exactly(&bodies).await;
    }
}

async fn resume_client(scene: Arc<Scene>) {
    consume_first_half(Arc::clone(&scene)).await;
    consume_second_half(scene).await;
}

/// Consumes what is there, stops the consumer, and leaves more for the next one.
async fn consume_first_half(scene: Arc<Scene>) {
    let (topic, producer) = (scene.topic().await, scene.producer());
    let first = send_many(&producer, &topic, "first", 40).await;
    let (consumer, inbox) = scene.consume(&topic, "*").await;
    inbox.await_exactly(&first).await;
    consumer.stop(LIMIT).await;
    send_many(&producer, &topic, "second", 40).await;
    send_to_each_queue(&producer, Message::new(&topic, "end")).await;
}

/// A new consumer of the group gets the rest, and none of what was consumed.
async fn consume_second_half(scene: Arc<Scene>) {
    let (_consumer, inbox) = scene.consume(&scene.topic_name(), "*").await;
    until("the last of each queue", async || inbox.count("end") == QUEUES).await;
    let mut wanted: Vec<String> = (0..40).map(|number| format!("second{number}")).collect();
    wanted.extend((0..QUEUES).map(|_| "end".to_owned()));
    inbox.await_exactly(&wanted).await;
}
