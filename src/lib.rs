//! metaq: a message broker that RocketMQ clients use unchanged, in one small binary.
//!
//! Modules in reading order; each uses only those above it (`tests/tidy.rs` checks that):
//!
//! 1. [`mod@env`]: the doors to time, network, disk and randomness. Only `env::real` touches the operating system.
//! 2. [`proto`]: RocketMQ's wire and record formats: bytes in, values out.
//! 3. [`store`]: commit log, consume queues, index, recovery, config files.
//! 4. [`nameserver`] and [`broker`]: the rules, as plain state machines that never wait.
//! 5. [`actors`]: thin ractor shells that carry out what the rules decide.
//! 6. [`audit`]: what clients did and saw, and the checkers that judge it.
//! 7. [`client`]: the client library, for this and every other RocketMQ cluster.
//! 8. [`cli`]: the commands of the one binary.

pub mod env;
pub mod config;
pub mod proto;
pub mod store;
pub mod ha;
pub mod nameserver;
pub mod broker;
pub mod actors;
pub mod audit;
pub mod client;
#[cfg(feature = "tokio")]
pub mod cli;

pub use actors::embedded::Embedded;
