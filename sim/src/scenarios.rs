//! The stories, by name.

use std::sync::Arc;

use futures::future::{FutureExt, LocalBoxFuture};

use crate::checkers::Violation;
use crate::draft::Draft;
use crate::plan::Plan;
use crate::stage;
use crate::world::World;

#[path = "../scenarios/client_edges.rs"]
mod client_edges;
#[path = "../scenarios/client_groups.rs"]
mod client_groups;
#[path = "../scenarios/client_promotion.rs"]
mod client_promotion;
#[path = "../scenarios/client_support.rs"]
mod client_support;
#[path = "../scenarios/client_waiting.rs"]
mod client_waiting;
#[path = "../scenarios/clients.rs"]
mod clients;
#[path = "../scenarios/cluster.rs"]
mod cluster;
#[path = "../scenarios/data_lost.rs"]
mod data_lost;
#[path = "../scenarios/deleted_topic.rs"]
mod deleted_topic;
#[path = "../scenarios/disks.rs"]
mod disks;
#[path = "../scenarios/filters.rs"]
mod filters;
#[path = "../scenarios/requests.rs"]
mod requests;
#[path = "../scenarios/goodbyes.rs"]
mod goodbyes;
#[path = "../scenarios/load.rs"]
mod load;
#[path = "../scenarios/many_topics.rs"]
mod many_topics;
#[path = "../scenarios/model.rs"]
mod model;
#[path = "../scenarios/nameservers.rs"]
mod nameservers;
#[path = "../scenarios/order.rs"]
mod order;
#[path = "../scenarios/ping.rs"]
mod ping;
#[path = "../scenarios/resets.rs"]
mod resets;
#[path = "../scenarios/retried.rs"]
mod retried;
#[path = "../scenarios/registers.rs"]
mod registers;
#[path = "../scenarios/replication.rs"]
mod replication;
#[path = "../scenarios/processes.rs"]
mod processes;
#[path = "../scenarios/bit_rot.rs"]
mod bit_rot;
#[path = "../scenarios/clock_jumps.rs"]
mod clock_jumps;
#[path = "../scenarios/lost_masters.rs"]
mod lost_masters;
#[path = "../scenarios/promoted.rs"]
mod promoted;
#[path = "../scenarios/slave_reads.rs"]
mod slave_reads;
#[path = "../scenarios/superseded.rs"]
mod superseded;
#[path = "../scenarios/slave_topics.rs"]
mod slave_topics;
#[path = "../scenarios/slaves.rs"]
mod slaves;
#[path = "../scenarios/stalls.rs"]
mod stalls;
#[path = "../scenarios/store_crash.rs"]
pub(crate) mod store_crash;
#[path = "../scenarios/swarm.rs"]
mod swarm;
#[path = "../scenarios/timers.rs"]
mod timers;
#[path = "../scenarios/transaction_support.rs"]
mod transaction_support;
#[path = "../scenarios/transactions.rs"]
mod transactions;

/// How a run ends.
pub type Verdict = Result<(), Violation>;

/// A story that a seed turns into one run.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// What happens in it, in one line.
    pub story: &'static str,
    /// Says what a plan of it looks like.
    pub draft: fn(&mut Draft),
    /// Plays a plan in a fresh world.
    pub play: fn(World, Arc<Plan>) -> LocalBoxFuture<'static, Verdict>,
}

impl Scenario {
    /// A story of a cluster with clients, which [`stage::play`] plays.
    pub const fn new(name: &'static str, story: &'static str, draft: fn(&mut Draft)) -> Scenario {
        Scenario { name, story, draft, play: |world, plan| stage::play(world, plan).boxed_local() }
    }

    /// The plan of a seed.
    pub fn plan(&self, seed: u64) -> Plan {
        let mut draft = Draft::new(self.name, seed);
        (self.draft)(&mut draft);
        draft.finish()
    }
}

/// All scenarios.
pub const ALL: &[Scenario] = &[
    ping::SCENARIO,
    store_crash::POWER_CUT,
    store_crash::LONG,
    store_crash::TORN,
    store_crash::STALLED,
    store_crash::KILL,
    store_crash::ASYNC_POWER_CUT,
    cluster::CALM,
    cluster::BROKER_POWER_CUT,
    cluster::BROKER_KILL,
    cluster::ASYNC_POWER_CUT,
    cluster::CLEAN_STOP,
    cluster::DELAYED,
    cluster::HANDED_BACK,
    nameservers::HEARTBEAT_TIME_OUT,
    nameservers::DISAGREEMENT,
    nameservers::MINORITY_LOST,
    many_topics::MANY_TOPICS,
    model::MODEL,
    registers::REGISTERS,
    deleted_topic::DELETED,
    goodbyes::GOODBYES,
    slaves::METADATA,
    slaves::PROMOTION,
    client_promotion::CLIENTS,
    promoted::WAITING,
    promoted::RETENTION,
    clock_jumps::JUMPS,
    bit_rot::ROT,
    bit_rot::LAST,
    lost_masters::SWAPPED,
    slave_reads::READS,
    slave_topics::AGAIN,
    clients::LOCKS,
    clients::MEMBERS,
    clients::DEAD_LETTERS,
    clients::LONG_POLL,
    order::FENCED,
    order::PROMOTED,
    resets::LATE,
    retried::RETRIED,
    retried::PROMOTED,
    processes::PROCESSES,
    filters::FILTERS,
    requests::REQUESTS,
    stalls::STALLED_CUT,
    stalls::HANDED_BACK_FAILING,
    stalls::FAILED_SYNC_CUT,
    stalls::FREED,
    replication::COPIES,
    replication::LAGGING,
    replication::MASTER_LOST,
    replication::MASTER_LOST_UNSYNCED,
    replication::EXPIRED,
    replication::ALL_CUT,
    replication::SLAVE_CUT,
    lost_masters::CUT,
    superseded::SUPERSEDED,
    disks::SLOW,
    disks::FAILED_SYNC,
    disks::FULL,
    data_lost::DERIVED,
    data_lost::SLAVE_DISK,
    load::BUSY,
    load::IDLE,
    load::OVERLOAD,
    load::HALF_OPEN,
    timers::CALM,
    timers::POWER_CUT,
    timers::ASYNC_POWER_CUT,
    timers::FULL,
    timers::RETENTION,
    client_groups::STORM,
    client_groups::ORDERED,
    client_groups::RETRIES,
    client_groups::SCHEDULED,
    client_edges::LOCK_LOST,
    client_edges::STALE_ROUTES,
    client_edges::LATE_ANSWERS,
    client_waiting::WAITING,
    transactions::TRANSACTIONS,
    transactions::ASYNC,
    transactions::CUT,
    transactions::GROUP_GONE,
    swarm::NETWORK,
    swarm::SYNC,
    swarm::EVERYTHING,
];

/// The scenario of a name.
pub fn find(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name)
}
