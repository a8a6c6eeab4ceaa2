//! Replication: a master serves its log on the HA port, a slave follows it.
//!
//! | actor | is told | carries |
//! | --- | --- | --- |
//! | [`HaMaster`](master::HaMaster) | connections, their ends | a task per slave, which sends the log as it grows |
//! | [`Replica`](replica::Replica) | whom to follow | a task that appends the master's log to this one |
//!
//! What both know of each other stands in [`Quorum`] and [`HaState`], for the log writer and for people to look at.

mod damage;
mod master;
mod meeting;
mod quorum;
mod replica;
mod session;
mod signal;
mod state;

pub use master::{HaMaster, HaMasterHandle, HaOptions};
pub use quorum::{Quorum, QuorumLimits};
pub use replica::{Leader, Replica, ReplicaArguments, ReplicaHandle};
pub use signal::LogSignal;
pub use state::{FollowState, HaState, HaStatus};
