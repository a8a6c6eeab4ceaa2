//! The table as `consumerOffset.json` and GET_ALL_CONSUMER_OFFSET hold it.

use std::collections::BTreeMap;

use crate::env::Millis;
use crate::proto::body::ConsumerOffsetSerializeWrapper as Wrapper;

use super::{OffsetTable, Position};

/// An offset that stood above the end of its queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lowered {
    /// `topic@group`.
    pub key: String,
    /// The queue.
    pub queue_id: i32,
    /// The offset before.
    pub was: i64,
    /// The queue's end, which it is now.
    pub is: i64,
}

/// Brings offsets that stand above their queue's end down to it; `end_of` tells the end. After a power cut under
/// ASYNC_FLUSH a queue may lack what a group has consumed, and the group would skip the messages that get those numbers
/// next (DSK-5).
pub fn lower_to_ends(file: &mut Wrapper, end_of: impl Fn(&str, i32) -> i64) -> Vec<Lowered> {
    let mut lowered = Vec::new();
    for (key, queues) in &mut file.offset_table {
        let Some((topic, _)) = Wrapper::split_key(key) else { continue };
        for (queue_id, offset) in queues {
            let end = end_of(topic, *queue_id);
            if *offset > end {
                lowered.push(Lowered { key: key.clone(), queue_id: *queue_id, was: *offset, is: end });
                *offset = end;
            }
        }
    }
    for (key, queues) in &mut file.reset_table {
        let Some((topic, _)) = Wrapper::split_key(key) else { continue };
        queues.iter_mut().for_each(|(queue_id, target)| *target = end_of(topic, *queue_id).min(*target));
    }
    lowered
}

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
        for (key, queues) in wrapper.reset_table {
            let Some((topic, group)) = Wrapper::split_key(&key) else { continue };
            let positions = table.groups.entry(group.into()).or_default().entry(topic.into()).or_default();
            for (queue_id, target) in queues {
                positions.entry(queue_id).or_default().reset(target);
            }
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
        let (mut offset_table, mut reset_table) = (BTreeMap::new(), BTreeMap::new());
        for (group, topics) in &self.groups {
            for (topic, queues) in topics {
                let committed = queues.iter().filter_map(|(id, position)| Some((*id, position.committed()?)));
                let committed: BTreeMap<i32, i64> = committed.collect();
                if !committed.is_empty() {
                    offset_table.insert(Wrapper::key(topic, group), committed);
                }
                let resets = queues.iter().filter_map(|(id, position)| Some((*id, position.pending_reset()?)));
                let resets: BTreeMap<i32, i64> = resets.collect();
                if !resets.is_empty() {
                    reset_table.insert(Wrapper::key(topic, group), resets);
                }
            }
        }
        let mut wrapper =
            Wrapper { data_version: Some(self.version), group_topic_map: None, offset_table, reset_table };
        wrapper.derive_group_topic_map();
        wrapper
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_above_the_end_come_down_to_it() {
        let mut file = Wrapper::default();
        file.offset_table.insert(Wrapper::key("orders", "billing"), BTreeMap::from([(0, 103), (1, 100), (2, 7)]));
        let lowered = lower_to_ends(&mut file, |topic, id| if (topic, id) == ("orders", 2) { 0 } else { 100 });
        let key = Wrapper::key("orders", "billing");
        let expected = [(0, 103, 100), (2, 7, 0)];
        let expected = expected.map(|(queue_id, was, is)| Lowered { key: key.clone(), queue_id, was, is });
        assert_eq!(lowered, expected);
        assert_eq!(file.offset_table[&key], BTreeMap::from([(0, 100), (1, 100), (2, 0)]));
    }
}
