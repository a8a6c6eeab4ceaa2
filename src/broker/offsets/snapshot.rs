//! The table as `consumerOffset.json` and GET_ALL_CONSUMER_OFFSET hold it.

use std::collections::BTreeMap;

use crate::env::Millis;
use crate::proto::body::ConsumerOffsetSerializeWrapper as Wrapper;

use super::{OffsetTable, Position};

impl OffsetTable {
    /// The table of the file. Keys without a group are left out.
    pub fn load(wrapper: Wrapper, version_step: u64, limit: usize) -> OffsetTable {
        let mut table = OffsetTable::new(version_step, limit);
        table.version = wrapper.data_version.unwrap_or_default();
        for (key, queues) in wrapper.offset_table {
            let Some((topic, group)) = Wrapper::split_key(&key) else { continue };
            let topics = table.groups.entry(group.into()).or_default();
            let positions = queues.into_iter().map(|(queue_id, offset)| (queue_id, Position::at(offset)));
            topics.entry(topic.into()).or_default().extend(positions);
        }
        table.recount();
        table.dirty = false;
        table.updates = 0;
        table
    }

    /// Committed offsets and version of one moment. Positions without a committed offset are not part of it.
    pub fn snapshot(&mut self, wall: Millis) -> Wrapper {
        for _ in 0..self.updates / self.version_step {
            self.version.next(wall);
        }
        self.updates %= self.version_step;
        let mut offset_table = BTreeMap::new();
        for (group, topics) in &self.groups {
            for (topic, queues) in topics {
                let committed = queues.iter().filter_map(|(id, position)| Some((*id, position.committed()?)));
                let committed: BTreeMap<i32, i64> = committed.collect();
                if !committed.is_empty() {
                    offset_table.insert(Wrapper::key(topic, group), committed);
                }
            }
        }
        let mut wrapper = Wrapper { data_version: Some(self.version), group_topic_map: None, offset_table };
        wrapper.derive_group_topic_map();
        wrapper
    }
}
