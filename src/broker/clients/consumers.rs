//! Consumer groups: their members, and what each subscribed to.
//!
//! RocketMQ keeps one table of subscriptions per group, which every heartbeat overwrites; members with different
//! subscriptions make it flap, with a rebalance each time. Here each member keeps its own, and its pulls are filtered by
//! it. The group's table is their union, of one topic the newest version: with equal members it is the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::broker::{ConnectionId, Effect, Report};
use crate::env::Millis;
use crate::proto::body::{ConsumeFromWhere, ConsumeType, ConsumerData, MessageModel};
use crate::proto::filter::{ExpressionType, Filter, FilterError, SubscriptionData};
use crate::proto::message::names;

use super::conflict::{self, Conflict};
use super::{Connection, Expired, EXPIRY_MS};

/// The most subscriptions of one member that are kept.
pub const SUBSCRIPTIONS_MAX: usize = 4096;

/// A subscription and what its messages are chosen by.
#[derive(Debug)]
pub struct Subscribed {
    /// As it came.
    pub data: SubscriptionData,
    /// Compiled once, when it came.
    pub filter: Result<Arc<Filter>, FilterError>,
}

impl Subscribed {
    fn new(mut data: SubscriptionData) -> Subscribed {
        // An expression of separators only stays as it came; no client sends one.
        let filter = match data.normalize() {
            Ok(()) => Filter::of(&data).map(Arc::new),
            Err(error) => Err(error.into()),
        };
        Subscribed { data, filter }
    }
}

/// One member of a consumer group.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its client id.
    pub client: Arc<str>,
    /// Its connection.
    pub connection: Connection,
    /// Its last heartbeat.
    pub last_seen: Millis,
    subscriptions: BTreeMap<String, Arc<Subscribed>>,
    fingerprint: i32,
    /// What it subscribes to, as text, the same for the same subscriptions.
    pub(super) signature: Arc<str>,
}

/// One consumer group's part of a heartbeat.
#[derive(Clone, Copy, Debug)]
pub struct Registration<'a> {
    /// The connection.
    pub connection: Connection,
    /// The client id.
    pub client: &'a str,
    /// The group's part.
    pub data: &'a ConsumerData,
    /// Heartbeat v2: a number that stands for all subscriptions; 0 is a heartbeat v1.
    pub fingerprint: i32,
    /// Heartbeat v2: the subscriptions are left out because they did not change.
    pub without_subscriptions: bool,
    /// Whether members are told of each other.
    pub notify: bool,
}

/// What a group's members agree on, for GET_CONSUMER_CONNECTION_LIST.
#[derive(Debug)]
pub struct GroupInfo<'a> {
    /// Pushed, pulled or popped.
    pub consume_type: ConsumeType,
    /// Clustering or broadcasting.
    pub message_model: MessageModel,
    /// Where to begin.
    pub consume_from_where: ConsumeFromWhere,
    /// The members.
    pub members: Vec<&'a Member>,
    /// The union of their subscriptions, by topic.
    pub subscriptions: Vec<&'a SubscriptionData>,
    /// Members that subscribe to different things.
    pub conflicts: &'a [Conflict],
}

/// What the registry knows about a pull without a subscription of its own.
#[derive(Debug)]
pub enum Subscription<'a> {
    /// The group has no members.
    GroupUnknown,
    /// Nobody in the group subscribed to the topic.
    TopicUnknown {
        /// The group is a broadcasting one.
        broadcasting: bool,
    },
    /// The puller's own subscription; the group's newest if the puller is no member.
    Found {
        /// The group is a broadcasting one.
        broadcasting: bool,
        /// The subscription.
        subscribed: &'a Subscribed,
    },
}

/// The consumers by group. A group without members does not exist.
#[derive(Debug)]
pub struct ConsumerGroups {
    groups: BTreeMap<Arc<str>, Group>,
    connections: BTreeMap<ConnectionId, BTreeSet<Arc<str>>>,
    count: usize,
    limit: usize,
}

#[derive(Debug)]
struct Group {
    members: BTreeMap<ConnectionId, Member>,
    consume_type: ConsumeType,
    message_model: MessageModel,
    consume_from_where: ConsumeFromWhere,
    notify: bool,
    union: BTreeMap<String, Arc<Subscribed>>,
    conflicts: Vec<Conflict>,
}

impl ConsumerGroups {
    pub(super) fn new(limit: usize) -> ConsumerGroups {
        ConsumerGroups { groups: BTreeMap::new(), connections: BTreeMap::new(), count: 0, limit }
    }

    /// A member's heartbeat. Members are told if one came or the set of topics changed. True: a heartbeat v2 has to
    /// come in full next time, because what it left out is not known here.
    pub fn register(&mut self, registration: &Registration<'_>, now: Millis, out: &mut Vec<Effect>) -> bool {
        let Registration { connection, client, data, fingerprint, notify, .. } = *registration;
        let name = match self.groups.get_key_value(data.group_name.as_str()) {
            Some((name, _)) => name.clone(),
            None => data.group_name.as_str().into(),
        };
        let known = self.groups.get(&name).and_then(|group| group.members.get(&connection.id));
        let came = known.is_none();
        if came && self.count >= self.limit {
            out.push(Effect::Report(Report::TableFull { setting: "clientsMax", limit: self.limit }));
            return false;
        }
        let needs_full =
            registration.without_subscriptions && known.is_none_or(|member| member.fingerprint != fingerprint);
        let group = self.groups.entry(name.clone()).or_insert_with(|| Group {
            members: BTreeMap::new(),
            consume_type: data.consume_type,
            message_model: data.message_model,
            consume_from_where: data.consume_from_where,
            notify,
            union: BTreeMap::new(),
            conflicts: Vec::new(),
        });
        group.consume_type = data.consume_type;
        group.message_model = data.message_model;
        group.consume_from_where = data.consume_from_where;
        group.notify = notify;
        let member = group.members.entry(connection.id).or_insert_with(|| Member {
            client: client.into(),
            connection,
            last_seen: now,
            subscriptions: BTreeMap::new(),
            fingerprint: 0,
            signature: "".into(),
        });
        member.last_seen = now;
        member.connection = connection;
        let resubscribed = !registration.without_subscriptions && member.subscribe(data);
        if !registration.without_subscriptions {
            member.fingerprint = fingerprint;
        }
        if came {
            self.count += 1;
            self.connections.entry(connection.id).or_default().insert(name.clone());
        }
        if came || resubscribed {
            let topics_changed = group.recompute(&name, out);
            group.tell_if(came || topics_changed, &name, out);
        }
        needs_full
    }

    /// A member leaves its group and the others are told. Returns its client id.
    pub fn unregister(&mut self, group: &str, connection: ConnectionId, out: &mut Vec<Effect>) -> Option<Arc<str>> {
        self.leave(group, &[connection], out).pop().map(|member| member.client)
    }

    pub(super) fn on_connection_closed(&mut self, connection: ConnectionId, out: &mut Vec<Effect>) {
        for group in self.connections.get(&connection).cloned().unwrap_or_default() {
            self.leave(&group, &[connection], out);
        }
    }

    pub(super) fn expire(&mut self, now: Millis, out: &mut Vec<Effect>) -> Vec<Expired> {
        let expired = |member: &Member| now.since(member.last_seen) > EXPIRY_MS;
        let silent = |group: &Group| -> Vec<ConnectionId> {
            group.members.iter().filter(|(_, member)| expired(member)).map(|(id, _)| *id).collect()
        };
        let gone: Vec<(Arc<str>, Vec<ConnectionId>)> =
            self.groups.iter().map(|(name, group)| (name.clone(), silent(group))).collect();
        let mut members = Vec::new();
        for (name, connections) in gone.iter().filter(|(_, connections)| !connections.is_empty()) {
            members.extend(self.leave(name, connections, out));
        }
        let idle_ms = |member: &Member| now.since(member.last_seen);
        let expired = members.into_iter().map(|member| Expired {
            connection: member.connection.id,
            idle_ms: idle_ms(&member),
            client: member.client,
        });
        expired.collect()
    }

    /// Members leave together, and those who stay are told once.
    fn leave(&mut self, group: &str, connections: &[ConnectionId], out: &mut Vec<Effect>) -> Vec<Member> {
        let Some((name, _)) = self.groups.get_key_value(group) else { return Vec::new() };
        let name = name.clone();
        let Some(entry) = self.groups.get_mut(&name) else { return Vec::new() };
        let left: Vec<Member> = connections.iter().filter_map(|id| entry.members.remove(id)).collect();
        if left.is_empty() {
            return left;
        }
        if entry.members.is_empty() {
            self.groups.remove(&name);
        } else {
            entry.recompute(&name, out);
            entry.tell_if(true, &name, out);
        }
        self.count -= left.len();
        for member in &left {
            let Some(groups) = self.connections.get_mut(&member.connection.id) else { continue };
            groups.remove(&name);
            if groups.is_empty() {
                self.connections.remove(&member.connection.id);
            }
        }
        left
    }

    pub(super) fn knows(&self, connection: ConnectionId) -> bool {
        self.connections.contains_key(&connection)
    }

    /// What a pull over this connection is filtered by.
    pub fn subscription(&self, group: &str, connection: ConnectionId, topic: &str) -> Subscription<'_> {
        let Some(group) = self.groups.get(group) else { return Subscription::GroupUnknown };
        let broadcasting = group.message_model == MessageModel::Broadcasting;
        let own = group.members.get(&connection).and_then(|member| member.subscriptions.get(topic));
        match own.or_else(|| group.union.get(topic)) {
            Some(subscribed) => Subscription::Found { broadcasting, subscribed },
            None => Subscription::TopicUnknown { broadcasting },
        }
    }

    /// The client id that a connection has in a group, if it is a member.
    pub fn client_of(&self, group: &str, connection: ConnectionId) -> Option<&Arc<str>> {
        Some(&self.groups.get(group)?.members.get(&connection)?.client)
    }

    /// The connection of a member, the newest if it has several.
    pub fn connection_of(&self, group: &str, client: &str) -> Option<&Member> {
        self.groups.get(group)?.members.values().rev().find(|member| &*member.client == client)
    }

    /// The client ids of a group's members, each once (GET_CONSUMER_LIST_BY_GROUP).
    pub fn client_ids(&self, group: &str) -> BTreeSet<Arc<str>> {
        let members = self.groups.get(group).into_iter().flat_map(|group| group.members.values());
        members.map(|member| member.client.clone()).collect()
    }

    /// What is known of a group with members.
    pub fn info(&self, group: &str) -> Option<GroupInfo<'_>> {
        let group = self.groups.get(group)?;
        Some(GroupInfo {
            consume_type: group.consume_type,
            message_model: group.message_model,
            consume_from_where: group.consume_from_where,
            members: group.members.values().collect(),
            subscriptions: group.union.values().map(|subscribed| &subscribed.data).collect(),
            conflicts: &group.conflicts,
        })
    }

    /// The groups with members, by name.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.groups.keys()
    }

    /// The groups with a member that subscribed to a topic (QUERY_TOPIC_CONSUME_BY_WHO).
    pub fn groups_of<'a>(&'a self, topic: &'a str) -> impl Iterator<Item = &'a Arc<str>> {
        self.groups.iter().filter(move |(_, group)| group.union.contains_key(topic)).map(|(name, _)| name)
    }

    /// All conflicts of all groups.
    pub fn conflicts(&self) -> impl Iterator<Item = &Conflict> {
        self.groups.values().flat_map(|group| &group.conflicts)
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

impl Member {
    /// Takes the subscriptions of a full heartbeat: of a topic already known only a newer version, and topics it does
    /// not name any more are gone. True if anything changed.
    fn subscribe(&mut self, data: &ConsumerData) -> bool {
        let mut changed = false;
        let wanted = || data.subscription_data_set.iter().take(SUBSCRIPTIONS_MAX);
        for subscription in wanted() {
            let known = self.subscriptions.get(&subscription.topic);
            if known.is_none_or(|known| subscription.sub_version > known.data.sub_version) {
                let own = Subscribed::new(subscription.clone());
                self.subscriptions.insert(subscription.topic.clone(), Arc::new(own));
                changed = true;
            }
        }
        if self.subscriptions.len() > wanted().count() {
            let named: BTreeSet<&str> = wanted().map(|subscription| subscription.topic.as_str()).collect();
            self.subscriptions.retain(|topic, _| named.contains(topic.as_str()));
            changed = true;
        }
        if changed {
            self.signature = signature(self.subscriptions.values().map(|subscribed| &subscribed.data));
        }
        changed
    }
}

impl Group {
    /// Brings the union and the conflicts up to date. True if the set of topics changed.
    fn recompute(&mut self, name: &Arc<str>, out: &mut Vec<Effect>) -> bool {
        let mut union: BTreeMap<String, Arc<Subscribed>> = BTreeMap::new();
        for (topic, subscribed) in self.members.values().flat_map(|member| &member.subscriptions) {
            if union.get(topic).is_none_or(|other| subscribed.data.sub_version > other.data.sub_version) {
                union.insert(topic.clone(), Arc::clone(subscribed));
            }
        }
        let topics_changed = !union.keys().eq(self.union.keys());
        self.union = union;
        let conflicts = conflict::find(name, self.members.values());
        for conflict in conflicts.iter().filter(|conflict| !self.conflicts.contains(conflict)) {
            out.push(Effect::Report(Report::SubscriptionConflict(conflict.clone())));
        }
        self.conflicts = conflicts;
        topics_changed
    }

    fn tell_if(&self, changed: bool, name: &Arc<str>, out: &mut Vec<Effect>) {
        if changed && self.notify && self.message_model != MessageModel::Broadcasting {
            let connections = self.members.keys().copied().collect();
            out.push(Effect::NotifyIdsChanged { group: name.clone(), connections });
        }
    }
}

/// Subscriptions as text: topics in order, tags in order. The retry topic is not the application's choice.
fn signature<'a>(subscriptions: impl Iterator<Item = &'a SubscriptionData>) -> Arc<str> {
    let mut text = String::new();
    for data in subscriptions.filter(|data| !names::is_retry_topic(&data.topic)) {
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(&data.topic);
        text.push(' ');
        if data.expression_type == ExpressionType::Tag && !data.tags_set.is_empty() {
            let tags: Vec<&str> = data.tags_set.iter().map(String::as_str).collect();
            text.push_str(&tags.join("||"));
        } else {
            text.push_str(&data.sub_string);
        }
    }
    text.into()
}
