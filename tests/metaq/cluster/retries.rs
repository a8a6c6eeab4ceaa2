//! Messages handed back.

use metaq::proto::remoting::Language;

use super::support::{bodies, send_command, Broker, Message};

/// RTY-1, RTY-6, DLY-9: a message that always fails is delivered again and again, and is in the dead letters right after
/// its last failure.
#[tokio::test]
async fn rty_6_a_hopeless_message_ends_in_the_dead_letters() {
    let broker = Broker::start("messageDelayLevel=1s 1s 1s\n").await;
    let client = broker.client().await;
    client.join("c1", "cg", "Orders", Language::Java).await;
    client.send("Orders", "bad", &[("TAGS", "T"), ("KEYS", "k"), ("UNIQ_KEY", "U1")]).await;
    let mut message = client.wait_messages("cg", "Orders", 0).await.remove(0);
    let origin = message.clone();
    for times in 1..=2 {
        assert_eq!(client.send_back("cg", &message, 1, 2).await.code, 0);
        message = client.wait_messages("cg", "%RETRY%cg", times - 1).await.remove(0);
        assert_eq!((message.body.as_str(), message.reconsume_times), ("bad", times as i32));
    }
    assert_eq!(client.send_back("cg", &message, 0, 2).await.code, 0);
    let dead = client.wait_messages("other", "%DLQ%cg", 0).await;
    assert_eq!((bodies(&dead), dead[0].reconsume_times), (vec!["bad"], 3));
    for (name, value) in [("TAGS", "T"), ("KEYS", "k"), ("UNIQ_KEY", "U1"), ("RETRY_TOPIC", "Orders")] {
        assert_eq!(dead[0].property(name), Some(value));
    }
    let id = dead[0].property("ORIGIN_MESSAGE_ID").unwrap();
    assert_eq!(i64::from_str_radix(&id[16..], 16), Ok(origin.position));
}

#[tokio::test]
async fn what_cannot_be_taken_back_is_refused_and_the_broker_goes_on() {
    let broker = Broker::start("autoCreateSubscriptionGroup=false\n").await;
    let client = broker.client().await;
    client.send("Orders", "a", &[]).await;
    let message = client.wait_messages("TOOLS_CONSUMER", "Orders", 0).await.remove(0);
    assert_eq!(client.send_back("unknown", &message, 0, 16).await.code, 26);
    for position in [-1, 1, i64::MAX, message.position + 1] {
        let nowhere = Message { position, ..message.clone() };
        let refused = client.send_back("TOOLS_CONSUMER", &nowhere, 0, 16).await;
        let remark = format!("look message by offset failed, {position}");
        assert_eq!((refused.code, refused.remark), (1, Some(remark)));
    }
    assert_eq!(client.send_back("TOOLS_CONSUMER", &message, 0, 16).await.code, 0);
}

/// RTY-2, RTY-3: what clients send to a retry topic themselves: orderly consumers their hopeless messages, which belong
/// to the dead letters at once, and producers whatever they like.
#[tokio::test]
async fn rty_2_sends_to_a_retry_topic() {
    let broker = Broker::start("messageDelayLevel=1s\n").await;
    let client = broker.client().await;
    let retry = |body: &str, times: &str, max: &str| {
        let mut command = send_command("%RETRY%cg", body, &[("DELAY", "1"), ("RETRY_TOPIC", "Orders")]);
        command.ext.set("j", times);
        command.ext.set("l", max);
        command
    };
    client.get(retry("again", "1", "1")).await;
    client.get(retry("dead", "2", "1")).await;
    client.get(send_command("%RETRY%cg", "plain", &[])).await;
    assert_eq!(bodies(&client.wait_messages("cg", "%DLQ%cg", 0).await), ["dead"]);
    assert_eq!(bodies(&client.wait_messages("cg", "%RETRY%cg", 0).await), ["plain"]);
    assert_eq!(bodies(&client.wait_messages("cg", "%RETRY%cg", 1).await), ["again"], "after its second");
}

/// A group that hands back is made with its retry topic, and both are there after a restart.
#[tokio::test]
async fn a_restart_keeps_messages_groups_and_topics() {
    for flush in ["ASYNC_FLUSH", "SYNC_FLUSH"] {
        a_restart_keeps_everything(&format!("messageDelayLevel=1s\nflushDiskType={flush}\n")).await;
    }
}

async fn a_restart_keeps_everything(settings: &str) {
    let broker = Broker::start(settings).await;
    let client = broker.client().await;
    let sent = client.send("Orders", "a", &[]).await;
    let message = client.wait_messages("cg", "Orders", 0).await.remove(0);
    assert_eq!(client.send_back("fresh", &message, 1, 16).await.code, 0);

    let broker = broker.restarted().await;
    let client = broker.client().await;
    let shared = broker.handle().shared();
    assert!(shared.group_directory.get("fresh").is_some());
    assert!(shared.topic_directory.get("%RETRY%fresh").is_some());
    assert_eq!(bodies(&client.wait_messages("cg", "Orders", sent.queue_offset).await), ["a"]);
    assert_eq!(bodies(&client.wait_messages("fresh", "%RETRY%fresh", 0).await), ["a"]);
}
