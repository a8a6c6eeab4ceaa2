//! The power goes at any moment: what was synced is there, of everything else any part may be, torn or whole.

use std::collections::BTreeMap;

use metaq::env::Millis;
use metaq::proto::PhysicalOffset;
use metaq::store::{FlushMode, StoreError};

use super::support::{message, Running, World, START};
use crate::mem_disk::MemDisk;

/// Lives of one store, each ended by a power cut.
const LIVES: u64 = 4;
const SEEDS: u64 = 100;

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// What was sent to one queue: bodies by offset, with where each record ends, and the least that has to be there.
#[derive(Default)]
struct Sent {
    messages: Vec<(Vec<u8>, PhysicalOffset)>,
    min: u64,
}

type Model = BTreeMap<u32, Sent>;

/// Everything that was flushed is there, in order and dense; anything later is there up to some point or not at all.
fn check(at: &str, running: &Running, model: &mut Model, flushed: PhysicalOffset) {
    for (id, sent) in model {
        let synced = sent.messages.iter().take_while(|(_, end)| *end <= flushed).count() as u64;
        let found = running.records("T", *id, |record| (record.queue_offset().0, record.body().to_vec()));
        let (min, max) = running.range("T", *id);
        assert!(max >= synced, "{at}: queue {id} lost a flushed message: {max} < {synced}: {:?}", running.report);
        assert!(max <= sent.messages.len() as u64, "{at}: queue {id} holds more than was sent");
        assert!(
            min <= sent.min.max(synced),
            "{at}: queue {id} begins at {min} > {}, max {max}, synced {synced}, {:?}",
            sent.min,
            running.report
        );
        let expected: Vec<_> = (min..max).map(|at| (at, sent.messages[at as usize].0.clone())).collect();
        assert!(found == expected, "{at}: queue {id} {min}..{max} is not what was sent: {:?}", running.report);
        sent.messages.truncate(max as usize);
        sent.min = min;
    }
}

/// A life of the store: sends, syncs and upkeep in any order. Returns up to where the log was flushed.
async fn live(dice: &mut Dice, running: &mut Running, model: &mut Model) -> Result<(), StoreError> {
    let mut now = START;
    for _ in 0..dice.roll(60) {
        match dice.roll(13) {
            0..=6 => {
                let id = dice.roll(3) as u32;
                let body: Vec<u8> = (0..dice.roll(4) * 60 + 4).map(|_| dice.roll(256) as u8).collect();
                let stored = running.send_with(&message("T", id as i32, &body, "KEYS\u{1}k\u{2}")).await?;
                let sent = model.entry(id).or_default();
                assert_eq!(stored.queue_offset.0, sent.messages.len() as u64);
                sent.messages.push((body, stored.end));
            }
            7 | 8 => running.sync().await?,
            9 => {
                now += 400 * dice.roll(40) as i64;
                running.maintain(now).await;
            }
            10 => running.dispatcher.drain(Millis(now)).unwrap(),
            11 if dice.roll(8) == 0 => {
                running.store.delete_topic("T").await?;
                model.values_mut().for_each(|sent| *sent = Sent::default());
            }
            _ if dice.roll(4) == 0 => {
                running.store.delete_oldest_segments(1).await?;
                for (id, sent) in &mut *model {
                    sent.min = running.range("T", *id).0;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The store on this disk, opened.
async fn open_on(disk: &MemDisk, flush: FlushMode) -> (World, Running) {
    let mut world = World::on(disk.door(), tempfile::tempdir().unwrap(), flush);
    world.options.root = "/store".into();
    world.options.commit_log_dir = "/store/commitlog".into();
    world.options.segment_size = 2048;
    let running = world.open().await;
    (world, running)
}

async fn run(seed: u64) {
    let mut dice = Dice(seed);
    let flush = if seed.is_multiple_of(2) { FlushMode::Sync } else { FlushMode::Async };
    let mut disk = MemDisk::new();
    let mut model = Model::new();
    for life in 0..LIVES {
        let (_world, mut running) = open_on(&disk, flush).await;
        let flushed = running.store.flushed();
        check(&format!("seed {seed} life {life} start"), &running, &mut model, flushed);
        live(&mut dice, &mut running, &mut model).await.unwrap();
        let flushed = running.store.flushed();
        if dice.roll(5) == 0 {
            running.close().await;
            disk = disk.durable();
        } else {
            drop(running);
            // Mostly one kind of loss at a time finds more than all at once.
            let kind = dice.roll(4) as usize;
            disk = disk.power_cut(|| if kind < 3 { kind } else { dice.roll(3) as usize }).durable();
        }
        let before_start = disk.durable();
        let (_world, mut reopened) = open_on(&disk, flush).await;
        check(&format!("seed {seed} life {life} end"), &reopened, &mut model, flushed);
        reopened.dispatcher.drain(Millis(START)).unwrap();
        let living: u64 = model.values().map(|sent| sent.messages.len() as u64 - sent.min).sum();
        let found = reopened.query("T", "k").len() as u64;
        let deleted = disk.get("/store/deletedTopics").is_some();
        // Keys of a deleted topic's messages are found for as long as these are in the log.
        let right = if deleted { found >= living.min(64) } else { found == living.min(64) };
        assert!(right, "seed {seed} life {life}: the index knows {found} messages, the log {living}");
        drop(reopened);
        // The start itself may be cut off as well: the next life begins from what was there before or amidst it.
        disk = match dice.roll(2) {
            0 => before_start,
            _ => disk.power_cut(|| dice.roll(3) as usize).durable(),
        };
    }
}

#[tokio::test]
async fn nothing_flushed_is_ever_lost() {
    for seed in 0..SEEDS {
        run(seed).await;
    }
}
