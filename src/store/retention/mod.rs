//! How long segments of the commit log stay, and when a full disk stops writes: rules only, no I/O.
//!
//! [`RetentionPolicy`] holds the settings after their limits were applied, [`DiskGuard`] decides once per pass (every
//! 10 s, `cleanResourceInterval`) from what its caller saw on the disk.

mod guard;
mod policy;

pub use guard::{used_percent, DeleteReason, DiskGuard, DiskRefusal, Observation, RetentionEffect, Segment};
pub use policy::{local_hour, RetentionPolicy, RetentionSettings, RetentionWarning};
