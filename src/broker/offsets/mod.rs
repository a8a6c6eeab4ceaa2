//! Consumer offsets: what each group has consumed of each queue, and what it pulled.
//!
//! One table, changed by one call at a time, so two first commits of a new group cannot replace each other (OFF-5).
//! Written to `consumerOffset.json` every few seconds when dirty; what a crash loses of it is consumed again.

mod follow;
mod position;
mod reset;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::env::{Canaries, Canary, Millis};
use crate::proto::body::DataVersion;

use super::role::Role;
use super::topics::TopicView;
use super::{BrokerError, Effect, QueueKey, Report};

use follow::Following;
use position::Position;
pub use position::{Commit, Who, RESET_GUARD_MS};
pub use reset::{reset_target, ResetRequest};
pub use snapshot::{lower_to_ends, Lowered};

/// The offsets of all groups. `now` is monotonic time.
#[derive(Debug)]
pub struct OffsetTable {
    /// Group, topic, queue. Positions of broadcasting groups stand under the group's name with `@broadcast`.
    groups: BTreeMap<Arc<str>, Topics>,
    count: usize,
    limit: usize,
    dirty: bool,
    updates: u64,
    canaries: Canaries,
    version_step: u64,
    version: DataVersion,
    changes: u64,
    role: Role,
    following: Following,
}

type Topics = BTreeMap<Arc<str>, BTreeMap<i32, Position>>;

/// What the store knows about a queue whose offset is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFacts {
    /// The topic has a configuration.
    pub topic_exists: bool,
    /// The first offset still there.
    pub min: i64,
    /// The next offset to be written.
    pub max: i64,
    /// The queue's first message is recent, that is, presumably still in memory.
    pub first_is_recent: bool,
}

/// A pull, as far as offsets are concerned.
#[derive(Clone, Copy, Debug)]
pub struct PullStep<'a> {
    /// The group.
    pub group: &'a str,
    /// The topic.
    pub topic: &'a Arc<str>,
    /// The queue.
    pub queue_id: i32,
    /// The first offset wanted.
    pub from: i64,
    /// The offset to commit, if the pull brings one and is carried out for the first time.
    pub commit: Option<i64>,
    /// Who pulls.
    pub by: Who<'a>,
    /// The client that holds the queue's lock.
    pub holder: Option<&'a str>,
}

impl OffsetTable {
    /// An empty table of at most `limit` queues (`offsetsMax`). The data version steps once per `version_step` updates
    /// (`consumerOffsetUpdateVersionStep`).
    pub fn new(version_step: u64, limit: usize) -> OffsetTable {
        OffsetTable {
            groups: BTreeMap::new(),
            count: 0,
            limit,
            dirty: false,
            updates: 0,
            canaries: Canaries::default(),
            version_step: version_step.max(1),
            version: DataVersion::default(),
            changes: 0,
            role: Role::master(),
            following: Following::default(),
        }
    }

    /// The same table with planted bugs.
    pub fn with_canaries(mut self, canaries: Canaries) -> OffsetTable {
        if canaries.has(Canary::ResetsForgotten) {
            let topics = self.groups.values_mut().flat_map(BTreeMap::values_mut);
            for position in topics.flat_map(BTreeMap::values_mut) {
                position.follow_reset(None);
            }
        }
        OffsetTable { canaries, ..self }
    }

    /// The same table of a broker with a role.
    pub fn with_role(self, role: Role) -> OffsetTable {
        OffsetTable { role, ..self }
    }

    /// How often an offset was moved so far.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// UPDATE_CONSUMER_OFFSET, checked by [`check_commit`]; −1 reads back as "none".
    pub fn commit(
        &mut self,
        group: &str,
        queue: (&str, i32),
        offset: i64,
        (by, holder): (Who<'_>, Option<&str>),
        now: Millis,
        out: &mut Vec<Effect>,
    ) -> Commit {
        let by = if self.canaries.has(Canary::LateCommitCounts) { Who::Other } else { by };
        let holder = holder.filter(|_| !self.canaries.has(Canary::FencingOff));
        let keep = self.keeps_until(now);
        let Some(position) = self.position(group, queue, out) else { return Commit::Stored };
        let commit = position.commit(offset, by, holder, now);
        position.keep(commit, keep);
        self.committed(commit, out, || late(group, queue, by, offset));
        commit
    }

    /// A pull begins. `Some`: the group was reset; answer PULL_OFFSET_MOVED with that offset. Otherwise the offset the
    /// pull brought is committed and the puller is the queue's owner from now on.
    pub fn pull(&mut self, step: PullStep<'_>, now: Millis, out: &mut Vec<Effect>) -> Option<i64> {
        let PullStep { group, topic, queue_id, holder, .. } = step;
        let holder = holder.filter(|_| !self.canaries.has(Canary::FencingOff));
        let keep = self.keeps_until(now);
        let position = self.position(group, (topic, queue_id), out)?;
        let pending = position.pending_reset();
        if let Some(target) = position.pull(step.from, step.by, now) {
            crate::sometimes!("a group was reset while it pulled");
            return Some(target);
        }
        let taken_up = pending != position.pending_reset();
        if taken_up {
            self.updated();
        }
        let offset = step.commit?;
        let position = self.position(group, (topic, queue_id), out)?;
        let commit = position.commit(offset, step.by, holder, now);
        position.keep(commit, keep);
        self.committed(commit, out, || late(group, (topic, queue_id), step.by, offset));
        None
    }

    /// QUERY_CONSUMER_OFFSET. `None` is QUERY_NOT_FOUND, on which clients apply their start policy.
    ///
    /// A queue that a group never committed in begins at 0 while it is young, and, unlike RocketMQ's, also while it is
    /// empty (a message between this answer and the client's next question was skipped: OFF-8). A retry queue always
    /// begins at its first message: whatever lies in it failed once and waits (RTY-7).
    pub fn query(&self, group: &str, queue: (&str, i32), zero_if_none: bool, facts: QueueFacts) -> Option<i64> {
        let told = if self.canaries.has(Canary::PullsForCommits) { Position::pulled } else { Position::committed };
        if let Some(offset) = self.get(group, queue).and_then(told) {
            return Some(offset);
        }
        if !zero_if_none || !facts.topic_exists {
            return None;
        }
        if queue.0.starts_with("%RETRY%") {
            return Some(facts.min.max(0));
        }
        if self.canaries.has(Canary::NewGroupAtEnd) {
            return Some(facts.max);
        }
        let young = facts.min <= 0 && (facts.max <= 0 || facts.first_is_recent);
        young.then_some(0)
    }

    /// Moves a group to `target`, defended against commits until the group took it up.
    pub fn reset(&mut self, group: &str, queue: (&str, i32), target: i64, out: &mut Vec<Effect>) {
        if let Some(position) = self.position(group, queue, out) {
            position.reset(target);
            self.updated();
        }
    }

    /// The committed offset of a queue.
    pub fn committed_offset(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        self.get(group, (topic, queue_id))?.committed()
    }

    /// Where the group last began a pull.
    pub fn pulled_offset(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        self.get(group, (topic, queue_id))?.pulled()
    }

    /// The queues of a topic in which a group committed, with their offsets.
    pub fn offsets<'a>(&'a self, group: &str, topic: &str) -> impl Iterator<Item = (i32, i64)> + use<'a> {
        let queues = self.groups.get(group).and_then(|topics| topics.get(topic));
        queues.into_iter().flatten().filter_map(|(queue_id, position)| Some((*queue_id, position.committed()?)))
    }

    /// The topics a group has offsets of.
    pub fn topics_of<'a>(&'a self, group: &str) -> impl Iterator<Item = &'a Arc<str>> + use<'a> {
        self.groups.get(group).into_iter().flat_map(BTreeMap::keys)
    }

    /// The groups that have offsets of a topic, those of broadcasting positions left out.
    pub fn groups_of<'a>(&'a self, topic: &'a str) -> impl Iterator<Item = &'a Arc<str>> {
        self.groups
            .iter()
            .filter(move |(group, topics)| !group.contains('@') && topics.contains_key(topic))
            .map(|g| g.0)
    }

    /// CLONE_GROUP_OFFSET: `destination` gets the offsets of `source` in `topics`, in all of source's topics if none is
    /// named. (RocketMQ copies nothing then.) As after a reset, members of `destination` that run go there, and what they still
    /// commit does not count. Returns how many queues were copied.
    pub fn clone_group(&mut self, source: &str, destination: &str, topics: &[&str], out: &mut Vec<Effect>) -> usize {
        let Some(from) = self.groups.get(source) else { return 0 };
        let wanted = |topic: &str| topics.is_empty() || topics.contains(&topic);
        let copied: Vec<(Arc<str>, i32, i64)> = from
            .iter()
            .filter(|(topic, _)| wanted(topic))
            .flat_map(|(topic, queues)| queues.iter().map(move |(id, position)| (topic, *id, position)))
            .filter_map(|(topic, id, position)| Some((topic.clone(), id, position.committed()?)))
            .collect();
        for (topic, queue_id, offset) in &copied {
            if let Some(position) = self.position(destination, (topic, *queue_id), out) {
                position.reset(*offset);
            }
        }
        self.updated();
        copied.len()
    }

    /// A topic is deleted: nothing of it stays, so a new one of that name begins anew (OFF-4).
    pub fn remove_topic(&mut self, topic: &str) {
        self.groups.retain(|_, topics| {
            topics.remove(topic);
            !topics.is_empty()
        });
        self.recount();
    }

    /// A group is deleted with its offsets.
    pub fn remove_group(&mut self, group: &str) {
        self.groups.remove(group);
        self.groups.remove(&*format!("{group}@broadcast"));
        self.recount();
    }

    /// Whether the table changed since it was last asked; the one who asks writes the file.
    pub fn take_dirty(&mut self) -> bool {
        std::mem::take(&mut self.dirty)
    }

    /// The file was not written after all: it is to be tried again.
    pub fn mark_dirty(&mut self) {
        self.dirty = true;
    }

    /// Queues with a position.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn get(&self, group: &str, (topic, queue_id): (&str, i32)) -> Option<&Position> {
        self.groups.get(group)?.get(topic)?.get(&queue_id)
    }

    fn position(
        &mut self,
        group: &str,
        (topic, queue_id): (&str, i32),
        out: &mut Vec<Effect>,
    ) -> Option<&mut Position> {
        if self.get(group, (topic, queue_id)).is_none() {
            if self.count >= self.limit {
                out.push(Effect::Report(Report::TableFull { setting: "offsetsMax", limit: self.limit }));
                return None;
            }
            let topics = self.groups.entry(group.into()).or_default();
            topics.entry(topic.into()).or_default().insert(queue_id, Position::default());
            self.count += 1;
        }
        self.groups.get_mut(group)?.get_mut(topic)?.get_mut(&queue_id)
    }

    fn committed(&mut self, commit: Commit, out: &mut Vec<Effect>, report: impl FnOnce() -> Option<LateCommit>) {
        match commit {
            Commit::Stored => self.updated(),
            Commit::Resetting | Commit::Locked => {}
            Commit::Late { kept } => {
                crate::sometimes!("a late commit was left out");
                out.extend(report().map(|late| {
                    let LateCommit { group, queue, client, wanted } = late;
                    Effect::Report(Report::LateCommit { group, queue, client, wanted, kept })
                }));
            }
        }
    }

    fn updated(&mut self) {
        self.dirty = true;
        self.changes += 1;
        self.updates += 1;
    }

    fn recount(&mut self) {
        self.count = self.groups.values().flat_map(BTreeMap::values).map(BTreeMap::len).sum();
        self.updated();
    }
}

/// Whether a group may commit an offset: group and topic have to be known (a commit creates neither), and the queue has
/// to be one of the topic's or hold messages, as one does that the topic has no longer. RocketMQ takes any queue number
/// and any offset. One above `max`, the queue's end, would have the group miss the messages between: a client has one
/// after a crash lost messages, until its next pull moves it.
pub fn check_commit(
    (group, group_known): (&str, bool),
    (topic, view): (&str, Option<&TopicView>),
    (queue_id, max): (i32, Option<i64>),
    offset: i64,
) -> Result<(), BrokerError> {
    if !group_known {
        return Err(BrokerError::CommitGroupNotExist { group: group.to_owned() });
    }
    let Some(view) = view else { return Err(BrokerError::CommitTopicNotExist { topic: topic.to_owned() }) };
    if !view.has_queue(queue_id) && max.is_none() {
        return Err(BrokerError::QueueId { topic: topic.to_owned(), queue_id, queues: view.queues() });
    }
    let max = max.unwrap_or(0);
    if !(-1..=max).contains(&offset) {
        return Err(BrokerError::CommitOffset { topic: topic.to_owned(), queue_id, offset, max });
    }
    Ok(())
}

struct LateCommit {
    group: Arc<str>,
    queue: QueueKey,
    client: Arc<str>,
    wanted: i64,
}

fn late(group: &str, (topic, queue_id): (&str, i32), by: Who<'_>, wanted: i64) -> Option<LateCommit> {
    let Who::Member(client) = by else { return None };
    Some(LateCommit { group: group.into(), queue: QueueKey::new(topic, queue_id), client: client.clone(), wanted })
}
