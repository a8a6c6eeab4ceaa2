//! A broker: its actors, what they share, and how they start and stop.
//!
//! | actor | does | ends |
//! | --- | --- | --- |
//! | [`BrokerActor`] | watches the others | with the broker |
//! | log writer | writes the log | the broker stops: it cannot trust its log |
//! | keeper | carries out effects of the rules | the broker stops |
//! | transactions | store what producers decide, ask those that do not | the broker stops |
//! | delay scheduler | delivers delayed messages once they are due | the broker stops |
//! | timer | delivers messages with a time of their own in the second they ask for | the broker stops |
//! | housekeeper | builds the index, deletes what has expired | the broker stops |
//! | registrar | tells the NameServers what is here | the broker stops |
//! | promotion | makes a slave the master | the broker stops |
//! | metadata sync | keeps a slave's tables those of its master | the broker stops |
//! | listeners and their sessions | requests and answers | a session alone, with its connection |

mod catch_up;
pub mod delay;
pub mod due;
pub mod errors;
pub mod handlers;
pub mod housekeeper;
mod identity;
pub mod keeper;
mod mender;
pub mod metadata_sync;
mod parked;
mod pull;
pub mod promotion;
pub mod registrar;
pub mod replication;
mod restore;
pub mod saved;
mod send;
pub mod service;
pub mod shared;
mod still_master;
pub mod timer;
mod topics_file;
pub mod transaction;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::{oneshot, watch};

use self::delay::{DelayActor, DelayArguments, DelayMessage};
use self::housekeeper::{Housekeeper, HousekeeperArguments, HousekeeperMessage};
use self::identity::{advertised, ha_address, role_of};
use self::keeper::{Keeper, KeeperArguments, KeeperMessage};
use self::mender::{mend_at_start, Mender};
use self::metadata_sync::{MetadataSync, MetadataSyncArguments};
use self::promotion::{PromotionActor, PromotionArguments};
use self::registrar::{Registrar, RegistrarMessage};
use self::replication::{Replication, RunningReplication};
use self::saved::Saved;
use self::service::BrokerService;
use self::shared::{monotonic, Parts, Settings, Shared};
use self::timer::{TimerActor, TimerMessage};
use self::topics_file::TopicsFile;
use self::transaction::{TransactionActor, TransactionMessage};
use super::ha::{HaMasterHandle, HaStatus};
use super::log_writer::{LogWriterHandle, LogWriterOptions};
use super::net::{ListenerHandle, ListenerOptions};
use super::settings_file::SettingsFile;
use crate::broker::groups::{GroupRules, GroupTable};
use crate::broker::locks::QueueLocks;
use crate::broker::offsets::{lower_to_ends, Lowered, OffsetTable};
use crate::broker::topics::{deduplication_ms, TopicRules, TopicTable};
use crate::broker::Effect;
use crate::config::broker::{BrokerConfig, FlushDiskType};
use crate::env::{Canary, Env, Listener};
use crate::proto::body::{ConsumerOffsetSerializeWrapper, SubscriptionGroupWrapper, TopicConfig};
use crate::proto::message::system::BootOptions;
use crate::proto::PhysicalOffset;
use crate::store::deduplication::{self, Windows};
use crate::store::recovery::Exit;
use crate::store::retention::{DiskGuard, RetentionPolicy, RetentionSettings};
use crate::store::{self, Deduplication, FlushMode, Opened, Store, StoreError, StoreOptions};

/// How long sessions get to take their last answers.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// A running broker.
pub struct BrokerHandle {
    shared: Arc<Shared>,
    listener: ListenerHandle,
    old_clients: Option<ListenerHandle>,
    transactions: ActorRef<TransactionMessage>,
    delay: ActorRef<DelayMessage>,
    timer: ActorRef<TimerMessage>,
    keeper: ActorRef<KeeperMessage>,
    housekeeper: ActorRef<HousekeeperMessage>,
    registrar: ActorRef<RegistrarMessage>,
    replication: RunningReplication,
    root: ActorRef<BrokerMessage>,
    failure: watch::Receiver<Option<String>>,
}

impl BrokerHandle {
    /// Opens the store, recovers it, and serves on `address`. Returns once it has listened and begun to register.
    ///
    /// # Errors
    /// Whatever keeps it from serving, named.
    pub async fn start(env: &Env, config: BrokerConfig, address: SocketAddr) -> Result<Self> {
        let mut config = config;
        config.check().map_err(|reason| anyhow::anyhow!("settings: {reason}"))?;
        config.check_role().map_err(|reason| anyhow::anyhow!("settings: {reason}"))?;
        let role = role_of(&mut config);
        if config.broker_name.is_empty() {
            config.broker_name = match env.net.own_name() {
                name if name.is_empty() => "broker-a".to_owned(),
                name => name,
            };
        }
        // First of all: a port that is taken is said before anything is touched, and port 0 becomes the one that clients
        // are told. What connects meanwhile waits to be accepted.
        let listener = env.net.listen(address).await.with_context(|| format!("cannot listen on {address}"))?;
        let address = listener.local_addr()?;
        let root_directory = PathBuf::from(&config.store_path_root_dir);
        env.disk
            .create_dir_all(&root_directory)
            .with_context(|| format!("cannot make the store's folder {}", root_directory.display()))?;
        // The topics come first: what a queue's directory means follows from them.
        let (topics_file, topics) = TopicsFile::open(env, &root_directory)?;
        let (groups_file, groups) = Saved::open::<SubscriptionGroupWrapper>(env, &root_directory)?;
        let (mut offsets_file, mut offsets) = Saved::open(env, &root_directory)?;
        let (delays_file, delays) = Saved::open(env, &root_directory)?;
        let (locks_file, locks) = Saved::open(env, &root_directory)?;
        let is_new = groups.subscription_group_table.is_empty();
        let locks = QueueLocks::load(locks, is_new, config.locks_max, monotonic(env)).with_canaries(env.canaries());
        let mut opened = store::open(env, store_options(&config, env)).await?;
        if mend_at_start(env, &config, advertised(env, &config, address)?, &opened).await {
            drop(opened);
            opened = store::open(env, store_options(&config, env)).await?;
        }
        let Opened { store, mut writer, dispatcher, report } = opened;
        for repair in &report.repairs {
            tracing::warn!("{repair}");
        }
        tracing::info!(exit = ?report.exit, records = report.records_read, end = report.log_end.0, "the store is open");
        // Retention begins before it is known what waits for its time, here or at the master.
        if role.takes_writes() || !env.canary(Canary::SlaveDeletesFirst) {
            store.pin(Some(PhysicalOffset(0)));
        }
        if role.takes_writes() {
            let usual = config.deduplication_window_ms as i64;
            let of_topic = |topic: &TopicConfig| deduplication_ms(topic, usual);
            let table = &topics.topic_config_table;
            let windows = Windows {
                of: |topic: &str| table.get(topic).map_or(0, of_topic),
                longest_ms: table.values().map(of_topic).max().unwrap_or(0),
            };
            writer.set_deduplication(sent_lately(env, &store, &config, &windows)?);
        }
        // A slave's queues lag behind its master's offsets all the time.
        if report.exit == Exit::Unclean && role.takes_writes() && !env.canary(Canary::OffsetsAboveEnd) {
            lower_offsets(&store, &mut offsets, &mut offsets_file).await?;
        }

        let (failure_sender, failure) = watch::channel(None);
        let (root, _) = Actor::spawn(None, BrokerActor, failure_sender).await?;
        let replication = Replication::open(env, &config, &store, &mut writer)?;
        let arguments = HousekeeperArguments {
            env: env.clone(),
            store: Arc::clone(&store),
            ha: replication.ha.clone(),
            dispatcher,
            guard: disk_guard(&config, &store),
            clean_every: Duration::from_millis(config.clean_resource_interval.max(100)),
        };
        let (housekeeper, dispatch) = Housekeeper::start(arguments, &root).await?;
        let parts = (replication.quorum.clone(), replication.signal.clone());
        let writer = LogWriterHandle::start(env, writer, writer_options(&config), dispatch, parts, &root).await?;
        let replication = replication.start(&config, address, writer.clone(), &root).await?;
        let advertised = advertised(env, &config, address)?;

        let mut effects = vec![Effect::PersistLocks];
        let wall = env.clock.now();
        let parts = Parts {
            env: env.clone(),
            delays: delay::restored(&store, &config, delays, &mut effects),
            store,
            writer,
            advertised,
            ha_address: ha_address(&config, advertised, replication.port())?,
            ha: replication.ha.clone(),
            replica: replication.replica.clone(),
            topics: TopicTable::new(topic_rules(&config), &boot_options(&config), topics, wall, &mut effects)
                .with_role(role.clone()),
            groups: GroupTable::new(group_rules(&config), groups, wall, &mut effects).with_role(role.clone()),
            offsets: OffsetTable::load(offsets, config.consumer_offset_update_version_step, config.offsets_max)
                .with_canaries(env.canaries())
                .with_role(role.clone()),
            locks,
            settings: Settings::new(config, advertised, &role),
            role,
        };
        let shared = Arc::new(Shared::new(parts));
        let (registrar, _) = Actor::spawn_linked(None, Registrar, Arc::clone(&shared), root.get_cell()).await?;
        let arguments = KeeperArguments {
            shared: Arc::clone(&shared),
            topics: topics_file,
            groups: groups_file,
            offsets: offsets_file,
            locks: locks_file,
            settings: SettingsFile::new(Arc::clone(&env.disk), shared.settings().config.settings_path()),
            registrar: registrar.clone(),
        };
        let (keeper, _) = Actor::spawn_linked(None, Keeper, arguments, root.get_cell()).await?;
        shared.set_actors(keeper.clone(), housekeeper.clone());
        // Clients are sent here once it listens, not before.
        effects.retain(|effect| *effect != Effect::Register);
        shared.carry_out_now(effects).await.map_err(anyhow::Error::msg)?;
        // Before anything is written.
        if shared.role.takes_writes() {
            catch_up::catch_up(&shared).await;
        }

        let (_, _) = Actor::spawn_linked(None, Mender, Arc::clone(&shared), root.get_cell()).await?;
        // Before the other one that writes by itself: it looks at the log's end.
        let (transactions, _) =
            Actor::spawn_linked(None, TransactionActor, Arc::clone(&shared), root.get_cell()).await?;
        shared.set_transactions(transactions.clone());

        let arguments = DelayArguments { shared: Arc::clone(&shared), file: delays_file };
        let (delay, _) = Actor::spawn_linked(None, DelayActor, arguments, root.get_cell()).await?;
        let (timer, _) = Actor::spawn_linked(None, TimerActor, Arc::clone(&shared), root.get_cell()).await?;

        let arguments =
            MetadataSyncArguments { shared: Arc::clone(&shared), registrar: registrar.clone(), delay: delay.clone() };
        let (metadata_sync, _) = Actor::spawn_linked(None, MetadataSync, arguments, root.get_cell()).await?;
        let arguments = PromotionArguments {
            shared: Arc::clone(&shared),
            metadata_sync: metadata_sync.clone(),
            delay: delay.clone(),
            timer: timer.clone(),
            registrar: registrar.clone(),
        };
        let (promotion, _) = Actor::spawn_linked(None, PromotionActor, arguments, root.get_cell()).await?;
        shared.set_slave_actors(metadata_sync, promotion);

        let (listener, old_clients) = listen(env, &shared, listener).await?;
        registrar.cast(RegistrarMessage::Register { done: None })?;
        Ok(BrokerHandle {
            shared,
            listener,
            old_clients,
            transactions,
            delay,
            timer,
            keeper,
            housekeeper,
            registrar,
            replication,
            root,
            failure,
        })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// The address clients are told.
    pub fn advertised(&self) -> SocketAddr {
        self.shared.advertised
    }

    /// Where old clients, which use the port two below, are served; `None` if that port was taken.
    pub fn old_clients_address(&self) -> Option<SocketAddr> {
        self.old_clients.as_ref().map(ListenerHandle::address)
    }

    /// Completes once its NameServers have been told of it, as it is now.
    pub async fn registered(&self) {
        let (done, told) = oneshot::channel();
        if self.registrar.cast(RegistrarMessage::Register { done: Some(done) }).is_ok() {
            let _ = told.await;
        }
    }

    /// Where slaves are served; `None` if that port was taken.
    pub fn ha_address(&self) -> Option<SocketAddr> {
        self.replication.master.as_ref().map(HaMasterHandle::address)
    }

    /// How replication stands.
    pub fn ha_status(&self) -> HaStatus {
        self.replication.ha.status()
    }

    /// What its sessions and actors share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Completes with the reason if the broker cannot go on: an actor that it depends on has died.
    pub async fn failed(&self) -> String {
        let mut failure = self.failure.clone();
        let reason = failure.wait_for(Option::is_some).await.map(|reason| reason.clone());
        reason.ok().flatten().unwrap_or_else(|| "the broker's supervisor has ended".to_owned())
    }

    /// Stops from front to back: says goodbye to the NameServers, lets sessions take their last answers, saves the
    /// config files, flushes and closes the store.
    ///
    /// # Errors
    /// What could not be saved; the next start recovers it.
    pub async fn stop(self, limit: Duration) -> Result<()> {
        let _ = self.registrar.call(|reply| RegistrarMessage::Unregister { reply }, Some(DRAIN_LIMIT)).await;
        self.listener.drain(DRAIN_LIMIT).await;
        if let Some(old_clients) = &self.old_clients {
            old_clients.drain(DRAIN_LIMIT).await;
        }
        let (done, stopped) = oneshot::channel();
        if self.transactions.cast(TransactionMessage::Stop { done }).is_ok() {
            // What it could not save is read from the log at the next start.
            let _ = stopped.await;
        }
        let (done, stopped) = oneshot::channel();
        let delays_saved = match self.delay.cast(DelayMessage::Stop { done }) {
            Ok(()) => stopped.await.unwrap_or_else(|_| Err("the delay scheduler has ended".to_owned())),
            Err(_) => Err("the delay scheduler has ended".to_owned()),
        };
        let (done, stopped) = oneshot::channel();
        let timer_saved = match self.timer.cast(TimerMessage::Stop { done }) {
            Ok(()) => stopped.await.unwrap_or_else(|_| Err("the timer has ended".to_owned())),
            Err(_) => Err("the timer has ended".to_owned()),
        };
        let (done, flushed) = oneshot::channel();
        let saved = match self.keeper.cast(KeeperMessage::Flush { done }) {
            Ok(()) => flushed.await.unwrap_or_else(|_| Err("the keeper has ended".to_owned())),
            Err(_) => Err("the keeper has ended".to_owned()),
        };
        let (done, drained) = oneshot::channel();
        if self.housekeeper.cast(HousekeeperMessage::Drain { done }).is_ok() {
            // What is not indexed now is at the next start.
            let _ = drained.await;
        }
        self.replication.stop().await;
        let closed = self.shared.writer.close(limit).await;
        self.root.stop(None);
        closed?;
        delays_saved.and(timer_saved).and(saved).map_err(anyhow::Error::msg)
    }
}

/// After a crash no group's offset stays above the end of its queue. Saved before anybody sends or pulls, so that a
/// second crash does not bring the old ones back.
async fn lower_offsets(store: &Store, offsets: &mut ConsumerOffsetSerializeWrapper, file: &mut Saved) -> Result<()> {
    let end_of = |topic: &str, id: i32| {
        let queue = u32::try_from(id).ok().and_then(|id| store.queue(topic, id));
        queue.map_or(0, |queue| i64::try_from(queue.max().0).unwrap_or(i64::MAX))
    };
    let lowered = lower_to_ends(offsets, end_of);
    for Lowered { key, queue_id, was, is } in &lowered {
        crate::sometimes!("an offset stood above the end of its queue");
        tracing::warn!(key, queue_id, was, is, "a group's offset stood above the end of its queue");
    }
    if !lowered.is_empty() {
        file.save(offsets).await.map_err(anyhow::Error::msg)?;
    }
    Ok(())
}

/// The sends that are known by their keys; none after a planted bug.
fn sent_lately(
    env: &Env,
    store: &Store,
    config: &BrokerConfig,
    windows: &Windows<impl Fn(&str) -> i64>,
) -> Result<Deduplication, StoreError> {
    if env.canary(Canary::DuplicatesForgotten) {
        return Ok(Deduplication::new(config.deduplication_max_keys));
    }
    let begun = env.clock.monotonic();
    let table = deduplication::rebuild(store, windows, config.deduplication_max_keys, env.clock.now())?;
    if !table.is_empty() {
        let took = env.clock.monotonic().saturating_sub(begun);
        tracing::info!(keys = table.len(), ?took, "read which messages were sent lately");
    }
    Ok(table)
}

/// The main listener, and one two ports below for clients of RocketMQ before 4.5.
async fn listen(
    env: &Env,
    shared: &Arc<Shared>,
    listener: Box<dyn Listener>,
) -> Result<(ListenerHandle, Option<ListenerHandle>)> {
    let config = &shared.settings().config;
    let options = ListenerOptions {
        connections_max: config.sessions_max,
        idle_max: Duration::from_secs(config.server_channel_max_idle_time_seconds),
        large_frame_bytes_max: config.in_flight_bytes_per_broker,
    };
    let service = Arc::new(BrokerService::new(Arc::clone(shared)));
    let listener = ListenerHandle::serve(env, listener, Arc::clone(&service), options).await?;
    let address = listener.address();
    let below = SocketAddr::new(address.ip(), address.port().saturating_sub(2));
    let old_clients = match ListenerHandle::start(env, below, service, options).await {
        Ok(listener) => Some(listener),
        Err(error) => {
            tracing::warn!("{error:#}: clients before RocketMQ 4.5 cannot send here");
            None
        }
    };
    Ok((listener, old_clients))
}

/// What counts as being in memory: that part of it which `accessMessageInMemoryMaxRatio` says.
pub fn memory_window(config: &BrokerConfig, env: &Env) -> u64 {
    env.disk.memory() / 100 * u64::from(config.access_message_in_memory_max_ratio.min(100))
}

fn store_options(config: &BrokerConfig, env: &Env) -> StoreOptions {
    let mut options = StoreOptions::new(&config.store_path_root_dir);
    if !config.store_path_commit_log.is_empty() {
        options.commit_log_dir = PathBuf::from(&config.store_path_commit_log);
    }
    options.segment_size = config.mapped_file_size_commit_log;
    options.queue_file_size = config.mapped_file_size_consume_queue;
    options.index_slots = config.max_hash_slot_num;
    options.index_entries = config.max_index_num;
    options.index_enabled = config.message_index_enable;
    options.flush = flush_mode(config);
    options.max_message_size = config.max_message_size;
    options.delay_levels = config.delay_levels();
    options.memory_window = memory_window(config, env);
    options
}

/// What the settings say about how long files are kept; what contradicts itself in them is logged.
pub fn retention_policy(config: &BrokerConfig) -> RetentionPolicy {
    let settings = RetentionSettings {
        delete_when: config.delete_when.clone(),
        file_reserved_time: u32::try_from(config.file_reserved_time).unwrap_or(u32::MAX),
        disk_max_used_space_ratio: config.disk_max_used_space_ratio,
        disk_space_clean_forcibly_ratio: config.disk_space_clean_forcibly_ratio,
        disk_space_warning_level_ratio: config.disk_space_warning_level_ratio,
        clean_file_forcibly_enable: config.clean_file_forcibly_enable,
        ..RetentionSettings::default()
    };
    let mut warnings = Vec::new();
    let policy = RetentionPolicy::new(&settings, &mut warnings);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    policy
}

/// Watches the disk by the settings.
fn disk_guard(config: &BrokerConfig, store: &Store) -> DiskGuard {
    let directory = store.options().commit_log_dir.clone();
    DiskGuard::new(retention_policy(config), directory, store.root().join("consumequeue"))
}

fn flush_mode(config: &BrokerConfig) -> FlushMode {
    match config.flush_disk_type {
        FlushDiskType::SyncFlush => FlushMode::Sync,
        FlushDiskType::AsyncFlush => FlushMode::Async,
    }
}

fn writer_options(config: &BrokerConfig) -> LogWriterOptions {
    LogWriterOptions {
        flush: flush_mode(config),
        sync_timeout: Duration::from_millis(config.sync_flush_timeout),
        slave_timeout: Duration::from_millis(config.slave_timeout),
        flush_interval: Duration::from_millis(config.flush_interval_commit_log.clamp(10, 10_000)),
    }
}

/// What the settings say about topics.
pub fn topic_rules(config: &BrokerConfig) -> TopicRules {
    TopicRules {
        auto_create: config.auto_create_topic_enable,
        validate_system: config.validate_system_topic,
        topics_max: config.topics_max,
    }
}

/// What the settings say about groups.
pub fn group_rules(config: &BrokerConfig) -> GroupRules {
    GroupRules { auto_create: config.auto_create_subscription_group, groups_max: config.groups_max }
}

fn boot_options(config: &BrokerConfig) -> BootOptions<'_> {
    BootOptions {
        cluster: &config.broker_cluster_name,
        broker: &config.broker_name,
        auto_create_topic: config.auto_create_topic_enable,
        default_topic_queues: config.default_topic_queue_nums,
        cluster_topic: config.cluster_topic_enable,
        broker_topic: config.broker_topic_enable,
        trace_topic: config.trace_topic_enable,
        trace_topic_name: &config.msg_trace_topic_name,
        // Whether messages are taken or not: those that were are delivered from there.
        timer: true,
        revive_queues: config.revive_queue_num,
    }
}

/// Supervises the actors that a broker cannot do without.
pub struct BrokerActor;

/// The supervisor is told nothing; it only hears of its children's ends.
pub enum BrokerMessage {}

impl Actor for BrokerActor {
    type Msg = BrokerMessage;
    type State = watch::Sender<Option<String>>;
    type Arguments = watch::Sender<Option<String>>;

    async fn pre_start(
        &self,
        _: ActorRef<Self::Msg>,
        failure: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(failure)
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        failure: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(actor, error) = event {
            let reason = format!("actor {:?} has died: {error}", actor.get_id());
            tracing::error!("{reason}");
            failure.send_replace(Some(reason));
        }
        Ok(())
    }
}
