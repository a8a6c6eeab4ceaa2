//! Config files: saved before the answer, together where that is possible, and no reason to refuse what needs none.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use metaq::env::{real, Disk};
use metaq::proto::remoting::requests::UpdateAndCreateTopic;
use metaq::proto::remoting::{request, response, Command};

use super::support::{bodies, messages, Broker, Client};
use crate::store::support::TestDisk;

fn make_topic(topic: &str) -> Command {
    Command::request(request::UPDATE_AND_CREATE_TOPIC).with_ext(&UpdateAndCreateTopic {
        topic: topic.into(),
        default_topic: None,
        read_queue_nums: 4,
        write_queue_nums: 4,
        perm: 6,
        topic_filter_type: None,
        topic_sys_flag: 0,
        order: false,
        attributes: None,
        force: false,
    })
}

/// A broker on a disk that counts and refuses.
async fn start() -> (Arc<TestDisk>, Broker, Client) {
    let disk = Arc::new(TestDisk::new(real::env().disk));
    let mut env = real::env();
    env.disk = Arc::clone(&disk) as Arc<dyn Disk>;
    let broker = Broker::start_in(env, "").await;
    let client = broker.client().await;
    (disk, broker, client)
}

fn holds(directory: &Path, file: &str, name: &str) -> bool {
    std::fs::read_to_string(directory.join("config").join(file)).is_ok_and(|text| text.contains(name))
}

#[tokio::test]
async fn topics_made_at_once_share_a_save_and_each_is_saved_when_it_is_answered() {
    let (disk, broker, client) = start().await;
    let before = disk.faults.topics_saved.load(Ordering::Relaxed);
    let made = (0..50).map(|n| {
        let (client, directory) = (&client, broker.directory());
        async move {
            let topic = format!("Topic{n:02}");
            client.get(make_topic(&topic)).await;
            assert!(holds(directory, "topics.json", &topic), "{topic} was answered but not saved");
        }
    });
    futures::future::join_all(made).await;
    let saves = disk.faults.topics_saved.load(Ordering::Relaxed) - before;
    assert!((1..=10).contains(&saves), "{saves} saves for 50 topics");
}

/// A full disk did not take the new group, and so its first pull got an error instead of messages.
#[tokio::test]
async fn a_new_group_pulls_although_it_cannot_be_saved() {
    let (disk, broker, client) = start().await;
    client.send("Orders", "a", &[]).await;
    disk.faults.writes_fail.store(true, Ordering::Relaxed);
    let answer = client.pull("cg", "Orders", 0, Duration::ZERO).await;
    assert_eq!(answer.code, response::SUCCESS, "{:?}", answer.remark);
    assert_eq!(bodies(&messages(&answer.body)), ["a"]);
    assert!(!holds(broker.directory(), "subscriptionGroup.json", "\"cg\""));
    disk.faults.writes_fail.store(false, Ordering::Relaxed);
    super::support::until(&broker.env, async || {
        holds(broker.directory(), "subscriptionGroup.json", "\"cg\"").then_some(())
    })
    .await;
}
