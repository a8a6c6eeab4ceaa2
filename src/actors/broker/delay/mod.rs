//! The delay scheduler: delivers messages of the delay topic once they are due, and saves how far it got.
//!
//! It sleeps until the next message is due. A level whose queue holds nothing to wait for has a waiter parked there, like
//! a consumer's pull, so an idle broker does not wake for it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use super::due::{Deliveries, Outcome};
use super::saved::Saved;
use super::service::QueueCache;
use super::shared::Shared;
use crate::broker::admin::runtime::DelayProgress;
use crate::broker::delay::{
    due_message, saved_progress, DelayEntry, DelayScheduler, Due, DueError, DueMessage, Now, QueueRange, BATCH_MAX,
};
use crate::broker::Effect;
use crate::config::broker::BrokerConfig;
use crate::env::{Canary, Millis};
use crate::proto::body::DelayOffsetSerializeWrapper;
use crate::proto::message::{system, DelayLevels, RecordView};
use crate::proto::PhysicalOffset;
use crate::store::{ConsumeQueue, Store, StoreError};

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
    deliveries: Deliveries,
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
    let mut saved = saved;
    if store.env.canary(Canary::DelayForgotten) {
        let max = |level: i32| range(level).map_or(0, |queue: QueueRange| queue.max.0 as i64);
        saved.offset_table = (1..=config.delay_levels().max()).map(|level| (level, max(level))).collect();
    }
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

impl super::due::Due for Due {
    fn position(&self) -> PhysicalOffset {
        self.entry.position
    }

    fn series(&self) -> Option<i32> {
        Some(self.level)
    }

    fn resolve<'r>(&self, record: &RecordView<'r>, _: &mut String) -> Result<DueMessage<'r>, DueError> {
        due_message(record, self.level, self.entry.offset)
    }
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
            deliveries: Deliveries::new(Arc::clone(&shared)),
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
        if self.shared.role.is_slave() {
            return;
        }
        let due = self.due(myself);
        if !due.is_empty() {
            self.deliver(due).await;
            self.arm_save(myself, self.save_every());
        }
        self.arm(myself);
    }

    /// Puts due messages into their real queues.
    async fn deliver(&mut self, due: Vec<Due>) {
        let outcomes = self.deliveries.deliver(due).await;
        let now = self.now();
        let mut effects = Vec::new();
        let mut delays = self.shared.delays();
        for (Due { level, entry }, outcome) in outcomes {
            match outcome {
                Outcome::Stored { end } => {
                    self.delivered_to = self.delivered_to.max(end);
                    delays.on_delivered(level, entry.offset);
                }
                Outcome::Failed => delays.on_failed(level, entry.offset, now),
                Outcome::Never(error) => delays.on_undeliverable(level, entry.offset, error.why(), &mut effects),
            }
        }
        drop(delays);
        self.shared.carry_out(effects);
    }

    fn save_every(&self) -> Duration {
        Duration::from_millis(self.shared.settings().config.flush_delay_offset_interval.max(100))
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
        let early_ms = if self.shared.env.canary(Canary::DelayedTooEarly) { -1_000 } else { 0 };
        let entries: Vec<DelayEntry> = entries
            .iter()
            .map(|(offset, entry)| DelayEntry {
                offset: *offset,
                deliver_at: Millis(entry.tags_code).plus(early_ms),
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
        // The file has told of a failure.
        let _ = self.try_save().await;
        if self.unsaved.is_some() {
            self.arm_save(myself, SAVE_RETRY);
        } else if self.shared.delays().is_dirty() {
            self.arm_save(myself, self.save_every());
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
