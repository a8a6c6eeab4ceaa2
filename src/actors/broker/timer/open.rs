//! What the timer knows at its start: the timer log, as far as it agrees with the commit log, and the copies of records
//! that it does not tell of.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::broker::timer::record::copied_number;
use crate::broker::timer::Timer;
use crate::env::Canary;
use crate::proto::{PhysicalOffset, QueueOffset};
use crate::store::timer::{LogScan, Pending, TimerLog, Unit, UnitLog, UnitPosition};
use crate::store::{ConsumeQueue, Store};

/// What a start has recovered of the commit log, before anything new is stored.
#[derive(Clone, Copy, Debug)]
pub struct Recovered {
    /// Where it ends.
    pub end: PhysicalOffset,
    /// Records in the timer topic's queue.
    pub next: QueueOffset,
}

/// Opens the timer of a store whose timer topic has this queue.
///
/// # Errors
/// The disk's; nothing is lost, and it can be tried again.
pub async fn open(store: &Store, queue: &ConsumeQueue, recovered: Recovered) -> io::Result<Timer<TimerLog>> {
    let mut log = TimerLog::open(Arc::clone(&store.env.disk), store.root()).await?;
    if let Some(foreign) = first_foreign(&mut log, recovered, |pending| matches(store, queue, pending))? {
        crate::sometimes!("the timer log was ahead of the commit log");
        tracing::warn!(from = foreign.0, "the timer log is ahead of the commit log, which has lost its end: cut");
        log.cut(foreign).await?;
    }
    let mut timer = Timer::open(log, store.env.canaries())?;
    let mut copies = BTreeSet::new();
    let is_used = queue.max() > QueueOffset(0);
    if is_used && !store.env.canary(Canary::TimerForgetsCopies) {
        let mut scan = LogScan::new(store, timer.scan_from());
        while scan.step(store, &mut |record| copies.extend(copied_number(record))).map_err(io::Error::other)? {
            // Requests go on meanwhile.
            store.env.clock.sleep(Duration::ZERO).await;
        }
    }
    timer.adopt_copies(&copies, store.confirmed())?;
    timer.leave_out(queue.min());
    tracing::info!(pending = timer.pending(), copies = copies.len(), next = timer.next().0, "the timer is ready");
    Ok(timer)
}

/// The first unit that tells of what the commit log does not hold: it lost its end in a power cut. The units are in the
/// order of the log, so nearly always the last one tells that there is none.
fn first_foreign(
    log: &mut TimerLog,
    recovered: Recovered,
    mut matches: impl FnMut(&Pending) -> io::Result<bool>,
) -> io::Result<Option<UnitPosition>> {
    let (mut last, mut ahead) = (None, None);
    log.walk(&mut |at, unit| {
        if unit.is_ahead_of(recovered.end, recovered.next) {
            ahead = Some(at);
        } else if let Unit::Pending(pending) = unit {
            last = Some(*pending);
        }
        Ok(ahead.is_none())
    })?;
    if last.as_ref().map_or(Ok(true), &mut matches)? {
        return Ok(ahead);
    }
    let mut foreign = None;
    log.walk(&mut |at, unit| {
        if let Unit::Pending(pending) = unit {
            foreign = (!matches(pending)?).then_some(at);
        }
        Ok(foreign.is_none())
    })?;
    Ok(foreign)
}

/// Whether the timer topic's queue names the same record under this number. What has expired cannot be compared.
fn matches(store: &Store, queue: &ConsumeQueue, pending: &Pending) -> io::Result<bool> {
    if pending.number < queue.min() {
        return Ok(true);
    }
    let mut entries = Vec::new();
    store.entries(queue, pending.number, 1, &mut entries).map_err(io::Error::other)?;
    Ok(entries.first().is_some_and(|(number, entry)| *number == pending.number && entry.physical == pending.record))
}
