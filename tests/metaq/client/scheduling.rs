//! Pulls on a schedule.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metaq::client::{Client, ConsumeFrom, MessageQueue, NextPull, ScheduledConsumer};

use super::consuming::send;
use super::support::{until, Cluster, LIMIT};

/// A queue, and the bodies of one call; none if there were none.
type Call = (MessageQueue, Vec<String>);

/// What a task was called with.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<Call>>>);

impl Calls {
    fn bodies(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().flat_map(|(_, bodies)| bodies.clone()).collect()
    }

    fn note(&self, queue: MessageQueue, messages: &[Arc<metaq::client::Received>]) {
        let bodies = messages.iter().map(|message| String::from_utf8_lossy(&message.body).into_owned()).collect();
        self.0.lock().unwrap().push((queue, bodies));
    }
}

async fn start(
    client: &Client,
    calls: &Calls,
    next: impl Fn(usize) -> NextPull + Clone + Send + Sync + 'static,
) -> ScheduledConsumer {
    let builder = client.pull_consumer("cg").subscribe("Orders", "*").consume_from(ConsumeFrom::First).poll_max(2);
    let calls = calls.clone();
    let task = move |queue, messages: Vec<_>| {
        let (calls, next) = (calls.clone(), next.clone());
        async move {
            calls.note(queue, &messages);
            let number = calls.0.lock().unwrap().len();
            next(number)
        }
    };
    builder.scheduled(task).await.unwrap()
}

#[tokio::test]
async fn the_task_says_when_the_next_pull_is() {
    let cluster = Cluster::start(1, "").await;
    cluster.make_topic("Orders", 1).await;
    let client = cluster.client();
    let producer = client.producer("pg").start().unwrap();
    send(&producer, "Orders", 0..5).await;

    // The second call fails, the third panics, and both get the same messages again.
    let calls = Calls::default();
    let consumer = start(&client, &calls, |number| match number {
        2 => NextPull::Again(Duration::ZERO),
        3 => panic!("a task may"),
        _ => NextPull::After(Duration::ZERO),
    });
    let consumer = consumer.await;
    until(&cluster.env, async || (calls.0.lock().unwrap().len() > 6).then_some(())).await;
    let bodies = |range: std::ops::Range<usize>| calls.bodies()[range].join(" ");
    assert_eq!(bodies(0..9), "m0 m1 m2 m3 m2 m3 m2 m3 m4");
    assert_eq!(calls.bodies().len(), 9, "without messages it is called with none");
    consumer.stop(LIMIT).await;
    assert_eq!(client.admin().lag("cg", Some("Orders")).await.unwrap().total(), 0);

    // Whoever waits an hour is not called before.
    let calls = Calls::default();
    let consumer = start(&client, &calls, |_| NextPull::After(Duration::from_secs(3600))).await;
    until(&cluster.env, async || (!calls.0.lock().unwrap().is_empty()).then_some(())).await;
    send(&producer, "Orders", 5..6).await;
    let stopped = tokio::time::timeout(LIMIT, consumer.stop(LIMIT));
    assert!(stopped.await.is_ok(), "an hour's pause must not hold up the end");
    assert_eq!((calls.bodies(), calls.0.lock().unwrap().len()), (vec![], 1));
}

#[tokio::test]
async fn queues_are_called_by_who_has_them() {
    let cluster = Cluster::start(2, "").await;
    cluster.make_topic("Orders", 2).await;
    let clients = [cluster.client(), cluster.client()];
    let calls = [Calls::default(), Calls::default()];
    let soon = |_| NextPull::After(Duration::from_millis(5));
    let first = start(&clients[0], &calls[0], soon).await;
    assert_eq!(first.queues().len(), 4);
    let second = start(&clients[1], &calls[1], soon).await;
    until(&cluster.env, async || (first.queues().len() == 2 && second.queues().len() == 2).then_some(())).await;

    send(&clients[0].producer("pg").start().unwrap(), "Orders", 0..40).await;
    let consumed = || calls.iter().map(|calls| calls.bodies().len()).sum::<usize>();
    until(&cluster.env, async || (consumed() >= 40).then_some(())).await;
    let mut bodies: Vec<String> = calls.iter().flat_map(Calls::bodies).collect();
    bodies.sort();
    bodies.dedup();
    assert_eq!((bodies.len(), consumed()), (40, 40), "each once");
    let mut by_queue = BTreeMap::new();
    for (member, calls) in calls.iter().enumerate() {
        for (queue, _) in calls.0.lock().unwrap().iter().filter(|(_, bodies)| !bodies.is_empty()) {
            assert_eq!(*by_queue.entry(queue.clone()).or_insert(member), member, "{queue:?} has one owner");
        }
    }
    assert_eq!(by_queue.len(), 4);

    // Who leaves hands its queues over.
    second.stop(LIMIT).await;
    until(&cluster.env, async || (first.queues().len() == 4).then_some(())).await;
    first.stop(LIMIT).await;
    assert_eq!(clients[0].admin().lag("cg", Some("Orders")).await.unwrap().total(), 0);
}
