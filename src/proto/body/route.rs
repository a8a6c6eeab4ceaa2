//! Where a topic's queues are, and who makes up a cluster.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Answer of GET_ROUTEINFO_BY_TOPIC (105). Written without blanks: the Go client takes `brokerAddrs` apart as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopicRouteData {
    /// The brokers, one entry per name.
    pub broker_datas: Vec<BrokerData>,
    /// Filter servers of a broker, by its address; empty today.
    pub filter_server_table: BTreeMap<String, Vec<String>>,
    /// `broker-a:8;broker-b:8` for a topic whose queues are fixed so that its order is kept.
    pub order_topic_conf: Option<String>,
    /// The queues, one entry per broker name.
    pub queue_datas: Vec<QueueData>,
}

/// A topic's queues on one broker.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct QueueData {
    /// The broker.
    pub broker_name: String,
    /// Permission bits, [`super::permission`].
    pub perm: i32,
    /// Queues that consumers read.
    pub read_queue_nums: i32,
    /// Bit 0 unit, bit 1 unit subscription.
    pub topic_sys_flag: i32,
    /// Queues that producers write.
    pub write_queue_nums: i32,
}

/// The addresses of one broker name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BrokerData {
    /// Address by broker id; 0 is the master.
    pub broker_addrs: BTreeMap<i64, String>,
    /// The name that master and slaves share.
    pub broker_name: String,
    /// The cluster.
    pub cluster: String,
    /// Whether a slave may stand in for a missing master.
    pub enable_acting_master: bool,
    /// The zone the broker is in.
    pub zone_name: Option<String>,
}

/// Answer of GET_BROKER_CLUSTER_INFO (106).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClusterInfo {
    /// Brokers by name.
    pub broker_addr_table: BTreeMap<String, BrokerData>,
    /// Broker names by cluster.
    pub cluster_addr_table: BTreeMap<String, BTreeSet<String>>,
}

/// Answer of GET_BROKER_MEMBER_GROUP (901).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GetBrokerMemberGroupResponseBody {
    /// The broker's members.
    pub broker_member_group: BrokerMemberGroup,
}

/// Master and slaves of one broker name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BrokerMemberGroup {
    /// Address by broker id.
    pub broker_addrs: BTreeMap<i64, String>,
    /// The name that master and slaves share.
    pub broker_name: String,
    /// The cluster.
    pub cluster: String,
}
