//! Messages looked up by key, by unique key and by id, and groups by what they read.

use std::time::Duration;

use metaq::proto::message::ids;
use metaq::proto::remoting::requests::{QueryMessage, ViewMessageById};
use metaq::proto::remoting::{request, Command};
use serde_json::Value;

use super::support::{bodies, messages, until, Broker, Client};

fn query(topic: &str, key: &str, unique_key_query: bool) -> Command {
    let header = QueryMessage {
        topic: topic.into(),
        key: key.into(),
        max_num: 10,
        begin_timestamp: 0,
        end_timestamp: i64::MAX,
        unique_key_query,
    };
    Command::request(request::QUERY_MESSAGE).with_ext(&header)
}

/// The bodies found, once the index has come as far as the key.
async fn found(client: &Client, topic: &str, key: &str, unique_key_query: bool) -> Vec<String> {
    let answer = until(&client.env, async || {
        let answer = client.ask(query(topic, key, unique_key_query)).await;
        (answer.code == 0).then_some(answer)
    })
    .await;
    assert!(answer.ext("indexLastUpdateTimestamp").unwrap().parse::<i64>().unwrap() > 0);
    bodies(&messages(&answer.body)).into_iter().map(str::to_owned).collect()
}

/// IDX-1: `Aa` and `BB` have one hash. IDX-2: a key named twice gives the message once.
#[tokio::test]
async fn idx_1_keys_find_their_own_messages_once() {
    let broker = Broker::start("").await;
    let client = broker.client().await;
    client.send("AaTopic", "a", &[("KEYS", "Aa k k"), ("UNIQ_KEY", "U1")]).await;
    client.send("BBTopic", "b", &[("KEYS", "BB"), ("UNIQ_KEY", "U2")]).await;
    client.send("AaTopic", "c", &[("KEYS", "k"), ("UNIQ_KEY", "U3")]).await;
    client.send("AaTopic", "last", &[("KEYS", "last")]).await;

    assert_eq!(found(&client, "AaTopic", "last", false).await, ["last"]);
    assert_eq!(found(&client, "AaTopic", "k", false).await, ["a", "c"]);
    assert_eq!(found(&client, "BBTopic", "BB", false).await, ["b"]);
    assert_eq!(found(&client, "AaTopic", "U1", true).await, ["a"]);
    for key in ["BB", "U2", "nothing", ""] {
        let nothing = client.ask(query("AaTopic", key, false)).await;
        assert_eq!(nothing.code, 22, "{key}");
        assert_eq!(nothing.ext("indexLastUpdateTimestamp"), Some("0"));
        assert_eq!(nothing.ext("indexLastUpdatePhyoffset"), Some("0"));
    }
}

#[tokio::test]
async fn an_id_finds_its_message_before_and_after_a_restart() {
    let broker = Broker::start("").await;
    let client = broker.client().await;
    client.send("Orders", "first", &[]).await;
    let sent = client.send("Orders", "second", &[("KEYS", "k")]).await;
    let (host, at) = ids::parse_offset_message_id(&sent.message_id).unwrap();
    assert_eq!(host, broker.address(), "the id leads to this broker");
    let view =
        |offset| Command::request(request::VIEW_MESSAGE_BY_ID).with_ext(&ViewMessageById { offset, topic: None });
    assert_eq!(bodies(&messages(&client.get(view(at.0 as i64)).await.body)), ["second"]);
    for nowhere in [-1, 1, at.0 as i64 + 1, i64::MAX] {
        let refused = client.ask(view(nowhere)).await;
        assert_eq!(refused.remark, Some(format!("can not find message by the offset, {nowhere}")));
        assert_eq!(refused.code, 1);
    }

    let broker = broker.restarted().await;
    let client = broker.client().await;
    assert_eq!(bodies(&messages(&client.get(view(at.0 as i64)).await.body)), ["second"]);
    assert_eq!(found(&client, "Orders", "k", false).await, ["second"]);
}

/// A consumer that never registers is known by what its pulls bring.
#[tokio::test]
async fn groups_that_only_pull_are_shown_with_their_subscriptions() {
    let broker = Broker::start("").await;
    let client = broker.client().await;
    client.send("Orders", "a", &[]).await;
    let with = |code: i32, fields: &[(&'static str, &'static str)]| {
        fields.iter().fold(Command::request(code), |command, &(name, value)| command.with(name, value))
    };
    let ask = async |code: i32, fields: &[(&'static str, &'static str)]| {
        let answer = client.get(with(code, fields)).await;
        serde_json::from_slice::<Value>(&answer.body).unwrap()
    };
    let subscription = [("group", "reader"), ("topic", "Orders")];
    assert_eq!(ask(request::QUERY_SUBSCRIPTION_BY_CONSUMER, &subscription).await["subscriptionData"], Value::Null);
    client.pull("reader", "Orders", 0, Duration::ZERO).await;
    let shown = ask(request::QUERY_SUBSCRIPTION_BY_CONSUMER, &subscription).await;
    assert_eq!(shown["subscriptionData"]["subString"], "*");
    let groups = ask(request::QUERY_TOPIC_CONSUME_BY_WHO, &[("topic", "Orders")]).await;
    assert_eq!(groups["groupList"], serde_json::json!(["reader"]));
}
