//! The route table: who registered, what for, and who is gone.
//!
//! One state machine for brokers and topics. Registrations are told apart by the connection they came on: connection ids
//! grow in the order of accepting, so whatever an older connection still says about a broker that has since spoken on a
//! newer one is late and changes nothing.

use std::sync::Arc;
use std::time::Duration;

use crate::config::nameserver::NameServerSettings;
use crate::env::{Canaries, Canary, ConnectionId, LogLimit, Millis};
use crate::proto::body::DataVersion;

use super::brokers::{names_in_cluster, BrokerTable, Member, MASTER_ID};
use super::registration::{legal_name, RegisterError};
use super::topics::{Queues, TopicTable, PERM_READ, PERM_WRITE};
use super::Effect;

/// The routes of one NameServer. `now` is only ever compared with earlier values of itself: pass a clock that does not jump,
/// or a step of the wall clock expires every broker at once.
pub struct RouteTable {
    pub(super) settings: NameServerSettings,
    pub(super) brokers: BrokerTable,
    pub(super) topics: TopicTable,
    /// What was said about brokers that share one name and id.
    pub(super) said: LogLimit<(Arc<str>, i64)>,
    pub(super) canaries: Canaries,
}

/// How often it is said that a broker takes another's place: two that share a name do so every few seconds.
const SAY_EVERY: Duration = Duration::from_secs(60);

impl RouteTable {
    /// An empty table.
    pub fn new(settings: NameServerSettings) -> Self {
        let (brokers, topics) = (BrokerTable::default(), TopicTable::default());
        RouteTable { settings, brokers, topics, said: LogLimit::new(SAY_EVERY), canaries: Canaries::default() }
    }

    /// A broker says goodbye. Late goodbyes change nothing: of another address or id than is registered now, or on an
    /// older connection than the broker was heard on last.
    pub fn unregister(
        &mut self,
        connection: ConnectionId,
        broker: &str,
        broker_id: i64,
        address: &str,
        effects: &mut Vec<Effect>,
    ) {
        let current = self.brokers.get(broker).and_then(|group| group.members.get(&broker_id));
        match current {
            Some(member)
                if member.address == address
                    && (member.connection <= connection || self.canaries.has(Canary::LateGoodbye)) =>
            {
                self.remove(broker, broker_id, "it unregistered", effects);
            }
            _ => {
                crate::sometimes!(current.is_some(), "a late goodbye was left out");
                tracing::info!(broker, id = broker_id, address, "ignored a late or unknown unregistration");
            }
        }
    }

    /// A connection is closed: the brokers last heard on it are gone.
    pub fn connection_closed(&mut self, connection: ConnectionId, effects: &mut Vec<Effect>) {
        for (name, id) in self.members_where(|member| member.connection == connection) {
            self.remove(&name, id, "its connection closed", effects);
        }
    }

    /// Removes brokers that were silent for too long, and closes connections that no other broker uses.
    pub fn expire(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        for ((broker, id), times) in self.said.on_tick(now) {
            tracing::warn!(broker = &*broker, id, times, "addresses went on taking each other's place");
        }
        let early = if self.canaries.has(Canary::LivingBrokerExpires) { 110_000 } else { 0 };
        for (name, id) in self.members_where(|member| member.expired(now.plus(early))) {
            crate::sometimes!("a silent broker expired");
            let connection = self.brokers[&name].members[&id].connection;
            self.remove(&name, id, "it was silent for too long", effects);
            if self.members_where(|member| member.connection == connection).is_empty() {
                effects.push(Effect::Close(connection));
            }
        }
    }

    /// A registered broker was heard; anybody else is not added by this. Answers the version it registered last.
    pub fn heard(&mut self, now: Millis, connection: ConnectionId, broker: &str, address: &str) -> Option<DataVersion> {
        let member = self.brokers.get_mut(broker)?.at_mut(address)?;
        member.heard(now, connection);
        Some(member.version)
    }

    /// Takes the write permission from all topics of `broker`, for this NameServer's clients; answers their number.
    pub fn wipe_write_permission(&mut self, broker: &str) -> usize {
        self.topics.change_perm(broker, |perm| perm & !PERM_WRITE)
    }

    /// Gives read and write permission to all topics of `broker`; answers their number.
    pub fn add_write_permission(&mut self, broker: &str) -> usize {
        self.topics.change_perm(broker, |perm| perm | PERM_READ | PERM_WRITE)
    }

    /// Forgets `topic`, or what the brokers of `cluster` hold of it. A broker that still has it brings it back.
    pub fn delete_topic(&mut self, topic: &str, cluster: Option<&str>) {
        let brokers = cluster.map(|cluster| names_in_cluster(&self.brokers, cluster));
        self.topics.remove_topic(topic, brokers.as_ref());
    }

    /// Adds the queues of a single topic for the broker names that are known.
    pub fn register_topic(&mut self, topic: &str, queues: &[(&str, Queues)]) -> Result<(), RegisterError> {
        if !legal_name(topic) {
            return Err(RegisterError::IllegalName("topic name"));
        }
        for (broker, queues) in queues {
            let Some((name, _)) = self.brokers.get_key_value(*broker) else {
                tracing::warn!(topic, broker, "ignored queues of an unknown broker");
                continue;
            };
            if self.topics.entries() >= self.settings.max_route_entries && !self.topics.contains(topic, name) {
                return Err(RegisterError::TooManyTopics(self.settings.max_route_entries));
            }
            self.topics.accept(topic, name, *queues, true);
        }
        Ok(())
    }

    /// Number of registered broker processes.
    pub fn member_count(&self) -> usize {
        self.brokers.values().map(|group| group.members.len()).sum()
    }

    /// Number of pairs of topic and broker name.
    pub fn entry_count(&self) -> usize {
        self.topics.entries()
    }

    fn remove(&mut self, broker: &str, broker_id: i64, why: &str, effects: &mut Vec<Effect>) {
        let Some(group) = self.brokers.get_mut(broker) else { return };
        let was_minimum = group.min_id() == Some(broker_id);
        let Some(gone) = group.members.remove(&broker_id) else { return };
        tracing::info!(broker, id = broker_id, address = gone.address, "broker removed: {why}");
        if group.members.is_empty() {
            self.drop_if_empty(broker);
            return;
        }
        if !group.acting_master {
            return;
        }
        if !group.members.contains_key(&MASTER_ID) {
            self.topics.change_perm(broker, |perm| perm & !PERM_WRITE);
        }
        if was_minimum && self.settings.notify_min_broker_id_changed {
            group.tell_offline(broker, &gone.address, effects);
        }
    }

    /// Forgets a broker name without processes, and with it its queues.
    fn drop_if_empty(&mut self, broker: &str) {
        if self.brokers.get(broker).is_some_and(|group| group.members.is_empty()) {
            self.brokers.remove(broker);
            self.topics.remove_broker_unless(broker, |_| false);
        }
    }

    fn members_where(&self, wanted: impl Fn(&Member) -> bool) -> Vec<(Arc<str>, i64)> {
        let mut found = Vec::new();
        for (name, group) in &self.brokers {
            found.extend(group.members.iter().filter(|(_, m)| wanted(m)).map(|(id, _)| (name.clone(), *id)));
        }
        found
    }

    /// The shared form of a broker name.
    pub(super) fn name_of(&self, broker: &str) -> Arc<str> {
        self.brokers.get_key_value(broker).map_or_else(|| broker.into(), |(name, _)| name.clone())
    }

    /// INV-NS-1: every broker name has a process, and every topic entry belongs to a known broker name.
    pub fn check(&self) {
        self.topics.check();
        for (name, group) in &self.brokers {
            assert!(!group.members.is_empty(), "broker name {name} has no process");
        }
        let known: usize = self.brokers.keys().map(|name| self.topics.count_of(name)).sum();
        assert_eq!(known, self.topics.entries(), "a topic names an unknown broker");
    }
}
