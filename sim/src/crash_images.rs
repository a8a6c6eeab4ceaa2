//! Every image that a power cut can leave, for short sequences of operations of the store: not some of them, all.

use std::path::Path;
use std::time::Duration;

use metaq::env::Env;
use metaq::proto::message::encode::{encode_record, NewRecord};
use metaq::store::config_file::ConfigFile;
use metaq::store::{open, AppendBatch, FlushMode, LogWriter, Progress, StoreOptions};

use crate::client::{body_of, properties_of};
use crate::disk::Odometer;
use crate::scenarios::store_crash::{read_one, TOPIC};
use crate::testing::simulate;
use crate::world::{NodeId, World};

/// More images than this are too many for a test: make the sequence shorter.
const IMAGES_MAX: usize = 3_000;

/// Properties of most messages.
const KEY: &str = "KEYS\u{1}k\u{2}";

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Appends a message whose body has this many bytes.
    Append(usize),
    /// Appends a message with a body of 8 bytes whose properties have this many.
    Properties(usize),
    /// Syncs the log and so acknowledges everything.
    Sync,
    /// Writes queue entries to their files.
    Upkeep,
    /// Brings everything to the device.
    Settle,
    /// Writes index entries.
    Index,
    /// Waits until the queue table and the checkpoint are due, and saves them.
    Table,
    /// Closes the store; nothing comes behind it.
    Close,
}
use Step::{Append, Close, Index, Properties, Settle, Sync, Table, Upkeep};

fn options() -> StoreOptions {
    let mut options = StoreOptions::new("/data/store");
    (options.segment_size, options.queue_file_size) = (2_048, 20 * 8);
    (options.index_slots, options.index_entries) = (16, 64);
    (options.max_message_size, options.flush) = (1_200, FlushMode::Sync);
    options
}

async fn append(env: &Env, writer: &mut LogWriter, message: u64, len: usize, properties: &str) {
    let record = NewRecord {
        topic: TOPIC,
        queue_id: 0,
        flag: 0,
        sys_flag: 0,
        born_timestamp: env.clock.now(),
        born_host: ([10, 0, 0, 9], 40_000).into(),
        store_host: ([10, 0, 0, 1], 10_911).into(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: &body_of(message, len),
        properties,
        edits: &[],
    };
    let mut batch = AppendBatch::default();
    encode_record(&mut batch.bytes, &record).unwrap();
    let queue = writer.store().queue_or_create(TOPIC, 0).unwrap();
    batch.push(0, queue, writer.store().tags_code(TOPIC, ""));
    let mut results = Vec::new();
    if writer.append(&mut batch, &mut results) == Progress::NeedsSegment {
        writer.finish_append(&mut batch, &mut results).await;
    }
    assert_eq!(results.remove(0).unwrap().queue_offset.0, message);
}

/// Carries the steps out and cuts the power; messages are numbered like their offsets. Gives the number of those that
/// were appended and of those that were acknowledged.
async fn run(world: &World, node: NodeId, steps: &[Step], odometer: &mut Odometer) -> (u64, u64) {
    let env = world.env(node);
    env.disk.create_dir_all(Path::new("/data")).unwrap();
    let opened = open(&env, options()).await.unwrap();
    let (mut writer, mut dispatcher) = (opened.writer, opened.dispatcher);
    let (mut appended, mut acknowledged) = (0, 0);
    for step in steps {
        match step {
            Append(len) => {
                append(&env, &mut writer, appended, *len, KEY).await;
                appended += 1;
            }
            Properties(len) => {
                append(&env, &mut writer, appended, 8, &properties_of(appended, *len)).await;
                appended += 1;
            }
            Sync => {
                let sync = writer.start_sync().expect("something to sync");
                writer.finish_sync(sync.await).unwrap();
                acknowledged = appended;
            }
            Upkeep => {
                for job in writer.maintain(env.clock.now()) {
                    writer.finish_job(job.await);
                }
            }
            Settle => world.disk(node).settle(),
            Index => {
                dispatcher.drain(env.clock.now()).unwrap();
                // Entries wait for a second before they go to the file.
                world.sleep(Duration::from_millis(1_100)).await;
                dispatcher.drain(env.clock.now()).unwrap();
            }
            Table => {
                world.sleep(Duration::from_secs(11)).await;
                for _ in 0..2 {
                    for job in writer.maintain(env.clock.now()) {
                        writer.finish_job(job.await);
                    }
                }
            }
            Close => {
                writer.close().await.unwrap();
                acknowledged = appended;
                break;
            }
        }
    }
    world.power_cut_by(node, odometer);
    world.restart(node);
    (appended, acknowledged)
}

/// Opens what is left: all acknowledged messages are there, those behind them are the next ones without a gap, and the
/// store takes another.
async fn check(world: &World, node: NodeId, appended: u64, acknowledged: u64) {
    let env = world.env(node);
    let opened = open(&env, options()).await.unwrap();
    let mut next = 0;
    while let Some((offset, message)) = read_one(&opened.store, 0, next).unwrap() {
        assert_eq!((offset, message), (next, next), "a gap or a message in a foreign place");
        next += 1;
    }
    assert!(acknowledged <= next && next <= appended, "{acknowledged} acknowledged, {next} there, {appended} appended");
    let mut writer = opened.writer;
    append(&env, &mut writer, next, 8, KEY).await;
}

/// The number of images, all of which were recovered.
fn images(steps: &[Step]) -> usize {
    let mut odometer = Odometer::default();
    for count in 1.. {
        assert!(count <= IMAGES_MAX, "too many images of {steps:?}");
        let choices = &mut odometer;
        simulate(1, |world| async move {
            let node = world.add_node("broker");
            let (appended, acknowledged) = run(&world, node, steps, choices).await;
            check(&world, node, appended, acknowledged).await;
        });
        if !odometer.advance() {
            return count;
        }
    }
    unreachable!("the loop counts for ever")
}

#[test]
fn unsynced_messages_come_whole_and_in_a_row_or_not_at_all() {
    let sizes = [8, 150, 60, 200, 8, 100, 8, 100, 40].map(Append);
    assert!(images(&[&[Append(8), Sync, Settle], &sizes[..]].concat()) >= 200);
}

/// No checksum covers properties.
#[test]
fn properties_come_whole_or_not_at_all() {
    let sizes = [Properties(400), Properties(330), Append(8), Properties(390), Properties(100), Append(100)];
    assert!(images(&[&[Append(8), Sync, Settle], &sizes[..]].concat()) >= 50);
    // Two sectors of one record with nothing but properties in them.
    let alone = [Append(8), Settle, Properties(1_100), Append(8)];
    assert!(images(&alone) >= 8);
}

#[test]
fn a_synced_message_survives_whatever_happens_behind_it() {
    let behind = [265, 8, 8, 8, 393, 8].map(Append);
    assert!(images(&[&[Append(286), Settle, Append(8), Sync], &behind[..]].concat()) >= 90);
}

#[test]
fn a_new_segment_is_there_before_its_first_message_counts() {
    let behind = [400, 300, 8, 400, 8].map(Append);
    assert!(images(&[&[Append(400), Append(400), Sync, Settle], &behind[..]].concat()) >= 100);
    assert!(images(&[&[Append(400), Append(400), Settle, Append(400), Sync], &behind[..]].concat()) >= 100);
}

#[test]
fn queue_files_land_in_any_way() {
    assert!(images(&[Append(8), Append(8), Sync, Settle, Upkeep, Append(8), Upkeep]) >= 90);
    let twice = [Append(8), Upkeep, Settle, Append(8), Sync, Upkeep, Append(8), Append(8), Append(100), Upkeep];
    assert!(images(&twice) >= 9);
}

#[test]
fn an_index_lands_in_any_way() {
    assert!(images(&[Append(8), Append(8), Sync, Upkeep, Settle, Append(8), Sync, Index]) >= 2);
    assert!(images(&[Append(8), Sync, Index, Settle, Append(8), Sync, Index, Append(8)]) >= 2);
}

#[test]
fn a_queue_table_vouches_for_nothing_that_can_be_lost() {
    let before = [Append(8), Append(8), Sync, Settle, Append(8), Sync];
    assert!(images(&[&before[..], &[Table, Append(8), Append(200)]].concat()) >= 4);
    assert!(images(&[&before[..], &[Table, Append(8), Sync, Upkeep, Append(8)]].concat()) >= 4);
}

#[test]
fn a_closed_store_has_nothing_to_lose() {
    assert!(images(&[Append(8), Append(400), Sync, Append(8), Upkeep, Append(8), Close]) >= 1);
}

/// A config file is a complete version at every moment of a save, and after it the new one.
#[test]
fn config_files_are_complete_at_every_moment() {
    const PATH: &str = "/data/topics.json";
    let parse = |bytes: &[u8]| match bytes {
        [b'v', version, rest @ ..] if rest.len() == 3_000 => Ok(*version),
        _ => Err("incomplete"),
    };
    let version = |number: u8| [&[b'v', number][..], &[number; 3_000]].concat();
    let mut images = 0;
    for moment in 0..40 {
        let mut odometer = Odometer::default();
        loop {
            let choices = &mut odometer;
            simulate(1, |world| async move {
                let (node, saved) = (world.add_node("broker"), std::cell::Cell::new(1));
                let env = world.env(node);
                env.disk.create_dir_all(Path::new("/data")).unwrap();
                let (mut file, _) = ConfigFile::open(env.disk.clone(), PATH.into(), 10_000, parse).unwrap();
                file.save(&version(1)).await.unwrap();
                world.disk(node).settle();
                let saving = async {
                    for number in 2..=4 {
                        file.save(&version(number)).await.unwrap();
                        saved.set(number);
                    }
                };
                let stop = world.sleep(Duration::from_micros(moment * 40));
                futures::future::select(std::pin::pin!(saving), stop).await;
                world.power_cut_by(node, choices);
                world.restart(node);
                let disk = world.env(node).disk;
                let (_, loaded) = ConfigFile::open(disk, PATH.into(), 10_000, parse).unwrap();
                let there = loaded.into_value().expect("some version");
                assert!((saved.get()..=saved.get() + 1).contains(&there), "{there}, saved {}", saved.get());
            });
            images += 1;
            if !odometer.advance() {
                break;
            }
        }
    }
    assert!(images >= 100, "{images}");
}
