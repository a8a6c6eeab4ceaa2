//! One round: take in what has come, then deliver what is due.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use ractor::ActorRef;

use super::apache::Apache;
use super::{open, OpenTimer, State, TimerMessage, Trims, NOTHING, RETRY_MS, SETTLE_EVERY_MS, TRIM_EVERY_MS};
use crate::actors::broker::due::{Due, Outcome};
use crate::actors::broker::shared::Shared;
use crate::broker::delay::{DueError, DueMessage, Now};
use crate::broker::timer::record::{self, TIMER_QUEUE};
use crate::broker::timer::{DueSecond, TimerDue};
use crate::broker::{Effect, Report};
use crate::env::{Canary, Millis};
use crate::proto::message::{parse, properties, system, BodyCrc, Parsed, RecordView};
use crate::proto::{PhysicalOffset, QueueOffset};
use crate::store::timer::PendingKind;
use crate::store::StoreError;

/// Records taken in before others get their turn.
const TAKE_IN_MAX: usize = 1024;
/// Messages delivered before others get their turn.
const DELIVER_MAX: usize = 512;

/// A message that is due, with what has to be known to copy it.
struct TimedDue {
    due: TimerDue,
    now: Millis,
    recalled: Option<Arc<BTreeSet<String>>>,
    again: bool,
}

impl Due for TimedDue {
    const REPLACED: &'static [&'static str] = &record::REPLACED;

    fn position(&self) -> PhysicalOffset {
        self.due.pending.record
    }

    fn resolve<'r>(&self, view: &RecordView<'r>, added: &mut String) -> Result<DueMessage<'r>, DueError> {
        let message = record::copy_of(view, &self.due.pending, self.again, self.now, added)?;
        if let Some(recalled) = self.recalled.as_ref().filter(|_| !self.again) {
            let name = record::recall_name(&view.properties());
            if name.is_some_and(|name| recalled.contains(&name)) {
                return Err(DueError::Recalled);
            }
        }
        Ok(message)
    }
}

impl State {
    /// Takes in what has come and delivers a batch of what is due, then sleeps until more is.
    pub(super) async fn round(&mut self, myself: &ActorRef<TimerMessage>) {
        // A slave holds its master's messages: only the master delivers them.
        if self.shared.role.is_slave() {
            self.open = None;
            return;
        }
        let result = self.try_round(myself).await;
        self.trouble.note("use the timer", &result);
        if result.is_err() {
            let at = self.shared.now().plus(RETRY_MS);
            self.wake_at(myself, at);
        }
    }

    async fn try_round(&mut self, myself: &ActorRef<TimerMessage>) -> io::Result<()> {
        if self.open.is_none() {
            let queue =
                self.shared.store.queue_or_create(system::TIMER_TOPIC, TIMER_QUEUE).map_err(io::Error::other)?;
            let timer = open::open(&self.shared.store, &queue, self.recovered).await?;
            self.shared.timer.set_recalls(timer.recalls());
            let apache = Apache::read(&self.shared.store)?;
            self.open = Some(OpenTimer { timer, queue, apache });
        }
        let now = Now { wall: self.shared.wall(), monotonic: self.shared.now() };
        // Whoever takes a message back after this is told that it is too late; whoever did before is seen below.
        self.shared.timer.begin(DueSecond::last_begun(now.wall));
        if !self.take_in(now.wall)? {
            self.wake_at(myself, now.monotonic);
            return Ok(());
        }
        let due = self.due(now)?;
        let is_full = due.len() >= DELIVER_MAX;
        let again = self.for_retention(now)?;
        let is_busy = !due.is_empty() || !again.is_empty();
        if !due.is_empty() {
            self.deliver(due, now, false).await;
        }
        if !again.is_empty() {
            self.deliver(again, now, true).await;
        }
        if is_busy || self.is_pin_in_question() {
            self.settle(myself).await;
        } else if self.settle_armed.is_none() && self.open.as_mut().is_some_and(|open| !open.timer.log().is_synced()) {
            self.settle_at(myself, now.monotonic.plus(SETTLE_EVERY_MS));
        }
        self.park(myself);
        if self.pinned < NOTHING {
            // Retention does not say when it wants more.
            self.wake_at(myself, now.monotonic.plus(self.retention_every_ms()));
        }
        let Some(OpenTimer { timer, .. }) = &self.open else { return Ok(()) };
        let wake = if is_full { Some(now.monotonic) } else { timer.wake_at(now) };
        if let Some(at) = wake {
            self.wake_at(myself, at);
        }
        Ok(())
    }

    /// Takes in records of the timer topic; `false` if there are more.
    fn take_in(&mut self, now: Millis) -> io::Result<bool> {
        let Some(OpenTimer { timer, queue, apache }) = &mut self.open else { return Ok(true) };
        // What could not be written before comes first: memory does not grow while the disk refuses.
        timer.write()?;
        let max = queue.max();
        let mut entries = Vec::new();
        self.shared.store.entries(queue, timer.next(), TAKE_IN_MAX, &mut entries).map_err(io::Error::other)?;
        let (mut bytes, mut effects) = (Vec::new(), Vec::new());
        let mut result = Ok(());
        for (number, entry) in &entries {
            timer.leave_out(*number);
            match read_pending(&self.shared, &mut bytes, entry.physical, *number, now) {
                Ok(pending) if apache.has_delivered(&pending) => timer.leave_out(QueueOffset(number.0 + 1)),
                Ok(pending) => {
                    timer.take_in(pending);
                    self.shared.statistics.broker.timed_in.add(u64::from(pending.kind != PendingKind::Recall));
                }
                Err(ReadError::Never(error)) => {
                    let why = error.why();
                    effects.push(Effect::Report(Report::TimedLost { number: *number, why }));
                    timer.leave_out(QueueOffset(number.0 + 1));
                }
                Err(ReadError::Later(error)) => {
                    result = Err(io::Error::other(error));
                    break;
                }
            }
        }
        self.shared.carry_out(effects);
        timer.write()?;
        result?;
        self.shared.timer.set_progress(timer.pending(), timer.next(), timer.first(), timer.under_way());
        if entries.is_empty() && timer.next() < max {
            let what = format!("no entries from {} on although there are {}", timer.next().0, max.0);
            return Err(io::Error::other(what));
        }
        Ok(timer.next() >= max)
    }

    /// What is due, once it is known which messages are taken back.
    fn due(&mut self, now: Now) -> io::Result<Vec<TimerDue>> {
        let mut due = Vec::new();
        let Some(OpenTimer { timer, .. }) = &mut self.open else { return Ok(due) };
        let end = self.shared.store.confirmed();
        timer.due(now, end, DELIVER_MAX, &mut due)?;
        let mut read = false;
        while let Some((second, recalls)) = timer.unread_recalls() {
            let mut names = Vec::new();
            for recall in recalls {
                let name = read_record(&self.shared, recall.record, |record| {
                    properties::find(&record.properties(), properties::TIMER_DEL_UNIQKEY).map(str::to_owned)
                });
                match name {
                    Ok(_) if self.shared.env.canary(Canary::TimerForgetsRecalls) => {}
                    Ok(name) => names.extend(name),
                    Err(ReadError::Never(_)) => {}
                    Err(ReadError::Later(error)) => return Err(io::Error::other(error)),
                }
            }
            timer.on_recalls(second, names);
            read = true;
        }
        if read {
            timer.due(now, end, DELIVER_MAX, &mut due)?;
        }
        Ok(due)
    }

    /// The oldest records, if retention wants to delete the part of the log in which they wait.
    fn for_retention(&mut self, now: Now) -> io::Result<Vec<TimerDue>> {
        let mut again = Vec::new();
        let Some(OpenTimer { timer, .. }) = &mut self.open else { return Ok(again) };
        let end = self.shared.store.confirmed();
        let below = self.shared.store.unwanted().min(self.trims.limit);
        let is_wanted = |below: PhysicalOffset, oldest: Option<PhysicalOffset>| oldest.is_some_and(|o| o < below);
        let oldest = timer.oldest_record()?;
        if is_wanted(below, oldest) {
            timer.start_trim(below, end)?;
        } else if now.monotonic >= self.trims.next && is_wanted(self.shared.store.unwanted(), oldest) {
            self.trims = Trims { limit: end, next: now.monotonic.plus(TRIM_EVERY_MS) };
            timer.start_trim(self.shared.store.unwanted().min(end), end)?;
        }
        timer.due_for_trim(now.monotonic, DELIVER_MAX, &mut again);
        Ok(again)
    }

    /// Copies messages to their real queues, or far ones and those to be put `again` into the timer topic.
    async fn deliver(&mut self, due: Vec<TimerDue>, now: Now, again: bool) {
        let Some(OpenTimer { timer, .. }) = &mut self.open else { return };
        let timed = |due: TimerDue| TimedDue {
            now: now.wall,
            recalled: timer.recalled(due.pending.second),
            again: again || due.pending.kind == PendingKind::Roll,
            due,
        };
        let due = due.into_iter().map(timed).collect();
        let outcomes = match again {
            true => self.deliveries.put_again(due).await,
            false => self.deliveries.deliver(due).await,
        };
        let (mut effects, mut delivered) = (Vec::new(), 0);
        let now = Now { monotonic: self.shared.now(), ..now };
        for (TimedDue { due, .. }, outcome) in outcomes {
            match outcome {
                Outcome::Stored { end } => {
                    timer.on_done(&due, Some(end));
                    delivered += 1;
                }
                Outcome::Failed if self.shared.env.canary(Canary::TimerGivesUp) => timer.on_done(&due, None),
                Outcome::Failed => timer.on_failed(&due, now),
                Outcome::Never(error) => {
                    timer.on_done(&due, None);
                    if error != DueError::Recalled {
                        let (number, why) = (due.pending.number, error.why());
                        effects.push(Effect::Report(Report::TimedLost { number, why }));
                    }
                }
            }
        }
        self.shared.statistics.broker.timed_out.add(delivered);
        self.shared.carry_out(effects);
    }

    /// Waits for the next record of the timer topic.
    fn park(&mut self, myself: &ActorRef<TimerMessage>) {
        let Some(OpenTimer { timer, queue, .. }) = &self.open else { return };
        if self.parked {
            return;
        }
        let to = myself.clone();
        // If the actor is gone nobody waits for messages to become due.
        let arrived = Box::new(move |_| drop(to.cast(TimerMessage::Arrived)));
        match queue.add_waiter(timer.next(), arrived) {
            Ok(_) => self.parked = true,
            // One has come meanwhile.
            Err(_) => drop(myself.cast(TimerMessage::Arrived)),
        }
    }
}

/// Why a record cannot be read.
enum ReadError {
    /// It never can.
    Never(DueError),
    /// The disk refuses now.
    Later(StoreError),
}

/// The unit for the record at a position.
fn read_pending(
    shared: &Shared,
    bytes: &mut Vec<u8>,
    at: PhysicalOffset,
    number: QueueOffset,
    now: Millis,
) -> Result<crate::store::timer::Pending, ReadError> {
    bytes.clear();
    read_into(shared, at, bytes, |record| record::pending(record, number, now))?.map_err(ReadError::Never)
}

fn read_record<T>(
    shared: &Shared,
    at: PhysicalOffset,
    use_it: impl FnOnce(&RecordView<'_>) -> T,
) -> Result<T, ReadError> {
    read_into(shared, at, &mut Vec::new(), use_it)
}

fn read_into<T>(
    shared: &Shared,
    at: PhysicalOffset,
    bytes: &mut Vec<u8>,
    use_it: impl FnOnce(&RecordView<'_>) -> T,
) -> Result<T, ReadError> {
    shared.store.record_at(at, bytes).map_err(|error| match error {
        StoreError::NoRecord { .. } => ReadError::Never(DueError::Gone),
        error => ReadError::Later(error),
    })?;
    match parse(bytes, BodyCrc::Trust) {
        Ok(Parsed::Record(record)) => Ok(use_it(&record)),
        _ => Err(ReadError::Never(DueError::Damaged)),
    }
}
