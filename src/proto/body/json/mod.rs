//! JSON as RocketMQ's servers and clients write it.
//!
//! Apache's side prints Java beans with fastjson, whose output is not always JSON: integer keys stand there unquoted
//! (`{0:"a"}`), and a map whose keys are beans has objects for keys (`{{"topic":"T"}:5}`). C++ and Go write numbers as
//! texts and enums as numbers. [`from_slice`] reads all of it into ordinary serde types, [`to_vec`] writes what every
//! client can read: compact, members in the order of the struct (declare them alphabetically, as Java prints them),
//! integer keys quoted, object keys raw (Java reads no other form), and no nulls. [`to_vec_pretty`] writes the form of
//! the files in `config/`.

mod read;
mod scan;
mod write;

use serde::de::DeserializeOwned;
use serde::Serialize;

/// Why text is not the JSON that was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
pub struct JsonError {
    /// Where reading stopped.
    pub at: usize,
    /// What was wrong there.
    pub what: String,
}

/// Reads one value with nothing but white space behind it.
///
/// What is wanted decides how text is taken: a number may stand in quotes and a text may be a bare number or boolean,
/// an enum may be its name or its place in the list, a member or element that is `null` counts as not there, and
/// unknown members are passed over. Bytes that are not UTF-8 read as U+FFFD.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, JsonError> {
    let text = String::from_utf8_lossy(bytes);
    read::read(&text)
}

/// Writes a value in the compact form of requests and responses.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    write::write(value, write::Form::Compact)
}

/// Writes a value in the form of the configuration files: tabs, one member a line, integer-keyed entries packed.
pub fn to_vec_pretty<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    write::write(value, write::Form::Pretty)
}

/// For a field whose type has a value for "not known": text that is none of an enum's names reads as that, as it does
/// in Java, instead of spoiling the whole body.
pub fn known_or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::Deserialize<'de> + Default,
{
    Ok(T::deserialize(deserializer).unwrap_or_default())
}

#[cfg(test)]
mod tests;
