//! The ext fields of requests and their answers, one type each. A type is named after its request code; requests that
//! are not here carry no fields.
//!
//! `decode` picks the fields out of [`Head::ext`](super::Head); where something required is missing or no number, its
//! error becomes the answer. An optional text that is empty counts as absent, because a binary header cannot tell them
//! apart and C++ clients do not try to.

mod administration;
mod clients;
mod common;
mod fields;
mod groups;
mod messages;
mod nameserver;
mod offsets;
mod pulling;
mod sending;
mod slaves;
mod statistics;

pub use administration::*;
pub use clients::*;
pub use common::*;
pub use groups::*;
pub use messages::*;
pub use nameserver::*;
pub use offsets::*;
pub use pulling::*;
pub use sending::*;
pub use slaves::*;
pub use statistics::*;
