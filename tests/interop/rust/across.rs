//! Messages of one make of client, consumed by another. README.md says what is sent.

use std::sync::Arc;

use metaq::client::{Action, CompressionType, ConsumeFrom, Message, OrderlyAction, Received};

use super::consume::assert_in_order;
use super::scene::{body, sent, until, Inbox, Scene, LIMIT};
use super::Check;

pub const CHECKS: [Check; 3] = [
    ("across-send-after", |scene| Box::pin(send(scene))),
    ("across-refuse-after", |scene| Box::pin(refuse(scene))),
    ("across-consume-after", |scene| Box::pin(consume(scene))),
];

const PLAIN: usize = 10;
const IN_BATCH: usize = 10;
const KEYS: usize = 3;
const STEPS: usize = 10;
const REFUSED: usize = 4;

/// What the two drivers of a pair have in common.
fn names(kind: &str) -> (String, String) {
    let pair = std::env::var("INTEROP_ACROSS").expect("INTEROP_ACROSS");
    (format!("X_{pair}_{kind}"), format!("XG_{pair}_{kind}"))
}

/// The compressions that both sides have: the value of INTEROP_COMPRESS.
fn compressions() -> Vec<String> {
    std::env::var("INTEROP_COMPRESS").expect("INTEROP_COMPRESS").split(',').map(str::to_owned).collect()
}

fn packed_body() -> Vec<u8> {
    (0..100_000_u32).map(|at| b'a' + (at % 23) as u8).collect()
}

async fn send(scene: Arc<Scene>) {
    let (topic, producer) = (scene.make_topic(&names("all").0).await, scene.producer());
    for number in 0..PLAIN {
        let message = Message::new(&topic, format!("plain{number}")).tag("plain").key(format!("k{number}"));
        sent(producer.send(message.property("colour", "blue")).await);
    }
    for kind in compressions() {
        let of = match kind.as_str() {
            "lz4" => CompressionType::Lz4,
            "zstd" => CompressionType::Zstd,
            _ => CompressionType::Zlib,
        };
        let packing = scene.client().producer(scene.group()).compress_with(of).start().unwrap();
        sent(packing.send(Message::new(&topic, packed_body()).tag("packed").key(kind)).await);
    }
    let batch = (0..IN_BATCH).map(|number| Message::new(&topic, format!("batch{number}")).tag("batch"));
    assert_eq!(producer.send_batch(batch.collect()).await.unwrap().len(), IN_BATCH);
    for step in 0..STEPS {
        for key in 0..KEYS {
            let message = Message::new(&topic, format!("key{key}-{step}")).tag("ordered");
            sent(producer.send_ordered(message, &format!("key{key}")).await);
        }
    }
}

/// Sends messages and refuses them; whoever joins the group next has to get them again.
async fn refuse(scene: Arc<Scene>) {
    let (topic, group) = names("refused");
    let producer = scene.producer();
    scene.make_topic(&topic).await;
    let inbox = Inbox::default();
    let got = inbox.clone();
    let listener = move |message| {
        got.add(message);
        async { Action::Retry }
    };
    let consumer = scene.client().push_consumer(group).subscribe(&topic, "*").consume_from(ConsumeFrom::First);
    let consumer = consumer.concurrently(listener).await.unwrap();
    for number in 0..REFUSED {
        sent(producer.send(Message::new(&topic, format!("refused{number}")).key(format!("k{number}"))).await);
    }
    until("all to be refused", async || (0..REFUSED).all(|number| inbox.count(&format!("refused{number}")) > 0)).await;
    consumer.stop(LIMIT).await;
}

async fn consume(scene: Arc<Scene>) {
    let (topic, group) = names("all");
    let inbox = Inbox::default();
    let got = inbox.clone();
    let listener = move |message| {
        got.add(message);
        async { OrderlyAction::Done }
    };
    let consumer = scene.client().push_consumer(group).subscribe(&topic, "*").consume_from(ConsumeFrom::First);
    let _consumer = consumer.orderly(listener).await.unwrap();
    let tagged = |tag: &str| -> Vec<Arc<Received>> {
        inbox.all().into_iter().filter(|message| message.tag() == Some(tag)).collect()
    };
    let wanted = PLAIN + compressions().len() + IN_BATCH + STEPS * KEYS;
    until(&format!("{wanted} messages"), async || inbox.all().len() >= wanted).await;
    assert_eq!(inbox.all().len(), wanted, "{:?}", inbox.bodies());
    for message in tagged("plain") {
        let number = body(&message).trim_start_matches("plain").to_owned();
        assert_eq!(message.keys().collect::<Vec<_>>(), [format!("k{number}")]);
        assert_eq!((message.property("colour"), &*message.topic), (Some("blue"), &*topic));
    }
    let mut kinds = Vec::new();
    for message in tagged("packed") {
        assert!(message.body == packed_body() && message.size < 50_000, "{} bytes", message.size);
        kinds.extend(message.keys().map(str::to_owned));
    }
    kinds.sort();
    assert_eq!(kinds, compressions());
    assert_eq!(tagged("plain").len(), PLAIN);
    let batch = tagged("batch");
    assert_eq!(
        batch.iter().map(body).collect::<Vec<_>>(),
        (0..IN_BATCH).map(|at| format!("batch{at}")).collect::<Vec<_>>()
    );
    assert_in_order(&tagged("ordered").iter().map(body).collect::<Vec<_>>());
    consume_refused(&scene).await;
}

/// What another member of the group has refused comes here.
async fn consume_refused(scene: &Scene) {
    let (topic, group) = names("refused");
    let inbox = Inbox::default();
    let consumer = scene.client().push_consumer(group).subscribe(&topic, "*").consume_from(ConsumeFrom::First);
    let _consumer = inbox.take(consumer).await;
    inbox.await_exactly(&(0..REFUSED).map(|number| format!("refused{number}")).collect::<Vec<_>>()).await;
    for message in inbox.all() {
        let number = body(&message).trim_start_matches("refused").to_owned();
        assert_eq!((message.keys().collect::<Vec<_>>(), &*message.topic), (vec![&*format!("k{number}")], &*topic));
        assert!(message.reconsume_times > 0, "{} was not refused before", body(&message));
    }
}
