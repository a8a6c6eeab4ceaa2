//! Thin ractor shells around the rules.

pub mod broker;
pub mod embedded;
pub mod ha;
pub mod log_writer;
pub mod nameserver;
pub mod net;
pub mod settings_file;
