//! Records that are not as they were written any more, and their repair.

use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use metaq::proto::message::record::{BODY_CRC_AT, MAGIC_AT, PHYSICAL_OFFSET_AT, QUEUE_OFFSET_AT, TOTAL_SIZE_AT};
use metaq::proto::{PhysicalOffset, QueueOffset};
use metaq::store::{FlushMode, ReadLimits, StoreError};

use super::support::{Running, World, START};

const LOG: &str = "commitlog/00000000000000000000";

/// A store that was closed with five messages in it, and where they lie.
async fn closed(world: &World) -> Vec<u64> {
    let mut running = world.open().await;
    for n in 0..5 {
        running.send("T", 0, &[n; 50]).await.unwrap();
    }
    let places = running.offsets("T", 0).iter().map(|(at, _)| at.0).collect();
    running.close().await;
    places
}

/// Flips a bit of the log; gives the byte that was there.
fn rot(world: &World, at: u64) -> u8 {
    let file = std::fs::File::options().read(true).write(true).open(world.path(LOG)).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 4], at).unwrap();
    byte[0]
}

fn try_read(running: &Running, from: u64) -> Result<usize, StoreError> {
    let (queue, mut out) = (running.store.queue("T", 0).unwrap(), Vec::new());
    let limits = ReadLimits::new(32, 1 << 20);
    running.store.read(&queue, QueueOffset(from), &limits, &mut |_: &_| true, &mut out)?;
    Ok(metaq::proto::message::record::iterate(&out, metaq::proto::message::record::BodyCrc::Verify).count())
}

#[tokio::test]
async fn nobody_gets_a_damaged_record() {
    let body = 100;
    for byte in [TOTAL_SIZE_AT + 3, MAGIC_AT, BODY_CRC_AT, QUEUE_OFFSET_AT + 7, PHYSICAL_OFFSET_AT + 7, body] {
        let world = World::new(FlushMode::Async);
        let places = closed(&world).await;
        rot(&world, places[2] + byte as u64);
        let running = world.open().await;
        assert_eq!(running.firsts("T", 0), [0, 1, 3, 4], "byte {byte}");
    }
}

/// Readers stop before it until it is there again, or lost for good.
#[tokio::test]
async fn a_damaged_record_is_waited_for_and_mended() {
    let world = World::new(FlushMode::Async);
    let places = closed(&world).await;
    let good = std::fs::read(world.path(LOG)).unwrap()[places[2] as usize..places[3] as usize].to_vec();
    rot(&world, places[2] + 100);
    let running = world.open().await;
    let told = Arc::new(AtomicUsize::new(0));
    let hears = Arc::clone(&told);
    running.store.on_damage(move || {
        hears.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(try_read(&running, 0).unwrap(), 2, "what stands before it");
    let at = PhysicalOffset(places[2]);
    assert!(matches!(try_read(&running, 2), Err(StoreError::Damaged { at: told }) if told == at));
    assert_eq!((running.store.damaged(), told.load(Ordering::Relaxed)), (vec![at], 1));
    let mut other = good.clone();
    other[PHYSICAL_OFFSET_AT + 7] ^= 1;
    assert!(!running.store.mend(at, &other).await.unwrap(), "written for another place");
    assert!(!running.store.mend(at, &good[..good.len() - 1]).await.unwrap(), "not whole");
    assert!(running.store.mend(at, &good).await.unwrap());
    assert_eq!(running.firsts("T", 0), [0, 1, 2, 3, 4]);
    assert_eq!(running.store.damaged(), []);
}

#[tokio::test]
async fn what_nobody_has_is_passed_over() {
    let world = World::new(FlushMode::Async);
    let places = closed(&world).await;
    rot(&world, places[2] + 100);
    let running = world.open().await;
    running.store.on_damage(|| {});
    assert!(try_read(&running, 2).is_err());
    running.store.give_up_record(PhysicalOffset(places[2]));
    assert_eq!(running.firsts("T", 0), [0, 1, 3, 4]);
}

/// Nobody reads it, and it is found.
#[tokio::test]
async fn the_log_is_looked_through() {
    let world = World::new(FlushMode::Async);
    let places = closed(&world).await;
    rot(&world, places[1] + TOTAL_SIZE_AT as u64 + 2);
    rot(&world, places[3] + 100);
    let running = world.open().await;
    running.store.on_damage(|| {});
    let (end, mut at) = (running.store.end(), PhysicalOffset(0));
    while at < end {
        at = running.store.scrub(at, 1).unwrap();
    }
    assert_eq!(running.store.damaged(), [PhysicalOffset(places[1]), PhysicalOffset(places[3])]);
    assert!(running.store.scrub(at, 1).unwrap() < end, "from the beginning again");
}

/// After a kill the log is read anew. Something synced stands behind the damage, so the log does not end there.
#[tokio::test]
async fn damage_does_not_end_the_log() {
    let world = World::new(FlushMode::Async);
    let mut running = world.open().await;
    for n in 0..5 {
        world.clock.0.store(START + i64::from(n) * 1_000, Ordering::Relaxed);
        running.send("T", 0, &[n; 50]).await.unwrap();
    }
    running.sync().await.unwrap();
    running.maintain(START + 20_000).await;
    world.clock.0.store(START + 30_000, Ordering::Relaxed);
    running.send("T", 0, &[5; 50]).await.unwrap();
    running.sync().await.unwrap();
    let places = running.offsets("T", 0);
    drop(running);
    rot(&world, places[2].0 .0 + 100);
    let running = world.open().await;
    assert_eq!(running.firsts("T", 0), [0, 1, 3, 4, 5]);
}
