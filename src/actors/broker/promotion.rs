//! Carries out the steps by which a slave becomes the master; [`role`](crate::broker::role) says which.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, select, Either};
use futures::pin_mut;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use super::catch_up;
use super::delay::{self, DelayMessage};
use super::metadata_sync::MetadataSyncMessage;
use super::registrar::RegistrarMessage;
use super::sent_lately;
use super::shared::Shared;
use super::timer::TimerMessage;
use crate::broker::role::{Progress, Promotion, Step, MASTER_ID};
use crate::broker::Effect;
use crate::config::broker::{BrokerConfig, BrokerRole};
use crate::env::Canary;
use crate::proto::remoting::requests::Supersede;
use crate::proto::remoting::{own_request, Command};
use crate::proto::PhysicalOffset;
use crate::store::deduplication::Windows;

/// How long another slave may take to leave the old master: it may be about to connect to it.
const LEAVE_LIMIT: Duration = Duration::from_secs(5);

/// How long an old master is waited for that is told that it is none any more.
const TELL_LIMIT: Duration = Duration::from_secs(1);
/// An old master that did not answer is told again after this,
const SUPERSEDE_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// so many times: ten minutes. What hangs or is cut off for longer hears it from the NameServers, and at its next start.
const SUPERSEDE_TIMES: u32 = 120;

/// What the actor is told.
pub enum PromotionMessage {
    /// Become the master.
    Promote {
        /// Although NameServers name one.
        despite_master: bool,
        /// Although other slaves do not answer, or have more of the log.
        despite_others: bool,
        /// Told when it is, or why it is not.
        done: oneshot::Sender<Result<Promoted, String>>,
    },
    /// Tell an old master again that it is none any more.
    Supersede {
        /// Where it was.
        address: String,
        /// How many times more.
        times: u32,
    },
}

/// A broker that has become the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promoted {
    /// Its epoch.
    pub epoch: i64,
    /// Where its log ended then.
    pub end: PhysicalOffset,
}

/// See the module's text.
pub struct PromotionActor;

/// What it starts with.
pub struct PromotionArguments {
    /// The broker's state.
    pub shared: Arc<Shared>,
    /// Keeps the tables of a slave.
    pub metadata_sync: ActorRef<MetadataSyncMessage>,
    /// Delivers delayed messages.
    pub delay: ActorRef<DelayMessage>,
    /// Delivers messages with a time of their own.
    pub timer: ActorRef<TimerMessage>,
    /// Tells the NameServers.
    pub registrar: ActorRef<RegistrarMessage>,
}

impl Actor for PromotionActor {
    type Msg = PromotionMessage;
    type State = PromotionArguments;
    type Arguments = PromotionArguments;

    async fn pre_start(
        &self,
        _: ActorRef<Self::Msg>,
        arguments: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(arguments)
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            PromotionMessage::Promote { despite_master, despite_others, done } => {
                let old = state.shared.followed().map(|master| master.address);
                let result = state.promote(despite_master, despite_others).await;
                if let (Ok(_), Some(address)) = (&result, old) {
                    myself.cast(PromotionMessage::Supersede { address, times: SUPERSEDE_TIMES })?;
                }
                let _ = done.send(result);
            }
            PromotionMessage::Supersede { address, times } => {
                let told = !state.shared.role.takes_writes() || state.supersede(&address).await;
                if let Some(times) = times.checked_sub(1).filter(|_| !told) {
                    let again = move || PromotionMessage::Supersede { address, times };
                    myself.send_after(SUPERSEDE_AGAIN_AFTER, again);
                }
            }
        }
        Ok(())
    }
}

impl PromotionArguments {
    async fn promote(&self, despite_master: bool, despite_others: bool) -> Result<Promoted, String> {
        let role = &self.shared.role;
        let mut promotion = Promotion::begin(role, despite_master).map_err(|error| error.to_string())?;
        tracing::info!(id = role.broker_id(), "this slave is to become the master");
        let mut end = PhysicalOffset(0);
        loop {
            let step = promotion.step();
            let result = self.carry_out(step, despite_others).await;
            if let Err(why) = &result {
                tracing::error!(?step, why, "a step on the way to the master failed");
            }
            if step == Step::BeginEpoch {
                // Nothing is written before the promotion is through. The first epoch of a log does not begin there.
                end = self.shared.store.end();
            }
            match promotion.done(result) {
                Progress::Next(_) => {}
                Progress::Finished => break,
                Progress::GivenUp { step, why } => {
                    // Only now may it follow again.
                    drop(promotion);
                    self.shared.writer.set_following(true);
                    let _ = self.registrar.cast(RegistrarMessage::FollowAgain);
                    return Err(format!("{step:?} failed, this broker is a slave as before: {why}"));
                }
            }
        }
        let epoch = self.shared.ha.epochs().last();
        let promoted = Promoted { epoch: epoch.map_or(0, |epoch| i64::from(epoch.number)), end };
        tracing::warn!(epoch = promoted.epoch, end = promoted.end.0, "this broker is the master now");
        Ok(promoted)
    }

    async fn carry_out(&self, step: Step, despite_others: bool) -> Result<(), String> {
        let shared = &self.shared;
        match step {
            Step::StopFollowing => {
                shared.replica.stop().await;
                shared.writer.stop_following().await;
            }
            Step::AskOthers => return self.ask_others(despite_others).await,
            Step::StopCopying => {
                let (done, stopped) = oneshot::channel();
                let asked = self.metadata_sync.cast(MetadataSyncMessage::Stop { done });
                asked.map_err(|_| "the broker is stopping".to_owned())?;
                stopped.await.map_err(|_| "the broker is stopping".to_owned())?;
            }
            Step::LowerOffsets => return self.lower_offsets().await,
            Step::BeginEpoch => return self.begin_epoch().await,
            Step::LoadTransactions => {
                self.load_sent_lately()?;
                return shared.load_transactions().await;
            }
            Step::SaveRole => return self.save_role().await,
            Step::Supersede => {
                if let Some(master) = shared.followed() {
                    self.supersede(&master.address).await;
                }
            }
            Step::TakeWrites => self.take_writes(),
            Step::Register => {
                let _ = self.registrar.cast(RegistrarMessage::Register { done: None });
            }
        }
        Ok(())
    }

    /// When this returns no other slave follows the old master, and none has more of its log.
    async fn ask_others(&self, despite: bool) -> Result<(), String> {
        let shared = &self.shared;
        let mut others = catch_up::all_slaves(shared).await;
        others.remove(&shared.advertised.to_string());
        let leave = Command::request(own_request::LEAVE_MASTER);
        let answers = others.iter().map(|other| catch_up::ask(shared, other, leave.clone(), LEAVE_LIMIT));
        for (other, answer) in others.iter().zip(join_all(answers).await) {
            let end = answer.and_then(|answer| answer.ext("maxPhyOffset")?.parse::<u64>().ok());
            let why = match end {
                Some(end) if end <= shared.store.end().0 => continue,
                Some(end) => format!("the slave at {other} has {} bytes more of the log", end - shared.store.end().0),
                None => format!("the slave at {other} does not say that it has left the old master"),
            };
            if !despite {
                return Err(why);
            }
            tracing::warn!(why, "promoted all the same");
        }
        Ok(())
    }

    /// Tells the old master, in a second. Says whether it takes no messages now.
    async fn supersede(&self, address: &str) -> bool {
        let shared = &self.shared;
        if shared.env.canary(Canary::OldMasterNotTold) {
            return true;
        }
        let state_version = shared.topics().version().state_version;
        let header = Supersede { state_version, address: shared.advertised.to_string().into() };
        let told =
            catch_up::ask(shared, address, Command::request(own_request::SUPERSEDE).with_ext(&header), TELL_LIMIT);
        let late = shared.env.clock.sleep(TELL_LIMIT);
        pin_mut!(told);
        matches!(select(told, late).await, Either::Left((Some(_), _)))
    }

    async fn lower_offsets(&self) -> Result<(), String> {
        let store = &self.shared.store;
        let end_of = |topic: &str, id: i32| {
            let queue = u32::try_from(id).ok().and_then(|id| store.queue(topic, id));
            queue.map_or(0, |queue| i64::try_from(queue.max().0).unwrap_or(i64::MAX))
        };
        let lowered = self.shared.offsets().lower_to_ends(end_of);
        for lowered in &lowered {
            crate::sometimes!("a promoted slave lowered an offset");
            let (key, queue, was, is) = (&lowered.key, lowered.queue_id, lowered.was, lowered.is);
            tracing::warn!(key, queue, was, is, "a group had consumed messages that this broker never got");
        }
        match lowered.is_empty() {
            true => Ok(()),
            false => self.shared.carry_out_now(vec![Effect::PersistOffsets]).await,
        }
    }

    /// Whatever the old master still says of its log and of its tables is older from now on.
    async fn begin_epoch(&self) -> Result<(), String> {
        let (shared, id) = (&self.shared, self.shared.role.broker_id());
        shared.ha.begin_epoch(shared.store.end(), id).await.map_err(|error| error.to_string())?;
        shared.topics().promote();
        shared.groups().promote();
        // Saved, or the old master would outrank this one after a restart.
        shared.carry_out_now(vec![Effect::PersistTopics, Effect::PersistGroups]).await
    }

    /// What the old master answered may be sent once more to this one.
    fn load_sent_lately(&self) -> Result<(), String> {
        let shared = &self.shared;
        let config = &shared.settings().config;
        let usual = config.deduplication_window_ms as i64;
        let longest_ms = shared.topics().iter().map(|topic| topic.deduplication_ms(usual)).max().unwrap_or(0);
        let of = |topic: &str| shared.topic_directory.get(topic).map_or(0, |topic| topic.deduplication_ms(usual));
        let windows = Windows { of, longest_ms };
        let table = sent_lately(&shared.env, &shared.store, config, &windows).map_err(|error| error.to_string())?;
        shared.writer.set_deduplication(table);
        Ok(())
    }

    async fn save_role(&self) -> Result<(), String> {
        // Should it start again before it knows who holds what.
        self.shared.locks().on_promoted(self.shared.now());
        self.shared.carry_out_now(vec![Effect::PersistLocks]).await?;
        let role = master_role(&self.shared.settings().config);
        let name = if role == BrokerRole::SyncMaster { "SYNC_MASTER" } else { "ASYNC_MASTER" };
        let text = format!("brokerRole={name}\nbrokerId={MASTER_ID}\n");
        let updated = self.shared.update_settings(text).await?;
        updated.map(drop).map_err(|error| error.to_string())
    }

    fn take_writes(&self) {
        let shared = &self.shared;
        let settings = shared.settings();
        let mut config = settings.config.clone();
        config.broker_role = master_role(&config);
        shared.locks().on_promoted(shared.now());
        shared.ha.set_slave(false);
        shared.ha.quorum().set_needed(config.replicas_needed());
        let mut effects = Vec::new();
        let progress = shared.delays().snapshot(shared.wall());
        *shared.delays() = delay::restored(&shared.store, &config, progress, &mut effects);
        shared.carry_out(effects);
        // Until the timer knows what waits.
        shared.store.pin(Some(PhysicalOffset(0)));
        let _ = self.delay.cast(DelayMessage::Wake { at: shared.now() });
        let _ = self.timer.cast(TimerMessage::Wake { at: shared.now() });
    }
}

/// What a slave becomes: it waits for copies as its own settings say, since nobody else can tell.
fn master_role(config: &BrokerConfig) -> BrokerRole {
    match config.in_sync_replicas {
        0 | 1 => BrokerRole::AsyncMaster,
        _ => BrokerRole::SyncMaster,
    }
}
