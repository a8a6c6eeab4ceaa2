//! Deleting old segments, and refusing writes on a full disk.

use std::sync::atomic::Ordering;

use metaq::proto::PhysicalOffset;
use metaq::store::retention::{DiskGuard, RetentionPolicy, RetentionSettings};
use metaq::store::{FlushMode, ReadStatus, StoreError};

use super::support::{Running, World, SEGMENT, START};

/// A store with messages 0.. of 50 bytes in queue 0, and one old message in queue 1.
async fn filled(world: &World, messages: u8) -> Running {
    let mut running = world.open().await;
    running.send("T", 1, b"old").await.unwrap();
    for n in 0..messages {
        running.send("T", 0, &[n; 50]).await.unwrap();
    }
    running.sync().await.unwrap();
    running.maintain(START + 20_000).await;
    running
}

/// DSK-2: cleaning removed a segment from the middle of the log.
#[tokio::test]
async fn dsk_2_only_the_oldest_segments_go_and_queues_follow() {
    let world = World::new(FlushMode::Async);
    let mut running = filled(&world, 200).await;
    let facts = running.store.segment_facts().unwrap();
    assert!(facts.len() > 5);
    assert!(facts.windows(2).all(|pair| pair[0].base.0 + pair[0].len == pair[1].base.0));
    let min = running.store.delete_oldest_segments(2).await.unwrap();
    assert_eq!(min, PhysicalOffset(2 * SEGMENT));
    let (first, max) = running.range("T", 0);
    assert_eq!(max, 200);
    let kept = running.offsets("T", 0);
    assert_eq!(kept.len() as u64, 200 - first);
    assert!(kept.iter().all(|(physical, _)| *physical >= min));
    assert_eq!(kept[0].1 .0, first, "the first living one is the minimum");
    assert_eq!(running.read("T", 0, first - 1, &mut Vec::new()).status, ReadStatus::OffsetTooSmall);
    // Nothing is left of queue 1, but its offsets go on.
    assert_eq!(running.range("T", 1), (1, 1));
    assert_eq!(running.read("T", 1, 1, &mut Vec::new()).status, ReadStatus::OffsetOverflowOne);
    assert_eq!(running.send("T", 1, b"new").await.unwrap().queue_offset.0, 1);
    let files = world.files("consumequeue/T/0");
    assert!(files[0].0.ends_with(format!("{:020}", first * 20 / 160 * 160)), "{:?}", files[0].0);
    running.close().await;
    let running = world.open().await;
    assert_eq!(running.report.repairs, []);
    assert_eq!(running.range("T", 0), (first, 200));
    assert_eq!(running.range("T", 1), (1, 2));
}

#[tokio::test]
async fn minimums_hold_after_a_kill_and_without_the_table() {
    for table in [true, false] {
        let world = World::new(FlushMode::Async);
        let running = filled(&world, 200).await;
        running.store.delete_oldest_segments(3).await.unwrap();
        let ranges = [running.range("T", 0), running.range("T", 1)];
        drop(running);
        if !table {
            let _ = std::fs::remove_file(world.path("queueTable"));
        }
        let running = world.open().await;
        assert_eq!([running.range("T", 0), running.range("T", 1)], ranges);
        assert_eq!(running.offsets("T", 0).len() as u64, ranges[0].1 - ranges[0].0);
    }
}

#[tokio::test]
async fn the_last_segment_stays() {
    let world = World::new(FlushMode::Async);
    let mut running = filled(&world, 100).await;
    running.store.delete_oldest_segments(1000).await.unwrap();
    assert_eq!(running.store.segment_facts().unwrap().len(), 1);
    assert_eq!(running.send("T", 0, b"x").await.unwrap().queue_offset.0, 100);
}

/// A power cut after the deletion would take queue entries that nothing could make again, and their numbers would be
/// given out twice.
#[tokio::test]
async fn segments_stay_until_their_queue_entries_are_synced() {
    let world = World::new(FlushMode::Sync);
    let mut running = world.open().await;
    for _ in 0..100 {
        running.send("T", 0, &[0; 50]).await.unwrap();
    }
    assert_eq!(running.store.delete_oldest_segments(2).await.unwrap(), PhysicalOffset(0));
    running.sync().await.unwrap();
    assert_eq!(running.store.delete_oldest_segments(2).await.unwrap(), PhysicalOffset(0));
    running.maintain(START + 20_000).await;
    assert_eq!(running.store.delete_oldest_segments(2).await.unwrap(), PhysicalOffset(2 * SEGMENT));
}

/// DSK-1, DSK-3: the refusal names the limit and ends without a restart.
#[tokio::test]
async fn dsk_1_a_full_disk_refuses_until_it_is_not() {
    let world = World::new(FlushMode::Async);
    let mut running = filled(&world, 3).await;
    running.store.set_disk_full(Some("the disk is 91% full, writes stop above 90%".to_owned()));
    let refused = running.send("T", 0, b"x").await.unwrap_err();
    assert!(matches!(refused, StoreError::Refused { .. }) && refused.retryable());
    assert_eq!(refused.to_string(), "the disk is 91% full, writes stop above 90%");
    assert_eq!(running.bodies("T", 0).len(), 3, "reads go on");
    running.store.set_disk_full(None);
    assert_eq!(running.send("T", 0, b"x").await.unwrap().queue_offset.0, 3);
}

/// Where a quota is used up the disk does not look full; what has expired goes all the same, whatever the hour.
#[tokio::test]
async fn no_space_for_a_segment_deletes_what_has_expired() {
    let world = World::new(FlushMode::Async);
    let mut running = filled(&world, 200).await;
    let settings = RetentionSettings { delete_when: String::new(), ..RetentionSettings::default() };
    let policy = RetentionPolicy::new(&settings, &mut Vec::new());
    let mut guard = DiskGuard::new(policy, world.path("commitlog"), world.path("consumequeue"));
    world.clock.0.store(i64::MAX / 2, Ordering::Relaxed);
    running.store.clean(&mut guard).await.unwrap();
    let segments = running.store.segment_facts().unwrap().len();
    world.disk.faults.allocations_fail.store(true, Ordering::Relaxed);
    while running.send("T", 0, &[0; 1000]).await.is_ok() {}
    running.store.clean(&mut guard).await.unwrap();
    assert!(running.store.segment_facts().unwrap().len() < segments);
    assert!(running.store.min().0 > 0);
}

/// A queue file that cannot be written stops sends until it can; no entry is lost.
#[tokio::test]
async fn queue_files_that_cannot_be_written_stop_sends_for_as_long() {
    let world = World::new(FlushMode::Async);
    let mut running = filled(&world, 3).await;
    running.send("T", 2, b"x").await.unwrap();
    world.disk.faults.writes_fail.store(true, Ordering::Relaxed);
    running.maintain(START + 2000).await;
    let refused = running.send("T", 2, b"y").await.unwrap_err();
    assert!(refused.to_string().contains("consume queues"), "{refused}");
    world.disk.faults.writes_fail.store(false, Ordering::Relaxed);
    running.maintain(START + 3000).await;
    running.send("T", 2, b"y").await.unwrap();
    assert_eq!(running.bodies("T", 2), [b"x", b"y"]);
}
