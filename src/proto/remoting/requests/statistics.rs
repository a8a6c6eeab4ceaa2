//! Looking into a broker.

use std::borrow::Cow;

use super::fields::ext_fields;

ext_fields! {
    /// The answer to 26.
    pub struct GetBrokerConfigResponse<'a> {
        /// A data version as JSON text.
        version: Cow<'a, str> = "version",
    }
}

ext_fields! {
    /// 202.
    pub struct GetTopicStatsInfo<'a> {
        topic: Cow<'a, str> = "topic",
    }
}

ext_fields! {
    /// 203.
    pub struct GetConsumerConnectionList<'a> {
        consumer_group: Cow<'a, str> = "consumerGroup",
    }
}

ext_fields! {
    /// 204.
    pub struct GetProducerConnectionList<'a> {
        producer_group: Cow<'a, str> = "producerGroup",
    }
}

ext_fields! {
    /// 208.
    pub struct GetConsumeStats<'a> {
        consumer_group: Cow<'a, str> = "consumerGroup",
        topic: Option<Cow<'a, str>> = "topic",
        /// Topics with semicolons between them.
        topic_list: Option<Cow<'a, str>> = "topicList",
    }
}

ext_fields! {
    /// 300.
    pub struct QueryTopicConsumeByWho<'a> {
        topic: Cow<'a, str> = "topic",
    }
}

ext_fields! {
    /// 303.
    pub struct QueryConsumeTimeSpan<'a> {
        topic: Cow<'a, str> = "topic",
        group: Cow<'a, str> = "group",
    }
}

ext_fields! {
    /// 308.
    pub struct QueryCorrectionOffset<'a> {
        topic: Cow<'a, str> = "topic",
        compare_group: Cow<'a, str> = "compareGroup",
        /// Groups with commas between them.
        filter_groups: Option<Cow<'a, str>> = "filterGroups",
    }
}

ext_fields! {
    /// 314.
    pub struct CloneGroupOffset<'a> {
        src_group: Cow<'a, str> = "srcGroup",
        dest_group: Cow<'a, str> = "destGroup",
        topic: Option<Cow<'a, str>> = "topic",
        offline: bool = "offline" or false,
    }
}

ext_fields! {
    /// 315.
    pub struct ViewBrokerStatsData<'a> {
        stats_name: Cow<'a, str> = "statsName",
        stats_key: Cow<'a, str> = "statsKey",
    }
}

ext_fields! {
    /// 317.
    pub struct GetBrokerConsumeStats {
        is_order: bool = "isOrder" or false,
    }
}

ext_fields! {
    /// 321.
    pub struct QueryConsumeQueue<'a> {
        topic: Cow<'a, str> = "topic",
        queue_id: i32 = "queueId",
        /// The first entry wanted.
        index: i64 = "index",
        count: i32 = "count",
        consumer_group: Option<Cow<'a, str>> = "consumerGroup",
    }
}

ext_fields! {
    /// 343.
    pub struct QueryTopicsByConsumer<'a> {
        group: Cow<'a, str> = "group",
    }
}

ext_fields! {
    /// 345.
    pub struct QuerySubscriptionByConsumer<'a> {
        group: Cow<'a, str> = "group",
        topic: Option<Cow<'a, str>> = "topic",
    }
}
