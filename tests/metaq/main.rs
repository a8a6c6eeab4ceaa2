//! All integration tests in one binary: it links once.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests look at the real world to check what the product did to it"
)]

mod admin;
mod any_bytes;
#[cfg(feature = "tokio")]
mod audit;
mod bodies;
#[cfg(feature = "tokio")]
mod cases;
#[cfg(feature = "tokio")]
mod cli;
#[cfg(feature = "tokio")]
mod client;
#[cfg(feature = "tokio")]
mod cluster;
mod config_files;
mod ha_frames;
mod index;
mod index_bytes;
mod mem_disk;
mod message;
mod nameserver;
mod rules;
mod store;
mod store_check;
#[path = "../tidy.rs"]
mod tidy;
mod vectors;
mod wire;
