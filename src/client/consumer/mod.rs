//! Consuming messages: what push and pull consumers share, and both of them.
//!
//! ```text
//! RebalanceActor ── who has which queue: acquire (lock, find the start) and release (commit, unlock)
//!   └ per queue: pull loop ── long polls ──> OwnedQueue ──┬─> a task per batch (concurrent)
//!                                                         ├─> one worker (orderly)
//!                                                         └─> poll (pull consumer)
//!   └ or, per queue: pull, call, pause as long as the call said (scheduled pulls)
//! ```
//!
//! A queue that is lost and comes back is another [`OwnedQueue`](owned::OwnedQueue): late answers and late listeners hold
//! the old one, which moves no offset any more.

mod acquire;
mod concurrent;
mod core;
mod hand_back;
mod info;
mod life;
mod listener;
mod locks;
mod offsets;
mod orderly;
mod owned;
mod poll;
mod pull;
mod push;
mod rebalance;
mod scheduled;
mod setup;
mod stop;

pub use super::rules::start::ConsumeFrom;
pub use listener::{Action, OrderlyAction};
pub use poll::{Position, PullConsumer, PullConsumerBuilder};
pub use push::{PushConsumer, PushConsumerBuilder};
pub use scheduled::{NextPull, ScheduledConsumer};
