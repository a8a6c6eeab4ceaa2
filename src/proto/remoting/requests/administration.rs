//! Topics and groups, administered.

use std::borrow::Cow;

use super::fields::ext_fields;

ext_fields! {
    /// 17.
    pub struct UpdateAndCreateTopic<'a> {
        topic: Cow<'a, str> = "topic",
        /// Ignored.
        default_topic: Option<Cow<'a, str>> = "defaultTopic",
        read_queue_nums: i32 = "readQueueNums",
        write_queue_nums: i32 = "writeQueueNums",
        perm: i32 = "perm",
        /// `SINGLE_TAG` or `MULTI_TAG`.
        topic_filter_type: Option<Cow<'a, str>> = "topicFilterType",
        topic_sys_flag: i32 = "topicSysFlag" or 0,
        order: bool = "order" or false,
        /// `+key=value,-key`.
        attributes: Option<Cow<'a, str>> = "attributes",
        force: bool = "force" or false,
    }
}

ext_fields! {
    /// 215.
    pub struct DeleteTopicInBroker<'a> {
        topic: Cow<'a, str> = "topic",
    }
}

ext_fields! {
    /// 351.
    pub struct GetTopicConfig<'a> {
        topic: Cow<'a, str> = "topic",
        /// Whether a static topic's queues are meant.
        logical: Option<bool> = "lo",
    }
}

ext_fields! {
    /// 207.
    pub struct DeleteSubscriptionGroup<'a> {
        group_name: Cow<'a, str> = "groupName",
        /// 4.9 has its own name for it.
        clean_offset: bool = "cleanOffset" | "removeOffset" or false,
    }
}

ext_fields! {
    /// 352.
    pub struct GetSubscriptionGroupConfig<'a> {
        group: Cow<'a, str> = "group",
    }
}

ext_fields! {
    /// 353.
    pub struct UpdateAndGetGroupForbidden<'a> {
        group: Cow<'a, str> = "group",
        topic: Cow<'a, str> = "topic",
        /// Absent: only asked.
        readable: Option<bool> = "readable",
    }
}

ext_fields! {
    /// 21. Tools after 5.3.3 ask page by page; an answer without `totalTopicNum` counts as complete.
    pub struct GetAllTopicConfig<'a> {
        topic_seq: Option<i32> = "topicSeq",
        data_version: Option<Cow<'a, str>> = "dataVersion",
        max_topic_num: Option<i32> = "maxTopicNum",
    }
}

ext_fields! {
    /// 201. Tools after 5.3.3 ask page by page; an answer without `totalGroupNum` counts as complete.
    pub struct GetAllSubscriptionGroupConfig<'a> {
        group_seq: Option<i32> = "groupSeq",
        data_version: Option<Cow<'a, str>> = "dataVersion",
        max_group_num: Option<i32> = "maxGroupNum",
    }
}

ext_fields! {
    /// 906, request and answer.
    pub struct ExchangeBrokerHaInfo<'a> {
        master_ha_address: Option<Cow<'a, str>> = "masterHaAddress",
        master_flush_offset: Option<i64> = "masterFlushOffset",
        master_address: Option<Cow<'a, str>> = "masterAddress",
    }
}

ext_fields! {
    /// 908.
    pub struct ResetMasterFlushOffset {
        master_flush_offset: i64 = "masterFlushOffset",
    }
}
