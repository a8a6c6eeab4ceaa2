//! The store alone: a writer appends and syncs, a consumer reads, the process or the power goes at any moment, and the
//! store is opened again. Cases DSK and STO of the field faults begin like this.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use metaq::config::broker::FlushDiskType;
use metaq::env::Env;
use metaq::proto::message::record::{iterate, BodyCrc};
use metaq::proto::QueueOffset;
use metaq::store::{open, EntryForFilter, FlushMode, ReadLimits, Store, StoreOptions};

use crate::checkers::{acknowledged_kept, all_delivered, nothing_read_early, offsets_dense, stored_once, Violation};
use crate::client::{check_properties, message_of};
use crate::draft::Draft;
use crate::faults::{heal, DiskFault, Draw, Fault, ProcessFault};
use crate::history::{Event, Message, Queue};
use crate::plan::Plan;
use crate::scenarios::{Scenario, Verdict};
use crate::stage::begin_faults;
use crate::store_process::{StoreProcess, StoreWork};
use crate::world::{NodeId, World};

/// SYNC_FLUSH and power cuts.
pub const POWER_CUT: Scenario = Scenario {
    name: "store_power_cut",
    story: "SYNC_FLUSH: the power goes at any moment; nothing acknowledged is lost, nothing was read too early",
    draft: |d| draft(d, FlushDiskType::SyncFlush, &["power_cut", "power_cut", "kill"]),
    play: |world, plan| run(world, plan).boxed_local(),
};

/// Long lives, in which everything that is saved now and then is saved.
pub const LONG: Scenario = Scenario {
    name: "store_long",
    story: "SYNC_FLUSH: the power goes after a long life; what was saved on the side agrees with the log",
    draft: |d| {
        settings(d, FlushDiskType::SyncFlush);
        d.producers(1..=1, 600..=1_200, &[50]).faults(1..=2, &["power_cut"]);
        // Queue files are synced, and their table is saved, after ten seconds.
        let mut random = d.random("late");
        d.each_fault(|timed| timed.at_us = random.between(10_000_000, 14_000_000));
    },
    play: |world, plan| run(world, plan).boxed_local(),
};

/// Messages that reach over several sectors.
pub const TORN: Scenario = Scenario {
    name: "store_torn",
    story: "SYNC_FLUSH: the power goes while large messages are written; none is taken for whole that is not",
    draft: |d| {
        settings(d, FlushDiskType::SyncFlush);
        d.producers(1..=1, 50..=200, &[1]).faults(2..=5, &["power_cut"]);
        // Of small ones it is the properties that reach that far.
        let small = d.random("small").below(3) == 0;
        d.sizes(if small { 8..=40 } else { 1_000..=3_500 });
    },
    play: |world, plan| run(world, plan).boxed_local(),
};

/// A disk that stalls, so that much is written and nothing is synced when the power goes.
pub const STALLED: Scenario = Scenario {
    name: "store_stalled",
    story: "SYNC_FLUSH: the power goes while the disk stalls; queues, index and log still agree",
    draft: |d| {
        settings(d, FlushDiskType::SyncFlush);
        d.producers(1..=1, 100..=400, &[10]);
        d.chained(1..=3, "stalls", [stall, cut], 1_000_000);
    },
    play: |world, plan| run(world, plan).boxed_local(),
};

fn stall(d: &mut Draw<'_>) -> Fault {
    Fault::Disk(DiskFault::Stall { machine: d.broker(), for_us: d.random.between(1_000_000, 3_000_000) })
}

fn cut(d: &mut Draw<'_>) -> Fault {
    Fault::Process(ProcessFault::PowerCut { machine: d.broker(), down_us: d.us_up_to(1_000) })
}

/// ASYNC_FLUSH and the end of the process.
pub const KILL: Scenario = Scenario {
    name: "store_kill",
    story: "ASYNC_FLUSH: the process dies at any moment; nothing acknowledged is lost",
    draft: |d| draft(d, FlushDiskType::AsyncFlush, &["kill"]),
    play: |world, plan| run(world, plan).boxed_local(),
};

/// ASYNC_FLUSH and power cuts.
pub const ASYNC_POWER_CUT: Scenario = Scenario {
    name: "store_async_power_cut",
    story: "ASYNC_FLUSH: the power goes at any moment; the store opens, with dense offsets and no damaged message",
    draft: |d| draft(d, FlushDiskType::AsyncFlush, &["power_cut", "power_cut", "kill"]),
    play: |world, plan| run(world, plan).boxed_local(),
};

/// The topic.
pub const TOPIC: &str = "orders";
/// Its queues.
pub const QUEUES: u32 = 3;
/// The consumer group.
pub const GROUP: &str = "billing";

/// One producer, whose messages the process writes itself, and lives of very different lengths.
fn draft(d: &mut Draft, flush: FlushDiskType, kinds: &[&str]) {
    settings(d, flush);
    d.producers(1..=1, 30..=600, &[1, 1, 10]).faults(1..=4, kinds);
}

/// Files that are soon full.
fn settings(d: &mut Draft, flush: FlushDiskType) {
    let mut random = d.random("store");
    d.flush(&[flush]).set("mappedFileSizeCommitLog", *random.pick(&[8, 16, 32, 64]) << 10);
    d.set("mappedFileSizeConsumeQueue", 20 * *random.pick(&[8, 32, 256])).set("maxMessageSize", 4096);
    d.set("maxHashSlotNum", 16).set("maxIndexNum", 64);
}

/// The store's part of the brokers' settings.
fn options(plan: &Plan) -> StoreOptions {
    let config = plan.config().unwrap_or_default();
    let mut options = StoreOptions::new("/data/store");
    options.segment_size = config.mapped_file_size_commit_log;
    options.queue_file_size = config.mapped_file_size_consume_queue;
    (options.index_slots, options.index_entries) = (config.max_hash_slot_num, config.max_index_num);
    options.max_message_size = config.max_message_size;
    options.flush = if plan.is_sync_flush() { FlushMode::Sync } else { FlushMode::Async };
    options
}

async fn run(world: World, plan: Arc<Plan>) -> Verdict {
    let node = world.add_node("broker-0");
    world.env(node).disk.create_dir_all(Path::new("/data")).expect("the disk is empty");
    world.disk(node).settle();
    let options = options(&plan);
    let work = StoreWork::new(plan.clients.iter().flat_map(|client| client.sends().to_vec()));
    let (again, lives) = (options.clone(), work.clone());
    world.set_program(node, move |world| {
        let process = StoreProcess::new(world.clone(), node, again.clone(), lives.clone());
        world.spawn(node, process.run());
    });
    world.run_program(node);
    begin_faults(&world, &plan);
    // The work may be done before the last fault; a process that only does the upkeep must survive too.
    while !work.is_done() || world.now() < world.began() + plan.faults_end() {
        world.sleep(Duration::from_millis(10)).await;
    }
    heal(&world);
    world.sleep(Duration::from_millis(100)).await;
    world.kill(node);
    world.restart(node);
    settle(&world, node, &options).await?;
    let events = world.history().events();
    if plan.may_lose() {
        // Unsynced messages may be gone and their offsets be given out again.
        let last: Vec<Event> = events.into_iter().filter(|event| matches!(event, Event::Found(..))).collect();
        return offsets_dense(&last);
    }
    acknowledged_kept(&events)?;
    stored_once(&events)?;
    offsets_dense(&events)?;
    nothing_read_early(&events)
}

/// Opens the store without further faults, reads everything as a last consumer would, and opens it once more: the
/// second recovery must find what the first one left.
async fn settle(world: &World, node: NodeId, options: &StoreOptions) -> Verdict {
    let contents = contents(world, world.env(node), options).await?;
    for event in &contents {
        world.history().add(node, event.clone());
    }
    world.kill(node);
    world.restart(node);
    let again = self::contents(world, world.env(node), options).await?;
    if contents != again {
        return Err(Violation::new("recovery is idempotent", "a second recovery found other messages"));
    }
    all_delivered(&contents, &[])
}

async fn contents(world: &World, env: Env, options: &StoreOptions) -> Result<Vec<Event>, Violation> {
    let opened =
        open(&env, options.clone()).await.map_err(|error| Violation::new("the store opens", error.to_string()))?;
    for repair in &opened.report.repairs {
        world.note(NodeId::WORLD, "repair", &[], &repair.to_string());
    }
    let mut events = Vec::new();
    for id in 0..QUEUES {
        let mut next = 0;
        while let Some((from, message)) = read_one(&opened.store, id, next)? {
            events.push(Event::Found(message, (Queue::new("broker", TOPIC, id), from)));
            next = from + 1;
        }
        let (min, max) = opened.store.queue(TOPIC, id).map_or((0, 0), |queue| (queue.min().0, queue.max().0));
        if next.max(min) != max {
            let finding = format!("queue {id} says it has {min} to {max}, its last message is before {next}");
            return Err(Violation::new("queues and log agree", finding));
        }
    }
    Ok(events)
}

/// The message at `from`, or at the queue's beginning if that is later, with its offset.
pub fn read_one(store: &Arc<Store>, id: u32, from: u64) -> Result<Option<(u64, Message)>, Violation> {
    let Some(queue) = store.queue(TOPIC, id) else { return Ok(None) };
    let from = queue.min().max(QueueOffset(from));
    let mut out = Vec::new();
    let limits = ReadLimits::new(1, 1);
    let broken = |finding: String| Violation::new("reads give what was written", finding);
    let read = store.read(&queue, from, &limits, &mut |_: &EntryForFilter| true, &mut out);
    read.map_err(|error| broken(format!("offset {} of queue {id}: {error}", from.0)))?;
    match iterate(&out, BodyCrc::Verify).next() {
        None => Ok(None),
        Some(Err(error)) => Err(broken(format!("offset {} of queue {id}: {error}", from.0))),
        Some(Ok(record)) => {
            let message = message_of(&record).map_err(broken)?;
            check_properties(&record, message).map_err(broken)?;
            Ok(Some((record.queue_offset().0, message)))
        }
    }
}
