//! What is known of replication at a broker, whatever its role.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{LogSignal, Quorum};
use crate::env::Env;
use crate::ha::replicas::SlaveView;
use crate::ha::LogView;
use crate::proto::ha::switch::Epoch;
use crate::proto::PhysicalOffset;
use crate::store::config_file::ConfigSaveError;
use crate::store::epoch::{EpochFile, Epochs};
use crate::store::Store;

/// How a slave stands to its master.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FollowState {
    /// It knows no master.
    #[default]
    Alone,
    /// It tries to reach its master.
    Connecting,
    /// It gets its master's log.
    Following,
    /// It will not follow: somebody has to look. The text says why.
    Refusing(String),
}

/// A snapshot for people and metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HaStatus {
    /// Whether this broker follows a master.
    pub is_slave: bool,
    /// How a slave stands to its master.
    pub following: FollowState,
    /// The master's HA address, as far as a slave knows one.
    pub master: Option<String>,
    /// Where the log ends.
    pub end: u64,
    /// Up to here consumers may read.
    pub confirmed: u64,
    /// What the master last said is confirmed.
    pub master_confirmed: u64,
    /// Nodes that have to hold a message before its send is answered, this one included.
    pub needed: usize,
    /// Nodes in sync, this one included.
    pub in_sync: usize,
    /// A master's slaves.
    pub slaves: Vec<SlaveView>,
}

/// What the parts of replication share. Cheap to clone.
#[derive(Clone)]
pub struct HaState(Arc<Inner>);

struct Inner {
    env: Env,
    store: Arc<Store>,
    quorum: Quorum,
    signal: LogSignal,
    is_slave: AtomicBool,
    epochs: Mutex<Arc<Epochs>>,
    file: futures::lock::Mutex<EpochFile>,
    following: Mutex<(Option<String>, FollowState, u64)>,
}

impl HaState {
    /// The state of a broker that just opened its store.
    pub fn new(
        env: &Env,
        store: Arc<Store>,
        file: EpochFile,
        quorum: Quorum,
        signal: LogSignal,
        slave: bool,
    ) -> HaState {
        HaState(Arc::new(Inner {
            env: env.clone(),
            store,
            quorum,
            signal,
            is_slave: AtomicBool::new(slave),
            epochs: Mutex::new(Arc::new(file.epochs().clone())),
            file: futures::lock::Mutex::new(file),
            following: Mutex::default(),
        }))
    }

    /// The world.
    pub fn env(&self) -> &Env {
        &self.0.env
    }

    /// The store.
    pub fn store(&self) -> &Arc<Store> {
        &self.0.store
    }

    /// What slaves have said.
    pub fn quorum(&self) -> &Quorum {
        &self.0.quorum
    }

    /// Tells that the log has grown.
    pub fn signal(&self) -> &LogSignal {
        &self.0.signal
    }

    /// Whether this broker follows a master.
    pub fn is_slave(&self) -> bool {
        self.0.is_slave.load(Ordering::Acquire)
    }

    /// From now on it does, or does not.
    pub fn set_slave(&self, slave: bool) {
        self.0.is_slave.store(slave, Ordering::Release);
        self.0.signal.notify();
    }

    /// The epochs as they were last saved.
    pub fn epochs(&self) -> Arc<Epochs> {
        Arc::clone(&lock(&self.0.epochs))
    }

    /// A master begins to write at `end`, where its log ends. It must not before this has returned.
    ///
    /// # Errors
    /// What the disk said.
    pub async fn begin_epoch(&self, end: PhysicalOffset, broker_id: u64) -> Result<Epoch, ConfigSaveError> {
        let mut epochs = Epochs::clone(&self.epochs());
        let epoch = epochs.begin(end, broker_id, self.0.env.rng.next_u64());
        self.save_epochs(epochs).await?;
        tracing::info!(epoch = epoch.number, start = epoch.start.0, "an epoch begins");
        Ok(epoch)
    }

    /// Changes the epochs for good.
    ///
    /// # Errors
    /// What the disk said; the epochs are as before.
    pub async fn save_epochs(&self, epochs: Epochs) -> Result<(), ConfigSaveError> {
        let mut file = self.0.file.lock().await;
        file.save(epochs).await?;
        *lock(&self.0.epochs) = Arc::new(file.epochs().clone());
        Ok(())
    }

    /// The last epoch never was: nothing has been written in it.
    ///
    /// # Errors
    /// What the disk said; the epochs are as before.
    pub async fn withdraw_epoch(&self) -> Result<(), ConfigSaveError> {
        let mut file = self.0.file.lock().await;
        let mut epochs = file.epochs().clone();
        epochs.withdraw();
        file.save(epochs).await?;
        *lock(&self.0.epochs) = Arc::new(file.epochs().clone());
        Ok(())
    }

    /// Forgets epochs of which nothing is left in the log.
    ///
    /// # Errors
    /// What the disk said; the epochs are as before.
    pub async fn trim_epochs(&self) -> Result<(), ConfigSaveError> {
        let mut file = self.0.file.lock().await;
        let mut epochs = file.epochs().clone();
        epochs.trim(self.0.store.min());
        file.save(epochs).await?;
        *lock(&self.0.epochs) = Arc::new(file.epochs().clone());
        Ok(())
    }

    /// How a slave stands to its master is news.
    pub(super) fn set_following(&self, master: Option<String>, state: FollowState) {
        let mut following = lock(&self.0.following);
        (following.0, following.1) = (master, state);
    }

    /// The master says that this much is confirmed.
    pub(super) fn set_master_confirmed(&self, confirmed: u64) {
        let mut following = lock(&self.0.following);
        following.2 = following.2.max(confirmed);
    }

    /// What is known now.
    pub fn status(&self) -> HaStatus {
        let (master, following, master_confirmed) = lock(&self.0.following).clone();
        let (store, quorum) = (&self.0.store, &self.0.quorum);
        HaStatus {
            is_slave: self.is_slave(),
            following,
            master,
            end: store.end().0,
            confirmed: store.confirmed().0,
            master_confirmed,
            needed: quorum.needed(),
            in_sync: quorum.in_sync(),
            slaves: quorum.views(),
        }
    }
}

impl LogView for HaState {
    fn min(&self) -> u64 {
        self.0.store.min().0
    }

    fn end(&self) -> u64 {
        self.0.store.end().0
    }

    fn confirmed(&self) -> u64 {
        let confirmed = self.0.store.confirmed().0;
        if self.0.quorum.waits() {
            return confirmed;
        }
        // Consumers of this broker may see what its next power cut takes. Those of a slave may not: it could not take
        // back what they have seen when this log goes on in another way.
        confirmed.min(self.0.store.flushed().0)
    }

    fn segment_size(&self) -> u64 {
        self.0.store.options().segment_size
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
