//! The small store of the vectors, as a Java broker could have left it.

use std::path::Path;

use metaq::env::Millis;
use metaq::store::FlushMode;

use super::support::{copy_tree, Running, World, START};

const RETRY_GROUP: usize = 121;

/// A world whose store is a copy of the mini store.
fn mini_store() -> World {
    let world = World::new(FlushMode::Async);
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/store/mini-store");
    copy_tree(&vectors, world.directory.path());
    world
}

fn expect_content(running: &Running) {
    let ranges = [("TopicTest", 0, 14), ("TopicTest", 1, 3), ("SCHEDULE_TOPIC_XXXX", 2, 1)];
    let system = [("RMQ_SYS_TRANS_HALF_TOPIC", 0, 1), ("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0, 1)];
    for (topic, id, max) in ranges.into_iter().chain(system) {
        assert_eq!(running.range(topic, id), (0, max), "{topic} {id}");
        assert_eq!(running.bodies(topic, id).len() as u64, max, "{topic} {id}");
    }
    for key in (0..12).map(|n| format!("k{n}")).chain(["shared", "键1", "last"].map(str::to_owned)) {
        assert!(!running.query("TopicTest", &key).is_empty(), "{key}");
    }
    assert!(running.query("TopicTest", "nobody's").is_empty());
    let topics = running.store.topics();
    let retry = topics.iter().find(|topic| topic.len() > RETRY_GROUP).expect("the long retry topic");
    assert_eq!(running.bodies(retry, 0).len(), 1);
}

#[tokio::test]
async fn opens_unchanged_and_is_read() {
    let world = mini_store();
    let queues = world.files("consumequeue");
    let log = world.files("commitlog");
    let index = world.files("index");
    let running = world.open().await;
    assert_eq!(running.report.log_end.0, 4615);
    assert_eq!(running.report.repairs, []);
    expect_content(&running);
    running.close().await;
    assert_eq!(world.files("consumequeue"), queues);
    assert_eq!(world.files("commitlog"), log);
    assert_eq!(world.files("index"), index);
    assert!(!world.path("abort").exists());
}

/// IDX-6: after an upgrade a key query returned nothing although the index held the key.
#[tokio::test]
async fn idx_6_what_a_java_broker_indexed_is_found() {
    let mut running = mini_store().open().await;
    for (key, found) in [("k11", 1), ("键1", 1), ("shared", 12), ("0A00000500002A9F4F1B000000000003", 1)] {
        assert_eq!(running.query("TopicTest", key).len(), found, "{key}");
    }
    running.send("TopicTest", 0, b"newer").await.unwrap();
    running.dispatcher.drain(Millis(START)).unwrap();
    assert_eq!(running.query("TopicTest", "shared").len(), 12, "an index that goes on keeps what was there");
}

#[tokio::test]
async fn is_extended_and_reopened() {
    let world = mini_store();
    let mut running = world.open().await;
    for n in 0..40u8 {
        let stored = running.send("TopicTest", 0, &[n; 200]).await.unwrap();
        assert_eq!(stored.queue_offset.0, 14 + u64::from(n));
    }
    running.close().await;
    let running = world.open().await;
    assert_eq!(running.report.repairs, []);
    assert_eq!(running.report.records_read, 0, "a clean exit leaves nothing to read");
    assert_eq!(running.bodies("TopicTest", 0).len(), 54);
    assert_eq!(running.bodies("TopicTest", 1).len(), 3);
}

/// Queues and index come back byte for byte.
#[tokio::test]
async fn queues_and_index_are_rebuilt_from_the_log() {
    let world = mini_store();
    let queues = world.files("consumequeue");
    let index = world.files("index");
    for relative in ["consumequeue", "index"] {
        std::fs::remove_dir_all(world.path(relative)).unwrap();
    }
    std::fs::remove_file(world.path("checkpoint")).unwrap();
    std::fs::write(world.path("abort"), b"").unwrap();
    let mut running = world.open().await;
    running.dispatcher.drain(Millis(START)).unwrap();
    expect_content(&running);
    running.close().await;
    assert_eq!(world.files("consumequeue"), queues);
    let rebuilt = world.files("index");
    assert_eq!(rebuilt.len(), 1);
    // The name is the local time at which it was made.
    let differing = rebuilt[0].1.iter().zip(&index[0].1).position(|(new, old)| new != old);
    assert_eq!(differing, None, "the first byte that differs");
}

/// No version of RocketMQ notices that one queue is gone after a clean exit.
#[tokio::test]
async fn one_lost_queue_is_rebuilt_after_a_clean_exit() {
    let world = mini_store();
    let queues = world.files("consumequeue");
    std::fs::remove_dir_all(world.path("consumequeue/TopicTest/1")).unwrap();
    let running = world.open().await;
    assert_eq!(running.report.repairs.len(), 1, "{:?}", running.report.repairs);
    expect_content(&running);
    running.close().await;
    assert_eq!(world.files("consumequeue"), queues);
}
