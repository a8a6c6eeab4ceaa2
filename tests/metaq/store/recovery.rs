//! Recovery: what a crash, a lost file or another broker leaves is put right, and told.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use metaq::store::recovery::{Exit, Repair};
use metaq::store::{FlushMode, OpenError};

use super::support::{logged, Running, World, SEGMENT, START};

/// Overwrites bytes of a file.
fn overwrite(world: &World, relative: &str, at: u64, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(world.path(relative)).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

async fn send(running: &mut Running, queue_id: i32, bodies: std::ops::Range<u8>) {
    for n in bodies {
        running.send("T", queue_id, &[n; 50]).await.unwrap();
    }
}

/// What [`send`] sent, told by the first byte of each body.
fn bodies(range: std::ops::Range<u8>) -> Vec<u8> {
    range.collect()
}

/// Ends the process: nothing is written any more, what was written stays.
fn kill(running: Running) {
    drop(running);
}

#[tokio::test]
async fn a_clean_exit_leaves_nothing_to_do() {
    let world = World::new(FlushMode::Sync);
    let mut running = world.open().await;
    assert!(world.path("abort").exists());
    send(&mut running, 0, 0..100).await;
    running.close().await;
    assert!(!world.path("abort").exists());
    let mut running = world.open().await;
    assert_eq!((running.report.exit, running.report.records_read), (Exit::Clean, 0));
    assert_eq!(running.report.repairs, []);
    send(&mut running, 0, 100..110).await;
    running.sync().await.unwrap();
    assert_eq!(running.firsts("T", 0), bodies(0..110));
}

/// STO-2: after an unclean stop one message existed in the log but was never consumable.
#[tokio::test]
async fn sto_2_what_was_not_in_the_queues_is_after_a_kill() {
    for flush in [FlushMode::Async, FlushMode::Sync] {
        let world = World::new(flush);
        let mut running = world.open().await;
        send(&mut running, 0, 0..6).await;
        running.sync().await.unwrap();
        running.maintain(START + 20_000).await;
        send(&mut running, 0, 6..10).await;
        kill(running);
        let mut running = world.open().await;
        assert_eq!(running.report.exit, Exit::Unclean);
        send(&mut running, 0, 10..11).await;
        running.sync().await.unwrap();
        assert_eq!(running.firsts("T", 0), bodies(0..11));
        assert_eq!(running.range("T", 0), (0, 11));
    }
}

/// STO-3: a lost tail file of one queue is made again.
#[tokio::test]
async fn sto_3_a_lost_tail_file_is_rebuilt() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    for n in 0..30 {
        send(&mut running, 0, n..n + 1).await;
        send(&mut running, 1, n..n + 1).await;
    }
    running.close().await;
    let before = world.files("consumequeue");
    std::fs::remove_file(world.path("consumequeue/T/1/00000000000000000480")).unwrap();
    let mut running = world.open().await;
    assert!(matches!(&running.report.repairs[..], [Repair::QueueExtended { queue, was: 24, is: 30 }] if queue.id == 1));
    assert_eq!(world.files("consumequeue"), before);
    for id in 0..2 {
        send(&mut running, id, 30..33).await;
        assert_eq!(running.firsts("T", id as u32), bodies(0..33));
    }
}

#[tokio::test]
async fn a_lost_queue_directory_is_rebuilt_after_a_clean_exit() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    send(&mut running, 0, 0..30).await;
    send(&mut running, 1, 0..30).await;
    running.close().await;
    let before = world.files("consumequeue");
    std::fs::remove_dir_all(world.path("consumequeue/T/0")).unwrap();
    let running = world.open().await;
    assert_eq!(running.firsts("T", 0), bodies(0..30));
    assert_eq!(world.files("consumequeue"), before);
    running.close().await;
    std::fs::remove_dir_all(world.path("consumequeue")).unwrap();
    let running = world.open().await;
    assert_eq!(running.firsts("T", 1), bodies(0..30));
    assert_eq!(world.files("consumequeue"), before);
}

/// STO-6: a zero-length or half-made segment file kept the broker from starting.
#[tokio::test]
async fn sto_6_an_unfinished_segment_file_does_not_matter() {
    for len in [0, 100, SEGMENT] {
        let world = World::new(FlushMode::Async);
        let mut running = world.open().await;
        send(&mut running, 0, 0..10).await;
        kill(running);
        let path = world.path("commitlog").join(format!("{SEGMENT:020}"));
        std::fs::write(&path, vec![0; len as usize]).unwrap();
        let mut running = world.open().await;
        assert!(!running.report.repairs.is_empty(), "there is a notice");
        send(&mut running, 0, 10..60).await;
        assert_eq!(running.firsts("T", 0), bodies(0..60));
    }
}

/// STO-7: messages whose checksum is 0 were reported as corrupt.
#[tokio::test]
async fn sto_7_a_checksum_of_zero_is_a_checksum() {
    let zero = [0x9D, 0x0A, 0xD9, 0x6D];
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    let first = running.send("T", 0, &zero).await.unwrap();
    let second = running.send("T", 0, &zero).await.unwrap();
    assert_eq!(first.physical.0, 0);
    kill(running);
    overwrite(&world, "commitlog/00000000000000000000", second.physical.0 + 88, &[1]);
    let running = world.open().await;
    assert_eq!(running.bodies("T", 0), [zero], "the whole one survives, the changed one does not");
    assert!(matches!(&running.report.repairs[..], [Repair::TailCut { at, .. }, ..] if *at == second.physical));
}

/// STO-8: a clean stop while dispatch was behind lost messages for consumers.
#[tokio::test]
async fn sto_8_closing_writes_all_queues() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    send(&mut running, 0, 0..100).await;
    running.close().await;
    assert_eq!(world.open().await.firsts("T", 0), bodies(0..100));
}

/// Bytes behind the cut may look like records; they must not come back when the log grows up to them.
#[tokio::test]
async fn records_behind_a_torn_one_never_come_back() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    send(&mut running, 0, 0..3).await;
    let torn = running.send("T", 0, &[3; 50]).await.unwrap();
    send(&mut running, 0, 4..8).await;
    kill(running);
    overwrite(&world, "commitlog/00000000000000000000", torn.physical.0 + 90, &[9]);
    let mut running = world.open().await;
    assert_eq!(running.firsts("T", 0), bodies(0..3));
    // As long as the torn one: what follows it on disk begins where this one ends.
    send(&mut running, 0, 200..201).await;
    kill(running);
    let running = world.open().await;
    assert_eq!(running.firsts("T", 0), [bodies(0..3), bodies(200..201)].concat());
    assert_eq!(running.range("T", 0), (0, 4));
}

/// The log lost records that queues, and perhaps the table of their lengths, still know.
#[tokio::test]
async fn entries_of_lost_records_are_cut() {
    for in_table in [false, true] {
        let world = World::new(FlushMode::Async);
        let mut running = world.open().await;
        send(&mut running, 0, 0..20).await;
        let lost = running.send("T", 0, &[20; 50]).await.unwrap();
        running.sync().await.unwrap();
        if in_table {
            running.maintain(START + 20_000).await;
        }
        send(&mut running, 0, 21..25).await;
        running.maintain(START + 20_001).await;
        kill(running);
        let zeros = vec![0; (SEGMENT - lost.physical.0 % SEGMENT) as usize];
        overwrite(&world, "commitlog/00000000000000000000", lost.physical.0, &zeros);
        let mut running = world.open().await;
        assert_eq!(running.firsts("T", 0), bodies(0..20));
        send(&mut running, 0, 30..32).await;
        running.close().await;
        let running = world.open().await;
        assert_eq!(running.firsts("T", 0), [bodies(0..20), bodies(30..32)].concat());
    }
}

#[tokio::test]
async fn wrong_entries_are_replaced() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    send(&mut running, 0, 0..20).await;
    running.close().await;
    let before = world.files("consumequeue");
    // An older broker appended an entry one place too early.
    overwrite(&world, "consumequeue/T/0/00000000000000000160", 20, &[0, 0, 0, 0, 0, 0, 0, 7]);
    std::fs::remove_file(world.path("queueTable")).unwrap();
    let running = world.open().await;
    assert!(matches!(&running.report.repairs[..], [Repair::EntriesReplaced { count: 1, .. }]));
    assert_eq!(running.firsts("T", 0), bodies(0..20));
    assert_eq!(world.files("consumequeue"), before);
}

#[tokio::test]
async fn damage_in_the_middle_keeps_what_follows() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    send(&mut running, 0, 0..10).await;
    let damaged = running.send("T", 0, &[10; 50]).await.unwrap();
    send(&mut running, 0, 11..90).await;
    running.close().await;
    overwrite(&world, "commitlog/00000000000000000000", damaged.physical.0 + 4, &[0; 4]);
    std::fs::remove_file(world.path("queueTable")).unwrap();
    let running = world.open().await;
    assert!(matches!(&running.report.repairs[0], Repair::Damage { at, .. } if *at == damaged.physical));
    let kept = running.firsts("T", 0);
    assert_eq!(running.range("T", 0), (0, 90));
    assert_eq!(kept, [bodies(0..10), bodies(11..90)].concat(), "only the damaged one is gone");
}

/// A pull leaves it out, and the log says where it was; however often it is asked for, not more than once in 10 s.
#[tokio::test]
async fn a_damaged_message_that_is_left_out_is_told() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    send(&mut running, 0, 0..5).await;
    let damaged = running.send("T", 0, &[5; 50]).await.unwrap();
    send(&mut running, 0, 6..10).await;
    overwrite(&world, "commitlog/00000000000000000000", damaged.physical.0 + 4, &[0; 4]);
    let lines = logged(|| {
        for _ in 0..3 {
            assert_eq!(running.firsts("T", 0).len(), 9);
        }
    });
    let told: Vec<_> = lines.lines().filter(|line| line.contains("WARN")).collect();
    let [told] = told[..] else { panic!("{lines}") };
    let place = format!("topic=\"T\" queue=0 offset=5 position={}", damaged.physical.0);
    assert!(told.contains(&place), "{told}");
}

/// A queue file that holds only fillers made RocketMQ skip all later records.
#[tokio::test]
async fn a_queue_of_only_fillers_is_filled() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    send(&mut running, 0, 0..5).await;
    running.close().await;
    let filler = metaq::store::QueueEntry::FILLER.encode().repeat(8);
    overwrite(&world, "consumequeue/T/0/00000000000000000000", 0, &filler);
    for table in [true, false] {
        if !table {
            std::fs::remove_file(world.path("queueTable")).unwrap();
        }
        let running = world.open().await;
        assert_eq!(running.firsts("T", 0), bodies(0..5));
        running.close().await;
    }
}

#[tokio::test]
async fn recovery_is_idempotent() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    send(&mut running, 0, 0..70).await;
    kill(running);
    let first = world.open().await;
    let (end, queues) = (first.report.log_end, world.files("consumequeue"));
    kill(first);
    let second = world.open().await;
    assert_eq!((second.report.log_end, world.files("consumequeue")), (end, queues));
    assert_eq!(second.firsts("T", 0), bodies(0..70));
}

#[tokio::test]
async fn what_does_not_belong_is_refused_with_its_name() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    send(&mut running, 0, 0..120).await;
    running.close().await;
    std::fs::write(world.path("commitlog/notes.txt"), b"x").unwrap();
    assert!(matches!(world.try_open().await, Err(OpenError::Foreign { path, .. }) if path.ends_with("notes.txt")));
    std::fs::remove_file(world.path("commitlog/notes.txt")).unwrap();
    std::fs::remove_file(world.path("commitlog").join(format!("{SEGMENT:020}"))).unwrap();
    assert!(matches!(world.try_open().await, Err(OpenError::Gap { expected: SEGMENT, .. })));
}

/// A deleted topic's directory that a power cut brought back is nothing a new topic of that name begins with.
#[tokio::test]
async fn a_deleted_topic_does_not_come_back() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    send(&mut running, 0, 0..20).await;
    running.sync().await.unwrap();
    running.maintain(START + 20_000).await;
    let directory = world.path("consumequeue/T");
    let kept = world.files("consumequeue/T");
    running.store.delete_topic("T").await.unwrap();
    running.maintain(START + 20_010).await;
    kill(running);
    std::fs::create_dir_all(directory.join("0")).unwrap();
    for (path, bytes) in kept {
        std::fs::write(path, bytes).unwrap();
    }
    let mut running = world.open().await;
    assert_eq!(running.range("T", 0), (0, 0));
    send(&mut running, 0, 50..53).await;
    running.close().await;
    std::fs::remove_file(world.path("queueTable")).unwrap();
    let running = world.open().await;
    assert_eq!(running.firsts("T", 0), bodies(50..53), "the newer records count");
}

/// Another file size than the store was written with would scatter the queues.
#[tokio::test]
async fn another_queue_file_size_is_refused() {
    let mut world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    send(&mut running, 0, 0..30).await;
    running.close().await;
    for size in [80, 320] {
        world.options.queue_file_size = size;
        let refused = world.try_open().await.err().expect("it is not opened").to_string();
        assert!(refused.contains("mappedFileSizeConsumeQueue"), "{refused}");
    }
    world.options.queue_file_size = super::support::QUEUE_FILE;
    assert_eq!(world.open().await.firsts("T", 0), bodies(0..30));
}

/// The number in the queue is covered by no checksum.
#[tokio::test]
async fn a_damaged_queue_offset_costs_one_message() {
    for number in [1 << 48, 2, 0] {
        let world = World::new(FlushMode::Async);
        let mut running = world.open().await;
        send(&mut running, 0, 0..10).await;
        let damaged = running.send("T", 0, &[10; 50]).await.unwrap();
        send(&mut running, 0, 11..20).await;
        kill(running);
        let at = damaged.physical.0 + 20;
        overwrite(&world, "commitlog/00000000000000000000", at, &u64::to_be_bytes(number));
        let running = world.open().await;
        assert!(running.report.repairs.iter().any(|repair| matches!(repair, Repair::ImpossibleOffset { .. })));
        assert_eq!(running.firsts("T", 0), [bodies(0..10), bodies(11..20)].concat());
        assert_eq!(running.range("T", 0), (0, 20));
    }
}

/// Retention can only make room in a store that opens.
#[tokio::test]
async fn a_full_disk_does_not_keep_the_store_from_opening() {
    use std::sync::atomic::Ordering;
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    send(&mut running, 0, 0..20).await;
    running.sync().await.unwrap();
    running.maintain(START + 20_000).await;
    send(&mut running, 0, 20..30).await;
    send(&mut running, 1, 0..10).await;
    kill(running);
    world.disk.faults.queues_full.store(true, Ordering::Relaxed);
    let running = world.open().await;
    assert_eq!(running.firsts("T", 0), bodies(0..30));
    assert_eq!(running.firsts("T", 1), bodies(0..10));
    kill(running);
    let mut running = world.open().await;
    world.disk.faults.queues_full.store(false, Ordering::Relaxed);
    send(&mut running, 0, 30..31).await;
    running.close().await;
    let running = world.open().await;
    assert_eq!((running.firsts("T", 0), running.firsts("T", 1)), (bodies(0..31), bodies(0..10)));
}

/// A queue without any message left, whose files are lost as well: its numbers go on all the same.
#[tokio::test]
async fn lost_files_of_an_expired_queue_do_not_reset_its_offsets() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    send(&mut running, 1, 0..7).await;
    send(&mut running, 0, 0..100).await;
    running.sync().await.unwrap();
    running.maintain(START + 20_000).await;
    running.store.delete_oldest_segments(2).await.unwrap();
    assert_eq!(running.range("T", 1), (7, 7));
    running.close().await;
    std::fs::remove_dir_all(world.path("consumequeue/T/1")).unwrap();
    let mut running = world.open().await;
    assert_eq!(running.range("T", 1), (7, 7));
    send(&mut running, 1, 50..51).await;
    running.close().await;
    let running = world.open().await;
    assert_eq!((running.range("T", 1), running.firsts("T", 1)), ((7, 8), vec![50]));
}

/// After a failed sync the kernel takes pages for clean that the device does not have; a later sync proves nothing.
#[tokio::test]
async fn queues_whose_sync_failed_once_are_never_called_synced() {
    use std::sync::atomic::Ordering;
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    send(&mut running, 0, 0..10).await;
    running.sync().await.unwrap();
    world.disk.faults.syncs_fail.store(true, Ordering::Relaxed);
    running.maintain(START + 20_000).await;
    world.disk.faults.syncs_fail.store(false, Ordering::Relaxed);
    running.maintain(START + 40_000).await;
    assert!(running.writer.close().await.is_err());
    assert!(!world.path("queueTable").exists());
    let running = world.open().await;
    assert_eq!((running.report.exit, running.report.records_read), (Exit::Unclean, 10));
    assert_eq!(running.firsts("T", 0), bodies(0..10));
}

/// A bad sector is no reason to guess: the start says where it is and what can be done.
#[tokio::test]
async fn a_place_that_cannot_be_read_is_named() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    send(&mut running, 0, 0..10).await;
    kill(running);
    world.disk.faults.log_reads_fail.store(true, Ordering::Relaxed);
    let refused = world.try_open().await.err().expect("it is not opened");
    let text = refused.to_string();
    assert!(text.starts_with("cannot read ") && text.contains(&format!("commitlog/{:020} at byte 0: ", 0)), "{text}");
    assert_eq!(text.matches("Input/output error").count(), 1, "{text}");
    assert!(std::error::Error::source(&refused).is_none(), "its cause would be told twice");
    assert!(refused.hint().is_some_and(|hint| hint.contains("dd conv=noerror,sync")));
    world.disk.faults.log_reads_fail.store(false, Ordering::Relaxed);
    assert_eq!(world.open().await.firsts("T", 0), bodies(0..10));
}
