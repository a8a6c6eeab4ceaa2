//! The keeper carries out what the rules want done: it writes config files, tells group members of changes, closes
//! connections, and does what comes round every few seconds.
//!
//! Each save writes a table as a whole. What is asked for while one save runs is carried out together after it, with one
//! save for all: its mailbox is FIFO, so that the `Commit` it tells itself comes behind everything that waits already.

use std::sync::Arc;
use std::time::Duration;

use futures::future::select;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use super::registrar::RegistrarMessage;
use super::saved::Saved;
use super::shared::{Settings, Shared};
use super::topics_file::TopicsFile;
use super::{group_rules, memory_window, topic_rules};
use crate::actors::settings_file::SettingsFile;
use crate::broker::admin::statistics::local_day;
use crate::broker::clients::{Notices, TELL_EVERY_MS};
use crate::broker::Effect;
use crate::config::broker::{Update, UpdateError};
use crate::env::{Canary, ConnectionId, LogLimit, Pass};
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

/// Told when all is done, or what could not be.
type Done = oneshot::Sender<Result<(), String>>;

/// What the keeper is told.
pub enum KeeperMessage {
    /// Carry these out in order.
    Effects {
        /// What to do.
        effects: Vec<Effect>,
        /// Told when all is done, or what could not be.
        done: Option<Done>,
    },
    /// Carry out everything that has gathered.
    Commit,
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
    /// `topics.json` and its changes
    pub topics: TopicsFile,
    /// `subscriptionGroup.json`
    pub groups: Saved,
    /// `consumerOffset.json`
    pub offsets: Saved,
    /// `queueLocks.json`
    pub locks: Saved,
    /// Settings that requests changed.
    pub settings: SettingsFile,
    /// Who registers with the NameServers.
    pub registrar: ActorRef<RegistrarMessage>,
}

#[doc(hidden)]
pub struct State {
    arguments: KeeperArguments,
    /// What is to be carried out with the `Commit` under way.
    gathered: Vec<Asked>,
    /// Files that could not be written as they should be.
    topics_unsaved: bool,
    groups_unsaved: bool,
    notices: Notices,
    reported: LogLimit<(&'static str, Arc<str>)>,
}

/// Effects of one request.
struct Asked {
    effects: Vec<Effect>,
    done: Option<Done>,
    result: Result<(), String>,
}

impl Asked {
    fn wants(&self, effect: &Effect) -> bool {
        self.effects.contains(effect)
    }

    /// The first failure counts.
    fn add(&mut self, result: Result<(), String>) {
        if self.result.is_ok() {
            self.result = result;
        }
    }

    /// Whether it changes consumer offsets that have to be on disk before it is answered.
    fn wants_offsets(&self) -> bool {
        self.effects.iter().any(|effect| {
            let forgets = matches!(effect, Effect::ForgetTopicOffsets { .. } | Effect::ForgetGroupOffsets { .. });
            forgets || *effect == Effect::PersistOffsets
        })
    }
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
        myself.send_interval(SAMPLE_EVERY, || KeeperMessage::Sample);
        myself.send_interval(Duration::from_millis(TELL_EVERY_MS), || KeeperMessage::Notify);
        Ok(State {
            arguments,
            gathered: Vec::new(),
            topics_unsaved: false,
            groups_unsaved: false,
            notices: Notices::default(),
            reported: LogLimit::new(REPORT_EVERY),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            KeeperMessage::Effects { effects, done } => {
                if state.gathered.is_empty() {
                    myself.cast(KeeperMessage::Commit)?;
                }
                state.gathered.push(Asked { effects, done, result: Ok(()) });
            }
            KeeperMessage::Commit => state.commit().await,
            KeeperMessage::SaveOffsets => state.save_again().await,
            KeeperMessage::UpdateSettings { text, done } => {
                let updated = state.update_settings(&text).await;
                let _ = done.send(updated);
            }
            KeeperMessage::Scan => state.scan().await,
            KeeperMessage::Notify => {
                for (group, members) in state.notices.on_tick() {
                    state.notify(&group, &members);
                }
            }
            KeeperMessage::Sample => state.sample(),
            KeeperMessage::Flush { done } => {
                state.commit().await;
                let _ = done.send(state.flush().await);
            }
        }
        Ok(())
    }
}

impl State {
    /// Carries out what has gathered: files first, each once, then the rest in order.
    async fn commit(&mut self) {
        let mut gathered = std::mem::take(&mut self.gathered);
        self.carry_out(&mut gathered).await;
        let settings = [Effect::PersistTopics, Effect::PersistGroups];
        if gathered.iter().any(|asked| settings.iter().any(|effect| asked.wants(effect))) {
            self.arguments.shared.metadata_changed.notify_waiters();
        }
        for Asked { effects, done, result } in gathered {
            self.answer(done, result, effects.contains(&Effect::Register));
        }
    }

    /// Answers who asked for effects. A change of topics is answered once the NameServers have it, so that whoever asks
    /// them next finds it; a NameServer that is slow or gone delays that by a second and no more.
    fn answer(&self, done: Option<Done>, result: Result<(), String>, registers: bool) {
        let (told, heard) = oneshot::channel();
        let waits = registers && done.is_some();
        if registers {
            // A registrar that is gone means that the broker is stopping.
            let _ = self.arguments.registrar.cast(RegistrarMessage::Register { done: waits.then_some(told) });
        }
        let Some(done) = done else { return };
        if !waits {
            let _ = done.send(result);
            return;
        }
        let limit = self.arguments.shared.env.clock.sleep(REGISTER_WAIT);
        ractor::concurrency::spawn(async move {
            select(heard, limit).await;
            let _ = done.send(result);
        });
    }

    /// All changes or none; saved first, so that none is lost which was answered.
    async fn update_settings(&mut self, text: &str) -> Result<Update, SettingsError> {
        let shared = &self.arguments.shared;
        let current = shared.settings();
        let mut stored = current.stored.clone();
        let update = stored.update(text)?;
        self.arguments.settings.save(&update.changes).await.map_err(SettingsError::NotSaved)?;
        let config = current.config.with_runtime_keys_of(&stored);
        shared.topics().set_rules(topic_rules(&config));
        shared.groups().set_rules(group_rules(&config));
        shared.set_settings(Settings { stored, ..Settings::new(config, shared.advertised, &shared.role) });
        shared.set_retention();
        shared.store.set_memory_window(memory_window(&shared.settings().config, &shared.env));
        Ok(update)
    }

    async fn carry_out(&mut self, gathered: &mut [Asked]) {
        for (effect, is_topics) in [(Effect::PersistTopics, true), (Effect::PersistGroups, false)] {
            if gathered.iter().any(|asked| asked.wants(&effect)) {
                if is_topics && self.arguments.shared.env.canary(Canary::TopicNotSaved) {
                    continue;
                }
                let saved = if is_topics { self.save_topics().await } else { self.save_groups().await };
                gathered.iter_mut().filter(|asked| asked.wants(&effect)).for_each(|asked| asked.add(saved.clone()));
            }
        }
        if gathered.iter().any(|asked| asked.wants(&Effect::PersistLocks)) {
            let saved = self.save_locks().await;
            let wanting = gathered.iter_mut().filter(|asked| asked.wants(&Effect::PersistLocks));
            wanting.for_each(|asked| asked.add(saved.clone()));
        }
        for asked in gathered.iter_mut() {
            for effect in std::mem::take(&mut asked.effects) {
                asked.add(self.carry_out_one(&effect).await);
                asked.effects.push(effect);
            }
        }
        if gathered.iter().any(Asked::wants_offsets) {
            let saved = self.save_offsets().await;
            gathered.iter_mut().filter(|asked| asked.wants_offsets()).for_each(|asked| asked.add(saved.clone()));
        }
    }

    /// Carries out an effect that is no save.
    async fn carry_out_one(&mut self, effect: &Effect) -> Result<(), String> {
        let shared = &self.arguments.shared;
        match effect {
            Effect::DropQueues { topic } => return shared.drop_queues(topic).await,
            Effect::ForgetTopicOffsets { topic } => {
                shared.offsets().remove_topic(topic);
                shared.statistics.forget_topic(topic);
            }
            Effect::ForgetGroupOffsets { group } => {
                shared.offsets().remove_group(group);
                shared.statistics.forget_group(group);
            }
            Effect::NotifyIdsChanged { group, connections } => {
                let at_once = shared.settings().config.real_time_notify_consumer_change;
                let members = self.notices.on_changed(group, connections.clone(), at_once);
                self.notify(group, &members);
            }
            Effect::Close(connection) => {
                if let Some(handle) = shared.connections().get(connection) {
                    handle.close();
                }
            }
            Effect::Report(report) => {
                if let Some(Pass { held_back }) = self.reported.pass(report.subject(), shared.now()) {
                    tracing::warn!(held_back, "{report}");
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Tells the members of a group that it changed. A member that does not read misses it and asks within 20 s.
    fn notify(&self, group: &str, members: &[ConnectionId]) {
        // The group's own switch, as it is now: members bring what they registered with only every 30 s.
        let wanted = self.arguments.shared.group_directory.get(group).is_none_or(|group| group.notifies());
        if members.is_empty() || !wanted {
            return;
        }
        let command = Command::request(request::NOTIFY_CONSUMER_IDS_CHANGED)
            .with_ext(&NotifyConsumerIdsChanged { consumer_group: group.into() })
            .oneway();
        let connections = self.arguments.shared.connections();
        for handle in members.iter().filter_map(|member| connections.get(member)) {
            if let Err(error) = handle.send_one_way(command.clone()) {
                tracing::debug!(group, ?handle, %error, "a member was not told that its group changed");
            }
        }
    }

    fn sample(&self) {
        let shared = &self.arguments.shared;
        let clock = &shared.env.clock;
        let day = local_day(clock.now(), clock.local_offset_seconds());
        shared.statistics.on_tick(shared.now(), day);
    }

    async fn scan(&mut self) {
        let mut effects = Vec::new();
        let shared = &self.arguments.shared;
        let now = shared.now();
        for ((what, about), lines) in self.reported.on_tick(now) {
            tracing::warn!(what, about = &*about, lines, "more of the same");
        }
        shared.clients().on_scan(now, &mut effects);
        shared.locks().on_tick(now);
        // Whatever could not be saved is logged, and saved again.
        self.carry_out(&mut [Asked { effects, done: None, result: Ok(()) }]).await;
    }

    async fn save_topics(&mut self) -> Result<(), String> {
        let shared = &self.arguments.shared;
        let saved = self.arguments.topics.save(|show| show(&shared.topics())).await;
        self.topics_unsaved = saved.is_err();
        saved
    }

    async fn save_all_topics(&mut self) -> Result<(), String> {
        let shared = &self.arguments.shared;
        let saved = self.arguments.topics.save_whole(|show| show(&shared.topics())).await;
        self.topics_unsaved = saved.is_err();
        saved
    }

    async fn save_groups(&mut self) -> Result<(), String> {
        let snapshot = self.arguments.shared.groups().snapshot();
        let saved = self.arguments.groups.save(&snapshot).await;
        self.groups_unsaved = saved.is_err();
        saved
    }

    async fn save_offsets(&mut self) -> Result<(), String> {
        let snapshot = {
            let mut offsets = self.arguments.shared.offsets();
            if !offsets.take_dirty() || self.arguments.shared.env.canary(Canary::OffsetsNotSaved) {
                return Ok(());
            }
            offsets.snapshot(self.arguments.shared.wall())
        };
        let saved = self.arguments.offsets.save(&snapshot).await;
        if saved.is_err() {
            self.arguments.shared.offsets().mark_dirty();
        }
        saved
    }

    async fn save_locks(&mut self) -> Result<(), String> {
        let shared = &self.arguments.shared;
        let unsaved = shared.locks().unsaved(shared.now());
        let Some((locks, change)) = unsaved else { return Ok(()) };
        self.arguments.locks.save(&locks).await?;
        self.arguments.shared.locks().on_saved(change);
        Ok(())
    }

    /// Saves offsets and locks, and what could not be saved before. Errors are logged, and it is tried again the next time.
    async fn save_again(&mut self) {
        let _ = self.save_offsets().await;
        let _ = self.save_locks().await;
        if self.arguments.topics.on_tick() || self.topics_unsaved {
            let _ = self.save_all_topics().await;
        }
        if self.groups_unsaved {
            let _ = self.save_groups().await;
        }
    }

    async fn flush(&mut self) -> Result<(), String> {
        let topics = self.save_all_topics().await;
        let groups = self.save_groups().await;
        let locks = self.save_locks().await;
        topics.and(groups).and(locks).and(self.save_offsets().await)
    }
}
