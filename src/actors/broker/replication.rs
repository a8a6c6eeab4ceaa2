//! How a broker starts and stops replication.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use ractor::ActorRef;

use super::identity::ha_port;
use super::BrokerMessage;
use crate::actors::ha::{
    HaMasterHandle, HaOptions, HaState, Leader, LogSignal, Quorum, QuorumLimits, ReplicaArguments, ReplicaHandle,
};
use crate::actors::log_writer::LogWriterHandle;
use crate::config::broker::{BrokerConfig, BrokerRole};
use crate::env::{Canary, Env};
use crate::store::epoch::EpochFile;
use crate::store::{LogWriter, Store};

/// Whether the settings make it a slave.
pub fn is_slave(config: &BrokerConfig) -> bool {
    config.broker_role == BrokerRole::Slave
}

/// What there is of replication before the log writer starts.
pub struct Replication {
    /// What slaves have said.
    pub quorum: Quorum,
    /// Tells that the log has grown.
    pub signal: LogSignal,
    /// What is known of it.
    pub ha: HaState,
}

/// Replication of a running broker.
pub struct RunningReplication {
    /// What is known of it.
    pub ha: HaState,
    /// Serves slaves; `None` if the port for them was taken.
    pub master: Option<HaMasterHandle>,
    /// Follows a master once it is told of one.
    pub replica: ReplicaHandle,
}

impl Replication {
    /// Reads the epochs, and holds back what nobody has confirmed.
    ///
    /// # Errors
    /// If epochs or queues cannot be read.
    pub fn open(env: &Env, config: &BrokerConfig, store: &Arc<Store>, writer: &mut LogWriter) -> Result<Replication> {
        let root = Path::new(&config.store_path_root_dir);
        let file = EpochFile::open(&env.disk, root).with_context(|| "cannot read the epochs")?;
        let slave = is_slave(config);
        if slave || config.replicas_needed() > 1 {
            // Without epochs nothing here was ever replicated: what is there is the truth, and only what comes waits.
            match file.epochs().last() {
                Some(_) => writer.hold_back()?,
                None => writer.set_confirm_limit(Some(writer.end())),
            }
        }
        writer.set_following(slave);
        let limits =
            QuorumLimits { gap_max: config.ha_max_gap_not_in_sync, in_sync_min: config.min_in_sync_replicas as usize };
        let quorum = Quorum::new(env, Arc::clone(store), config.replicas_needed(), limits);
        let signal = LogSignal::default();
        let ha = HaState::new(env, Arc::clone(store), file, quorum.clone(), signal.clone(), slave);
        Ok(Replication { quorum, signal, ha })
    }

    /// Begins an epoch if this is a master, and serves and follows.
    ///
    /// # Errors
    /// If the epoch cannot be saved, or the port for slaves is taken where somebody needs it.
    pub async fn start(
        self,
        config: &BrokerConfig,
        address: SocketAddr,
        writer: LogWriterHandle,
        root: &ActorRef<BrokerMessage>,
    ) -> Result<RunningReplication> {
        let ha = self.ha;
        // What an earlier epoch had above the log's end is lost, and its place is another's from now on.
        if is_slave(config) {
            let mut epochs = ha.epochs().as_ref().clone();
            epochs.cut(ha.store().end());
            ha.save_epochs(epochs).await?;
        } else if !ha.env().canary(Canary::NoNewEpoch) || ha.epochs().last().is_none() {
            ha.begin_epoch(ha.store().end(), config.broker_id).await?;
        }
        let master = listen(&ha, config, address, root).await?;
        let arguments = ReplicaArguments { ha: ha.clone(), writer, broker_id: config.broker_id };
        let replica = ReplicaHandle::start(arguments, root).await?;
        if is_slave(config) && !config.ha_master_address.is_empty() {
            replica.follow(Some(Leader { ha_address: config.ha_master_address.clone(), address: None }));
        }
        Ok(RunningReplication { ha, master, replica })
    }
}

impl RunningReplication {
    /// The port at which slaves are served, if they are.
    pub fn port(&self) -> Option<u16> {
        self.master.as_ref().map(|master| master.address().port())
    }

    /// Ends all connections; when this returns nothing of a master's log is under way, and the port is free.
    pub async fn stop(&self) {
        self.replica.stop().await;
        if let Some(master) = &self.master {
            master.close().await;
        }
    }
}

/// The port for slaves. A broker that nobody replicates does without if another has it.
async fn listen(
    ha: &HaState,
    config: &BrokerConfig,
    address: SocketAddr,
    root: &ActorRef<BrokerMessage>,
) -> Result<Option<HaMasterHandle>> {
    let address = SocketAddr::new(address.ip(), ha_port(config, address));
    let net = &ha.env().net;
    let listener = match net.listen(address).await {
        // Clients come to whatever port was free, and so may slaves: NameServers tell them which.
        Err(error) if error.kind() == ErrorKind::AddrInUse && config.listen_port == 0 && config.ha_listen_port == 0 => {
            net.listen(SocketAddr::new(address.ip(), 0)).await
        }
        listener => listener,
    };
    match listener {
        Ok(listener) => {
            let pace = config.max_ha_transfer_byte_in_second;
            let options = HaOptions {
                batch_max: config.ha_transfer_batch_size,
                bytes_per_second: config.ha_flow_control_enable.then_some(pace),
            };
            let master = HaMasterHandle::start(ha.clone(), listener, options, root).await?;
            Ok(Some(master))
        }
        Err(error) if config.ha_listen_port == 0 && config.broker_role != BrokerRole::SyncMaster => {
            tracing::warn!("cannot listen on {address}: {error}; no slave can copy this broker");
            Ok(None)
        }
        Err(error) => Err(error).with_context(|| format!("cannot listen on {address} for slaves")),
    }
}
