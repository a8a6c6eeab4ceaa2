//! Producers decide; given-up transactions are put into work again.

use std::sync::Arc;

use super::{Done, State, TransactionRequest};
use crate::actors::broker::errors::store_failure;
use crate::actors::broker::restore::{self, Unmoved};
use crate::broker::admin::statistics::TopicCounters;
use crate::broker::delay::{real_destination, DueMessage};
use crate::broker::transaction::{half_of, transaction_of, Decision, End, Place, TransactionId, Verdict};
use crate::broker::{BrokerError, Effect, Report};
use crate::env::Canary;
use crate::proto::message::properties::{self, Edit};
use crate::proto::message::{sys_flag, system, NewRecord};
use crate::proto::{PhysicalOffset, QueueOffset};
use crate::store::AppendBatch;

/// Bytes of records that go to the log writer at a time; the one that passes them is the last.
const APPEND_BYTES: usize = 4 << 20;
/// Requests that share a write, at most.
const REQUESTS_MAX: usize = 1024;

/// Requests that are being written.
#[derive(Default)]
struct Writes {
    batch: AppendBatch,
    ends: Vec<Write>,
}

struct Write {
    /// The transaction; `None` for one that begins anew.
    ends: Option<(QueueOffset, Decision)>,
    /// The item of its op, or of its half message.
    item: usize,
    /// The item of its committed message, and what is counted of its topic.
    committed: Option<(usize, Arc<TopicCounters>)>,
}

/// What a request comes to.
enum Prepared {
    /// It was written; tell later.
    Written,
    /// Something about the same transaction is written already: its turn comes behind that.
    Later,
    /// There is nothing to do.
    Done,
}

impl State {
    /// Does what has gathered.
    pub(super) async fn round(&mut self) {
        let mut waiting = std::mem::take(&mut self.gathered);
        while !waiting.is_empty() {
            if self.is_slave() {
                waiting.drain(..).for_each(|(_, done)| drop(done.send(Err(BrokerError::TransactionOnSlave))));
                return;
            }
            if let Err(error) = self.load().await {
                let error = store_failure(&error);
                waiting.drain(..).for_each(|(_, done)| drop(done.send(Err(error.clone()))));
                return;
            }
            self.follow();
            let (mut writes, mut written, mut later) = (Writes::default(), Vec::new(), Vec::new());
            for (request, done) in waiting {
                let full = writes.batch.bytes.len() >= APPEND_BYTES || writes.ends.len() >= REQUESTS_MAX;
                let prepared = if full { Ok(Prepared::Later) } else { self.prepare(&request, &mut writes) };
                match prepared {
                    Ok(Prepared::Written) => written.push(done),
                    Ok(Prepared::Later) => later.push((request, done)),
                    Ok(Prepared::Done) => drop(done.send(Ok(()))),
                    Err(error) => {
                        tracing::debug!(?request, %error, "a transaction is not ended");
                        let _ = done.send(Err(error));
                    }
                }
            }
            self.write(writes, written).await;
            waiting = later;
        }
    }

    fn prepare(&mut self, request: &TransactionRequest, writes: &mut Writes) -> Result<Prepared, BrokerError> {
        match request {
            TransactionRequest::End { half, group, id, decision, from_check } => {
                let named = self.named(*half, group, id.as_deref())?;
                let end = End { id: named, offset: half.offset, from_check: *from_check };
                self.prepare_end(&end, half.position, *decision, writes)
            }
            TransactionRequest::Resume { position } => self.prepare_resume(*position, writes),
        }
    }

    /// The transaction of the half message that a producer names. The checks and their order are RocketMQ's, but for the
    /// last one: after a power cut another message may lie where the producer's was.
    fn named(&self, half: Place, group: &str, id: Option<&str>) -> Result<TransactionId, BrokerError> {
        let mut bytes = Vec::new();
        let record = restore::read(&self.shared, half.position, &mut bytes).map_err(not_read)?;
        if record.topic_bytes() != system::TRANS_HALF_TOPIC.as_bytes() {
            return Err(BrokerError::NoHalfMessage);
        }
        let text = record.properties();
        if properties::find(&text, properties::PRODUCER_GROUP) != Some(group) {
            return Err(BrokerError::HalfOfOtherGroup);
        }
        let facts = half_of(&record, half.offset).map_err(|_| BrokerError::HalfOffset)?;
        match id.filter(|id| !id.is_empty() && **id != *facts.id.key) {
            Some(asked) => Err(BrokerError::HalfOfOtherTransaction { asked: asked.to_owned() }),
            None => Ok(facts.id),
        }
    }

    fn prepare_end(
        &mut self,
        end: &End,
        position: PhysicalOffset,
        decision: Decision,
        writes: &mut Writes,
    ) -> Result<Prepared, BrokerError> {
        let Some(ledger) = &self.ledger else { return Err(BrokerError::TransactionOnSlave) };
        let half = match ledger.on_end(end, self.shared.now()) {
            Verdict::Decide(half) => half,
            Verdict::Ended(stands) if !self.decides_again(stands, decision) => {
                return self.too_late(end, decision, stands);
            }
            Verdict::Ended(_) => end.offset,
            Verdict::Immune => return Err(BrokerError::TransactionImmune { id: end.id.key.to_string() }),
            Verdict::Unknown => return Err(BrokerError::NoHalfMessage),
        };
        if writes.ends.iter().any(|write| write.ends.is_some_and(|(ends, _)| ends == half)) {
            return Ok(Prepared::Later);
        }
        let mut op = ledger.op_of(half);
        if op.is_empty() {
            op.push(half);
        }
        let (bytes, items) = (writes.batch.bytes.len(), writes.batch.items.len());
        let group = writes.batch.next_group();
        // One unit: stored together or not at all, and neighbours in the log.
        let unit = match decision {
            Decision::Commit => self.push_committed(position, writes).map(Some),
            _ => Ok(None),
        };
        let unit = unit.and_then(|counters| {
            let op = self.push_op(&mut writes.batch, group, &op).map_err(not_written)?;
            Ok((counters, op))
        });
        match unit {
            Ok((counters, item)) => {
                let committed = counters.map(|counters| (items, counters));
                writes.ends.push(Write { ends: Some((half, decision)), item, committed });
                Ok(Prepared::Written)
            }
            Err(error) => {
                writes.batch.bytes.truncate(bytes);
                writes.batch.items.truncate(items);
                Err(error)
            }
        }
    }

    /// A planted bug.
    fn decides_again(&self, stands: Option<Decision>, decision: Decision) -> bool {
        let canary = match stands {
            Some(Decision::Rollback) => Canary::CommitAfterRollback,
            _ => Canary::CommitAgain,
        };
        decision == Decision::Commit && self.shared.env.canary(canary)
    }

    /// The first decision stands.
    fn too_late(&self, end: &End, wanted: Decision, stands: Option<Decision>) -> Result<Prepared, BrokerError> {
        if stands == Some(wanted) {
            tracing::debug!(id = %end.id.key, group = %end.id.group, "a transaction is ended once more");
            return Ok(Prepared::Done);
        }
        let id = end.id.key.to_string();
        self.shared.carry_out(vec![Effect::Report(Report::LateEnd { id: end.id.clone(), wanted, stands })]);
        Err(match stands {
            Some(decision) => BrokerError::TransactionEnded { id, decision },
            None => BrokerError::TransactionEndedBefore { id },
        })
    }

    /// The message that a half message becomes: all as it is there, its properties included.
    fn push_committed(
        &mut self,
        position: PhysicalOffset,
        writes: &mut Writes,
    ) -> Result<Arc<TopicCounters>, BrokerError> {
        let mut bytes = Vec::new();
        let record = restore::read(&self.shared, position, &mut bytes).map_err(not_read)?;
        let DueMessage { topic, queue_id, tags_code } =
            real_destination(&record.properties()).map_err(|_| BrokerError::HalfWithoutDestination)?;
        if self.shared.topic_directory.get(&topic).is_none() {
            // It was deleted: nobody would find the message there. Open as it is, it goes to the operator in the end.
            return Err(BrokerError::TopicNotExist { topic: topic.into_owned() });
        }
        let text = record.properties();
        let committed = NewRecord {
            queue_id,
            sys_flag: sys_flag::with_transaction_type(record.sys_flag(), sys_flag::TRANSACTION_COMMIT),
            prepared_transaction_offset: position.0 as i64,
            ..NewRecord::copy_of(&record, &topic, &text)
        };
        let group = writes.batch.next_group();
        restore::push(&self.shared, &mut self.queues, &mut writes.batch, group, &committed, tags_code)
            .map_err(not_written)
    }

    /// A message that was given up becomes a half message once more, with all its questions ahead.
    fn prepare_resume(&mut self, position: PhysicalOffset, writes: &mut Writes) -> Result<Prepared, BrokerError> {
        let mut bytes = Vec::new();
        let record = restore::read(&self.shared, position, &mut bytes).map_err(not_read)?;
        let text = record.properties();
        let given_up = record.topic_bytes() == system::TRANS_CHECK_MAX_TIME_TOPIC.as_bytes();
        let id = transaction_of(&text).filter(|_| given_up).ok_or(BrokerError::NoHalfMessage)?;
        if self.ledger.as_ref().is_none_or(|ledger| ledger.is_open(&id)) {
            return Err(BrokerError::NothingToResume);
        }
        let tags_code = real_destination(&text).map_err(|_| BrokerError::HalfWithoutDestination)?.tags_code;
        let edits = [
            Edit::Set(properties::TRANSACTION_CHECK_TIMES, "0"),
            Edit::Remove(properties::TRANSACTION_PREPARED_QUEUE_OFFSET),
        ];
        let half =
            NewRecord { queue_id: 0, edits: &edits, ..NewRecord::copy_of(&record, system::TRANS_HALF_TOPIC, &text) };
        let (group, batch) = (writes.batch.next_group(), &mut writes.batch);
        restore::push(&self.shared, &mut self.queues, batch, group, &half, tags_code).map_err(not_written)?;
        writes.ends.push(Write { ends: None, item: batch.items.len() - 1, committed: None });
        Ok(Prepared::Written)
    }

    /// Stores what was prepared, takes note of it, and tells those who asked.
    async fn write(&mut self, writes: Writes, tell: Vec<Done>) {
        let Writes { batch, ends } = writes;
        if ends.is_empty() {
            return;
        }
        let outcomes = self.append(batch).await;
        let mut outcome = Ok(());
        for (write, done) in ends.iter().zip(tell) {
            let stored = outcomes.stored(write.item);
            if let (Ok(stored), Some(ledger), Some((half, decision))) = (&stored, &mut self.ledger, write.ends) {
                ledger.on_ended(half, decision, Place { offset: stored.queue_offset, position: stored.physical });
            }
            if let Some((item, counters)) = &write.committed {
                if let Ok(stored) = outcomes.stored(*item) {
                    self.shared.statistics.broker.puts.add(1);
                    counters.puts.add(1);
                    counters.put_bytes.add(stored.end.0 - stored.physical.0);
                }
            }
            outcome = outcome.and(stored.as_ref().map(drop).map_err(ToString::to_string));
            // Whoever asked may be gone.
            let _ = done.send(stored.and_then(|_| outcomes.are_safe()));
        }
        if let Some(ledger) = &self.ledger {
            self.shared.half_messages.publish(ledger);
        }
        self.writing.note("store decisions about transactions", &outcome);
    }
}

/// A half message that cannot be read.
fn not_read(unmoved: Unmoved) -> BrokerError {
    match unmoved {
        Unmoved::Now(error) => store_failure(&error),
        Unmoved::Ever(_) => BrokerError::NoHalfMessage,
    }
}

/// A record that cannot be written.
fn not_written(unmoved: Unmoved) -> BrokerError {
    match unmoved {
        Unmoved::Now(error) => store_failure(&error),
        Unmoved::Ever(what) => BrokerError::StoreFailed { what: what.to_string() },
    }
}
