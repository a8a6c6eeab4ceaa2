//! Due messages on their way to their real queues.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::State;
use crate::actors::broker::restore::{self, Unmoved};
use crate::actors::log_writer::Durability;
use crate::broker::admin::statistics::TopicCounters;
use crate::broker::delay::{due_message, Due};
use crate::proto::message::NewRecord;
use crate::store::{AppendBatch, StoreError};

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

impl State {
    /// Puts due messages into their real queues. Behind one that failed, the others of its level wait too: they keep
    /// their order.
    pub(super) async fn deliver(&mut self, due: Vec<Due>) {
        let mut held = BTreeSet::new();
        let mut delivery = Delivery::default();
        for due in due {
            if held.contains(&due.level) {
                self.shared.delays().on_failed(due.level, due.entry.offset, self.now());
                continue;
            }
            match self.prepare(&due, &mut delivery) {
                Ok(()) => delivery.due.push(due),
                Err(Unmoved::Now(error)) => {
                    tracing::warn!(level = due.level, offset = due.entry.offset.0, %error, "a due message waits");
                    held.insert(due.level);
                    self.shared.delays().on_failed(due.level, due.entry.offset, self.now());
                }
                Err(Unmoved::Ever(why)) => {
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
    fn prepare(&mut self, due: &Due, delivery: &mut Delivery) -> Result<(), Unmoved> {
        let record = restore::read(&self.shared, due.entry.position, &mut delivery.record)?;
        let message = due_message(&record, due.level, due.entry.offset).map_err(|error| Unmoved::Ever(error.why()))?;
        let properties = record.properties();
        let copy = NewRecord { queue_id: message.queue_id, ..NewRecord::copy_of(&record, &message.topic, &properties) };
        let group = delivery.batch.next_group();
        let (batch, tags_code) = (&mut delivery.batch, message.tags_code);
        delivery.counters.push(restore::push(&self.shared, &mut self.queues, batch, group, &copy, tags_code)?);
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
