//! The rules of replication: what a master sends and believes, what a slave takes, and what counts as replicated.
//!
//! [`link`] is a master's view of one slave's connection, [`replicas`] of all of them, [`follower`] a slave's view of its
//! master. None of them waits, reads a clock or touches a socket.

pub mod follower;
pub mod link;
pub mod replicas;

/// After this long without writing a heartbeat is sent (`haSendHeartbeatInterval`), in milliseconds.
pub const HEARTBEAT_MS: u64 = 5_000;
/// After this long without a byte from the peer the connection is given up (`haHousekeepingInterval`), in milliseconds.
pub const SILENCE_MS: u64 = 20_000;

/// The log as replication looks at it.
pub trait LogView {
    /// Where the oldest file begins.
    fn min(&self) -> u64;
    /// Where the last record ends.
    fn end(&self) -> u64;
    /// Up to here slaves may let consumers read.
    fn confirmed(&self) -> u64;
    /// Bytes of a file.
    fn segment_size(&self) -> u64;
}
