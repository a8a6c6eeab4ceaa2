//! What clients do, from a plan.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use crate::checkers::Violation;
use crate::client::{Consumer, Producer};
use crate::cluster::{Cluster, TOPIC};
use crate::history::Queue;
use crate::plan::{Client, Plan, Send};
use crate::world::{NodeId, World};

/// How far a producer is. It outlives the producer's process.
#[derive(Default)]
struct Progress {
    next: AtomicUsize,
    acknowledged: AtomicU64,
    total: usize,
}

/// The clients of a run.
pub struct Workload {
    world: World,
    producers: Vec<Arc<Progress>>,
}

impl Workload {
    /// Starts the plan's clients, each on a machine of its own.
    pub fn start(cluster: &Cluster, plan: &Plan) -> Workload {
        let world = cluster.world.clone();
        let mut producers = Vec::new();
        for client in &plan.clients {
            let node = world.add_node(client.name());
            match client {
                Client::Producer { sends, .. } => {
                    let progress = Arc::new(Progress { total: sends.len(), ..Progress::default() });
                    producers.push(progress.clone());
                    let (nameservers, sends) = (cluster.nameserver_addresses(), Arc::new(sends.clone()));
                    world.set_program(node, move |world| {
                        run_producer(world, node, &nameservers, sends.clone(), progress.clone());
                    });
                    world.run_program(node);
                }
                Client::Consumer { group, hands_back_per_mille, at_us, .. } => {
                    let (cluster, group, per_mille) = (cluster.clone(), group.clone(), *hands_back_per_mille);
                    world.set_program(node, move |_| run_consumer(&cluster, node, &group, per_mille));
                    world.later(Duration::from_micros(*at_us), move |world| world.run_program(node));
                }
            }
        }
        Workload { world, producers }
    }

    /// Waits until all producers are through.
    pub async fn finished(&self) {
        // Only when a producer looks for one more is it through with the last.
        let busy = |progress: &Arc<Progress>| progress.next.load(Ordering::Relaxed) <= progress.total;
        while self.producers.iter().any(busy) {
            self.world.sleep(Duration::from_millis(100)).await;
        }
    }

    /// Number of sends that were acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.producers.iter().map(|progress| progress.acknowledged.load(Ordering::Relaxed)).sum()
    }
}

fn run_producer(world: &World, node: NodeId, nameservers: &[String], sends: Arc<Vec<Send>>, progress: Arc<Progress>) {
    let mut producer = Producer::new(world.clone(), node, nameservers, TOPIC);
    let clock = world.env(node).clock;
    world.spawn(node, async move {
        // A message on which an earlier life died is not sent again: what became of it is unknown.
        while let Some(send) = sends.get(progress.next.fetch_add(1, Ordering::Relaxed)) {
            clock.sleep(Duration::from_micros(send.after_us)).await;
            let acknowledged = producer.send(send).await;
            progress.acknowledged.fetch_add(u64::from(acknowledged), Ordering::Relaxed);
        }
    });
}

fn run_consumer(cluster: &Cluster, node: NodeId, group: &str, hands_back_per_mille: u64) {
    let (world, nameservers) = (&cluster.world, cluster.nameserver_addresses());
    let consumer = |queue: Queue| Consumer::new(world.clone(), node, &nameservers, queue, group);
    for queue in cluster.queues() {
        world.spawn(node, consumer(queue).failing(hands_back_per_mille).run());
    }
    if hands_back_per_mille > 0 {
        for queue in cluster.retry_queues(group) {
            world.spawn(node, consumer(queue).run());
        }
    }
}

/// Sends to each of these brokers until it has acknowledged one message, and fails if one does not within `limit`.
///
/// # Errors
/// The promise `checker` is broken.
pub async fn all_take_messages(
    cluster: &Cluster,
    brokers: &[usize],
    limit: Duration,
    checker: &'static str,
) -> Result<(), Violation> {
    let world = &cluster.world;
    let deadline = world.now() + limit;
    for index in brokers {
        let broker = cluster.broker_name(*index);
        let mut producer =
            Producer::new(world.clone(), cluster.admin, &cluster.nameserver_addresses(), TOPIC).only_to(&broker);
        loop {
            let message = world.next_message();
            let send = Send { message, bytes: 20, queue: message as u32, ..Send::default() };
            if producer.send(&send).await {
                break;
            }
            if world.now() > deadline {
                let finding = format!("{broker} has taken no message for {} s", limit.as_secs());
                return Err(Violation::new(checker, finding));
            }
            world.sleep(Duration::from_secs(1)).await;
        }
    }
    Ok(())
}
