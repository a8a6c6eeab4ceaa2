//! The ways to send.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;
use metaq::client::{Action, AutoBatch, CompressionType, LocalTransaction, Message, Received};
use metaq::env::real;

use super::scene::{send_many, sent, until, Scene, LIMIT, QUEUES};
use super::Check;

/// The slow ones first: the rest runs beside them.
pub const CHECKS: [Check; 11] = [
    ("transactions", |scene| Box::pin(transactions(scene))),
    ("delayed", |scene| Box::pin(delayed(scene))),
    ("auto-create", |scene| Box::pin(auto_create(scene))),
    ("send", |scene| Box::pin(send(scene))),
    ("async", |scene| Box::pin(many_at_once(scene))),
    ("oneway", |scene| Box::pin(oneway(scene))),
    ("batch", |scene| Box::pin(batch(scene))),
    ("auto-batch", |scene| Box::pin(auto_batch(scene))),
    ("ordered", |scene| Box::pin(ordered(scene))),
    ("big", |scene| Box::pin(big(scene))),
    ("request", |scene| Box::pin(request(scene))),
];

/// Local transactions that end at once, and some that only a question brings to light.
async fn transactions(scene: Arc<Scene>) {
    let (topic, client) = (scene.topic().await, scene.client());
    let asked: Arc<Mutex<Vec<Received>>> = Arc::default();
    let questions = Arc::clone(&asked);
    let check = move |question: Received| {
        let commits = question.body == b"asked-commit";
        questions.lock().unwrap().push(question);
        async move {
            if commits {
                LocalTransaction::Commit
            } else {
                LocalTransaction::Rollback
            }
        }
    };
    let producer = client.producer("P_".to_owned() + &scene.group()).timeout(Duration::from_secs(20));
    let producer = producer.transactional(check).unwrap();
    let states = [
        ("asked-commit", LocalTransaction::Unknown),
        ("asked-rollback", LocalTransaction::Unknown),
        ("commit", LocalTransaction::Commit),
        ("rollback", LocalTransaction::Rollback),
    ];
    for (body, state) in states {
        let done = producer.send(Message::new(&topic, body), |_| async move { state }).await.unwrap();
        assert_eq!((done.state, done.told.is_ok()), (state, true), "{body}");
    }
    let (_consumer, inbox) = scene.consume(&topic, "*").await;
    let bodies = || asked.lock().unwrap().iter().map(|asked| asked.body.clone()).collect::<Vec<_>>();
    let both = || bodies().contains(&b"asked-commit".to_vec()) && bodies().contains(&b"asked-rollback".to_vec());
    until("both questions", async || both()).await;
    inbox.await_exactly(&["commit".into(), "asked-commit".into()]).await;
    assert!(asked.lock().unwrap().iter().all(|asked| *asked.topic == *topic));
}

/// Nothing of a delay level arrives before its time: the levels are set to 1 s, 2 s, …
async fn delayed(scene: Arc<Scene>) {
    let (topic, producer) = (scene.topic().await, scene.producer());
    let (_consumer, inbox) = scene.consume(&topic, "*").await;
    sent(producer.send(Message::new(&topic, "level0")).await);
    for level in 1..=2 {
        sent(producer.send(Message::new(&topic, format!("level{level}")).delay_level(level)).await);
    }
    inbox.await_exactly(&["level0".into(), "level1".into(), "level2".into()]).await;
    for message in inbox.all() {
        let seconds = u64::from(message.body[5] - b'0');
        let waited = message.stored_at.since(message.born_at);
        assert!(waited + 50 >= seconds * 1000, "level {seconds} came after {waited} ms");
        assert_eq!(*message.topic, *topic);
    }
}

/// The first send to an unknown topic makes it.
async fn auto_create(scene: Arc<Scene>) {
    let (topic, admin) = (scene.topic_name(), scene.client().admin());
    let bodies = send_many(&scene.producer(), &topic, "m", 10).await;
    until("the topic's route", async || admin.route(&topic).await.is_ok()).await;
    scene.consume(&topic, "*").await.1.await_exactly(&bodies).await;
}

/// What was sent arrives with its keys, tag, flag and properties.
async fn send(scene: Arc<Scene>) {
    let topic = scene.topic().await;
    let message = Message::new(&topic, "grüße").tag("tag-é").key("key1").key("key2").flag(7);
    let result = sent(scene.producer().send(message.property("colour", "blue = \"#00f\"")).await);
    let (_consumer, inbox) = scene.consume(&topic, "*").await;
    inbox.await_exactly(&["grüße".into()]).await;
    let got = &inbox.all()[0];
    assert_eq!((got.tag(), got.keys().collect(), got.flag), (Some("tag-é"), vec!["key1", "key2"], 7));
    assert_eq!(got.property("colour"), Some("blue = \"#00f\""));
    assert_eq!((got.message_id(), got.offset_message_id()), (result.message_id, result.offset_message_id));
    assert_eq!((&*got.queue, got.offset), (&result.queue, result.offset));
    assert_eq!(result.queue.broker_name, "broker-a");
}

async fn many_at_once(scene: Arc<Scene>) {
    let (topic, producer) = (scene.topic().await, scene.producer());
    let bodies: Vec<String> = (0..50).map(|number| format!("m{number}")).collect();
    let sends = bodies.iter().map(|body| producer.send(Message::new(&topic, body.as_str())));
    join_all(sends).await.into_iter().for_each(|result| drop(sent(result)));
    scene.consume(&topic, "*").await.1.await_exactly(&bodies).await;
}

async fn oneway(scene: Arc<Scene>) {
    let (topic, producer) = (scene.topic().await, scene.producer());
    let bodies: Vec<String> = (0..30).map(|number| format!("m{number}")).collect();
    for body in &bodies {
        producer.send_oneway(Message::new(&topic, body.as_str())).await.unwrap();
    }
    scene.consume(&topic, "*").await.1.await_exactly(&bodies).await;
}

/// A batch is stored as single messages, in order, in one queue.
async fn batch(scene: Arc<Scene>) {
    let topic = scene.topic().await;
    let bodies: Vec<String> = (0..40).map(|number| format!("m{number}")).collect();
    let message = |(number, body): (usize, &String)| {
        Message::new(&topic, body.as_str()).tag(format!("t{}", number % 2)).key(format!("k{number}"))
    };
    let results = scene.producer().send_batch(bodies.iter().enumerate().map(message).collect()).await.unwrap();
    assert_eq!(results.len(), 40);
    let (_consumer, inbox) = scene.consume(&topic, "*").await;
    inbox.await_exactly(&bodies).await;
    for got in inbox.all() {
        let number: usize = std::str::from_utf8(&got.body[1..]).unwrap().parse().unwrap();
        assert_eq!(got.keys().collect::<Vec<_>>(), [format!("k{number}")]);
        assert_eq!((&*got.queue, got.offset), (&results[number].queue, results[0].offset + number as i64));
        assert_eq!(got.message_id(), results[number].message_id);
    }
}

/// Batches that gather by themselves.
async fn auto_batch(scene: Arc<Scene>) {
    let (topic, client) = (scene.topic().await, scene.client());
    let producer = client.producer("P_".to_owned() + &scene.group()).auto_batch(AutoBatch::default()).start().unwrap();
    let bodies: Vec<String> = (0..100).map(|number| format!("m{number}")).collect();
    let sends = bodies.iter().map(|body| producer.send(Message::new(&topic, body.as_str())));
    join_all(sends).await.into_iter().for_each(|result| drop(sent(result)));
    scene.consume(&topic, "*").await.1.await_exactly(&bodies).await;
}

/// A selector's choice of queue is kept, and offsets in a queue follow each other.
async fn ordered(scene: Arc<Scene>) {
    let (topic, producer) = (scene.topic().await, scene.producer());
    for number in 0..40 {
        let message = Message::new(&topic, format!("m{number}"));
        let result = sent(producer.send_with(message, |queues, _| number % queues.len()).await);
        assert_eq!((result.queue.queue_id as usize, result.offset as usize), (number % QUEUES, number / QUEUES));
    }
}

/// Bodies above 4 KiB travel and are stored compressed; the consumer gets them whole.
async fn big(scene: Arc<Scene>) {
    let topic = scene.topic().await;
    let text: Vec<u8> = (0..1_000_000_u32).map(|at| b'a' + (at % 23) as u8).collect();
    let mut noise = vec![0; 3_000_000];
    noise
        .chunks_mut(8)
        .for_each(|chunk| chunk.copy_from_slice(&real::env().rng.next_u64().to_be_bytes()[..chunk.len()]));
    for kind in [CompressionType::Zlib, CompressionType::Lz4, CompressionType::Zstd] {
        let producer = scene.client().producer("P_".to_owned() + &scene.group()).compress_with(kind).start().unwrap();
        sent(producer.send(Message::new(&topic, text.clone()).tag("text")).await);
        sent(producer.send(Message::new(&topic, noise.clone()).tag("noise")).await);
    }
    let (_consumer, inbox) = scene.consume(&topic, "*").await;
    until("big messages", async || inbox.all().len() >= 6).await;
    for got in inbox.all() {
        let is_text = got.tag() == Some("text");
        assert!(got.body == *if is_text { &text } else { &noise }, "body of {:?}", got.tag());
        assert!(!is_text || got.size < 100_000, "stored {} bytes", got.size);
    }
}

/// A request finds its answer.
async fn request(scene: Arc<Scene>) {
    let (topic, answering) = (scene.topic().await, scene.producer());
    let listener = move |message: Arc<Received>| {
        let answering = answering.clone();
        async move {
            answering.reply(&message, [b"re: ", &message.body[..]].concat()).await.unwrap();
            Action::Done
        }
    };
    let _consumer = scene.consumer(&topic, "*").concurrently(listener).await.unwrap();
    let producer = scene.producer();
    for body in ["one", "two"] {
        let answer = producer.request(Message::new(&topic, body), LIMIT).await.unwrap();
        assert_eq!(answer.body, format!("re: {body}").as_bytes());
    }
}
