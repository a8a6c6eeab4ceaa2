//! Subscriptions that only pulls tell of: those of consumers that never register.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::env::Millis;
use crate::proto::filter::{ExpressionType, SubscriptionData};

/// Subscriptions by group and topic, each forgotten some time after the last pull that brought it. For admin questions
/// only: a pull that brings its subscription needs no table.
#[derive(Debug)]
pub struct PullSubscriptions {
    groups: BTreeMap<Arc<str>, Topics>,
    count: usize,
    expiry_ms: u64,
    limit: usize,
}

type Topics = BTreeMap<Arc<str>, (SubscriptionData, Millis)>;

impl PullSubscriptions {
    pub(super) fn new(expiry_ms: u64, limit: usize) -> PullSubscriptions {
        PullSubscriptions { groups: BTreeMap::new(), count: 0, expiry_ms, limit }
    }

    /// A pull brought this expression, which is known to parse. Nothing is allocated while it stays the same. Of a full
    /// table new ones are left out.
    pub fn note(
        &mut self,
        group: &str,
        topic: &str,
        (kind, expression, version): (ExpressionType, &str, i64),
        now: Millis,
    ) {
        if let Some((known, seen)) = self.groups.get_mut(group).and_then(|topics| topics.get_mut(topic)) {
            *seen = now;
            if known.sub_string == expression && known.expression_type == kind {
                known.sub_version = version;
                return;
            }
        } else if self.count >= self.limit {
            return;
        }
        let Ok(subscription) = SubscriptionData::new(topic, kind, expression, version) else { return };
        let topics = self.groups.entry(group.into()).or_default();
        if topics.insert(topic.into(), (subscription, now)).is_none() {
            self.count += 1;
        }
    }

    /// The subscription a group's pulls brought for a topic.
    pub fn get(&self, group: &str, topic: &str) -> Option<&SubscriptionData> {
        self.groups.get(group)?.get(topic).map(|(subscription, _)| subscription)
    }

    /// The topics a group pulled with a subscription.
    pub fn topics_of<'a>(&'a self, group: &str) -> impl Iterator<Item = &'a Arc<str>> + use<'a> {
        self.groups.get(group).into_iter().flat_map(BTreeMap::keys)
    }

    /// The groups that pulled a topic with a subscription.
    pub fn groups_of<'a>(&'a self, topic: &'a str) -> impl Iterator<Item = &'a Arc<str>> {
        self.groups.iter().filter(move |(_, topics)| topics.contains_key(topic)).map(|(group, _)| group)
    }

    pub(super) fn expire(&mut self, now: Millis) {
        let expiry_ms = self.expiry_ms;
        self.groups.retain(|_, topics| {
            topics.retain(|_, (_, seen)| now.since(*seen) <= expiry_ms);
            !topics.is_empty()
        });
        self.count = self.groups.values().map(BTreeMap::len).sum();
    }
}
