//! Which broker names hold how many queues of which topic.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Permission bit: consumers may read.
pub const PERM_READ: i32 = 4;
/// Permission bit: producers may write.
pub const PERM_WRITE: i32 = 2;

/// The queues of one topic on one broker name (RocketMQ's `QueueData` without the name).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queues {
    /// Queues consumers read: ids `0..read`.
    pub read: i32,
    /// Queues producers write: ids `0..write`.
    pub write: i32,
    /// Bits of [`PERM_READ`], [`PERM_WRITE`] and 1 (INHERIT: a template for new topics).
    pub perm: i32,
    /// Unit flags: bit 0 unit, bit 1 has unit subscriptions.
    pub system_flag: i32,
}

/// What is known of one topic on one broker name.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// As the broker registered it last: what later registrations are compared with.
    registered: Queues,
    /// As clients see it: an operator may have taken or given the write permission.
    shown: Queues,
}

/// All topics. Topics without a broker do not exist, and neither do brokers without a registration: `RouteTable` removes
/// a broker's entries together with its last address.
#[derive(Default)]
pub(super) struct TopicTable {
    topics: BTreeMap<String, BTreeMap<Arc<str>, Entry>>,
    /// Number of topics of each broker name, so that bounds and absences are noticed without a walk.
    counts: BTreeMap<Arc<str>, usize>,
}

impl TopicTable {
    /// Takes what `broker` registered for `topic`. What the broker says counts when it is news: when `fresh` (the broker
    /// has just come), when the topic is new here, or when it differs from what the broker said before. RocketMQ asks
    /// whether the data version differs instead; so a lost registration between two others leaves it with stale queues
    /// for good, and any topic change gives a wiped write permission back to all topics.
    pub fn accept(&mut self, topic: &str, broker: &Arc<str>, queues: Queues, fresh: bool) {
        let news = Entry { registered: queues, shown: queues };
        let Some(brokers) = self.topics.get_mut(topic) else {
            self.topics.insert(topic.to_owned(), BTreeMap::from([(broker.clone(), news)]));
            self.count_one(broker);
            return;
        };
        match brokers.get_mut(broker) {
            Some(entry) if fresh || entry.registered != queues => *entry = news,
            Some(_) => {}
            None => {
                brokers.insert(broker.clone(), news);
                self.count_one(broker);
            }
        }
    }

    fn count_one(&mut self, broker: &Arc<str>) {
        *self.counts.entry(broker.clone()).or_default() += 1;
    }

    /// Number of pairs of topic and broker name.
    pub fn entries(&self) -> usize {
        self.counts.values().sum()
    }

    /// Number of topics that `broker` holds.
    pub fn count_of(&self, broker: &str) -> usize {
        self.counts.get(broker).copied().unwrap_or(0)
    }

    /// True if `broker` holds `topic`.
    pub fn contains(&self, topic: &str, broker: &str) -> bool {
        self.topics.get(topic).is_some_and(|brokers| brokers.contains_key(broker))
    }

    /// Removes `broker` from every topic whose name is not accepted by `keep`.
    pub fn remove_broker_unless(&mut self, broker: &str, mut keep: impl FnMut(&str) -> bool) {
        let mut left = self.count_of(broker);
        self.topics.retain(|topic, brokers| {
            if brokers.contains_key(broker) && !keep(topic) {
                brokers.remove(broker);
                left -= 1;
            }
            !brokers.is_empty()
        });
        self.set_count(broker, left);
    }

    /// Removes `topic` from all broker names, or only from `brokers`.
    pub fn remove_topic(&mut self, topic: &str, brokers: Option<&BTreeSet<&str>>) {
        let Some(holders) = self.topics.get_mut(topic) else { return };
        let gone: Vec<Arc<str>> =
            holders.keys().filter(|name| brokers.is_none_or(|only| only.contains(&***name))).cloned().collect();
        for name in &gone {
            holders.remove(name);
        }
        if holders.is_empty() {
            self.topics.remove(topic);
        }
        for name in &gone {
            self.set_count(name, self.count_of(name) - 1);
        }
    }

    fn set_count(&mut self, broker: &str, count: usize) {
        if count == 0 {
            self.counts.remove(broker);
        } else if let Some(counted) = self.counts.get_mut(broker) {
            *counted = count;
        }
    }

    /// Changes the permission that clients see of every topic of `broker` and answers their number.
    pub fn change_perm(&mut self, broker: &str, change: impl Fn(i32) -> i32) -> usize {
        let mut changed = 0;
        for entry in self.topics.values_mut().filter_map(|brokers| brokers.get_mut(broker)) {
            entry.shown.perm = change(entry.shown.perm);
            changed += 1;
        }
        changed
    }

    /// The queues of `topic` by broker name, as clients see them; nothing for an unknown topic.
    pub fn queues_of(&self, topic: &str) -> impl Iterator<Item = (&str, Queues)> {
        self.topics.get(topic).into_iter().flatten().map(|(name, entry)| (&**name, entry.shown))
    }

    /// The names of all topics.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.topics.keys().map(String::as_str)
    }

    /// The names of the topics with a broker whose name and queues satisfy `wanted`.
    pub fn names_where(&self, mut wanted: impl FnMut(&str, Queues) -> bool) -> impl Iterator<Item = &str> {
        self.topics
            .iter()
            .filter(move |(_, brokers)| brokers.iter().any(|(name, entry)| wanted(name, entry.shown)))
            .map(|(topic, _)| topic.as_str())
    }

    /// INV-NS-2: the counts agree with the table, and no topic is without a broker.
    pub fn check(&self) {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (topic, brokers) in &self.topics {
            assert!(!brokers.is_empty(), "topic {topic} has no broker");
            for name in brokers.keys() {
                *counts.entry(name).or_default() += 1;
            }
        }
        let counted: BTreeMap<&str, usize> = self.counts.iter().map(|(name, count)| (&**name, *count)).collect();
        assert_eq!(counted, counts, "topic counts disagree with the table");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUES: Queues = Queues { read: 4, write: 4, perm: 6, system_flag: 0 };

    fn shown(table: &TopicTable, topic: &str) -> Vec<(String, i32)> {
        table.queues_of(topic).map(|(name, queues)| (name.to_owned(), queues.perm)).collect()
    }

    #[test]
    fn a_wiped_permission_lasts_until_the_broker_says_something_new() {
        let mut table = TopicTable::default();
        let broker: Arc<str> = "a".into();
        table.accept("T", &broker, QUEUES, true);
        assert_eq!(table.change_perm("a", |perm| perm & !PERM_WRITE), 1);
        table.accept("T", &broker, QUEUES, false);
        assert_eq!(shown(&table, "T"), [("a".to_owned(), 4)], "the same registration again is no news");
        table.accept("T", &broker, Queues { write: 8, ..QUEUES }, false);
        assert_eq!(shown(&table, "T"), [("a".to_owned(), 6)]);
        table.change_perm("a", |perm| perm & !PERM_WRITE);
        table.accept("T", &broker, Queues { write: 8, ..QUEUES }, true);
        assert_eq!(shown(&table, "T"), [("a".to_owned(), 6)], "a broker that comes anew starts anew");
    }

    #[test]
    fn topics_go_with_their_last_broker() {
        let mut table = TopicTable::default();
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        table.accept("T", &a, QUEUES, true);
        table.accept("T", &b, QUEUES, true);
        table.accept("U", &a, QUEUES, true);
        assert_eq!((table.entries(), table.count_of("a")), (3, 2));
        table.remove_broker_unless("a", |topic| topic == "T");
        assert_eq!(table.names().collect::<Vec<_>>(), ["T"]);
        table.remove_topic("T", Some(&BTreeSet::from(["b"])));
        assert_eq!(shown(&table, "T"), [("a".to_owned(), 6)]);
        table.check();
        table.remove_topic("T", None);
        assert_eq!((table.entries(), table.count_of("a")), (0, 0));
        table.check();
    }
}
