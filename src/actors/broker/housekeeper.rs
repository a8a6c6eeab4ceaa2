//! The housekeeper follows the log writer: it builds the index, and deletes what has expired.
//!
//! It works in small steps between which other actors get their turn. The log writer signals that there is work; with no
//! sends there is nothing to do but to look at the disk every 10 s.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use crate::actors::ha::HaState;
use crate::env::Env;
use crate::proto::PhysicalOffset;
use crate::store::retention::{DiskGuard, RetentionPolicy};
use crate::store::{Dispatched, Dispatcher, Store, Trouble};

/// How long records gather before they are indexed: a key can be found this long after its message was stored.
const GATHER: Duration = Duration::from_millis(50);
/// When what still waits to be written is looked at again.
const SETTLE: Duration = Duration::from_millis(1_100);
/// Bytes of the log that are looked through for damage with each look at the disk: 8 GiB a day.
const SCRUBBED_BYTES: u64 = 1 << 20;
/// Pause after an error.
const RETRY: Duration = Duration::from_secs(1);

/// What the housekeeper is told.
pub enum HousekeeperMessage {
    /// Index the next records.
    Dispatch,
    /// Look at the disk, delete what has expired.
    Clean,
    /// An operator wants expired files deleted, whatever the hour.
    DeleteExpired,
    /// From now on files are kept by these rules.
    Retain {
        /// The rules.
        policy: RetentionPolicy,
    },
    /// Index everything and answer; nothing is done afterwards.
    Drain {
        /// Told when all is indexed.
        done: oneshot::Sender<()>,
    },
}

/// Tells the housekeeper that the log has grown. Cheap to call after every batch.
#[derive(Clone)]
pub struct DispatchSignal {
    queued: Arc<AtomicBool>,
    actor: ActorRef<HousekeeperMessage>,
}

impl DispatchSignal {
    /// Wakes the housekeeper unless that has been done already.
    pub fn notify(&self) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.actor.send_after(GATHER, || HousekeeperMessage::Dispatch);
        }
    }
}

/// See the module's text.
pub struct Housekeeper;

/// What the housekeeper starts with.
pub struct HousekeeperArguments {
    /// The world.
    pub env: Env,
    /// The store.
    pub store: Arc<Store>,
    /// Whose epochs expire with the log.
    pub ha: HaState,
    /// Builds the index.
    pub dispatcher: Dispatcher,
    /// Decides what to delete.
    pub guard: DiskGuard,
    /// How often the disk is looked at (`cleanResourceInterval`).
    pub clean_every: Duration,
}

#[doc(hidden)]
pub struct State {
    arguments: HousekeeperArguments,
    queued: Arc<AtomicBool>,
    settling: bool,
    draining: bool,
    cleaning: Trouble,
    trimming: Trouble,
    scrubbing: Trouble,
    /// Up to here the log was looked through for damage.
    scrubbed_to: PhysicalOffset,
    indexing: Trouble,
    syncing: Trouble,
}

impl Housekeeper {
    /// Starts the housekeeper; its end is reported to `supervisor`.
    ///
    /// # Errors
    /// If the actor cannot be spawned.
    pub async fn start<M: ractor::Message>(
        arguments: HousekeeperArguments,
        supervisor: &ActorRef<M>,
    ) -> anyhow::Result<(ActorRef<HousekeeperMessage>, DispatchSignal)> {
        let queued = Arc::new(AtomicBool::new(false));
        let (actor, _) =
            Actor::spawn_linked(None, Housekeeper, (arguments, Arc::clone(&queued)), supervisor.get_cell()).await?;
        Ok((actor.clone(), DispatchSignal { queued, actor }))
    }
}

impl Actor for Housekeeper {
    type Msg = HousekeeperMessage;
    type State = State;
    type Arguments = (HousekeeperArguments, Arc<AtomicBool>);

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        (arguments, queued): Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        myself.send_interval(arguments.clean_every, || HousekeeperMessage::Clean);
        // What recovery found confirmed but not indexed.
        myself.cast(HousekeeperMessage::Dispatch)?;
        // A disk that is full at the start refuses the first send.
        myself.cast(HousekeeperMessage::Clean)?;
        let [cleaning, trimming, scrubbing, indexing, syncing] = Default::default();
        let scrubbed_to = PhysicalOffset(0);
        Ok(State {
            arguments,
            queued,
            settling: false,
            draining: false,
            cleaning,
            trimming,
            scrubbing,
            scrubbed_to,
            indexing,
            syncing,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        if state.draining {
            return Ok(());
        }
        match message {
            HousekeeperMessage::Dispatch => state.dispatch(&myself)?,
            HousekeeperMessage::DeleteExpired => {
                state.arguments.guard.request_deletion();
                myself.cast(HousekeeperMessage::Clean)?;
            }
            HousekeeperMessage::Retain { policy } => state.arguments.guard.set_policy(policy),
            HousekeeperMessage::Clean => {
                let cleaned = state.arguments.store.clean(&mut state.arguments.guard).await;
                state.cleaning.note("delete what has expired", &cleaned);
                state.trimming.note("forget expired epochs", &state.arguments.ha.trim_epochs().await);
                let scrubbed = state.arguments.store.scrub(state.scrubbed_to, SCRUBBED_BYTES);
                state.scrubbed_to = *scrubbed.as_ref().unwrap_or(&state.scrubbed_to);
                state.scrubbing.note("look for damage in the log", &scrubbed);
                if let Some(sync) = state.arguments.dispatcher.sync_finished() {
                    state.syncing.note("sync the index", &sync.await);
                }
            }
            HousekeeperMessage::Drain { done } => {
                state.draining = true;
                let drained = state.arguments.dispatcher.drain(state.arguments.env.clock.now());
                state.indexing.note("extend the index", &drained);
                let _ = done.send(());
            }
        }
        Ok(())
    }
}

impl State {
    fn dispatch(&mut self, myself: &ActorRef<HousekeeperMessage>) -> Result<(), ActorProcessingErr> {
        self.queued.store(false, Ordering::Release);
        let before = self.arguments.dispatcher.position();
        let dispatched = self.arguments.dispatcher.dispatch_some(self.arguments.env.clock.now());
        self.indexing.note("extend the index", &dispatched);
        match dispatched {
            Ok(Dispatched::More) => myself.cast(HousekeeperMessage::Dispatch)?,
            // Entries that gathered are written a second later; once that is done nothing more is to do.
            Ok(Dispatched::CaughtUp) if before != self.arguments.dispatcher.position() || !self.settling => {
                self.settling = true;
                myself.send_after(SETTLE, || HousekeeperMessage::Dispatch);
            }
            Ok(Dispatched::CaughtUp) => self.settling = false,
            Err(_) => {
                myself.send_after(RETRY, || HousekeeperMessage::Dispatch);
            }
        }
        Ok(())
    }
}
