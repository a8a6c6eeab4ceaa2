//! The stories, by name.

use futures::future::LocalBoxFuture;

use crate::checkers::Violation;
use crate::world::World;

#[path = "../scenarios/client_edges.rs"]
mod client_edges;
#[path = "../scenarios/client_groups.rs"]
mod client_groups;
#[path = "../scenarios/client_support.rs"]
mod client_support;
#[path = "../scenarios/cluster.rs"]
mod cluster;
#[path = "../scenarios/disks.rs"]
mod disks;
#[path = "../scenarios/nameservers.rs"]
mod nameservers;
#[path = "../scenarios/ping.rs"]
mod ping;
#[path = "../scenarios/store_crash.rs"]
pub(crate) mod store_crash;

/// How a run ends.
pub type Verdict = Result<(), Violation>;

/// A story that a seed turns into one run.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// What happens in it, in one line.
    pub story: &'static str,
    /// Runs it in a fresh world.
    pub run: fn(World) -> LocalBoxFuture<'static, Verdict>,
}

/// All scenarios.
pub const ALL: &[Scenario] = &[
    ping::SCENARIO,
    store_crash::POWER_CUT,
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
    disks::SLOW,
    disks::FAILED_SYNC,
    disks::FULL,
    client_groups::STORM,
    client_groups::ORDERED,
    client_groups::RETRIES,
    client_edges::LOCK_LOST,
    client_edges::STALE_ROUTES,
    client_edges::LATE_ANSWERS,
];

/// The scenario of a name.
pub fn find(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name)
}
