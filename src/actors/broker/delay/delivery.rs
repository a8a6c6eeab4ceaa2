//! Due messages on their way to their real queues.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::State;
use crate::actors::broker::service::QueueHandles;
use crate::actors::log_writer::Durability;
use crate::broker::admin::statistics::TopicCounters;
use crate::broker::delay::{due_message, Due};
use crate::proto::message::{encode_record, parse, BodyCrc, NewRecord, Parsed};
use crate::store::{AppendBatch, StoreError, TagsCode};

/// Bytes of due messages that go to the log writer at a time; the one that passes them is the last.
const APPEND_BYTES: usize = 4 << 20;

/// Due messages on their way to the log writer.
#[derive(Default)]
struct Delivery {
    batch: AppendBatch,
    /// One for each record of the batch.
    due: Vec<Due>,
    /// Those of each record's topic.
    counters: Vec<Arc<TopicCounters>>,
    /// The record being copied.
    record: Vec<u8>,
}

/// Why a due message is not part of a delivery.
enum Undelivered {
    /// It is tried again.
    Now,
    /// It can never be delivered.
    Ever(&'static str),
}

impl State {
    /// Puts due messages into their real queues. Behind one that failed, the others of its level wait too: they keep
    /// their order.
    pub(super) async fn deliver(&mut self, due: Vec<Due>) {
        let mut held = BTreeSet::new();
        let mut delivery = Delivery::default();
        for due in due {
            let prepared =
                if held.contains(&due.level) { Err(Undelivered::Now) } else { self.prepare(&due, &mut delivery) };
            match prepared {
                Ok(()) => delivery.due.push(due),
                Err(Undelivered::Now) => {
                    held.insert(due.level);
                    self.shared.delays().on_failed(due.level, due.entry.offset, self.now());
                }
                Err(Undelivered::Ever(why)) => {
                    let mut effects = Vec::new();
                    self.shared.delays().on_undeliverable(due.level, due.entry.offset, why, &mut effects);
                    self.shared.carry_out(effects);
                }
            }
            if delivery.batch.bytes.len() >= APPEND_BYTES {
                self.append(std::mem::take(&mut delivery), &mut held).await;
            }
        }
        if !delivery.due.is_empty() {
            self.append(delivery, &mut held).await;
        }
    }

    /// Encodes the record that a due message becomes.
    fn prepare(&mut self, due: &Due, delivery: &mut Delivery) -> Result<(), Undelivered> {
        let later = |error: StoreError| {
            tracing::warn!(level = due.level, offset = due.entry.offset.0, %error, "a due message waits");
            Undelivered::Now
        };
        let record = &mut delivery.record;
        record.clear();
        self.shared.store.record_at(due.entry.position, record).map_err(|error| match error {
            StoreError::NoRecord { .. } => Undelivered::Ever("its record is gone"),
            error => later(error),
        })?;
        let Ok(Parsed::Record(record)) = parse(record, BodyCrc::Verify) else {
            return Err(Undelivered::Ever("its record is damaged"));
        };
        let message =
            due_message(&record, due.level, due.entry.offset).map_err(|error| Undelivered::Ever(error.why()))?;
        let QueueHandles { queue, counters } =
            self.queues.get(&self.shared, &message.topic, message.queue_id as u32).map_err(later)?;
        let properties = record.properties();
        let copy = NewRecord {
            queue_id: message.queue_id,
            store_host: self.shared.advertised,
            ..NewRecord::copy_of(&record, &message.topic, &properties)
        };
        let start = delivery.batch.bytes.len();
        encode_record(&mut delivery.batch.bytes, &copy)
            .map_err(|_| Undelivered::Ever("its record cannot be copied"))?;
        delivery.batch.push(start, queue, TagsCode::Fixed(message.tags_code));
        delivery.counters.push(counters);
        Ok(())
    }

    async fn append(&mut self, delivery: Delivery, held: &mut BTreeSet<i32>) {
        let appended = self.shared.writer.append(delivery.batch, true).await.ok();
        let now = self.now();
        let mut delays = self.shared.delays();
        let mut outcome = Ok(());
        let mut effects = Vec::new();
        for (at, (due, counters)) in delivery.due.iter().zip(&delivery.counters).enumerate() {
            let durability = appended.as_ref().map_or(Durability::SyncFailed, |appended| appended.durability);
            let failure = match appended.as_ref().and_then(|appended| appended.results.get(at)) {
                // A slow sync is no reason to put the message a second time.
                Some(Ok(stored)) if durability != Durability::SyncFailed => {
                    self.delivered_to = self.delivered_to.max(stored.end);
                    self.shared.statistics.broker.puts.add(1);
                    counters.puts.add(1);
                    counters.put_bytes.add(stored.end.0 - stored.physical.0);
                    delays.on_delivered(due.level, due.entry.offset);
                    continue;
                }
                Some(Err(StoreError::TooLarge { .. })) => {
                    let why = "its record is too large for this store";
                    delays.on_undeliverable(due.level, due.entry.offset, why, &mut effects);
                    continue;
                }
                Some(Err(error)) => error.to_string(),
                _ => "the log could not be synced".to_owned(),
            };
            outcome = outcome.and(Err(failure));
            held.insert(due.level);
            delays.on_failed(due.level, due.entry.offset, now);
        }
        drop(delays);
        self.shared.carry_out(effects);
        self.delivering.note("deliver due messages", &outcome);
    }
}
