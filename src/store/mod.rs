//! The store: commit log, consume queues, index, recovery, config files.

pub mod check;
pub mod checkpoint;
pub mod config_file;
pub mod index;
pub mod retention;
