//! Which keys of a record are indexed, and whether a record found by hash really has a key.

use std::collections::HashSet;

use smallvec::SmallVec;

use crate::env::Millis;
use crate::proto::message::{hash, properties, sys_flag, RecordView};
use crate::proto::PhysicalOffset;

/// What the index needs to know of a record.
#[derive(Clone, Copy, Debug)]
pub struct IndexRecord<'a> {
    /// Topic of the record itself: half and delayed messages are found under their system topic.
    pub topic: &'a str,
    /// Property UNIQ_KEY.
    pub unique_key: Option<&'a str>,
    /// Property KEYS: keys separated by spaces.
    pub keys: Option<&'a str>,
    /// Start of the record in the log.
    pub phy_offset: PhysicalOffset,
    /// Store time of the record.
    pub store_timestamp: Millis,
    /// Whether the record's transaction type is rollback; such records have no entries.
    pub rolled_back: bool,
}

impl<'a> IndexRecord<'a> {
    /// What the index needs of `view`, whose topic and properties the caller has as text already.
    pub fn of(view: &RecordView<'_>, topic: &'a str, properties: &'a str) -> IndexRecord<'a> {
        let (mut unique_key, mut keys) = (None, None);
        for (name, value) in properties::iterate(properties) {
            match name {
                properties::UNIQ_KEY => unique_key = Some(value),
                properties::KEYS => keys = Some(value),
                _ => {}
            }
        }
        IndexRecord {
            topic,
            unique_key,
            keys,
            phy_offset: view.physical_offset(),
            store_timestamp: view.store_timestamp(),
            rolled_back: sys_flag::transaction_type(view.sys_flag()) == sys_flag::TRANSACTION_ROLLBACK,
        }
    }

    /// The keys, the unique one first, repeats included.
    pub fn keys(&self) -> impl Iterator<Item = &'a str> {
        let there = |text: &&str| !self.rolled_back && !text.is_empty();
        each_key(self.unique_key.filter(there), self.keys.filter(there))
    }

    /// True if a query for `topic` and `key` is to find this record. Different keys share hashes, so every candidate
    /// of a query has to pass this (IDX-1).
    pub fn answers(&self, topic: &str, key: &str) -> bool {
        self.topic == topic && self.keys().any(|own| own == key)
    }

    /// Hashes of the keys in order, each once (IDX-2: a message with the same key twice is found once).
    pub(super) fn key_hashes(&self) -> KeyHashes {
        hash_all(self.topic, self.keys())
    }
}

/// Hashes of the keys of a message, each once.
pub type KeyHashes = SmallVec<[u32; 4]>;

/// Hashes of the keys of a message that goes to `topic` with these values of UNIQ_KEY and KEYS: what the index will hold
/// of it.
pub fn key_hashes(topic: &str, unique_key: Option<&str>, keys: Option<&str>) -> KeyHashes {
    hash_all(topic, each_key(unique_key, keys))
}

fn each_key<'a>(unique_key: Option<&'a str>, keys: Option<&'a str>) -> impl Iterator<Item = &'a str> {
    unique_key.into_iter().chain(keys.unwrap_or_default().split(' ')).filter(|key| !key.is_empty())
}

fn hash_all<'a>(topic: &str, keys: impl Iterator<Item = &'a str>) -> KeyHashes {
    let hasher = KeyHasher::new(topic);
    let mut hashes = keys.map(|key| hasher.hash(key)).collect();
    remove_repeats(&mut hashes);
    hashes
}

/// Hash of `topic#key`.
pub fn key_hash(topic: &str, key: &str) -> u32 {
    KeyHasher::new(topic).hash(key)
}

/// Java's string hash of `topic#…`, ready to go on with a key.
struct KeyHasher {
    prefix: i32,
}

impl KeyHasher {
    fn new(topic: &str) -> KeyHasher {
        KeyHasher { prefix: hash::extend(hash::java_hash(topic), "#") }
    }

    /// Never negative: the one hash whose negative is itself counts as 0 (IDX-4).
    fn hash(&self, key: &str) -> u32 {
        hash::extend(self.prefix, key).checked_abs().unwrap_or(0) as u32
    }
}

fn remove_repeats(hashes: &mut KeyHashes) {
    const FEW: usize = 8;
    if hashes.len() > FEW {
        // The properties have room for 16,000 keys: comparing all pairs would let one message stall the index.
        let mut seen = HashSet::with_capacity(hashes.len());
        hashes.retain(|hash: &mut u32| seen.insert(*hash));
        return;
    }
    let mut kept = 0;
    for at in 0..hashes.len() {
        let hash = hashes[at];
        if !hashes[..kept].contains(&hash) {
            hashes[kept] = hash;
            kept += 1;
        }
    }
    hashes.truncate(kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record<'a>(topic: &'a str, unique_key: Option<&'a str>, keys: &'a str) -> IndexRecord<'a> {
        IndexRecord {
            topic,
            unique_key,
            keys: Some(keys),
            phy_offset: PhysicalOffset(0),
            store_timestamp: Millis(0),
            rolled_back: false,
        }
    }

    fn hashes(record: &IndexRecord<'_>) -> Vec<u32> {
        let hashes = record.key_hashes();
        assert_eq!(hashes, key_hashes(record.topic, record.unique_key, record.keys));
        hashes.to_vec()
    }

    #[test]
    fn the_unique_key_comes_first_and_spaces_separate() {
        let record = record("T", Some("U"), "a  b\u{3000}c ");
        assert_eq!(record.keys().collect::<Vec<_>>(), ["U", "a", "b\u{3000}c"]);
        let rolled_back = IndexRecord { rolled_back: true, ..record };
        assert_eq!(rolled_back.keys().count(), 0);
    }

    /// IDX-2: a message listing the same key twice was returned twice.
    #[test]
    fn idx_2_a_repeated_key_is_indexed_once() {
        assert_eq!(hashes(&record("T", None, "k k")).len(), 1);
        assert_eq!(hashes(&record("T", Some("k"), "k a k")), [key_hash("T", "k"), key_hash("T", "a")]);
        let many = (0..20_000).map(|n| (n % 100).to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!(hashes(&record("T", None, &many)).len(), 100);
    }

    /// IDX-4: a key whose hash is the smallest 32-bit number crashed the indexer.
    #[test]
    fn idx_4_the_smallest_hash_is_zero() {
        assert_eq!(key_hash("TopicTest", "vlsoaerz"), 0);
        assert_eq!(key_hash("TopicTest", "order-1001"), 1_043_804_929);
    }

    /// IDX-1: `AaTopic#BB` and `BBTopic#Aa` have one hash; only the record tells.
    #[test]
    fn idx_1_a_candidate_is_checked_against_topic_and_key() {
        assert_eq!(key_hash("AaTopic", "BB"), key_hash("BBTopic", "Aa"));
        let found = record("AaTopic", Some("U"), "Aa x");
        assert!(!found.answers("AaTopic", "BB"));
        assert!(!found.answers("BBTopic", "Aa"));
        assert!(found.answers("AaTopic", "x") && found.answers("AaTopic", "U"));
    }
}
