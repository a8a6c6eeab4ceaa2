//! Every broker of a group is restarted in turn, as for an upgrade, while clients go on.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metaq::client::{Action, ConsumeFrom, Durability, Message, Producer};
use metaq::env::real;

use super::group::Group;
use super::LIMIT;
use crate::cluster::support::until;

/// More than a broker takes to stop and start, and its slaves to find it again.
const RETRIES: u32 = 12;

/// Sends until it is told to stop. Nothing may fail, or be stored with less than what was asked for.
async fn load(producer: Arc<Producer>, name: usize, sent: Arc<Mutex<BTreeSet<String>>>, stop: Arc<AtomicBool>) {
    for n in 0.. {
        if stop.load(Ordering::Acquire) {
            return;
        }
        let body = format!("{name}-{n}");
        let answer = producer.send(Message::new("Orders", body.clone())).await.unwrap();
        assert_eq!(answer.durability, Durability::AsAsked, "{body}");
        sent.lock().unwrap().insert(body);
    }
}

#[tokio::test]
async fn a_group_is_restarted_under_load_and_no_client_notices() {
    // With fewer than two nodes a send is refused, so that it is tried again, and not stored on one.
    let mut group = Group::start(&["minInSyncReplicas=2"]);
    let client = group.client();
    client.admin().create_topic("Orders", 4).await.unwrap();
    group.wait_in_sync(&client).await;

    let (sent, got) = (Arc::<Mutex<BTreeSet<String>>>::default(), Arc::<Mutex<BTreeSet<String>>>::default());
    let heard = got.clone();
    let consumer = client.push_consumer("billing").subscribe("Orders", "*").consume_from(ConsumeFrom::First);
    let consumer = consumer
        .concurrently(move |message| {
            heard.lock().unwrap().insert(String::from_utf8_lossy(&message.body).into_owned());
            async { Action::Done }
        })
        .await
        .unwrap();
    let producer = client.producer("pg").retries(RETRIES).timeout(LIMIT);
    let producer = Arc::new(producer.start().unwrap());
    let stop = Arc::<AtomicBool>::default();
    let loads: Vec<_> =
        (0..4).map(|name| tokio::spawn(load(producer.clone(), name, sent.clone(), stop.clone()))).collect();
    let more = async || {
        let (before, before_got) = (sent.lock().unwrap().len(), got.lock().unwrap().len());
        let grown = async || {
            let (now, now_got) = (sent.lock().unwrap().len(), got.lock().unwrap().len());
            (now >= before + 100 && now_got >= before_got + 100).then_some(())
        };
        until(&real::env(), grown).await;
    };

    for id in [2, 1, 0] {
        more().await;
        group.stop_member(id);
        group.start_member(id);
        group.wait_in_sync(&client).await;
    }
    more().await;
    stop.store(true, Ordering::Release);
    for load in loads {
        load.await.expect("a send failed");
    }

    let all = async || sent.lock().unwrap().is_subset(&got.lock().unwrap()).then_some(());
    until(&real::env(), all).await;
    consumer.stop(Duration::from_secs(1)).await;
    client.close().await;
}
