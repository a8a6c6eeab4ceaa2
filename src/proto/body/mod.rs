//! JSON bodies of requests and responses.

pub mod permission;
