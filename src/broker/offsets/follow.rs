//! The offsets of a slave: those of its master, and what groups have committed here.
//!
//! A group comes to the slave while the master is away, and commits here. When the master returns, its own offsets are
//! older: RocketMQ's slave writes them over its own, and a group that comes again begins too early. Here the higher offset
//! stays until the master has it too, or for [`KEEP_MS`] after the master came back: then the group has had the time to tell
//! the master, and a lower offset is one that somebody wants, by a reset say. The same protects against a master that
//! was restarted and lost its latest offsets in a crash.

use std::collections::BTreeMap;

use crate::env::Millis;
use crate::proto::body::ConsumerOffsetSerializeWrapper as Wrapper;

use super::{Effect, Lowered, OffsetTable};

/// How long an offset that is higher than the master's stays at least, in ms.
pub const KEEP_MS: i64 = 60_000;

/// What a slave's table knows of its master.
#[derive(Debug, Default)]
pub(super) struct Following {
    /// The master tells its offsets at present.
    hears: bool,
    /// It ever did, in this life of the slave's process.
    heard: bool,
}

impl OffsetTable {
    /// Takes over the offsets of a slave's master; `anew` if another process tells than the last time. `now` is monotonic
    /// time.
    pub fn follow(&mut self, master: Wrapper, anew: bool, now: Millis, out: &mut Vec<Effect>) {
        let until = now.plus(KEEP_MS);
        let was_away = !std::mem::replace(&mut self.following.hears, true);
        self.following.heard = true;
        if anew || was_away {
            for position in self.groups.values_mut().flat_map(BTreeMap::values_mut).flat_map(BTreeMap::values_mut) {
                if anew {
                    position.keep(super::Commit::Stored, Some(until));
                }
                position.keep_at_most(until);
            }
        }
        let mut changed = false;
        for (key, queues) in &master.offset_table {
            let Some((topic, group)) = Wrapper::split_key(key) else { continue };
            for (queue_id, offset) in queues {
                if let Some(position) = self.position(group, (topic, *queue_id), out) {
                    let target = master.reset_table.get(key).and_then(|queues| queues.get(queue_id));
                    changed |= position.follow_reset(target.copied()) || position.follow(*offset, now);
                }
            }
        }
        if !anew {
            changed |= self.forget_missing(&master, now);
        }
        self.version = master.data_version.unwrap_or(self.version);
        if changed {
            self.updated();
        }
    }

    /// A slave becomes the master: offsets above the end of their queue, which `end_of` tells, come down to it; see
    /// [`lower_to_ends`](super::lower_to_ends).
    pub fn lower_to_ends(&mut self, end_of: impl Fn(&str, i32) -> i64) -> Vec<Lowered> {
        let mut lowered = Vec::new();
        for (group, topics) in &mut self.groups {
            for (topic, queues) in topics {
                for (queue_id, position) in queues {
                    let Some(was) = position.committed() else { continue };
                    let is = end_of(topic, *queue_id);
                    if was > is {
                        position.lower(is);
                        lowered.push(Lowered { key: Wrapper::key(topic, group), queue_id: *queue_id, was, is });
                    }
                }
            }
        }
        if !lowered.is_empty() {
            self.updated();
        }
        lowered
    }

    /// The master is away: what groups commit here from now on is kept until it comes back, and so is what is kept now: it
    /// may not have had the time to hear of it.
    pub fn master_is_away(&mut self, now: Millis) {
        if std::mem::replace(&mut self.following.hears, false) {
            let positions = self.groups.values_mut().flat_map(BTreeMap::values_mut).flat_map(BTreeMap::values_mut);
            positions.for_each(|position| position.keep_on(now));
        }
    }

    /// Whether a slave can tell that a group has no offset: not before its master has told it any, or a file.
    pub fn knows_who_is_new(&self) -> bool {
        self.role.takes_writes() || self.following.heard || self.count > 0
    }

    /// Until when a commit of now is kept against the master's; `None` on a master.
    pub(super) fn keeps_until(&self, now: Millis) -> Option<Millis> {
        match (self.role.takes_writes(), self.following.hears) {
            (true, _) => None,
            (false, true) => Some(now.plus(KEEP_MS)),
            (false, false) => Some(Millis(i64::MAX)),
        }
    }

    /// Committed offsets that groups left here while the master was away, and that it does not have: a master that comes
    /// back asks for them before it serves.
    pub fn kept(&self, now: Millis) -> Wrapper {
        let mut table = Wrapper::default();
        for (group, topics) in &self.groups {
            for (topic, queues) in topics {
                let kept = queues.iter().filter(|(_, position)| position.is_kept(now));
                let kept: BTreeMap<i32, i64> = kept.filter_map(|(id, kept)| Some((*id, kept.committed()?))).collect();
                if !kept.is_empty() {
                    table.offset_table.insert(Wrapper::key(topic, group), kept);
                }
            }
        }
        table
    }

    /// A master that comes back takes what groups have committed at a slave meanwhile: forwards only, and never above the
    /// end of a queue, which `end_of` tells. Returns how many offsets moved.
    pub fn catch_up(&mut self, kept: &Wrapper, end_of: impl Fn(&str, i32) -> i64, out: &mut Vec<Effect>) -> usize {
        let mut moved = 0;
        for (key, queues) in &kept.offset_table {
            let Some((topic, group)) = Wrapper::split_key(key) else { continue };
            for (queue_id, offset) in queues {
                let offset = (*offset).min(end_of(topic, *queue_id));
                let Some(position) = self.position(group, (topic, *queue_id), out) else { continue };
                // What was committed at a slave is from before a reset that the group has not taken up.
                if position.pending_reset().is_none() && position.committed().is_none_or(|own| own < offset) {
                    position.follow(offset, Millis(i64::MAX));
                    moved += 1;
                }
            }
        }
        if moved > 0 {
            self.updated();
        }
        moved
    }

    /// Offsets of deleted groups are gone at the master, and go here too.
    fn forget_missing(&mut self, master: &Wrapper, now: Millis) -> bool {
        let before = self.count;
        self.groups.retain(|group, topics| {
            topics.retain(|topic, queues| {
                let told = master.offset_table.contains_key(&Wrapper::key(topic, group));
                told || queues.values().any(|position| position.committed().is_none() || position.is_kept(now))
            });
            !topics.is_empty()
        });
        self.count = self.groups.values().flat_map(BTreeMap::values).map(BTreeMap::len).sum();
        self.count != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::offsets::{Commit, Who};
    use crate::broker::role::Role;

    const NOW: Millis = Millis(1_000);

    fn table(offsets: &[(&str, i64)]) -> Wrapper {
        let table = offsets.iter().map(|(group, offset)| (Wrapper::key("t", group), BTreeMap::from([(0, *offset)])));
        Wrapper { offset_table: table.collect(), ..Wrapper::default() }
    }

    fn slave(offsets: &[(&str, i64)]) -> OffsetTable {
        OffsetTable::load(table(offsets), 500, 1000).with_role(Role::slave(1))
    }

    fn follow(slave: &mut OffsetTable, offsets: &[(&str, i64)], anew: bool, now: Millis) {
        slave.follow(table(offsets), anew, now, &mut Vec::new());
    }

    fn commit(slave: &mut OffsetTable, group: &str, offset: i64, now: Millis) {
        let committed = slave.commit(group, ("t", 0), offset, (Who::Other, None), now, &mut Vec::new());
        assert_eq!(committed, Commit::Stored);
    }

    fn at(slave: &OffsetTable, group: &str) -> Option<i64> {
        slave.committed_offset(group, "t", 0)
    }

    #[test]
    fn a_slave_has_its_masters_offsets_also_when_they_are_reset() {
        let mut slave = slave(&[]);
        follow(&mut slave, &[("g", 5), ("h", 9)], true, NOW);
        assert_eq!((at(&slave, "g"), at(&slave, "h")), (Some(5), Some(9)));
        assert!(slave.take_dirty());
        follow(&mut slave, &[("g", 5), ("h", 9)], false, NOW);
        assert!(!slave.take_dirty(), "nothing to write");
        follow(&mut slave, &[("g", 2)], false, NOW);
        assert_eq!((at(&slave, "g"), at(&slave, "h")), (Some(2), None), "a reset, and a deleted group");
    }

    /// The consumers went on here while the master was away; it comes back with what it knew.
    #[test]
    fn what_groups_committed_here_stays_until_the_master_knows() {
        let mut slave = slave(&[("g", 100)]);
        follow(&mut slave, &[("g", 100)], true, NOW);
        slave.master_is_away(NOW);
        commit(&mut slave, "g", 200, NOW);
        let hour = NOW.plus(3_600_000);
        assert_eq!(slave.kept(hour).offset_table, table(&[("g", 200)]).offset_table);
        follow(&mut slave, &[("g", 100)], true, hour);
        assert_eq!(at(&slave, "g"), Some(200));
        follow(&mut slave, &[("g", 100)], false, hour.plus(KEEP_MS - 1));
        assert_eq!(at(&slave, "g"), Some(200));
        follow(&mut slave, &[("g", 210)], false, hour.plus(KEEP_MS - 1));
        assert_eq!(at(&slave, "g"), Some(210));
        follow(&mut slave, &[("g", 150)], false, hour.plus(KEEP_MS - 1));
        assert_eq!(at(&slave, "g"), Some(150), "the master had it, and was reset");
    }

    /// It was back for a moment only, and nobody told it.
    #[test]
    fn what_is_kept_is_kept_over_the_next_absence() {
        let mut slave = slave(&[("g", 100)]);
        follow(&mut slave, &[("g", 100)], true, NOW);
        slave.master_is_away(NOW);
        commit(&mut slave, "g", 200, NOW);
        follow(&mut slave, &[("g", 100)], true, NOW);
        let (soon, hour) = (NOW.plus(5_000), NOW.plus(3_600_000));
        slave.master_is_away(soon);
        slave.master_is_away(hour);
        assert_eq!(slave.kept(hour).offset_table, table(&[("g", 200)]).offset_table);
        follow(&mut slave, &[("g", 100)], true, hour);
        follow(&mut slave, &[("g", 100)], false, hour.plus(KEEP_MS));
        slave.master_is_away(hour.plus(KEEP_MS));
        assert_eq!(at(&slave, "g"), Some(100), "but no longer than a master that is there wants it");
        assert!(slave.kept(hour.plus(KEEP_MS)).offset_table.is_empty());
    }

    #[test]
    fn a_lower_offset_counts_in_the_end() {
        let mut slave = slave(&[("g", 100)]);
        follow(&mut slave, &[("g", 90)], true, NOW);
        assert_eq!(at(&slave, "g"), Some(100), "a restarted master has lost its last commits");
        follow(&mut slave, &[("g", 90)], false, NOW.plus(KEEP_MS));
        assert_eq!(at(&slave, "g"), Some(90), "or somebody wants it so");
    }

    #[test]
    fn a_commit_beside_a_living_master_is_kept_for_a_while() {
        let mut slave = slave(&[("g", 100)]);
        follow(&mut slave, &[("g", 100)], true, NOW);
        commit(&mut slave, "g", 120, NOW);
        follow(&mut slave, &[("g", 110)], false, NOW.plus(KEEP_MS - 1));
        assert_eq!(at(&slave, "g"), Some(120));
        follow(&mut slave, &[("g", 110)], false, NOW.plus(KEEP_MS));
        assert_eq!(at(&slave, "g"), Some(110));
    }

    #[test]
    fn a_master_that_comes_back_catches_up_forwards_only() {
        let mut master = OffsetTable::load(table(&[("behind", 100), ("ahead", 300), ("above", 0)]), 500, 1000);
        let kept = table(&[("behind", 200), ("ahead", 250), ("above", 900), ("new", 7)]);
        assert_eq!(master.catch_up(&kept, |_, _| 400, &mut Vec::new()), 3);
        let found = ["behind", "ahead", "above", "new"].map(|group| at(&master, group));
        assert_eq!(found, [Some(200), Some(300), Some(400), Some(7)]);
        assert!(master.take_dirty());
    }

    #[test]
    fn a_new_masters_groups_have_consumed_no_more_than_it_has() {
        let mut slave = slave(&[("g", 103), ("h", 100)]);
        let lowered = slave.lower_to_ends(|_, _| 100);
        assert_eq!(lowered, [Lowered { key: Wrapper::key("t", "g"), queue_id: 0, was: 103, is: 100 }]);
        assert_eq!((at(&slave, "g"), at(&slave, "h"), slave.take_dirty()), (Some(100), Some(100), true));
    }

    #[test]
    fn an_empty_slave_does_not_say_that_a_group_is_new() {
        let mut slave = slave(&[]);
        assert!(!slave.knows_who_is_new());
        follow(&mut slave, &[], true, NOW);
        assert!(slave.knows_who_is_new());
    }
}
