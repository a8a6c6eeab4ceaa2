//! How the library lives in a process: beside others of its kind.

use std::time::Duration;

use metaq::client::{Client, ConsumeFrom, Message};
use metaq::env::real;
use metaq::Embedded;
use tempfile::TempDir;

use super::support::LIMIT;

#[tokio::test]
async fn two_clients_in_one_process_have_two_clusters() {
    let env = real::env();
    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let mut clusters = Vec::new();
    for (number, folder) in folders.iter().enumerate() {
        let cluster = Embedded::start(&env, folder.path(), "autoCreateTopicEnable=true").await.unwrap();
        let client = Client::new(&env, cluster.nameserver()).unwrap();
        let producer = client.producer("shop").start().unwrap();
        let sent = producer.send(Message::new("Orders", format!("of cluster {number}"))).await.unwrap();
        assert_eq!(sent.offset, 0, "it is the first one there");
        clusters.push((cluster, client, producer));
    }
    for (number, (cluster, client, producer)) in clusters.into_iter().enumerate() {
        let group = client.pull_consumer("audit").subscribe("Orders", "*").consume_from(ConsumeFrom::First);
        let mut consumer = group.start().await.unwrap();
        let messages = consumer.poll(LIMIT).await.unwrap();
        assert_eq!(messages[0].body, format!("of cluster {number}").as_bytes());
        assert!(consumer.poll(Duration::from_millis(50)).await.unwrap().is_empty());
        consumer.close().await;
        producer.close().await;
        client.close().await;
        cluster.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_cluster_in_a_process_refuses_settings_that_are_none() {
    let folder = TempDir::new().unwrap();
    let error = Embedded::start(&real::env(), folder.path(), "flushDiskTyp=SYNC_FLUSH").await.err().unwrap();
    assert!(error.to_string().contains("flushDiskTyp"), "{error}");
}
