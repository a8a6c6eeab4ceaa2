//! Finds transactions that are not decided, on any RocketMQ broker: what half and op topic say from the broker's own
//! progress on, and what lies in the topic for those that were given up.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use anyhow::Result;

use crate::broker::transaction::{named_by_op, transaction_of, TransactionId};
use crate::cli::connect::Cluster;
use crate::cli::tail::{Merge, Range};
use crate::client::{ConsumeFrom, Error, MessageQueue, Received};
use crate::proto::message::system;

/// A transaction that is not decided.
pub struct Open {
    /// Its message, in the half topic or in the one for those that were given up.
    pub message: Arc<Received>,
    /// Whether it is still asked about.
    pub state: State,
}

/// Whether a transaction is still asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its producer is asked.
    Open,
    /// It was asked too often.
    GivenUp,
}

impl fmt::Display for State {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            State::Open => "open",
            State::GivenUp => "given up",
        })
    }
}

/// All of them, open ones first, each kind in the order of brokers and logs.
pub async fn scan(cluster: &Cluster) -> Result<Vec<Open>> {
    let halves = read(cluster, system::TRANS_HALF_TOPIC, true).await?;
    let ops = read(cluster, system::TRANS_OP_HALF_TOPIC, true).await?;
    let open = undecided(halves, &ops);
    let ids: BTreeSet<_> = open.iter().filter_map(|message| transaction_of(&message.properties)).collect();
    let given_up = read(cluster, system::TRANS_CHECK_MAX_TIME_TOPIC, false).await?;
    let given_up = given_up.into_iter().filter(|message| {
        // One that was put into work again is open.
        transaction_of(&message.properties).is_some_and(|id| !ids.contains(&id))
    });
    let open = open.into_iter().map(|message| Open { message, state: State::Open });
    Ok(open.chain(given_up.map(|message| Open { message, state: State::GivenUp })).collect())
}

/// The halves that stand for open transactions: of those of one transaction the newest, unless an op names one of them.
/// Records are taken in the order of their broker's log, so that an id that is used again begins anew.
fn undecided(halves: Vec<Arc<Received>>, ops: &[Arc<Received>]) -> Vec<Arc<Received>> {
    let mut records: Vec<&Arc<Received>> = halves.iter().chain(ops).collect();
    records.sort_by_key(|record| (record.queue.broker_name.clone(), record.physical_offset));
    let mut open: BTreeMap<(String, TransactionId), Vec<Arc<Received>>> = BTreeMap::new();
    for record in records {
        let broker = &record.queue.broker_name;
        if record.queue.topic == system::TRANS_HALF_TOPIC {
            if let Some(id) = transaction_of(&record.properties) {
                open.entry((broker.clone(), id)).or_default().push(Arc::clone(record));
            }
            continue;
        }
        let named: BTreeSet<i64> = named_by_op(&record.body).iter().map(|half| half.0 as i64).collect();
        open.retain(|(of, _), halves| of != broker || !halves.iter().any(|half| named.contains(&half.offset)));
    }
    let mut newest: Vec<_> = open.into_values().filter_map(|halves| halves.last().cloned()).collect();
    newest.sort_by_key(|half| (half.queue.broker_name.clone(), half.offset));
    newest
}

/// The messages of a topic of the system; with `undone`, from the brokers' progress on.
async fn read(cluster: &Cluster, topic: &str, undone: bool) -> Result<Vec<Arc<Received>>> {
    let queues = match cluster.admin.queues(topic).await {
        Err(Error::NoRoute { .. }) => return Ok(Vec::new()),
        queues => queues?,
    };
    let mut ranges = Vec::new();
    for queue in queues {
        let (min, to) = (cluster.admin.min_offset(&queue).await?, cluster.admin.max_offset(&queue).await?);
        let from = if undone { progress(cluster, &queue).await?.clamp(min, to) } else { min };
        if from < to {
            ranges.push(Range { queue, from, to });
        }
    }
    let mut found = Vec::new();
    if ranges.is_empty() {
        return Ok(found);
    }
    let assigned = ranges.iter().map(|range| range.queue.clone()).collect();
    let reader = cluster.client.reader().assign(assigned).consume_from(ConsumeFrom::First);
    let mut reader = reader.flow_control(256, 16 << 20).start().await?;
    let mut merge = Merge::start(&mut reader, ranges).await?;
    while let Some(message) = merge.next(&mut reader).await? {
        found.push(message);
    }
    Ok(found)
}

async fn progress(cluster: &Cluster, queue: &MessageQueue) -> Result<i64> {
    Ok(cluster.admin.committed(system::TRANS_CONSUMER_GROUP, queue).await?.unwrap_or(0))
}
