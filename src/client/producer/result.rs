//! What came of a send.

use std::fmt;
use std::time::Duration;

use crate::client::{Error, MessageQueue};
use crate::proto::remoting::response;

/// A message that is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sent {
    /// The id its producer gave it: the same in every attempt, so consumers can tell repetitions by it.
    pub message_id: String,
    /// The id of its place: broker and position in the log.
    pub offset_message_id: String,
    /// The queue it went to.
    pub queue: MessageQueue,
    /// Its number there. A delayed message gets another one when it is due.
    pub offset: i64,
    /// What takes it back while it waits for a time of its own: see [`Producer::recall`](super::Producer::recall).
    pub recall_handle: Option<String>,
    /// How safe it is.
    pub durability: Durability,
    /// Attempts that failed before; those with an unknown outcome may have stored a copy of their own.
    pub failed_attempts: Vec<Attempt>,
    /// The broker's region, if it wants traces.
    pub(in crate::client) trace_region: Option<String>,
}

/// How safe a stored message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// As safe as the broker's settings promise.
    AsAsked,
    /// Stored, but the broker's disk did not confirm it in time.
    NotFlushed,
    /// Stored, but no slave confirmed its copy in time.
    NotReplicated,
    /// Stored, but there is no slave to copy it to.
    NoReplica,
}

impl Durability {
    /// What a response code says; `None` if it says that nothing is stored.
    pub(super) fn of_code(code: i32) -> Option<Durability> {
        match code {
            response::SUCCESS => Some(Durability::AsAsked),
            response::FLUSH_DISK_TIMEOUT => Some(Durability::NotFlushed),
            response::FLUSH_SLAVE_TIMEOUT => Some(Durability::NotReplicated),
            response::SLAVE_NOT_AVAILABLE => Some(Durability::NoReplica),
            _ => None,
        }
    }
}

/// One attempt to send that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The broker's name.
    pub broker: String,
    /// How long it took.
    pub took: Duration,
    /// Why it failed.
    pub error: Error,
}

/// A send that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct SendError {
    /// The last thing that went wrong.
    #[source]
    pub error: Error,
    /// All attempts, in order; none if there was nothing to try.
    pub attempts: Vec<Attempt>,
}

impl SendError {
    /// Whether sending the same message again may succeed. If [`SendError::may_be_stored`], it may be stored twice then,
    /// under two message ids.
    pub fn retryable(&self) -> bool {
        self.error.retryable()
    }

    /// Whether some broker may have stored the message all the same: it did not answer. `false` is certain.
    pub fn may_be_stored(&self) -> bool {
        self.attempts.iter().any(|attempt| attempt.error.outcome_unknown())
    }
}

impl From<Error> for SendError {
    fn from(error: Error) -> SendError {
        SendError { error, attempts: Vec::new() }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        if self.attempts.len() > 1 {
            let tried =
                self.attempts.iter().map(|attempt| format!("{} {} ms", attempt.broker, attempt.took.as_millis()));
            write!(f, " ({} attempts: {})", self.attempts.len(), tried.collect::<Vec<_>>().join(", "))?;
        }
        if self.may_be_stored() {
            write!(f, "; the message may be stored")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_lists_its_attempts_and_says_what_is_not_known() {
        let took = Duration::from_millis(1500);
        let late = Error::TimedOut { address: "a:1".into(), limit_ms: 1500 };
        let refused = Error::Refused { address: "b:1".into(), code: 2, remark: "busy".into() };
        let attempts = vec![
            Attempt { broker: "a".into(), took, error: late },
            Attempt { broker: "b".into(), took: Duration::from_millis(2), error: refused.clone() },
        ];
        let error = SendError { error: refused, attempts };
        let text = "b:1 refused: busy (code 2, SYSTEM_BUSY) (2 attempts: a 1500 ms, b 2 ms); the message may be stored";
        assert_eq!(error.to_string(), text);
        assert!(error.retryable() && error.may_be_stored());
        assert!(!SendError::from(Error::Closed).may_be_stored());
    }
}
