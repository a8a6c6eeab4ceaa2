//! A broker and its NameServer.

use std::net::SocketAddr;

use metaq::actors::nameserver::NameServerHandle;
use metaq::config::nameserver::NameServerSettings;
use metaq::env::real;
use metaq::proto::body::{
    from_slice, ConsumerOffsetSerializeWrapper, SubscriptionGroupWrapper, TopicConfigSerializeWrapper, TopicRouteData,
};
use metaq::proto::remoting::{request, Command, Language};
use tempfile::TempDir;

use super::support::{bodies, until, Broker, Client};

/// From an empty cluster to a consumed message, the way a client goes: route, send, heartbeat, retry topic's route.
#[tokio::test]
async fn clients_find_the_broker_by_its_routes() {
    let (env, directory) = (real::env(), TempDir::new().unwrap());
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let nameserver =
        NameServerHandle::start(&env, NameServerSettings::default(), any_port, directory.path()).await.unwrap();
    let broker = Broker::start(&format!("namesrvAddr={}\n", nameserver.address())).await;
    let asker = Client::connect(&env, nameserver.address()).await;
    let route = async |topic: &str| {
        let answer = until(&env, async || {
            let mut command = Command::request(request::GET_ROUTEINFO_BY_TOPIC);
            command.ext.push(("topic".into(), topic.into()));
            Some(asker.ask(command).await).filter(|answer| answer.code == 0)
        })
        .await;
        from_slice::<TopicRouteData>(&answer.body).unwrap()
    };
    let template = route("TBW102").await;
    assert_eq!(template.broker_datas[0].broker_addrs.values().next(), Some(&broker.address().to_string()));

    let client = broker.client().await;
    client.send("Orders", "a", &[]).await;
    assert_eq!(route("Orders").await.queue_datas[0].write_queue_nums, 1);
    client.join("c1", "cg", "Orders", Language::Java).await;
    assert_eq!(route("%RETRY%cg").await.queue_datas[0].read_queue_nums, 1);
    assert_eq!(bodies(&client.wait_messages("cg", "Orders", 0).await), ["a"]);
    drop(broker.restarted().await);
    nameserver.stop().await;
}

/// What slaves and tools copy: all topics, groups and offsets.
#[tokio::test]
async fn whole_tables_are_handed_over() {
    let broker = Broker::start("messageDelayLevel=1s\n").await;
    let client = broker.client().await;
    client.join("c1", "cg", "Orders", Language::Java).await;
    client.send("Orders", "a", &[]).await;
    client.send("Orders", "b", &[("DELAY", "1")]).await;
    client.wait_messages("cg", "Orders", 1).await;
    let mut commit = Command::request(request::UPDATE_CONSUMER_OFFSET);
    for (name, value) in [("consumerGroup", "cg"), ("topic", "Orders"), ("queueId", "0"), ("commitOffset", "2")] {
        commit.ext.push((name.into(), value.into()));
    }
    client.get(commit).await;

    let topics = client.get(Command::request(request::GET_ALL_TOPIC_CONFIG)).await;
    let topics: TopicConfigSerializeWrapper = from_slice(&topics.body).unwrap();
    assert_eq!(topics.topic_config_table["Orders"].write_queue_nums, 1);
    assert!(topics.topic_config_table.contains_key("%RETRY%cg"));
    let groups = client.get(Command::request(request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).await;
    let groups: SubscriptionGroupWrapper = from_slice(&groups.body).unwrap();
    assert_eq!(groups.subscription_group_table["cg"].retry_max_times, 16);
    let offsets = client.get(Command::request(request::GET_ALL_CONSUMER_OFFSET)).await;
    let offsets: ConsumerOffsetSerializeWrapper = from_slice(&offsets.body).unwrap();
    assert_eq!(offsets.offset_table["Orders@cg"][&0], 2);
    client.wait_delivered(1, 1).await;
}
