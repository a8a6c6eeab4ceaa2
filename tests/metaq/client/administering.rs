//! Looking after a cluster.

use std::collections::BTreeSet;

use metaq::client::{Action, ConsumeFrom, Error, Message, ResetTo};
use metaq::env::Millis;
use metaq::proto::body::{SubscriptionGroupConfig, TopicConfig};

use super::consuming::{send, Seen};
use super::support::{until, Cluster, LIMIT};

#[tokio::test]
async fn topics_are_made_changed_and_deleted() {
    let cluster = Cluster::start(2, "").await;
    let admin = cluster.client().admin();
    assert!(matches!(admin.create_topic("no blanks", 4).await, Err(Error::Refused { .. })));
    cluster.make_topic("Orders", 4).await;
    assert_eq!(admin.queues("Orders").await.unwrap().len(), 8);
    admin.put_topic(&TopicConfig::new("Orders", 6, 6)).await.unwrap();
    let configs = admin.topic_configs("Orders").await.unwrap();
    assert_eq!(configs.keys().collect::<Vec<_>>(), ["broker-a", "broker-b"]);
    assert!(configs.values().all(|config| config.read_queue_nums == 6));
    let all = admin.all_topic_configs().await.unwrap();
    assert!(configs.iter().all(|(broker, config)| all[broker].as_ref().unwrap()["Orders"] == *config));
    assert_eq!(admin.topic_traffic("Orders").await.unwrap().in_day, 0);
    let missing = admin.topic_traffic("Missing").await;
    assert_eq!(missing, Err(Error::NoRoute { topic: "Missing".into() }));
    let nameservers = admin.each_nameserver().await;
    assert_eq!(nameservers.len(), 1);
    assert_eq!(nameservers[0].1.as_ref().unwrap().broker_addr_table.len(), 2);
    assert!(admin.topics().await.unwrap().contains(&"Orders".to_owned()));
    let stats = admin.topic_stats("Orders").await.unwrap();
    assert!(stats.offset_table.len() >= 8 && stats.offset_table.values().all(|offsets| offsets.max_offset == 0));
    admin.delete_topic("Orders").await.unwrap();
    assert_eq!(admin.route("Orders").await, Err(Error::NoRoute { topic: "Orders".into() }));
}

#[tokio::test]
async fn groups_offsets_and_messages_are_shown_and_changed() {
    let cluster = Cluster::start(1, "").await;
    cluster.make_topic("Orders", 1).await;
    let client = cluster.client();
    let admin = client.admin();
    let producer = client.producer("pg").start().unwrap();
    send(&producer, "Orders", 0..4).await;
    let sent = producer.send(Message::new("Orders", "found").key("k1")).await.unwrap();
    admin
        .put_group(&SubscriptionGroupConfig { retry_max_times: 3, ..SubscriptionGroupConfig::new("cg") })
        .await
        .unwrap();
    assert_eq!(admin.groups().await.unwrap()["cg"].retry_max_times, 3);

    let seen = Seen::default();
    let heard = seen.clone();
    let consumer = client.push_consumer("cg").subscribe("Orders", "*").consume_from(ConsumeFrom::First);
    let consumer = consumer
        .concurrently(move |message| {
            heard.add(&message);
            async { Action::Done }
        })
        .await
        .unwrap();
    seen.wait(&cluster, 5).await;
    let members = admin.consumers("cg").await.unwrap().unwrap();
    assert_eq!(members.connection_set[0].client_id, client.id());
    assert!(members.subscription_table.contains_key("Orders"));
    assert_eq!(admin.producers("pg", "Orders").await.unwrap().connection_set[0].client_id, client.id());
    let info = String::from_utf8(admin.running_info("cg", client.id()).await.unwrap()).unwrap();
    assert!(
        info.contains("\"PROP_CONSUME_TYPE\":\"CONSUME_PASSIVELY\"") && info.contains("\"commitOffset\":5"),
        "{info}"
    );
    let again = admin.consume_directly("cg", client.id(), &sent.offset_message_id).await.unwrap();
    assert!(again.auto_commit && seen.bodies().iter().filter(|body| *body == "found").count() == 2);
    consumer.stop(LIMIT).await;

    let queue = admin.queues("Orders").await.unwrap().remove(0);
    assert_eq!((admin.min_offset(&queue).await, admin.max_offset(&queue).await), (Ok(0), Ok(5)));
    assert_eq!(admin.lag("cg", None).await.unwrap().total(), 0);
    assert_eq!(admin.reset("cg", "Orders", ResetTo::Begin).await.unwrap()[&queue], 0);
    assert_eq!(admin.lag("cg", None).await.unwrap().total(), 5);
    admin.reset_queue("cg", &queue, 2).await.unwrap();
    admin.clone_offsets("cg", "copy", Some("Orders")).await.unwrap();
    assert_eq!(admin.committed("copy", &queue).await.unwrap(), Some(2));
    // OFF-6: a reset to the end left one message waiting.
    assert_eq!(admin.reset("cg", "Orders", ResetTo::End).await.unwrap()[&queue], 5);
    assert_eq!(admin.topics_of_group("cg").await.unwrap(), BTreeSet::from(["Orders".to_owned()]));
    assert!(admin.groups_of_topic("Orders").await.unwrap().contains("cg"));

    let found = until(&cluster.env, async || {
        let found = admin.messages_by_key("Orders", "k1", Millis(0), Millis(i64::MAX), 10).await.unwrap();
        (!found.is_empty()).then_some(found)
    })
    .await;
    assert_eq!(found[0].message_id(), sent.message_id);
    assert_eq!(admin.messages_by_unique_key("Orders", &sent.message_id).await.unwrap(), found);
    assert!(matches!(admin.message_by_id("nonsense").await, Err(Error::Invalid(_))));
    admin.delete_group("cg", true).await.unwrap();
    assert!(!admin.groups().await.unwrap().contains_key("cg"));

    let address = admin.clusters().await.unwrap().broker_addr_table["broker-a"].broker_addrs[&0].clone();
    assert!(admin.broker_state(&address).await.unwrap().contains_key("putTps"));
    assert!(admin.broker_settings(&address).await.unwrap().contains("brokerName=broker-a"));
    admin.broker_stats(&address, "TOPIC_PUT_NUMS", "Orders").await.unwrap();
}
