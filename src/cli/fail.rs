//! What went wrong, which exit code it has, and what to try next.

use std::io;

use super::{UsageError, EXIT_REFUSED, EXIT_UNREACHABLE, EXIT_USAGE};
use crate::client::Error;
use crate::proto::remoting::response;
use crate::store::OpenError;

/// A failure that a command explains itself.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct Failure {
    what: String,
    hints: Vec<String>,
    code: u8,
}

impl Failure {
    /// Something was refused, or is not there.
    pub fn refused(what: impl Into<String>) -> Failure {
        Failure { what: what.into(), hints: Vec::new(), code: EXIT_REFUSED }
    }

    /// The command line asks for what cannot be.
    pub fn usage(what: impl Into<String>) -> Failure {
        Failure { what: what.into(), hints: Vec::new(), code: EXIT_USAGE }
    }

    /// A server is unreachable or late.
    pub fn unreachable(what: impl Into<String>) -> Failure {
        Failure { what: what.into(), hints: Vec::new(), code: EXIT_UNREACHABLE }
    }

    /// With what to try next.
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hints.push(hint.into());
        self
    }
}

/// An error with its causes; those that it tells itself are not told again.
pub fn story(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |story, cause| {
        if story.contains(&cause) {
            story
        } else if story.is_empty() {
            cause
        } else {
            format!("{story}: {cause}")
        }
    })
}

/// The exit code of an error.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    for cause in error.chain() {
        if let Some(failure) = cause.downcast_ref::<Failure>() {
            return failure.code;
        }
        if cause.is::<UsageError>() {
            return EXIT_USAGE;
        }
        if let Some(error) = cause.downcast_ref::<Error>() {
            return client_code(error);
        }
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            let unreachable = matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::TimedOut);
            return if unreachable { EXIT_UNREACHABLE } else { EXIT_REFUSED };
        }
    }
    EXIT_REFUSED
}

fn client_code(error: &Error) -> u8 {
    match error {
        Error::Invalid(_) => EXIT_USAGE,
        Error::NoNameServer { .. }
        | Error::NoBroker { .. }
        | Error::Unreachable { .. }
        | Error::TimedOut { .. }
        | Error::Disconnected { .. }
        | Error::Busy { .. } => EXIT_UNREACHABLE,
        _ => EXIT_REFUSED,
    }
}

/// What to try next, where that is known.
pub fn hints(error: &anyhow::Error) -> Vec<String> {
    for cause in error.chain() {
        if let Some(failure) = cause.downcast_ref::<Failure>() {
            return failure.hints.clone();
        }
        let hint = if let Some(error) = cause.downcast_ref::<OpenError>() {
            error.hint()
        } else if let Some(error) = cause.downcast_ref::<Error>() {
            client_hint(error)
        } else {
            cause.downcast_ref::<io::Error>().and_then(|error| match error.kind() {
                io::ErrorKind::AddrInUse => {
                    Some("stop what listens there, or choose another address; `--help` shows how")
                }
                io::ErrorKind::ConnectionRefused => Some(NO_NAMESERVER),
                _ => None,
            })
        };
        if let Some(hint) = hint {
            return vec![hint.to_owned()];
        }
    }
    Vec::new()
}

const NO_NAMESERVER: &str = "is a NameServer running there? `metaq up` starts one with a broker; `-n HOST:PORT` or \
                             NAMESRV_ADDR names another";

fn client_hint(error: &Error) -> Option<&'static str> {
    match error {
        Error::NoNameServer { .. } => Some(NO_NAMESERVER),
        Error::NoRoute { .. } => Some("`metaq topic list` shows all topics, `metaq topic create TOPIC` makes one"),
        Error::NoBroker { .. } => Some("`metaq cluster list` shows which brokers are registered"),
        Error::Unreachable { .. } | Error::TimedOut { .. } | Error::Disconnected { .. } => {
            Some("`metaq cluster health` shows which brokers answer")
        }
        Error::Busy { .. } => Some("try again, or send less at once"),
        Error::Refused { code, remark, .. } => match *code {
            response::NO_PERMISSION => Some("`metaq topic show TOPIC` shows what is allowed; `topic update --perm rw`"),
            response::SUBSCRIPTION_GROUP_NOT_EXIST => Some("`metaq group list` shows all groups"),
            response::SYSTEM_ERROR if remark.contains("SQL92") => {
                Some("brokers filter by SQL92 if `enablePropertyFilter=true` stands in their broker.conf")
            }
            response::SYSTEM_BUSY => Some("the broker is busy; try again"),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;
    use crate::client::SendError;

    #[test]
    fn a_cause_is_told_once() {
        let error = anyhow::Error::from(SendError::from(Error::Invalid("the body is empty".into())));
        assert_eq!(story(&error), "the body is empty");
        assert_eq!((exit_code(&error), hints(&error)), (EXIT_USAGE, Vec::new()));
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let error = Err::<(), _>(refused).context("it does not work").unwrap_err();
        assert_eq!(story(&error), "it does not work: connection refused");
        assert_eq!(exit_code(&error), EXIT_UNREACHABLE);
        let error = anyhow::Error::from(Failure::refused("no").hint("try").hint("again"));
        assert_eq!((exit_code(&error), hints(&error)), (EXIT_REFUSED, vec!["try".to_owned(), "again".to_owned()]));
    }
}
