//! Registration of clients and the members of groups.

use std::borrow::Cow;

use super::fields::ext_fields;

ext_fields! {
    /// The answer to 34. A broker that says it supports version 2 is sent heartbeats without subscriptions.
    pub struct HeartbeatResponse {
        is_support_heart_beat_v2: Option<bool> = "IS_SUPPORT_HEART_BEAT_V2",
        /// Whether the client should send its subscriptions with the next heartbeat.
        is_sub_change: Option<bool> = "IS_SUB_CHANGE",
    }
}

ext_fields! {
    /// 35. The C++ client sends the group it does not mean empty, which counts as absent.
    pub struct UnregisterClient<'a> {
        client_id: Cow<'a, str> = "clientID",
        producer_group: Option<Cow<'a, str>> = "producerGroup",
        consumer_group: Option<Cow<'a, str>> = "consumerGroup",
    }
}

ext_fields! {
    /// 38.
    pub struct GetConsumerListByGroup<'a> {
        consumer_group: Cow<'a, str> = "consumerGroup",
    }
}

ext_fields! {
    /// 40, from the broker to the members.
    pub struct NotifyConsumerIdsChanged<'a> {
        consumer_group: Cow<'a, str> = "consumerGroup",
    }
}
