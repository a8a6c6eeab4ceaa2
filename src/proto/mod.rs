//! RocketMQ's wire and record formats: bytes in, values out. Nothing here waits, and nothing here knows who calls it.

pub mod body;
pub mod filter;
pub mod ha;
pub mod message;
pub mod remoting;
mod units;

pub use units::{PhysicalOffset, QueueOffset};
