//! Bits rot in the log of one of several brokers that have it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use metaq::config::broker::FlushDiskType;
use metaq::env::{Disk, OpenMode};
use metaq::proto::message::parse;
use metaq::proto::message::record::{BodyCrc, Parsed, BODY_CRC_AT, MAGIC_AT, PHYSICAL_OFFSET_AT, TOTAL_SIZE_AT};

use super::slave_topics::shown;
use super::slaves::{begin_in_sync, end_in_sync, nothing_lost, promote_longest, COPIED};
use crate::checkers::{acknowledged_kept, all_delivered, messages_intact, nothing_skipped, stored_once, Violation};
use crate::client::message_of;
use crate::cluster::{GROUP, QUEUES, TOPIC};
use crate::history::Event;
use crate::plan::Plan;
use crate::random::Stream;
use crate::replicas::logs_become_equal;
use crate::routes::routes_are_true;
use crate::scenarios::{Scenario, Verdict};
use crate::sometimes;
use crate::stage::Bounds;
use crate::workload::{all_take_messages, Workload};
use crate::world::{NodeId, World};

/// A master's or a slave's, which may be restarted afterwards, or promoted.
pub const ROT: Scenario = Scenario {
    name: "bit_rot",
    story: "SYNC_MASTER: bits rot in the log of a master or of a slave, which is restarted or promoted perhaps; nobody gets a \
            damaged message, none is lost or skipped, and in the end every log is whole again",
    draft: |d| {
        d.slaves(2..=2).flush(&[FlushDiskType::SyncFlush]).consumer(GROUP, 0).producers(1..=2, 100..=250, &[60]);
        d.set("brokerRole", "SYNC_MASTER").set("inSyncReplicas", 2).set("cleanResourceInterval", 1_000);
    },
    play: |world, plan| play(world, plan).boxed_local(),
};

/// What no other broker has.
pub const LAST: Scenario = Scenario {
    name: "bit_rot_last",
    story: "ASYNC_MASTER: bits rot in messages that no slave has yet; they are lost, nobody gets them, and slaves get past them \
            and have everything else",
    draft: |d| {
        d.slaves(1..=2).flush(&[FlushDiskType::SyncFlush]).consumer(GROUP, 0).producers(1..=2, 50..=150, &[60]);
        d.set("cleanResourceInterval", 1_000);
    },
    play: |world, plan| last(world, plan).boxed_local(),
};

/// A checkpoint knows after this long what was stored before.
const CHECKPOINTED: Duration = Duration::from_secs(3);
const LOG: &str = "/data/store/commitlog";

async fn play(world: World, plan: Arc<Plan>) -> Verdict {
    let (mut cluster, mut random) = (begin_in_sync(&world, &plan).await?, world.random("rot"));
    let workload = Workload::start(&cluster, &plan);
    world.sleep(Duration::from_micros(random.below(plan.workload_us().max(1)))).await;
    let members = cluster.members();
    let victim = *random.pick(&members);
    // What only the victim has cannot be mended: the others have what was confirmed.
    let rotten = rot(&world, victim, &members, &mut random);
    sometimes!(rotten > 0, "records rotted that another broker has");
    // A process that goes on has what it wrote in memory, where nothing rots: consumers of a master read just that.
    let ended = random.between(u64::from(victim == cluster.brokers[0]), 3);
    match ended {
        0 => {}
        1 => world.kill(victim),
        2 if world.ask_to_stop(victim) => {
            while !world.has_stopped(victim) {
                world.sleep(Duration::from_millis(50)).await;
            }
            world.kill(victim);
        }
        _ => world.power_cut(victim),
    }
    if ended > 0 {
        world.boot(victim);
    }
    // A start that finds damage in what was written last cannot tell it from what a crash left: a master that lost something
    // that way takes no messages.
    let lost = ended > 0 && victim == cluster.brokers[0];
    if lost {
        world.sleep(Duration::from_millis(random.below(5_000))).await;
    }
    if lost || random.chance(300) {
        let master = cluster.brokers[0];
        world.kill(master);
        promote_longest(&mut cluster).await?;
        world.boot(master);
    }
    workload.finished().await;
    world.sleep(Duration::from_millis(random.below(20_000))).await;
    end_in_sync(&cluster, &plan).await?;
    let events = world.history().events();
    nothing_lost(&events)?;
    nothing_skipped(&events)?;
    all_delivered(&events, &[GROUP])
}

async fn last(world: World, plan: Arc<Plan>) -> Verdict {
    let (mut cluster, mut random) = (begin_in_sync(&world, &plan).await?, world.random("rot"));
    let bounds = Bounds::of(&plan);
    let slaves: Vec<NodeId> = cluster.slaves.iter().map(|slave| slave.node).collect();
    slaves.iter().for_each(|slave| world.kill(*slave));
    let from = slaves.iter().map(|slave| crate::replicas::log_length(&world, *slave)).max().unwrap_or(0);
    let workload = Workload::start(&cluster, &plan);
    world.sleep(Duration::from_micros(random.below(plan.workload_us().max(1)))).await;
    let master = cluster.brokers[0];
    // What the checkpoint does not know to be synced a start takes for the end of the log if it is damaged.
    let limit = crate::replicas::log_length(&world, master);
    world.sleep(CHECKPOINTED).await;
    world.kill(master);
    let rotten = flip(&world, master, (from..limit, false), &mut random);
    sometimes!(!rotten.is_empty(), "records rotted that no other broker has");
    world.boot(master);
    workload.finished().await;
    slaves.iter().for_each(|slave| world.boot(*slave));
    crate::faults::heal(&world);
    routes_are_true(&cluster, bounds.registered).await?;
    // Each damaged place is waited at for a minute.
    world.sleep(bounds.delivered + Duration::from_secs(80) * rotten.len() as u32).await;
    logs_become_equal(&cluster, COPIED).await?;
    for id in 0..QUEUES {
        // Now and then it looks once more whether somebody has what is damaged, and readers wait for that.
        let mut tries = 0;
        while shown(&cluster, master, TOPIC, id).await.is_none() {
            tries += 1;
            if tries > 5 {
                let finding = format!("the master shows a damaged message in queue {id}");
                return Err(Violation::new("consumers get whole messages", finding));
            }
            world.sleep(Duration::from_secs(3)).await;
        }
    }
    world.kill(master);
    promote_longest(&mut cluster).await?;
    world.boot(master);
    routes_are_true(&cluster, bounds.registered).await?;
    all_take_messages(&cluster, &[0], bounds.registered, "a broker takes messages in the end").await?;
    world.sleep(bounds.delivered).await;
    cluster.find_all().await;
    let is_whole = |event: &Event| event.message().is_none_or(|message| !rotten.contains(&message));
    let events: Vec<Event> = world.history().events().into_iter().filter(is_whole).collect();
    messages_intact(&events)?;
    acknowledged_kept(&events)?;
    stored_once(&events)?;
    all_delivered(&events, &[GROUP])
}

/// Flips bits of some records on `victim` that all `members` have. Returns how many messages that hit.
fn rot(world: &World, victim: NodeId, members: &[NodeId], random: &mut Stream) -> usize {
    let everywhere = members.iter().map(|node| crate::replicas::log_length(world, *node)).min().unwrap_or(0);
    flip(world, victim, (0..everywhere, true), random).len()
}

/// Flips bits of some records in a part of a machine's log, which are in the queues of slaves already, or not. Returns their
/// messages.
fn flip(world: &World, victim: NodeId, (part, in_queues): (Range<u64>, bool), random: &mut Stream) -> BTreeSet<u64> {
    // The door of a machine that is down shows nothing.
    let disk = crate::replicas::disk_of(world, victim);
    let mut records = Vec::new();
    for entry in disk.read_dir(Path::new(LOG)).unwrap_or_default() {
        let (path, base) = (Path::new(LOG).join(&entry.name), entry.name.parse().unwrap_or(0_u64));
        let Ok(file) = disk.open(&path, OpenMode::Read) else { continue };
        let mut bytes = vec![0; file.len().unwrap_or(0) as usize];
        if file.read_at(0, &mut bytes).is_err() {
            continue;
        }
        let mut at = 0;
        while let Ok(Parsed::Record(record)) = parse(&bytes[at..], BodyCrc::Verify) {
            let (len, begins) = (record.bytes().len(), base + at as u64);
            if let Some(message) = message_of(&record).ok().filter(|_| part.contains(&begins)) {
                let behind_body = record.topic_bytes().len() + 1 + record.properties_bytes().len() + 2;
                let body = len - behind_body - record.body().len();
                let is_whole = begins + len as u64 <= part.end;
                records.extend(is_whole.then(|| (path.clone(), at, body, record.body().len(), message)));
            }
            at += len;
        }
    }
    let mut hit = BTreeSet::new();
    for _ in 0..random.between(1, 4) {
        if records.is_empty() {
            break;
        }
        let (path, record, body, len, message) = random.pick(&records).clone();
        if !hit.insert(message) {
            continue;
        }
        // What a checksum tells of, and who has the record already also its size: other fields nobody can check.
        let byte = match random.below(if in_queues { 7 } else { 6 }) {
            0 => MAGIC_AT,
            1 => BODY_CRC_AT + random.below(4) as usize,
            2 => PHYSICAL_OFFSET_AT + 7,
            6 => TOTAL_SIZE_AT + 2,
            _ => body + random.below(len as u64) as usize,
        };
        let _ = world.disk(victim).flip_bit(&path, (record + byte) as u64, random.below(7) as u8);
    }
    hit
}
