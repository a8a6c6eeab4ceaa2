//! Offsets: what groups have consumed, and what queues hold.

use std::borrow::Cow;

use super::fields::{ext_fields, FieldValue};
use crate::proto::remoting::{ExtSink, FieldError, Text};

ext_fields! {
    /// 14.
    pub struct QueryConsumerOffset<'a> {
        consumer_group: Cow<'a, str> = "consumerGroup",
        topic: Cow<'a, str> = "topic",
        queue_id: i32 = "queueId",
        /// Whether 0 is a fine answer for a young queue without a committed offset.
        set_zero_if_not_found: bool = "setZeroIfNotFound" or true,
    }
}

ext_fields! {
    /// 15. What must be there and is not has a code of its own here, so the handler looks.
    pub struct UpdateConsumerOffset<'a> {
        consumer_group: Cow<'a, str> = "consumerGroup",
        topic: Cow<'a, str> = "topic",
        queue_id: Option<i32> = "queueId",
        commit_offset: Option<i64> = "commitOffset",
    }
}

ext_fields! {
    /// 29.
    pub struct SearchOffsetByTimestamp<'a> {
        topic: Cow<'a, str> = "topic",
        queue_id: i32 = "queueId",
        /// Store time, in ms.
        timestamp: i64 = "timestamp",
        boundary_type: BoundaryType = "boundaryType" or BoundaryType::Lower,
    }
}

ext_fields! {
    /// 30.
    pub struct GetMaxOffset<'a> {
        topic: Cow<'a, str> = "topic",
        queue_id: i32 = "queueId",
        committed: bool = "committed" or true,
    }
}

ext_fields! {
    /// 31.
    pub struct GetMinOffset<'a> {
        topic: Cow<'a, str> = "topic",
        queue_id: i32 = "queueId",
    }
}

ext_fields! {
    /// 32.
    pub struct GetEarliestMsgStoretime<'a> {
        topic: Cow<'a, str> = "topic",
        queue_id: i32 = "queueId",
    }
}

ext_fields! {
    /// The answer to 14, 29, 30 and 31.
    pub struct OffsetResponse {
        offset: i64 = "offset",
    }
}

ext_fields! {
    /// The answer to 32.
    pub struct StoretimeResponse {
        /// In ms; -1 if the queue is empty.
        timestamp: i64 = "timestamp",
    }
}

/// Which of two neighbours a time between them means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BoundaryType {
    /// `LOWER`: the first message stored at or after the time.
    #[default]
    Lower,
    /// `UPPER`: the last message stored at or before the time.
    Upper,
}

impl FieldValue<'_> for BoundaryType {
    type Static = Self;

    fn read(name: &'static str, text: Option<Text<'_>>) -> Result<Self, FieldError> {
        let text = text.ok_or(FieldError::Missing(name))?;
        Ok(if text.str().eq_ignore_ascii_case("UPPER") { Self::Upper } else { Self::Lower })
    }

    fn write(&self, name: &'static str, sink: &mut impl ExtSink) {
        sink.put_str(name, if *self == Self::Upper { "UPPER" } else { "LOWER" });
    }

    fn into_owned(self) -> Self {
        self
    }
}
