//! Every image that a power cut can leave, for short sequences of operations of the store: not some of them, all.

use std::path::Path;

use metaq::env::Env;
use metaq::proto::message::encode::{encode_record, NewRecord};
use metaq::store::{open, AppendBatch, FlushMode, LogWriter, Progress, StoreOptions};

use crate::client::body_of;
use crate::disk::Odometer;
use crate::scenarios::store_crash::{read_one, TOPIC};
use crate::testing::simulate;
use crate::world::{NodeId, World};

/// More images than this are too many for a test: make the sequence shorter.
const IMAGES_MAX: usize = 3_000;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Appends a message whose body has this many bytes.
    Append(usize),
    /// Syncs the log and so acknowledges everything.
    Sync,
    /// Writes queue entries to their files.
    Upkeep,
    /// Brings everything to the device.
    Settle,
}
use Step::{Append, Settle, Sync, Upkeep};

fn options() -> StoreOptions {
    let mut options = StoreOptions::new("/data/store");
    (options.segment_size, options.queue_file_size) = (2_048, 20 * 8);
    (options.index_slots, options.index_entries) = (16, 64);
    (options.max_message_size, options.flush) = (512, FlushMode::Sync);
    options
}

async fn append(env: &Env, writer: &mut LogWriter, message: u64, len: usize) {
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
        properties: "",
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
    let mut writer = open(&env, options()).await.unwrap().writer;
    let (mut appended, mut acknowledged) = (0, 0);
    for step in steps {
        match step {
            Append(len) => {
                append(&env, &mut writer, appended, *len).await;
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
    append(&env, &mut writer, next, 8).await;
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

#[test]
fn a_synced_message_survives_whatever_happens_behind_it() {
    let behind = [300, 8, 8, 8, 400, 8].map(Append);
    assert!(images(&[&[Append(300), Settle, Append(8), Sync], &behind[..]].concat()) >= 90);
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
