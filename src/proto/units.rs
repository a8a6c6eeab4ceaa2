//! Numbers that must not be mixed up.

/// A byte position in the whole commit log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct PhysicalOffset(pub u64);

/// The number of an entry in one queue, counted from 0. The next one to be written is the queue's maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct QueueOffset(pub u64);
