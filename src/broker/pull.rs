//! What may be pulled, and what a read becomes as an answer.

use crate::proto::filter::{ExpressionType, TagFilter};
use crate::proto::remoting::codes::response as code;

use super::clients::{ConsumerGroups, Subscription};
use super::groups::GroupView;
use super::topics::TopicView;
use super::{BrokerError, ConnectionId, Effect, QueueKey, Report};

/// The bits of a pull's sysFlag.
pub mod flag {
    /// `commitOffset` is to be committed.
    pub const COMMIT_OFFSET: i32 = 0x1;
    /// The request may wait for messages.
    pub const SUSPEND: i32 = 0x2;
    /// `subscription` is to be used.
    pub const SUBSCRIPTION: i32 = 0x4;
    /// Never set today.
    pub const CLASS_FILTER: i32 = 0x8;
    /// From a lite pull consumer.
    pub const LITE_PULL: i32 = 0x10;
}

/// What the broker's settings say about pulling.
#[derive(Clone, Debug)]
pub struct PullRules {
    /// The broker's address in remarks.
    pub address: String,
    /// The broker as a whole may be read.
    pub readable: bool,
    /// LITE_PULL_MESSAGE is served.
    pub lite_pull: bool,
    /// A slave that serves pulls.
    pub slave_read: bool,
    /// The broker is a slave.
    pub slave: bool,
}

/// A pull request.
#[derive(Clone, Copy, Debug)]
pub struct PullRequest<'a> {
    /// LITE_PULL_MESSAGE.
    pub lite: bool,
    /// The group.
    pub group: &'a str,
    /// The topic.
    pub topic: &'a str,
    /// The queue.
    pub queue_id: i32,
    /// The pull's sysFlag.
    pub sys_flag: i32,
    /// The expression, meant if [`flag::SUBSCRIPTION`] is set.
    pub subscription: Option<&'a str>,
    /// The version of the client's subscription.
    pub sub_version: i64,
    /// `TAG` or `SQL92`; absent or empty is `TAG`.
    pub expression_type: Option<&'a str>,
    /// The connection.
    pub connection: ConnectionId,
    /// The client's address.
    pub peer: std::net::SocketAddr,
}

impl PullRequest<'_> {
    /// Whether the request may wait.
    pub fn may_wait(&self) -> bool {
        self.sys_flag & flag::SUSPEND != 0
    }

    /// Whether the request's offset is to be committed.
    pub fn commits(&self) -> bool {
        self.sys_flag & flag::COMMIT_OFFSET != 0
    }
}

/// The checks, in RocketMQ's order; what passes them reads through the filter returned. `group` and `topic` are as
/// found, the group as found or created.
pub fn check(
    rules: &PullRules,
    request: &PullRequest<'_>,
    group: Option<&GroupView>,
    topic: Option<&TopicView>,
    registered: &ConsumerGroups,
) -> Result<TagFilter, BrokerError> {
    if rules.slave && !rules.slave_read {
        return Err(BrokerError::Rejected);
    }
    if !rules.readable {
        return Err(BrokerError::BrokerNotReadable { address: rules.address.clone() });
    }
    if request.lite && !rules.lite_pull {
        return Err(BrokerError::LitePullForbidden { address: rules.address.clone() });
    }
    let group = group.ok_or_else(|| BrokerError::PullGroupNotExist { group: request.group.to_owned() })?;
    if !group.consume_enabled() {
        return Err(BrokerError::GroupDisabled { group: request.group.to_owned() });
    }
    let topic = topic.ok_or_else(|| BrokerError::PullTopicNotExist { topic: request.topic.to_owned() })?;
    if !topic.is_readable() {
        return Err(BrokerError::TopicNotReadable { topic: request.topic.to_owned() });
    }
    if !(0..topic.read_queues()).contains(&request.queue_id) {
        return Err(BrokerError::PullQueueId {
            queue_id: request.queue_id,
            topic: request.topic.to_owned(),
            read_queues: topic.read_queues(),
            peer: request.peer.to_string(),
        });
    }
    if request.sys_flag & flag::SUBSCRIPTION != 0 {
        return own_filter(request);
    }
    registered_filter(request, group, registered)
}

/// The filter a request brings along.
fn own_filter(request: &PullRequest<'_>) -> Result<TagFilter, BrokerError> {
    match ExpressionType::of_name(request.expression_type) {
        ExpressionType::Tag => {
            let expression = request.subscription.unwrap_or_default();
            TagFilter::parse(expression).map_err(|_| BrokerError::SubscriptionParse)
        }
        ExpressionType::Sql92 => Err(BrokerError::Sql92Disabled),
        ExpressionType::Other(_) => Err(BrokerError::SubscriptionParse),
    }
}

/// The filter of the last heartbeat.
fn registered_filter(
    request: &PullRequest<'_>,
    group: &GroupView,
    registered: &ConsumerGroups,
) -> Result<TagFilter, BrokerError> {
    let found = registered.subscription(request.group, request.connection, request.topic);
    let (broadcasting, data) = match found {
        Subscription::GroupUnknown => return Err(BrokerError::GroupNotRegistered),
        Subscription::TopicUnknown { broadcasting } => (broadcasting, None),
        Subscription::Found { broadcasting, data } => (broadcasting, Some(data)),
    };
    let (group_name, topic) = (request.group.to_owned(), request.topic.to_owned());
    if broadcasting && !group.broadcast_enabled() {
        return Err(BrokerError::BroadcastForbidden { group: group_name });
    }
    if group.is_read_forbidden(request.topic) {
        return Err(BrokerError::GroupTopicForbidden { group: group_name, topic });
    }
    let data = data.ok_or(BrokerError::SubscriptionMissing)?;
    if data.expression_type != ExpressionType::Tag {
        return Err(BrokerError::Sql92Disabled);
    }
    // The client subscribed to something new and its heartbeat is still on the way: the old tags would skip messages
    // (SUB-3), and to refuse would make it stand still. It compares tags itself, so it may have everything.
    if data.sub_version < request.sub_version {
        return Ok(TagFilter::All);
    }
    Ok(data.tag_filter())
}

/// How a read ended; see the store's `ReadOutcome`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadStatus {
    /// At least one message.
    Found,
    /// Messages, but none that matches.
    NoMatchedMessage,
    /// The records of entries are gone.
    MessageWasRemoving,
    /// A queue file is missing.
    OffsetFoundNull,
    /// At the end.
    OffsetOverflowOne,
    /// Beyond the end.
    OffsetOverflowBadly,
    /// Before the beginning.
    OffsetTooSmall,
    /// The group was reset.
    OffsetReset,
    /// Nothing was ever written.
    NoMessageInQueue,
}

impl ReadStatus {
    /// RocketMQ's name, which goes into the remark.
    pub fn name(self) -> &'static str {
        match self {
            ReadStatus::Found => "FOUND",
            ReadStatus::NoMatchedMessage => "NO_MATCHED_MESSAGE",
            ReadStatus::MessageWasRemoving => "MESSAGE_WAS_REMOVING",
            ReadStatus::OffsetFoundNull => "OFFSET_FOUND_NULL",
            ReadStatus::OffsetOverflowOne => "OFFSET_OVERFLOW_ONE",
            ReadStatus::OffsetOverflowBadly => "OFFSET_OVERFLOW_BADLY",
            ReadStatus::OffsetTooSmall => "OFFSET_TOO_SMALL",
            ReadStatus::OffsetReset => "OFFSET_RESET",
            ReadStatus::NoMessageInQueue => "NO_MESSAGE_IN_QUEUE",
        }
    }
}

/// What a read found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// How it ended.
    pub status: ReadStatus,
    /// The offset it began at.
    pub from: i64,
    /// Behind the last entry it examined; counts for those statuses that examined any, and for a reset.
    pub examined_to: i64,
    /// The first offset still there.
    pub min: i64,
    /// The next offset to be written.
    pub max: i64,
    /// The data lies so far back that a slave should serve it.
    pub far_behind: bool,
}

/// What to do about a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Answer.
    Answer(Answer),
    /// Wait until the queue holds an entry at this offset, then read from there again.
    Wait {
        /// The offset.
        from: i64,
    },
}

/// An answer to a pull, apart from the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The response code.
    pub code: i32,
    /// The remark: the status's name.
    pub remark: &'static str,
    /// Where to go on.
    pub next: i64,
    /// The first offset still there.
    pub min: i64,
    /// The next offset to be written.
    pub max: i64,
}

/// The answer to a read, or whether it waits. `may_wait` is true if the request allows it, there is time left and there
/// is room. A woken request whose messages all were of other tags goes on waiting behind them; RocketMQ's answers, and
/// its client asks again at once.
pub fn verdict(read: &Read, may_wait: bool, woken: bool) -> Verdict {
    let end = read.max.max(read.min);
    let (code, next) = match read.status {
        ReadStatus::Found => (code::SUCCESS, read.examined_to),
        ReadStatus::NoMatchedMessage if woken && may_wait => return Verdict::Wait { from: read.examined_to },
        ReadStatus::NoMatchedMessage | ReadStatus::MessageWasRemoving => {
            (code::PULL_RETRY_IMMEDIATELY, read.examined_to)
        }
        ReadStatus::OffsetOverflowOne if may_wait => return Verdict::Wait { from: read.from },
        ReadStatus::OffsetOverflowOne => (code::PULL_NOT_FOUND, read.from),
        ReadStatus::OffsetFoundNull => (code::PULL_NOT_FOUND, read.examined_to),
        // Never to the beginning: an unclean restart may have lost the last few, and a group that had consumed them
        // would get days of messages again (DSK-5).
        ReadStatus::OffsetOverflowBadly => (code::PULL_OFFSET_MOVED, end),
        ReadStatus::OffsetTooSmall => (code::PULL_OFFSET_MOVED, read.min),
        ReadStatus::OffsetReset => (code::PULL_OFFSET_MOVED, read.examined_to),
        ReadStatus::NoMessageInQueue if read.from == 0 && may_wait => return Verdict::Wait { from: 0 },
        ReadStatus::NoMessageInQueue if read.from == 0 => (code::PULL_NOT_FOUND, 0),
        ReadStatus::NoMessageInQueue => (code::PULL_OFFSET_MOVED, end),
    };
    Verdict::Answer(Answer { code, remark: read.status.name(), next, min: read.min, max: read.max })
}

/// The report of an answer that moves its group (DSK-5); a reset was asked for and needs none.
pub fn report_moved(read: &Read, answer: &Answer, group: &str, queue: &QueueKey) -> Option<Effect> {
    let corrected = answer.code == code::PULL_OFFSET_MOVED && read.status != ReadStatus::OffsetReset;
    corrected.then(|| {
        Effect::Report(Report::OffsetMoved {
            group: group.into(),
            queue: queue.clone(),
            from: read.from,
            to: answer.next,
        })
    })
}

/// The broker id a client should pull from next: a slave's, if this one's messages are far behind and slaves serve
/// pulls; else the group's.
pub fn suggested_broker_id(rules: &PullRules, group: &GroupView, read: &Read) -> i64 {
    match read.far_behind && rules.slave_read && !rules.slave {
        true => group.which_broker_when_slow(),
        false => group.broker_id(),
    }
}
