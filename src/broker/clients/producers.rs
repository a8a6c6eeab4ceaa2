//! Producer groups: whom to ask about a transaction, whom to push a reply to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::broker::ConnectionId;
use crate::env::Millis;

use super::{Connection, Expired, EXPIRY_MS};

/// One member of a producer group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Producer {
    /// Its client id.
    pub client: Arc<str>,
    /// Its connection.
    pub connection: Connection,
    /// Its last heartbeat.
    pub last_seen: Millis,
}

/// The producers by group. A group without members does not exist (RES-1).
#[derive(Debug)]
pub struct ProducerGroups {
    groups: BTreeMap<Arc<str>, BTreeMap<ConnectionId, Producer>>,
    /// The client behind each connection, and the groups it is in.
    connections: BTreeMap<ConnectionId, (Arc<str>, BTreeSet<Arc<str>>)>,
    clients: BTreeMap<Arc<str>, ConnectionId>,
    count: usize,
    limit: usize,
}

impl ProducerGroups {
    pub(super) fn new(limit: usize) -> ProducerGroups {
        ProducerGroups {
            groups: BTreeMap::new(),
            connections: BTreeMap::new(),
            clients: BTreeMap::new(),
            count: 0,
            limit,
        }
    }

    /// A heartbeat of a member. False: there is no room for another one.
    pub fn register(&mut self, group: &str, client: &str, connection: Connection, now: Millis) -> bool {
        let id = connection.id;
        if let Some(known) = self.groups.get_mut(group).and_then(|members| members.get_mut(&id)) {
            known.last_seen = now;
            known.connection = connection;
            return true;
        }
        if self.count >= self.limit {
            return false;
        }
        let group: Arc<str> = group.into();
        let (client, groups) = self.connections.entry(id).or_insert_with(|| (client.into(), BTreeSet::new()));
        groups.insert(group.clone());
        let client = client.clone();
        self.clients.insert(client.clone(), id);
        let producer = Producer { client, connection, last_seen: now };
        self.groups.entry(group).or_default().insert(id, producer);
        self.count += 1;
        true
    }

    /// A member leaves its group.
    pub fn unregister(&mut self, group: &str, connection: ConnectionId) {
        let Some(members) = self.groups.get_mut(group) else { return };
        if members.remove(&connection).is_none() {
            return;
        }
        if members.is_empty() {
            self.groups.remove(group);
        }
        self.count -= 1;
        let Some((client, groups)) = self.connections.get_mut(&connection) else { return };
        groups.remove(group);
        if groups.is_empty() {
            if self.clients.get(client) == Some(&connection) {
                self.clients.remove(client);
            }
            self.connections.remove(&connection);
        }
    }

    pub(super) fn on_connection_closed(&mut self, connection: ConnectionId) {
        let groups = self.connections.get(&connection).map(|(_, groups)| groups.clone()).unwrap_or_default();
        groups.iter().for_each(|group| self.unregister(group, connection));
    }

    pub(super) fn expire(&mut self, now: Millis) -> Vec<Expired> {
        let mut gone = Vec::new();
        for (group, members) in &self.groups {
            for (connection, member) in members {
                let idle_ms = now.since(member.last_seen);
                if idle_ms > EXPIRY_MS {
                    let expired = Expired { connection: *connection, client: member.client.clone(), idle_ms };
                    gone.push((group.clone(), expired));
                }
            }
        }
        gone.iter().for_each(|(group, expired)| self.unregister(group, expired.connection));
        gone.into_iter().map(|(_, expired)| expired).collect()
    }

    pub(super) fn knows(&self, connection: ConnectionId) -> bool {
        self.connections.contains_key(&connection)
    }

    /// The members of a group (GET_PRODUCER_CONNECTION_LIST).
    pub fn members<'a>(&'a self, group: &str) -> impl Iterator<Item = &'a Producer> + use<'a> {
        self.groups.get(group).into_iter().flat_map(BTreeMap::values)
    }

    /// All groups with their members (GET_ALL_PRODUCER_INFO).
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, impl Iterator<Item = &Producer>)> {
        self.groups.iter().map(|(group, members)| (group, members.values()))
    }

    /// Any member of a group, to be asked about a transaction.
    pub fn pick(&self, group: &str, random: u64) -> Option<&Producer> {
        let members = self.groups.get(group)?;
        members.values().nth((random % members.len().max(1) as u64) as usize)
    }

    /// The connection of a client, to push a reply to.
    pub fn connection_of(&self, client: &str) -> Option<ConnectionId> {
        self.clients.get(client).copied()
    }

    /// Registrations.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}
