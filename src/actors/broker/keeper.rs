//! The keeper carries out what the rules want done: it writes config files, tells group members of changes, closes
//! connections, and does what comes round every few seconds.

use std::sync::Arc;
use std::time::Duration;

use futures::future::select;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use super::registrar::RegistrarMessage;
use super::saved::Saved;
use super::shared::{Settings, Shared};
use super::{group_rules, topic_rules};
use crate::actors::settings_file::SettingsFile;
use crate::broker::admin::statistics::local_day;
use crate::broker::clients::{Notices, TELL_EVERY_MS};
use crate::broker::Effect;
use crate::config::broker::{Update, UpdateError};
use crate::env::{ConnectionId, LogLimit, Pass};
use crate::proto::body::DataVersion;
use crate::proto::remoting::requests::NotifyConsumerIdsChanged;
use crate::proto::remoting::{request, Command};

/// How often members that are silent for too long are looked for.
const SCAN_EVERY: Duration = Duration::from_secs(10);
/// How often the same is reported about the same.
const REPORT_EVERY: Duration = Duration::from_secs(10);

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
    /// A request changes settings.
    UpdateSettings {
        /// `key=value` lines.
        text: String,
        /// Told once they are saved and count, or why none was changed.
        done: oneshot::Sender<Result<Update, SettingsError>>,
    },
    /// Time to save consumer offsets.
    SaveOffsets,
    /// Time to look for silent clients.
    Scan,
    /// Time to tell members of collected changes of their groups.
    Notify,
    /// Time to sample the statistics.
    Sample,
    /// Save everything that changed and answer.
    Flush {
        /// Told when all is saved, or what could not be.
        done: oneshot::Sender<Result<(), String>>,
    },
}

/// Why settings were not changed.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A request asks for what cannot be.
    #[error(transparent)]
    Refused(#[from] UpdateError),
    /// The file was not written: the old settings count, now and after the next start.
    #[error("nothing was changed: {0}")]
    NotSaved(String),
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
    /// Settings that requests changed.
    pub settings: SettingsFile,
    /// Who registers with the NameServers.
    pub registrar: ActorRef<RegistrarMessage>,
}

#[doc(hidden)]
pub struct State {
    shared: Arc<Shared>,
    topics: Saved,
    groups: Saved,
    offsets: Saved,
    settings: SettingsFile,
    registrar: ActorRef<RegistrarMessage>,
    /// The tables' versions in the files.
    saved_topics: Option<DataVersion>,
    saved_groups: Option<DataVersion>,
    notices: Notices,
    reported: LogLimit<(&'static str, Arc<str>)>,
}

impl Actor for Keeper {
    type Msg = KeeperMessage;
    type State = State;
    type Arguments = KeeperArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        arguments: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        let save_every = arguments.shared.settings().config.flush_consumer_offset_interval.max(100);
        myself.send_interval(Duration::from_millis(save_every), || KeeperMessage::SaveOffsets);
        myself.send_interval(SCAN_EVERY, || KeeperMessage::Scan);
        myself.send_interval(Duration::from_millis(TELL_EVERY_MS), || KeeperMessage::Notify);
        myself.send_interval(SAMPLE_EVERY, || KeeperMessage::Sample);
        let KeeperArguments { shared, topics, groups, offsets, settings, registrar } = arguments;
        let (notices, reported) = (Notices::default(), LogLimit::new(REPORT_EVERY));
        let (saved_topics, saved_groups) = (None, None);
        Ok(State {
            shared,
            topics,
            groups,
            offsets,
            settings,
            registrar,
            saved_topics,
            saved_groups,
            notices,
            reported,
        })
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
            KeeperMessage::UpdateSettings { text, done } => {
                let updated = state.update_settings(&text).await;
                let _ = done.send(updated);
            }
            KeeperMessage::SaveOffsets => {
                // The error is logged, and the table stays dirty for the next time.
                let _ = state.save_offsets().await;
            }
            KeeperMessage::Scan => state.scan().await,
            KeeperMessage::Notify => {
                for (group, members) in state.notices.on_tick() {
                    state.notify(&group, &members);
                }
            }
            KeeperMessage::Sample => state.sample(),
            KeeperMessage::Flush { done } => {
                let _ = done.send(state.flush().await);
            }
        }
        Ok(())
    }
}

impl State {
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

    /// All changes or none; saved first, so that none is lost which was answered.
    async fn update_settings(&mut self, text: &str) -> Result<Update, SettingsError> {
        let current = self.shared.settings();
        let mut stored = current.stored.clone();
        let update = stored.update(text)?;
        self.settings.save(&update.changes).await.map_err(SettingsError::NotSaved)?;
        let config = current.config.with_runtime_keys_of(&stored);
        self.shared.topics().set_rules(topic_rules(&config));
        self.shared.groups().set_rules(group_rules(&config));
        self.shared.set_settings(Settings { stored, ..Settings::new(config, self.shared.advertised) });
        self.shared.set_retention();
        Ok(update)
    }

    async fn carry_out(&mut self, effects: Vec<Effect>) -> Result<(), String> {
        let mut result = Ok(());
        // Several changes of one table need one save, also those of requests that came while the last one was written:
        // what it wrote is what the table was when it began.
        if effects.contains(&Effect::PersistTopics) && self.saved_topics != Some(self.shared.topics().version()) {
            result = result.and(self.save_topics().await);
        }
        if effects.contains(&Effect::PersistGroups) && self.saved_groups != Some(self.shared.groups().version()) {
            result = result.and(self.save_groups().await);
        }
        if effects.contains(&Effect::PersistOffsets) {
            result = result.and(self.save_offsets().await);
        }
        for effect in effects {
            match effect {
                Effect::DropQueues { topic } => {
                    let dropped = self.shared.drop_queues(&topic);
                    result = result.and(dropped);
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
                Effect::NotifyIdsChanged { group, connections } => {
                    let at_once = self.shared.settings().config.real_time_notify_consumer_change;
                    let members = self.notices.on_changed(&group, connections, at_once);
                    self.notify(&group, &members);
                }
                Effect::Close(connection) => {
                    if let Some(handle) = self.shared.connections().get(&connection) {
                        handle.close();
                    }
                }
                Effect::Report(report) => {
                    if let Some(Pass { held_back }) = self.reported.pass(report.subject(), self.shared.now()) {
                        tracing::warn!(held_back, "{report}");
                    }
                }
                _ => {}
            }
        }
        result
    }

    /// Tells the members of a group that it changed. A member that does not read misses it and asks within 20 s.
    fn notify(&self, group: &str, members: &[ConnectionId]) {
        // The group's own switch, as it is now: members bring what they registered with only every 30 s.
        let wanted = self.shared.group_directory.get(group).is_none_or(|group| group.notifies());
        if members.is_empty() || !wanted {
            return;
        }
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
        for ((what, about), lines) in self.reported.on_tick(now) {
            tracing::warn!(what, about = &*about, lines, "more of the same");
        }
        self.shared.clients().on_scan(now, &mut effects);
        self.shared.locks().on_tick(now);
        // Whatever could not be saved is logged.
        let _ = self.carry_out(effects).await;
    }

    async fn save_topics(&mut self) -> Result<(), String> {
        let snapshot = self.shared.topics().snapshot();
        self.topics.save(&snapshot).await?;
        self.saved_topics = Some(snapshot.data_version);
        Ok(())
    }

    async fn save_groups(&mut self) -> Result<(), String> {
        let snapshot = self.shared.groups().snapshot();
        self.groups.save(&snapshot).await?;
        self.saved_groups = Some(snapshot.data_version);
        Ok(())
    }

    async fn save_offsets(&mut self) -> Result<(), String> {
        let snapshot = {
            let mut offsets = self.shared.offsets();
            if !offsets.take_dirty() {
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
