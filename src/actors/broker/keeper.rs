//! The keeper carries out what the rules want done: it writes config files, tells group members of changes, closes
//! connections, and does what comes round every few seconds.

use std::sync::Arc;
use std::time::Duration;

use futures::future::select;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use super::registrar::RegistrarMessage;
use super::saved::Saved;
use super::shared::Shared;
use crate::broker::admin::statistics::local_day;
use crate::broker::Effect;
use crate::env::{Canary, ConnectionId};
use crate::proto::remoting::requests::NotifyConsumerIdsChanged;
use crate::proto::remoting::{request, Command};

/// How often members that are silent for too long are looked for.
const SCAN_EVERY: Duration = Duration::from_secs(10);

/// How long a change of topics waits for the NameServers before it is answered.
const REGISTER_WAIT: Duration = Duration::from_secs(1);
/// How often statistics are sampled.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// What the keeper is told.
pub enum KeeperMessage {
    /// Carry these out in order.
    Effects {
        /// What to do.
        effects: Vec<Effect>,
        /// Told when all is done, or what could not be.
        done: Option<oneshot::Sender<Result<(), String>>>,
    },
    /// Time to save consumer offsets.
    SaveOffsets,
    /// Time to look for silent clients.
    Scan,
    /// Time to sample the statistics.
    Sample,
    /// Save everything that changed and answer.
    Flush {
        /// Told when all is saved, or what could not be.
        done: oneshot::Sender<Result<(), String>>,
    },
}

/// See the module's text.
pub struct Keeper;

/// What the keeper starts with.
pub struct KeeperArguments {
    /// The broker's state.
    pub shared: Arc<Shared>,
    /// `topics.json`
    pub topics: Saved,
    /// `subscriptionGroup.json`
    pub groups: Saved,
    /// `consumerOffset.json`
    pub offsets: Saved,
    /// Who registers with the NameServers.
    pub registrar: ActorRef<RegistrarMessage>,
}

impl Actor for Keeper {
    type Msg = KeeperMessage;
    type State = KeeperArguments;
    type Arguments = KeeperArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        arguments: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        let save_every = arguments.shared.settings().config.flush_consumer_offset_interval.max(100);
        myself.send_interval(Duration::from_millis(save_every), || KeeperMessage::SaveOffsets);
        myself.send_interval(SCAN_EVERY, || KeeperMessage::Scan);
        myself.send_interval(SAMPLE_EVERY, || KeeperMessage::Sample);
        Ok(arguments)
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            KeeperMessage::Effects { effects, done } => {
                let registers = effects.contains(&Effect::Register);
                let result = state.carry_out(effects).await;
                state.answer(done, result, registers);
            }
            KeeperMessage::SaveOffsets => {
                // The error is logged, and the table stays dirty for the next time.
                let _ = state.save_offsets().await;
            }
            KeeperMessage::Scan => state.scan().await,
            KeeperMessage::Sample => state.sample(),
            KeeperMessage::Flush { done } => {
                let _ = done.send(state.flush().await);
            }
        }
        Ok(())
    }
}

impl KeeperArguments {
    /// Answers who asked for effects. A change of topics is answered once the NameServers have it, so that whoever asks
    /// them next finds it; a NameServer that is slow or gone delays that by a second and no more.
    fn answer(&self, done: Option<oneshot::Sender<Result<(), String>>>, result: Result<(), String>, registers: bool) {
        let (told, heard) = oneshot::channel();
        let waits = registers && done.is_some();
        if registers {
            // A registrar that is gone means that the broker is stopping.
            let _ = self.registrar.cast(RegistrarMessage::Register { done: waits.then_some(told) });
        }
        let Some(done) = done else { return };
        if !waits {
            let _ = done.send(result);
            return;
        }
        let limit = self.shared.env.clock.sleep(REGISTER_WAIT);
        ractor::concurrency::spawn(async move {
            select(heard, limit).await;
            let _ = done.send(result);
        });
    }

    async fn carry_out(&mut self, effects: Vec<Effect>) -> Result<(), String> {
        let mut result = Ok(());
        // Several changes of one table need one save.
        if effects.contains(&Effect::PersistTopics) && !self.shared.env.canary(Canary::TopicNotSaved) {
            result = result.and(self.save_topics().await);
        }
        if effects.contains(&Effect::PersistGroups) {
            result = result.and(self.save_groups().await);
        }
        if effects.contains(&Effect::PersistOffsets) {
            result = result.and(self.save_offsets().await);
        }
        for effect in effects {
            match effect {
                Effect::DropQueues { topic } => {
                    if let Err(error) = self.shared.store.delete_topic(&topic) {
                        result = result.and(Err(format!("the queues of {topic} were not removed: {error}")));
                    }
                    // Until the queue table says so, a crash would bring them back from the log.
                    if !self.shared.env.canary(Canary::DeletedTopicReturns) {
                        self.shared.writer.upkeep();
                    }
                }
                Effect::ForgetTopicOffsets { topic } => {
                    self.shared.offsets().remove_topic(&topic);
                    self.shared.statistics.forget_topic(&topic);
                    result = result.and(self.save_offsets().await);
                }
                Effect::ForgetGroupOffsets { group } => {
                    self.shared.offsets().remove_group(&group);
                    self.shared.statistics.forget_group(&group);
                    result = result.and(self.save_offsets().await);
                }
                Effect::NotifyIdsChanged { group, connections } => self.notify(&group, &connections),
                Effect::Close(connection) => {
                    if let Some(handle) = self.shared.connections().get(&connection) {
                        handle.close();
                    }
                }
                Effect::Report(report) => tracing::warn!("{report}"),
                _ => {}
            }
        }
        result
    }

    /// Tells the members of a group that it changed. A member that does not read misses it and asks within 20 s.
    fn notify(&self, group: &str, members: &[ConnectionId]) {
        let command = Command::request(request::NOTIFY_CONSUMER_IDS_CHANGED)
            .with_ext(&NotifyConsumerIdsChanged { consumer_group: group.into() })
            .oneway();
        let connections = self.shared.connections();
        for handle in members.iter().filter_map(|member| connections.get(member)) {
            if let Err(error) = handle.send_one_way(command.clone()) {
                tracing::debug!(group, ?handle, %error, "a member was not told that its group changed");
            }
        }
    }

    fn sample(&self) {
        let clock = &self.shared.env.clock;
        let day = local_day(clock.now(), clock.local_offset_seconds());
        self.shared.statistics.on_tick(self.shared.now(), day);
    }

    async fn scan(&mut self) {
        let mut effects = Vec::new();
        let now = self.shared.now();
        self.shared.clients().on_scan(now, &mut effects);
        self.shared.locks().on_tick(now);
        // Whatever could not be saved is logged.
        let _ = self.carry_out(effects).await;
    }

    async fn save_topics(&mut self) -> Result<(), String> {
        let snapshot = self.shared.topics().snapshot();
        self.topics.save(&snapshot).await
    }

    async fn save_groups(&mut self) -> Result<(), String> {
        let snapshot = self.shared.groups().snapshot();
        self.groups.save(&snapshot).await
    }

    async fn save_offsets(&mut self) -> Result<(), String> {
        let snapshot = {
            let mut offsets = self.shared.offsets();
            if !offsets.take_dirty() || self.shared.env.canary(Canary::OffsetsNotSaved) {
                return Ok(());
            }
            offsets.snapshot(self.shared.wall())
        };
        let saved = self.offsets.save(&snapshot).await;
        if saved.is_err() {
            self.shared.offsets().mark_dirty();
        }
        saved
    }

    async fn flush(&mut self) -> Result<(), String> {
        let topics = self.save_topics().await;
        let groups = self.save_groups().await;
        topics.and(groups).and(self.save_offsets().await)
    }
}
