//! What the rules want done.

use std::fmt;
use std::sync::Arc;

use crate::proto::QueueOffset;

use super::transaction::{Decision, TransactionId};
use super::ConnectionId;

/// Something the rules cannot do themselves. Carry them out in order; none of them has an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Write `topics.json`, before the request that caused it is answered.
    PersistTopics,
    /// Write `subscriptionGroup.json`, before the request that caused it is answered.
    PersistGroups,
    /// Write `consumerOffset.json` now and not with the next regular save.
    PersistOffsets,
    /// Write `queueLocks.json`, before a client is told of a lock that is new.
    PersistLocks,
    /// Register with all NameServers now: a snapshot taken when this is carried out is the newest.
    Register,
    /// Drop the queues of a deleted topic from the store.
    DropQueues {
        /// The topic.
        topic: Arc<str>,
    },
    /// Drop all offsets of a deleted topic.
    ForgetTopicOffsets {
        /// The topic.
        topic: Arc<str>,
    },
    /// Drop all offsets of a deleted group.
    ForgetGroupOffsets {
        /// The group.
        group: Arc<str>,
    },
    /// Send NOTIFY_CONSUMER_IDS_CHANGED, one-way, to each connection.
    NotifyIdsChanged {
        /// The group whose members or topics changed.
        group: Arc<str>,
        /// Its members, the one that caused it included.
        connections: Vec<ConnectionId>,
    },
    /// Close a connection.
    Close(ConnectionId),
    /// Write a log line and count it.
    Report(Report),
}

/// Something an operator should know. The text says what happened, to whom, and with which numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Report {
    /// A group member's commit came too late to count (OTH-7).
    LateCommit {
        /// The group.
        group: Arc<str>,
        /// The queue.
        queue: super::QueueKey,
        /// The member.
        client: Arc<str>,
        /// The offset it wanted.
        wanted: i64,
        /// The offset that stays.
        kept: i64,
    },
    /// Members of a group subscribe to different things (SUB-1).
    SubscriptionConflict(super::clients::Conflict),
    /// A member was not heard of for too long.
    ClientExpired {
        /// The client.
        client: Arc<str>,
        /// Milliseconds since its last heartbeat.
        idle_ms: u64,
    },
    /// The saved progress of a delay level lay outside its queue (DLY-2).
    DelayProgressCorrected {
        /// The level.
        level: i32,
        /// The progress as saved.
        saved: QueueOffset,
        /// The progress as it goes on.
        corrected: QueueOffset,
    },
    /// Entries of a delay level cannot be delivered any more.
    DelayedLost {
        /// The level.
        level: i32,
        /// The first of them.
        from: QueueOffset,
        /// Behind the last of them.
        to: QueueOffset,
        /// Why.
        why: &'static str,
    },
    /// A message with a time of its own cannot be delivered any more.
    TimedLost {
        /// The record's number in the timer topic.
        number: QueueOffset,
        /// Why.
        why: &'static str,
    },
    /// A consumer's offset lay outside its queue and was corrected (DSK-5).
    OffsetMoved {
        /// The group.
        group: Arc<str>,
        /// The queue.
        queue: super::QueueKey,
        /// The offset asked for.
        from: i64,
        /// The offset it goes on at.
        to: i64,
    },
    /// A producer decides otherwise about a transaction than was decided before.
    LateEnd {
        /// The transaction.
        id: TransactionId,
        /// What it wants.
        wanted: Decision,
        /// What stands; `None`: it has ended, nobody remembers how.
        stands: Option<Decision>,
    },
    /// A transaction was given up: its message lies in `TRANS_CHECK_MAX_TIME_TOPIC`.
    TransactionGivenUp {
        /// The transaction.
        id: TransactionId,
        /// How often its producer was asked.
        checks: u32,
    },
    /// A producer is to be asked about transactions, and nobody of its group is there.
    NobodyToAsk {
        /// The group.
        group: Arc<str>,
    },
    /// Half messages are gone before they were decided.
    HalfMessagesLost {
        /// The first of them.
        from: QueueOffset,
        /// Behind the last of them.
        to: QueueOffset,
        /// Why.
        why: &'static str,
    },
    /// A table is full, something was refused.
    TableFull {
        /// The setting that limits it.
        setting: &'static str,
        /// Its value.
        limit: usize,
    },
}

impl Report {
    /// What it is about: lines about one thing are not written more often than is useful.
    pub fn subject(&self) -> (&'static str, Arc<str>) {
        match self {
            Report::LateCommit { group, .. } => ("late commit", Arc::clone(group)),
            Report::SubscriptionConflict(conflict) => ("subscription conflict", conflict.to_string().into()),
            Report::ClientExpired { client, .. } => ("client expired", Arc::clone(client)),
            Report::DelayProgressCorrected { level, .. } => ("delay progress", level.to_string().into()),
            Report::DelayedLost { level, .. } => ("delayed lost", level.to_string().into()),
            Report::TimedLost { .. } => ("timed lost", "".into()),
            Report::OffsetMoved { group, .. } => ("offset moved", Arc::clone(group)),
            Report::LateEnd { id, .. } => ("late end", Arc::clone(&id.group)),
            Report::TransactionGivenUp { id, .. } => ("transaction given up", Arc::clone(&id.group)),
            Report::NobodyToAsk { group } => ("nobody to ask", Arc::clone(group)),
            Report::HalfMessagesLost { .. } => ("half messages lost", "".into()),
            Report::TableFull { setting, .. } => ("table full", (*setting).into()),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Report::LateCommit { group, queue, client, wanted, kept } => write!(
                out,
                "ignored a late commit of {wanted} by {client} in group {group}: {} queue {} stays at {kept}",
                queue.topic, queue.queue_id
            ),
            Report::SubscriptionConflict(conflict) => write!(out, "{conflict}"),
            Report::ClientExpired { client, idle_ms } => {
                write!(out, "no heartbeat from {client} for {idle_ms} ms, closed its connection")
            }
            Report::DelayProgressCorrected { level, saved, corrected } => {
                write!(out, "progress of delay level {level} was {}, its queue says {}", saved.0, corrected.0)
            }
            Report::DelayedLost { level, from, to, why } => {
                write!(out, "delay level {level}: entries {} to {} are gone: {why}", from.0, to.0.saturating_sub(1))
            }
            Report::TimedLost { number, why } => write!(out, "timer: message {} is lost: {why}", number.0),
            Report::OffsetMoved { group, queue, from, to } => write!(
                out,
                "group {group} asked for offset {from} of {} queue {}: moved to {to}",
                queue.topic, queue.queue_id
            ),
            Report::LateEnd { id, wanted, stands } => {
                write!(out, "transaction {} of group {} shall be {wanted}, but it ", id.key, id.group)?;
                match stands {
                    Some(stands) => write!(out, "has been {stands}: the first decision stands"),
                    None => out.write_str("has ended before: the first decision stands"),
                }
            }
            Report::TransactionGivenUp { id, checks } => write!(
                out,
                "transaction {} of group {} was given up after {checks} questions: its message lies in \
                 TRANS_CHECK_MAX_TIME_TOPIC",
                id.key, id.group
            ),
            Report::NobodyToAsk { group } => {
                write!(out, "no producer of group {group} is there to be asked about its transactions: they wait")
            }
            Report::HalfMessagesLost { from, to, why } => {
                write!(out, "half messages {} to {} are gone: {why}", from.0, to.0.saturating_sub(1))
            }
            Report::TableFull { setting, limit } => write!(out, "refused: {setting} is {limit}"),
        }
    }
}
