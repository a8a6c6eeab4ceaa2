//! Consuming concurrently.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metaq::client::{Action, Client, ConsumeFrom, Message, Producer, PushConsumerBuilder, Received};
use tempfile::TempDir;

use super::support::{until, Cluster, LIMIT};

/// Levels of one second each.
const QUICK: &str = "messageDelayLevel=1s 1s 1s 1s 1s 1s\n";

/// What listeners got.
#[derive(Clone, Default)]
pub struct Seen(Arc<Mutex<Vec<Arc<Received>>>>);

impl Seen {
    pub fn add(&self, message: &Arc<Received>) {
        self.0.lock().unwrap().push(Arc::clone(message));
    }

    pub fn all(&self) -> Vec<Arc<Received>> {
        self.0.lock().unwrap().clone()
    }

    pub fn bodies(&self) -> Vec<String> {
        self.all().iter().map(|message| String::from_utf8_lossy(&message.body).into_owned()).collect()
    }

    pub async fn wait(&self, cluster: &Cluster, count: usize) -> Vec<Arc<Received>> {
        until(&cluster.env, async || (self.all().len() >= count).then(|| self.all())).await
    }
}

pub async fn send(producer: &Producer, topic: &str, bodies: std::ops::Range<usize>) {
    for number in bodies {
        producer.send(Message::new(topic, format!("m{number}"))).await.unwrap();
    }
}

fn first(client: &Client, group: &str, topic: &str) -> PushConsumerBuilder {
    client.push_consumer(group).subscribe(topic, "*").consume_from(ConsumeFrom::First)
}

#[tokio::test]
async fn a_listener_gets_what_its_group_wants() {
    let cluster = Cluster::start(2, "").await;
    cluster.make_topic("Orders", 2).await;
    let client = cluster.client();
    let producer = client.producer("pg").start().unwrap();
    for number in 0..12 {
        let tag = ["paid", "refunded", "open"][number % 3];
        producer.send(Message::new("Orders", format!("m{number}")).tag(tag)).await.unwrap();
    }
    producer.send(Message::new("Orders", b"x".repeat(20_000)).tag("paid")).await.unwrap();
    let seen = Seen::default();
    let consumer = client.push_consumer("cg").subscribe("Orders", "paid || refunded").consume_from(ConsumeFrom::First);
    let heard = seen.clone();
    let consumer = consumer
        .concurrently(move |message| {
            heard.add(&message);
            async { Action::Done }
        })
        .await
        .unwrap();
    let got = seen.wait(&cluster, 9).await;
    assert_eq!(got.iter().map(|message| message.message_id()).collect::<BTreeSet<_>>().len(), 9);
    assert!(got.iter().all(|message| &*message.topic == "Orders" && message.tag() != Some("open")));
    assert!(got.iter().any(|message| message.body.len() == 20_000 && message.size < 1000));
    let own = consumer.queues().into_iter().filter(|queue| queue.topic == "Orders");
    assert_eq!(own.count(), 4, "and those of the retry topic, which brokers make one after the other");
    consumer.stop(LIMIT).await;
    // OFF-10: what is finished before the end is not delivered again. The open ones count as consumed too (SUB-2).
    assert_eq!(client.admin().lag("cg", Some("Orders")).await.unwrap().total(), 0);
    let members = client.admin().consumers("cg").await.unwrap();
    assert!(members.is_none(), "the group was left: {members:?}");
}

#[tokio::test]
async fn rty_7_what_fails_comes_again_after_the_delay_that_was_chosen() {
    let cluster = Cluster::start(1, QUICK).await;
    cluster.make_topic("Orders", 1).await;
    let client = cluster.client();
    send(&client.producer("pg").start().unwrap(), "Orders", 0..3).await;
    let seen = Seen::default();
    let heard = seen.clone();
    let consumer = first(&client, "cg", "Orders")
        .concurrently(move |message| {
            heard.add(&message);
            async move {
                match (&message.body[..], message.reconsume_times) {
                    (b"m0", 0) => Action::RetryAtLevel(1),
                    (b"m1", 0) => panic!("a listener may panic"),
                    _ => Action::Done,
                }
            }
        })
        .await
        .unwrap();
    let got = seen.wait(&cluster, 5).await;
    for body in ["m0", "m1"] {
        let [once, again] = &got.iter().filter(|message| message.body == body.as_bytes()).collect::<Vec<_>>()[..]
        else {
            panic!("{:?}", seen.bodies());
        };
        assert_eq!((&*again.topic, again.queue.topic.as_str(), again.reconsume_times), ("Orders", "%RETRY%cg", 1));
        assert_eq!(once.message_id(), again.message_id());
        assert!(again.stored_at.since(once.stored_at) >= 1000);
    }
    consumer.stop(LIMIT).await;
}

/// RTY-6: what fails too often, or is hopeless, ends in the dead letters, and nowhere else.
#[tokio::test]
async fn rty_6_hopeless_messages_end_in_the_dead_letters() {
    let cluster = Cluster::start(1, QUICK).await;
    cluster.make_topic("Orders", 1).await;
    let client = cluster.client();
    send(&client.producer("pg").start().unwrap(), "Orders", 0..3).await;
    let seen = Seen::default();
    let heard = seen.clone();
    let consumer = first(&client, "cg", "Orders")
        .max_reconsume_times(1)
        .concurrently(move |message| {
            heard.add(&message);
            async move {
                match &message.body[..] {
                    b"m0" => Action::RetryAtLevel(1),
                    b"m1" => Action::DeadLetter,
                    _ => Action::Done,
                }
            }
        })
        .await
        .unwrap();
    let dead = until(&cluster.env, async || {
        let queues = client.admin().queues("%DLQ%cg").await.ok()?;
        let mut reader = client.reader().assign(queues).consume_from(ConsumeFrom::First).start().await.unwrap();
        let dead = reader.poll(Duration::from_millis(500)).await.unwrap();
        (dead.len() == 2).then_some(dead)
    })
    .await;
    let bodies: BTreeSet<&[u8]> = dead.iter().map(|message| &message.body[..]).collect();
    assert_eq!(bodies, BTreeSet::from([&b"m0"[..], b"m1"]));
    assert!(dead.iter().all(|message| &*message.topic == "Orders"));
    consumer.stop(LIMIT).await;
    assert_eq!(seen.bodies().iter().filter(|body| *body == "m0").count(), 2);
}

/// RTY-4: a listener that takes too long is dropped before its message comes again.
#[tokio::test]
async fn rty_4_a_listener_that_takes_too_long_loses_its_message() {
    let cluster = Cluster::start(1, QUICK).await;
    cluster.make_topic("Orders", 1).await;
    let client = cluster.client();
    send(&client.producer("pg").start().unwrap(), "Orders", 0..1).await;
    let (seen, in_hand, most) = (Seen::default(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (heard, most_seen) = (seen.clone(), Arc::clone(&most));
    struct InHand(Arc<AtomicUsize>);
    impl Drop for InHand {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let consumer = first(&client, "cg", "Orders")
        .consume_timeout(Duration::from_millis(300))
        .concurrently(move |message| {
            let now = in_hand.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(now, Ordering::SeqCst);
            let held = InHand(Arc::clone(&in_hand));
            heard.add(&message);
            async move {
                let _held = held;
                if message.reconsume_times == 0 {
                    std::future::pending::<()>().await;
                }
                Action::Done
            }
        })
        .await
        .unwrap();
    let got = seen.wait(&cluster, 2).await;
    assert_eq!((got[1].reconsume_times, most_seen.load(Ordering::SeqCst)), (1, 1));
    consumer.stop(LIMIT).await;
}

#[tokio::test]
async fn members_share_queues_and_take_over() {
    let cluster = Cluster::start(2, "").await;
    cluster.make_topic("Orders", 4).await;
    let (one, two) = (cluster.client(), cluster.client());
    let producer = one.producer("pg").start().unwrap();
    let (seen, heard) = (Seen::default(), Seen::default());
    let (a, b) = (seen.clone(), heard.clone());
    let first_member = first(&one, "cg", "Orders")
        .concurrently(move |message| {
            a.add(&message);
            async { Action::Done }
        })
        .await
        .unwrap();
    assert!(
        first(&one, "cg", "Orders").concurrently(|_| async { Action::Done }).await.is_err(),
        "REB-1: one each client"
    );
    let second_member = first(&two, "cg", "Orders")
        .concurrently(move |message| {
            b.add(&message);
            async { Action::Done }
        })
        .await
        .unwrap();
    let of_topic =
        |queues: Vec<metaq::client::MessageQueue>| queues.iter().filter(|queue| queue.topic == "Orders").count();
    until(&cluster.env, async || {
        (of_topic(first_member.queues()) == 4 && of_topic(second_member.queues()) == 4).then_some(())
    })
    .await;
    send(&producer, "Orders", 0..40).await;
    until(&cluster.env, async || (seen.all().len() + heard.all().len() >= 40).then_some(())).await;
    assert_eq!((seen.all().len(), heard.all().len()), (20, 20));
    first_member.stop(LIMIT).await;
    until(&cluster.env, async || (of_topic(second_member.queues()) == 8).then_some(())).await;
    send(&producer, "Orders", 40..60).await;
    heard.wait(&cluster, 40).await;
    second_member.stop(LIMIT).await;
    assert_eq!(seen.all().len() + heard.all().len(), 60, "nothing twice");
}

#[tokio::test]
async fn each_member_of_a_broadcasting_group_gets_all_and_keeps_its_place() {
    let cluster = Cluster::start(1, "").await;
    cluster.make_topic("Orders", 2).await;
    let producer = cluster.client().producer("pg").start().unwrap();
    send(&producer, "Orders", 0..4).await;
    let directories = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    for (expected, more) in [(4, 4..4), (2, 4..6)] {
        send(&producer, "Orders", more).await;
        for directory in &directories {
            let (client, seen) = (cluster.client(), Seen::default());
            let heard = seen.clone();
            let consumer = first(&client, "cg", "Orders")
                .broadcasting()
                .local_offsets(directory.path())
                .concurrently(move |message| {
                    heard.add(&message);
                    async { Action::Retry }
                })
                .await
                .unwrap();
            seen.wait(&cluster, expected).await;
            consumer.stop(LIMIT).await;
            assert_eq!(seen.all().len(), expected, "no repetitions, and nobody retries: {:?}", seen.bodies());
            let file = std::fs::read_to_string(directory.path().join("cg/offsets.json")).unwrap();
            assert!(file.contains("offsetTable"), "{file}");
        }
    }
}

#[tokio::test]
async fn a_new_group_begins_where_it_is_told() {
    let cluster = Cluster::start(1, "").await;
    cluster.make_topic("Orders", 1).await;
    let client = cluster.client();
    let producer = client.producer("pg").start().unwrap();
    send(&producer, "Orders", 0..2).await;
    until(&cluster.env, async || {
        // A time between the two.
        let later = cluster.env.clock.now();
        let queue = client.admin().queues("Orders").await.unwrap().remove(0);
        (client.admin().search_offset(&queue, later).await.unwrap() == 2).then_some(())
    })
    .await;
    let middle = cluster.env.clock.now();
    send(&producer, "Orders", 2..4).await;
    for (group, from, expected) in [
        ("first", ConsumeFrom::First, BTreeSet::from(["m0", "m1", "m2", "m3"])),
        // The queue is so young that its first message is still there: nothing may be missed.
        ("last", ConsumeFrom::Last, BTreeSet::from(["m0", "m1", "m2", "m3"])),
        ("time", ConsumeFrom::Time(middle), BTreeSet::from(["m0", "m1", "m2", "m3"])),
    ] {
        let seen = Seen::default();
        let heard = seen.clone();
        let consumer = client.push_consumer(group).subscribe("Orders", "*").consume_from(from);
        let consumer = consumer
            .concurrently(move |message| {
                heard.add(&message);
                async { Action::Done }
            })
            .await
            .unwrap();
        seen.wait(&cluster, expected.len()).await;
        assert_eq!(seen.bodies().iter().map(String::as_str).collect::<BTreeSet<_>>(), expected, "{group}");
        consumer.stop(LIMIT).await;
    }
}

#[tokio::test]
async fn no_more_is_held_than_flow_control_allows() {
    let cluster = Cluster::start(1, "").await;
    cluster.make_topic("Orders", 1).await;
    let client = cluster.client();
    let producer = client.producer("pg").start().unwrap();
    let batch = (0..100).map(|number| Message::new("Orders", format!("m{number}")));
    producer.send_batch(batch.collect()).await.unwrap();
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let (seen, opened) = (Seen::default(), Arc::clone(&gate));
    let heard = seen.clone();
    let consumer = first(&client, "cg", "Orders")
        .flow_control(10, 1 << 20, 2000)
        .pull_batch(4)
        .concurrency(1)
        .concurrently(move |message| {
            let gate = Arc::clone(&opened);
            heard.add(&message);
            async move {
                gate.acquire().await.unwrap().forget();
                Action::Done
            }
        })
        .await
        .unwrap();
    seen.wait(&cluster, 1).await;
    let held = async || -> u64 {
        let info = client.admin().running_info("cg", client.id()).await.unwrap();
        let text = String::from_utf8(info).unwrap();
        let counts = text.split("\"cachedMsgCount\":").skip(1);
        counts.map(|rest| rest.split(',').next().unwrap().parse::<u64>().unwrap()).sum()
    };
    until(&cluster.env, async || (held().await > 10).then_some(())).await;
    assert!(held().await <= 14, "a limit of 10 and one pull of 4");
    gate.add_permits(1000);
    seen.wait(&cluster, 100).await;
    consumer.stop(LIMIT).await;
    assert_eq!(client.admin().lag("cg", Some("Orders")).await.unwrap().total(), 0);
}

/// SUB-3: a tag was added, and for a while its messages were passed over.
#[tokio::test]
async fn sub_3_messages_of_a_new_tag_come_at_once() {
    let cluster = Cluster::start(1, "").await;
    cluster.make_topic("Orders", 1).await;
    cluster.make_topic("Other", 1).await;
    let client = cluster.client();
    let producer = client.producer("pg").start().unwrap();
    let seen = Seen::default();
    let heard = seen.clone();
    let consumer = client.push_consumer("cg").subscribe("Orders", "A").consume_from(ConsumeFrom::First);
    let consumer = consumer
        .concurrently(move |message| {
            heard.add(&message);
            async { Action::Done }
        })
        .await
        .unwrap();
    producer.send(Message::new("Orders", "a1").tag("A")).await.unwrap();
    producer.send(Message::new("Orders", "b0").tag("B")).await.unwrap();
    seen.wait(&cluster, 1).await;
    consumer.subscribe("Orders", "A || B").await.unwrap();
    producer.send(Message::new("Orders", "b1").tag("B")).await.unwrap();
    seen.wait(&cluster, 2).await;
    consumer.subscribe("Other", "*").await.unwrap();
    consumer.unsubscribe("Orders").await.unwrap();
    producer.send(Message::new("Other", "c1")).await.unwrap();
    until(&cluster.env, async || seen.bodies().contains(&"c1".to_owned()).then_some(())).await;
    until(&cluster.env, async || consumer.queues().iter().all(|queue| queue.topic != "Orders").then_some(())).await;
    assert_eq!(seen.bodies().iter().filter(|body| *body == "b1").count(), 1, "{:?}", seen.bodies());
    assert!(consumer.subscribe("Orders", "||").await.is_err());
    consumer.stop(LIMIT).await;
}

#[tokio::test]
async fn off_7_a_running_group_can_be_reset() {
    let cluster = Cluster::start(1, "").await;
    cluster.make_topic("Orders", 2).await;
    let client = cluster.client();
    send(&client.producer("pg").start().unwrap(), "Orders", 0..10).await;
    let seen = Seen::default();
    let heard = seen.clone();
    let consumer = first(&client, "cg", "Orders")
        .long_poll(Duration::from_millis(500))
        .concurrently_in_batches(4, move |batch| {
            batch.iter().for_each(|message| heard.add(message));
            async { Action::Done }
        })
        .await
        .unwrap();
    seen.wait(&cluster, 10).await;
    let offsets = client.admin().reset("cg", "Orders", metaq::client::ResetTo::Begin).await.unwrap();
    assert_eq!(offsets.values().copied().collect::<Vec<_>>(), [0, 0]);
    seen.wait(&cluster, 20).await;
    consumer.stop(LIMIT).await;
    let mut counts = BTreeMap::new();
    seen.bodies().into_iter().for_each(|body| *counts.entry(body).or_insert(0) += 1);
    assert!(counts.values().all(|count| *count == 2), "{counts:?}");
    assert_eq!(client.admin().lag("cg", Some("Orders")).await.unwrap().total(), 0);
}
