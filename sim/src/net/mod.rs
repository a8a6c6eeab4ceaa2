//! The simulated network.
//!
//! What it does as a real one: bytes arrive in order, in pieces of any size, after the link's latency; a write waits
//! when the peer does not read; connecting to a closed port is refused after a round trip, to a silent machine it
//! times out; the end of stream and the reset travel like data and can be held up. A killed process is closed by its
//! kernel (end of stream, or reset if bytes were unread); a machine that lost its power says nothing more, and after
//! it is back it answers segments of old connections with a reset. What is sent over a cut link is sent again with
//! growing pauses, until the sender gives up.
//!
//! Handles of a dead incarnation do nothing.

mod connection;
mod door;
mod events;
mod link;
mod network;
#[cfg(test)]
mod tests;

pub use door::SimNet;
pub use link::{LinkSettings, LinkState};
pub use network::Network;
