//! What tools ask of consumers through the broker.

use std::borrow::Cow;

use super::fields::ext_fields;

ext_fields! {
    /// 222, from a tool to the broker.
    pub struct ResetOffset<'a> {
        topic: Cow<'a, str> = "topic",
        group: Cow<'a, str> = "group",
        /// Store time, in ms; -1 for the end.
        timestamp: i64 = "timestamp",
        /// Whether offsets may also move forward.
        is_force: bool = "isForce" or false,
        /// -1 for all queues.
        queue_id: i32 = "queueId" or -1,
        /// Wins over `timestamp` unless negative.
        offset: Option<i64> = "offset",
    }
}

ext_fields! {
    /// 220, from the broker to the members.
    pub struct ResetConsumerClientOffset<'a> {
        topic: Cow<'a, str> = "topic",
        group: Cow<'a, str> = "group",
        /// In ms.
        timestamp: i64 = "timestamp",
        is_force: bool = "isForce" or false,
        queue_id: i32 = "queueId" or -1,
    }
}

ext_fields! {
    /// 223, from a tool to the broker, and 221, from the broker to the members.
    pub struct GetConsumerStatus<'a> {
        topic: Cow<'a, str> = "topic",
        group: Cow<'a, str> = "group",
        /// In 223 the id of the one member meant.
        client_addr: Option<Cow<'a, str>> = "clientAddr",
    }
}

ext_fields! {
    /// 307.
    pub struct GetConsumerRunningInfo<'a> {
        consumer_group: Cow<'a, str> = "consumerGroup",
        client_id: Cow<'a, str> = "clientId",
        /// Whether the client should add its threads' stacks.
        jstack_enable: bool = "jstackEnable" or false,
    }
}

ext_fields! {
    /// 309. The broker adds the last three on the way to the client.
    pub struct ConsumeMessageDirectly<'a> {
        consumer_group: Cow<'a, str> = "consumerGroup",
        client_id: Option<Cow<'a, str>> = "clientId",
        /// The offset message id.
        msg_id: Option<Cow<'a, str>> = "msgId",
        topic: Option<Cow<'a, str>> = "topic",
        broker_name: Option<Cow<'a, str>> = "brokerName",
        topic_sys_flag: Option<i32> = "topicSysFlag",
        group_sys_flag: Option<i32> = "groupSysFlag",
    }
}
