//! What slaves have said, shared by their sessions, the log writer, and whoever asks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ractor::ActorRef;

use crate::actors::log_writer::LogMessage;
use crate::env::{Canary, Env, Millis};
use crate::ha::replicas::{Replicas, SlaveId, SlaveView};
use crate::store::{Refusal, Store, StoreError};

/// See the module's text. Cheap to clone.
#[derive(Clone)]
pub struct Quorum(Arc<Inner>);

/// What has to hold for a SYNC_MASTER to take anything.
#[derive(Clone, Copy, Debug)]
pub struct QuorumLimits {
    /// A slave that lacks more bytes than this is not in sync, and no more may wait for slaves (`haMaxGapNotInSync`).
    pub gap_max: u64,
    /// Nodes that have to be in sync, the master included (`minInSyncReplicas`).
    pub in_sync_min: usize,
}

struct Inner {
    env: Env,
    store: Arc<Store>,
    replicas: Mutex<Replicas>,
    limits: QuorumLimits,
    /// Sends wait for slaves.
    waits: AtomicBool,
    /// The log writer has been told and has not looked yet.
    told: AtomicBool,
    writer: OnceLock<ActorRef<LogMessage>>,
}

impl Quorum {
    /// No slave is there yet; `needed` nodes have to hold what is replicated, the master included.
    pub fn new(env: &Env, store: Arc<Store>, needed: usize, limits: QuorumLimits) -> Quorum {
        let replicas = Replicas::new(needed, limits.gap_max, env.canaries());
        Quorum(Arc::new(Inner {
            env: env.clone(),
            store,
            replicas: Mutex::new(replicas),
            limits,
            waits: AtomicBool::new(needed > 1),
            told: AtomicBool::new(false),
            writer: OnceLock::new(),
        }))
    }

    /// Who answers sends once they are replicated.
    pub(in crate::actors) fn set_writer(&self, writer: ActorRef<LogMessage>) {
        // Only the start of a broker calls this, once.
        let _ = self.0.writer.set(writer);
    }

    /// Whether sends wait for slaves, and consumers with them.
    pub fn waits(&self) -> bool {
        self.0.waits.load(Ordering::Relaxed)
    }

    /// Nodes that have to hold what is replicated, the master included.
    pub fn needed(&self) -> usize {
        self.replicas().needed()
    }

    /// From now on so many nodes have to hold what is replicated.
    pub fn set_needed(&self, needed: usize) {
        self.replicas().set_needed(needed);
        self.0.waits.store(needed > 1, Ordering::Relaxed);
        self.look_again();
    }

    /// Up to where enough nodes hold the log; `None` if too few are there.
    pub fn replicated(&self) -> Option<u64> {
        self.0.told.store(false, Ordering::Release);
        self.replicas().replicated(self.0.store.end().0)
    }

    /// Whether enough nodes are there for what is stored now to be replicated.
    pub fn is_enough(&self) -> bool {
        self.replicas().is_enough(self.0.store.end().0)
    }

    /// Whether enough nodes have said anything within these milliseconds; always, where sends do not wait for slaves.
    pub fn hears_enough(&self, within_ms: u64) -> bool {
        let now = self.now();
        self.replicas().hears_enough(within_ms, now)
    }

    /// Slaves in sync and the master.
    pub fn in_sync(&self) -> usize {
        self.replicas().in_sync(self.0.store.end().0)
    }

    /// Why a SYNC_MASTER takes nothing at present, before anything is written.
    pub fn refusal(&self) -> Option<StoreError> {
        if !self.waits() {
            return None;
        }
        let (end, confirmed) = (self.0.store.end().0, self.0.store.confirmed().0);
        let QuorumLimits { gap_max, in_sync_min } = self.0.limits;
        let reason = match self.in_sync() {
            in_sync if in_sync < in_sync_min => {
                format!("in-sync replicas not enough: {in_sync}, and minInSyncReplicas is {in_sync_min}")
            }
            _ if end - confirmed > gap_max => {
                format!("{} bytes wait for slaves, and haMaxGapNotInSync is {gap_max}", end - confirmed)
            }
            _ => return None,
        };
        Some(StoreError::Refused { refusal: Refusal::NotReplicated, reason: reason.into() })
    }

    /// A slave has connected.
    pub fn connected(&self, id: SlaveId, connection: u64, address: String, counts: bool) {
        self.replicas().on_connected(id, connection, address, counts, self.now());
    }

    /// A slave has said up to where it has the log.
    pub fn acked(&self, id: SlaveId, connection: u64, acked: u64) {
        let end = if self.0.env.canary(Canary::SlaveOffsetTrusted) { u64::MAX } else { self.0.store.end().0 };
        self.replicas().on_acked(id, connection, acked, end, self.now());
        self.tell();
    }

    /// A slave's connection has ended.
    pub fn closed(&self, id: SlaveId, connection: u64) {
        self.replicas().on_closed(id, connection);
        self.tell();
    }

    /// All slaves.
    pub fn views(&self) -> Vec<SlaveView> {
        let now = self.now();
        self.replicas().views(self.0.store.end().0, now)
    }

    /// One message to the log writer for all that is said before it looks.
    fn tell(&self) {
        if self.waits() {
            self.look_again();
        }
    }

    fn look_again(&self) {
        let Some(writer) = self.0.writer.get() else { return };
        if !self.0.told.swap(true, Ordering::AcqRel) {
            // A writer that is gone answers nobody any more.
            let _ = writer.cast(LogMessage::Replicated);
        }
    }

    fn replicas(&self) -> MutexGuard<'_, Replicas> {
        self.0.replicas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Millis {
        Millis(self.0.env.clock.monotonic().as_millis() as i64)
    }
}
