//! Where a topic's queues are, seen from producers and from consumers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::proto::body::{permission, BrokerData, MessageQueue, TopicRouteData};

/// The id of a broker that takes messages.
pub const MASTER_ID: i64 = 0;
/// The topic whose route stands in for one that the broker makes at the first send.
pub const TEMPLATE_TOPIC: &str = "TBW102";
/// Topics that a client keeps routes of; beyond, the one used longest ago is forgotten.
const TOPICS_MAX: usize = 10_000;
/// Routes that nobody asked for as long as this are forgotten.
const UNUSED_MAX: Duration = Duration::from_secs(600);

/// The route of one topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// What the NameServer said.
    pub data: TopicRouteData,
    /// Queues that producers send to, by broker name and number.
    pub writable: Vec<MessageQueue>,
    /// Queues that consumers read, in the order of queues.
    pub readable: Vec<MessageQueue>,
}

impl Route {
    /// The route of `topic` as a NameServer describes it.
    pub fn new(topic: &str, mut data: TopicRouteData) -> Route {
        data.queue_datas.sort();
        data.broker_datas.sort();
        let readable = data.queue_datas.iter().filter(|queues| permission::is_readable(queues.perm));
        let readable = readable.flat_map(|queues| numbered(topic, &queues.broker_name, queues.read_queue_nums));
        let readable: BTreeSet<MessageQueue> = readable.collect();
        Route { writable: writable(topic, &data), readable: readable.into_iter().collect(), data }
    }

    /// The route of a topic that does not exist yet, from that of its template: the broker will make at most `queues`.
    pub fn from_template(topic: &str, mut template: TopicRouteData, queues: i32) -> Route {
        for data in &mut template.queue_datas {
            data.write_queue_nums = data.write_queue_nums.min(queues);
            data.read_queue_nums = data.read_queue_nums.min(queues);
        }
        template.order_topic_conf = None;
        Route::new(topic, template)
    }

    /// Whether there is nowhere to send to, perhaps only because a broker of the topic has no master now. The permission
    /// proves nothing meanwhile: NameServers take what a slave registers for read-only.
    pub fn lacks_master(&self) -> bool {
        let masterless = |broker: &BrokerData| !broker.broker_addrs.contains_key(&MASTER_ID);
        self.writable.is_empty() && self.data.broker_datas.iter().any(masterless)
    }
}

/// The queues a producer may choose from. A topic with fixed queues lists those whether or not their broker is there:
/// sends to it fail, and its keys stay where they are.
fn writable(topic: &str, data: &TopicRouteData) -> Vec<MessageQueue> {
    if let Some(order) = data.order_topic_conf.as_deref().filter(|order| !order.is_empty()) {
        let entries = order.split(';').filter_map(|entry| entry.split_once(':'));
        return entries
            .filter_map(|(broker, count)| Some((broker, count.trim().parse().ok()?)))
            .flat_map(|(broker, count)| numbered(topic, broker, count))
            .collect();
    }
    let has_master = |name: &str| {
        data.broker_datas
            .iter()
            .any(|broker| broker.broker_name == name && broker.broker_addrs.contains_key(&MASTER_ID))
    };
    data.queue_datas
        .iter()
        .filter(|queues| permission::is_writable(queues.perm) && has_master(&queues.broker_name))
        .flat_map(|queues| numbered(topic, &queues.broker_name, queues.write_queue_nums))
        .collect()
}

fn numbered(topic: &str, broker: &str, count: i32) -> impl Iterator<Item = MessageQueue> + use<> {
    /// A NameServer that says more is wrong.
    const QUEUES_MAX: i32 = 100_000;
    let (topic, broker) = (topic.to_owned(), broker.to_owned());
    (0..count.clamp(0, QUEUES_MAX)).map(move |queue_id| MessageQueue {
        topic: topic.clone(),
        broker_name: broker.clone(),
        queue_id,
    })
}

/// All routes a client knows. Times are of a monotonic clock.
#[derive(Debug, Default)]
pub struct RouteTable {
    topics: BTreeMap<String, Entry>,
    /// Addresses by broker name and id, from all routes together.
    brokers: BTreeMap<String, BTreeMap<i64, String>>,
}

#[derive(Debug)]
struct Entry {
    route: Arc<Route>,
    fetched_at: Duration,
    used_at: Duration,
}

impl RouteTable {
    /// The route of a topic, which is in use from now on.
    pub fn get(&mut self, topic: &str, now: Duration) -> Option<Arc<Route>> {
        let entry = self.topics.get_mut(topic)?;
        entry.used_at = now;
        Some(Arc::clone(&entry.route))
    }

    /// When the route of a topic was fetched; does not count as use.
    pub fn fetched_at(&self, topic: &str) -> Option<Duration> {
        self.topics.get(topic).map(|entry| entry.fetched_at)
    }

    /// Takes a fetched route; true if it differs from the one before.
    pub fn put(&mut self, topic: &str, route: Route, now: Duration) -> bool {
        if let Some(entry) = self.topics.get_mut(topic) {
            entry.fetched_at = now;
            if *entry.route == route {
                // Another topic's route may have said something else of its brokers meanwhile.
                learn(&mut self.brokers, &route.data);
                return false;
            }
            entry.route = Arc::new(route);
        } else {
            if self.topics.len() >= TOPICS_MAX {
                let oldest = self.topics.iter().min_by_key(|(_, entry)| entry.used_at).map(|(topic, _)| topic.clone());
                oldest.map(|topic| self.topics.remove(&topic));
            }
            let entry = Entry { route: Arc::new(route), fetched_at: now, used_at: now };
            self.topics.insert(topic.to_owned(), entry);
        }
        self.collect_brokers();
        true
    }

    /// The topic is gone.
    pub fn remove(&mut self, topic: &str) {
        if self.topics.remove(topic).is_some() {
            self.collect_brokers();
        }
    }

    /// Forgets routes that nobody used lately, and names the others.
    pub fn in_use(&mut self, now: Duration) -> Vec<String> {
        self.topics.retain(|_, entry| now.saturating_sub(entry.used_at) < UNUSED_MAX);
        self.collect_brokers();
        self.topics.keys().cloned().collect()
    }

    /// The address of a broker's master.
    pub fn master(&self, broker: &str) -> Option<&str> {
        self.brokers.get(broker)?.get(&MASTER_ID).map(String::as_str)
    }

    /// The address to read from: that of `id`, else of the lowest id there is.
    pub fn reader(&self, broker: &str, id: i64) -> Option<(i64, &str)> {
        let addresses = self.brokers.get(broker)?;
        let found = addresses.get_key_value(&id).or_else(|| addresses.first_key_value())?;
        Some((*found.0, found.1.as_str()))
    }

    /// All brokers: addresses by name and id.
    pub fn brokers(&self) -> &BTreeMap<String, BTreeMap<i64, String>> {
        &self.brokers
    }

    fn collect_brokers(&mut self) {
        // Of two routes that differ about a broker the one fetched last is right.
        let mut entries: Vec<&Entry> = self.topics.values().collect();
        entries.sort_by_key(|entry| entry.fetched_at);
        self.brokers.clear();
        for entry in entries {
            learn(&mut self.brokers, &entry.route.data);
        }
    }
}

/// Takes what a route says of brokers for the newest that is known.
fn learn(brokers: &mut BTreeMap<String, BTreeMap<i64, String>>, route: &TopicRouteData) {
    for broker in &route.broker_datas {
        if brokers.get(&broker.broker_name) != Some(&broker.broker_addrs) {
            brokers.insert(broker.broker_name.clone(), broker.broker_addrs.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::body::QueueData;

    fn route_data(brokers: &[(&str, i64, i32, i32, i32)]) -> TopicRouteData {
        let queue = |&(name, _, read, write, perm): &(&str, i64, i32, i32, i32)| QueueData {
            broker_name: name.into(),
            perm,
            read_queue_nums: read,
            topic_sys_flag: 0,
            write_queue_nums: write,
        };
        let broker = |&(name, id, ..): &(&str, i64, i32, i32, i32)| BrokerData {
            broker_name: name.into(),
            broker_addrs: [(id, format!("{name}:1"))].into(),
            ..BrokerData::default()
        };
        TopicRouteData {
            queue_datas: brokers.iter().map(queue).collect(),
            broker_datas: brokers.iter().map(broker).collect(),
            ..TopicRouteData::default()
        }
    }

    fn names(queues: &[MessageQueue]) -> Vec<String> {
        queues.iter().map(|queue| format!("{}/{}", queue.broker_name, queue.queue_id)).collect()
    }

    #[test]
    fn queues_follow_permissions_masters_and_the_order_of_names() {
        let data = route_data(&[("b", 0, 1, 2, 6), ("a", 0, 2, 1, 6), ("s", 1, 1, 1, 6), ("r", 0, 1, 1, 4)]);
        let route = Route::new("T", data);
        assert_eq!(names(&route.writable), ["a/0", "b/0", "b/1"], "s has no master, r is read-only");
        let lacks_master = |brokers: &[_]| Route::new("T", route_data(brokers)).lacks_master();
        assert!(lacks_master(&[("s", 1, 1, 1, 6), ("r", 0, 1, 1, 4)]) && !route.lacks_master());
        assert!(lacks_master(&[("s", 1, 1, 1, 4)]), "what a slave registers is shown read-only");
        assert!(!lacks_master(&[("r", 0, 1, 1, 4)]), "its master says that it takes nothing");
        assert_eq!(names(&route.readable), ["a/0", "a/1", "b/0", "r/0", "s/0"]);
    }

    #[test]
    fn an_ordered_topic_keeps_its_queues_without_their_broker() {
        let mut data = route_data(&[("a", 0, 1, 1, 6)]);
        data.order_topic_conf = Some("a:1;b:2".into());
        assert_eq!(names(&Route::new("T", data).writable), ["a/0", "b/0", "b/1"]);
    }

    #[test]
    fn a_template_lends_as_many_queues_as_asked_for() {
        let route = Route::from_template("T", route_data(&[("a", 0, 8, 8, 7)]), 2);
        assert_eq!(names(&route.writable), ["a/0", "a/1"]);
        assert_eq!(route.writable[0].topic, "T");
    }

    #[test]
    fn the_latest_route_says_where_a_broker_is() {
        let (mut table, second) = (RouteTable::default(), Duration::from_secs(1));
        let mut moved = route_data(&[("a", 0, 1, 1, 6)]);
        moved.broker_datas[0].broker_addrs = [(0, "new:1".to_owned()), (1, "slave:1".to_owned())].into();
        assert!(table.put("T1", Route::new("T1", moved.clone()), second));
        assert!(!table.put("T1", Route::new("T1", moved), second * 2));
        assert!(table.put("T0", Route::new("T0", route_data(&[("a", 0, 1, 1, 6)])), second));
        assert_eq!(table.master("a"), Some("new:1"));
        assert_eq!(table.reader("a", 1), Some((1, "slave:1")));
        assert_eq!(table.reader("a", 7), Some((0, "new:1")), "an id that is not there");
        assert_eq!(table.reader("b", 0), None);
        table.get("T0", second * 700);
        assert_eq!(table.in_use(second * 700), ["T0"], "forgotten after ten minutes without use");
        assert_eq!(table.master("a"), Some("a:1"));
    }

    /// A master was restarted. The topics' routes were fetched at different moments, and the one that says what it said
    /// before was not heard: sends failed until the next difference.
    #[test]
    fn a_route_that_says_the_same_as_before_is_the_newest_word_on_its_brokers() {
        let (mut table, second) = (RouteTable::default(), Duration::from_secs(1));
        let (with, without) = (route_data(&[("a", 0, 1, 1, 6)]), route_data(&[("a", 1, 1, 1, 6)]));
        table.put("T0", Route::new("T0", with.clone()), second);
        table.put("T1", Route::new("T1", without), second * 2);
        assert_eq!(table.master("a"), None);
        assert!(!table.put("T0", Route::new("T0", with), second * 3));
        assert_eq!(table.master("a"), Some("a:1"));
    }
}
