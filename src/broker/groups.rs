//! Subscription groups: how each consumer group may consume; `subscriptionGroup.json`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::env::Millis;
use crate::proto::body::{permission, DataVersion, SubscriptionGroupConfig, SubscriptionGroupWrapper};
use crate::proto::message::{names, system};

use super::attributes::{alter, GROUP_ATTRIBUTES};
use super::directory::Directory;
use super::metadata_sync::{take_over, Table};
use super::role::Role;
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
    changes: u64,
    /// On a slave: the master's groups when it was asked last.
    followed: Option<Table<GroupView>>,
    role: Role,
}

impl GroupTable {
    /// The groups of the file, and those every broker has.
    pub fn new(rules: GroupRules, loaded: SubscriptionGroupWrapper, wall: Millis, out: &mut Vec<Effect>) -> GroupTable {
        let SubscriptionGroupWrapper { data_version, subscription_group_table, mut forbidden_table } = loaded;
        let mut table = GroupTable {
            rules,
            groups: BTreeMap::new(),
            version: data_version,
            directory: Arc::default(),
            changes: 0,
            followed: None,
            role: Role::master(),
        };
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

    /// The same table of a broker with a role.
    pub fn with_role(self, role: Role) -> GroupTable {
        GroupTable { role, ..self }
    }

    /// The table is that of a slave that becomes the master; see [`DataVersion::promote`].
    pub fn promote(&mut self) {
        self.version.promote();
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

    /// How often the groups were changed so far.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Takes over the groups of a slave's master; `anew` if another process tells than the last time, see
    /// [`metadata_sync`](super::metadata_sync).
    pub fn follow(&mut self, master: SubscriptionGroupWrapper, anew: bool, out: &mut Vec<Effect>) {
        let SubscriptionGroupWrapper { data_version, subscription_group_table, mut forbidden_table } = master;
        let mut new = Table::new();
        for (name, config) in subscription_group_table {
            let forbidden = forbidden_table.remove(&name).unwrap_or_default();
            if !name.is_empty() {
                let view = view(SubscriptionGroupConfig { group_name: name, ..config }, forbidden);
                new.insert(view.name.clone(), Arc::new(view));
            }
        }
        let before = self.followed.take().filter(|_| !anew);
        let taken = take_over((&self.groups, &self.version), before.as_ref(), (&new, &data_version));
        let changed = !taken.put.is_empty() || !taken.remove.is_empty();
        for group in taken.put {
            self.publish(group);
        }
        for name in taken.remove {
            self.groups.remove(&name);
            self.directory.withdraw(&name);
        }
        if taken.whole && self.version != data_version || changed {
            self.changes += 1;
            self.version = if taken.whole { data_version } else { self.version };
            out.push(Effect::PersistGroups);
        }
        self.followed = Some(new);
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
        self.publish(Arc::new(view(config, forbidden)))
    }

    fn publish(&mut self, view: Arc<GroupView>) -> Arc<GroupView> {
        self.groups.insert(view.name.clone(), view.clone());
        self.directory.publish(view.name.clone(), view.clone());
        view
    }

    fn changed(&mut self, wall: Millis, out: &mut Vec<Effect>) {
        self.changes += 1;
        // A slave's version is its master's: what it makes for itself does not count.
        if self.role.takes_writes() {
            self.version.next(wall);
        }
        out.push(Effect::PersistGroups);
    }
}

fn view(config: SubscriptionGroupConfig, forbidden: BTreeMap<String, i32>) -> GroupView {
    GroupView { name: config.group_name.as_str().into(), config, forbidden }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::body::config_files::ConfigFile;

    const WALL: Millis = Millis(1_700_000_000_000);

    fn table(auto_create: bool) -> GroupTable {
        let rules = GroupRules { auto_create, groups_max: 20 };
        GroupTable::new(rules, SubscriptionGroupWrapper::default(), WALL, &mut Vec::new())
    }

    #[test]
    fn unknown_groups_are_made_if_settings_and_name_allow() {
        let (mut open, mut closed, mut out) = (table(true), table(false), Vec::new());
        assert_eq!(open.find_or_create("g", WALL, &mut out).map(|group| group.retry_max_times()), Some(16));
        assert_eq!(out, [Effect::PersistGroups]);
        assert!(open.find_or_create("a b", WALL, &mut out).is_none());
        assert!(open.find_or_create(&"g".repeat(256), WALL, &mut out).is_none());
        assert!(closed.find_or_create("g", WALL, &mut out).is_none());
        assert!(closed.find_or_create("CID_RMQ_SYS_NEW", WALL, &mut out).is_some(), "the system's own are usable");
        assert!(closed.find_or_create("TOOLS_CONSUMER", WALL, &mut out).is_some());
        open.set_rules(GroupRules { auto_create: true, groups_max: 1 });
        assert!(open.find_or_create("h", WALL, &mut out).is_none());
    }

    #[test]
    fn updates_are_all_or_none_and_equal_ones_cause_nothing() {
        let (mut groups, mut out) = (table(true), Vec::new());
        let asked = SubscriptionGroupConfig { retry_max_times: 3, ..SubscriptionGroupConfig::new("g") };
        assert_eq!(groups.update(vec![asked.clone()], WALL, &mut out), Ok(()));
        assert_eq!(groups.update(vec![asked.clone()], WALL, &mut out), Ok(()));
        assert_eq!(out, [Effect::PersistGroups]);
        let illegal = SubscriptionGroupConfig::new("a@b");
        let list = vec![SubscriptionGroupConfig::new("innocent"), illegal];
        assert_eq!(groups.update(list, WALL, &mut out).unwrap_err().code(), 29);
        assert!(groups.get("innocent").is_none());
        groups.delete("g", true, WALL, &mut out);
        assert_eq!(out[1..], [Effect::PersistGroups, Effect::ForgetGroupOffsets { group: "g".into() }]);
        assert!(groups.directory().get("g").is_none());
    }

    #[test]
    fn a_group_can_be_kept_from_one_topic() {
        let (mut groups, mut out) = (table(true), Vec::new());
        assert_eq!(groups.set_readable("g", "t", Some(false), WALL, &mut out).unwrap_err().code(), 26);
        groups.find_or_create("g", WALL, &mut out);
        assert_eq!(groups.set_readable("g", "t", None, WALL, &mut out), Ok(true));
        assert_eq!(groups.set_readable("g", "t", Some(false), WALL, &mut out), Ok(false));
        assert!(groups.get("g").unwrap().is_read_forbidden("t") && !groups.get("g").unwrap().is_read_forbidden("u"));
        assert_eq!(groups.snapshot().forbidden_table["g"]["t"], 4);
        let again = GroupTable::new(groups.rules, groups.snapshot(), WALL, &mut out);
        assert!(again.get("g").unwrap().is_read_forbidden("t"));
        assert_eq!(groups.set_readable("g", "t", Some(true), WALL, &mut out), Ok(true));
        assert!(groups.snapshot().forbidden_table.is_empty());
    }

    #[test]
    fn a_slave_takes_over_its_masters_groups() {
        let (mut master, mut slave, mut out) = (table(true), table(true).with_role(Role::slave(1)), Vec::new());
        master.find_or_create("g", WALL, &mut out);
        master.set_readable("g", "t", Some(false), WALL, &mut out).unwrap();
        out.clear();
        slave.follow(master.snapshot(), true, &mut out);
        assert_eq!(out, [Effect::PersistGroups]);
        assert_eq!(slave.snapshot(), master.snapshot());
        slave.find_or_create("here", WALL, &mut out);
        master.delete("g", false, WALL, &mut out);
        slave.follow(master.snapshot(), false, &mut out);
        assert!(slave.directory().get("g").is_none() && slave.get("here").is_some());
        assert_eq!(slave.version, master.version);
    }

    #[test]
    fn the_file_of_an_apache_broker_is_read_and_kept() {
        let bytes = include_bytes!("../../tests/vectors/store/captured/config/subscriptionGroup.json");
        let loaded = SubscriptionGroupWrapper::parse(bytes).unwrap();
        let mut out = Vec::new();
        let groups = GroupTable::new(GroupRules { auto_create: true, groups_max: 100 }, loaded.clone(), WALL, &mut out);
        assert_eq!(groups.snapshot(), loaded);
        assert_eq!(out, [], "all boot groups are there");
    }
}
