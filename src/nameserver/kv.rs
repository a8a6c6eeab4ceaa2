//! The small configuration store of a NameServer: namespace → key → value, kept in a file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::proto::body::{from_slice, to_vec_pretty, JsonError};

/// The namespace of ordered topics: topic → `broker-a:8;broker-b:8`, the fixed list of its write queues.
pub const ORDER_TOPIC_CONFIG: &str = "ORDER_TOPIC_CONFIG";

/// Longest namespace, key or value in bytes.
pub const KV_TEXT_BYTES_MAX: usize = 64 * 1024;

/// Why a pair was not stored.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KvError {
    /// The setting `maxKvConfigEntries` is reached.
    #[error("the kv config holds {0} entries, which is its limit")]
    Full(usize),
    /// A namespace, key or value is too long.
    #[error("namespace, key and value may have {KV_TEXT_BYTES_MAX} bytes each")]
    TooLong,
}

/// The pairs of one namespace.
pub type KvTable = BTreeMap<String, String>;

/// All namespaces. A namespace stays when its last key is deleted, as in RocketMQ, where "empty" and "never existed" are
/// answered differently.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KvConfig {
    #[serde(rename = "configTable", default)]
    tables: BTreeMap<String, KvTable>,
}

impl KvConfig {
    /// Reads the text of `kvConfig.json`: `{"configTable":{"<namespace>":{"<key>":"<value>"}}}`.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        from_slice(text.as_bytes())
    }

    /// The text to write to `kvConfig.json`.
    pub fn to_text(&self) -> String {
        String::from_utf8_lossy(&to_vec_pretty(self)).into_owned()
    }

    /// Sets a value, replacing an older one. At most `entries_max` namespaces and keys in all.
    pub fn put(&mut self, namespace: &str, key: &str, value: &str, entries_max: usize) -> Result<(), KvError> {
        if [namespace, key, value].iter().any(|text| text.len() > KV_TEXT_BYTES_MAX) {
            return Err(KvError::TooLong);
        }
        let known = self.tables.get(namespace).map(|table| table.contains_key(key));
        let added = match known {
            Some(true) => 0,
            Some(false) => 1,
            None => 2,
        };
        let entries = self.tables.len() + self.tables.values().map(BTreeMap::len).sum::<usize>();
        if entries + added > entries_max {
            return Err(KvError::Full(entries_max));
        }
        self.tables.entry(namespace.to_owned()).or_default().insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    /// The value of a key.
    pub fn get(&self, namespace: &str, key: &str) -> Option<&str> {
        self.tables.get(namespace)?.get(key).map(String::as_str)
    }

    /// Deletes a key and tells whether it was there.
    pub fn delete(&mut self, namespace: &str, key: &str) -> bool {
        self.tables.get_mut(namespace).is_some_and(|table| table.remove(key).is_some())
    }

    /// All pairs of a namespace; `None` if it never existed.
    pub fn namespace(&self, namespace: &str) -> Option<&KvTable> {
        self.tables.get(namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_a_restart_with_emptied_namespaces() {
        let mut kv = KvConfig::default();
        assert_eq!(kv.namespace("n"), None);
        kv.put("n", "k", "v", 10).unwrap();
        kv.put("n", "", "empty names are taken", 10).unwrap();
        assert_eq!(kv.get("n", "k"), Some("v"));
        assert!(kv.delete("n", "k") && kv.delete("n", ""));
        assert!(!kv.delete("n", "k"), "deleted twice");
        let again = KvConfig::parse(&kv.to_text()).unwrap();
        assert_eq!(again, kv);
        assert_eq!(again.namespace("n"), Some(&KvTable::new()));
    }

    #[test]
    fn reads_what_java_wrote() {
        let kv = KvConfig::parse(
            "{\n\t\"configTable\":{\n\t\t\"ORDER_TOPIC_CONFIG\":{\n\t\t\t\"T\":\"broker-a:4\"\n\t\t}\n\t}\n}",
        );
        assert_eq!(kv.unwrap().get(ORDER_TOPIC_CONFIG, "T"), Some("broker-a:4"));
        assert_eq!(KvConfig::parse("{}").unwrap(), KvConfig::default());
        assert!(KvConfig::parse("not json").is_err());
    }

    #[test]
    fn is_bounded() {
        let mut kv = KvConfig::default();
        kv.put("n", "k", "1", 2).unwrap();
        assert_eq!(kv.put("n", "other", "1", 2), Err(KvError::Full(2)));
        kv.put("n", "k", "replacing is no growth", 2).unwrap();
        assert_eq!(kv.put("n", "k", &"x".repeat(KV_TEXT_BYTES_MAX + 1), 9), Err(KvError::TooLong));
    }
}
