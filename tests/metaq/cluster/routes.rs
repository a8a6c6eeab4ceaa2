//! A broker and its NameServer.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::join_all;
use metaq::actors::nameserver::NameServerHandle;
use metaq::actors::net::{ListenerHandle, ListenerOptions};
use metaq::config::nameserver::NameServerSettings;
use metaq::env::real;
use metaq::proto::body::{
    from_slice, ConsumerOffsetSerializeWrapper, RegisterBrokerBody, SubscriptionGroupWrapper,
    TopicConfigSerializeWrapper, TopicRouteData,
};
use metaq::proto::remoting::requests::{DeleteTopicInBroker, UpdateAndCreateTopic};
use metaq::proto::remoting::{request, response, Command, Language, Response};
use tempfile::TempDir;

use super::support::{bodies, until, Broker, Client, ClientService};

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
            command.ext.push("topic", topic);
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
        commit.ext.push(name, value);
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

/// What a NameServer that only listens was told: the topics of each registration, and whether it said they were all.
fn registrations(nameserver: &ClientService) -> Vec<(Vec<String>, bool)> {
    let told = nameserver.asked(request::REGISTER_BROKER).into_iter().map(|command| {
        let body = RegisterBrokerBody::decode(&command.body).unwrap();
        let topics = body.topic_config_serialize_wrapper.topic_config_table.into_keys().collect();
        (topics, command.ext("completeTopicTable") == Some("true"))
    });
    told.collect()
}

fn update_topic(topic: &str) -> Command {
    let header = UpdateAndCreateTopic {
        topic: topic.into(),
        default_topic: None,
        read_queue_nums: 1,
        write_queue_nums: 1,
        perm: 6,
        topic_filter_type: None,
        topic_sys_flag: 0,
        order: false,
        attributes: None,
        force: false,
    };
    Command::request(request::UPDATE_AND_CREATE_TOPIC).with_ext(&header)
}

/// Topics made at the same time share saves and registrations, and each is saved and told once it is answered.
#[tokio::test]
async fn topics_made_together_are_saved_and_registered_together() {
    const TOPICS: usize = 200;
    let (env, nameserver) = (real::env(), Arc::new(ClientService::default()));
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = ListenerHandle::start(&env, any_port, Arc::clone(&nameserver), ListenerOptions::default());
    let address = listener.await.unwrap().address();
    let broker = Broker::start(&format!("namesrvAddr={address}\n")).await;
    let client = broker.client().await;
    until(&env, async || registrations(&nameserver).pop()).await;
    join_all((0..TOPICS).map(|n| client.get(update_topic(&format!("T{n}"))))).await;
    let told = registrations(&nameserver);
    assert!(told.len() < TOPICS / 2, "{} registrations", told.len());
    let told: BTreeSet<String> = told.into_iter().flat_map(|(topics, _)| topics).collect();
    assert!((0..TOPICS).all(|n| told.contains(&format!("T{n}"))));

    let file = broker.handle().shared().store.root().join("config/topics.json");
    let saved: TopicConfigSerializeWrapper = from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert!((0..TOPICS).all(|n| saved.topic_config_table.contains_key(&format!("T{n}"))));
}

/// A change is told by itself, and all of the table whenever that would not do. Who changed a topic has its answer once
/// the NameServers know.
#[tokio::test]
async fn a_change_is_registered_by_itself() {
    let (env, nameserver) = (real::env(), Arc::new(ClientService::default()));
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = ListenerHandle::start(&env, any_port, Arc::clone(&nameserver), ListenerOptions::default());
    let address = listener.await.unwrap().address();
    let broker = Broker::start(&format!("namesrvAddr={address}\n")).await;
    let client = broker.client().await;
    let make = async |topic: &str| {
        client.get(update_topic(topic)).await;
        registrations(&nameserver)
    };
    until(&env, async || registrations(&nameserver).pop()).await;
    assert!(make("Orders").await.len() == 2, "told before it was answered");
    let [(all, complete), (one, one_complete)] = registrations(&nameserver).try_into().unwrap();
    assert_eq!((complete, one_complete), (true, false));
    assert!(all.contains(&"TBW102".to_owned()) && one == ["Orders"], "{all:?} {one:?}");

    let delete = DeleteTopicInBroker { topic: "Orders".into() };
    client.get(Command::request(request::DELETE_TOPIC_IN_BROKER).with_ext(&delete)).await;
    let (left, complete) = registrations(&nameserver).pop().unwrap();
    assert!(complete && left.len() == all.len(), "only a whole table says that a topic is gone");

    nameserver.answers(request::REGISTER_BROKER, Some(Response::error(response::SYSTEM_ERROR, "not now")));
    assert_eq!(make("Missed").await.pop().unwrap(), (vec!["Missed".to_owned()], false));
    nameserver.answers(request::REGISTER_BROKER, Some(Response::success()));
    let (repaired, complete) = make("Next").await.pop().unwrap();
    assert!(complete && repaired.len() == all.len() + 2, "what was refused is repaired by the next");
}
