//! The timer: reads the timer topic, keeps the timer log, and delivers each message in the second it asks for.
//!
//! It sleeps until the next second that somebody waits for, or until a message comes into the timer topic, where it has
//! a waiter parked like a consumer's pull.

mod apache;
mod open;
mod round;
mod status;

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use super::due::Deliveries;
use super::shared::Shared;
use crate::broker::timer::record::TIMER_QUEUE;
use crate::broker::timer::Timer;
use crate::env::Millis;
use crate::proto::message::system;
use crate::proto::{PhysicalOffset, QueueOffset};
use crate::store::timer::TimerLog;
use crate::store::{ConsumeQueue, Trouble};

use apache::Apache;
pub use apache::Progress as ApacheProgress;
use open::Recovered;
pub use status::{TimerStatus, RECALLS_PER_SECOND_MAX};

/// How often what is delivered is written down while the commit log is not on disk that far.
const SETTLE_EVERY_MS: i64 = 200;
/// Pause after an error of the timer log.
const RETRY_MS: i64 = 1_000;
/// How often the same record is put again for retention, at most.
const TRIM_EVERY_MS: i64 = 600_000;
/// How long a stop waits for the last deliveries to be on disk, and how often it looks.
const STOP_LIMIT_MS: i64 = 2_000;
const STOP_LOOK: Duration = Duration::from_millis(10);

/// Behind every record of the commit log.
const NOTHING: PhysicalOffset = PhysicalOffset(u64::MAX);

/// What the timer is told.
pub enum TimerMessage {
    /// Look for messages that are due.
    Wake {
        /// The monotonic time for which this was arranged.
        at: Millis,
    },
    /// A message came into the timer topic.
    Arrived,
    /// Write down what is delivered.
    Settle {
        /// The monotonic time for which this was arranged.
        at: Millis,
    },
    /// Deliver no more, write everything down and answer.
    Stop {
        /// Told when that is done, or what could not be written.
        done: oneshot::Sender<Result<(), String>>,
    },
}

/// See the module's text.
pub struct TimerActor;

#[doc(hidden)]
pub struct State {
    shared: Arc<Shared>,
    deliveries: Deliveries,
    recovered: Recovered,
    /// Once it could be opened.
    open: Option<OpenTimer>,
    /// The earliest wake and the earliest settling that are arranged.
    wake_armed: Option<Millis>,
    settle_armed: Option<Millis>,
    /// A waiter stands in the timer topic's queue.
    parked: bool,
    trims: Trims,
    /// From where on the commit log is kept for what waits: all of it until that is known.
    pinned: PhysicalOffset,
    /// When the timer log was synced last.
    synced: Millis,
    stopped: bool,
    trouble: Trouble,
}

/// What waits is put again once in a while at most: a disk that is full of it would else be written for ever.
#[derive(Default)]
struct Trims {
    /// What lies below is put again in this turn.
    limit: PhysicalOffset,
    /// When the next turn may begin, in monotonic time.
    next: Millis,
}

struct OpenTimer {
    timer: Timer<TimerLog>,
    /// The timer topic's.
    queue: Arc<ConsumeQueue>,
    apache: Apache,
}

impl Actor for TimerActor {
    type Msg = TimerMessage;
    type State = State;
    type Arguments = Arc<Shared>;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        shared: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        myself.cast(TimerMessage::Wake { at: shared.now() })?;
        let queue = shared.store.queue(system::TIMER_TOPIC, TIMER_QUEUE);
        let next = queue.map_or(QueueOffset(0), |queue| queue.max());
        Ok(State {
            deliveries: Deliveries::new(Arc::clone(&shared)),
            recovered: Recovered { end: shared.store.confirmed(), next },
            open: None,
            wake_armed: None,
            settle_armed: None,
            parked: false,
            trims: Trims::default(),
            pinned: PhysicalOffset(0),
            synced: shared.now(),
            stopped: false,
            trouble: Trouble::default(),
            shared,
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
            TimerMessage::Wake { at } => {
                state.wake_armed = state.wake_armed.filter(|armed| *armed != at);
                state.round(&myself).await;
            }
            TimerMessage::Arrived => {
                state.parked = false;
                state.round(&myself).await;
            }
            TimerMessage::Settle { at } => {
                state.settle_armed = state.settle_armed.filter(|armed| *armed != at);
                state.settle(&myself).await;
            }
            TimerMessage::Stop { done } => {
                state.stopped = true;
                let _ = done.send(state.settle_last().await);
            }
        }
        Ok(())
    }
}

impl State {
    /// Arranges the next wake, unless an earlier one is arranged already.
    fn wake_at(&mut self, myself: &ActorRef<TimerMessage>, at: Millis) {
        if self.wake_armed.is_none_or(|armed| at < armed) {
            self.wake_armed = Some(at);
            let wait = Duration::from_millis(at.since(self.shared.now()));
            myself.send_after(wait, move || TimerMessage::Wake { at });
        }
    }

    /// Arranges the next settling, unless an earlier one is arranged already.
    fn settle_at(&mut self, myself: &ActorRef<TimerMessage>, at: Millis) {
        if self.settle_armed.is_none_or(|armed| at < armed) {
            self.settle_armed = Some(at);
            let wait = Duration::from_millis(at.since(self.shared.now()));
            myself.send_after(wait, move || TimerMessage::Settle { at });
        }
    }

    /// Writes down what is delivered as far as it is on disk.
    async fn settle(&mut self, myself: &ActorRef<TimerMessage>) {
        let was_trimming = self.is_trimming();
        let settled = self.try_settle().await;
        self.trouble.note("write the timer log", &settled);
        let now = self.shared.now();
        if was_trimming && !self.is_trimming() {
            self.wake_at(myself, now);
        }
        match settled {
            Ok(Settled::Waits) => self.settle_at(myself, now.plus(SETTLE_EVERY_MS)),
            Ok(Settled::Unsynced) => self.settle_at(myself, self.synced.plus(self.sync_every_ms()).max(now.plus(1))),
            Ok(Settled::All) => {}
            Err(_) => self.settle_at(myself, now.plus(RETRY_MS)),
        }
    }

    /// It is not known yet what waits, or retention wants something of what is kept.
    fn is_pin_in_question(&self) -> bool {
        self.pinned == PhysicalOffset(0) || self.shared.store.unwanted() > self.pinned
    }

    fn retention_every_ms(&self) -> i64 {
        self.shared.settings().config.clean_resource_interval.max(100) as i64
    }

    fn is_trimming(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.timer.is_trimming())
    }

    async fn try_settle(&mut self) -> std::io::Result<Settled> {
        let (flushed, end) = (self.shared.store.flushed(), self.shared.store.confirmed());
        let sync_is_due = self.shared.now() >= self.synced.plus(self.sync_every_ms());
        let in_question = self.is_pin_in_question();
        let Some(OpenTimer { timer, .. }) = &mut self.open else { return Ok(Settled::All) };
        let waits = timer.settle(flushed, end)?;
        let oldest = timer.oldest_record()?;
        // What waits keeps its part of the log at once. What does not any more gives it free when that is safely known,
        // and somebody wants it.
        let frees = oldest.unwrap_or(NOTHING) > self.pinned && in_question;
        if sync_is_due || frees || timer.first_file_is_dead() {
            timer.log().sync().await?;
            timer.delete_files()?;
            self.synced = self.shared.now();
        }
        if frees || oldest.unwrap_or(NOTHING) < self.pinned {
            self.pinned = oldest.unwrap_or(NOTHING);
            self.shared.store.pin(oldest);
        }
        self.shared.timer.set_progress(timer.pending(), timer.next(), timer.first(), timer.under_way());
        Ok(match (waits, timer.log().is_synced()) {
            (true, _) => Settled::Waits,
            (false, false) => Settled::Unsynced,
            (false, true) => Settled::All,
        })
    }

    fn sync_every_ms(&self) -> i64 {
        self.shared.settings().config.flush_delay_offset_interval.max(100) as i64
    }

    /// The last settling, with all that was delivered.
    async fn settle_last(&mut self) -> Result<(), String> {
        let deadline = self.shared.now().plus(STOP_LIMIT_MS);
        while matches!(self.try_settle().await, Ok(Settled::Waits)) && self.shared.now() < deadline {
            self.shared.env.clock.sleep(STOP_LOOK).await;
        }
        let Some(OpenTimer { timer, .. }) = &mut self.open else { return Ok(()) };
        timer.log().sync().await.map_err(|error| format!("the timer log: {error}"))
    }
}

/// What is left to do after settling.
enum Settled {
    /// Something is delivered and not on disk.
    Waits,
    /// All is written, but not synced.
    Unsynced,
    /// Nothing.
    All,
}
