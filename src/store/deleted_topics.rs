//! Which records belong to topics that are gone, so that no start brings a deleted topic back.
//!
//! Queues derive from the log, and a deleted topic's records stay there until their segments expire. For each deleted
//! topic this file of ours holds the position at which the log ended when it was deleted: its records below belong to no
//! queue, those at or above it are a later topic's of the same name. It is saved before a deletion is answered, and an
//! entry goes when the log begins behind it. RocketMQ has no such file and ignores it: there a deleted topic's messages
//! come back with the next unclean start.
//! The file is a [`snapshot`].

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::config_file::ConfigFile;
use super::error::OpenError;
use super::paths;
use super::snapshot::{self, Kind, SnapshotError};
use crate::env::Env;

const KIND: Kind = Kind { magic: *b"metaqDEL", version: 1 };

/// The largest file that is written and read, in bytes: a million topics of long names. Further deletions are refused.
const LEN_MAX: u64 = 64 << 20;

/// Where the log ended when each topic was deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ends(BTreeMap<Arc<str>, u64>);

impl Ends {
    /// Records of this topic belong to a queue only from here on.
    pub(crate) fn of(&self, topic: &str) -> u64 {
        self.0.get(topic).copied().unwrap_or(0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, u64)> {
        self.0.iter().map(|(topic, end)| (topic, *end))
    }

    /// The log goes from `min` to `end` now. Whatever lay above `end` is lost, and its positions are given out again.
    fn fit(&mut self, min: u64, end: u64) {
        self.0.values_mut().for_each(|deleted_at| *deleted_at = end.min(*deleted_at));
        self.0.retain(|_, deleted_at| *deleted_at > min);
    }

    fn encode(&self) -> Result<Vec<u8>, SnapshotError> {
        snapshot::encode(KIND, self)
    }

    fn decode(bytes: &[u8]) -> Result<Ends, SnapshotError> {
        snapshot::decode(KIND, bytes)
    }
}

/// The table and its file.
pub(crate) struct DeletedTopics {
    ends: Ends,
    /// What the file holds.
    saved: Ends,
    file: ConfigFile,
}

impl DeletedTopics {
    /// Loads the file. One that cannot be read is set aside with a warning: its topics may come back, no message is lost.
    pub(crate) fn open(env: &Env, root: &Path) -> Result<DeletedTopics, OpenError> {
        let path = paths::deleted_topics(root);
        let open = || ConfigFile::open(Arc::clone(&env.disk), path.clone(), LEN_MAX, Ends::decode);
        let opened = open().or_else(|error| {
            tracing::warn!(%error, "topics that were deleted may come back");
            // What is missing needs no removal; what cannot be removed fails again.
            let _ = env.disk.remove_file(&path);
            let _ = env.disk.remove_file(&path.with_extension("bak"));
            open()
        });
        let (file, loaded) = opened.map_err(|error| OpenError::io("read", &path)(io::Error::other(error)))?;
        let ends = loaded.into_value().unwrap_or_default();
        Ok(DeletedTopics { saved: ends.clone(), ends, file })
    }

    pub(crate) fn ends(&self) -> &Ends {
        &self.ends
    }

    /// The topic's records below `log_end` belong to no queue any more.
    pub(crate) fn add(&mut self, topic: &str, log_end: u64) {
        let end = self.ends.0.entry(topic.into()).or_default();
        *end = log_end.max(*end);
    }

    /// Recovery found that the log goes from `min` to `end`.
    pub(crate) fn on_recovered(&mut self, min: u64, end: u64) {
        self.ends.fit(min, end);
    }

    /// Writes the file if it is not what it should be. `log_min` is where the log begins.
    pub(crate) async fn save(&mut self, log_min: u64) -> io::Result<()> {
        if self.ends == self.saved {
            return Ok(());
        }
        self.ends.fit(log_min, u64::MAX);
        let bytes = self.ends.encode().map_err(io::Error::other)?;
        self.file.save(&bytes).await.map_err(io::Error::other)?;
        self.saved = self.ends.clone();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends() -> Ends {
        Ends([("a".into(), 100), ("b".into(), 700)].into())
    }

    #[test]
    fn round_trip() {
        assert_eq!(Ends::decode(&ends().encode().unwrap()), Ok(ends()));
        assert_eq!((ends().of("a"), ends().of("c")), (100, 0));
    }

    #[test]
    fn positions_that_are_given_out_again_are_another_topic_s() {
        let mut fitted = ends();
        fitted.fit(0, 500);
        assert_eq!((fitted.of("a"), fitted.of("b")), (100, 500));
    }

    #[test]
    fn what_has_expired_is_forgotten() {
        let mut fitted = ends();
        fitted.fit(100, 1000);
        assert_eq!(fitted, Ends([("b".into(), 700)].into()));
    }
}
