//! Thin ractor shells around the rules.

pub mod log_writer;
pub mod net;
