//! The end of a run: the group comes to its end, then everything that lies in the topic is read.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use super::load::Load;
use crate::audit::file::{Entry, Recorded};
use crate::audit::history::Event;
use crate::cli::connect::Cluster;
use crate::cli::fail::Failure;
use crate::client::{ConsumeFrom, MessageQueue, Received, Recorder};

/// How long one poll waits.
const POLL: Duration = Duration::from_millis(500);

/// What failed here comes again within a second, but maybe to a member in another process: after so long without lag it has.
const QUIET: Duration = Duration::from_secs(10);

/// Waits until the group has consumed everything, at most for `limit`; true if it has.
pub async fn settle(cluster: &Cluster, load: &Load, limit: Duration) -> bool {
    let mut quiet_since = None;
    let done = async || {
        let Ok(lag) = cluster.admin.lag(&load.group, None).await else { return false };
        // A broker that is in no route at the moment tells no lag.
        let missing = load.queues.lock().expect("no holder panics").iter().any(|queue| !lag.queues.contains_key(queue));
        if missing || lag.total() > 0 {
            quiet_since = None;
            return false;
        }
        let now = cluster.env.clock.monotonic();
        let quiet = now.saturating_sub(*quiet_since.get_or_insert(now));
        load.came_again() || quiet >= QUIET
    };
    cluster.until(limit, done).await
}

/// Queues of a topic that took messages, as histories say: broker and number.
pub fn queues_used(histories: &[Recorded], topic: &str) -> BTreeSet<(String, i32)> {
    let entries = histories.iter().flat_map(|history| &history.entries);
    let used = entries.filter_map(|entry| match entry {
        Entry::Event(_, Event::Acknowledged(_, (queue, _))) if *queue.topic == *topic => {
            Some((queue.broker.to_string(), queue.id as i32))
        }
        _ => None,
    });
    used.collect()
}

/// Reads every queue of a topic from its first message to where it ends now, and tells the recorder; how many messages
/// there are. Brokers that do not answer, and those of `used` that are in no route yet, are waited for.
///
/// # Errors
/// If not everything could be read within `limit`.
pub async fn read_topic(
    cluster: &Cluster,
    topic: &str,
    used: &BTreeSet<(String, i32)>,
    recorder: &Recorder,
    limit: Duration,
) -> Result<u64> {
    let (mut queues, mut missing) = (Vec::new(), used.clone());
    let known = async || {
        queues = cluster.admin.queues(topic).await.unwrap_or_default();
        missing = used.clone();
        for queue in &queues {
            missing.remove(&(queue.broker_name.clone(), queue.queue_id));
        }
        !queues.is_empty() && missing.is_empty()
    };
    if !cluster.until(limit, known).await {
        return Err(match missing.first() {
            Some((broker, queue)) if !queues.is_empty() => Failure::unreachable(format!(
                "queue {queue} of {broker} has taken messages of topic `{topic}` and is in no route"
            )),
            _ => cluster.no_topic(topic).await,
        }
        .into());
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
