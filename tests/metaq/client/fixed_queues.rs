//! Topics whose order counts more than their availability.

use std::collections::BTreeMap;
use std::time::Duration;

use metaq::actors::net::{connect, NoRequests};
use metaq::client::Message;
use metaq::proto::body::{permission, TopicConfig};
use metaq::proto::remoting::{request, response, Command};

use super::support::{until, Cluster, LIMIT};

/// Without fixed queues keys move to other queues while a broker is away, and their order is lost.
#[tokio::test]
async fn keys_stay_in_their_queues_while_a_broker_is_away() {
    let mut cluster = Cluster::start(2, "").await;
    let tool = connect(&cluster.env, &cluster.nameserver(), std::sync::Arc::new(NoRequests), LIMIT).await.unwrap();
    let enable = Command::request(request::UPDATE_NAMESRV_CONFIG).with_body("orderMessageEnable=true\n");
    let enabled = tool.call(&*cluster.env.clock, enable, LIMIT).await.unwrap();
    assert_eq!(enabled.code, response::SUCCESS, "{enabled:?}");
    cluster.make_topic("Orders", 2).await;
    let admin = cluster.client().admin();
    let queues = BTreeMap::from([("broker-a".to_owned(), 2), ("broker-b".to_owned(), 2)]);
    admin.fix_queues("Orders", &queues).await.unwrap();
    assert_eq!(admin.fixed_queues("Orders").await.unwrap(), Some(queues));
    assert_eq!(admin.fixed_queues("Other").await.unwrap(), None);

    // Brokers hear of it with their next registration.
    cluster.make_topic("Other", 1).await;
    until(&cluster.env, async || {
        let configs = admin.topic_configs("Orders").await.ok()?;
        configs.values().all(|config| config.order).then_some(())
    })
    .await;

    let keys: Vec<String> = (0..20).map(|key| format!("key-{key}")).collect();
    let producer = |cluster: &Cluster| cluster.client().producer("pg").timeout(Duration::from_secs(2)).start().unwrap();
    let (before, mut homes) = (producer(&cluster), BTreeMap::new());
    for key in &keys {
        let sent = before.send_ordered(Message::new("Orders", "1"), key).await.unwrap();
        homes.insert(key, sent.queue);
    }
    cluster.stop_broker(1).await;
    until(&cluster.env, async || {
        let route = admin.route("Orders").await.ok()?;
        (route.queue_datas.len() == 1).then_some(())
    })
    .await;
    let during = producer(&cluster);
    for key in &keys {
        match during.send_ordered(Message::new("Orders", "2"), key).await {
            Ok(sent) => assert_eq!(sent.queue, homes[key]),
            Err(_) => assert_eq!(homes[key].broker_name, "broker-b", "it is the one that is away"),
        }
    }
    admin.unfix_queues("Orders").await.unwrap();
    let sent = producer(&cluster).send_with(Message::new("Orders", "3"), |queues, _| queues.len() - 1).await.unwrap();
    assert_eq!((&*sent.queue.broker_name, sent.queue.queue_id), ("broker-a", 1), "two queues are left");
}

#[tokio::test]
async fn a_deleted_topic_leaves_no_fixed_queues() {
    let cluster = Cluster::start(1, "").await;
    let admin = cluster.client().admin();
    let config = TopicConfig { order: true, ..TopicConfig::new("Orders", 2, permission::READ | permission::WRITE) };
    admin.put_topic(&config).await.unwrap();
    admin.fix_queues("Orders", &BTreeMap::from([("broker-a".to_owned(), 2)])).await.unwrap();
    admin.delete_topic("Orders").await.unwrap();
    assert_eq!(admin.fixed_queues("Orders").await.unwrap(), None);
    admin.delete_topic("Orders").await.unwrap();
}
