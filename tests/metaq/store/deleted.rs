//! Deleted topics: their records stay in the log for a while, and no start makes queues of them again.

use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use metaq::proto::message::DelayLevels;
use metaq::store::check::{check_store, CheckOptions, Severity};
use metaq::store::index::IndexGeometry;
use metaq::store::FlushMode;

use super::support::{Running, World, START};

async fn send(running: &mut Running, topic: &str, queue_id: i32, bodies: std::ops::Range<u8>) {
    for n in bodies {
        running.send(topic, queue_id, &[n; 50]).await.unwrap();
    }
}

/// A store with messages in two topics, of which one has been deleted.
async fn after_deletion(world: &World) -> Running {
    let mut running = world.open().await;
    send(&mut running, "T", 0, 0..10).await;
    send(&mut running, "T", 1, 10..15).await;
    send(&mut running, "other", 0, 20..25).await;
    running.store.delete_topic("T").await.unwrap();
    running
}

/// The log tells of the topic's messages, and without the file nothing of their end.
#[tokio::test]
async fn a_topic_deleted_before_a_kill_stays_deleted() {
    let world = World::new(FlushMode::Async);
    drop(after_deletion(&world).await);
    for _ in 0..2 {
        let running = world.open().await;
        assert_eq!(running.store.topics(), ["other".into()]);
        assert_eq!(running.firsts("other", 0), [20, 21, 22, 23, 24]);
    }
    let mut running = world.open().await;
    assert_eq!(running.send("T", 0, b"new").await.unwrap().queue_offset.0, 0);
    drop(running);
    assert_eq!(world.open().await.bodies("T", 0), [b"new"]);
}

/// With the files of the old topic as a power cut may bring them back, with and without a table of queue lengths.
#[tokio::test]
async fn the_old_topic_s_files_are_not_the_new_one_s() {
    for with_table in [true, false] {
        let world = World::new(FlushMode::Async);
        let mut running = world.open().await;
        send(&mut running, "T", 0, 0..10).await;
        send(&mut running, "T", 1, 10..15).await;
        running.sync().await.unwrap();
        running.maintain(START + 20_000).await;
        let (old, table) = (world.files("consumequeue/T"), std::fs::read(world.path("queueTable")).unwrap());
        running.store.delete_topic("T").await.unwrap();
        send(&mut running, "T", 0, 30..33).await;
        running.maintain(START + 20_010).await;
        drop(running);
        for (path, bytes) in old {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        match with_table {
            true => std::fs::write(world.path("queueTable"), &table).unwrap(),
            false => std::fs::remove_file(world.path("queueTable")).unwrap(),
        }
        let mut running = world.open().await;
        assert_eq!(running.firsts("T", 0), [30, 31, 32], "with a table: {with_table}");
        assert_eq!(running.range("T", 1), (0, 0), "with a table: {with_table}");
        assert_eq!(running.send("T", 1, b"new").await.unwrap().queue_offset.0, 0);
    }
}

/// The log lost its end, and with it the place of the deletion: what is stored there now is the new topic's.
#[tokio::test]
async fn positions_that_are_given_out_again_are_the_new_topic_s() {
    let world = World::new(FlushMode::Async);
    let running = after_deletion(&world).await;
    let lost_from = running.offsets("other", 0)[0].0;
    let end = running.store.end().0;
    drop(running);
    let log = std::fs::OpenOptions::new().write(true).open(world.path("commitlog").join("0".repeat(20))).unwrap();
    log.write_all_at(&vec![0; (end - lost_from.0) as usize], lost_from.0).unwrap();
    let mut running = world.open().await;
    assert_eq!(running.store.end(), lost_from);
    send(&mut running, "T", 0, 40..43).await;
    drop(running);
    std::fs::remove_dir_all(world.path("consumequeue")).unwrap();
    assert_eq!(world.open().await.firsts("T", 0), [40, 41, 42]);
}

/// A file that holds nothing but what has expired says nothing.
#[tokio::test]
async fn expired_deletions_are_forgotten() {
    let world = World::new(FlushMode::Async);
    let mut running = after_deletion(&world).await;
    send(&mut running, "other", 0, 30..90).await;
    running.sync().await.unwrap();
    running.maintain(START + 20_000).await;
    let long = std::fs::metadata(world.path("deletedTopics")).unwrap().len();
    running.store.delete_oldest_segments(1).await.unwrap();
    running.close().await;
    world.open().await.close().await;
    assert!(std::fs::metadata(world.path("deletedTopics")).unwrap().len() < long);
}

/// A disk that takes nothing refuses the deletion; asked for again it is as good as any.
#[tokio::test]
async fn a_deletion_that_could_not_be_saved_can_be_repeated() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    send(&mut running, "T", 0, 0..10).await;
    world.disk.faults.writes_fail.store(true, Ordering::Relaxed);
    running.store.delete_topic("T").await.unwrap_err();
    world.disk.faults.writes_fail.store(false, Ordering::Relaxed);
    running.store.delete_topic("T").await.unwrap();
    drop(running);
    assert_eq!(world.open().await.range("T", 0), (0, 0));
}

/// Whatever queue the deleted topic had, the records of its older lives are no damage.
#[tokio::test]
async fn a_topic_made_again_is_no_damage() {
    let world = World::new(FlushMode::Async);
    let mut running = after_deletion(&world).await;
    send(&mut running, "T", 0, 30..33).await;
    running.store.delete_topic("T").await.unwrap();
    send(&mut running, "T", 1, 40..52).await;
    send(&mut running, "T", 0, 60..62).await;
    running.close().await;
    let options = CheckOptions {
        index_geometry: Some(IndexGeometry::new(world.options.index_slots, world.options.index_entries)),
        ..CheckOptions::new(DelayLevels::default())
    };
    let check = || check_store(&metaq::env::real::env().disk, world.directory.path(), &options).unwrap();
    let report = check();
    assert!(report.is_sound(), "{:?}", report.findings);
    assert_eq!((report.count(Severity::Repairable), report.count(Severity::Note)), (0, 2), "{:?}", report.findings);
    assert!(report.findings[0].what.starts_with("13 older records"), "{:?}", report.findings);
    assert!(report.findings[1].what.starts_with("5 older records"), "{:?}", report.findings);

    // What is missing of the newest life is still seen.
    let queue = std::fs::OpenOptions::new().write(true).open(world.path("consumequeue/T/1").join(format!("{:020}", 0)));
    queue.unwrap().write_all_at(&[9], 20 * 3 + 7).unwrap();
    let report = check();
    assert!(!report.is_sound(), "{:?}", report.findings);
}
