//! Batches that are written and not answered yet: first they wait for a sync, then for slaves.

use std::collections::VecDeque;
use std::time::Duration;

use ractor::ActorRef;

use super::reply::{Appended, Durability, Reply};
use super::{LogMessage, State};
use crate::env::{Canary, Millis};
use crate::proto::PhysicalOffset;
use crate::store::FlushMode;

/// One of them.
struct Batch {
    /// The log's end right behind it.
    end: PhysicalOffset,
    sync_until: Millis,
    slaves: Slaves,
    appended: Appended,
    reply: Reply,
}

/// What a batch has to do with slaves.
#[derive(Clone, Copy)]
enum Slaves {
    /// It does not wait for them.
    None,
    /// It waits for them until then.
    Until(Millis),
    /// Too few are there.
    TooFew,
}

/// See the module's text. Each row is in the order of ends, and so of deadlines.
#[derive(Default)]
pub(super) struct Waiting {
    for_sync: VecDeque<Batch>,
    for_slaves: VecDeque<Batch>,
}

impl Waiting {
    /// The log is synced up to `flushed` and replicated up to `replicated`. Whether anything still waits for a sync.
    pub(super) fn on_flushed(&mut self, flushed: PhysicalOffset, replicated: u64) -> bool {
        while let Some(batch) = pop_if(&mut self.for_sync, |batch| batch.end <= flushed) {
            self.synced(batch);
        }
        self.on_replicated(replicated);
        !self.for_sync.is_empty()
    }

    /// The log is replicated up to `replicated`.
    pub(super) fn on_replicated(&mut self, replicated: u64) {
        while let Some(batch) = pop_if(&mut self.for_slaves, |batch| batch.end.0 <= replicated) {
            batch.reply.send(batch.appended);
        }
    }

    /// Everything is as durable as promised, as far as this broker goes.
    pub(super) fn finish(&mut self) {
        for batch in std::mem::take(&mut self.for_sync) {
            self.synced(batch);
        }
        for batch in self.for_slaves.drain(..) {
            crate::sometimes!("a send waited for slaves too long");
            batch.answer(Durability::ReplicationTimedOut);
        }
    }

    /// Nothing is known of what was not synced.
    pub(super) fn fail(&mut self) {
        for batch in self.for_sync.drain(..).chain(self.for_slaves.drain(..)) {
            batch.answer(Durability::SyncFailed);
        }
    }

    fn synced(&mut self, batch: Batch) {
        match batch.slaves {
            Slaves::None => batch.reply.send(batch.appended),
            Slaves::TooFew => batch.answer(Durability::NotReplicated),
            Slaves::Until(_) => self.for_slaves.push_back(batch),
        }
    }

    fn next_deadline(&self) -> Option<Millis> {
        let sync = self.for_sync.front().map(|batch| batch.sync_until);
        let slaves = self.for_slaves.front().map(Batch::slaves_until);
        sync.into_iter().chain(slaves).min()
    }
}

/// Takes the first batch of a row if `is_done`.
fn pop_if(row: &mut VecDeque<Batch>, is_done: impl FnOnce(&Batch) -> bool) -> Option<Batch> {
    is_done(row.front()?).then(|| row.pop_front())?
}

impl Batch {
    fn answer(mut self, durability: Durability) {
        self.appended.durability = durability;
        self.reply.send(self.appended);
    }

    fn slaves_until(&self) -> Millis {
        match self.slaves {
            Slaves::Until(until) => until,
            _ => Millis(0),
        }
    }
}

impl State {
    /// Answers a batch that is stored up to `end`, or has it wait for what the modes promise.
    pub(super) fn wait_or_answer(
        &mut self,
        myself: &ActorRef<LogMessage>,
        end: PhysicalOffset,
        appended: Appended,
        reply: Reply,
    ) {
        let now = self.env.clock.now();
        let after = |wait: Duration| now.plus(wait.as_millis() as i64);
        let slaves = match self.quorum.waits() {
            false => Slaves::None,
            true if self.env.canary(Canary::AcknowledgeBeforeSlaves) => Slaves::None,
            true if self.quorum.is_enough() => Slaves::Until(after(self.options.slave_timeout)),
            true => Slaves::TooFew,
        };
        let batch = Batch { end, sync_until: after(self.options.sync_timeout), slaves, appended, reply };
        // What was sent before may be safe already, and then no sync will tell.
        let is_synced = self.writer.as_ref().is_some_and(|writer| end <= writer.store().flushed());
        if is_synced {
            self.waiting.synced(batch);
            self.waiting.on_replicated(self.quorum_position());
        } else if self.options.flush == FlushMode::Async || self.env.canary(Canary::AcknowledgeBeforeSync) {
            self.waiting.synced(batch);
        } else {
            self.waiting.for_sync.push_back(batch);
        }
        self.arm_deadline(myself);
    }

    /// Up to where the log is replicated, as far as sends wait for that.
    pub(super) fn quorum_position(&self) -> u64 {
        if self.quorum.waits() {
            self.quorum.replicated().unwrap_or(0)
        } else {
            u64::MAX
        }
    }

    /// Slaves have said something.
    pub(super) fn replicated(&mut self) {
        let replicated = self.quorum_position();
        let following = self.is_following();
        let Some(writer) = self.writer.as_mut().filter(|_| !following) else { return };
        if self.quorum.waits() {
            writer.raise_confirm_limit(PhysicalOffset(replicated));
        } else {
            writer.set_confirm_limit(None);
        }
        self.dispatch.notify();
        self.signal.notify();
        self.waiting.on_replicated(replicated);
    }

    /// Answers batches that have waited too long. Their records stay and are seen once they are as safe as promised.
    pub(super) fn deadline(&mut self, myself: &ActorRef<LogMessage>) {
        self.deadline_armed = false;
        let now = self.env.clock.now();
        while let Some(batch) = pop_if(&mut self.waiting.for_sync, |batch| batch.sync_until <= now) {
            crate::sometimes!("a send waited for its sync too long");
            match self.env.canary(Canary::AcknowledgeOnTimeOut) {
                true => batch.reply.send(batch.appended),
                false => batch.answer(Durability::SyncTimedOut),
            }
        }
        while let Some(batch) = pop_if(&mut self.waiting.for_slaves, |batch| batch.slaves_until() <= now) {
            batch.answer(Durability::ReplicationTimedOut);
        }
        self.arm_deadline(myself);
    }

    fn arm_deadline(&mut self, myself: &ActorRef<LogMessage>) {
        let Some(next) = self.waiting.next_deadline() else { return };
        if !std::mem::replace(&mut self.deadline_armed, true) {
            let wait = Duration::from_millis(next.since(self.env.clock.now()) + 1);
            myself.send_after(wait, || LogMessage::Deadline);
        }
    }
}
