//! Consumers that ask.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::{pin_mut, StreamExt};
use metaq::client::{ConsumeFrom, Error, Position, PullConsumer};

use super::consuming::send;
use super::support::{until, Cluster, LIMIT};

async fn poll(consumer: &mut PullConsumer, count: usize) -> Vec<String> {
    let mut got = Vec::new();
    while got.len() < count {
        let messages = consumer.poll(LIMIT).await.unwrap();
        assert!(!messages.is_empty(), "only {got:?}");
        got.extend(messages.iter().map(|message| String::from_utf8_lossy(&message.body).into_owned()));
    }
    got
}

#[tokio::test]
async fn what_was_polled_before_is_consumed_and_the_rest_comes_again() {
    let cluster = Cluster::start(1, "").await;
    cluster.make_topic("Orders", 1).await;
    let client = cluster.client();
    send(&client.producer("pg").start().unwrap(), "Orders", 0..10).await;
    let start = async || {
        let builder = client.pull_consumer("cg").subscribe("Orders", "*").consume_from(ConsumeFrom::First);
        builder.poll_max(2).start().await.unwrap()
    };
    let mut consumer = start().await;
    assert_eq!(poll(&mut consumer, 4).await, ["m0", "m1", "m2", "m3"]);
    drop(consumer);
    let mut consumer = until(&cluster.env, async || {
        let builder = client.pull_consumer("cg").subscribe("Orders", "*").poll_max(2);
        builder.start().await.ok()
    })
    .await;
    assert_eq!(poll(&mut consumer, 2).await, ["m2", "m3"], "the last poll before the end was not followed by another");
    consumer.commit().await.unwrap();
    let queue = client.admin().queues("Orders").await.unwrap().remove(0);
    assert_eq!(client.admin().committed("cg", &queue).await.unwrap(), Some(4));
    assert_eq!(poll(&mut consumer, 2).await, ["m4", "m5"]);
    consumer.close().await;
    let mut consumer = start().await;
    assert_eq!(poll(&mut consumer, 4).await, ["m6", "m7", "m8", "m9"]);
    assert_eq!(consumer.poll(Duration::from_millis(50)).await.unwrap(), []);
    consumer.close().await;
    assert_eq!(client.admin().lag("cg", Some("Orders")).await.unwrap().total(), 0);
}

#[tokio::test]
async fn a_reader_goes_where_it_likes() {
    let cluster = Cluster::start(1, "").await;
    cluster.make_topic("Orders", 1).await;
    cluster.make_topic("Other", 1).await;
    let client = cluster.client();
    let producer = client.producer("pg").start().unwrap();
    send(&producer, "Orders", 0..5).await;
    send(&producer, "Other", 7..8).await;
    let queues = client.admin().queues("Orders").await.unwrap();
    let queue = queues[0].clone();
    let mut reader = client.reader().assign(queues).consume_from(ConsumeFrom::First).start().await.unwrap();
    assert_eq!(poll(&mut reader, 5).await, ["m0", "m1", "m2", "m3", "m4"]);
    for (to, expected) in [
        (Position::Offset(3), vec!["m3", "m4"]),
        (Position::Begin, vec!["m0", "m1", "m2", "m3", "m4"]),
        (Position::Time(metaq::env::Millis(0)), vec!["m0", "m1", "m2", "m3", "m4"]),
    ] {
        reader.seek(&queue, to).await.unwrap();
        assert_eq!(poll(&mut reader, expected.len()).await, expected, "{to:?}");
    }
    reader.seek(&queue, Position::End).await.unwrap();
    assert_eq!(reader.positions(), [(queue.clone(), 5)]);
    assert!(matches!(reader.seek(&queue, Position::Offset(6)).await, Err(Error::Invalid(_))));
    send(&producer, "Orders", 5..6).await;
    assert_eq!(poll(&mut reader, 1).await, ["m5"]);

    reader.seek(&queue, Position::Offset(4)).await.unwrap();
    {
        let stream = reader.stream();
        pin_mut!(stream);
        let two: Vec<_> = stream.take(2).map(|message| message.offset).collect().await;
        assert_eq!(two, [4, 5]);
    }
    reader.assign(client.admin().queues("Other").await.unwrap()).await.unwrap();
    reader.seek(&reader.positions()[0].0.clone(), Position::Begin).await.unwrap();
    assert_eq!(poll(&mut reader, 1).await, ["m7"]);
    assert!(matches!(reader.seek(&queue, Position::Begin).await, Err(Error::Invalid(_))), "it has this queue no more");
    client.close().await;
    assert_eq!(reader.poll(LIMIT).await, Err(Error::Closed));
}

#[tokio::test]
async fn pollers_share_queues_and_pause_them() {
    let cluster = Cluster::start(1, "").await;
    cluster.make_topic("Orders", 4).await;
    let clients = [cluster.client(), cluster.client()];
    let start = async |client: &metaq::client::Client| {
        client.pull_consumer("cg").subscribe("Orders", "*").consume_from(ConsumeFrom::First).start().await.unwrap()
    };
    let (mut one, mut two) = (start(&clients[0]).await, start(&clients[1]).await);
    let count = |consumer: &PullConsumer| consumer.positions().len();
    until(&cluster.env, async || (count(&one) == 2 && count(&two) == 2).then_some(())).await;
    let paused: Vec<_> = one.positions().into_iter().map(|(queue, _)| queue).collect();
    one.pause(&paused);
    send(&clients[0].producer("pg").start().unwrap(), "Orders", 0..8).await;
    let others = poll(&mut two, 4).await;
    assert_eq!(one.poll(Duration::from_millis(100)).await.unwrap(), []);
    one.resume(&paused);
    let mine = poll(&mut one, 4).await;
    assert_eq!(others.into_iter().chain(mine).collect::<BTreeSet<_>>().len(), 8);
}
