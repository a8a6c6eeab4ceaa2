//! What would be lost if a topic had fewer queues to read (REB-8).

use std::collections::BTreeMap;

use anyhow::Result;

use crate::cli::connect::Cluster;
use crate::cli::fail::Failure;
use crate::cli::show::count;

/// Messages that wait for groups in queues that would go, by group.
#[derive(Debug, Default)]
pub struct Backlog(BTreeMap<String, i64>);

impl Backlog {
    /// What waits in the queues of a topic on one broker, from number `queues` on.
    pub async fn of(cluster: &Cluster, topic: &str, broker: &str, queues: i32) -> Result<Backlog> {
        let mut backlog = Backlog::default();
        for group in cluster.admin.groups_of_topic(topic).await? {
            let lag = cluster.admin.lag(&group, Some(topic)).await?;
            let gone = lag
                .queues
                .iter()
                .filter(|(queue, _)| queue.topic == topic && queue.broker_name == broker && queue.queue_id >= queues);
            let waits: i64 = gone.map(|(_, at)| (at.broker_offset - at.consumer_offset).max(0)).sum();
            if waits > 0 {
                backlog.0.insert(group, waits);
            }
        }
        Ok(backlog)
    }

    /// Adds what waits on another broker.
    pub fn extend(&mut self, other: Backlog) {
        other.0.into_iter().for_each(|(group, waits)| *self.0.entry(group).or_default() += waits);
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Why the queues cannot go.
    pub fn refusal(&self) -> Failure {
        let failure = Failure::refused(format!("in queues that would go {self}"));
        failure
            .hint("have them consumed first; `--queues N` alone stops writes and keeps reads; `--force` gives them up")
    }
}

impl std::fmt::Display for Backlog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (number, (group, messages)) in self.0.iter().enumerate() {
            let waits = if *messages == 1 { "waits" } else { "wait" };
            let comma = if number > 0 { ", " } else { "" };
            write!(f, "{comma}{} {waits} for group {group}", count(*messages, "message"))?;
        }
        Ok(())
    }
}
