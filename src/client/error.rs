//! Why something did not work, and whether trying again can help.

use crate::proto::remoting::response;

/// Why a request to a server failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What the caller passed cannot be.
    #[error("{0}")]
    Invalid(String),
    /// No NameServer knows the topic.
    #[error("topic `{topic}` is not known to the NameServers")]
    NoRoute {
        /// The topic.
        topic: String,
    },
    /// No NameServer gave an answer.
    #[error("no NameServer answered: {reason}")]
    NoNameServer {
        /// What the last one tried said.
        reason: String,
    },
    /// The routes name no address for the broker.
    #[error("broker `{broker}` has no address in the routes")]
    NoBroker {
        /// The broker's name.
        broker: String,
    },
    /// The server cannot be connected to. The request was not sent.
    #[error("cannot connect to {address}: {reason}")]
    Unreachable {
        /// The server.
        address: String,
        /// What the operating system said.
        reason: String,
    },
    /// No answer came in time. Whether the server has carried the request out is unknown.
    #[error("{address} did not answer within {limit_ms} ms")]
    TimedOut {
        /// The server.
        address: String,
        /// How long was waited, in ms.
        limit_ms: u64,
    },
    /// The connection ended before the answer. Whether the server has carried the request out is unknown.
    #[error("the connection to {address} was lost before the answer")]
    Disconnected {
        /// The server.
        address: String,
    },
    /// Too many requests wait already; this one was not sent.
    #[error("too many requests to {address} wait already")]
    Busy {
        /// The server.
        address: String,
    },
    /// The server said no.
    #[error("{address} refused: {remark} (code {code}{})", code_name(*code))]
    Refused {
        /// The server.
        address: String,
        /// RocketMQ's response code.
        code: i32,
        /// The server's own words.
        remark: String,
    },
    /// An answer that cannot be read.
    #[error("the answer of {address} cannot be read: {what}")]
    Malformed {
        /// The server.
        address: String,
        /// What is wrong with it.
        what: String,
    },
    /// A file of this client cannot be read or written.
    #[error("{0}")]
    File(String),
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
}

impl Error {
    /// Whether the same request may succeed when it is made again, later or at another server.
    pub fn retryable(&self) -> bool {
        match self {
            Error::Invalid(_) | Error::Malformed { .. } | Error::File(_) | Error::Closed => false,
            Error::Refused { code, .. } => RETRYABLE_CODES.contains(code),
            Error::NoRoute { .. }
            | Error::NoNameServer { .. }
            | Error::NoBroker { .. }
            | Error::Unreachable { .. }
            | Error::TimedOut { .. }
            | Error::Disconnected { .. }
            | Error::Busy { .. } => true,
        }
    }

    /// Whether the server may have carried the request out all the same.
    pub fn outcome_unknown(&self) -> bool {
        matches!(self, Error::TimedOut { .. } | Error::Disconnected { .. } | Error::Malformed { .. })
    }

    /// The response code of a refusal.
    pub fn code(&self) -> Option<i32> {
        match self {
            Error::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }
}

/// The codes after which RocketMQ's producers try another broker.
pub(super) const RETRYABLE_CODES: [i32; 8] = [
    response::TOPIC_NOT_EXIST,
    response::SERVICE_NOT_AVAILABLE,
    response::SYSTEM_ERROR,
    response::SYSTEM_BUSY,
    response::NO_PERMISSION,
    response::NO_BUYER_ID,
    response::NOT_IN_CURRENT_UNIT,
    response::GO_AWAY,
];

fn code_name(code: i32) -> String {
    response::name(code).map_or_else(String::new, |name| format!(", {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_whether_a_retry_can_help() {
        let refused = |code| Error::Refused { address: "a:1".into(), code, remark: "no".into() };
        assert_eq!(refused(2).to_string(), "a:1 refused: no (code 2, SYSTEM_BUSY)");
        assert!(refused(2).retryable() && !refused(2).outcome_unknown());
        assert!(!refused(13).retryable());
        let late = Error::TimedOut { address: "a:1".into(), limit_ms: 3000 };
        assert!(late.retryable() && late.outcome_unknown());
        assert!(!Error::Closed.retryable());
    }
}
