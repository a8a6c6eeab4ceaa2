//! Decides about transactions: stores what producers decide, asks those that do not, and gives up what nobody decides.
//!
//! One actor does all of it, so that an END never meets a question under way. ENDs that come while the log is written or
//! synced gather in its mailbox and share the next write.

mod checks;
mod ends;
mod follow;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use super::restore::{self, Unmoved};
use super::service::QueueCache;
use super::shared::Shared;
use crate::actors::log_writer::{Appended, Durability};
use crate::broker::offsets::Who;
use crate::broker::transaction::{op_body, Decision, HalfLedger, Place, Progress, OP_PROPERTIES, OP_TAG};
use crate::broker::BrokerError;
use crate::env::Millis;
use crate::proto::message::{hash, system, NewRecord};
use crate::proto::{PhysicalOffset, QueueOffset};
use crate::store::{AppendBatch, GroupId, StoreError, Stored, Trouble};

use checks::Pass;

/// How long a stop waits for the last records to be on disk, and how often it looks.
const STOP_LIMIT_MS: i64 = 2_000;
const STOP_LOOK: Duration = Duration::from_millis(10);
/// The shortest time between two rounds of questions, whatever the settings say.
const CHECK_INTERVAL_MIN_MS: u64 = 100;

/// What somebody wants of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionRequest {
    /// It is decided.
    End {
        /// The half message by which it is named.
        half: Place,
        /// The producer group.
        group: String,
        /// The transaction's id, if the producer says it.
        id: Option<String>,
        /// The decision.
        decision: Decision,
        /// The answer to a question.
        from_check: bool,
    },
    /// It was given up, and its producer is to be asked again.
    Resume {
        /// Where its message lies.
        position: PhysicalOffset,
    },
}

/// Told what became of a request.
type Done = oneshot::Sender<Result<(), BrokerError>>;

/// What the actor is told.
pub enum TransactionMessage {
    /// Somebody wants something.
    Request {
        /// What.
        request: TransactionRequest,
        /// Told once it is stored, or why it is not.
        done: Done,
    },
    /// Read the log: this slave becomes the master, and takes no messages yet.
    Load {
        /// Told when it is done, or why it is not.
        done: oneshot::Sender<Result<(), StoreError>>,
    },
    /// Do what has gathered.
    Round,
    /// A round of questions begins.
    Check,
    /// The round of questions goes on.
    Ask,
    /// Save the progress.
    Save,
    /// Take no more requests, save the progress and answer.
    Stop {
        /// Told when it is done.
        done: oneshot::Sender<()>,
    },
}

/// Half messages whose producers have not decided: what sends have to know.
#[derive(Debug, Default)]
pub struct HalfMessages {
    open: AtomicUsize,
    /// The next half to be read: those behind it count as open.
    next: AtomicU64,
}

impl HalfMessages {
    /// Whether one more may be stored in the half queue, which ends at `max`.
    ///
    /// # Errors
    /// There are `limit` of them already.
    pub fn check_room(&self, max: QueueOffset, limit: usize) -> Result<(), BrokerError> {
        let unread = max.0.saturating_sub(self.next.load(Ordering::Relaxed)) as usize;
        if self.open.load(Ordering::Relaxed).saturating_add(unread) >= limit {
            return Err(BrokerError::TableFull { what: "half messages", setting: "halfMessagesMax", limit });
        }
        Ok(())
    }

    fn publish(&self, ledger: &HalfLedger) {
        self.open.store(ledger.open(), Ordering::Relaxed);
        self.next.store(ledger.next().0, Ordering::Relaxed);
    }
}

/// See the module's text.
pub struct TransactionActor;

#[doc(hidden)]
pub struct State {
    shared: Arc<Shared>,
    queues: QueueCache,
    /// `None` on a slave: its master decides.
    ledger: Option<HalfLedger>,
    gathered: Vec<(TransactionRequest, Done)>,
    /// The round of questions under way.
    pass: Option<Pass>,
    /// When the half queue was last read to its end, in monotonic time.
    followed: Millis,
    /// Where the last record that we wrote ends.
    written_to: PhysicalOffset,
    /// Progress to save once the log is on disk up to that position.
    unsaved: Option<(Progress, PhysicalOffset)>,
    saved: Option<Progress>,
    save_armed: bool,
    stopped: bool,
    reading: Trouble,
    writing: Trouble,
}

impl Actor for TransactionActor {
    type Msg = TransactionMessage;
    type State = State;
    type Arguments = Arc<Shared>;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        shared: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        let mut state = State {
            followed: shared.now(),
            shared,
            queues: QueueCache::default(),
            ledger: None,
            gathered: Vec::new(),
            pass: None,
            written_to: PhysicalOffset(0),
            unsaved: None,
            saved: None,
            save_armed: false,
            stopped: false,
            reading: Trouble::default(),
            writing: Trouble::default(),
        };
        // Before anybody else writes: what a crash cut in two lies at the log's end only now.
        state.load().await?;
        state.arm_check(&myself);
        state.arm_save(&myself);
        Ok(state)
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
            TransactionMessage::Request { request, done } => {
                state.gathered.push((request, done));
                // What is in the mailbox already comes before the round and shares it.
                if state.gathered.len() == 1 {
                    myself.cast(TransactionMessage::Round)?;
                }
            }
            TransactionMessage::Load { done } => {
                let _ = done.send(state.read_log());
            }
            TransactionMessage::Round => state.round().await,
            TransactionMessage::Check => {
                state.begin_pass(&myself).await;
                state.arm_check(&myself);
            }
            TransactionMessage::Ask => state.ask(&myself).await?,
            TransactionMessage::Save => {
                state.save_armed = false;
                state.save();
            }
            TransactionMessage::Stop { done } => {
                state.round().await;
                state.follow();
                state.save_last().await;
                state.stopped = true;
                let _ = done.send(());
            }
        }
        state.arm_save(&myself);
        Ok(())
    }
}

impl State {
    /// A slave holds its master's messages: only the master decides about them.
    fn is_slave(&self) -> bool {
        self.shared.role.is_slave()
    }

    fn arm_check(&self, myself: &ActorRef<TransactionMessage>) {
        let every = self.shared.settings().config.transaction_check_interval.max(CHECK_INTERVAL_MIN_MS);
        myself.send_after(Duration::from_millis(every), || TransactionMessage::Check);
    }

    fn arm_save(&mut self, myself: &ActorRef<TransactionMessage>) {
        let progress = self.ledger.as_mut().map(HalfLedger::progress);
        let dirty = self.unsaved.is_some() || progress.is_some() && progress != self.saved;
        if dirty && !std::mem::replace(&mut self.save_armed, true) {
            let every = self.shared.settings().config.flush_consumer_offset_interval.max(100);
            myself.send_after(Duration::from_millis(every), || TransactionMessage::Save);
        }
    }

    /// Hands progress to the offset table, which is saved regularly, once the records that it counts on are on disk.
    /// Saved earlier, a power cut under ASYNC_FLUSH could take an op and leave its half message behind the progress, where
    /// nobody ever asks about it.
    fn save(&mut self) {
        let Some(ledger) = &mut self.ledger else { return };
        if self.unsaved.is_none() {
            self.unsaved = Some((ledger.progress(), self.written_to));
        }
        let flushed = self.shared.store.flushed();
        let Some((progress, _)) = self.unsaved.take_if(|(_, end)| *end <= flushed) else { return };
        let mut effects = Vec::new();
        let mut offsets = self.shared.offsets();
        for (topic, offset) in [(system::TRANS_HALF_TOPIC, progress.half), (system::TRANS_OP_HALF_TOPIC, progress.op)] {
            let (offset, now) = (offset.0 as i64, self.shared.now());
            let group = system::TRANS_CONSUMER_GROUP;
            offsets.commit(group, (topic, 0), offset, (Who::Other, None), now, &mut effects);
        }
        drop(offsets);
        self.saved = Some(progress);
        self.shared.carry_out(effects);
    }

    /// The last save, with all that was decided.
    async fn save_last(&mut self) {
        let deadline = self.shared.now().plus(STOP_LIMIT_MS);
        while self.shared.store.flushed() < self.written_to && self.shared.now() < deadline {
            self.shared.env.clock.sleep(STOP_LOOK).await;
        }
        // First what waited for the log, then what came after it.
        self.save();
        self.save();
    }

    /// Adds the op that names these halves to a batch, as part of the unit `group`, and returns its item's number.
    fn push_op(&mut self, batch: &mut AppendBatch, group: GroupId, halves: &[QueueOffset]) -> Result<usize, Unmoved> {
        let body = op_body(halves);
        let op = NewRecord {
            topic: system::TRANS_OP_HALF_TOPIC,
            queue_id: 0,
            flag: 0,
            sys_flag: 0,
            born_timestamp: self.shared.wall(),
            born_host: self.shared.advertised,
            store_host: self.shared.advertised,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: body.as_bytes(),
            properties: OP_PROPERTIES,
            edits: &[],
        };
        restore::push(&self.shared, &mut self.queues, batch, group, &op, hash::tags_code(OP_TAG))?;
        Ok(batch.items.len() - 1)
    }

    /// Stores a batch. The outcome of each item is asked of what comes back.
    async fn append(&mut self, batch: AppendBatch) -> Outcomes {
        let appended = self.shared.writer.append(batch, true).await.ok();
        let stored = appended.iter().flat_map(|appended| appended.results.iter().flatten());
        self.written_to = stored.map(|stored| stored.end).fold(self.written_to, PhysicalOffset::max);
        Outcomes(appended)
    }
}

/// What became of a batch.
struct Outcomes(Option<Appended>);

impl Outcomes {
    /// Whether a producer may be told that it is done: it is as safe as a message that is answered with SEND_OK.
    fn are_safe(&self) -> Result<(), BrokerError> {
        let unclear = |what: &str| {
            Err(BrokerError::StoreFailed { what: format!("{what}: the transaction may or may not have ended") })
        };
        match self.0.as_ref().map(|appended| appended.durability) {
            Some(Durability::ReplicationTimedOut | Durability::NotReplicated) => unclear("too few slaves have it"),
            Some(Durability::SyncTimedOut) => unclear("the log was not synced in time"),
            _ => Ok(()),
        }
    }

    /// Where an item was stored. A slow sync is no reason to decide a second time.
    fn stored(&self, item: usize) -> Result<Stored, BrokerError> {
        let unclear = |what: &str| {
            Err(BrokerError::StoreFailed { what: format!("{what}: the transaction may or may not have ended") })
        };
        let Some(appended) = &self.0 else { return unclear("the log writer has stopped") };
        if appended.durability == Durability::SyncFailed {
            return unclear("the log could not be synced");
        }
        match appended.results.get(item) {
            Some(result) => result.clone().map_err(|error| super::errors::store_failure(&error)),
            None => unclear("the log writer gave no result"),
        }
    }
}
