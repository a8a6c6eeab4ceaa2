//! Reading dead letters, oldest first.

use std::sync::Arc;

use anyhow::Result;

use super::filter::Filter;
use super::DeadQueue;
use crate::cli::connect::Cluster;
use crate::cli::show::Progress;
use crate::cli::tail::{Merge, Range};
use crate::client::{ConsumeFrom, Received};

/// Gives each message that fits to `take`, until it wants no more.
///
/// # Errors
/// Those of `take`, and of reading.
pub async fn scan(
    cluster: &Cluster,
    queues: &[DeadQueue],
    filter: &Filter,
    mut take: impl AsyncFnMut(Arc<Received>) -> Result<bool>,
) -> Result<()> {
    let part = |queue: &DeadQueue| Range { queue: queue.queue.clone(), from: queue.min, to: queue.max };
    let ranges: Vec<_> = queues.iter().map(part).filter(|range| range.len() > 0).collect();
    if ranges.is_empty() {
        return Ok(());
    }
    let total = ranges.iter().map(|range| range.len() as u64).sum();
    let mut progress = Progress::new(&cluster.env.clock, "reading dead letters", Some(total));
    let assigned = ranges.iter().map(|range| range.queue.clone()).collect();
    let reader = cluster.client.reader().assign(assigned).consume_from(ConsumeFrom::First);
    let mut reader = reader.flow_control(256, 16 << 20).start().await?;
    let mut merge = Merge::start(&mut reader, ranges).await?;
    let mut read = 0;
    while let Some(message) = merge.next(&mut reader).await? {
        read += 1;
        progress.at(read);
        if filter.fits(&message) && !take(message).await? {
            break;
        }
    }
    Ok(())
}
