//! Which broker processes are there, grouped by broker name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::env::{ConnectionId, Millis};
use crate::proto::body::DataVersion;

use super::Effect;

/// The id of a master within its broker name; slaves have larger ids.
pub const MASTER_ID: i64 = 0;

/// The smallest id of a broker name is another one now (NOTIFY_MIN_BROKER_ID_CHANGE).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MinBrokerChange {
    /// The broker name.
    pub broker_name: String,
    /// The smallest id now.
    pub min_broker_id: i64,
    /// Its `ip:port`.
    pub min_broker_address: String,
    /// The `ip:port` of the broker that is gone, if that is the reason.
    pub offline_address: Option<String>,
    /// The replication `ip:port` of the new smallest id, if it has just come.
    pub ha_address: Option<String>,
}

/// One registered broker process.
#[derive(Debug)]
pub(super) struct Member {
    /// `ip:port` that clients dial.
    pub address: String,
    /// `ip:port` that slaves dial to replicate.
    pub ha_address: String,
    /// The cluster it registered under.
    pub cluster: String,
    /// The connection it was heard on last.
    pub connection: ConnectionId,
    /// When it was heard last.
    pub last_seen: Millis,
    /// How long it may be silent, in milliseconds.
    pub timeout_ms: i64,
    /// Version of the topic table it registered last.
    pub version: DataVersion,
    /// Addresses of its filter servers (legacy).
    pub filter_servers: Vec<String>,
}

impl Member {
    /// Notes that the broker spoke on `connection`. It then lives on that connection, so the late end of an older one
    /// does not concern it.
    pub fn heard(&mut self, now: Millis, connection: ConnectionId) {
        self.last_seen = now;
        self.connection = self.connection.max(connection);
    }

    /// True if the broker was silent for longer than it may be.
    pub fn expired(&self, now: Millis) -> bool {
        self.last_seen.plus(self.timeout_ms) < now
    }
}

/// The processes that share one broker name: a master and its slaves. Never empty inside a [`BrokerTable`].
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Processes by broker id.
    pub members: BTreeMap<i64, Member>,
    /// Zone for routes by nearness.
    pub zone: Option<String>,
    /// True if a slave stands in for a missing master.
    pub acting_master: bool,
}

impl Group {
    /// The smallest id present.
    pub fn min_id(&self) -> Option<i64> {
        self.members.keys().next().copied()
    }

    /// The cluster of the whole group: that of its master, else of its first slave.
    pub fn cluster(&self) -> &str {
        self.members.values().next().map_or("", |member| &member.cluster)
    }

    /// The processes are told that the one with the smallest id is gone.
    pub fn tell_offline(&self, broker: &str, offline_address: &str, effects: &mut Vec<Effect>) {
        let Some(change) = self.min_change(broker) else { return };
        let change = MinBrokerChange { offline_address: Some(offline_address.to_owned()), ..change };
        for member in self.members.values() {
            effects.push(Effect::NotifyMinBroker { connection: member.connection, change: change.clone() });
        }
    }

    /// The other processes are told that one with a smaller id has come.
    pub fn tell_new_minimum(&self, broker: &str, effects: &mut Vec<Effect>) {
        let Some(change) = self.min_change(broker) else { return };
        let ha_address = self.members.get(&change.min_broker_id).map(|member| member.ha_address.clone());
        let change = MinBrokerChange { ha_address, ..change };
        for (_, member) in self.members.iter().filter(|(id, _)| **id != change.min_broker_id) {
            effects.push(Effect::NotifyMinBroker { connection: member.connection, change: change.clone() });
        }
    }

    fn min_change(&self, broker: &str) -> Option<MinBrokerChange> {
        let (id, member) = self.members.iter().next()?;
        Some(MinBrokerChange {
            broker_name: broker.to_owned(),
            min_broker_id: *id,
            min_broker_address: member.address.clone(),
            offline_address: None,
            ha_address: None,
        })
    }

    /// The member at `address`.
    pub fn at_mut(&mut self, address: &str) -> Option<&mut Member> {
        self.members.values_mut().find(|member| member.address == address)
    }
}

/// All groups by broker name.
pub(super) type BrokerTable = BTreeMap<Arc<str>, Group>;

/// The broker names with a process in `cluster`.
pub(super) fn names_in_cluster<'a>(brokers: &'a BrokerTable, cluster: &str) -> BTreeSet<&'a str> {
    let in_cluster = |group: &Group| group.members.values().any(|member| member.cluster == cluster);
    brokers.iter().filter(|(_, group)| in_cluster(group)).map(|(name, _)| &**name).collect()
}
