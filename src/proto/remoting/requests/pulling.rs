//! Pulling messages.

use std::borrow::Cow;

use super::fields::ext_fields;

ext_fields! {
    /// 11 and 361.
    pub struct PullHeader<'a> {
        consumer_group: Cow<'a, str> = "consumerGroup",
        topic: Cow<'a, str> = "topic",
        queue_id: i32 = "queueId",
        /// The first offset wanted.
        queue_offset: i64 = "queueOffset",
        max_msg_nums: i32 = "maxMsgNums",
        /// 1: commit `commit_offset`, 2: may be held, 4: `subscription` is there, 8: class filter, 16: lite pull.
        sys_flag: i32 = "sysFlag",
        /// -1 from clients that have none.
        commit_offset: i64 = "commitOffset" or 0,
        /// How long the broker may hold the request, in ms.
        suspend_timeout_millis: i64 = "suspendTimeoutMillis" or 0,
        subscription: Option<Cow<'a, str>> = "subscription",
        sub_version: i64 = "subVersion" or 0,
        /// `TAG`, which is also meant if absent, or `SQL92`.
        expression_type: Option<Cow<'a, str>> = "expressionType",
        /// Bytes of records wanted at most.
        max_msg_bytes: Option<i32> = "maxMsgBytes",
        request_source: Option<i32> = "requestSource",
        /// The spelling is RocketMQ's.
        proxy_forward_client_id: Option<Cow<'a, str>> = "proxyFrowardClientId",
    }
}

ext_fields! {
    /// The fields of a pull's answer; clients need the first four on the codes 0, 19, 20 and 21.
    pub struct PullResponse {
        suggest_which_broker_id: i64 = "suggestWhichBrokerId",
        next_begin_offset: i64 = "nextBeginOffset",
        min_offset: i64 = "minOffset",
        max_offset: i64 = "maxOffset",
        /// Added to every offset by the client: for static topics only.
        offset_delta: Option<i64> = "offsetDelta",
        topic_sys_flag: Option<i32> = "topicSysFlag",
        group_sys_flag: Option<i32> = "groupSysFlag",
    }
}

/// Why a pull is refused with `NO_PERMISSION`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForbiddenType {
    /// The broker is not readable.
    Broker = 1,
    /// The group may not consume.
    Group = 2,
    /// The topic is not readable.
    Topic = 3,
    /// The group may not consume by broadcasting.
    Broadcasting = 4,
    /// The group may not consume this topic.
    Subscription = 5,
}

impl ForbiddenType {
    /// The name of the field that says it.
    pub const NAME: &'static str = "forbiddenType";
}
