//! Due messages on their way to their real queues, whoever made them wait: delay levels or the timer.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::restore::{self, Unmoved};
use super::service::QueueCache;
use super::shared::Shared;
use crate::actors::log_writer::Durability;
use crate::broker::admin::statistics::TopicCounters;
use crate::broker::delay::{DueError, DueMessage};
use crate::proto::message::properties::Edit;
use crate::proto::message::{NewRecord, RecordView};
use crate::proto::PhysicalOffset;
use crate::store::{AppendBatch, StoreError, Trouble};

/// Bytes of due messages that go to the log writer at a time; the one that passes them is the last.
const APPEND_BYTES: usize = 4 << 20;
/// The most properties that a copy has of its own.
const REPLACED_MAX: usize = 4;

/// A message that is due.
pub trait Due {
    /// Properties of the record that its copy does not have, or has anew.
    const REPLACED: &'static [&'static str] = &[];

    /// Where its record lies.
    fn position(&self) -> PhysicalOffset;

    /// Messages of one series keep their order: behind one that failed the others wait.
    fn series(&self) -> Option<i32> {
        None
    }

    /// Where the copy goes. Properties that it has beside those of the record are appended to `added`.
    ///
    /// # Errors
    /// Why there will be no copy.
    fn resolve<'r>(&self, record: &RecordView<'r>, added: &mut String) -> Result<DueMessage<'r>, DueError>;
}

/// What became of a due message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its copy is stored and ends there.
    Stored {
        /// The end of the copy in the commit log.
        end: PhysicalOffset,
    },
    /// It is to be tried again.
    Failed,
    /// It can never be delivered.
    Never(DueError),
}

/// Puts due messages into their queues.
pub struct Deliveries {
    shared: Arc<Shared>,
    queues: QueueCache,
    trouble: Trouble,
    /// Room for the record being copied, and for what its copy says more.
    record: Vec<u8>,
    added: String,
}

/// Copies on their way to the log writer.
struct Delivery<D> {
    batch: AppendBatch,
    /// One for each record of the batch.
    due: Vec<D>,
    /// Those of each record's topic.
    counters: Vec<Arc<TopicCounters>>,
}

impl<D> Delivery<D> {
    fn new(makes_room: bool) -> Self {
        let batch = AppendBatch { makes_room, ..AppendBatch::default() };
        Delivery { batch, due: Vec::new(), counters: Vec::new() }
    }
}

impl Deliveries {
    /// For a broker.
    pub fn new(shared: Arc<Shared>) -> Self {
        Deliveries {
            shared,
            queues: QueueCache::default(),
            trouble: Trouble::default(),
            record: Vec::new(),
            added: String::new(),
        }
    }

    /// Puts due messages into their queues, in order, and says what became of each; the outcomes are in another order.
    pub async fn deliver<D: Due>(&mut self, due: Vec<D>) -> Vec<(D, Outcome)> {
        self.put(due, false).await
    }

    /// The same for records that are put again so that the log's beginning can be deleted: a disk that is nearly full
    /// takes them, or it would stay so for ever.
    pub async fn put_again<D: Due>(&mut self, due: Vec<D>) -> Vec<(D, Outcome)> {
        self.put(due, true).await
    }

    async fn put<D: Due>(&mut self, due: Vec<D>, makes_room: bool) -> Vec<(D, Outcome)> {
        let mut held = BTreeSet::new();
        let mut outcomes = Vec::with_capacity(due.len());
        let mut delivery = Delivery::new(makes_room);
        for due in due {
            let is_held = due.series().is_some_and(|series| held.contains(&series));
            let prepared = if is_held { Err(Outcome::Failed) } else { self.prepare(&due, &mut delivery) };
            match prepared {
                Ok(()) => delivery.due.push(due),
                Err(outcome) => {
                    held.extend(due.series().filter(|_| outcome == Outcome::Failed));
                    outcomes.push((due, outcome));
                }
            }
            if delivery.batch.bytes.len() >= APPEND_BYTES {
                let full = std::mem::replace(&mut delivery, Delivery::new(makes_room));
                self.append(full, &mut held, &mut outcomes).await;
            }
        }
        if !delivery.due.is_empty() {
            self.append(delivery, &mut held, &mut outcomes).await;
        }
        outcomes
    }

    /// Encodes the record that a due message becomes.
    fn prepare<D: Due>(&mut self, due: &D, delivery: &mut Delivery<D>) -> Result<(), Outcome> {
        let unmoved = |unmoved| match unmoved {
            Unmoved::Now(error) => {
                crate::sometimes!("a due message could not be delivered at once");
                tracing::warn!(record = due.position().0, %error, "a due message waits");
                Outcome::Failed
            }
            Unmoved::Ever(error) => Outcome::Never(error),
        };
        let record = restore::read(&self.shared, due.position(), &mut self.record).map_err(unmoved)?;
        self.added.clear();
        let message = due.resolve(&record, &mut self.added).map_err(Outcome::Never)?;
        let properties = record.properties();
        let mut edits = [Edit::Append(&self.added); REPLACED_MAX + 1];
        for (edit, name) in edits.iter_mut().zip(D::REPLACED) {
            *edit = Edit::Remove(name);
        }
        let copy = NewRecord {
            queue_id: message.queue_id,
            edits: edits.get(..=D::REPLACED.len()).filter(|_| !self.added.is_empty()).unwrap_or_default(),
            ..NewRecord::copy_of(&record, &message.topic, &properties)
        };
        let (group, batch) = (delivery.batch.next_group(), &mut delivery.batch);
        let pushed = restore::push(&self.shared, &mut self.queues, batch, group, &copy, message.tags_code);
        let counters = pushed.map_err(unmoved)?;
        delivery.counters.push(counters);
        Ok(())
    }

    async fn append<D: Due>(
        &mut self,
        delivery: Delivery<D>,
        held: &mut BTreeSet<i32>,
        outcomes: &mut Vec<(D, Outcome)>,
    ) {
        let appended = self.shared.writer.append(delivery.batch, true).await.ok();
        let durability = appended.as_ref().map_or(Durability::SyncFailed, |appended| appended.durability);
        let mut trouble = Ok(());
        for (at, (due, counters)) in delivery.due.into_iter().zip(&delivery.counters).enumerate() {
            let failure = match appended.as_ref().and_then(|appended| appended.results.get(at)) {
                // A slow sync is no reason to put the message a second time.
                Some(Ok(stored)) if durability != Durability::SyncFailed => {
                    self.shared.statistics.broker.puts.add(1);
                    counters.puts.add(1);
                    counters.put_bytes.add(stored.end.0 - stored.physical.0);
                    outcomes.push((due, Outcome::Stored { end: stored.end }));
                    continue;
                }
                Some(Err(StoreError::TooLarge { .. })) => {
                    outcomes.push((due, Outcome::Never(DueError::TooLarge)));
                    continue;
                }
                Some(Err(error)) => error.to_string(),
                _ => "the log could not be synced".to_owned(),
            };
            trouble = trouble.and(Err(failure));
            held.extend(due.series());
            outcomes.push((due, Outcome::Failed));
        }
        self.trouble.note("deliver due messages", &trouble);
    }
}
