//! Subscription groups: how each consumer group may consume; `subscriptionGroup.json`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::env::Millis;
use crate::proto::body::{permission, DataVersion, SubscriptionGroupConfig, SubscriptionGroupWrapper};
use crate::proto::message::{names, system};

use super::attributes::{alter, GROUP_ATTRIBUTES};
use super::directory::Directory;
use super::{BrokerError, Effect};

/// One group as sessions see it: an immutable handle. A change publishes a new one.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupView {
    name: Arc<str>,
    config: SubscriptionGroupConfig,
    /// Topics the group may not read.
    forbidden: BTreeMap<String, i32>,
}

impl GroupView {
    /// The group's name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The whole configuration.
    pub fn config(&self) -> &SubscriptionGroupConfig {
        &self.config
    }

    /// It may consume at all.
    pub fn consume_enabled(&self) -> bool {
        self.config.consume_enable
    }

    /// It may consume as a broadcasting group.
    pub fn broadcast_enabled(&self) -> bool {
        self.config.consume_broadcast_enable
    }

    /// Its members are told of each other.
    pub fn notifies(&self) -> bool {
        self.config.notify_consumer_ids_changed_enable
    }

    /// Queues of its retry topic; 0 or less: it keeps no retries.
    pub fn retry_queues(&self) -> i32 {
        self.config.retry_queue_nums
    }

    /// How often a message may be consumed again.
    pub fn retry_max_times(&self) -> i32 {
        self.config.retry_max_times
    }

    /// The broker id its members should pull from.
    pub fn broker_id(&self) -> i64 {
        self.config.broker_id
    }

    /// The broker id for members that are far behind.
    pub fn which_broker_when_slow(&self) -> i64 {
        self.config.which_broker_when_consume_slowly
    }

    /// It may not read that topic.
    pub fn is_read_forbidden(&self, topic: &str) -> bool {
        self.forbidden.get(topic).is_some_and(|bits| bits & permission::READ != 0)
    }
}

/// What the broker's settings say about groups.
#[derive(Clone, Copy, Debug)]
pub struct GroupRules {
    /// Create groups on the first heartbeat, pull or hand-back.
    pub auto_create: bool,
    /// The most groups.
    pub groups_max: usize,
}

/// The groups. `wall` is the time that goes into the data version.
#[derive(Debug)]
pub struct GroupTable {
    rules: GroupRules,
    groups: BTreeMap<Arc<str>, Arc<GroupView>>,
    version: DataVersion,
    directory: Arc<Directory<GroupView>>,
}

impl GroupTable {
    /// The groups of the file, and those every broker has.
    pub fn new(rules: GroupRules, loaded: SubscriptionGroupWrapper, wall: Millis, out: &mut Vec<Effect>) -> GroupTable {
        let SubscriptionGroupWrapper { data_version, subscription_group_table, mut forbidden_table } = loaded;
        let mut table = GroupTable { rules, groups: BTreeMap::new(), version: data_version, directory: Arc::default() };
        for (name, config) in subscription_group_table {
            let forbidden = forbidden_table.remove(&name).unwrap_or_default();
            if !name.is_empty() {
                table.put(SubscriptionGroupConfig { group_name: name, ..config }, forbidden);
            }
        }
        let missing: Vec<&str> =
            system::BOOT_GROUPS.into_iter().filter(|group| !table.groups.contains_key(*group)).collect();
        for group in &missing {
            table.put(SubscriptionGroupConfig::new(*group), BTreeMap::new());
        }
        if !missing.is_empty() {
            table.changed(wall, out);
        }
        table
    }

    /// For sessions: each change is published there.
    pub fn directory(&self) -> &Arc<Directory<GroupView>> {
        &self.directory
    }

    /// Takes other settings.
    pub fn set_rules(&mut self, rules: GroupRules) {
        self.rules = rules;
    }

    /// The group of that name.
    pub fn get(&self, group: &str) -> Option<&Arc<GroupView>> {
        self.groups.get(group)
    }

    /// All groups by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<GroupView>> {
        self.groups.values()
    }

    /// The group of that name; one that is not there is made, if the settings and its name allow it.
    pub fn find_or_create(&mut self, group: &str, wall: Millis, out: &mut Vec<Effect>) -> Option<Arc<GroupView>> {
        if let Some(found) = self.groups.get(group) {
            return Some(found.clone());
        }
        let wanted = self.rules.auto_create || system::is_system_group(group);
        if !wanted || names::validate_group(group).is_err() || self.groups.len() >= self.rules.groups_max {
            return None;
        }
        let created = self.put(SubscriptionGroupConfig::new(group), BTreeMap::new());
        self.changed(wall, out);
        Some(created)
    }

    /// UPDATE_AND_CREATE_SUBSCRIPTIONGROUP and its list form: all take effect or none does. The attributes of each are
    /// changes, `+key` or `-key`. (RocketMQ 5.3.2 stores any name; one that cannot be told from a key of
    /// `consumerOffset.json` is refused here, as RocketMQ's later versions do.)
    pub fn update(
        &mut self,
        asked: Vec<SubscriptionGroupConfig>,
        wall: Millis,
        out: &mut Vec<Effect>,
    ) -> Result<(), BrokerError> {
        let mut new = Vec::new();
        for config in asked {
            names::validate_group(&config.group_name)?;
            let current = self.groups.get(config.group_name.as_str());
            let attributes =
                alter(&GROUP_ATTRIBUTES, current.map(|found| &found.config.attributes), &config.attributes)
                    .map_err(|error| BrokerError::GroupConfig { what: error.to_string() })?;
            let config = SubscriptionGroupConfig { attributes, ..config };
            if current.is_none_or(|found| found.config != config) {
                new.push(config);
            }
        }
        let added = new.iter().filter(|config| !self.groups.contains_key(config.group_name.as_str())).count();
        let limit = self.rules.groups_max;
        if self.groups.len() + added > limit {
            return Err(BrokerError::TableFull { what: "groups", setting: "groupsMax", limit });
        }
        if !new.is_empty() {
            for config in new {
                let forbidden = self
                    .groups
                    .get(config.group_name.as_str())
                    .map(|found| found.forbidden.clone())
                    .unwrap_or_default();
                self.put(config, forbidden);
            }
            self.changed(wall, out);
        }
        Ok(())
    }

    /// DELETE_SUBSCRIPTIONGROUP, with the group's offsets if asked for. A group that is not there is deleted already.
    pub fn delete(&mut self, group: &str, clean_offsets: bool, wall: Millis, out: &mut Vec<Effect>) {
        if self.groups.remove(group).is_some() {
            self.directory.withdraw(group);
            self.changed(wall, out);
        }
        if clean_offsets {
            out.push(Effect::ForgetGroupOffsets { group: group.into() });
        }
    }

    /// UPDATE_AND_GET_GROUP_FORBIDDEN: sets, if asked, and tells whether the group may read the topic.
    pub fn set_readable(
        &mut self,
        group: &str,
        topic: &str,
        readable: Option<bool>,
        wall: Millis,
        out: &mut Vec<Effect>,
    ) -> Result<bool, BrokerError> {
        let found = self.groups.get(group).cloned();
        let Some(found) = found else {
            return Err(BrokerError::GroupConfigMissing { group: group.to_owned() });
        };
        let now = !found.is_read_forbidden(topic);
        let Some(wanted) = readable.filter(|wanted| *wanted != now) else { return Ok(now) };
        let mut forbidden = found.forbidden.clone();
        let bits = forbidden.get(topic).copied().unwrap_or(0);
        let bits = if wanted { bits & !permission::READ } else { bits | permission::READ };
        match bits {
            0 => forbidden.remove(topic),
            _ => forbidden.insert(topic.to_owned(), bits),
        };
        self.put(found.config.clone(), forbidden);
        self.changed(wall, out);
        Ok(wanted)
    }

    /// Table and version of one moment: for `subscriptionGroup.json` and GET_ALL_SUBSCRIPTIONGROUP_CONFIG.
    pub fn snapshot(&self) -> SubscriptionGroupWrapper {
        let forbidden = self.groups.iter().filter(|(_, group)| !group.forbidden.is_empty());
        SubscriptionGroupWrapper {
            data_version: self.version,
            forbidden_table: forbidden.map(|(name, group)| (name.to_string(), group.forbidden.clone())).collect(),
            subscription_group_table: self
                .groups
                .iter()
                .map(|(name, group)| (name.to_string(), group.config.clone()))
                .collect(),
        }
    }

    fn put(&mut self, config: SubscriptionGroupConfig, forbidden: BTreeMap<String, i32>) -> Arc<GroupView> {
        let view = Arc::new(GroupView { name: config.group_name.as_str().into(), config, forbidden });
        self.groups.insert(view.name.clone(), view.clone());
        self.directory.publish(view.name.clone(), view.clone());
        view
    }

    fn changed(&mut self, wall: Millis, out: &mut Vec<Effect>) {
        self.version.next(wall);
        out.push(Effect::PersistGroups);
    }
}
