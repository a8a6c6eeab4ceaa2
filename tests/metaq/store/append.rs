//! Appending, syncing and reading back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use metaq::env::Millis;
use metaq::proto::message::encode_record;
use metaq::proto::{PhysicalOffset, QueueOffset};
use metaq::store::{AppendBatch, Boundary, EntryForFilter, FlushMode, Portion, ReadLimits, ReadStatus, StoreError};

use super::support::{message, World, SEGMENT, START};

#[tokio::test]
async fn what_is_sent_is_read_in_order() {
    for flush in [FlushMode::Async, FlushMode::Sync] {
        let world = World::new(flush);
        let mut running = world.open().await;
        for n in 0..100u8 {
            let stored = running.send("T", i32::from(n % 2), &[n; 50]).await.unwrap();
            assert_eq!(stored.queue_offset, QueueOffset(u64::from(n / 2)));
        }
        running.sync().await.unwrap();
        for id in 0..2 {
            let bodies: Vec<_> = (0..100u8).filter(|n| n % 2 == id).map(|n| vec![n; 50]).collect();
            assert_eq!(running.bodies("T", u32::from(id)), bodies);
        }
        assert!(running.store.end().0 > 2 * SEGMENT, "the log has rolled");
        assert_eq!(running.store.flushed(), running.store.end());
    }
}

/// STO-1: a consumer got a message that was not on disk yet.
#[tokio::test]
async fn sto_1_under_sync_flush_nothing_is_seen_before_its_sync() {
    let world = World::new(FlushMode::Sync);
    let mut running = world.open().await;
    running.send("T", 0, b"m0").await.unwrap();
    assert_eq!(running.range("T", 0), (0, 0));
    let sync = running.writer.start_sync().unwrap();
    running.send("T", 0, b"m1").await.unwrap();
    assert!(running.writer.start_sync().is_none(), "one at a time");
    let flushed = running.writer.finish_sync(sync.await).unwrap();
    assert_eq!(running.range("T", 0), (0, 1), "m1 came after the sync began");
    assert!(flushed < running.store.end());
    assert_eq!(running.bodies("T", 0), [b"m0"]);
    running.sync().await.unwrap();
    assert_eq!(running.bodies("T", 0), [b"m0", b"m1"]);
}

/// STO-4, DSK-4: a failed sync refuses writes with a clear error, and reads go on.
#[tokio::test]
async fn dsk_4_a_failed_sync_or_write_ends_writing_but_not_reading() {
    for sync_fails in [true, false] {
        let world = World::new(FlushMode::Sync);
        let mut running = world.open().await;
        running.send("T", 0, b"old").await.unwrap();
        running.sync().await.unwrap();
        world.disk.faults.syncs_fail.store(sync_fails, Ordering::Relaxed);
        world.disk.faults.writes_fail.store(!sync_fails, Ordering::Relaxed);
        let sent = running.send("T", 0, b"new").await;
        assert_eq!(sent.is_ok(), sync_fails);
        assert_eq!(running.sync().await.is_err(), sync_fails);
        world.disk.faults.syncs_fail.store(false, Ordering::Relaxed);
        world.disk.faults.writes_fail.store(false, Ordering::Relaxed);
        let refused = running.send("T", 0, b"later").await.unwrap_err();
        assert!(refused.to_string().contains("commitlog"), "{refused}");
        assert!(!refused.retryable());
        assert!(running.writer.start_sync().is_none(), "a second sync proves nothing");
        assert_eq!(running.bodies("T", 0), [b"old"]);
    }
}

/// A full disk refuses the batch that needs a segment, and nothing else.
#[tokio::test]
async fn without_space_for_a_segment_sends_are_refused_until_there_is() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    running.send("T", 0, &[0; 3000]).await.unwrap();
    world.disk.faults.allocations_fail.store(true, Ordering::Relaxed);
    let refused = running.send("T", 0, &[1; 3000]).await.unwrap_err();
    assert!(refused.retryable(), "{refused}");
    running.send("T", 0, b"small").await.unwrap();
    world.disk.faults.allocations_fail.store(false, Ordering::Relaxed);
    running.send("T", 0, &[2; 3000]).await.unwrap();
    assert_eq!(running.range("T", 0), (0, 3));
}

/// STO-5: a refused message used up a queue offset, leaving a hole.
#[tokio::test]
async fn sto_5_a_refused_message_takes_no_offset() {
    let mut world = World::new(FlushMode::Async);
    world.options.max_message_size = 1024;
    world.options.segment_size = 1 << 20;
    let mut running = world.open().await;
    let mut batch = AppendBatch::default();
    for len in [10, 70_000, 20, 80_000, 30] {
        running.add(&mut batch, &message("T", 0, &vec![7; len], ""));
    }
    let results = running.append(&mut batch).await;
    let offsets: Vec<_> =
        results.iter().map(|result| result.as_ref().ok().map(|stored| stored.queue_offset.0)).collect();
    assert_eq!(offsets, [Some(0), None, Some(1), None, Some(2)]);
    assert!(matches!(results[1], Err(StoreError::TooLarge { .. })));
    running.close().await;
    let running = world.open().await;
    assert_eq!(running.bodies("T", 0).iter().map(Vec::len).collect::<Vec<_>>(), [10, 20, 30]);
}

/// STO-9: batch sends from two producers got the same offsets.
#[tokio::test]
async fn sto_9_batches_are_contiguous_and_whole() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    for round in 0..10 {
        let mut batch = AppendBatch::default();
        for producer in 0..2u8 {
            let group = batch.next_group();
            for n in 0..4u8 {
                let start = batch.bytes.len();
                encode_record(&mut batch.bytes, &message("T", 0, &[producer, n, round], "")).unwrap();
                let queue = running.store.queue_or_create("T", 0).unwrap();
                batch.push_to_group(start, queue, running.store.tags_code("T", ""), group);
            }
        }
        let results = running.append(&mut batch).await;
        let stored: Vec<_> = results.into_iter().map(Result::unwrap).collect();
        for unit in stored.chunks(4) {
            let segments: Vec<_> = unit.iter().map(|stored| stored.physical.0 / SEGMENT).collect();
            assert!(segments.windows(2).all(|pair| pair[0] == pair[1]), "a batch lies in one segment");
        }
    }
    let numbers: Vec<_> = running.offsets("T", 0).iter().map(|(_, number)| number.0).collect();
    assert_eq!(numbers, (0..80).collect::<Vec<_>>());
    let bodies = running.bodies("T", 0);
    assert!(bodies.chunks(4).all(|unit| unit.iter().enumerate().all(|(n, body)| body[1] == n as u8)));
}

#[tokio::test]
async fn a_unit_that_fits_no_segment_is_refused_whole() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    let mut batch = AppendBatch::default();
    let group = batch.next_group();
    for _ in 0..3 {
        let start = batch.bytes.len();
        encode_record(&mut batch.bytes, &message("T", 0, &[1; 1500], "")).unwrap();
        batch.push_to_group(
            start,
            running.store.queue_or_create("T", 0).unwrap(),
            running.store.tags_code("T", ""),
            group,
        );
    }
    running.add(&mut batch, &message("T", 0, b"alone", ""));
    let results = running.append(&mut batch).await;
    assert!(results[..3].iter().all(|result| matches!(result, Err(StoreError::TooLarge { .. }))));
    assert_eq!(results[3].as_ref().unwrap().queue_offset, QueueOffset(0));
}

#[tokio::test]
async fn store_times_never_fall() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    let first = running.send("T", 0, b"a").await.unwrap().store_time;
    world.clock.0.store(START - 5000, Ordering::Relaxed);
    assert_eq!(running.send("T", 0, b"b").await.unwrap().store_time, first);
    running.close().await;
    let mut running = world.open().await;
    assert_eq!(running.send("T", 0, b"c").await.unwrap().store_time, first, "also over a restart");
}

#[tokio::test]
async fn a_parked_reader_is_woken_once_by_the_next_message() {
    let world = World::new(FlushMode::Sync);
    let mut running = world.open().await;
    let queue = running.store.queue_or_create("T", 0).unwrap();
    let woken = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&woken);
    let waiter = Box::new(move |max: QueueOffset| seen.store(max.0 * 10 + 1, Ordering::Relaxed));
    assert!(queue.add_waiter(QueueOffset(0), waiter).is_ok());
    running.send("T", 0, b"a").await.unwrap();
    assert_eq!(woken.load(Ordering::Relaxed), 0, "not before the sync");
    running.sync().await.unwrap();
    assert_eq!(woken.load(Ordering::Relaxed), 11);
    assert_eq!(queue.waiting(), 0);
    assert!(queue.add_waiter(QueueOffset(0), Box::new(|_| ())).is_err(), "it is there already");
    let id = queue.add_waiter(QueueOffset(1), Box::new(|_| ())).ok().unwrap();
    assert!(queue.remove_waiter(id).is_some());
    assert!(queue.remove_waiter(id).is_none());
}

#[tokio::test]
async fn read_statuses_are_rocketmqs() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    running.store.queue_or_create("T", 0).unwrap();
    let status = |running: &super::support::Running, from| {
        let outcome = running.read("T", 0, from, &mut Vec::new());
        (outcome.status, outcome.next.0)
    };
    assert_eq!(status(&running, 5), (ReadStatus::NoMessageInQueue, 0));
    for n in 0..20 {
        running.send("T", 0, &[n]).await.unwrap();
    }
    assert_eq!(status(&running, 0), (ReadStatus::Found, 20));
    assert_eq!(status(&running, 20), (ReadStatus::OffsetOverflowOne, 20));
    assert_eq!(status(&running, 21), (ReadStatus::OffsetOverflowBadly, 20));
    let queue = running.store.queue("T", 0).unwrap();
    let mut out = Vec::new();
    let none = |_: &EntryForFilter| false;
    let limits = ReadLimits::new(32, u32::MAX);
    let outcome = running.store.read(&queue, QueueOffset(3), &limits, &mut { none }, &mut out).unwrap();
    assert_eq!((outcome.status, outcome.next), (ReadStatus::NoMatchedMessage, QueueOffset(20)));
    let limits = ReadLimits::new(0, 0);
    let outcome =
        running.store.read(&queue, QueueOffset(3), &limits, &mut |_: &EntryForFilter| true, &mut out).unwrap();
    assert_eq!((outcome.records, outcome.next), (1, QueueOffset(4)), "one record whatever the limits");
}

#[tokio::test]
async fn limits_depend_on_how_far_back_the_records_lie() {
    let mut world = World::new(FlushMode::Async);
    world.options.segment_size = 1 << 20;
    world.options.memory_window = 50_000;
    let mut running = world.open().await;
    for n in 0..200u8 {
        running.send("T", 0, &[n; 1000]).await.unwrap();
    }
    let queue = running.store.queue("T", 0).unwrap();
    let limits = ReadLimits { cold: Portion { records: 8, bytes: u32::MAX }, ..ReadLimits::new(100, u32::MAX) };
    let read = |from| {
        let all = &mut |_: &EntryForFilter| true;
        let outcome = running.store.read(&queue, QueueOffset(from), &limits, all, &mut Vec::new()).unwrap();
        (outcome.records, outcome.cold)
    };
    assert_eq!((read(0), read(160)), ((8, true), (32, false)));
    assert_eq!(running.bodies("T", 0).len(), 200);
}

#[tokio::test]
async fn a_record_is_found_by_its_position_only() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    let first = running.send("T", 0, b"first").await.unwrap();
    let second = running.send("T", 0, b"second").await.unwrap();
    let mut out = Vec::new();
    running.store.record_at(second.physical, &mut out).unwrap();
    assert_eq!(out.len() as u64, second.end.0 - second.physical.0);
    for wrong in [first.physical.0 + 1, second.end.0, SEGMENT * 7, u64::MAX] {
        let found = running.store.record_at(PhysicalOffset(wrong), &mut out);
        assert!(matches!(found, Err(StoreError::NoRecord { .. })), "{wrong}");
    }
}

/// IDX-5, OFF-6: reset to a time later than every message gave the last one again.
#[tokio::test]
async fn idx_5_offsets_by_time() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    for n in 0..10 {
        // m4 and m5 share a time.
        world.clock.0.store(START + if n == 5 { 400 } else { n * 100 }, Ordering::Relaxed);
        running.send("T", 0, b"m").await.unwrap();
    }
    let queue = running.store.queue("T", 0).unwrap();
    let find = |time: i64, boundary| running.store.offset_by_time(&queue, Millis(START + time), boundary).unwrap().0;
    assert_eq!([950, 900, 350, -50].map(|time| find(time, Boundary::Lower)), [10, 9, 4, 0]);
    assert_eq!(find(400, Boundary::Lower), 4);
    assert_eq!([950, 900, 350, 400, -50].map(|time| find(time, Boundary::Upper)), [9, 9, 3, 5, 0]);
    assert_eq!(running.store.earliest_store_time(&queue).unwrap(), Some(Millis(START)));
}

/// The entries a queue wrote to its files, and those still in memory, are read alike.
#[tokio::test]
async fn reading_crosses_from_files_to_memory() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    for n in 0..50u8 {
        running.send("T", 0, &[n]).await.unwrap();
        if n == 30 {
            running.maintain(START + 1000).await;
            // Nothing came for a while: the queue gives its memory back.
            running.maintain(START + 100_000).await;
        }
    }
    assert_eq!(running.bodies("T", 0), (0..50u8).map(|n| vec![n]).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_deleted_topic_starts_anew() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    for _ in 0..20 {
        running.send("T", 0, b"old").await.unwrap();
    }
    running.maintain(START + 1000).await;
    let mut batch = AppendBatch::default();
    running.add(&mut batch, &message("T", 0, b"late", ""));
    assert_eq!(running.store.delete_topic("T").await.unwrap().len(), 1);
    assert!(matches!(running.append(&mut batch).await[0], Err(StoreError::QueueDeleted { .. })));
    assert!(!world.path("consumequeue/T").exists());
    running.send("T", 0, b"new").await.unwrap();
    assert_eq!(running.bodies("T", 0), [b"new"]);
    running.close().await;
    assert_eq!(world.open().await.bodies("T", 0), [b"new"]);
}
