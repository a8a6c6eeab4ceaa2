//! Messages as they come.

use std::time::Duration;

use anyhow::Result;

use super::Printed;
use crate::cli::connect::Cluster;
use crate::client::{PullConsumer, Received};

/// How long one look for messages waits; others follow.
const POLL: Duration = Duration::from_secs(1);
/// A member that was given no messages for so long, while none wait in its queues, has them all.
const IDLE: Duration = Duration::from_secs(2);

/// Prints until `print` wants no more.
pub async fn follow(reader: &mut PullConsumer, mut print: impl FnMut(&Received) -> Printed) -> Result<()> {
    loop {
        for message in reader.poll(POLL).await? {
            if print(&message) != Printed::Fine {
                return Ok(());
            }
        }
    }
}

/// Consumes until `print` wants no more or, unless it is to go on, nothing waits any more.
pub async fn consume(
    cluster: &Cluster,
    consumer: &mut PullConsumer,
    on_and_on: bool,
    mut print: impl FnMut(&Received) -> Printed,
) -> Result<Printed> {
    let mut idle_since = cluster.env.clock.monotonic();
    loop {
        let messages = consumer.poll(POLL.min(IDLE)).await?;
        if !messages.is_empty() {
            idle_since = cluster.env.clock.monotonic();
        }
        for message in messages {
            let printed = print(&message);
            if printed != Printed::Fine {
                return Ok(printed);
            }
        }
        let idle = cluster.env.clock.monotonic().saturating_sub(idle_since);
        if !on_and_on && idle >= IDLE && has_all(cluster, consumer).await? {
            return Ok(Printed::Fine);
        }
    }
}

async fn has_all(cluster: &Cluster, consumer: &PullConsumer) -> Result<bool> {
    for (queue, position) in consumer.positions() {
        if position < cluster.admin.max_offset(&queue).await? {
            return Ok(false);
        }
    }
    Ok(true)
}
