//! Consumers that want some of the messages, by SQL92.

use std::time::Duration;

use metaq::client::{Action, Client, ConsumeFrom, Error, Message, PullConsumer};
use metaq::proto::remoting::{request, Command};

use super::support::{until, Cluster, LIMIT};

const ON: &str = "enablePropertyFilter=true\n";

/// Message `n` has the property `n`; every second one also `kind`.
async fn send(client: &Client, numbers: std::ops::Range<u32>) {
    let producer = client.producer(format!("pg-{}", numbers.start)).start().unwrap();
    for n in numbers {
        let message = Message::new("Orders", n.to_string()).property("n", n.to_string());
        producer.send(if n % 2 == 1 { message.property("kind", "odd") } else { message }).await.unwrap();
    }
}

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
async fn a_group_gets_what_matches_and_waits_for_more() {
    let cluster = Cluster::start(1, ON).await;
    cluster.make_topic("Orders", 1).await;
    let client = cluster.client();
    // More than one read looks at, with matches at both ends only.
    send(&client, 0..1000).await;
    let (found, mut came) = tokio::sync::mpsc::unbounded_channel();
    let builder = client.push_consumer("cg").subscribe_sql("Orders", "kind = 'odd' AND n NOT BETWEEN 3 AND 997");
    let consumer = builder.consume_from(ConsumeFrom::First).concurrently(move |message| {
        found.send(String::from_utf8_lossy(&message.body).into_owned()).unwrap();
        async { Action::Done }
    });
    let consumer = consumer.await.unwrap();
    assert_eq!([came.recv().await.unwrap(), came.recv().await.unwrap()], ["1", "999"]);
    // The next pull waits. Messages it does not want leave it waiting, the one it wants comes.
    send(&client, 1000..1004).await;
    assert_eq!([came.recv().await.unwrap(), came.recv().await.unwrap()], ["1001", "1003"]);
    until(&cluster.env, async || {
        let lag = client.admin().lag("cg", Some("Orders")).await.ok()?;
        (lag.total() == 0).then_some(())
    })
    .await;
    consumer.stop(LIMIT).await;
    assert!(came.try_recv().is_err(), "nothing else came");
}

#[tokio::test]
async fn a_reader_brings_its_expression_along() {
    let cluster = Cluster::start(1, ON).await;
    cluster.make_topic("Orders", 1).await;
    let client = cluster.client();
    send(&client, 0..20).await;
    let queues = client.admin().queues("Orders").await.unwrap();
    let reader = client.reader().subscribe_sql("Orders", "n > 16.5 OR n = '0'").assign(queues);
    let mut reader = reader.consume_from(ConsumeFrom::First).start().await.unwrap();
    assert_eq!(poll(&mut reader, 4).await, ["0", "17", "18", "19"]);
    assert_eq!(reader.poll(Duration::from_millis(50)).await.unwrap(), []);
    send(&client, 30..31).await;
    assert_eq!(poll(&mut reader, 1).await, ["30"]);
}

/// A consumer does not start with an expression that its broker would not evaluate.
#[tokio::test]
async fn what_cannot_be_evaluated_is_refused_at_the_start() {
    let cluster = Cluster::start(1, "").await;
    cluster.make_topic("Orders", 1).await;
    let client = cluster.client();
    let start = async |group: &str, expression: &str| {
        let builder = client.pull_consumer(group).subscribe_sql("Orders", expression);
        match builder.start().await {
            Ok(consumer) => {
                consumer.close().await;
                Ok(())
            }
            Err(error) => Err(error),
        }
    };
    let off = start("cg", "n > 5").await.unwrap_err();
    assert_eq!(off.code(), Some(1), "{off}");
    assert!(off.to_string().contains("does not support consumer to filter message by SQL92"), "{off}");
    let broker = cluster.brokers[0].as_ref().unwrap().client().await;
    broker.get(Command::request(request::UPDATE_BROKER_CONFIG).with_body("enablePropertyFilter=true")).await;
    start("cg", "n > 5").await.unwrap();
    let broken = start("cg2", "n > 5 AND kind =").await.unwrap_err();
    assert!(matches!(&broken, Error::Refused { code: 23, .. }), "{broken:?}");
    assert!(broken.to_string().contains("character 17: it ends where"), "{broken}");
}
