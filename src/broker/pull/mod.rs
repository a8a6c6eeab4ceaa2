//! What may be pulled, and what a read becomes as an answer.

mod chosen;
mod expressions;
mod slave;
#[cfg(test)]
mod tests;
mod verdict;

use std::sync::Arc;

use crate::proto::filter::{ExpressionType, Filter, FilterError};

use super::clients::{ConsumerGroups, Subscription};
use super::groups::GroupView;
use super::role::Role;
use super::topics::TopicView;
use super::{BrokerError, ConnectionId};

pub use chosen::Chosen;
pub use expressions::Expressions;
pub use slave::{hold_ms, verdict_by_role};
pub use verdict::{report_moved, suggested_broker_id, verdict, Answer, Read, ReadStatus, Verdict};

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
    /// SQL92 expressions are evaluated.
    pub property_filter: bool,
    /// A slave serves pulls while there is a master; without one it always does.
    pub slave_read: bool,
    /// A slave corrects offsets that it does not have, like a master.
    pub offset_check_in_slave: bool,
    /// Master or slave.
    pub role: Role,
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

    /// The expression that comes with the request and is to be used, and its version.
    pub fn own_expression(&self) -> Option<(ExpressionType, &str, i64)> {
        let kind = || ExpressionType::of_name(self.expression_type);
        let comes = self.sys_flag & flag::SUBSCRIPTION != 0;
        comes.then(|| (kind(), self.subscription.unwrap_or_default(), self.sub_version))
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
    expressions: &mut Expressions,
) -> Result<Arc<Filter>, BrokerError> {
    if rules.role.is_slave() && !rules.slave_read && rules.role.master_is_registered() {
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
    if let Some((kind, expression, _)) = request.own_expression() {
        check_language(rules, &kind)?;
        return expressions.filter(kind, expression);
    }
    registered_filter(rules, request, group, registered)
}

/// Whether expressions of this type are evaluated here.
fn check_language(rules: &PullRules, kind: &ExpressionType) -> Result<(), BrokerError> {
    match kind {
        ExpressionType::Sql92 if !rules.property_filter => Err(BrokerError::Sql92Disabled),
        _ => Ok(()),
    }
}

/// CHECK_CLIENT_CONFIG: whether a consumer may start with an expression.
pub fn check_expression(rules: &PullRules, kind: &ExpressionType, expression: &str) -> Result<(), BrokerError> {
    check_language(rules, kind)?;
    Filter::compile(kind, expression).map(drop).map_err(BrokerError::Expression)
}

/// The filter of the last heartbeat.
fn registered_filter(
    rules: &PullRules,
    request: &PullRequest<'_>,
    group: &GroupView,
    registered: &ConsumerGroups,
) -> Result<Arc<Filter>, BrokerError> {
    let found = registered.subscription(request.group, request.connection, request.topic);
    let (broadcasting, subscribed) = match found {
        Subscription::GroupUnknown => return Err(BrokerError::GroupNotRegistered),
        Subscription::TopicUnknown { broadcasting } => (broadcasting, None),
        Subscription::Found { broadcasting, subscribed } => (broadcasting, Some(subscribed)),
    };
    let (group_name, topic) = (request.group.to_owned(), request.topic.to_owned());
    if broadcasting && !group.broadcast_enabled() {
        return Err(BrokerError::BroadcastForbidden { group: group_name });
    }
    if group.is_read_forbidden(request.topic) {
        return Err(BrokerError::GroupTopicForbidden { group: group_name, topic });
    }
    let subscribed = subscribed.ok_or(BrokerError::SubscriptionMissing)?;
    check_language(rules, &subscribed.data.expression_type)?;
    // The client subscribed to something new and its heartbeat is still on the way: the old filter would skip messages
    // (SUB-3). A client compares tags itself, so it may have everything rather than stand still; properties it does not.
    if subscribed.data.sub_version < request.sub_version {
        return match subscribed.data.expression_type {
            ExpressionType::Tag => Ok(Arc::new(Filter::ALL)),
            _ => Err(BrokerError::SubscriptionNotLatest),
        };
    }
    match &subscribed.filter {
        Ok(filter) => Ok(Arc::clone(filter)),
        // It stayed as it came; the client knows which tags it meant.
        Err(FilterError::Tags(_)) => Ok(Arc::new(Filter::ALL)),
        Err(error) => Err(BrokerError::Expression(error.clone())),
    }
}
