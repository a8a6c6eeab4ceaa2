//! What settings do, and what becomes of those that a request changes.

use std::time::Duration;

use futures::future::join_all;
use metaq::actors::broker::BrokerHandle;
use metaq::config::broker::{BrokerConfig, BrokerRole};
use metaq::env::real;
use metaq::proto::remoting::{request, Command, Language};
use tempfile::TempDir;

use super::support::{send_command, until, Broker, Client};

async fn update(client: &Client, text: &str) -> Command {
    client.ask(Command::request(request::UPDATE_BROKER_CONFIG).with_body(text)).await
}

async fn shown(client: &Client) -> String {
    let answer = client.get(Command::request(request::GET_BROKER_CONFIG)).await;
    String::from_utf8(answer.body).unwrap()
}

/// What counts at the next start is shown, and does not count before: a broker that registers under another name than
/// its topics and locks have is two brokers.
#[tokio::test]
async fn a_setting_for_the_next_start_is_kept_and_does_not_count_yet() {
    let broker = Broker::start("").await;
    let client = broker.client().await;
    let answer = update(&client, "brokerName=other\nmaxMessageSize=100\nnoSuchKey=1\nlistenProt=3\n").await;
    let remark = "from the next start on: brokerName; ignored: unknown setting `noSuchKey`; ignored: unknown setting \
                  `listenProt`, did you mean `listenPort`?";
    assert_eq!((answer.code, answer.remark.as_deref()), (0, Some(remark)));
    let shown = shown(&client).await;
    assert!(shown.contains("brokerName=other\n") && shown.contains("maxMessageSize=100\n"), "{shown}");
    let settings = broker.handle().shared().settings();
    assert_eq!((settings.config.broker_name.as_str(), settings.config.max_message_size), ("broker-a", 100));
    assert_eq!(client.ask(send_command("Orders", &"x".repeat(101), &[])).await.code, 13);

    let file = settings.config.settings_path();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "brokerName=other\nmaxMessageSize=100\n");
    for (text, code) in [("traceOn=false\nbrokerConfigPath=/x", 16), ("traceOn=false\nmaxMessageSize=many", 1)] {
        assert_eq!(update(&client, text).await.code, code);
    }
    let many = (1..=20).map(|n| format!("fileReservedTime={n}\nsyncFlushTimeout={n}\n"));
    let answers = join_all(many.map(|text| async { update(&client, &{ text }).await.code })).await;
    assert_eq!(answers, [0; 20]);
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text, "brokerName=other\nmaxMessageSize=100\nfileReservedTime=20\nsyncFlushTimeout=20\n");
}

/// Settings that cannot be saved do not count either: after a restart they would be gone.
#[tokio::test]
async fn a_setting_that_cannot_be_saved_is_refused() {
    let directory = TempDir::new().unwrap();
    let blocked = directory.path().join("a-file").join("broker.conf");
    std::fs::write(directory.path().join("a-file"), "").unwrap();
    let broker = Broker::start(&format!("brokerConfigPath={}\n", blocked.display())).await;
    let client = broker.client().await;
    let refused = update(&client, "maxMessageSize=100").await;
    let remark = refused.remark.unwrap();
    assert!(refused.code == 1 && remark.starts_with("nothing was changed: cannot save "), "{remark}");
    assert_eq!(client.ask(send_command("Orders", &"x".repeat(101), &[])).await.code, 0);
}

/// Deployments keep the file elsewhere and link to it, and let nobody else read it.
#[tokio::test]
async fn a_settings_file_behind_a_link_keeps_its_place_and_its_permissions() {
    use std::os::unix::fs::{symlink, PermissionsExt};
    let directory = TempDir::new().unwrap();
    let (link, real) = (directory.path().join("broker.conf"), directory.path().join("kept/real.conf"));
    std::fs::create_dir(directory.path().join("kept")).unwrap();
    std::fs::write(&real, "# ours\nmaxMessageSize=7\n").unwrap();
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
    symlink("kept/real.conf", &link).unwrap();
    let broker = Broker::start(&format!("brokerConfigPath={}\n", link.display())).await;
    assert_eq!(update(&broker.client().await, "maxMessageSize=100").await.code, 0);
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(std::fs::read_to_string(&real).unwrap(), "# ours\nmaxMessageSize=100\n");
    assert_eq!(std::fs::metadata(&real).unwrap().permissions().mode() & 0o7777, 0o640);
    assert_eq!(std::fs::read_dir(directory.path().join("kept")).unwrap().count(), 1, "nothing is left beside it");

    // A link to a file that is not there yet makes that file.
    let (link, real) = (directory.path().join("new.conf"), directory.path().join("kept/new.conf"));
    symlink(&real, &link).unwrap();
    let broker = Broker::start(&format!("brokerConfigPath={}\n", link.display())).await;
    assert_eq!(update(&broker.client().await, "maxMessageSize=100").await.code, 0);
    assert_eq!(std::fs::read_to_string(&real).unwrap(), "maxMessageSize=100\n");
}

#[tokio::test]
async fn a_slave_without_an_id_does_not_start_and_a_master_has_id_0() {
    let any_port = "127.0.0.1:0".parse().unwrap();
    let directory = TempDir::new().unwrap();
    let store_path_root_dir = directory.path().display().to_string();
    let config = BrokerConfig { store_path_root_dir, broker_role: BrokerRole::Slave, ..BrokerConfig::default() };
    let Err(refused) = BrokerHandle::start(&real::env(), config, any_port).await else { panic!("a slave started") };
    assert!(refused.to_string().contains("a slave needs a brokerId of its own"), "{refused}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "and touched nothing");

    let master = Broker::start("brokerRole=SYNC_MASTER\nbrokerId=3\n").await;
    assert_eq!(master.handle().shared().settings().config.broker_id, 0);
    let refused = update(&master.client().await, "brokerRole=SLAVE").await;
    assert_eq!(refused.code, 1, "it would not start again: {:?}", refused.remark);
}

#[tokio::test]
async fn replies_are_pushed_without_being_kept_if_the_settings_say_so() {
    let broker = Broker::start("storeReplyMessageEnable=false\n").await;
    let (requester, replier) = (broker.client().await, broker.client().await);
    requester.produce_as("asker", "pg").await;
    let topic = "DefaultCluster_REPLY_TOPIC";
    let mut command = send_command(topic, "yes", &[("CORRELATION_ID", "c-1"), ("REPLY_TO_CLIENT", "asker")]);
    command.code = request::SEND_REPLY_MESSAGE_V2;
    let answer = replier.get(command.clone()).await;
    assert_eq!((answer.ext("msgId"), answer.ext("queueOffset")), (Some("0"), Some("0")));
    assert_eq!(requester.wait_asked(request::PUSH_REPLY_MESSAGE_TO_CLIENT).await.body, b"yes");
    assert_eq!(replier.pull("cg", topic, 0, Duration::ZERO).await.code, 19, "nothing was stored");

    assert_eq!(update(&replier, "storeReplyMessageEnable=true").await.code, 0);
    assert_eq!(replier.get(command).await.ext("msgId").map(str::len), Some(32));
}

/// Told at once by default; not at once if the broker or the group says so. (That they are told later: `Notices`.)
#[tokio::test]
async fn members_are_told_of_changes_as_the_settings_say() {
    let code = request::NOTIFY_CONSUMER_IDS_CHANGED;
    for (settings, group, told) in [
        ("", r#"{"groupName":"cg"}"#, true),
        ("realTimeNotifyConsumerChange=false\n", r#"{"groupName":"cg"}"#, false),
        ("", r#"{"groupName":"cg","notifyConsumerIdsChangedEnable":false}"#, false),
    ] {
        let broker = Broker::start(settings).await;
        let (a, b) = (broker.client().await, broker.client().await);
        a.get(Command::request(request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP).with_body(group)).await;
        a.join("a", "cg", "Orders", Language::Java).await;
        b.join("b", "cg", "Orders", Language::Java).await;
        b.handle.close();
        let shared = broker.handle().shared();
        until(&a.env, async || (shared.connections().len() == 1).then_some(())).await;
        // The keeper tells members in order, so what it was told before this is done.
        a.get(Command::request(request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP).with_body(r#"{"groupName":"x"}"#)).await;
        if told {
            until(&a.env, async || (a.asked(code).len() == 3).then_some(())).await;
        } else {
            assert_eq!(a.asked(code), [], "{settings} {group}");
        }
    }
}

/// A group whose members shall not be told any more is heeded at once, not with their next heartbeats.
#[tokio::test]
async fn a_group_that_is_not_to_be_told_any_more_is_not() {
    let broker = Broker::start("").await;
    let (a, b) = (broker.client().await, broker.client().await);
    a.join("a", "cg", "Orders", Language::Java).await;
    a.wait_asked(request::NOTIFY_CONSUMER_IDS_CHANGED).await;
    let quiet = r#"{"groupName":"cg","notifyConsumerIdsChangedEnable":false}"#;
    a.get(Command::request(request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP).with_body(quiet)).await;
    b.join("b", "cg", "Orders", Language::Java).await;
    b.get(Command::request(request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP).with_body(r#"{"groupName":"x"}"#)).await;
    a.get(Command::request(request::GET_BROKER_RUNTIME_INFO)).await;
    assert_eq!(a.asked(request::NOTIFY_CONSUMER_IDS_CHANGED).len(), 1);
}

/// Requests other than sends take their bytes from a budget too: whoever is above it is told so, and sends go on.
#[tokio::test]
async fn requests_on_their_way_are_bounded() {
    let broker = Broker::start("inFlightRequestBytesPerBroker=100000\n").await;
    let (slow, tool, client) = (broker.client().await, broker.client().await, broker.client().await);
    slow.join("slow", "cg", "Orders", Language::Java).await;
    slow.never_answers(request::GET_CONSUMER_RUNNING_INFO);
    let mut ask = Command::request(request::GET_CONSUMER_RUNNING_INFO).with_body(vec![0; 60_000]);
    for (name, value) in [("consumerGroup", "cg"), ("clientId", "slow")] {
        ask.ext.push(name, value);
    }
    let clock = &*tool.env.clock;
    let waiting = tool.handle.call(clock, ask.clone(), Duration::from_secs(20));
    let meanwhile = async {
        slow.wait_asked(request::GET_CONSUMER_RUNNING_INFO).await;
        let shared = broker.handle().shared();
        assert!(shared.other_flow.used() > 60_000);
        let refused = client.ask(ask.clone()).await;
        assert_eq!((refused.code, refused.remark.unwrap().starts_with("[OVERLOAD]system busy")), (2, true));
        assert_eq!(client.send("Orders", "a", &[]).await.queue_offset, 0, "sends have a budget of their own");
        client.get(Command::request(request::GET_BROKER_CONFIG)).await;
        slow.handle.close();
    };
    let (gone, ()) = futures::future::join(waiting, meanwhile).await;
    assert_eq!(gone.unwrap().code, 1, "its consumer left");
    assert_eq!(broker.handle().shared().other_flow.used(), 0);
}
