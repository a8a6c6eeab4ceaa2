//! Messages after they are stored: given back, decided on, recalled, looked up.

use std::borrow::Cow;

use super::fields::ext_fields;

ext_fields! {
    /// 36.
    pub struct ConsumerSendMsgBack<'a> {
        /// The physical offset of the record.
        offset: i64 = "offset",
        group: Cow<'a, str> = "group",
        /// Negative: to the dead letters; 0: the broker chooses; else that delay level.
        delay_level: i32 = "delayLevel",
        origin_msg_id: Option<Cow<'a, str>> = "originMsgId",
        origin_topic: Option<Cow<'a, str>> = "originTopic",
        unit_mode: bool = "unitMode" or false,
        /// Wins over the group's limit; heeded from clients of version 121 on.
        max_reconsume_times: Option<i32> = "maxReconsumeTimes",
    }
}

ext_fields! {
    /// 37.
    pub struct EndTransaction<'a> {
        topic: Option<Cow<'a, str>> = "topic",
        producer_group: Cow<'a, str> = "producerGroup",
        /// The half record's queue offset.
        tran_state_table_offset: i64 = "tranStateTableOffset",
        /// The half record's physical offset.
        commit_log_offset: i64 = "commitLogOffset",
        /// 8: commit, 12: roll back, 0: unknown.
        commit_or_rollback: i32 = "commitOrRollback",
        from_transaction_check: bool = "fromTransactionCheck" or false,
        msg_id: Option<Cow<'a, str>> = "msgId",
        transaction_id: Option<Cow<'a, str>> = "transactionId",
    }
}

ext_fields! {
    /// 39, from the broker to a producer.
    pub struct CheckTransactionState<'a> {
        topic: Option<Cow<'a, str>> = "topic",
        /// The half record's queue offset.
        tran_state_table_offset: i64 = "tranStateTableOffset",
        /// The half record's physical offset.
        commit_log_offset: i64 = "commitLogOffset",
        /// The message's unique key.
        msg_id: Option<Cow<'a, str>> = "msgId",
        transaction_id: Option<Cow<'a, str>> = "transactionId",
        offset_msg_id: Option<Cow<'a, str>> = "offsetMsgId",
        broker_name: Option<Cow<'a, str>> = "bname",
    }
}

ext_fields! {
    /// 323.
    pub struct ResumeCheckHalfMessage<'a> {
        /// The offset message id.
        msg_id: Cow<'a, str> = "msgId",
        topic: Option<Cow<'a, str>> = "topic",
    }
}

ext_fields! {
    /// 370.
    pub struct RecallMessage<'a> {
        producer_group: Option<Cow<'a, str>> = "producerGroup",
        topic: Cow<'a, str> = "topic",
        recall_handle: Cow<'a, str> = "recallHandle",
    }
}

ext_fields! {
    /// The answer to 370.
    pub struct RecallMessageResponse<'a> {
        /// The message's unique key.
        msg_id: Cow<'a, str> = "msgId",
        region: Option<Cow<'a, str>> = "MSG_REGION",
    }
}

ext_fields! {
    /// 12.
    pub struct QueryMessage<'a> {
        topic: Cow<'a, str> = "topic",
        /// One of the message's keys, or its unique key.
        key: Cow<'a, str> = "key",
        max_num: i32 = "maxNum",
        /// Store time, in ms.
        begin_timestamp: i64 = "beginTimestamp",
        /// Store time, in ms.
        end_timestamp: i64 = "endTimestamp",
        /// Whether `key` is a unique key; then the broker's own limit counts, not `max_num`.
        unique_key_query: bool = "_UNIQUE_KEY_QUERY" or false,
    }
}

ext_fields! {
    /// The answer to 12.
    pub struct QueryMessageResponse {
        /// In ms.
        index_last_update_timestamp: i64 = "indexLastUpdateTimestamp",
        index_last_update_phyoffset: i64 = "indexLastUpdatePhyoffset",
    }
}

ext_fields! {
    /// 33.
    pub struct ViewMessageById<'a> {
        /// The physical offset of the record.
        offset: i64 = "offset",
        topic: Option<Cow<'a, str>> = "topic",
    }
}
