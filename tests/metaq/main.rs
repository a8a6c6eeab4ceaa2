//! All integration tests in one binary: it links once.

#[path = "../tidy.rs"]
mod tidy;
mod vectors;

mod bodies;
mod message;
mod nameserver;
