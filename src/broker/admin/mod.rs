//! Answers to tools: what a broker has, how far its groups are, who is connected, how fast it all goes.
//!
//! Functions from the rules' tables and the store to an answer. Those that read the store take what they need out of the
//! tables first (`progress`, for one), so that a caller holds no table's lock while a disk is read.

pub mod clients;
pub mod offsets;
pub mod progress;
pub mod queues;
pub mod runtime;
pub mod statistics;
pub mod timers;
pub mod topics;

use crate::proto::body;
use crate::proto::remoting::Response;
use crate::store::StoreError;

use super::BrokerError;

/// An answer, or why there is none.
pub type Answer = Result<Response, BrokerError>;

/// Success with a JSON body.
fn json(body: &impl serde::Serialize) -> Response {
    Response::success().with_body(body::to_vec(body))
}

/// What a tool is told when the store cannot be read.
fn unreadable(error: StoreError) -> BrokerError {
    BrokerError::StoreFailed { what: error.to_string() }
}
