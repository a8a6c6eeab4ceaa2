//! Faults that simulations inject into the product itself.

/// A bug planted on purpose: a checker counts once it has found one of these. Never on in the shipped build.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "sim", derive(Debug, serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Canary {
    /// A send is acknowledged under SYNC_FLUSH before its bytes are synced.
    AcknowledgeBeforeSync,
    /// A new log segment's directory entry is not synced.
    NoDirectorySync,
    /// Recovery trusts the file's length instead of checking records.
    TrustFileLength,
    /// Recovery builds queues of deleted topics from what the log still holds of them.
    ReviveDeletedTopics,
}

/// A place where rare but legal behaviour can be forced.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "sim", derive(Debug, serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum BuggifySite {
    /// The log writer commits a batch on its own instead of gathering more.
    ShortBatch,
    /// The log writer yields before it commits.
    LateFlush,
}

/// Decides which planted bugs are on and when rare behaviour happens.
pub trait Faults: Send + Sync + 'static {
    /// True if `canary` is on in this run.
    fn canary(&self, canary: Canary) -> bool;

    /// True if the rare behaviour at `site` happens this time.
    fn buggify(&self, site: BuggifySite) -> bool;
}
