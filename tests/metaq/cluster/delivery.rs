//! Sending, pulling, waiting, and delays.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join;
use metaq::actors::broker::saved::Saved;
use metaq::proto::body::DelayOffsetSerializeWrapper;
use metaq::proto::remoting::{request, Command};

use super::support::{bodies, Broker};

#[tokio::test]
async fn a_message_is_sent_and_pulled_and_a_waiting_pull_is_woken() {
    let broker = Broker::start("").await;
    let (producer, consumer) = (broker.client().await, broker.client().await);
    assert_eq!(producer.send("Orders", "a", &[("TAGS", "T")]).await.queue_offset, 0);
    let first = consumer.wait_messages("cg", "Orders", 0).await;
    assert_eq!((bodies(&first), first[0].property("TAGS")), (vec!["a"], Some("T")));

    let (woken, sent) = join(consumer.wait_messages("cg", "Orders", 1), producer.send("Orders", "b", &[])).await;
    assert_eq!((bodies(&woken), sent.queue_offset), (vec!["b"], 1));
}

#[tokio::test]
async fn an_answer_holds_the_portion_of_the_settings() {
    let broker = Broker::start("maxTransferCountOnMessageInMemory=3\n").await;
    let client = broker.client().await;
    for body in ["a", "b", "c", "d"] {
        client.send("Orders", body, &[]).await;
    }
    assert_eq!(bodies(&client.wait_messages("cg", "Orders", 0).await), ["a", "b", "c"]);
    let change = "maxTransferCountOnMessageInMemory=32\nmaxTransferBytesOnMessageInMemory=300";
    client.get(Command::request(request::UPDATE_BROKER_CONFIG).with_body(change)).await;
    assert_eq!(bodies(&client.wait_messages("cg", "Orders", 0).await), ["a"], "two records have more bytes");
}

#[tokio::test]
async fn a_delayed_message_comes_in_time_and_never_early() {
    let broker = Broker::start("messageDelayLevel=1s 2s\n").await;
    let client = broker.client().await;
    client.send("Orders", "two", &[("DELAY", "2")]).await;
    client.send("Orders", "one", &[("DELAY", "1"), ("TAGS", "T")]).await;
    let sent = broker.env.clock.now();
    let mut came = client.wait_messages("cg", "Orders", 0).await;
    assert!(broker.env.clock.now().since(sent) < 1_900, "late");
    came.extend(client.wait_messages("cg", "Orders", 1).await);
    assert_eq!(bodies(&came), ["one", "two"]);
    assert_eq!((came[0].property("REAL_TOPIC"), came[0].property("TAGS")), (Some("Orders"), Some("T")));
    for (message, delay_ms) in came.iter().zip([1_000, 2_000]) {
        // `sent` was taken after both were stored, at most a few milliseconds.
        assert!(message.stored.since(sent) + 50 >= delay_ms, "{} came early", message.body);
    }
}

/// DLY-2: progress saved beyond the queue's end is corrected, and what is delayed next comes.
#[tokio::test]
async fn dly_2_progress_beyond_the_queue_is_corrected() {
    let broker = Broker::start("messageDelayLevel=1s\n").await;
    let client = broker.client().await;
    client.send("Orders", "first", &[("DELAY", "1")]).await;
    client.wait_messages("cg", "Orders", 0).await;
    let broker = broker
        .restarted_after(async |env, directory| {
            let (mut file, mut progress) = Saved::open::<DelayOffsetSerializeWrapper>(env, directory).unwrap();
            assert_eq!(progress.offset_table, BTreeMap::from([(1, 1)]), "it was saved at the stop");
            progress.offset_table.insert(1, 77);
            file.save(&progress).await.unwrap();
        })
        .await;
    let client = broker.client().await;
    client.send("Orders", "second", &[("DELAY", "1")]).await;
    assert_eq!(bodies(&client.wait_messages("cg", "Orders", 1).await), ["second"]);
    client.wait_delivered(1, 2).await;
}

/// DLY-11: a restart neither hurries nor forgets nor repeats what waits.
#[tokio::test]
async fn dly_11_a_restart_keeps_what_is_delayed() {
    let broker = Broker::start("messageDelayLevel=1s 2s\n").await;
    let client = broker.client().await;
    client.send("Orders", "done", &[("DELAY", "1")]).await;
    client.wait_messages("cg", "Orders", 0).await;
    client.send("Orders", "later", &[("DELAY", "2")]).await;
    let sent = broker.env.clock.now();

    let broker = broker.restarted().await;
    let client = broker.client().await;
    let came = client.wait_messages("cg", "Orders", 1).await;
    assert_eq!(bodies(&came), ["later"]);
    assert!(came[0].stored.since(sent) + 50 >= 2_000, "it came early");
    let end = client.pull("cg", "Orders", 2, Duration::ZERO).await;
    assert_eq!(end.code, 19, "nothing was repeated");
}

/// Levels that are added while the broker runs count from its next start on: nobody would deliver what waits there.
#[tokio::test]
async fn levels_added_by_request_keep_no_message_waiting() {
    let broker = Broker::start("messageDelayLevel=1s\n").await;
    let client = broker.client().await;
    client.get(Command::request(request::UPDATE_BROKER_CONFIG).with_body("messageDelayLevel=1s 1h")).await;
    client.send("Orders", "a", &[("DELAY", "2")]).await;
    assert_eq!(bodies(&client.wait_messages("cg", "Orders", 0).await), ["a"]);
    client.wait_delivered(1, 1).await;
}
