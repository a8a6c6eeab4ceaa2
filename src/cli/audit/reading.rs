//! The end of a run: the group comes to its end, then everything that lies in the topic is read.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use super::load::Load;
use crate::cli::connect::Cluster;
use crate::cli::fail::Failure;
use crate::client::{ConsumeFrom, MessageQueue, Received, Recorder};

/// How long one poll waits.
const POLL: Duration = Duration::from_millis(500);

/// Waits until the group has consumed everything, at most for `limit`; true if it has.
pub async fn settle(cluster: &Cluster, load: &Load, limit: Duration) -> bool {
    let done = async || {
        let lag = cluster.admin.lag(&load.group, None).await;
        load.came_again() && lag.is_ok_and(|lag| !lag.queues.is_empty() && lag.total() == 0)
    };
    cluster.until(limit, done).await
}

/// Reads every queue of a topic from its first message to where it ends now, and tells the recorder; how many messages
/// there are. Brokers that do not answer are waited for.
///
/// # Errors
/// If not everything could be read within `limit`.
pub async fn read_all(cluster: &Cluster, topic: &str, recorder: &Recorder, limit: Duration) -> Result<u64> {
    let mut queues = Vec::new();
    let known = async || match cluster.admin.queues(topic).await {
        Ok(found) => {
            queues = found;
            true
        }
        Err(_) => false,
    };
    if !cluster.until(limit, known).await {
        return Err(cluster.no_topic(topic).await.into());
    }
    let mut read = 0;
    for queue in queues {
        read += read_queue(cluster, &queue, recorder, limit).await?;
    }
    recorder.read(topic);
    Ok(read)
}

async fn read_queue(cluster: &Cluster, queue: &MessageQueue, recorder: &Recorder, limit: Duration) -> Result<u64> {
    let unread = || Failure::unreachable(format!("{}/{} cannot be read", queue.broker_name, queue.queue_id));
    let mut range = None;
    let ask = async || {
        let (min, max) = (cluster.admin.min_offset(queue).await, cluster.admin.max_offset(queue).await);
        range = min.ok().zip(max.ok());
        range.is_some()
    };
    cluster.until(limit, ask).await;
    let (min, max) = range.ok_or_else(unread)?;
    if min >= max {
        return Ok(0);
    }
    let reader = cluster.client.reader().assign(vec![queue.clone()]).consume_from(ConsumeFrom::First).poll_max(1024);
    let mut reader = reader.start().await?;
    let (mut read, mut next) = (0, min);
    let mut last_came = cluster.env.clock.monotonic();
    while next < max {
        let messages: Vec<Arc<Received>> = reader.poll(POLL).await?;
        let now = cluster.env.clock.monotonic();
        if messages.is_empty() && now.saturating_sub(last_came) > limit {
            return Err(unread().into());
        }
        for message in messages.iter().filter(|message| message.offset < max) {
            recorder.found(message);
            (read, next, last_came) = (read + 1, message.offset + 1, now);
        }
    }
    reader.close().await;
    Ok(read)
}
