//! Messages with a time of delivery of their own.

use metaq::proto::remoting::requests::RecallMessage;
use metaq::proto::remoting::{request, Command};

use super::support::{bodies, send_command, until, Broker};

#[tokio::test]
async fn a_message_comes_in_the_second_it_asks_for_and_never_early() {
    let broker = Broker::start("").await;
    let client = broker.client().await;
    let asked = broker.env.clock.now().plus(1_300);
    client.send("Orders", "at", &[("TIMER_DELIVER_MS", &asked.0.to_string()), ("TAGS", "T")]).await;
    client.send("Orders", "past", &[("TIMER_DELIVER_MS", "1000")]).await;
    let mut came = client.wait_messages("cg", "Orders", 0).await;
    assert_eq!(bodies(&came), ["past"], "what is over comes at once");
    came = client.wait_messages("cg", "Orders", 1).await;
    assert_eq!(bodies(&came), ["at"]);
    let late = came[0].stored.0 - asked.0;
    assert!((0..1_500).contains(&late), "{late} ms late");
    for (name, value) in [("TAGS", "T"), ("REAL_TOPIC", "Orders"), ("TIMER_QUEUE_OFFSET", "0")] {
        assert_eq!(came[0].property(name), Some(value));
    }
    let dequeued: i64 = came[0].property("TIMER_DEQUEUE_MS").and_then(|text| text.parse().ok()).unwrap();
    assert!(dequeued >= asked.0);
}

#[tokio::test]
async fn relative_times_count_from_the_arrival() {
    let broker = Broker::start("").await;
    let client = broker.client().await;
    let sent = broker.env.clock.now();
    client.send("Orders", "sec", &[("TIMER_DELAY_SEC", "2")]).await;
    client.send("Orders", "ms", &[("TIMER_DELAY_MS", "500")]).await;
    let mut came = client.wait_messages("cg", "Orders", 0).await;
    came.extend(client.wait_messages("cg", "Orders", 1).await);
    assert_eq!(bodies(&came), ["ms", "sec"]);
    assert!(came[0].stored.since(sent) >= 500 && came[1].stored.since(sent) >= 2_000, "early");
}

/// DLY-11: a restart neither hurries nor forgets nor repeats what waits.
#[tokio::test]
async fn dly_11_a_restart_keeps_what_has_a_time_of_its_own() {
    let broker = Broker::start("").await;
    let client = broker.client().await;
    client.send("Orders", "done", &[("TIMER_DELAY_MS", "1")]).await;
    client.wait_messages("cg", "Orders", 0).await;
    let sent = broker.env.clock.now();
    client.send("Orders", "later", &[("TIMER_DELAY_MS", "1500")]).await;
    let broker = broker.restarted().await;
    let client = broker.client().await;
    let came = client.wait_messages("cg", "Orders", 1).await;
    assert_eq!(bodies(&came), ["later"], "and nothing before it again");
    assert!(came[0].stored.since(sent) >= 1_500, "early");
    let pending = || broker.handle().shared().timer.pending();
    until(&broker.env, async || (pending() == 0).then_some(())).await;
}

/// The timer log is derived: without it everything is found in the commit log.
#[tokio::test]
async fn a_lost_timer_log_is_built_again_and_nothing_comes_twice() {
    let broker = Broker::start("").await;
    let client = broker.client().await;
    client.send("Orders", "done", &[("TIMER_DELAY_MS", "1")]).await;
    client.wait_messages("cg", "Orders", 0).await;
    client.send("Orders", "later", &[("TIMER_DELAY_MS", "1500")]).await;
    let broker =
        broker.restarted_after(async |_, directory| std::fs::remove_dir_all(directory.join("timer")).unwrap()).await;
    let client = broker.client().await;
    assert_eq!(bodies(&client.wait_messages("cg", "Orders", 1).await), ["later"]);
}

/// DLY-8: a message that is taken back does not come, wherever in its second what takes it back stands.
#[tokio::test]
async fn dly_8_a_message_that_is_taken_back_does_not_come() {
    let broker = Broker::start("recallMessageEnable=true\n").await;
    let client = broker.client().await;
    let asked = broker.env.clock.now().plus(2_000).0.to_string();
    let timed = [("TIMER_DELIVER_MS", &*asked)];
    let mut handles = Vec::new();
    for body in ["one", "two", "three"] {
        let answer = client.get(send_command("Orders", body, &timed)).await;
        handles.push(answer.ext("recallHandle").unwrap().to_owned());
    }
    let answer = client.get(recall("Orders", &handles[1])).await;
    assert_eq!(answer.ext("MSG_REGION"), Some("DefaultRegion"));
    assert!(answer.ext("msgId").is_some_and(|id| !id.is_empty()));
    let mut came = client.wait_messages("cg", "Orders", 0).await;
    if came.len() < 2 {
        came.extend(client.wait_messages("cg", "Orders", came.len() as i64).await);
    }
    assert_eq!(bodies(&came), ["one", "three"]);
    let late = client.ask(recall("Orders", &handles[0])).await;
    assert_eq!((late.code, late.remark.as_deref()), (604, Some("recall failed, timestamp invalid")));
}

#[tokio::test]
async fn what_cannot_be_taken_back_is_refused_with_rocketmqs_words() {
    let broker = Broker::start("").await;
    let client = broker.client().await;
    let answer = client.get(send_command("Orders", "a", &[("TIMER_DELAY_SEC", "60")])).await;
    let handle = answer.ext("recallHandle").unwrap().to_owned();
    let refused = client.ask(recall("Orders", &handle)).await;
    assert_eq!((refused.code, refused.remark.as_deref()), (16, Some("recall failed, operation is forbidden")));
    assert_eq!(refused.ext("MSG_REGION"), Some("DefaultRegion"));

    client.get(Command::request(request::UPDATE_BROKER_CONFIG).with_body("recallMessageEnable=true")).await;
    client.send("Others", "a", &[]).await;
    for (topic, handle, code, remark) in [
        ("Nowhere", &*handle, 17, "recall failed, the topic[Nowhere] not exist"),
        ("Orders", "nonsense", 604, "recall handle is invalid"),
        ("Others", &*handle, 604, "recall failed, topic not match"),
    ] {
        let refused = client.ask(recall(topic, handle)).await;
        assert_eq!((refused.code, refused.remark.as_deref()), (code, Some(remark)), "{topic} {handle}");
    }
    client.get(recall("Orders", &handle)).await;
}

fn recall(topic: &str, handle: &str) -> Command {
    Command::request(request::RECALL_MESSAGE).with_ext(&RecallMessage {
        producer_group: Some("pg".into()),
        topic: topic.into(),
        recall_handle: handle.into(),
    })
}
