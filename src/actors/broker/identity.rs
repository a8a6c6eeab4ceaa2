//! Who a broker is to others: its role and its addresses.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result};

use super::replication::is_slave;
use crate::broker::role::Role;
use crate::config::broker::{BrokerConfig, BrokerRole};
use crate::env::Env;

/// The role that the settings ask for. A master's id is 0, whatever is set.
pub(super) fn role_of(config: &mut BrokerConfig) -> Role {
    if is_slave(config) {
        return Role::slave(config.broker_id);
    }
    if config.broker_role == BrokerRole::SyncMaster && config.in_sync_replicas == 1 {
        tracing::warn!("inSyncReplicas=1: this SYNC_MASTER does not wait for slaves");
    }
    if config.broker_id != 0 {
        tracing::warn!(id = config.broker_id, "brokerId is 0 for every master");
        config.broker_id = 0;
    }
    Role::master()
}

/// The address clients dial: `brokerIP1` or this machine's own, never a wildcard.
pub(super) fn advertised(env: &Env, config: &BrokerConfig, address: SocketAddr) -> Result<SocketAddr> {
    let ip: IpAddr = if !config.broker_ip1.is_empty() {
        config.broker_ip1.parse().with_context(|| format!("brokerIP1 `{}` is no IP address", config.broker_ip1))?
    } else if !address.ip().is_unspecified() {
        address.ip()
    } else {
        env.net.own_address()
    };
    anyhow::ensure!(!ip.is_unspecified(), "brokerIP1 {ip} is a wildcard: clients cannot dial it");
    Ok(SocketAddr::new(ip, address.port()))
}

/// The port for slaves of a broker that clients reach at `address`.
pub(super) fn ha_port(config: &BrokerConfig, address: SocketAddr) -> u16 {
    match config.ha_listen_port {
        0 => address.port().wrapping_add(1),
        port => port,
    }
}

/// The address slaves dial: `brokerIP2`, else the one clients dial, and the port for slaves, which is `taken` if it is open.
pub(super) fn ha_address(config: &BrokerConfig, advertised: SocketAddr, taken: Option<u16>) -> Result<SocketAddr> {
    let ip = match config.broker_ip2.as_str() {
        "" => advertised.ip(),
        ip => ip.parse().with_context(|| format!("brokerIP2 `{ip}` is no IP address"))?,
    };
    anyhow::ensure!(!ip.is_unspecified(), "brokerIP2 {ip} is a wildcard: slaves cannot dial it");
    let port = taken.unwrap_or_else(|| ha_port(config, advertised));
    Ok(SocketAddr::new(ip, port))
}
