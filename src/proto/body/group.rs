//! Consumer groups as brokers keep them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::json::known_or_default;
use super::DataVersion;

/// One consumer group on one broker.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SubscriptionGroupConfig {
    /// Named properties of the group.
    pub attributes: BTreeMap<String, String>,
    /// The broker to read from: 0, the master.
    pub broker_id: i64,
    /// Whether members may consume by broadcast.
    pub consume_broadcast_enable: bool,
    /// Whether the group may consume at all.
    pub consume_enable: bool,
    /// Whether it may begin at the queue's minimum.
    pub consume_from_min_enable: bool,
    /// Whether the group consumes in order (pop).
    pub consume_message_orderly: bool,
    /// Minutes a message may be in consumption.
    pub consume_timeout_minute: i32,
    /// Its name.
    pub group_name: String,
    /// When failed messages come again (pop).
    pub group_retry_policy: GroupRetryPolicy,
    /// Bit 0 unit.
    pub group_sys_flag: i32,
    /// Whether members are told when another comes or goes.
    pub notify_consumer_ids_changed_enable: bool,
    /// How often a message is delivered again before it goes to the dead letters.
    pub retry_max_times: i32,
    /// Queues of the retry topic; none: failed messages are dropped.
    pub retry_queue_nums: i32,
    /// Fixed subscriptions of the group.
    pub subscription_data_set: Option<Vec<SimpleSubscriptionData>>,
    /// The broker to read from while the group is far behind.
    pub which_broker_when_consume_slowly: i64,
}

impl Default for SubscriptionGroupConfig {
    fn default() -> SubscriptionGroupConfig {
        SubscriptionGroupConfig::new(String::new())
    }
}

impl SubscriptionGroupConfig {
    /// A group as it is created when nobody says otherwise.
    pub fn new(name: impl Into<String>) -> SubscriptionGroupConfig {
        SubscriptionGroupConfig {
            attributes: BTreeMap::new(),
            broker_id: 0,
            consume_broadcast_enable: true,
            consume_enable: true,
            consume_from_min_enable: true,
            consume_message_orderly: false,
            consume_timeout_minute: 15,
            group_name: name.into(),
            group_retry_policy: GroupRetryPolicy::default(),
            group_sys_flag: 0,
            notify_consumer_ids_changed_enable: true,
            retry_max_times: 16,
            retry_queue_nums: 1,
            subscription_data_set: None,
            which_broker_when_consume_slowly: 1,
        }
    }
}

/// When failed messages come again; used for pop only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GroupRetryPolicy {
    /// The steps of a customized policy.
    pub customized_retry_policy: Option<CustomizedRetryPolicy>,
    /// The numbers of an exponential policy.
    pub exponential_retry_policy: Option<ExponentialRetryPolicy>,
    /// Which of the two counts.
    #[serde(rename = "type", deserialize_with = "known_or_default")]
    pub kind: GroupRetryPolicyType,
}

/// Which policy counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum GroupRetryPolicyType {
    /// A growing wait.
    Exponential,
    /// Given steps, or the broker's own.
    #[default]
    Customized,
}

/// Waits given one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct CustomizedRetryPolicy {
    /// The waits in ms.
    pub next: Vec<i64>,
}

/// A wait that grows by a factor.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct ExponentialRetryPolicy {
    /// The first wait in ms.
    pub initial: i64,
    /// The longest wait in ms.
    pub max: i64,
    /// The factor.
    pub multiplier: i64,
}

impl Default for ExponentialRetryPolicy {
    fn default() -> ExponentialRetryPolicy {
        ExponentialRetryPolicy { initial: 5_000, max: 7_200_000, multiplier: 2 }
    }
}

/// A subscription fixed in a group's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SimpleSubscriptionData {
    /// What is wanted.
    pub expression: String,
    /// `TAG` or `SQL92`.
    pub expression_type: String,
    /// Of which topic.
    pub topic: String,
    /// Larger is newer.
    pub version: i64,
}

/// All groups of a broker: answer of GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201) and `subscriptionGroup.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SubscriptionGroupWrapper {
    /// Version of the table.
    pub data_version: DataVersion,
    /// What groups may not do: group, topic, bits of [`super::permission`] (4: may not read).
    pub forbidden_table: BTreeMap<String, BTreeMap<String, i32>>,
    /// Group by name.
    pub subscription_group_table: BTreeMap<String, SubscriptionGroupConfig>,
}

/// Body of UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST (225).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SubscriptionGroupList {
    /// The groups to create or change.
    pub group_config_list: Vec<SubscriptionGroupConfig>,
}

/// Answer of UPDATE_AND_GET_GROUP_FORBIDDEN (353).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct GroupForbidden {
    /// The group.
    pub group: String,
    /// Whether it may read the topic.
    pub readable: bool,
    /// The topic.
    pub topic: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::body::{from_slice, to_vec};

    #[test]
    fn a_new_group_is_written_as_java_writes_it() {
        let json = br#"{"attributes":{},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,"consumeFromMinEnable":true,"consumeMessageOrderly":false,"consumeTimeoutMinute":15,"groupName":"g1","groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}"#;
        let group = SubscriptionGroupConfig::new("g1");
        assert_eq!(to_vec(&group), json);
        assert_eq!(from_slice(json), Ok(group.clone()));
        assert_eq!(from_slice(br#"{"groupName":"g1","subscriptionDataSet":null}"#), Ok(group));
    }
}
