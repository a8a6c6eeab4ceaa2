//! What the route table looks like to those who ask.

use std::collections::{BTreeMap, BTreeSet};

use crate::proto::body::{BrokerData, BrokerMemberGroup, ClusterInfo, QueueData, TopicList, TopicRouteData};

use super::brokers::{names_in_cluster, Group, MASTER_ID};
use super::topics::{Queues, PERM_WRITE};
use super::RouteTable;

/// Unit flag of a topic: it belongs to a unit.
const UNIT: i32 = 1;
/// Unit flag of a topic: units subscribe to it.
const UNIT_SUBSCRIPTION: i32 = 2;

/// Topics with this prefix show a group as it is, because its own members look at it to learn who is there.
const MEMBER_TOPIC_PREFIX: &str = "rmq_sys_SYNC_BROKER_MEMBER_";

/// Which topics a list is of (requests 311 to 313).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitList {
    /// Those with the unit flag.
    Unit,
    /// Those that units subscribe to.
    UnitSubscription,
    /// Those that units subscribe to and that are not in a unit.
    UnitSubscriptionOnly,
}

impl RouteTable {
    /// The queues of `topic` and the brokers that hold them; `None` if there are none. With `zone`, brokers of other zones
    /// are left out as long as they have a master.
    pub fn route(&self, topic: &str, zone: Option<&str>) -> Option<TopicRouteData> {
        let mut route = TopicRouteData::default();
        for (name, queues) in self.topics.queues_of(topic) {
            let Some(group) = self.brokers.get(name) else { continue };
            if zone.is_some_and(|zone| hidden_from_zone(group, zone)) {
                continue;
            }
            let mut data = broker_data(name, group);
            if self.settings.support_acting_master && !topic.starts_with(MEMBER_TOPIC_PREFIX) {
                show_acting_master(&mut data, queues);
            }
            for member in group.members.values().filter(|member| !member.filter_servers.is_empty()) {
                route.filter_server_table.insert(member.address.clone(), member.filter_servers.clone());
            }
            route.broker_datas.push(data);
            route.queue_datas.push(queue_data(name, queues));
        }
        // A zone may hide every broker: that topic exists all the same.
        let known = !route.queue_datas.is_empty() || self.topics.queues_of(topic).next().is_some();
        known.then_some(route)
    }

    /// All brokers and clusters.
    pub fn cluster_info(&self) -> ClusterInfo {
        ClusterInfo {
            broker_addr_table: self
                .brokers
                .iter()
                .map(|(name, group)| (name.to_string(), broker_data(name, group)))
                .collect(),
            cluster_addr_table: self.clusters(),
        }
    }

    /// The processes of one broker name; none for an unknown one.
    pub fn member_group(&self, cluster: &str, broker: &str) -> BrokerMemberGroup {
        BrokerMemberGroup {
            broker_addrs: self.brokers.get(broker).map(addresses).unwrap_or_default(),
            broker_name: broker.to_owned(),
            cluster: cluster.to_owned(),
        }
    }

    /// Every topic.
    pub fn all_topics(&self) -> TopicList {
        topic_list(self.topics.names())
    }

    /// The topics that brokers of `cluster` hold.
    pub fn topics_of_cluster(&self, cluster: &str) -> TopicList {
        let brokers = names_in_cluster(&self.brokers, cluster);
        topic_list(self.topics.names_where(|broker, _| brokers.contains(broker)))
    }

    /// The names of all clusters and brokers, which are topics of their own, and the address of some broker.
    pub fn system_topics(&self) -> TopicList {
        let clusters = self.clusters();
        let names: BTreeSet<&str> = clusters
            .iter()
            .flat_map(|(cluster, brokers)| brokers.iter().chain([cluster]))
            .map(String::as_str)
            .collect();
        let first = self.brokers.values().next().and_then(|group| group.members.values().next());
        TopicList { broker_addr: first.map(|member| member.address.clone()), ..topic_list(names) }
    }

    /// The topics with unit flags.
    pub fn unit_topics(&self, list: UnitList) -> TopicList {
        let wanted = |flag: i32| match list {
            UnitList::Unit => flag & UNIT != 0,
            UnitList::UnitSubscription => flag & UNIT_SUBSCRIPTION != 0,
            UnitList::UnitSubscriptionOnly => flag & (UNIT | UNIT_SUBSCRIPTION) == UNIT_SUBSCRIPTION,
        };
        topic_list(self.topics.names_where(|_, queues| wanted(queues.system_flag)))
    }

    fn clusters(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut clusters: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, group) in &self.brokers {
            for member in group.members.values() {
                clusters.entry(member.cluster.clone()).or_default().insert(name.to_string());
            }
        }
        clusters
    }
}

fn topic_list<'a>(names: impl IntoIterator<Item = &'a str>) -> TopicList {
    TopicList { topic_list: names.into_iter().map(str::to_owned).collect(), ..TopicList::default() }
}

fn addresses(group: &Group) -> BTreeMap<i64, String> {
    group.members.iter().map(|(id, member)| (*id, member.address.clone())).collect()
}

fn broker_data(name: &str, group: &Group) -> BrokerData {
    BrokerData {
        broker_addrs: addresses(group),
        broker_name: name.to_owned(),
        cluster: group.cluster().to_owned(),
        enable_acting_master: group.acting_master,
        zone_name: group.zone.clone(),
    }
}

fn queue_data(broker: &str, queues: Queues) -> QueueData {
    QueueData {
        broker_name: broker.to_owned(),
        perm: queues.perm,
        read_queue_nums: queues.read,
        topic_sys_flag: queues.system_flag,
        write_queue_nums: queues.write,
    }
}

/// A client near one zone does not see the brokers of others, except where a master is missing: then it may read from any.
fn hidden_from_zone(group: &Group, zone: &str) -> bool {
    let same = group.zone.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(zone));
    !same && group.members.contains_key(&MASTER_ID)
}

/// Shows the smallest slave as the master, so that consumers can read and lock there. Only for queues nobody may write.
fn show_acting_master(data: &mut BrokerData, queues: Queues) {
    if !data.enable_acting_master || data.broker_addrs.contains_key(&MASTER_ID) || queues.perm & PERM_WRITE != 0 {
        return;
    }
    if let Some((_, address)) = data.broker_addrs.pop_first() {
        data.broker_addrs.insert(MASTER_ID, address);
    }
}
