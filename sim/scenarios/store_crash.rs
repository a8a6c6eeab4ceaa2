//! The store alone: a writer appends and syncs, a consumer reads, the process or the power goes at any moment, and the
//! store is opened again. Cases DSK and STO of the field faults begin like this.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use metaq::env::Env;
use metaq::proto::message::record::{iterate, BodyCrc};
use metaq::proto::QueueOffset;
use metaq::store::{open, EntryForFilter, FlushMode, ReadLimits, Store, StoreOptions};

use crate::checkers::{acknowledged_kept, all_delivered, nothing_read_early, offsets_dense, stored_once, Violation};
use crate::client::message_of;
use crate::history::{Event, Message, Queue};
use crate::random::Stream;
use crate::scenarios::{Scenario, Verdict};
use crate::store_process::StoreProcess;
use crate::world::{NodeId, World};

/// SYNC_FLUSH and power cuts.
pub const POWER_CUT: Scenario = Scenario {
    name: "store_power_cut",
    story: "SYNC_FLUSH: the power goes at any moment; nothing acknowledged is lost, nothing was read too early",
    run: |world| run(world, FlushMode::Sync, Loss::Power).boxed_local(),
};

/// ASYNC_FLUSH and the end of the process.
pub const KILL: Scenario = Scenario {
    name: "store_kill",
    story: "ASYNC_FLUSH: the process dies at any moment; nothing acknowledged is lost",
    run: |world| run(world, FlushMode::Async, Loss::Process).boxed_local(),
};

/// ASYNC_FLUSH and power cuts.
pub const ASYNC_POWER_CUT: Scenario = Scenario {
    name: "store_async_power_cut",
    story: "ASYNC_FLUSH: the power goes at any moment; the store opens, with dense offsets and no damaged message",
    run: |world| run(world, FlushMode::Async, Loss::Power).boxed_local(),
};

/// What goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loss {
    Process,
    /// Power, and now and then only the process.
    Power,
}

/// The topic.
pub const TOPIC: &str = "orders";
/// Its queues.
pub const QUEUES: u32 = 3;
/// The consumer group.
pub const GROUP: &str = "billing";

/// Small files, so that their ends come soon.
fn options(plan: &mut Stream, flush: FlushMode) -> StoreOptions {
    let mut options = StoreOptions::new("/data/store");
    options.segment_size = *plan.pick(&[8, 16, 32, 64]) << 10;
    options.queue_file_size = 20 * *plan.pick(&[8, 32, 256]);
    (options.index_slots, options.index_entries) = (16, 64);
    options.max_message_size = 4096;
    options.flush = flush;
    options
}

async fn run(world: World, flush: FlushMode, loss: Loss) -> Verdict {
    let node = world.add_node("broker");
    let mut plan = world.random("plan");
    let options = options(&mut plan, flush);
    world.env(node).disk.create_dir_all(Path::new("/data")).expect("the disk is empty");
    world.disk(node).settle();
    for _ in 0..plan.between(1, 4) {
        let process = StoreProcess::new(world.clone(), node, options.clone());
        world.spawn(node, process.run());
        let millis = *plan.pick(&[3, 30, 300, 3_000]);
        world.sleep(Duration::from_micros(plan.below(millis * 1_000))).await;
        // A death of the process leaves names and bytes unsynced that the next life takes for granted.
        if loss == Loss::Process || plan.below(3) == 0 {
            world.kill(node);
        } else {
            world.power_cut(node);
        }
        world.restart(node);
    }
    settle(&world, node, &options).await?;
    let events = world.history().events();
    if flush == FlushMode::Async && loss == Loss::Power {
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
    let limits = ReadLimits { records: 1, bytes: 1 };
    let broken = |finding: String| Violation::new("reads give what was written", finding);
    let read = store.read(&queue, from, &limits, &mut |_: &EntryForFilter| true, &mut out);
    read.map_err(|error| broken(format!("offset {} of queue {id}: {error}", from.0)))?;
    match iterate(&out, BodyCrc::Verify).next() {
        None => Ok(None),
        Some(Err(error)) => Err(broken(format!("offset {} of queue {id}: {error}", from.0))),
        Some(Ok(record)) => Ok(Some((record.queue_offset().0, message_of(&record).map_err(broken)?))),
    }
}
