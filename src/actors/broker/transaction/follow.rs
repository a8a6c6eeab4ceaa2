//! The account is made of the log: at the start from the progress on, then as half messages come.

use std::collections::{BTreeSet, VecDeque};

use super::{State, Unmoved};
use crate::actors::broker::restore;
use crate::actors::broker::service::QueueCache;
use crate::actors::broker::shared::Shared;
use crate::broker::delay::real_destination;
use crate::broker::transaction::{half_of, named_by_op, transaction_of, Half, HalfLedger, Place, Progress};
use crate::broker::{Effect, Report};
use crate::env::{Canary, Millis};
use crate::proto::message::{sys_flag, system};
use crate::proto::{PhysicalOffset, QueueOffset};
use crate::store::{AppendBatch, ConsumeQueue, StoreError};

/// Entries of a queue that are read at a time.
const READ_MAX: usize = 1024;
/// How many of a queue's last messages are looked at for one that was committed just before a crash. Ours is the last one;
/// RocketMQ's broker writes ops some seconds later.
const COMMITTED_MAX: u64 = 64;
/// Halves that one op names when ops are made up for.
const OWED_MAX: usize = 500;

/// An op of the queue.
struct Op {
    offset: QueueOffset,
    position: PhysicalOffset,
    named: Vec<QueueOffset>,
}

impl State {
    /// Makes the account, unless it is there or this is a slave.
    pub(super) async fn load(&mut self) -> Result<(), StoreError> {
        if self.ledger.is_some() || self.is_slave() {
            return Ok(());
        }
        self.read_log()?;
        self.pay().await;
        Ok(())
    }

    /// Makes the account of what lies in the log, and writes nothing.
    pub(super) fn read_log(&mut self) -> Result<(), StoreError> {
        let mut ledger = loaded(&self.shared, &mut self.queues)?;
        find_committed(&self.shared, &mut ledger)?;
        let progress = ledger.progress();
        if ledger.open() > 0 {
            tracing::info!(open = ledger.open(), half = progress.half.0, op = progress.op.0, "transactions are open");
        }
        self.shared.half_messages.publish(&ledger);
        self.followed = self.shared.now();
        self.ledger = Some(ledger);
        Ok(())
    }

    /// Reads the half messages that came since.
    pub(super) fn follow(&mut self) {
        let State { shared, queues, ledger: Some(ledger), followed, .. } = self else { return };
        let now = shared.now();
        // One that is new was stored after the last look, whatever the wall clock says.
        let age_max_ms = now.since(*followed);
        let followed_now = half_queue(shared, queues).and_then(|queue| {
            let mut skipped = Vec::new();
            let read = each_half(shared, &queue, ledger.next(), &mut skipped, &mut |read| {
                ledger.on_half(with_age(shared, read, Some(age_max_ms)));
            });
            if let Ok(to) = &read {
                ledger.on_read_to(*to);
            }
            shared.carry_out(skipped);
            read.map(drop)
        });
        if followed_now.is_ok() {
            *followed = now;
        }
        self.shared.half_messages.publish(ledger);
        self.reading.note("read half messages", &followed_now);
    }

    /// Stores the ops that a crash took.
    pub(super) async fn pay(&mut self) {
        let owed = self.ledger.as_ref().map(HalfLedger::owed).unwrap_or_default();
        for named in owed.chunks(OWED_MAX) {
            let mut batch = AppendBatch::default();
            let group = batch.next_group();
            let Ok(item) = self.push_op(&mut batch, group, named) else { return };
            let outcome = self.append(batch).await.stored(item);
            if let (Ok(stored), Some(ledger)) = (&outcome, &mut self.ledger) {
                ledger.on_paid(stored.queue_offset, named);
            }
            self.writing.note("store ops of transactions", &outcome);
        }
    }
}

fn half_queue(shared: &Shared, queues: &mut QueueCache) -> Result<std::sync::Arc<ConsumeQueue>, StoreError> {
    Ok(queues.get(shared, system::TRANS_HALF_TOPIC, 0)?.queue)
}

/// What the two queues say from the saved progress on. Halves and ops are read in the order of the log, so that one which
/// was sent again under the id of a transaction that had ended is told from one that was put again.
fn loaded(shared: &Shared, queues: &mut QueueCache) -> Result<HalfLedger, StoreError> {
    let halves = half_queue(shared, queues)?;
    let ops = queues.get(shared, system::TRANS_OP_HALF_TOPIC, 0)?.queue;
    let saved = |queue: &ConsumeQueue| {
        let saved = shared.offsets().committed_offset(system::TRANS_CONSUMER_GROUP, queue.topic(), 0);
        if shared.env.canary(Canary::PromotedForgetsHalves) {
            return queue.max();
        }
        let saved = QueueOffset(u64::try_from(saved.unwrap_or(0)).unwrap_or(0));
        saved.clamp(queue.min(), queue.max().max(queue.min()))
    };
    let from = Progress { half: saved(&halves), op: saved(&ops) };
    let mut ops = read_ops(shared, &ops, from.op)?;
    let mut ledger = HalfLedger::new(from, shared.env.canaries());
    let mut skipped = Vec::new();
    let end = each_half(shared, &halves, from.half, &mut skipped, &mut |read| {
        while ops.front().is_some_and(|op| op.position < read.half.place.position) {
            ops.pop_front().iter().for_each(|op| ledger.on_op(op.offset, &op.named));
        }
        ledger.on_half(with_age(shared, read, None));
    })?;
    ops.iter().for_each(|op| ledger.on_op(op.offset, &op.named));
    ledger.on_read_to(end);
    shared.carry_out(skipped);
    Ok(ledger)
}

/// A half as it was read, and its age by the wall clock, in milliseconds.
struct Read {
    half: Half,
    age_ms: u64,
}

fn with_age(shared: &Shared, read: Read, age_max_ms: Option<u64>) -> Half {
    let age_ms = read.age_ms.min(age_max_ms.unwrap_or(u64::MAX));
    Half { since: shared.now().plus(-i64::try_from(age_ms).unwrap_or(i64::MAX)), ..read.half }
}

/// Reads the halves from `from` on to the end of their queue and returns where that is. What is no half message that
/// anybody could decide about is reported and passed over.
fn each_half(
    shared: &Shared,
    queue: &ConsumeQueue,
    from: QueueOffset,
    skipped: &mut Vec<Effect>,
    take: &mut dyn FnMut(Read),
) -> Result<QueueOffset, StoreError> {
    let (mut next, mut record) = (from, Vec::new());
    let mut lost = |from, to, why| skipped.push(Effect::Report(Report::HalfMessagesLost { from, to, why }));
    while next < queue.max() {
        let mut entries = Vec::new();
        shared.store.entries(queue, next, READ_MAX, &mut entries)?;
        if entries.is_empty() {
            let end = queue.max();
            lost(next, end, "their queue entries are missing");
            next = end;
        }
        for (offset, entry) in entries {
            if offset > next {
                lost(next, offset, "a file of the queue is missing");
            }
            next = QueueOffset(offset.0 + 1);
            let place = Place { offset, position: entry.physical };
            match restore::read(shared, entry.physical, &mut record) {
                Ok(view) => match half_of(&view, offset) {
                    Ok(facts) => {
                        let age_ms = shared.wall().since(view.store_timestamp());
                        let half = Half {
                            id: facts.id,
                            place,
                            first: facts.first,
                            checks: facts.checks,
                            immunity_ms: facts.immunity_ms,
                            since: Millis(0),
                        };
                        take(Read { half, age_ms });
                    }
                    Err(error) => lost(offset, next, error.why()),
                },
                Err(Unmoved::Ever(why)) => lost(offset, next, why.why()),
                Err(Unmoved::Now(error)) => return Err(error),
            }
        }
    }
    Ok(next)
}

fn read_ops(shared: &Shared, queue: &ConsumeQueue, from: QueueOffset) -> Result<VecDeque<Op>, StoreError> {
    let (mut ops, mut record) = (VecDeque::new(), Vec::new());
    let mut next = from;
    while next < queue.max() {
        let mut entries = Vec::new();
        shared.store.entries(queue, next, READ_MAX, &mut entries)?;
        next = entries.last().map_or(queue.max(), |(offset, _)| QueueOffset(offset.0 + 1));
        for (offset, entry) in entries {
            match restore::read(shared, entry.physical, &mut record) {
                Ok(view) => {
                    ops.push_back(Op { offset, position: entry.physical, named: named_by_op(view.body()) });
                }
                // Its halves are asked about again.
                Err(Unmoved::Ever(why)) => tracing::warn!(offset = offset.0, %why, "an op cannot be read"),
                Err(Unmoved::Now(error)) => return Err(error),
            }
        }
    }
    Ok(ops)
}

/// Finds the committed message whose op a crash took: it is the last record of the log, so it is among the last messages
/// of the queue that it belongs to.
fn find_committed(shared: &Shared, ledger: &mut HalfLedger) -> Result<(), StoreError> {
    let mut record = Vec::new();
    let mut queues = BTreeSet::new();
    for half in ledger.standing() {
        match restore::read(shared, half.position, &mut record) {
            Ok(view) => {
                queues.extend(real_destination(&view.properties()).map(|to| (to.topic.into_owned(), to.queue_id)))
            }
            Err(Unmoved::Ever(_)) => {}
            Err(Unmoved::Now(error)) => return Err(error),
        }
    }
    for (topic, queue_id) in queues {
        let Some(queue) = shared.store.queue(&topic, queue_id as u32) else { continue };
        let from = QueueOffset(queue.max().0.saturating_sub(COMMITTED_MAX));
        let mut entries = Vec::new();
        shared.store.entries(&queue, from, COMMITTED_MAX as usize, &mut entries)?;
        for (_, entry) in entries {
            let view = match restore::read(shared, entry.physical, &mut record) {
                Ok(view) => view,
                Err(Unmoved::Ever(_)) => continue,
                Err(Unmoved::Now(error)) => return Err(error),
            };
            if sys_flag::transaction_type(view.sys_flag()) != sys_flag::TRANSACTION_COMMIT {
                continue;
            }
            let (id, prepared) = (transaction_of(&view.properties()), view.prepared_transaction_offset() as u64);
            if ledger.on_committed_before(id.as_ref(), PhysicalOffset(prepared), entry.physical) {
                tracing::info!(topic, queue_id, "a crash took the op of a committed message");
            }
        }
    }
    Ok(())
}
