//! The store check on stores that were really written: by us, on top of a foreign one, after a kill, after retention.

use std::path::Path;

use metaq::env::Millis;
use metaq::proto::message::DelayLevels;
use metaq::store::check::{check_store, CheckOptions, CheckReport};
use metaq::store::index::IndexGeometry;
use metaq::store::FlushMode;

use super::support::{copy_tree, message, Running, World, START};

fn check(world: &World) -> CheckReport {
    let options = CheckOptions {
        index_geometry: Some(IndexGeometry::new(world.options.index_slots, world.options.index_entries)),
        ..CheckOptions::new(DelayLevels::default())
    };
    check_store(&metaq::env::real::env().disk, world.directory.path(), &options).unwrap()
}

/// Messages of all kinds that a store holds: several queues, several files, keys, delays, half messages.
async fn fill(running: &mut Running, count: i32) {
    for n in 0..count {
        let properties = format!("KEYS\u{1}k{n} 键\u{2}UNIQ_KEY\u{1}{n:032X}\u{2}TAGS\u{1}标签{}\u{2}", n % 3);
        running.send_with(&message("TopicTest", n % 3, &vec![7; n as usize % 90], &properties)).await.unwrap();
        if n % 5 == 0 {
            let delayed = format!("DELAY\u{1}{}\u{2}REAL_TOPIC\u{1}T\u{2}", n % 40 + 1);
            running.send_with(&message("SCHEDULE_TOPIC_XXXX", 2, b"later", &delayed)).await.unwrap();
            running.send_with(&message("RMQ_SYS_TRANS_HALF_TOPIC", 0, b"half", &properties)).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_closed_store_has_no_finding() {
    for flush in [FlushMode::Async, FlushMode::Sync] {
        let world = World::new(flush);
        let mut running = world.open().await;
        fill(&mut running, 200).await;
        running.sync().await.unwrap();
        running.close().await;
        let report = check(&world);
        assert_eq!(report.findings, []);
        assert_eq!((report.records, report.queue_entries), (280, 280));
        assert_eq!(report.index_entries, 200 * 3 + 40 * 3);
        assert!(report.closed && report.index_files > 5, "{report:?}");
    }
}

#[tokio::test]
async fn the_mini_store_extended_has_no_finding() {
    let world = World::new(FlushMode::Async);
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/store/mini-store");
    copy_tree(&vectors, world.directory.path());
    for _ in 0..2 {
        let mut running = world.open().await;
        fill(&mut running, 40).await;
        running.close().await;
        assert_eq!(check(&world).findings, []);
    }
    assert_eq!(check(&world).records, 23 + 2 * 56);
}

/// A killed process leaves everything it wrote; what is behind is for the next start.
#[tokio::test]
async fn a_killed_store_has_no_damage() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    fill(&mut running, 100).await;
    running.dispatcher.drain(Millis(START)).unwrap();
    drop(running);
    let report = check(&world);
    assert!(!report.closed && report.is_sound(), "{:?}", report.findings);
    assert!(report.queue_entries < 140, "some waited in memory");
    let running = world.open().await;
    running.close().await;
    assert_eq!(check(&world).findings, []);
}

#[tokio::test]
async fn after_retention_there_is_no_finding() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    fill(&mut running, 200).await;
    running.sync().await.unwrap();
    running.maintain(START + 20_000).await;
    running.dispatcher.drain(Millis(START)).unwrap();
    running.store.delete_oldest_segments(3).await.unwrap();
    running.close().await;
    let report = check(&world);
    assert_eq!(report.findings, []);
    assert!(report.log_min.0 > 0);
}

/// What `metaq store check` advises for damage to what derives from the log.
#[tokio::test]
async fn queues_and_index_are_put_right_as_advised() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    fill(&mut running, 100).await;
    running.close().await;
    let damage = |path: &Path, at: usize| {
        let mut bytes = std::fs::read(path).unwrap();
        bytes[at] ^= 1;
        std::fs::write(path, bytes).unwrap();
    };
    damage(&world.path("consumequeue/TopicTest/1").join("0".repeat(20)), 20 * 3 + 7);
    damage(&world.files("index")[0].0, 5);
    assert!(check(&world).findings.len() >= 2);
    std::fs::remove_file(world.path("queueTable")).unwrap();
    let _ = std::fs::remove_file(world.path("queueTable.bak"));
    std::fs::remove_dir_all(world.path("index")).unwrap();
    let mut running = world.open().await;
    running.dispatcher.drain(Millis(START)).unwrap();
    running.close().await;
    assert_eq!(check(&world).findings, []);
}

/// The end of the log is cut off, as by a copy that stopped: damage, for whole messages are gone, and the check says
/// what the next start makes of it.
#[tokio::test]
async fn a_cut_log_is_told_with_what_the_start_does() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    fill(&mut running, 100).await;
    running.close().await;
    let (path, _) = world.files("commitlog").pop().unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(1000).unwrap();
    let report = check(&world);
    let said: Vec<_> = report.findings.iter().filter(|finding| finding.file == path).map(|f| f.what.clone()).collect();
    assert!(!report.is_sound());
    assert!(said.iter().any(|what| what.ends_with("the next start brings it to that length")), "{said:?}");
    assert!(said.iter().any(|what| what.ends_with("the next start ends the log here")), "{said:?}");
    let mut running = world.open().await;
    running.dispatcher.drain(Millis(START)).unwrap();
    running.close().await;
    assert_eq!(check(&world).findings, []);
}
