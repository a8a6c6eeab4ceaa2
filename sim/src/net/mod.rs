//! The simulated network.
//!
//! What it does as a real one: bytes arrive in order, in pieces of any size, after the link's latency; a write waits
//! when the peer does not read; connecting to a closed port is refused after a round trip, to a silent machine it
//! times out; the end of stream and the reset travel like data and can be held up. A killed process is closed by its
//! kernel (end of stream, or reset if bytes were unread); a machine that lost its power says nothing more, and after
//! it is back it answers segments of old connections with a reset. What is sent over a cut link is sent again with
//! growing pauses, until the sender gives up.
//!
//! An end of a connection is in one of seven states: being opened (SYN sent, not answered), open, half-closed by this
//! side, half-closed by the other, failed (reset or given up), closed (the kernel still sends what was written), and
//! half open: the other machine has lost its power, or something between has forgotten the connection.
//!
//! Faults: links that are cut or clogged, in one direction or both, in shapes ([`Shape`]); latency, loss, bandwidth and
//! segment size of a link; ports that refuse or are silent; names that do not resolve; too few sockets, a short backlog, a
//! small window; connections that are forgotten or reset from between; frames that are dropped, delayed, doubled or
//! damaged ([`FrameRule`]).
//!
//! Handles of a dead incarnation do nothing.

mod connection;
mod door;
mod events;
#[cfg(test)]
mod fault_tests;
mod faults;
mod frames;
mod link;
mod network;
mod shapes;
#[cfg(test)]
mod tests;

pub use door::SimNet;
pub use faults::Barred;
pub use frames::{FrameFault, FrameRule, Frames};
pub use link::{LinkSettings, LinkState, Spread};
pub use network::Network;
pub use shapes::Shape;
