//! Settings structs by the names of their keys. Serde knows the names and types, so no key is listed twice.

use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::{Map, Value};

/// Why a setting was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetError {
    /// There is no such key.
    #[error("unknown setting `{key}`{}", hint(.nearest.as_deref()))]
    UnknownKey {
        /// The key asked for.
        key: String,
        /// The key that was probably meant.
        nearest: Option<String>,
    },
    /// The value does not fit the key's type or range.
    #[error("`{value}` is no value for `{key}`: {reason}")]
    BadValue {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What is expected.
        reason: String,
    },
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| format!(", did you mean `{nearest}`?"))
}

/// No key is longer.
const KEY_BYTES_MAX: usize = 100;
/// How much of a key or value an error repeats.
const SHOWN_CHARS: usize = 200;

/// The beginning of a text, for an error.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS).collect()
}

/// `settings` with one value replaced.
pub fn with<S: Serialize + DeserializeOwned>(settings: &S, key: &str, value: &str) -> Result<S, SetError> {
    let mut fields = fields(settings);
    let Some(field) = fields.get_mut(key) else {
        let nearest = nearest(key, fields.keys().map(String::as_str)).map(str::to_owned);
        return Err(SetError::UnknownKey { key: shown(key), nearest });
    };
    let bad = |reason: String| SetError::BadValue { key: shown(key), value: shown(value), reason };
    let trimmed = value.trim();
    *field = match field {
        Value::Bool(_) if trimmed.eq_ignore_ascii_case("true") => Value::Bool(true),
        Value::Bool(_) if trimmed.eq_ignore_ascii_case("false") => Value::Bool(false),
        Value::Bool(_) => return Err(bad("true or false is expected".to_owned())),
        Value::Number(_) => match trimmed.parse::<i64>() {
            Ok(number) => Value::from(number),
            Err(_) => return Err(bad("a whole number is expected".to_owned())),
        },
        _ => Value::from(trimmed),
    };
    serde_json::from_value(Value::Object(fields)).map_err(|error| bad(error.to_string()))
}

/// `into` with the values that `from` has for `keys`.
pub fn merged<S: Clone + Serialize + DeserializeOwned>(into: &S, from: &S, keys: &[&str]) -> S {
    let (mut values, mut newer) = (fields(into), fields(from));
    for key in keys {
        if let Some(value) = newer.remove(*key) {
            values.insert((*key).to_owned(), value);
        }
    }
    // Each value is one that such a struct had before.
    serde_json::from_value(Value::Object(values)).unwrap_or_else(|_| into.clone())
}

/// All keys with their values as text, in the order of the struct.
pub fn list<S: Serialize>(settings: &S) -> Vec<(String, String)> {
    let text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    fields(settings).into_iter().map(|(key, value)| (key, text(value))).collect()
}

/// The key that differs least from `key`, if it differs little enough to be a slip.
pub fn nearest<'a>(key: &str, keys: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Comparing takes the product of the lengths, and whoever sends a request chooses this one.
    if key.len() > KEY_BYTES_MAX {
        return None;
    }
    let close = |candidate: &&str| distance(&key.to_lowercase(), &candidate.to_lowercase());
    let (distance, nearest) = keys.map(|candidate| (close(&candidate), candidate)).min()?;
    (distance <= 2.max(key.len() / 4)).then_some(nearest)
}

/// Characters to insert, remove or replace to make `a` of `b`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (line, left) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for (column, right) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(left != *right);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}

fn fields<S: Serialize>(settings: &S) -> Map<String, Value> {
    match serde_json::to_value(settings) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(distance("brokerName", "brokerName"), 0);
        assert_eq!(distance("brokrName", "brokerName"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
        let keys = ["brokerName", "brokerId", "listenPort"];
        assert_eq!(nearest("brokername", keys.into_iter()), Some("brokerName"));
        assert_eq!(nearest("listenport", keys.into_iter()), Some("listenPort"));
        assert_eq!(nearest("lisenPort", keys.into_iter()), Some("listenPort"));
        assert_eq!(nearest("rocksdbCompression", keys.into_iter()), None);
        assert_eq!(nearest(&"x".repeat(10_000_000), keys.into_iter()), None, "and soon");
    }
}
