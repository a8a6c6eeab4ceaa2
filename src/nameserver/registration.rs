//! How a broker's registration changes the routes.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::env::{Canary, ConnectionId, Millis, Pass};
use crate::proto::body::DataVersion;

use super::brokers::{Group, Member, MASTER_ID};
use super::topics::{Queues, PERM_WRITE};
use super::{Effect, RouteTable};

/// How long a broker that names no time of its own may be silent, in milliseconds.
pub const BROKER_TIMEOUT_MS: i64 = 120_000;

/// Longest broker name, cluster name, address, zone or topic name in bytes.
pub const NAME_BYTES_MAX: usize = 1024;

/// Most filter servers of one broker.
pub const FILTER_SERVERS_MAX: usize = 64;

/// What a broker says about itself in REGISTER_BROKER.
#[derive(Clone, Debug)]
pub struct Registration<'a> {
    /// Cluster name.
    pub cluster: &'a str,
    /// Broker name, shared by a master and its slaves.
    pub broker: &'a str,
    /// 0 for a master, else a slave.
    pub broker_id: i64,
    /// `ip:port` for clients.
    pub address: &'a str,
    /// `ip:port` for slaves.
    pub ha_address: &'a str,
    /// Zone name.
    pub zone: Option<&'a str>,
    /// How long it may be silent in milliseconds; 120 s if absent or not positive.
    pub timeout_ms: Option<i64>,
    /// Whether a slave stands in for a missing master; absent from brokers before 5.0.
    pub acting_master: Option<bool>,
    /// Version of its topic table.
    pub version: DataVersion,
    /// Its topics.
    pub topics: &'a [(&'a str, Queues)],
    /// True if the broker states that `topics` are all it has, so that others are gone. RocketMQ's brokers never do: they
    /// send single changed topics in the same form.
    pub complete: bool,
    /// Addresses of its filter servers.
    pub filter_servers: &'a [String],
}

/// The master that a slave should follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Master {
    /// `ip:port` for clients.
    pub address: String,
    /// `ip:port` for replication.
    pub ha_address: String,
}

/// What a registration that was taken leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registered {
    /// The master to follow, if the registrant is a slave with a known master.
    pub master: Option<Master>,
    /// The `ip:port` that the registrant's broker name and id led to until now, if it is another one: a broker that has
    /// moved, or two brokers that were given one name and take each other's place.
    pub displaced: Option<String>,
    /// The `ip:port` of the broker that holds the registrant's name and id with a newer epoch: the registration was ignored.
    pub outranked_by: Option<String>,
}

/// Why a registration was refused. A refused registration changes nothing.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// A broker that is not known sent a single topic: an update that overtook the full table.
    #[error("register broker failed")]
    SingleTopicFirst,
    /// A name or address is empty or too long.
    #[error("{0} must have 1 to {NAME_BYTES_MAX} bytes")]
    IllegalName(&'static str),
    /// Too many filter servers.
    #[error("a broker may have {FILTER_SERVERS_MAX} filter servers")]
    FilterServers,
    /// The setting `maxBrokers` is reached.
    #[error("{0} brokers are registered, which is the limit")]
    TooManyBrokers(usize),
    /// The setting `maxRouteEntries` is reached.
    #[error("the route table holds {0} pairs of topic and broker, which is the limit")]
    TooManyTopics(usize),
}

impl RouteTable {
    /// Takes a registration.
    pub fn register(
        &mut self,
        now: Millis,
        connection: ConnectionId,
        new: &Registration<'_>,
        effects: &mut Vec<Effect>,
    ) -> Result<Registered, RegisterError> {
        self.admit(new)?;
        let name = self.name_of(new.broker);
        let group = self.brokers.entry(name.clone()).or_default();
        if let Some(member) = group.members.get_mut(&new.broker_id).filter(|member| is_late(member, connection, new)) {
            member.heard(now, connection);
            return Ok(Registered { master: master_for(new.broker_id, group), ..Registered::default() });
        }
        let min_before = group.min_id();
        // A slave that became master keeps its address.
        group.members.retain(|id, member| *id == new.broker_id || member.address != new.address);
        if is_outranked(group, new) {
            if let Some(Pass { held_back }) = self.said.pass((name, new.broker_id), now) {
                tracing::warn!(
                    broker = new.broker,
                    id = new.broker_id,
                    address = new.address,
                    held_back,
                    "ignored a registration: another address holds the id with a newer state version"
                );
            }
            let outranked_by = group.members.get(&new.broker_id).map(|holder| holder.address.clone());
            return Ok(Registered { outranked_by, ..Registered::default() });
        }
        let holder = group.members.get(&new.broker_id).filter(|holder| holder.address != new.address);
        let displaced = holder.map(|holder| holder.address.clone());
        if let Some(was) = &displaced {
            crate::sometimes!("a broker took another one's place");
            if let Some(Pass { held_back }) = self.said.pass((Arc::clone(&name), new.broker_id), now) {
                tracing::warn!(
                    broker = new.broker,
                    id = new.broker_id,
                    was,
                    now = new.address,
                    held_back,
                    "another address takes a broker's place; if both run, give each a brokerName of its own"
                );
            }
        }
        group.acting_master = new.acting_master == Some(true);
        group.zone = new.zone.map(str::to_owned);
        let newest = group.members.get(&new.broker_id).filter(|member| member.address == new.address);
        let connection = newest.map_or(connection, |member| match self.canaries.has(Canary::OldConnectionCounts) {
            true => member.connection,
            false => member.connection.max(connection),
        });
        let fresh = group.members.insert(new.broker_id, member_of(now, connection, new)).is_none();
        if fresh {
            tracing::info!(broker = new.broker, id = new.broker_id, address = new.address, "broker registered");
        }
        if min_before.is_some_and(|min| new.broker_id < min) && self.settings.notify_min_broker_id_changed {
            group.tell_new_minimum(new.broker, effects);
        }
        let is_prime_slave = new.acting_master.is_some() && group.min_id() == Some(new.broker_id);
        let master = master_for(new.broker_id, group);
        if new.broker_id == MASTER_ID || is_prime_slave {
            self.take_topics(&name, new, fresh);
        }
        Ok(Registered { master, displaced, outranked_by: None })
    }

    /// Refuses what is illegal or too much, before anything is changed.
    fn admit(&self, new: &Registration<'_>) -> Result<(), RegisterError> {
        check_names(new)?;
        let known = self.brokers.get(new.broker).is_some_and(|group| group.members.contains_key(&new.broker_id));
        if !known && new.topics.len() == 1 {
            return Err(RegisterError::SingleTopicFirst);
        }
        if !known && self.member_count() >= self.settings.max_brokers {
            return Err(RegisterError::TooManyBrokers(self.settings.max_brokers));
        }
        let added = new.topics.iter().filter(|(topic, _)| !self.topics.contains(topic, new.broker)).count();
        if added > 0 && self.topics.entries() + added > self.settings.max_route_entries {
            return Err(RegisterError::TooManyTopics(self.settings.max_route_entries));
        }
        Ok(())
    }

    fn take_topics(&mut self, name: &Arc<str>, new: &Registration<'_>, fresh: bool) {
        let is_master = new.broker_id == MASTER_ID;
        for (topic, queues) in new.topics {
            // One odd topic is no reason to lose the broker's routes.
            if !legal_name(topic) {
                tracing::warn!(broker = new.broker, topic, "ignored a topic with an illegal name");
                continue;
            }
            let perm = if is_master { queues.perm } else { queues.perm & !PERM_WRITE };
            self.topics.accept(topic, name, Queues { perm, ..*queues }, fresh);
        }
        // A slave's table may lag behind its master's, so what it does not name is not gone.
        let complete = is_master && (new.complete || self.settings.delete_topic_with_broker_registration);
        if complete && self.topics.count_of(name) > new.topics.len() {
            let named: BTreeSet<&str> = new.topics.iter().map(|(topic, _)| *topic).collect();
            self.topics.remove_broker_unless(name, |topic| named.contains(topic));
        }
    }
}

/// True if a name may enter the tables.
pub(super) fn legal_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len())
}

fn check_names(new: &Registration<'_>) -> Result<(), RegisterError> {
    let names = [("brokerName", new.broker), ("clusterName", new.cluster), ("brokerAddr", new.address)];
    if let Some((what, _)) = names.iter().find(|(_, name)| !legal_name(name)) {
        return Err(RegisterError::IllegalName(what));
    }
    if new.ha_address.len() > NAME_BYTES_MAX {
        return Err(RegisterError::IllegalName("haServerAddr"));
    }
    if new.zone.is_some_and(|zone| zone.len() > NAME_BYTES_MAX) {
        return Err(RegisterError::IllegalName("zone name"));
    }
    let servers = new.filter_servers;
    if servers.len() > FILTER_SERVERS_MAX || servers.iter().any(|address| !legal_name(address)) {
        return Err(RegisterError::FilterServers);
    }
    Ok(())
}

/// True if the same process has already sent something newer: on a newer connection, or (two of a broker's threads take
/// their snapshots in one order and send them in the other) a newer table on this one. A process's version never falls
/// while it is a master, and a restarted process has a new connection.
fn is_late(member: &Member, connection: ConnectionId, new: &Registration<'_>) -> bool {
    if member.address != new.address || connection > member.connection {
        return false;
    }
    let (old, version) = (&member.version, &new.version);
    let not_newer = version.state_version <= old.state_version
        && version.timestamp <= old.timestamp
        && version.counter <= old.counter;
    let reordered = new.broker_id == MASTER_ID && version != old;
    not_newer && (connection < member.connection || reordered)
}

/// Two processes claim one id: the larger state version (the epoch of controller mode) wins, else the later one.
fn is_outranked(group: &Group, new: &Registration<'_>) -> bool {
    group
        .members
        .get(&new.broker_id)
        .is_some_and(|holder| holder.address != new.address && holder.version.state_version > new.version.state_version)
}

/// The master that the broker with this id should follow: none for the master itself.
fn master_for(broker_id: i64, group: &Group) -> Option<Master> {
    let master = group.members.get(&MASTER_ID).filter(|_| broker_id != MASTER_ID)?;
    Some(Master { address: master.address.clone(), ha_address: master.ha_address.clone() })
}

fn member_of(now: Millis, connection: ConnectionId, new: &Registration<'_>) -> Member {
    Member {
        address: new.address.to_owned(),
        ha_address: new.ha_address.to_owned(),
        cluster: new.cluster.to_owned(),
        connection,
        last_seen: now,
        timeout_ms: new.timeout_ms.filter(|timeout| *timeout > 0).unwrap_or(BROKER_TIMEOUT_MS),
        version: new.version,
        filter_servers: new.filter_servers.to_vec(),
    }
}
