//! The broker's topics: `topics.json`, what registrations tell the NameServers, and what sessions look up.
//!
//! Table and data version change together in one call, and a snapshot is taken in one call, so no registration carries
//! a new version with an old table or the reverse (NSR-2).

mod follow;
#[cfg(test)]
mod tests;
mod view;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::env::Millis;
use crate::proto::body::{permission, DataVersion, TopicConfig, TopicConfigSerializeWrapper};
use crate::proto::message::names;
use crate::proto::message::system::{self, BootOptions};

use super::attributes::{alter, TOPIC_ATTRIBUTES};
use super::directory::Directory;
use super::metadata_sync::Table;
use super::role::Role;
use super::{BrokerError, Effect};

pub use view::{deduplication_ms, TopicView};

/// The most queues of a topic.
pub const QUEUES_MAX: i32 = 16_384;
/// The most bytes of a name that is stored: a retry topic of the longest group.
const STORED_NAME_MAX: usize = 255;
/// Changes that are told one by one.
const RECENT_CHANGES_MAX: usize = 128;
/// All permission bits.
const PERMISSION_MAX: i32 = 15;

/// What the broker's settings say about topics.
#[derive(Clone, Copy, Debug)]
pub struct TopicRules {
    /// Create topics on the first send.
    pub auto_create: bool,
    /// Refuse to create or change topics of the system by request.
    pub validate_system: bool,
    /// The most topics.
    pub topics_max: usize,
}

/// A send to a topic that is not there.
#[derive(Clone, Copy, Debug)]
pub struct FirstSend<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The topic to make it after.
    pub default_topic: &'a str,
    /// Queues the client asks for.
    pub default_topic_queue_nums: i32,
    /// The topic's sysFlag: 1 if the producer is in unit mode.
    pub sys_flag: i32,
}

/// The topics. `wall` is the time that goes into the data version.
#[derive(Debug)]
pub struct TopicTable {
    rules: TopicRules,
    topics: BTreeMap<Arc<str>, Arc<TopicView>>,
    version: DataVersion,
    /// Names that belong to the system because of the broker's own names.
    own_system: BTreeSet<String>,
    directory: Arc<Directory<TopicView>>,
    changes: Changes,
    /// On a slave: the master's topics when it was asked last.
    followed: Option<Table<TopicView>>,
    role: Role,
}

/// The last topics that were changed or deleted, so that a NameServer need not be told of all others each time.
#[derive(Debug, Default)]
struct Changes {
    count: u64,
    /// Oldest first; the last one is number `count`.
    recent: VecDeque<Arc<str>>,
}

impl Changes {
    fn add(&mut self, topic: Arc<str>) {
        self.count += 1;
        self.recent.push_back(topic);
        if self.recent.len() > RECENT_CHANGES_MAX {
            self.recent.pop_front();
        }
    }

    /// The topics of all changes after number `seen`; `None` if that is too long ago.
    fn since(&self, seen: u64) -> Option<BTreeSet<&Arc<str>>> {
        let missed = usize::try_from(self.count.checked_sub(seen)?).ok()?;
        (missed <= self.recent.len()).then(|| self.recent.iter().rev().take(missed).collect())
    }
}

impl TopicTable {
    /// The topics of the file, and those every broker has.
    pub fn new(
        rules: TopicRules,
        boot: &BootOptions<'_>,
        loaded: TopicConfigSerializeWrapper,
        wall: Millis,
        out: &mut Vec<Effect>,
    ) -> TopicTable {
        let mut table = TopicTable {
            rules,
            topics: BTreeMap::new(),
            version: loaded.data_version,
            own_system: BTreeSet::new(),
            directory: Arc::default(),
            changes: Changes::default(),
            followed: None,
            role: Role::master(),
        };
        for (name, config) in loaded.topic_config_table {
            if name.len() <= STORED_NAME_MAX && !name.is_empty() {
                table.put(TopicConfig { topic_name: name, ..config });
            }
        }
        let mut made = false;
        for topic in system::boot_topics(boot) {
            table.own_system.insert(topic.name.clone());
            if !table.topics.contains_key(topic.name.as_str()) {
                table.put(TopicConfig::new(topic.name.as_str(), topic.queues, topic.permission));
                made = true;
            }
        }
        if made {
            table.changed(wall, out);
        }
        table
    }

    /// The same table of a broker with a role.
    pub fn with_role(self, role: Role) -> TopicTable {
        TopicTable { role, ..self }
    }

    /// The table is that of a slave that becomes the master; see [`DataVersion::promote`].
    pub fn promote(&mut self) {
        self.version.promote();
    }

    /// For sessions: each change is published there.
    pub fn directory(&self) -> &Arc<Directory<TopicView>> {
        &self.directory
    }

    /// Takes other settings.
    pub fn set_rules(&mut self, rules: TopicRules) {
        self.rules = rules;
    }

    /// The topic of that name.
    pub fn get(&self, topic: &str) -> Option<&Arc<TopicView>> {
        self.topics.get(topic)
    }

    /// All topics by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<TopicView>> {
        self.topics.values()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.topics.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// Whether the topic belongs to the system, of this broker or of all.
    pub fn is_system(&self, topic: &str) -> bool {
        system::is_system_topic(topic) || self.own_system.contains(topic)
    }

    /// Table and version of one moment: for `topics.json`, for registrations and for GET_ALL_TOPIC_CONFIG.
    pub fn snapshot(&self) -> TopicConfigSerializeWrapper {
        TopicConfigSerializeWrapper {
            data_version: self.version,
            topic_config_table: self
                .topics
                .iter()
                .map(|(name, topic)| (name.to_string(), topic.config().clone()))
                .collect(),
        }
    }

    /// How often a topic was changed or deleted so far.
    pub fn changes(&self) -> u64 {
        self.changes.count
    }

    /// As [`TopicTable::snapshot`], but only the topics changed after the first `seen` changes. `None` if that was too
    /// many changes ago, or if one of them is gone: only a whole table tells that.
    pub fn changed_since(&self, seen: u64) -> Option<TopicConfigSerializeWrapper> {
        let mut topic_config_table = BTreeMap::new();
        for name in self.changes.since(seen)? {
            topic_config_table.insert(name.to_string(), self.topics.get(name)?.config().clone());
        }
        Some(TopicConfigSerializeWrapper { data_version: self.version, topic_config_table })
    }

    /// What the topics are now that were changed or deleted after the first `seen` changes, `None` for those that are
    /// gone. Nothing if that was too many changes ago.
    pub fn changes_since(&self, seen: u64) -> Option<Vec<(Arc<str>, Option<&TopicConfig>)>> {
        let config = |name: &Arc<str>| self.topics.get(name).map(|topic| topic.config());
        Some(self.changes.since(seen)?.into_iter().map(|name| (Arc::clone(name), config(name))).collect())
    }

    /// The version of the table as it is now.
    pub fn version(&self) -> DataVersion {
        self.version
    }

    /// Makes a topic that was sent to, after its template. A missing retry topic is made with one queue, template or
    /// not.
    pub fn create_on_send(
        &mut self,
        send: FirstSend<'_>,
        wall: Millis,
        out: &mut Vec<Effect>,
    ) -> Result<Arc<TopicView>, BrokerError> {
        if let Some(topic) = self.topics.get(send.topic) {
            return Ok(topic.clone());
        }
        names::validate_topic(send.topic)?;
        if names::is_retry_topic(send.topic) {
            return self.ensure(send.topic, 1, false, send.sys_flag, wall, out);
        }
        // The setting is about the one template every client names; an operator may have made others.
        let open = self.rules.auto_create || send.default_topic != system::AUTO_CREATE_TOPIC;
        let template = self.topics.get(send.default_topic).filter(|template| open && template.is_template());
        let Some(template) = template else {
            return Err(BrokerError::TopicNotExist { topic: send.topic.to_owned() });
        };
        let queues = send.default_topic_queue_nums.min(template.write_queues()).max(1);
        let perm = template.config().perm & !permission::INHERIT;
        self.check_room()?;
        let created =
            self.put(TopicConfig { topic_sys_flag: send.sys_flag, ..TopicConfig::new(send.topic, queues, perm) });
        self.changed(wall, out);
        Ok(created)
    }

    /// A topic the broker needs for itself, readable and writable: a group's retries or dead letters. One that is there
    /// keeps its configuration, but is marked as consumed in order if it is. (RocketMQ takes the mark off again with the
    /// next heartbeat of a member that subscribes to less, and registers each time.)
    pub fn ensure(
        &mut self,
        topic: &str,
        queues: i32,
        order: bool,
        sys_flag: i32,
        wall: Millis,
        out: &mut Vec<Effect>,
    ) -> Result<Arc<TopicView>, BrokerError> {
        let new = match self.topics.get(topic) {
            Some(found) if found.is_order() || !order => return Ok(found.clone()),
            Some(found) => TopicConfig { order, ..found.config().clone() },
            None => {
                self.check_room()?;
                let made = TopicConfig::new(topic, queues.clamp(1, QUEUES_MAX), permission::READ | permission::WRITE);
                TopicConfig { order, topic_sys_flag: sys_flag, ..made }
            }
        };
        let published = self.put(new);
        self.changed(wall, out);
        Ok(published)
    }

    /// UPDATE_AND_CREATE_TOPIC and its list form: all are valid and take effect, or none does. The attributes of each
    /// are changes, `+key` or `-key`. What is as asked already causes nothing.
    pub fn update(&mut self, asked: Vec<TopicConfig>, wall: Millis, out: &mut Vec<Effect>) -> Result<(), BrokerError> {
        let mut new = Vec::new();
        for config in asked {
            let config = self.checked(config)?;
            if self.topics.get(config.topic_name.as_str()).is_none_or(|found| *found.config() != config) {
                new.push(config);
            }
        }
        let added = new.iter().filter(|config| !self.topics.contains_key(config.topic_name.as_str())).count();
        if self.topics.len() + added > self.rules.topics_max {
            return Err(self.full());
        }
        if !new.is_empty() {
            new.into_iter().for_each(|config| drop(self.put(config)));
            self.changed(wall, out);
        }
        Ok(())
    }

    /// DELETE_TOPIC_IN_BROKER: the topic, its queues, all offsets in it, and its POP retry topics, as far as their names
    /// tell that they are (`%RETRY%<group>+<topic>`; `%RETRY%a_b` may as well hold the retries of a group `a_b`). A
    /// topic that is not there is deleted already.
    pub fn delete(&mut self, topic: &str, wall: Millis, out: &mut Vec<Effect>) -> Result<(), BrokerError> {
        names::validate_topic(topic)?;
        self.refuse_system(topic)?;
        let retries_of_topic = |name: &&Arc<str>| {
            let rest = names::group_of_retry_topic(name).and_then(|rest| rest.strip_suffix(topic));
            rest.is_some_and(|group| group.ends_with('+'))
        };
        let mut gone: Vec<Arc<str>> = self.topics.keys().filter(retries_of_topic).cloned().collect();
        gone.insert(0, topic.into());
        let mut changed = false;
        for name in gone {
            if self.topics.remove(&name).is_some() {
                self.directory.withdraw(&name);
                self.changes.add(Arc::clone(&name));
                changed = true;
            }
            out.push(Effect::DropQueues { topic: name.clone() });
            out.push(Effect::ForgetTopicOffsets { topic: name });
        }
        if changed {
            self.changed(wall, out);
        }
        Ok(())
    }

    /// The NameServers have a fixed list of queues for these topics: their order counts more than their availability here,
    /// too. As in RocketMQ, a topic that is in no list stays what it was made.
    pub fn set_ordered<'a>(&mut self, topics: impl IntoIterator<Item = &'a str>, wall: Millis, out: &mut Vec<Effect>) {
        let unordered: Vec<TopicConfig> = topics
            .into_iter()
            .filter_map(|topic| self.topics.get(topic))
            .filter(|topic| !topic.is_order())
            .map(|topic| TopicConfig { order: true, ..topic.config().clone() })
            .collect();
        if !self.role.takes_writes() || unordered.is_empty() {
            return;
        }
        for config in unordered {
            self.put(config);
        }
        self.changed(wall, out);
    }

    fn checked(&self, asked: TopicConfig) -> Result<TopicConfig, BrokerError> {
        let topic = asked.topic_name.as_str();
        names::validate_topic(topic)?;
        self.refuse_system(topic)?;
        let refuse = |what: String| Err(BrokerError::TopicConfig { what });
        for (name, queues) in [("readQueueNums", asked.read_queue_nums), ("writeQueueNums", asked.write_queue_nums)] {
            if !(0..=QUEUES_MAX).contains(&queues) {
                return refuse(format!("{name} of topic {topic} is {queues}, it has to be 0 to {QUEUES_MAX}"));
            }
        }
        if !(0..=PERMISSION_MAX).contains(&asked.perm) {
            return refuse(format!("perm of topic {topic} is {}, it has to be 0 to {}", asked.perm, PERMISSION_MAX));
        }
        let current = self.topics.get(topic).map(|found| &found.config().attributes);
        let attributes = alter(&TOPIC_ATTRIBUTES, current, &asked.attributes)
            .map_err(|error| BrokerError::TopicConfig { what: error.to_string() })?;
        Ok(TopicConfig { attributes, ..asked })
    }

    fn refuse_system(&self, topic: &str) -> Result<(), BrokerError> {
        if self.rules.validate_system && self.is_system(topic) {
            return Err(BrokerError::SystemTopic { topic: topic.to_owned() });
        }
        Ok(())
    }

    fn check_room(&self) -> Result<(), BrokerError> {
        if self.topics.len() >= self.rules.topics_max {
            return Err(self.full());
        }
        Ok(())
    }

    fn full(&self) -> BrokerError {
        BrokerError::TableFull { what: "topics", setting: "topicsMax", limit: self.rules.topics_max }
    }

    fn put(&mut self, config: TopicConfig) -> Arc<TopicView> {
        let view = Arc::new(TopicView::new(config));
        self.publish(Arc::clone(&view));
        view
    }

    fn publish(&mut self, view: Arc<TopicView>) {
        let name = Arc::clone(view.name());
        self.directory.publish(Arc::clone(&name), Arc::clone(&view));
        self.topics.insert(Arc::clone(&name), view);
        self.changes.add(name);
    }

    fn changed(&mut self, wall: Millis, out: &mut Vec<Effect>) {
        // A slave's version is its master's: what it makes for itself does not count.
        if self.role.takes_writes() {
            self.version.next(wall);
        }
        out.push(Effect::PersistTopics);
        out.push(Effect::Register);
    }
}
