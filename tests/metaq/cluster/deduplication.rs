//! A send that is tried again is answered with its first result, where a topic wants that.

use std::time::Duration;

use metaq::proto::body::TopicConfig;
use metaq::proto::remoting::requests::UpdateAndCreateTopic;
use metaq::proto::remoting::{request, response, Command};

use super::support::{messages, pull_command, send_command, Broker, Client};

async fn make_topic(client: &Client, topic: &str, attributes: &str) -> Command {
    let config = TopicConfig::new(topic, 4, 6);
    let header = UpdateAndCreateTopic {
        topic: topic.into(),
        default_topic: Some("TBW102".into()),
        read_queue_nums: config.read_queue_nums,
        write_queue_nums: config.write_queue_nums,
        perm: config.perm,
        topic_filter_type: Some("SINGLE_TAG".into()),
        topic_sys_flag: 0,
        order: false,
        attributes: Some(attributes.to_owned().into()),
        force: false,
    };
    client.ask(Command::request(request::UPDATE_AND_CREATE_TOPIC).with_ext(&header)).await
}

/// A send to a queue, and where its answer says that the message is.
async fn send(client: &Client, topic: &str, queue: i32, pairs: &[(&str, &str)]) -> [Option<String>; 3] {
    let mut command = send_command(topic, "body", pairs);
    command.ext.set("e", &queue.to_string());
    let answer = client.get(command).await;
    ["msgId", "queueId", "queueOffset"].map(|name| answer.ext(name).map(str::to_owned))
}

async fn stored(client: &Client, topic: &str) -> usize {
    let mut count = 0;
    for queue in 0..4 {
        let mut pull = pull_command("cg", topic, 0, Duration::ZERO);
        pull.ext.set("queueId", &queue.to_string());
        count += messages(&client.ask(pull).await.body).len();
    }
    count
}

#[tokio::test]
async fn a_repeated_send_gets_its_first_answer() {
    let broker = Broker::start("").await;
    let client = broker.client().await;
    let made = make_topic(&client, "Orders", "+deduplication.window=600000").await;
    assert_eq!(made.code, response::SUCCESS, "{made:?}");
    let first = send(&client, "Orders", 1, &[("UNIQ_KEY", "k1")]).await;
    assert_eq!(send(&client, "Orders", 1, &[("UNIQ_KEY", "k1")]).await, first);
    assert_eq!(send(&client, "Orders", 3, &[("UNIQ_KEY", "k1")]).await, first, "also if it goes to another queue");
    assert_ne!(send(&client, "Orders", 1, &[("UNIQ_KEY", "k2")]).await, first);
    let keyless = (send(&client, "Orders", 0, &[]).await, send(&client, "Orders", 0, &[]).await);
    assert_ne!(keyless.0, keyless.1, "without a key every send is another message");
    assert_eq!(stored(&client, "Orders").await, 4);

    let delayed = send(&client, "Orders", 2, &[("UNIQ_KEY", "later"), ("DELAY", "18")]).await;
    assert_eq!(send(&client, "Orders", 0, &[("UNIQ_KEY", "later"), ("DELAY", "18")]).await, delayed);

    let broker = broker.restarted().await;
    let client = broker.client().await;
    // The broker has another port now, which stands in ids.
    for (before, pairs) in [(first, &[("UNIQ_KEY", "k1")][..]), (delayed, &[("UNIQ_KEY", "later"), ("DELAY", "18")])] {
        let again = send(&client, "Orders", 0, pairs).await;
        assert_eq!(again[1..], before[1..], "after a restart");
    }
    assert_eq!(stored(&client, "Orders").await, 4);
}

#[tokio::test]
async fn a_topic_without_a_window_stores_every_send() {
    let broker = Broker::start("deduplicationWindowMs=600000\n").await;
    let client = broker.client().await;
    make_topic(&client, "Off", "+deduplication.window=0").await;
    make_topic(&client, "Usual", "").await;
    for (topic, copies) in [("Off", 2), ("Usual", 1)] {
        for _ in 0..2 {
            send(&client, topic, 1, &[("UNIQ_KEY", "k")]).await;
        }
        assert_eq!(stored(&client, topic).await, copies, "{topic}");
    }
    let refused = make_topic(&client, "Wrong", "+deduplication.window=soon").await;
    assert_ne!(refused.code, response::SUCCESS);
}
