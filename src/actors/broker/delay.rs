//! The delay scheduler: delivers messages of the delay topic once they are due, and saves how far it got.
//!
//! It sleeps until the next message is due. A level whose queue holds nothing to wait for has a waiter parked there, like
//! a consumer's pull, so an idle broker does not wake for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use super::saved::Saved;
use super::service::{QueueCache, QueueHandles};
use super::shared::Shared;
use crate::actors::log_writer::Durability;
use crate::broker::admin::runtime::DelayProgress;
use crate::broker::admin::statistics::TopicCounters;
use crate::broker::delay::{due_message, saved_progress, DelayEntry, DelayScheduler, Due, Now, QueueRange, BATCH_MAX};
use crate::broker::Effect;
use crate::config::broker::BrokerConfig;
use crate::env::Millis;
use crate::proto::body::DelayOffsetSerializeWrapper;
use crate::proto::message::{encode_record, parse, system, BodyCrc, DelayLevels, NewRecord, Parsed};
use crate::proto::PhysicalOffset;
use crate::store::{AppendBatch, ConsumeQueue, Store, StoreError, TagsCode};

/// Bytes of due messages that go to the log writer at a time; the one that passes them is the last.
const APPEND_BYTES: usize = 4 << 20;
/// Pause before progress is saved after all whose deliveries were not on disk yet.
const SAVE_RETRY: Duration = Duration::from_millis(500);
/// How long a stop waits for the last deliveries to be on disk, and how often it looks.
const STOP_LIMIT_MS: i64 = 2_000;
const STOP_LOOK: Duration = Duration::from_millis(10);

/// What the delay scheduler is told.
pub enum DelayMessage {
    /// Look for due messages.
    Wake {
        /// The monotonic time for which this was arranged.
        at: Millis,
    },
    /// A message came into the queue of a level that had nothing to wait for.
    Arrived {
        /// The level.
        level: i32,
    },
    /// Save the progress.
    Save,
    /// Deliver no more, save the progress and answer.
    Stop {
        /// Told when it is saved, or what could not be.
        done: oneshot::Sender<Result<(), String>>,
    },
}

/// See the module's text.
pub struct DelayActor;

/// What the delay scheduler starts with; the progress itself is part of [`Shared`].
pub struct DelayArguments {
    /// The broker's state.
    pub shared: Arc<Shared>,
    /// `delayOffset.json`
    pub file: Saved,
}

#[doc(hidden)]
pub struct State {
    shared: Arc<Shared>,
    file: Saved,
    queues: QueueCache,
    /// Levels with a waiter in their queue.
    parked: BTreeSet<i32>,
    /// The earliest wake that was arranged.
    armed: Option<Millis>,
    save_armed: bool,
    /// Where the last delivered record ends.
    delivered_to: PhysicalOffset,
    /// Progress to save once the log is on disk up to that position.
    unsaved: Option<(DelayOffsetSerializeWrapper, PhysicalOffset)>,
    stopped: bool,
}

/// The progress as saved, corrected to what the store holds.
pub fn restored(
    store: &Store,
    config: &BrokerConfig,
    saved: DelayOffsetSerializeWrapper,
    effects: &mut Vec<Effect>,
) -> DelayScheduler {
    let range =
        |level| store.queue(system::SCHEDULE_TOPIC, DelayLevels::queue_id(level) as u32).map(|queue| range(&queue));
    let step = config.delay_offset_update_version_step;
    DelayScheduler::new(&config.delay_levels(), step, saved_progress(saved), range, effects)
}

/// How far the levels that were ever used are.
pub fn progress(shared: &Shared) -> Vec<DelayProgress> {
    let delivered = shared.delays().snapshot(shared.wall()).offset_table;
    let progress = |(level, delivered): (i32, i64)| {
        let queue = shared.store.queue(system::SCHEDULE_TOPIC, DelayLevels::queue_id(level) as u32);
        DelayProgress { level, delivered: delivered as u64, max: queue.map_or(0, |queue| queue.max().0) }
    };
    delivered.into_iter().map(progress).collect()
}

fn range(queue: &ConsumeQueue) -> QueueRange {
    QueueRange { min: queue.min(), max: queue.max() }
}

impl Actor for DelayActor {
    type Msg = DelayMessage;
    type State = State;
    type Arguments = DelayArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        arguments: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        let DelayArguments { shared, file } = arguments;
        myself.cast(DelayMessage::Wake { at: shared.now() })?;
        // What was corrected at the start is saved although nothing is delivered.
        myself.cast(DelayMessage::Save)?;
        Ok(State {
            shared,
            file,
            queues: QueueCache::default(),
            parked: BTreeSet::new(),
            armed: None,
            save_armed: true,
            delivered_to: PhysicalOffset(0),
            unsaved: None,
            stopped: false,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        if state.stopped {
            return Ok(());
        }
        match message {
            DelayMessage::Wake { at } => {
                state.armed = state.armed.filter(|armed| *armed != at);
                state.round(&myself).await;
            }
            DelayMessage::Arrived { level } => {
                state.parked.remove(&level);
                state.round(&myself).await;
            }
            DelayMessage::Save => {
                state.save_armed = false;
                state.save(&myself).await;
            }
            DelayMessage::Stop { done } => {
                state.stopped = true;
                let _ = done.send(state.save_last().await);
            }
        }
        Ok(())
    }
}

impl State {
    /// Delivers a batch of what is due, then sleeps until more is: no time at all if there is more behind the batch.
    async fn round(&mut self, myself: &ActorRef<DelayMessage>) {
        // A slave holds its master's messages: only the master delivers them.
        if self.shared.settings().send.slave {
            return;
        }
        let due = self.due(myself);
        if !due.is_empty() {
            self.deliver(due).await;
            self.arm_save(myself, Duration::from_millis(self.shared.settings().config.flush_delay_offset_interval));
        }
        self.arm(myself);
    }

    fn now(&self) -> Now {
        Now { wall: self.shared.wall(), monotonic: self.shared.now() }
    }

    /// What is due at present, at most a batch per level.
    fn due(&mut self, myself: &ActorRef<DelayMessage>) -> Vec<Due> {
        let mut due = Vec::new();
        let levels = self.shared.delays().level_max();
        for level in (1..=levels).filter(|level| !self.parked.contains(level)).collect::<Vec<_>>() {
            let before = due.len();
            if let Err(error) = self.read(myself, level, &mut due) {
                tracing::warn!(level, %error, "the delay queue cannot be read; trying again");
                due.truncate(before);
                self.shared.delays().on_unreadable(level, self.now());
            }
        }
        due
    }

    /// Reads the next entries of a level; with none there a waiter is parked.
    fn read(&mut self, myself: &ActorRef<DelayMessage>, level: i32, due: &mut Vec<Due>) -> Result<(), StoreError> {
        let now = self.now();
        let Some(from) = self.shared.delays().wants(level, now) else { return Ok(()) };
        let queue_id = DelayLevels::queue_id(level) as u32;
        let queue = self.queues.get(&self.shared, system::SCHEDULE_TOPIC, queue_id)?.queue;
        let range = range(&queue);
        let mut entries = Vec::new();
        self.shared.store.entries(&queue, from, BATCH_MAX, &mut entries)?;
        let entries: Vec<DelayEntry> = entries
            .iter()
            .map(|(offset, entry)| DelayEntry {
                offset: *offset,
                deliver_at: Millis(entry.tags_code),
                position: entry.physical,
                size: entry.size,
            })
            .collect();
        if entries.is_empty() && from < range.max {
            let what =
                std::io::Error::other(format!("no entries from {} on although there are {}", from.0, range.max.0));
            return Err(StoreError::Io { action: "read the delay queue", error: Arc::new(what) });
        }
        let mut effects = Vec::new();
        self.shared.delays().on_entries(level, now, range, &entries, due, &mut effects);
        self.shared.carry_out(effects);
        if entries.is_empty() {
            let to = myself.clone();
            // If the actor is gone nobody waits for messages to become due.
            let arrived = Box::new(move |_| drop(to.cast(DelayMessage::Arrived { level })));
            if queue.add_waiter(range.max, arrived).is_ok() {
                self.parked.insert(level);
            }
        }
        Ok(())
    }

    /// Puts due messages into their real queues. Behind one that failed, the others of its level wait too: they keep
    /// their order.
    async fn deliver(&mut self, due: Vec<Due>) {
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
        let mut failures: BTreeMap<String, usize> = BTreeMap::new();
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
            *failures.entry(failure).or_default() += 1;
            held.insert(due.level);
            delays.on_failed(due.level, due.entry.offset, now);
        }
        drop(delays);
        self.shared.carry_out(effects);
        for (error, messages) in failures {
            tracing::warn!(messages, error, "due messages were not delivered; trying again");
        }
    }

    /// Arranges the next wake, unless an earlier one is arranged already.
    fn arm(&mut self, myself: &ActorRef<DelayMessage>) {
        let delays = self.shared.delays();
        let levels = (1..=delays.level_max()).filter(|level| !self.parked.contains(level));
        let Some(next) = levels.filter_map(|level| delays.wake_of(level)).min() else { return };
        if self.armed.is_none_or(|armed| next < armed) {
            self.armed = Some(next);
            let wait = next.since(self.shared.now());
            myself.send_after(Duration::from_millis(wait), move || DelayMessage::Wake { at: next });
        }
    }

    fn arm_save(&mut self, myself: &ActorRef<DelayMessage>, wait: Duration) {
        if !std::mem::replace(&mut self.save_armed, true) {
            myself.send_after(wait, || DelayMessage::Save);
        }
    }

    async fn save(&mut self, myself: &ActorRef<DelayMessage>) {
        if let Err(error) = self.try_save().await {
            tracing::warn!(error, "delay progress was not saved; trying again");
        }
        if self.unsaved.is_some() {
            self.arm_save(myself, SAVE_RETRY);
        }
    }

    /// Saves the progress once the records it counts as delivered are on disk. Saved earlier, a power cut would lose
    /// under ASYNC_FLUSH what had waited safely until it was delivered.
    async fn try_save(&mut self) -> Result<(), String> {
        if self.unsaved.is_none() {
            let mut delays = self.shared.delays();
            if delays.take_dirty() {
                self.unsaved = Some((delays.snapshot(self.shared.wall()), self.delivered_to));
            }
        }
        if let Some((progress, _)) = self.unsaved.as_ref().filter(|(_, end)| *end <= self.shared.store.flushed()) {
            self.file.save(progress).await?;
            self.unsaved = None;
        }
        Ok(())
    }

    /// The last save, with all that was delivered.
    async fn save_last(&mut self) -> Result<(), String> {
        let deadline = self.shared.now().plus(STOP_LIMIT_MS);
        while self.shared.store.flushed() < self.delivered_to && self.shared.now() < deadline {
            self.shared.env.clock.sleep(STOP_LOOK).await;
        }
        // First what waited for the log, then what came after it.
        self.try_save().await?;
        self.try_save().await
    }
}

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
