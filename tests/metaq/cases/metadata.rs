//! What is known of topics, groups and routes.

use std::net::SocketAddr;
use std::path::Path;

use metaq::actors::nameserver::NameServerHandle;
use metaq::config::nameserver::NameServerSettings;
use metaq::env::real;
use metaq::proto::body::{from_slice, TopicRouteData};
use metaq::proto::remoting::requests::{GetKvConfig, GetRouteInfoByTopic, PutKvConfig};
use metaq::proto::remoting::{request, response, Command, Language};
use serde_json::{json, Value};
use tempfile::TempDir;

use crate::cluster::support::{bodies, until, Broker, Client};

const TEXT: &str = "Bestellungen für 订单 🚀 \u{7f} \"'\\";

async fn nameserver(directory: &Path) -> NameServerHandle {
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    NameServerHandle::start(&real::env(), NameServerSettings::default(), any_port, directory).await.unwrap()
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// CFG-4: names with non-ASCII characters were damaged when a file was read back.
#[tokio::test]
async fn cfg_4_text_in_any_script_survives_load_change_and_save() {
    // The file, its table, what is in it at first, and what is added later.
    const FILES: [[&str; 4]; 2] = [
        ["topics.json", "topicConfigTable", "Orders", "Others"],
        ["subscriptionGroup.json", "subscriptionGroupTable", "cg", "others"],
    ];
    let broker = Broker::start("").await;
    let client = broker.client().await;
    client.send("Orders", "a", &[]).await;
    client.join("c", "cg", "Orders", Language::Java).await;
    let attributes = json!({ "note": TEXT, TEXT: "note" });
    let edit = async |_: &_, directory: &Path| {
        for [file, table, name, _] in FILES {
            let path = directory.join("config").join(file);
            let mut content = read(&path);
            content[table][name]["attributes"] = attributes.clone();
            std::fs::write(&path, content.to_string()).unwrap();
        }
    };
    let broker = broker.restarted_after(edit).await;
    let client = broker.client().await;
    client.send("Others", "a", &[]).await;
    client.join("c", "others", "Others", Language::Java).await;
    let compare = async |_: &_, directory: &Path| {
        for [file, table, name, added] in FILES {
            let content = read(&directory.join("config").join(file));
            assert!(content[table][added].is_object(), "{file} was not saved again");
            assert_eq!(content[table][name]["attributes"], attributes, "{file}");
        }
    };
    broker.restarted_after(compare).await.stop().await;
}

/// CFG-4 for the NameServer's key-value config.
#[tokio::test]
async fn cfg_4_a_nameserver_keeps_text_in_any_script() {
    let (env, directory) = (real::env(), TempDir::new().unwrap());
    let put = PutKvConfig { namespace: Some("名".into()), key: Some("schlüssel".into()), value: TEXT.into() };
    let first = nameserver(directory.path()).await;
    let client = Client::connect(&env, first.address()).await;
    client.get(Command::request(request::PUT_KV_CONFIG).with_ext(&put)).await;
    first.stop().await;

    let second = nameserver(directory.path()).await;
    let client = Client::connect(&env, second.address()).await;
    let get = GetKvConfig { namespace: "名".into(), key: "schlüssel".into() };
    let answer = client.get(Command::request(request::GET_KV_CONFIG).with_ext(&get)).await;
    assert_eq!(answer.ext("value"), Some(TEXT));
    second.stop().await;
}

/// NSR-7: a topic made by a first send was on one broker only; when that one left, sends failed for ever. A client then
/// asks for the template's route again, which leads to the broker that is left.
#[tokio::test]
async fn nsr_7_a_topic_is_made_again_when_its_only_broker_leaves() {
    let (env, directory) = (real::env(), TempDir::new().unwrap());
    let nameserver = nameserver(directory.path()).await;
    let start = async |name| Broker::start(&format!("namesrvAddr={}\nbrokerName={name}\n", nameserver.address())).await;
    let (leaves, stays) = (start("leaves").await, start("stays").await);
    let asker = Client::connect(&env, nameserver.address()).await;
    // Until exactly these brokers have the topic.
    let expect = async |topic: &str, brokers: &[&str]| {
        let ask = GetRouteInfoByTopic { topic: topic.to_owned().into(), accept_standard_json_only: None };
        until(&env, async || {
            let answer = asker.ask(Command::request(request::GET_ROUTEINFO_BY_TOPIC).with_ext(&ask)).await;
            let found = match answer.code {
                response::TOPIC_NOT_EXIST => Vec::new(),
                _ => from_slice::<TopicRouteData>(&answer.body).unwrap().broker_datas,
            };
            let mut names: Vec<String> = found.iter().map(|data| data.broker_name.to_string()).collect();
            names.sort_unstable();
            (names == brokers).then_some(())
        })
        .await;
    };
    expect("TBW102", &["leaves", "stays"]).await;
    leaves.client().await.send("Orders", "first", &[]).await;
    expect("Orders", &["leaves"]).await;
    leaves.stop().await;
    expect("Orders", &[]).await;
    expect("TBW102", &["stays"]).await;
    let client = stays.client().await;
    client.send("Orders", "second", &[]).await;
    expect("Orders", &["stays"]).await;
    assert_eq!(bodies(&client.wait_messages("cg", "Orders", 0).await), ["second"]);
    stays.stop().await;
    nameserver.stop().await;
}
