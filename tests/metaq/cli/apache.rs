//! `metaq mqadmin`, completions, manual pages.

use tempfile::TempDir;

use super::process::run;
use super::text;
use super::tool::Server;

#[test]
fn mqadmins_names_and_options_work() {
    let server = Server::start();
    let mqadmin = |args: &[&str]| server.run(&[&["mqadmin"], args].concat());
    let done = |args: &[&str]| {
        let ran = mqadmin(args);
        assert_eq!(ran.code, Some(0), "{args:?} {ran:?}");
        assert!(ran.err.starts_with("hint: here this is `metaq "), "{ran:?}");
        ran.out
    };
    done(&["updateTopic", "-c", "DefaultCluster", "-t", "Orders", "-r", "2", "-w", "2"]);
    done(&["updateTopic", "-c", "DefaultCluster", "-t", "Orders", "-r", "4", "-w", "2", "-p", "6"]);
    done(&["updateTopicPerm", "-t", "Orders", "-p", "6", "-b", "broker-a"]);
    let brokers = server.json(&["cluster", "list"]);
    let address = brokers[0]["address"].as_str().unwrap();
    done(&["updateTopicPerm", "-t", "Orders", "-p", "4", "-b", address]);
    assert!(done(&["topicRoute", "-t", "Orders"]).contains("broker-a     4      2  r\n"));
    done(&["updateTopic", "-t", "Orders", "-r", "4", "-w", "2", "-b", address]);
    assert!(done(&["topicList"]).contains("Orders"));
    done(&["updateTopic", "-t", "Once", "-r", "1", "-w", "1", "-a", "+deduplication.window=600000"]);
    done(&["updateTopic", "-t", "Ordered", "-r", "2", "-w", "2", "-o", "true"]);
    assert_eq!(done(&["updateOrderConf", "-t", "Ordered", "-m", "get"]), "BROKER    QUEUES\nbroker-a       2\n");
    done(&["updateOrderConf", "-t", "Ordered", "-m", "put", "-v", "broker-a:4;broker-b:4"]);
    assert_eq!(server.json(&["topic", "order", "Ordered"])[1], serde_json::json!({"broker": "broker-b", "queues": 4}));
    done(&["updateOrderConf", "-t", "Ordered", "-m", "delete"]);
    server.fails(&["topic", "order", "Ordered"], 1, &["no queues of topic `Ordered` are fixed"]);
    assert!(done(&["topicList", "-n", server.nameserver(), "-c"]).contains("Orders"));
    for body in ["one", "-two"] {
        done(&["sendMessage", "-t", "Orders", "-p", body, "-k", "k1", "-c", "tagA"]);
    }
    assert!(done(&["topicStatus", "-t", "Orders"]).contains("messages  2"));
    assert!(done(&["topicRoute", "-t", "Orders"]).contains("broker-a"));
    assert!(done(&["printMsg", "-t", "Orders", "-s", "tagA"]).contains("-two"));
    server.until(&["message", "find", "Orders", "-k", "k1"], |ran| ran.out.contains("one") && ran.out.contains("-two"));
    assert!(done(&["queryMsgByKey", "-t", "Orders", "-k", "k1"]).contains("one"));
    let found = server.json(&["message", "find", "Orders", "-k", "k1"]);
    let [id, offset_id] = ["id", "offsetId"].map(|key| found[0][key].as_str().unwrap());
    assert!(done(&["queryMsgById", "-t", "Orders", "-i", offset_id]).contains("one"));
    assert!(done(&["queryMsgByUniqueKey", "-t", "Orders", "-i", id]).contains("one"));
    let queue = found[0]["queue"].to_string();
    assert!(done(&["queryMsgByOffset", "-t", "Orders", "-b", "broker-a", "-i", &queue, "-o", "0"]).contains("one"));
    done(&["consumeMessage", "-t", "Orders", "-g", "billing", "-c", "2"]);
    assert!(done(&["consumerProgress"]).contains("billing"));
    assert!(done(&["consumerProgress", "-g", "billing", "-t", "Orders"]).contains("COMMITTED"));
    assert!(done(&["consumerConnection", "-g", "billing"]).contains("nobody is connected"));
    done(&["resetOffsetByTime", "-g", "billing", "-t", "Orders", "-s", "0"]);
    done(&["resetOffsetByTime", "-g", "billing", "-t", "Orders", "-s", "-1", "-f", "true"]);
    done(&["skipAccumulatedMessage", "-g", "billing", "-t", "Orders"]);
    done(&["cloneGroupOffset", "-s", "billing", "-d", "copy", "-t", "Orders"]);
    assert!(done(&["clusterList"]).contains("broker-a") && done(&["clusterList", "-m"]).contains("OUT TODAY"));
    assert!(done(&["brokerStatus", "-c", "DefaultCluster"]).contains("broker-a"));
    assert!(done(&["statsAll", "-a"]).contains("Orders"));
    assert!(done(&["getBrokerConfig", "-b", address]).contains("brokerName"));
    assert!(done(&["producerConnection", "-g", "pg", "-t", "Orders"]).contains("nobody is connected"));
    done(&["updateSubGroup", "-c", "DefaultCluster", "-g", "copy", "-s", "false", "-r", "3", "-q", "2"]);
    let copy = server.json(&["group", "show", "copy"]);
    assert_eq!(
        (&copy["consumeEnabled"], &copy["retriesMax"], &copy["retryQueues"]),
        (&false.into(), &3.into(), &2.into())
    );
    assert_eq!(copy["broadcastEnabled"], false, "as there: what is not named is not kept");
    done(&["deleteSubGroup", "-g", "billing", "-c", "DefaultCluster", "-r", "true"]);
    done(&["deleteTopic", "-t", "Orders", "-c", "DefaultCluster"]);
    let gone = mqadmin(&["topicRoute", "-t", "Orders"]);
    assert_eq!(gone.code, Some(1), "{gone:?}");
    assert!(gone.err.contains("topic `Orders` not found"), "{gone:?}");
    let unknown = mqadmin(&["electMaster"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
}

#[test]
fn shells_and_manuals_are_served() {
    for (shell, what) in [("bash", "complete -F _metaq"), ("zsh", "#compdef metaq"), ("fish", "complete -c metaq")] {
        let script = run(&["completions", shell]);
        assert_eq!(script.code, Some(0));
        assert!(script.says(what) && script.says("redrive"), "{shell}");
    }
    let directory = TempDir::new().unwrap();
    assert!(run(&["man"]).says(".TH metaq 1"));
    assert_eq!(run(&["man", "--out", text(&directory.path().join("man1"))]).code, Some(0));
    let page = std::fs::read_to_string(directory.path().join("man1/metaq-dlq-redrive.1")).unwrap();
    assert!(page.contains("consume its dead letters again"), "{page}");
}
