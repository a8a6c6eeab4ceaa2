//! Plays a plan on a cluster: first clients work while things go wrong, and nothing promised may break; then the faults
//! end, and everything must come to life again within bounds that follow from the configuration.

use std::sync::Arc;
use std::time::Duration;

use crate::checkers::Violation;
use crate::cluster::{Cluster, START_LIMIT};
use crate::faults;
use crate::judge::judge;
use crate::plan::Plan;
use crate::routes::{routes_are_true, watch_routes};
use crate::scenarios::Verdict;
use crate::workload::{all_take_messages, Workload};
use crate::world::{NodeId, World};

/// Times within which a cluster without faults must be well again.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Every NameServer knows every broker.
    pub registered: Duration,
    /// A NameServer has forgotten a broker that it hears nothing of.
    pub expired: Duration,
    /// Every group has every message.
    pub delivered: Duration,
}

/// TCP ends a connection this long after the first byte that nobody acknowledged.
const GIVING_UP: Duration = Duration::from_secs(16);
/// A NameServer forgets a broker after this long and looks every 5 s.
const EXPIRY: Duration = Duration::from_secs(120);
const SCAN: Duration = Duration::from_secs(5);
/// A consumer of ours holds a pull for 5 s, waits 3 s for any answer, and pauses after an error.
const CONSUMER_ROUND: Duration = Duration::from_secs(10);
/// The longest delay that our producers and consumers ask for.
const DELAY_MAX: Duration = Duration::from_secs(30);

impl Bounds {
    /// The bounds of a plan's configuration.
    pub fn of(plan: &Plan) -> Bounds {
        let config = plan.config().unwrap_or_default();
        let period = Duration::from_millis(config.register_name_server_period);
        let attempt = Duration::from_millis(config.register_broker_timeout_ms);
        Bounds {
            registered: period + attempt + GIVING_UP + SCAN,
            expired: EXPIRY + SCAN * 2 + period + GIVING_UP,
            delivered: START_LIMIT + GIVING_UP + CONSUMER_ROUND * 2 + DELAY_MAX,
        }
    }
}

/// Plays a plan from its beginning to its verdict.
pub async fn play(world: World, plan: Arc<Plan>) -> Verdict {
    let cluster = Cluster::start(&world, &plan).await;
    let workload = Workload::start(&cluster, &plan);
    let bounds = Bounds::of(&plan);
    world.spawn_here(watch_routes(cluster.clone(), bounds));
    begin_faults(&world, &plan);
    let faults_end = world.now() + plan.faults_end().max(Duration::from_millis(plan.rest_ms));
    workload.finished().await;
    world.sleep(faults_end.saturating_sub(world.now())).await;
    let acknowledged = workload.acknowledged();

    world.note(NodeId::WORLD, "healing", &[], "");
    faults::heal(&world);
    if !plan.lasting.is_empty() {
        go_on_without(&cluster, &plan, bounds).await?;
    }
    routes_are_true(&cluster, bounds.registered).await?;
    let all: Vec<usize> = (0..plan.brokers).collect();
    all_take_messages(&cluster, &all, bounds.registered, "a healed broker takes messages").await?;
    world.sleep(bounds.delivered).await;
    cluster.find_all().await;
    judge(&plan, &world, acknowledged)
}

/// Arranges the plan's faults, counted from now.
pub fn begin_faults(world: &World, plan: &Plan) {
    world.note(NodeId::WORLD, "workload begins", &[], "");
    world.begun();
    for timed in &plan.faults {
        let fault = timed.fault.clone();
        world.later(Duration::from_micros(timed.at_us), move |world| fault.apply(world));
    }
}

/// A part stays broken, and the rest must work all the same.
async fn go_on_without(cluster: &Cluster, plan: &Plan, bounds: Bounds) -> Result<(), Violation> {
    let world = &cluster.world;
    for fault in &plan.lasting {
        fault.apply(world);
    }
    // Clients may still try the part that is gone until NameServers have forgotten it.
    world.sleep(bounds.expired).await;
    let living = cluster.brokers.iter().enumerate().filter(|(_, node)| world.is_alive(**node));
    let living: Vec<usize> = living.map(|(index, _)| index).collect();
    all_take_messages(cluster, &living, bounds.registered, "the rest goes on without a lost machine").await?;
    world.note(NodeId::WORLD, "healing", &[], "the rest");
    faults::heal(world);
    Ok(())
}
