//! `metaq topic`, `cluster`, `group` and `offset`.

use std::sync::{Arc, OnceLock};

use metaq::proto::body::{to_vec, BrokerData, ClusterInfo, TopicConfig, TopicConfigSerializeWrapper};
use metaq::proto::remoting::{request, Response};

use super::process::{metaq, run};
use super::tool::Server;
use crate::client::support::Server as Scripted;

#[test]
fn topics_are_made_shown_changed_and_deleted() {
    let server = Server::start();
    let none = server.run(&["topic", "list"]);
    assert!(none.out.contains("no topics of applications") && none.err.contains("metaq topic create"), "{none:?}");
    assert_eq!(server.json(&["topic", "list"]), serde_json::json!([]));
    let made = server.run(&["topic", "create", "Orders", "--queues", "2"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    assert!(made.err.contains("hint: send to it with `metaq send Orders"), "{made:?}");
    server.fails(&["topic", "create", "Orders"], 1, &["is there already", "`metaq topic update Orders`"]);
    assert_eq!(
        server.done(&["topic", "list"]),
        "TOPIC   KIND    BROKERS  QUEUES  PERM\nOrders  normal        1       2  rw\n"
    );
    assert!(server.done(&["topic", "list", "--all"]).contains("TBW102"));
    assert_eq!(server.done(&["topic", "list", "--format", "{topic}:{queues}"]), "Orders:2\n");
    server.fails(&["topic", "list", "--format", "{nme}"], 2, &["{topic} {kind} {brokers} {queues} {perm}"]);

    server.done(&["send", "Orders", "a", "b", "c"]);
    let shown = server.json(&["topic", "show", "Orders"]);
    assert_eq!((&shown["messages"], shown["queues"].as_array().unwrap().len()), (&3.into(), 2), "{shown}");
    assert!(shown["queues"][0]["newest"].as_i64().unwrap() > 1_600_000_000_000);
    let text = server.done(&["topic", "show", "Orders"]);
    assert!(text.contains("messages  3\n") && text.contains("BROKER    QUEUE  BEGIN  END  MESSAGES  NEWEST"), "{text}");

    server.done(&["topic", "update", "Orders", "--perm", "r"]);
    let allow = "hint: `metaq topic update Orders --perm rw` allows it";
    server.fails(&["send", "Orders", "x"], 1, &["topic `Orders` may not be written to", allow]);
    server.done(&["topic", "update", "Orders", "--perm", "rw", "--queues", "4"]);
    server.fails(&["topic", "update", "Orders"], 2, &["nothing is to be changed"]);
    server.fails(
        &["topic", "update", "Orders", "--perm", "r", "--broker", "broker-x"],
        1,
        &["did you mean `broker-a`?"],
    );
    server.done(&["send", "Orders", "d"]);
    let stats = server.json(&["topic", "stats", "Orders"]);
    assert_eq!(stats[0]["messages"], 4, "{stats}");
    assert!(server.done(&["topic", "stats"]).starts_with("TOPIC   MESSAGES  IN/S"));

    server.fails(&["topic", "delete", "Orders"], 2, &["nobody is there to be asked", "--dry-run", "--yes"]);
    let dry = server.run(&["topic", "delete", "Orders", "--dry-run"]);
    assert!(dry.out.contains("Orders  broker-a") && dry.err.contains("with 4 messages"), "{dry:?}");
    server.done(&["topic", "delete", "Orders", "--yes"]);
    server.fails(&["topic", "show", "Orders"], 1, &["topic `Orders` not found"]);
    server.fails(&["topic", "delete", "TBW102", "--yes"], 1, &["is a topic of RocketMQ itself"]);
    server.fails(&["topic", "create", "no blanks"], 1, &["error: "]);
}

/// Queues were taken away with what waited in them.
#[test]
fn reb_8_queues_in_which_messages_wait_are_read_until_they_are_consumed() {
    let server = Server::start();
    server.done(&["topic", "create", "Orders", "--queues", "4"]);
    server.done(&["send", "Orders", "a", "b", "c", "d", "e", "f", "g", "h"]);
    server.done(&["tail", "Orders", "-g", "billing", "--from", "begin", "--max", "8"]);
    server.done(&["send", "Orders", "i", "j", "k", "l", "m", "n", "o", "p"]);
    let queues = || {
        let shown = &server.json(&["topic", "show", "Orders"])["brokers"][0];
        (shown["read"].as_i64().unwrap(), shown["write"].as_i64().unwrap())
    };
    let waits = "4 messages wait for group billing";
    server.fails(&["topic", "update", "Orders", "--queues", "2", "--read-queues", "2"], 1, &[waits, "--force"]);
    assert_eq!(queues(), (4, 4));
    let told = server.run(&["topic", "update", "Orders", "--queues", "2"]);
    assert!(told.err.contains(waits) && told.err.contains("metaq topic update Orders --queues 2"), "{told:?}");
    assert_eq!(queues(), (4, 2));
    server.done(&["tail", "Orders", "-g", "billing", "--max", "8"]);
    let told = server.run(&["topic", "update", "Orders", "--queues", "2"]);
    assert!(!told.err.contains("wait"), "{told:?}");
    assert_eq!(queues(), (2, 2));
}

#[test]
fn a_cluster_is_listed_and_checked() {
    let server = Server::start();
    let list = server.json(&["cluster", "list"]);
    assert_eq!(
        (&list[0]["broker"], &list[0]["role"], &list[0]["state"]),
        (&"broker-a".into(), &"master".into(), &"up".into())
    );
    assert!(server.done(&["cluster", "list"]).starts_with("CLUSTER         BROKER    ID  ROLE"));
    let stats = server.json(&["cluster", "stats"]);
    assert!(stats[0]["upSeconds"].as_i64().unwrap() < 600 && stats[0]["disk"].is_null(), "{stats}");
    assert!(stats[0]["diskShare"].as_str().unwrap().ends_with('%'));
    let health = server.run(&["cluster", "health", "--watch", "--exit-when-healthy"]);
    assert_eq!(health.code, Some(0), "{health:?}");
    // What the disk of this machine holds may be worth a warning, which makes the column wider.
    let is_fine = |line: &str| line.split_whitespace().take(2).eq(["ok", "nameserver"]);
    assert!(health.out.lines().any(is_fine) && health.err.contains("healthy"), "{health:?}");
    let lonely = format!("{};127.0.0.1:1", server.nameserver());
    let health = server.run(&["cluster", "health", "-n", &lonely]);
    assert_eq!(health.code, Some(1), "{health:?}");
    assert!(health.out.contains("FAILED") && health.err.contains("NOT HEALTHY"), "{health:?}");
    let watch = ["cluster", "health", "--watch", "--exit-when-healthy", "--timeout", "1", "-n", "127.0.0.1:1"];
    server.fails(&watch, 3, &["did not become healthy in time"]);
}

#[test]
fn groups_are_shown_moved_cloned_and_deleted() {
    let server = Server::start();
    server.done(&["topic", "create", "Orders", "--queues", "1"]);
    server.done(&["send", "Orders", "1", "2", "3", "4"]);
    server.done(&["tail", "Orders", "-g", "billing", "--from", "begin", "--max", "3"]);
    assert_eq!(server.json(&["group", "lag", "billing"])[0]["lag"], 1);
    let lag = server.run(&["group", "lag", "billing", "--topic", "Orders"]);
    assert!(
        lag.out.starts_with("TOPIC   BROKER    QUEUE  END  COMMITTED  LAG") && lag.err.contains("1 message waits"),
        "{lag:?}"
    );
    let list = server.json(&["group", "list"]);
    let billing = list.as_array().unwrap().iter().find(|group| group["group"] == "billing").unwrap();
    assert_eq!((&billing["lag"], &billing["members"], &billing["topics"][0]), (&1.into(), &0.into(), &"Orders".into()));
    assert!(server.done(&["group", "list"]).contains("billing"));
    assert_eq!(server.json(&["group", "show", "billing"])["retriesMax"], 16);
    assert!(server.done(&["group", "show", "billing"]).contains("nobody is connected"));
    server.fails(&["group", "show", "biling"], 1, &["group `biling` not found", "did you mean `billing`?"]);

    let dry = server.json(&["group", "reset", "billing", "Orders", "--to", "begin", "--dry-run"]);
    assert_eq!((&dry[0]["now"], &dry[0]["then"], &dry[0]["again"]), (&3.into(), &0.into(), &3.into()), "{dry}");
    assert_eq!(server.json(&["group", "lag", "billing"])[0]["lag"], 1, "a dry run changes nothing");
    for (to, lag) in [("begin", 4), ("end", 0), ("2", 2), ("1h", 4), ("now", 0)] {
        server.done(&["group", "reset", "billing", "Orders", "--to", to, "--yes"]);
        assert_eq!(server.json(&["group", "lag", "billing"])[0]["lag"], lag, "{to}");
    }
    server.done(&["group", "reset", "billing", "Orders", "--to", "1", "--queue", "broker-a/0", "--yes"]);
    server.fails(&["group", "reset", "billing", "Orders", "--to", "1", "--queue", "9", "--yes"], 1, &["no queue `9`"]);
    server.fails(
        &["group", "reset", "billing", "Orders", "--to", "begin"],
        2,
        &["have group billing consume 1 message of"],
    );
    server.done(&["group", "clone", "billing", "copy", "--yes"]);
    let found = server.json(&["offset", "search", "Orders", "--time", "1h"]);
    assert_eq!((&found[0]["offset"], &found[0]["since"]), (&0.into(), &4.into()));
    assert_eq!(server.json(&["offset", "search", "Orders", "--time", "now"])[0]["offset"], 4);
    server.done(&["group", "delete", "billing", "--keep-offsets", "--yes"]);
    let shown = server.json(&["group", "show", "billing"]);
    assert!(shown["retriesMax"].is_null() && shown["topics"] == serde_json::json!(["Orders"]), "offsets only: {shown}");
    server.done(&["group", "delete", "billing", "--yes"]);
    server.fails(&["group", "lag", "billing"], 1, &["group `billing` not found"]);
    server.fails(&["group", "delete", "TOOLS_CONSUMER", "--yes"], 1, &["is a group of RocketMQ itself"]);
}

#[test]
fn groups_are_made_and_changed() {
    let server = Server::start();
    let made = server.run(&["group", "create", "billing", "--retries", "3", "--broadcast", "false"]);
    assert!(made.code == Some(0) && made.err.contains("made group billing"), "{made:?}");
    server.fails(&["group", "create", "billing"], 1, &["is there already", "group update billing"]);
    let settings = || {
        let shown = server.json(&["group", "show", "billing"]);
        ["retriesMax", "broadcastEnabled", "consumeEnabled", "readSlowlyFrom"].map(|name| shown[name].to_string())
    };
    assert_eq!(settings(), ["3", "false", "true", "1"]);
    let changed = server.run(&["group", "update", "billing", "--consume", "false", "--read-slowly-from", "2"]);
    assert!(changed.err.contains("changed group billing on 1 broker"), "{changed:?}");
    assert_eq!(settings(), ["3", "false", "false", "2"], "what is not named stays");
    server.done(&["group", "update", "billing", "--consume", "true", "--broker", "broker-a"]);
    server.done(&["group", "create", "billing", "--replace", "--broker", "broker-a"]);
    assert_eq!(settings(), ["16", "true", "true", "1"]);
    server.fails(&["group", "update", "billing"], 2, &["nothing is to be changed", "--retries N"]);
    server.fails(&["group", "update", "biling", "--retries", "1"], 1, &["did you mean `billing`?"]);
    server.fails(&["group", "update", "billing", "--retries", "1", "--broker", "broker-b"], 1, &["is not registered"]);
    server.fails(&["group", "create", "TOOLS_CONSUMER"], 1, &["is a group of RocketMQ itself"]);

    let shown = server.json(&["cluster", "config", "broker-a", "--key", "BROKERNAME"]);
    assert_eq!((&shown[0]["key"], &shown[0]["value"]), (&"brokerName".into(), &"broker-a".into()));
}

/// A broker that is registered and gone must not hide what the others know.
#[tokio::test(flavor = "multi_thread")]
async fn topics_are_listed_although_a_broker_does_not_answer() {
    let own = Arc::new(OnceLock::<String>::new());
    let address = Arc::clone(&own);
    let with_topics = Scripted::start(move |command| {
        let body = match command.code {
            request::GET_BROKER_CLUSTER_INFO => {
                let broker = |name: &str, address: &str| {
                    let broker_addrs = [(0, address.to_owned())].into();
                    (name.to_owned(), BrokerData { broker_name: name.into(), broker_addrs, ..BrokerData::default() })
                };
                let brokers = [broker("broker-a", address.get()?), broker("broker-b", "127.0.0.1:1")];
                to_vec(&ClusterInfo { broker_addr_table: brokers.into(), ..ClusterInfo::default() })
            }
            request::GET_ALL_TOPIC_CONFIG => {
                let topics = [("Orders".to_owned(), TopicConfig::new("Orders", 4, 6))].into();
                to_vec(&TopicConfigSerializeWrapper { topic_config_table: topics, ..Default::default() })
            }
            _ => return None,
        };
        Some(Response::success().with_body(body))
    });
    let with_topics = with_topics.await;
    own.set(with_topics.address.clone()).unwrap();
    let list = run(&["topic", "list", "-n", &with_topics.address]);
    assert_eq!(list.code, Some(0), "{list:?}");
    assert!(list.says("Orders  normal        1       4  rw"), "{list:?}");
    assert!(list.says("warning: broker-b: cannot connect to 127.0.0.1:1"), "{list:?}");
    assert!(list.says("note: topics that only broker-b has are missing here"), "{list:?}");
}

#[test]
fn hints_name_the_cluster_if_they_have_to() {
    let server = Server::start();
    let ran = metaq(&["topic", "list", "-n", server.nameserver()]).output().unwrap();
    let hint = format!("`metaq topic create TOPIC -n '{}'`", server.nameserver());
    assert!(String::from_utf8(ran.stderr).unwrap().contains(&hint));
}
