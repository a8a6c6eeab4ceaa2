//! The index follows the log.

use metaq::env::Millis;
use metaq::store::{Dispatched, FlushMode};

use super::support::{message, Running, World, SEGMENT, START};

async fn send(running: &mut Running, topic: &str, key: &str, body: &[u8]) {
    let properties = format!("KEYS\u{1}{key}\u{2}");
    running.send_with(&message(topic, 0, body, &properties)).await.unwrap();
}

fn drain(running: &mut Running) {
    running.dispatcher.drain(Millis(START)).unwrap();
    assert_eq!(running.dispatcher.position(), running.store.confirmed());
}

/// IDX-1, IDX-2: candidates are compared with topic and key, and each record is found once.
#[tokio::test]
async fn idx_1_and_2_queries_give_what_was_asked_for() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    send(&mut running, "AaTopic", "Aa", b"a").await;
    send(&mut running, "BBTopic", "BB", b"b").await;
    send(&mut running, "T", "k k", b"k1").await;
    send(&mut running, "T", "k", b"k2").await;
    assert!(running.query("T", "k").is_empty());
    drain(&mut running);
    assert!(running.query("AaTopic", "BB").is_empty());
    assert_eq!(running.query("AaTopic", "Aa"), [b"a"]);
    assert_eq!(running.query("T", "k"), [b"k1", b"k2"]);
}

#[tokio::test]
async fn nothing_above_the_confirmed_position_is_indexed() {
    let world = World::new(FlushMode::Sync);
    let mut running = world.open().await;
    send(&mut running, "T", "k", b"1").await;
    assert_eq!(running.dispatcher.dispatch_some(Millis(START)).unwrap(), Dispatched::CaughtUp);
    assert_eq!(running.dispatcher.position().0, 0);
    running.sync().await.unwrap();
    drain(&mut running);
    assert_eq!(running.query("T", "k"), [b"1"]);
}

#[tokio::test]
async fn dispatch_goes_on_where_it_was_after_a_clean_exit() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    send(&mut running, "T", "k", b"1").await;
    for _ in 0..50 {
        // Without keys nothing in the index tells how far it came.
        running.send_with(&message("T", 0, &[0; 100], "")).await.unwrap();
    }
    running.close().await;
    let files = world.files("index");
    let mut running = world.open().await;
    assert_eq!(running.dispatcher.behind(), 0);
    send(&mut running, "T", "k", b"2").await;
    drain(&mut running);
    assert_eq!(running.query("T", "k"), [b"1", b"2"]);
    running.close().await;
    assert_eq!(world.files("index").len(), files.len());
}

/// Apache loses keys for good here: the index is newer than the checkpoint and only partly made again.
#[tokio::test]
async fn after_a_kill_every_key_is_found_again() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    for n in 0..100u8 {
        send(&mut running, "T", &format!("k{n}"), &[n]).await;
        running.dispatcher.drain(Millis(START + i64::from(n) * 500)).unwrap();
    }
    assert!(world.files("index").len() > 1);
    drop(running);
    let mut running = world.open().await;
    drain(&mut running);
    for n in 0..100u8 {
        assert_eq!(running.query("T", &format!("k{n}")), [[n]]);
    }
}

/// STO-11: the dispatch position is below the log's minimum.
#[tokio::test]
async fn sto_11_dispatch_jumps_over_what_has_expired() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    for n in 0..100u8 {
        send(&mut running, "T", &format!("k{n}"), &[n; 50]).await;
    }
    running.sync().await.unwrap();
    running.maintain(START + 20_000).await;
    running.store.delete_oldest_segments(2).await.unwrap();
    drain(&mut running);
    assert!(running.query("T", "k0").is_empty());
    assert_eq!(running.query("T", "k99").len(), 1);
    assert!(running.store.min().0 == 2 * SEGMENT);
}
