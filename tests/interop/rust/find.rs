//! Finding stored messages again, and what tools ask.

use std::sync::Arc;

use metaq::client::{Admin, Message, ResetTo};
use metaq::env::Millis;

use super::scene::{send_many, sent, until, Scene, LIMIT, QUEUES};
use super::Check;

pub const CHECKS: [Check; 7] = [
    ("query-key", |scene| Box::pin(by_key(scene))),
    ("query-id", |scene| Box::pin(by_id(scene))),
    ("query-time", |scene| Box::pin(by_time(scene))),
    ("query-restart-before", |scene| Box::pin(send_with_keys(scene))),
    ("query-restart-after", |scene| Box::pin(find_by_keys(scene))),
    ("admin", |scene| Box::pin(admin(scene))),
    ("reset", |scene| Box::pin(reset(scene))),
];

async fn await_found(admin: &Admin, topic: &str, key: &str, count: usize) {
    until(&format!("{count} messages of key {key}"), async || {
        let found = admin.messages_by_key(topic, key, Millis(0), Millis(i64::MAX), 32).await.unwrap_or_default();
        assert!(found.iter().all(|message| message.keys().any(|found| found == key)));
        found.len() == count
    })
    .await;
}

async fn by_key(scene: Arc<Scene>) {
    let (topic, producer) = (scene.topic().await, scene.producer());
    for number in 0..6 {
        let message = Message::new(&topic, format!("m{number}")).key(format!("order{}", number % 3)).key("all");
        sent(producer.send(message).await);
    }
    let admin = scene.client().admin();
    await_found(&admin, &topic, "order1", 2).await;
    await_found(&admin, &topic, "all", 6).await;
}

/// By the id that the client made and by the one that says where the message lies.
async fn by_id(scene: Arc<Scene>) {
    let (topic, admin) = (scene.topic().await, scene.client().admin());
    let result = sent(scene.producer().send(Message::new(&topic, "find me")).await);
    let found = admin.message_by_id(&result.offset_message_id).await.unwrap();
    assert_eq!((&found.body[..], found.offset), (&b"find me"[..], result.offset));
    until("the index", async || {
        let found = admin.messages_by_unique_key(&topic, &result.message_id).await.unwrap_or_default();
        found.iter().any(|message| message.body == b"find me" && message.offset == result.offset)
    })
    .await;
}

async fn by_time(scene: Arc<Scene>) {
    let (topic, producer, admin) = (scene.topic().await, scene.producer(), scene.client().admin());
    let queue = producer.queues(&topic).await.unwrap()[0].clone();
    for number in 0..5 {
        sent(producer.send_to(Message::new(&topic, format!("m{number}")), &queue).await);
    }
    assert_eq!(admin.search_offset(&queue, Millis(1)).await, Ok(0));
    assert_eq!((admin.min_offset(&queue).await, admin.max_offset(&queue).await), (Ok(0), Ok(5)));
}

async fn send_with_keys(scene: Arc<Scene>) {
    let (topic, producer) = (scene.topic().await, scene.producer());
    for number in 0..5 {
        sent(producer.send(Message::new(&topic, format!("m{number}")).key("kept")).await);
    }
    await_found(&scene.client().admin(), &topic, "kept", 5).await;
}

/// What an index file held before a restart is found again.
async fn find_by_keys(scene: Arc<Scene>) {
    await_found(&scene.client().admin(), &scene.topic_name(), "kept", 5).await;
}

/// Topics, groups, who consumes, and how far behind.
async fn admin(scene: Arc<Scene>) {
    let (topic, group, admin) = (scene.topic().await, scene.group(), scene.client().admin());
    let (consumer, inbox) = scene.consume(&topic, "*").await;
    inbox.await_exactly(&send_many(&scene.producer(), &topic, "m", 20).await).await;
    let info = admin.clusters().await.unwrap();
    assert!(info.broker_addr_table.contains_key("broker-a"));
    assert!(admin.topics().await.unwrap().contains(&topic));
    let configs = admin.topic_configs(&topic).await.unwrap();
    assert!(configs.values().all(|config| config.read_queue_nums == QUEUES as i32), "{configs:?}");
    let stats = admin.topic_stats(&topic).await.unwrap();
    assert_eq!(stats.offset_table.values().map(|offsets| offsets.max_offset).sum::<i64>(), 20);
    let members = admin.consumers(&group).await.unwrap().expect("a member");
    assert_eq!(members.connection_set.len(), 1);
    assert!(admin.groups().await.unwrap().contains_key(&group));
    until("the group's offsets", async || {
        let lag = admin.lag(&group, Some(&topic)).await.unwrap();
        lag.total() == 0 && lag.queues.len() == QUEUES
    })
    .await;
    assert!(admin.groups_of_topic(&topic).await.unwrap().contains(&group));
    let address = info.broker_addr_table["broker-a"].broker_addrs[&0].clone();
    assert!(admin.broker_settings(&address).await.unwrap().contains("brokerName=broker-a"));
    assert!(!admin.broker_state(&address).await.unwrap().is_empty());
    consumer.stop(LIMIT).await;
    admin.delete_group(&group, true).await.unwrap();
    assert!(!admin.groups().await.unwrap().contains_key(&group));
    admin.delete_topic(&topic).await.unwrap();
    until("the topic to be gone", async || admin.route(&topic).await.is_err()).await;
}

/// A group that is set back consumes again.
async fn reset(scene: Arc<Scene>) {
    let (topic, admin) = (scene.topic().await, scene.client().admin());
    let bodies = send_many(&scene.producer(), &topic, "m", 20).await;
    let (consumer, inbox) = scene.consume(&topic, "*").await;
    inbox.await_exactly(&bodies).await;
    let set = admin.reset(&scene.group(), &topic, ResetTo::Begin).await.unwrap();
    assert_eq!((set.len(), set.values().sum::<i64>()), (QUEUES, 0));
    until("all to come again", async || inbox.all().len() >= 2 * bodies.len()).await;
    inbox.await_exactly(&[&bodies[..], &bodies[..]].concat()).await;
    consumer.stop(LIMIT).await;
}
