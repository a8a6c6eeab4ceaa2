//! All integration tests in one binary: it links once.

mod any_bytes;
mod bodies;
mod message;
mod store;
#[path = "../tidy.rs"]
mod tidy;
mod vectors;
mod wire;
