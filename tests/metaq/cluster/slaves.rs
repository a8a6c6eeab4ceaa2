//! A master and a slave over real TCP: who is registered as what, who takes and gives what, and what the slave copies of
//! the master's tables. Names with REP, ROL and OTH are cases of field faults.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use metaq::actors::nameserver::NameServerHandle;
use metaq::actors::net::{ListenerHandle, ListenerOptions};
use metaq::config::nameserver::NameServerSettings;
use metaq::env::{real, Env};
use metaq::proto::body::{
    from_slice, to_vec, ClusterInfo, ConsumerOffsetSerializeWrapper, DelayOffsetSerializeWrapper,
    SubscriptionGroupConfig, SubscriptionGroupWrapper, TopicConfig, TopicConfigSerializeWrapper,
};
use metaq::proto::remoting::requests::{
    DeleteTopicInBroker, PromoteBroker, PullResponse, QueryConsumerOffset, RegisterBrokerResponse, UpdateConsumerOffset,
};
use metaq::proto::remoting::{own_request, request, response, Command, Language, Response};
use tempfile::TempDir;

use super::replication::free_port;
use super::support::{bodies, messages, send_command, until, Broker, Client, ClientService};
use super::transactions::{end, send_half, COMMIT, ROLLBACK};

const SLAVE: &str = "brokerRole=SLAVE\nbrokerId=1\n";

/// A NameServer, and how to start brokers that know it.
struct Cluster {
    env: Env,
    nameserver: NameServerHandle,
    _directory: TempDir,
}

impl Cluster {
    async fn start() -> Cluster {
        let (env, directory) = (real::env(), TempDir::new().unwrap());
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let nameserver = NameServerHandle::start(&env, NameServerSettings::default(), any_port, directory.path());
        Cluster { nameserver: nameserver.await.unwrap(), env, _directory: directory }
    }

    fn settings(&self, settings: &str) -> String {
        format!("namesrvAddr={}\n{settings}", self.nameserver.address())
    }

    async fn broker(&self, settings: &str) -> Broker {
        // What the settings say themselves comes later, and counts.
        let port = format!("haListenPort={}\n{settings}", free_port().await);
        Broker::start(&self.settings(&port)).await
    }

    /// Waits until the NameServer names these members of the broker's name.
    async fn wait_members(&self, ids: &[i64]) {
        let asker = Client::connect(&self.env, self.nameserver.address()).await;
        until(&self.env, async || {
            let answer = asker.get(Command::request(request::GET_BROKER_CLUSTER_INFO)).await;
            let info: ClusterInfo = from_slice(&answer.body).unwrap();
            let members = info.broker_addr_table.get("broker-a").map(|data| data.broker_addrs.keys().copied());
            members.is_some_and(|members| members.eq(ids.iter().copied())).then_some(())
        })
        .await;
    }

    /// Waits until a slave knows whether there is a master.
    async fn wait_master_registered(&self, slave: &Broker, registered: bool) {
        let role = &slave.handle().shared().role;
        until(&self.env, async || (role.master_is_registered() == registered).then_some(())).await;
    }
}

fn commit(group: &str, offset: i64) -> Command {
    Command::request(request::UPDATE_CONSUMER_OFFSET).with_ext(&UpdateConsumerOffset {
        consumer_group: group.into(),
        topic: "Orders".into(),
        queue_id: Some(0),
        commit_offset: Some(offset),
    })
}

async fn committed(client: &Client, group: &str) -> Option<i64> {
    let asked = QueryConsumerOffset {
        consumer_group: group.into(),
        topic: "Orders".into(),
        queue_id: 0,
        set_zero_if_not_found: false,
    };
    let answer = client.ask(Command::request(request::QUERY_CONSUMER_OFFSET).with_ext(&asked)).await;
    answer.ext("offset").map(|offset| offset.parse().unwrap())
}

async fn topics(client: &Client) -> TopicConfigSerializeWrapper {
    from_slice(&client.get(Command::request(request::GET_ALL_TOPIC_CONFIG)).await.body).unwrap()
}

async fn groups(client: &Client) -> SubscriptionGroupWrapper {
    from_slice(&client.get(Command::request(request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).await.body).unwrap()
}

/// Code, next offset and suggested broker of a pull that may not wait.
async fn pull(client: &Client, offset: i64) -> (i32, i64, i64) {
    let answer = client.pull("cg", "Orders", offset, Duration::ZERO).await;
    let fields = answer.ext_fields().unwrap();
    let Ok(found) = PullResponse::decode(&fields) else { return (answer.code, -1, -1) };
    (answer.code, found.next_begin_offset, found.suggest_which_broker_id)
}

#[tokio::test]
async fn a_slave_registers_with_its_id_and_finds_its_master() {
    let cluster = Cluster::start().await;
    let slave = cluster.broker(&format!("{SLAVE}brokerIP2=127.0.0.2\n")).await;
    cluster.wait_members(&[1]).await;
    let master = cluster.broker("brokerIP2=127.0.0.3\nhaListenPort=4000\n").await;
    cluster.wait_members(&[0, 1]).await;
    slave.handle().shared().carry_out(vec![metaq::broker::Effect::Register]);
    cluster.wait_master_registered(&slave, true).await;
    assert_eq!(slave.handle().shared().ha_address.ip().to_string(), "127.0.0.2");
    assert_eq!(master.handle().shared().ha_address.to_string(), "127.0.0.3:4000");
    master.stop().await;
    cluster.wait_members(&[1]).await;
    cluster.wait_master_registered(&slave, false).await;
}

/// Whatever stores a message, or would be lost when the slave next hears from its master, is refused.
#[tokio::test]
async fn a_slave_takes_nothing() {
    let cluster = Cluster::start().await;
    let slave = cluster.broker(SLAVE).await;
    let client = slave.client().await;
    let refused = client.ask(send_command("Orders", "a", &[])).await;
    let remark = "[REJECTREQUEST]system busy, start flow control for a while";
    assert_eq!((refused.code, refused.remark.as_deref()), (response::SYSTEM_BUSY, Some(remark)));
    let group = to_vec(&SubscriptionGroupConfig::new("cg"));
    let delete = DeleteTopicInBroker { topic: "Orders".into() };
    for change in [
        Command::request(request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP).with_body(group),
        Command::request(request::DELETE_TOPIC_IN_BROKER).with_ext(&delete),
        Command::request(request::CLEAN_UNUSED_TOPIC),
    ] {
        let code = change.code;
        let refused = client.ask(change).await;
        assert_eq!(refused.code, response::SYSTEM_ERROR, "{code}");
        assert!(refused.remark.unwrap().starts_with("this broker is a slave"), "{code}");
    }
    let end = slave.handle().shared().store.end();
    assert_eq!(end.0, 0, "nothing was stored");
}

/// REP-6: topics with attributes, and those after them, never came to the slave. Here all tables follow each change.
#[tokio::test]
async fn rep_6_a_slave_follows_each_change_of_its_masters_tables() {
    let cluster = Cluster::start().await;
    let master = cluster.broker("messageDelayLevel=1s\n").await;
    cluster.wait_members(&[0]).await;
    let slave = cluster.broker(SLAVE).await;
    let (at_master, at_slave) = (master.client().await, slave.client().await);
    let fifo = TopicConfig {
        attributes: BTreeMap::from([("+message.type".to_owned(), "FIFO".to_owned())]),
        ..TopicConfig::new("Fifo", 4, 6)
    };
    master.handle().shared().topics().update(vec![fifo], metaq::env::Millis(1), &mut Vec::new()).unwrap();
    at_master.join("c1", "cg", "Orders", Language::Java).await;
    at_master.send("Orders", "a", &[]).await;
    at_master.send("Orders", "b", &[("DELAY", "1")]).await;
    at_master.get(commit("cg", 1)).await;
    let same = async || {
        let ours = (topics(&at_slave).await, groups(&at_slave).await, committed(&at_slave, "cg").await);
        (ours == (topics(&at_master).await, groups(&at_master).await, committed(&at_master, "cg").await)).then_some(())
    };
    until(&cluster.env, same).await;
    assert_eq!(topics(&at_slave).await.topic_config_table["Fifo"].attributes["message.type"], "FIFO");
    at_slave.wait_delivered(1, 1).await;

    let delete = DeleteTopicInBroker { topic: "Fifo".into() };
    at_master.get(Command::request(request::DELETE_TOPIC_IN_BROKER).with_ext(&delete)).await;
    at_master.get(commit("cg", 0)).await;
    until(&cluster.env, same).await;
    assert!(!topics(&at_slave).await.topic_config_table.contains_key("Fifo"));

    let slave = slave.restarted().await;
    let at_slave = slave.client().await;
    assert_eq!(topics(&at_slave).await, topics(&at_master).await, "all was saved");
}

/// ROL-8: a topic made a moment before the master died was missing on its slave.
#[tokio::test]
async fn rol_8_a_topic_is_at_the_slave_within_a_moment() {
    let cluster = Cluster::start().await;
    let master = cluster.broker("").await;
    cluster.wait_members(&[0]).await;
    let slave = cluster.broker(SLAVE).await;
    let (at_master, at_slave) = (master.client().await, slave.client().await);
    let has = async |topic: &str| topics(&at_slave).await.topic_config_table.contains_key(topic);
    at_master.send("First", "a", &[]).await;
    until(&cluster.env, async || has("First").await.then_some(())).await;
    let begun = cluster.env.clock.monotonic();
    at_master.send("Second", "a", &[]).await;
    until(&cluster.env, async || has("Second").await.then_some(())).await;
    let took = cluster.env.clock.monotonic() - begun;
    assert!(took < Duration::from_secs(5), "{took:?}: RocketMQ's slaves ask once a minute");
}

#[tokio::test]
async fn a_slave_serves_pulls_by_rocketmqs_rules() {
    let cluster = Cluster::start().await;
    let master = cluster.broker("").await;
    cluster.wait_members(&[0]).await;
    let (closed, open) = (cluster.broker(SLAVE).await, format!("{SLAVE}slaveReadEnable=true\n"));
    let open = cluster.broker(&open.replace("brokerId=1", "brokerId=2")).await;
    cluster.wait_members(&[0, 1, 2]).await;
    let at_master = master.client().await;
    at_master.join("c1", "cg", "Orders", Language::Java).await;
    at_master.send("Orders", "a", &[]).await;
    let (at_closed, at_open) = (closed.client().await, open.client().await);
    for (slave, client) in [(&closed, &at_closed), (&open, &at_open)] {
        cluster.wait_master_registered(slave, true).await;
        until(&cluster.env, async || topics(client).await.topic_config_table.contains_key("Orders").then_some(()))
            .await;
        until(&cluster.env, async || groups(client).await.subscription_group_table.contains_key("cg").then_some(()))
            .await;
    }
    assert_eq!(pull(&at_closed, 0).await.0, response::SYSTEM_BUSY, "slaveReadEnable is false");
    let retry = response::PULL_RETRY_IMMEDIATELY;
    assert_eq!(pull(&at_open, 1000).await, (retry, 1000, 0), "the master knows what is there");
    // Once the master has said that it is confirmed.
    until(&cluster.env, async || (pull(&at_open, 0).await == (response::SUCCESS, 1, 0)).then_some(())).await;
    assert_eq!(pull(&at_open, 1).await, (retry, 1, 0), "and holds who has caught up");

    drop(at_master);
    master.stop().await;
    for (slave, client) in [(&closed, &at_closed), (&open, &at_open)] {
        cluster.wait_master_registered(slave, false).await;
        // REP-8: "offset illegal, next 0".
        assert_eq!(pull(client, 1000).await, (response::PULL_NOT_FOUND, 1000, 0), "without a master any slave serves");
    }
}

/// A master whose messages no longer fit the memory sends its consumers to a slave, if slaves serve.
#[tokio::test]
async fn a_master_suggests_a_slave_for_what_is_not_in_memory() {
    let master = Broker::start("slaveReadEnable=true\naccessMessageInMemoryMaxRatio=0\n").await;
    let client = master.client().await;
    client.join("c1", "cg", "Orders", Language::Java).await;
    client.send("Orders", "a", &[]).await;
    assert_eq!(pull(&client, 0).await, (response::SUCCESS, 1, 1));
    let update = Command::request(request::UPDATE_BROKER_CONFIG);
    client.get(update.clone().with_body("accessMessageInMemoryMaxRatio=40")).await;
    assert_eq!(pull(&client, 0).await, (response::SUCCESS, 1, 0));
    client.get(update.with_body("accessMessageInMemoryMaxRatio=0\nslaveReadEnable=false")).await;
    assert_eq!(pull(&client, 0).await, (response::SUCCESS, 1, 0));
}

/// A group goes on at the slave while the master is away, and goes on from there when the master is back.
#[tokio::test]
async fn offsets_committed_at_a_slave_are_not_lost_when_the_master_returns() {
    let cluster = Cluster::start().await;
    let master = cluster.broker("").await;
    cluster.wait_members(&[0]).await;
    let slave = cluster.broker(SLAVE).await;
    cluster.wait_members(&[0, 1]).await;
    let (at_master, at_slave) = (master.client().await, slave.client().await);
    at_master.join("c1", "cg", "Orders", Language::Java).await;
    for body in ["a", "b", "c"] {
        at_master.send("Orders", body, &[]).await;
    }
    at_master.get(commit("cg", 1)).await;
    until(&cluster.env, async || (committed(&at_slave, "cg").await == Some(1)).then_some(())).await;
    drop(at_master);

    let master = master
        .restarted_after(async |_, _| {
            cluster.wait_master_registered(&slave, false).await;
            at_slave.get(commit("cg", 3)).await;
        })
        .await;
    let at_master = master.client().await;
    assert_eq!(committed(&at_master, "cg").await, Some(3), "the master asked before it served");
    cluster.wait_master_registered(&slave, true).await;
    at_master.get(commit("cg", 2)).await;
    until(&cluster.env, async || (committed(&at_slave, "cg").await == Some(3)).then_some(())).await;
}

/// OTH-6: "no offset" made clients begin at their start policy.
#[tokio::test]
async fn oth_6_an_empty_slave_does_not_say_that_a_group_has_no_offset() {
    let slave = Broker::start(SLAVE).await;
    let asked = QueryConsumerOffset {
        consumer_group: "cg".into(),
        topic: "Orders".into(),
        queue_id: 0,
        set_zero_if_not_found: true,
    };
    let answer = slave.client().await.ask(Command::request(request::QUERY_CONSUMER_OFFSET).with_ext(&asked)).await;
    assert_eq!(answer.code, response::SYSTEM_BUSY, "it can be asked again");
}

/// What an Apache master is asked, and that its tables are copied although it knows no waiting for changes.
#[tokio::test]
async fn a_slave_of_an_apache_master_copies_its_tables() {
    let (env, apache) = (real::env(), Arc::new(ClientService::default()));
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = ListenerHandle::start(&env, any_port, Arc::clone(&apache), ListenerOptions::default());
    let address = listener.await.unwrap().address().to_string();
    let mut table = TopicConfigSerializeWrapper::default();
    table.data_version.counter = 100;
    table.topic_config_table.insert("Orders".into(), TopicConfig::new("Orders", 4, 6));
    let offsets = ConsumerOffsetSerializeWrapper {
        offset_table: [("Orders@cg".to_owned(), BTreeMap::from([(0, 7)]))].into(),
        ..ConsumerOffsetSerializeWrapper::default()
    };
    let delays = DelayOffsetSerializeWrapper { data_version: None, offset_table: BTreeMap::from([(3, 4)]) };
    let named = RegisterBrokerResponse {
        ha_server_addr: Some(address.as_str().into()),
        master_addr: Some(address.as_str().into()),
    };
    for (code, answer) in [
        (request::REGISTER_BROKER, Response::success().with_ext(&named)),
        (own_request::WAIT_METADATA_CHANGE, Response::not_supported(own_request::WAIT_METADATA_CHANGE)),
        (request::GET_ALL_TOPIC_CONFIG, Response::success().with_body(to_vec(&table))),
        (request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Response::success().with_body("{broken")),
        (request::GET_ALL_CONSUMER_OFFSET, Response::success().with_body(to_vec(&offsets))),
        (request::GET_ALL_DELAY_OFFSET, Response::success().with_body(to_vec(&delays))),
    ] {
        apache.answers(code, Some(answer));
    }
    let slave = Broker::start(&format!("{SLAVE}namesrvAddr={address}\n")).await;
    let client = slave.client().await;
    client.wait_delivered(3, 4).await;
    assert!(topics(&client).await.topic_config_table.contains_key("Orders"), "one bad table keeps no other away");
    assert_eq!(committed(&client, "cg").await, Some(7));
}

/// Waits until a slave's log ends where its master's does.
async fn wait_copied(cluster: &Cluster, master: &Broker, slave: &Broker) {
    let end = master.handle().shared().store.end();
    // What its master may still lose is there and not shown.
    until(&cluster.env, async || (slave.handle().shared().store.confirmed() >= end).then_some(())).await;
}

async fn promote(client: &Client, despite_master: bool) -> Command {
    let header = PromoteBroker { despite_master, despite_others: false };
    client.ask(Command::request(own_request::PROMOTE_BROKER).with_ext(&header)).await
}

/// ROL-9: after a promotion by hand queue offsets did not go on where they had been. ROL-10: messages got lost meanwhile.
#[tokio::test]
async fn rol_9_a_promoted_slave_goes_on_where_its_master_was() {
    let cluster = Cluster::start().await;
    let master = cluster.broker("messageDelayLevel=1s 1h\n").await;
    cluster.wait_members(&[0]).await;
    let slave = cluster.broker(&format!("{SLAVE}messageDelayLevel=1s 1h\n")).await;
    cluster.wait_members(&[0, 1]).await;
    let (at_master, at_slave) = (master.client().await, slave.client().await);
    for n in 0..100 {
        at_master.send("Orders", &n.to_string(), &[]).await;
    }
    at_master.join("c1", "cg", "Orders", Language::Java).await;
    at_master.get(commit("cg", 90)).await;
    wait_copied(&cluster, &master, &slave).await;
    cluster.wait_master_registered(&slave, true).await;
    until(&cluster.env, async || (committed(&at_slave, "cg").await == Some(90)).then_some(())).await;
    let refused = promote(&at_slave, false).await;
    assert_eq!(refused.code, response::SYSTEM_ERROR, "the master is there");
    assert!(refused.remark.unwrap().contains("the NameServers name a master"));

    drop(at_master);
    master.stop().await;
    cluster.wait_master_registered(&slave, false).await;
    let promoted = promote(&at_slave, false).await;
    assert_eq!(promoted.code, response::SUCCESS, "{:?}", promoted.remark);
    cluster.wait_members(&[0]).await;
    let again = promote(&at_slave, true).await;
    assert_eq!(again.remark.as_deref(), Some("this broker is the master"));
    for n in 100..105 {
        assert_eq!(at_slave.send("Orders", &n.to_string(), &[]).await.queue_offset, n);
    }
    let got = at_slave.wait_messages("cg", "Orders", 95).await;
    assert_eq!(bodies(&got), (95..105).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(committed(&at_slave, "cg").await, Some(90));
    at_slave.send("Orders", "later", &[("DELAY", "1")]).await;
    at_slave.wait_messages("cg", "Orders", 105).await;

    let kept = std::fs::read_to_string(slave.directory().join("config/broker.properties")).unwrap();
    assert_eq!(kept, "brokerRole=ASYNC_MASTER\nbrokerId=0\n", "it is the master after a restart too");
}

/// What waits at the old master, for its producer's decision or for its time, goes on at the new one.
#[tokio::test]
async fn what_waits_is_decided_and_delivered_after_a_promotion() {
    let cluster = Cluster::start().await;
    let master = cluster.broker("").await;
    cluster.wait_members(&[0]).await;
    let slave = cluster.broker(SLAVE).await;
    cluster.wait_members(&[0, 1]).await;
    let (at_master, at_slave) = (master.client().await, slave.client().await);
    let halves = [send_half(&at_master, "kept", "K1").await, send_half(&at_master, "dropped", "K2").await];
    let ended = send_half(&at_master, "ended", "K3").await;
    assert_eq!(end(&at_master, &ended, COMMIT).await.0, response::SUCCESS);
    at_master.send("Timed", "later", &[("TIMER_DELAY_SEC", "4")]).await;
    at_master.join("c1", "cg", "Orders", Language::Java).await;
    wait_copied(&cluster, &master, &slave).await;
    until(&cluster.env, async || topics(&at_slave).await.topic_config_table.contains_key("Timed").then_some(())).await;
    until(&cluster.env, async || groups(&at_slave).await.subscription_group_table.contains_key("cg").then_some(()))
        .await;
    drop(at_master);
    master.stop().await;
    cluster.wait_master_registered(&slave, false).await;
    assert_eq!(promote(&at_slave, false).await.code, response::SUCCESS);

    assert_eq!(end(&at_slave, &halves[0], COMMIT).await.0, response::SUCCESS);
    assert_eq!(end(&at_slave, &halves[1], ROLLBACK).await.0, response::SUCCESS);
    // Its master has decided: that stands, and nothing is committed twice.
    end(&at_slave, &ended, COMMIT).await;
    assert_eq!(bodies(&at_slave.wait_messages("cg", "Timed", 0).await), ["later"]);
    let answer = at_slave.pull("cg", "Orders", 0, Duration::ZERO).await;
    assert_eq!(bodies(&messages(&answer.body)), ["ended", "kept"]);
}

/// The old master comes back as a slave of the one that took its place.
#[tokio::test]
async fn an_old_master_comes_back_as_a_slave() {
    let cluster = Cluster::start().await;
    let master = cluster.broker("").await;
    cluster.wait_members(&[0]).await;
    let slave = cluster.broker(SLAVE).await;
    cluster.wait_members(&[0, 1]).await;
    let at_master = master.client().await;
    for n in 0..10 {
        at_master.send("Orders", &n.to_string(), &[]).await;
    }
    wait_copied(&cluster, &master, &slave).await;
    drop(at_master);
    let at_slave = slave.client().await;
    let settings = cluster.settings("brokerRole=SLAVE\nbrokerId=2\n");
    let old = master
        .restarted_with_after(&settings, async |_, _| {
            cluster.wait_master_registered(&slave, false).await;
            assert_eq!(promote(&at_slave, false).await.code, response::SUCCESS);
            at_slave.send("Orders", "10", &[]).await;
        })
        .await;
    cluster.wait_members(&[0, 2]).await;
    wait_copied(&cluster, &slave, &old).await;
    at_slave.send("Orders", "11", &[]).await;
    wait_copied(&cluster, &slave, &old).await;
    assert!(slave.handle().ha_status().slaves.iter().any(|slave| slave.in_sync));
}

/// An old master that is started as one, by mistake, takes nothing that the new one would not have.
#[tokio::test]
async fn an_old_master_that_comes_back_as_one_is_fenced() {
    let cluster = Cluster::start().await;
    let master = cluster.broker("").await;
    cluster.wait_members(&[0]).await;
    let slave = cluster.broker(SLAVE).await;
    cluster.wait_members(&[0, 1]).await;
    let (at_master, at_slave) = (master.client().await, slave.client().await);
    at_master.send("Orders", "a", &[]).await;
    wait_copied(&cluster, &master, &slave).await;
    drop(at_master);
    let old = master
        .restarted_after(async |_, _| {
            cluster.wait_master_registered(&slave, false).await;
            assert_eq!(promote(&at_slave, false).await.code, response::SUCCESS);
        })
        .await;
    let at_old = old.client().await;
    until(&cluster.env, async || old.handle().shared().role.is_slave().then_some(())).await;
    assert_eq!(at_old.ask(send_command("Orders", "b", &[])).await.code, response::SYSTEM_BUSY);
    assert_eq!(at_slave.send("Orders", "b", &[]).await.queue_offset, 1);
    cluster.wait_members(&[0]).await;
}

/// A group of our own client library goes on at the slave while the master is away, and at the master when it is back.
#[tokio::test]
async fn consumers_go_on_at_a_slave_and_come_back() {
    let cluster = Cluster::start().await;
    let master = cluster.broker("defaultTopicQueueNums=1\n").await;
    cluster.wait_members(&[0]).await;
    let slave = cluster.broker(SLAVE).await;
    cluster.wait_members(&[0, 1]).await;
    let at_master = master.client().await;
    for n in 0..5 {
        at_master.send("Orders", &n.to_string(), &[]).await;
    }
    wait_copied(&cluster, &master, &slave).await;
    let client = metaq::client::Client::new(&cluster.env, &cluster.nameserver.address().to_string()).unwrap();
    let builder = client.pull_consumer("cg").subscribe("Orders", "*").poll_max(1);
    let mut consumer = builder.consume_from(metaq::client::ConsumeFrom::First).start().await.unwrap();
    let mut got = Vec::new();
    let mut poll = async |count: usize| {
        while got.len() < count {
            let messages = consumer.poll(Duration::from_secs(20)).await.unwrap();
            got.extend(messages.iter().map(|message| String::from_utf8_lossy(&message.body).into_owned()));
        }
        // Until the client hears of it, it goes to the broker that is gone.
        until(&cluster.env, async || consumer.commit().await.ok()).await;
        got.clone()
    };
    assert_eq!(poll(2).await, ["0", "1"]);
    let at_slave = slave.client().await;
    until(&cluster.env, async || groups(&at_slave).await.subscription_group_table.contains_key("cg").then_some(()))
        .await;
    drop(at_master);
    let master = master
        .restarted_after(async |_, _| {
            cluster.wait_master_registered(&slave, false).await;
            assert_eq!(poll(4).await, ["0", "1", "2", "3"], "from the slave");
            until(&cluster.env, async || (committed(&at_slave, "cg").await >= Some(3)).then_some(())).await;
        })
        .await;
    let at_master = master.client().await;
    assert!(committed(&at_master, "cg").await >= Some(3), "the master knows what was consumed at the slave");
    cluster.wait_members(&[0, 1]).await;
    at_master.send("Orders", "5", &[]).await;
    assert_eq!(poll(6).await, ["0", "1", "2", "3", "4", "5"]);
    consumer.close().await;
    client.close().await;
}
