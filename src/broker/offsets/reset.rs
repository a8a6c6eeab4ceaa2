//! Where a reset leads (INVOKE_BROKER_TO_RESET_OFFSET).

use crate::broker::BrokerError;

/// What the tool asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetRequest {
    /// To the next message to come (`timestamp` −1).
    Latest,
    /// To the first message at or after a time; the store's answer to that search.
    AtTime {
        /// What the search found.
        found: i64,
    },
    /// To an offset.
    Offset(i64),
}

/// The offset a queue that holds `min..max` is reset to. RocketMQ allows an asked offset of max + 1, for which there is
/// no use; it is taken as max, so that the lag of a group reset to "now" is 0 (OFF-6).
pub fn reset_target(request: ResetRequest, min: i64, max: i64) -> Result<i64, BrokerError> {
    match request {
        ResetRequest::Latest => Ok(max),
        ResetRequest::AtTime { found } => Ok(found.clamp(min, max.max(min))),
        ResetRequest::Offset(offset) if (min..=max.saturating_add(1)).contains(&offset) => Ok(offset.min(max)),
        ResetRequest::Offset(offset) => Err(BrokerError::ResetOffsetOutOfRange { offset, min, max }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OFF-6: a reset to "now" left a lag of 1.
    #[test]
    fn off_6_now_is_behind_the_last_message() {
        assert_eq!(reset_target(ResetRequest::Latest, 0, 10), Ok(10));
        assert_eq!(reset_target(ResetRequest::AtTime { found: 10 }, 0, 10), Ok(10));
        assert_eq!(reset_target(ResetRequest::Offset(11), 0, 10), Ok(10));
    }

    #[test]
    fn offsets_outside_the_queue_are_refused() {
        for offset in [-1, 4, 12, i64::MAX, i64::MIN] {
            let refused = BrokerError::ResetOffsetOutOfRange { offset, min: 5, max: 10 };
            assert_eq!(reset_target(ResetRequest::Offset(offset), 5, 10), Err(refused));
        }
        assert_eq!(reset_target(ResetRequest::Offset(5), 5, 10), Ok(5));
    }
}
