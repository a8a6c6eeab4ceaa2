//! Changes to attributes of topics and groups: `+key=value` adds or replaces, `-key` removes.

use std::collections::BTreeMap;

/// Why a change is refused. The texts are RocketMQ's where it has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttributeError {
    /// Neither `+` nor `-` before the key.
    #[error("add/alter attribute format is wrong: {key}")]
    Format {
        /// The key as sent.
        key: String,
    },
    /// No such attribute.
    #[error("unsupported key: {key}")]
    Unsupported {
        /// The key.
        key: String,
    },
    /// The same key twice.
    #[error("key duplication: {key}")]
    Twice {
        /// The key.
        key: String,
    },
    /// The attribute is decided when the topic is made.
    #[error("attempt to update an unchangeable attribute. key: {key}")]
    Immutable {
        /// The key.
        key: String,
    },
    /// The value is none of the attribute's.
    #[error("value is not in set or range. key: {key} value: {value}")]
    Value {
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// A new topic has nothing to remove.
    #[error("only add attribute is supported while creating topic. key: {key}")]
    RemoveOnCreate {
        /// The key.
        key: String,
    },
    /// There is nothing to remove.
    #[error("attempt to delete a nonexistent key: {key}")]
    Absent {
        /// The key.
        key: String,
    },
}

/// What an attribute may hold.
#[derive(Clone, Copy, Debug)]
pub struct Attribute {
    /// Its key.
    pub key: &'static str,
    /// May be changed after creation.
    pub changeable: bool,
    /// Its values; none named: a whole number from 0.
    pub values: &'static [&'static str],
}

/// The attributes of topics.
pub const TOPIC_ATTRIBUTES: [Attribute; 5] = [
    Attribute { key: "queue.type", changeable: false, values: &["SimpleCQ", "BatchCQ"] },
    Attribute { key: "cleanup.policy", changeable: false, values: &["DELETE", "COMPACTION"] },
    Attribute {
        key: "message.type",
        changeable: true,
        values: &["UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"],
    },
    Attribute { key: "reserve.time", changeable: true, values: &[] },
    Attribute { key: DEDUPLICATION_WINDOW, changeable: true, values: &[] },
];

/// For how many ms a topic's sends are known by their UNIQ_KEY; 0: not at all, whatever the broker's setting says. Ours:
/// RocketMQ's brokers refuse it.
pub const DEDUPLICATION_WINDOW: &str = "deduplication.window";

/// The attributes of groups.
pub const GROUP_ATTRIBUTES: [Attribute; 1] = [Attribute { key: "priority.factor", changeable: true, values: &[] }];

/// `current` with `changes` made; `current` is `None` for what is being created.
pub fn alter(
    known: &[Attribute],
    current: Option<&BTreeMap<String, String>>,
    changes: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, AttributeError> {
    let mut altered = current.cloned().unwrap_or_default();
    let mut seen: Vec<&str> = Vec::new();
    for (signed, value) in changes {
        let (add, name) = match (signed.strip_prefix('+'), signed.strip_prefix('-')) {
            (Some(name), _) => (true, name),
            (_, Some(name)) => (false, name),
            _ => return Err(AttributeError::Format { key: signed.clone() }),
        };
        let key = name.to_owned();
        let Some(attribute) = known.iter().find(|attribute| attribute.key == name) else {
            return Err(AttributeError::Unsupported { key });
        };
        if seen.contains(&name) {
            return Err(AttributeError::Twice { key });
        }
        seen.push(name);
        if current.is_some() && !attribute.changeable && altered.get(name) != Some(value) {
            return Err(AttributeError::Immutable { key });
        }
        if add {
            let fits = match attribute.values {
                [] => value.parse::<i64>().is_ok_and(|number| number >= 0),
                values => values.contains(&value.as_str()),
            };
            if !fits {
                return Err(AttributeError::Value { key, value: value.clone() });
            }
            altered.insert(key, value.clone());
        } else if current.is_none() {
            return Err(AttributeError::RemoveOnCreate { key });
        } else if altered.remove(name).is_none() {
            return Err(AttributeError::Absent { key });
        }
    }
    Ok(altered)
}

/// Reads the ext field `attributes`: `+key=value,+key2=value2,-key3`.
pub fn parse(text: &str) -> BTreeMap<String, String> {
    let pair = |part: &str| match part.split_once('=') {
        Some((key, value)) => (key.trim().to_owned(), value.trim().to_owned()),
        None => (part.trim().to_owned(), String::new()),
    };
    text.split(',').filter(|part| !part.trim().is_empty()).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(current: Option<&str>, changes: &str) -> Result<String, String> {
        let current = current.map(parse);
        alter(&TOPIC_ATTRIBUTES, current.as_ref(), &parse(changes))
            .map(|map| map.into_iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(","))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn attributes_are_added_changed_and_removed() {
        assert_eq!(topic(None, "+message.type=FIFO"), Ok("message.type=FIFO".to_owned()));
        assert_eq!(topic(Some("message.type=FIFO"), "+message.type=NORMAL"), Ok("message.type=NORMAL".to_owned()));
        assert_eq!(topic(Some("message.type=FIFO"), "-message.type"), Ok(String::new()));
        assert_eq!(topic(Some("queue.type=SimpleCQ"), "+queue.type=SimpleCQ"), Ok("queue.type=SimpleCQ".to_owned()));
        assert_eq!(topic(None, ""), Ok(String::new()));
    }

    #[test]
    fn wrong_changes_are_refused() {
        for (current, changes, error) in [
            (None, "+foo=1", "unsupported key: foo"),
            (None, "message.type=FIFO", "add/alter attribute format is wrong: message.type"),
            (None, "-message.type", "only add attribute is supported while creating topic. key: message.type"),
            (None, "+message.type=X", "value is not in set or range. key: message.type value: X"),
            (None, "+reserve.time=-1", "value is not in set or range. key: reserve.time value: -1"),
            (Some(""), "-message.type", "attempt to delete a nonexistent key: message.type"),
            (
                Some("queue.type=SimpleCQ"),
                "+queue.type=BatchCQ",
                "attempt to update an unchangeable attribute. key: queue.type",
            ),
            (Some("message.type=FIFO"), "+message.type=FIFO,-message.type", "key duplication: message.type"),
        ] {
            assert_eq!(topic(current, changes), Err(error.to_owned()));
        }
    }
}
