//! All integration tests in one binary: it links once.

mod admin;
mod bodies;
mod config_files;
mod index;
mod mem_disk;
mod message;
mod nameserver;
mod store;
#[path = "../tidy.rs"]
mod tidy;
mod vectors;
