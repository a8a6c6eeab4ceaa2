//! What the sessions and actors of one broker share.
//!
//! The rules are plain state machines behind one short lock each; no lock is held across an await, and where two are
//! held at once they are taken in the order of the fields here. What the rules want done goes to the [`Keeper`] as
//! effects.
//!
//! [`Keeper`]: super::keeper

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use ractor::ActorRef;
use tokio::sync::Notify;

use super::errors::store_failure;
use super::housekeeper::HousekeeperMessage;
use super::keeper::{KeeperMessage, SettingsError};
use super::metadata_sync::MetadataSyncMessage;
use super::promotion::{Promoted, PromotionMessage};
use super::retention_policy;
use super::timer::{TimerStatus, RECALLS_PER_SECOND_MAX};
use super::transaction::{HalfMessages, TransactionMessage, TransactionRequest};
use crate::actors::ha::{HaState, Leader, ReplicaHandle};
use crate::actors::log_writer::{Durability, LogWriterHandle};
use crate::actors::net::ConnectionHandle;
use crate::broker::admin::statistics::Statistics;
use crate::broker::clients::Clients;
use crate::broker::delay::DelayScheduler;
use crate::broker::directory::Directory;
use crate::broker::flow::{ByteBudget, SessionFlow};
use crate::broker::groups::{GroupTable, GroupView};
use crate::broker::locks::{Holder, QueueLocks};
use crate::broker::metadata_sync::Marks;
use crate::broker::offsets::OffsetTable;
use crate::broker::pull::PullRules;
use crate::broker::role::Role;
use crate::broker::send::{stamps, SendRules};
use crate::broker::timer::{DueSecond, TimerRules};
use crate::broker::topics::{TopicTable, TopicView};
use crate::broker::{BrokerError, Effect, QueueKey};
use crate::config::broker::{BrokerConfig, Update};
use crate::env::{Canary, ConnectionId, Env, Millis};
use crate::nameserver::Master;
use crate::proto::message::unique_key::UniqueKeys;
use crate::proto::PhysicalOffset;
use crate::store::{AppendBatch, ConsumeQueue, Store, StoreError, Stored};

/// The settings and what the rules make of them; replaced as a whole when a request changes settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// All settings that count.
    pub config: BrokerConfig,
    /// The same with those that a request changed for the next start.
    pub stored: BrokerConfig,
    /// For sends.
    pub send: SendRules,
    /// For pulls.
    pub pull: PullRules,
}

impl Settings {
    /// What follows from a broker's settings, the address it tells clients, and its role.
    pub fn new(config: BrokerConfig, advertised: SocketAddr, role: &Role) -> Self {
        let address = advertised.ip().to_string();
        let send = SendRules {
            cluster: config.broker_cluster_name.clone(),
            region: config.region_id.clone(),
            trace_on: config.trace_on,
            stamps: stamps(&config.region_id, config.trace_on, &config.broker_cluster_name),
            address: address.clone(),
            body_bytes_max: config.max_message_size,
            writable: config.is_writable(),
            role: role.clone(),
            accept_from: Millis(config.start_accept_send_request_timestamp),
            levels: config.delay_levels(),
            reject_transactions: config.reject_transaction_message,
            timer: TimerRules {
                enabled: config.timer_wheel_enable,
                delay_ms_max: i64::try_from(config.timer_max_delay_sec).unwrap_or(i64::MAX).saturating_mul(1000),
            },
        };
        let pull = PullRules {
            address,
            readable: config.is_readable(),
            lite_pull: config.lite_pull_message_enable,
            property_filter: config.enable_property_filter,
            slave_read: config.slave_read_enable,
            offset_check_in_slave: config.offset_check_in_slave,
            role: role.clone(),
        };
        Settings { stored: config.clone(), config, send, pull }
    }
}

/// How long a slave does not follow a master that another slave is to replace, in ms. If that comes to nothing the slave
/// follows again.
const SHUN_MS: i64 = 60_000;

/// See the module's text.
pub struct Shared {
    /// The world.
    pub env: Env,
    /// The store's read side.
    pub store: Arc<Store>,
    /// The store's write side.
    pub writer: LogWriterHandle,
    /// The address clients are told; it stands in message ids.
    pub advertised: SocketAddr,
    /// The address slaves are told, to replicate from.
    pub ha_address: SocketAddr,
    /// Master or slave.
    pub role: Role,
    /// What is known of replication.
    pub ha: HaState,
    /// Follows a slave's master.
    pub replica: ReplicaHandle,
    /// When a registration began that was the last one by which a NameServer took this broker for what it is, in monotonic ms.
    pub named_master: AtomicI64,
    /// Topics or groups were changed and saved: slaves that wait for it are told.
    pub metadata_changed: Notify,
    /// The master of this slave tells where the log ended when it deleted topics.
    pub knows_deletions: AtomicBool,
    /// Names this life of the broker's process.
    pub incarnation: u64,
    /// When the broker started.
    pub started: Millis,
    /// Makes UNIQ_KEYs for messages that come without.
    pub unique_keys: UniqueKeys,
    /// Bytes of sends in flight.
    pub flow: ByteBudget,
    /// Bytes of other requests in flight. Apart from those of sends, so that a flood of messages does not take the place
    /// of heartbeats.
    pub other_flow: ByteBudget,
    /// What is counted.
    pub statistics: Statistics,
    /// Pulls that wait for messages.
    pub parked_pulls: AtomicUsize,
    /// Offset resets so far: parked pulls compare it to notice one.
    pub resets: AtomicU64,
    /// Half messages whose producers have not decided.
    pub half_messages: HalfMessages,
    /// How far the timer is.
    pub timer: TimerStatus,
    /// Topics, for lookups.
    pub topic_directory: Arc<Directory<TopicView>>,
    /// Groups, for lookups.
    pub group_directory: Arc<Directory<GroupView>>,
    settings: RwLock<Arc<Settings>>,
    topics: Mutex<TopicTable>,
    groups: Mutex<GroupTable>,
    clients: Mutex<Clients>,
    locks: Mutex<QueueLocks>,
    offsets: Mutex<OffsetTable>,
    delays: Mutex<DelayScheduler>,
    connections: Mutex<BTreeMap<ConnectionId, ConnectionHandle>>,
    keeper: OnceLock<ActorRef<KeeperMessage>>,
    housekeeper: OnceLock<ActorRef<HousekeeperMessage>>,
    transactions: OnceLock<ActorRef<TransactionMessage>>,
    metadata_sync: OnceLock<ActorRef<MetadataSyncMessage>>,
    promotion: OnceLock<ActorRef<PromotionMessage>>,
    /// The master that this slave follows.
    followed: Mutex<Option<Master>>,
    /// One that it does not follow until then.
    shunned: Mutex<Option<(Master, Millis)>>,
}

/// What [`Shared::new`] is made of.
pub struct Parts {
    /// See [`Shared`].
    pub env: Env,
    /// See [`Shared`].
    pub store: Arc<Store>,
    /// See [`Shared`].
    pub writer: LogWriterHandle,
    /// See [`Shared`].
    pub advertised: SocketAddr,
    /// See [`Shared`].
    pub ha_address: SocketAddr,
    /// See [`Shared`].
    pub role: Role,
    /// See [`Shared`].
    pub ha: HaState,
    /// Follows a slave's master.
    pub replica: ReplicaHandle,
    /// All settings.
    pub settings: Settings,
    /// Topics as loaded.
    pub topics: TopicTable,
    /// Groups as loaded.
    pub groups: GroupTable,
    /// Queue locks as loaded.
    pub locks: QueueLocks,
    /// Offsets as loaded.
    pub offsets: OffsetTable,
    /// Progress of the delay levels as loaded.
    pub delays: DelayScheduler,
}

impl Shared {
    /// A broker's shared state. [`Shared::set_actors`] comes next, before any request.
    pub fn new(parts: Parts) -> Self {
        let Parts { env, store, writer, advertised, ha_address, role, ha, replica, .. } = parts;
        let Parts { settings, topics, groups, locks, offsets, delays, .. } = parts;
        let config = &settings.config;
        let instance = env.rng.next_u64();
        Shared {
            started: env.clock.now(),
            incarnation: instance,
            named_master: AtomicI64::new(i64::MIN),
            metadata_changed: Notify::new(),
            knows_deletions: AtomicBool::new(false),
            ha_address,
            role,
            ha,
            replica,
            unique_keys: UniqueKeys::new(advertised.ip(), (instance >> 32) as u32, instance as u32),
            flow: ByteBudget::new(config.in_flight_bytes_per_broker),
            other_flow: ByteBudget::new(config.in_flight_request_bytes_per_broker),
            statistics: Statistics::new(monotonic(&env), config.topics_max),
            parked_pulls: AtomicUsize::new(0),
            resets: AtomicU64::new(0),
            half_messages: HalfMessages::default(),
            timer: TimerStatus::default(),
            topic_directory: Arc::clone(topics.directory()),
            group_directory: Arc::clone(groups.directory()),
            clients: Mutex::new(Clients::new(config.clients_max, config.subscription_expired_timeout)),
            locks: Mutex::new(locks),
            settings: RwLock::new(Arc::new(settings)),
            topics: Mutex::new(topics),
            groups: Mutex::new(groups),
            offsets: Mutex::new(offsets),
            delays: Mutex::new(delays),
            connections: Mutex::default(),
            keeper: OnceLock::new(),
            housekeeper: OnceLock::new(),
            transactions: OnceLock::new(),
            metadata_sync: OnceLock::new(),
            promotion: OnceLock::new(),
            followed: Mutex::default(),
            shunned: Mutex::default(),
            env,
            store,
            writer,
            advertised,
        }
    }

    /// Who carries out effects, and who cleans up, from now on.
    pub fn set_actors(&self, keeper: ActorRef<KeeperMessage>, housekeeper: ActorRef<HousekeeperMessage>) {
        // Only the start of a broker calls this, once.
        let _ = self.keeper.set(keeper);
        let _ = self.housekeeper.set(housekeeper);
    }

    /// Who decides about transactions from now on.
    pub fn set_transactions(&self, transactions: ActorRef<TransactionMessage>) {
        // Only the start of a broker calls this, once.
        let _ = self.transactions.set(transactions);
    }

    /// Has a transaction ended, or put into work again.
    ///
    /// # Errors
    /// Why it is not, or that the broker is stopping.
    pub async fn transaction(&self, request: TransactionRequest) -> Result<(), BrokerError> {
        let stopping = || BrokerError::StoreFailed { what: "the broker is stopping".to_owned() };
        let actor = self.transactions.get().ok_or_else(stopping)?;
        let (done, result) = tokio::sync::oneshot::channel();
        actor.cast(TransactionMessage::Request { request, done }).map_err(|_| stopping())?;
        result.await.map_err(|_| stopping())?
    }

    /// Has the transactions of the old master read, which this slave is about to replace.
    ///
    /// # Errors
    /// Why they cannot be read.
    pub async fn load_transactions(&self) -> Result<(), String> {
        let stopping = || "the broker is stopping".to_owned();
        let actor = self.transactions.get().ok_or_else(stopping)?;
        let (done, result) = tokio::sync::oneshot::channel();
        actor.cast(TransactionMessage::Load { done }).map_err(|_| stopping())?;
        result.await.map_err(|_| stopping())?.map_err(|error| error.to_string())
    }

    /// Who keeps a slave's tables and who makes it the master, from now on.
    pub fn set_slave_actors(&self, metadata: ActorRef<MetadataSyncMessage>, promotion: ActorRef<PromotionMessage>) {
        // Only the start of a broker calls this, once.
        let _ = self.metadata_sync.set(metadata);
        let _ = self.promotion.set(promotion);
    }

    /// Has this slave become the master; see [`role`](crate::broker::role).
    ///
    /// # Errors
    /// Why it has not. It is a slave as before then.
    pub async fn promote(&self, despite_master: bool, despite_others: bool) -> Result<Promoted, String> {
        let stopping = || "the broker is stopping".to_owned();
        let actor = self.promotion.get().ok_or_else(stopping)?;
        let (done, promoted) = tokio::sync::oneshot::channel();
        let message = PromotionMessage::Promote { despite_master, despite_others, done };
        actor.cast(message).map_err(|_| stopping())?;
        promoted.await.map_err(|_| stopping())?
    }

    /// The NameServers name this master of the broker's name; a slave follows it. Where its log comes from
    /// `haMasterAddress` may say.
    pub fn follow(&self, master: &Master) {
        *lock(&self.followed) = Some(master.clone());
        if self.settings().config.ha_master_address.is_empty() {
            let (ha_address, address) = (master.ha_address.clone(), Some(master.address.clone()));
            self.replica.follow(Some(Leader { ha_address, address }));
        }
        if let Some(actor) = self.metadata_sync.get() {
            // An actor that is gone means that the broker is stopping.
            let _ = actor.cast(MetadataSyncMessage::Follow { address: master.address.clone() });
        }
    }

    /// Another slave is to become the master: the one followed now is left, and not followed again for [`SHUN_MS`], even if
    /// NameServers still name it. When this returns nothing of its log comes any more.
    pub async fn leave_master(&self) {
        let until = self.now().plus(SHUN_MS);
        let left = lock(&self.followed).take();
        if let Some(master) = left {
            tracing::info!(master = master.address, "this slave leaves its master: another slave is to take its place");
            *lock(&self.shunned) = Some((master, until));
        }
        self.replica.stop().await;
        self.carry_out(vec![Effect::Register]);
    }

    /// The master that is not to be followed at present.
    pub fn shunned(&self) -> Option<Master> {
        let shunned = lock(&self.shunned);
        shunned.as_ref().filter(|(_, until)| self.now() < *until).map(|(master, _)| master.clone())
    }

    /// Another broker was promoted to be the master of this one's name: this one takes no messages any more, which nobody
    /// else would have. `true` if it took some until now.
    pub fn superseded(&self, by: &str) -> bool {
        let fenced = self.role.fence();
        if fenced {
            tracing::error!(
                broker = self.settings().config.broker_name,
                by,
                "another broker was promoted to be the master of this name: this one takes no messages any more; start it as a slave"
            );
        }
        fenced
    }

    /// The master that this slave follows, or followed last.
    pub fn followed(&self) -> Option<Master> {
        let shunned = || lock(&self.shunned).as_ref().map(|(master, _)| master.clone());
        lock(&self.followed).clone().or_else(shunned)
    }

    /// How far the tables are that slaves copy.
    pub fn marks(&self) -> Marks {
        Marks {
            incarnation: self.incarnation,
            topics: self.topics().changes(),
            groups: if self.env.canary(Canary::SlaveMissesChanges) { 0 } else { self.groups().changes() },
            offsets: self.offsets().changes(),
            delays: self.delays().changes(),
        }
    }

    /// Has expired files looked for now; with `delete`, deleted at any hour of the next minutes.
    pub fn clean(&self, delete: bool) {
        if let Some(housekeeper) = self.housekeeper.get() {
            let message = if delete { HousekeeperMessage::DeleteExpired } else { HousekeeperMessage::Clean };
            // A housekeeper that is gone means that the broker is stopping.
            let _ = housekeeper.cast(message);
        }
    }

    /// The settings as they are now.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes other settings. The delay levels stay as they were at the start: each has a queue and its progress, and a
    /// message sent to a level that nobody delivers would wait for ever.
    pub fn set_settings(&self, mut settings: Settings) {
        let mut current = self.settings.write().unwrap_or_else(PoisonError::into_inner);
        settings.send.levels = current.send.levels.clone();
        *current = Arc::new(settings);
    }

    /// Topics.
    pub fn topics(&self) -> MutexGuard<'_, TopicTable> {
        lock(&self.topics)
    }

    /// Subscription groups.
    pub fn groups(&self) -> MutexGuard<'_, GroupTable> {
        lock(&self.groups)
    }

    /// Producers and consumers that are there.
    pub fn clients(&self) -> MutexGuard<'_, Clients> {
        lock(&self.clients)
    }

    /// Queue locks of orderly consumers.
    pub fn locks(&self) -> MutexGuard<'_, QueueLocks> {
        lock(&self.locks)
    }

    /// Consumer offsets.
    pub fn offsets(&self) -> MutexGuard<'_, OffsetTable> {
        lock(&self.offsets)
    }

    /// The client of the group that a connection belongs to, and the one that holds the queue's lock. A connection over
    /// which the lock was granted is known by that, too: it may be new, and its client's heartbeat still to come.
    pub fn committer(
        &self,
        group: &str,
        queue: &QueueKey,
        connection: ConnectionId,
    ) -> (Option<Arc<str>>, Option<Arc<str>>) {
        let member = self.clients().consumers.client_of(group, connection).cloned();
        let Some(Holder { client, connection: locked_over }) = self.locks().holder(group, queue, self.now()) else {
            return (member, None);
        };
        (member.or_else(|| (locked_over == Some(connection)).then(|| Arc::clone(&client))), Some(client))
    }

    /// Progress of the delay levels.
    pub fn delays(&self) -> MutexGuard<'_, DelayScheduler> {
        lock(&self.delays)
    }

    /// Connections by name.
    pub fn connections(&self) -> MutexGuard<'_, BTreeMap<ConnectionId, ConnectionHandle>> {
        lock(&self.connections)
    }

    /// Wall-clock time.
    pub fn wall(&self) -> Millis {
        self.env.clock.now()
    }

    /// Monotonic time, for leases and time-outs.
    pub fn now(&self) -> Millis {
        monotonic(&self.env)
    }

    /// Stores the one record of `batch`. When this returns `Ok` it is as durable as the flush mode and the
    /// master's role promise.
    ///
    /// # Errors
    /// [`BrokerError::Overload`] if too many bytes are in flight. Any other one says nothing about the record: it may or
    /// may not be stored.
    pub async fn append_one(&self, batch: AppendBatch) -> Result<Stored, BrokerError> {
        let _permit = SessionFlow::new(usize::MAX, self.flow.clone()).acquire(batch.bytes.len())?;
        let failed =
            |what: &str| BrokerError::StoreFailed { what: format!("{what}: the message may or may not be stored") };
        let appended = self.writer.append(batch, true).await.map_err(|_| failed("the log writer has stopped"))?;
        let stored = appended.results.into_iter().next().ok_or_else(|| failed("the log writer gave no result"))?;
        let stored = stored.map_err(|error| store_failure(&error))?;
        match appended.durability {
            Durability::AsPromised => Ok(stored),
            Durability::ReplicationTimedOut | Durability::NotReplicated => Err(failed("too few slaves have it")),
            Durability::SyncTimedOut => Err(failed("the log was not synced in time")),
            Durability::SyncFailed => Err(failed("the log could not be synced")),
        }
    }

    /// Takes note of a message that takes another one back.
    ///
    /// # Errors
    /// If too many do in that second.
    pub fn admit_recall(&self, due: DueSecond) -> Result<(), BrokerError> {
        let full = BrokerError::TimerRecallsFull { limit: RECALLS_PER_SECOND_MAX };
        self.timer.admit_recall(due).then_some(()).ok_or(full)
    }

    /// Has the pulls parked on queues of a topic look whether their group was reset.
    pub fn wake_for_reset(&self, topic: &str, queue_ids: impl Iterator<Item = i32>) {
        self.resets.fetch_add(1, Ordering::SeqCst);
        for queue in queue_ids.filter_map(|id| self.store.queue(topic, u32::try_from(id).ok()?)) {
            for waiter in queue.take_waiters() {
                waiter(queue.max());
            }
        }
    }

    /// Removes the queues of a deleted topic; pulls parked on them are answered.
    ///
    /// # Errors
    /// A text that says what could not be removed.
    pub async fn drop_queues(&self, topic: &str) -> Result<(), String> {
        let knows = self.knows_deletions.load(Ordering::Acquire) && !self.env.canary(Canary::SlaveDeletesByItsOwnEnd);
        if self.role.is_slave() && knows {
            // Where this log ends says nothing: a newer topic's messages may be here already.
            let deleted_at = self.store.deleted_at(topic).await.max(self.store.pinned().unwrap_or_default());
            return self.drop_queues_below(topic, deleted_at).await;
        }
        Self::dropped(topic, self.store.delete_topic(topic).await)
    }

    /// Removes what a topic has of messages below this position, see [`Store::delete_topic_below`].
    ///
    /// # Errors
    /// A text that says what could not be removed.
    pub async fn drop_queues_below(&self, topic: &str, deleted_at: PhysicalOffset) -> Result<(), String> {
        Self::dropped(topic, self.store.delete_topic_below(topic, deleted_at).await)
    }

    fn dropped(topic: &str, removed: Result<Vec<Arc<ConsumeQueue>>, StoreError>) -> Result<(), String> {
        let removed = removed.map_err(|error| format!("the queues of {topic} were not removed: {error}"))?;
        for queue in removed {
            for waiter in queue.take_waiters() {
                waiter(queue.max());
            }
        }
        Ok(())
    }

    /// Has effects carried out soon, in order.
    pub fn carry_out(&self, effects: Vec<Effect>) {
        if effects.is_empty() {
            return;
        }
        if let Some(keeper) = self.keeper.get() {
            // A keeper that is gone means that the broker is stopping.
            let _ = keeper.cast(KeeperMessage::Effects { effects, done: None });
        }
    }

    /// Has a request's settings taken and saved. The outer error is that the broker is stopping.
    ///
    /// # Errors
    /// Why nothing was changed.
    pub async fn update_settings(&self, text: String) -> Result<Result<Update, SettingsError>, String> {
        let stopping = || "the broker is stopping".to_owned();
        let keeper = self.keeper.get().ok_or_else(stopping)?;
        let (done, result) = tokio::sync::oneshot::channel();
        keeper.cast(KeeperMessage::UpdateSettings { text, done }).map_err(|_| stopping())?;
        result.await.map_err(|_| stopping())
    }

    /// Has files kept by the settings as they are now.
    pub fn set_retention(&self) {
        if let Some(housekeeper) = self.housekeeper.get() {
            let policy = retention_policy(&self.settings().config);
            // A housekeeper that is gone means that the broker is stopping.
            let _ = housekeeper.cast(HousekeeperMessage::Retain { policy });
        }
    }

    /// Has effects carried out and waits until they are: files are written when this returns.
    ///
    /// # Errors
    /// A text that says what could not be written; it goes into the answer's remark.
    pub async fn carry_out_now(&self, effects: Vec<Effect>) -> Result<(), String> {
        if effects.is_empty() {
            return Ok(());
        }
        let stopping = || "the broker is stopping".to_owned();
        let keeper = self.keeper.get().ok_or_else(stopping)?;
        let (done, result) = tokio::sync::oneshot::channel();
        keeper.cast(KeeperMessage::Effects { effects, done: Some(done) }).map_err(|_| stopping())?;
        result.await.map_err(|_| stopping())?
    }
}

/// Monotonic time, for leases and time-outs.
pub fn monotonic(env: &Env) -> Millis {
    Millis(env.clock.monotonic().as_millis() as i64)
}

/// Rules stay consistent whatever panics, so a poisoned lock is no reason to stop.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
