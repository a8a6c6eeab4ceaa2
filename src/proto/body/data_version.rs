//! The version of a table: what a broker's configuration is compared by.

use serde::{Deserialize, Serialize};

use crate::env::Millis;

/// The version of a table. Two are the same if all three members are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DataVersion {
    /// Changes so far.
    pub counter: i64,
    /// How often another broker of the name has become the master, or the epoch that a controller gave.
    pub state_version: i64,
    /// When the last change was made, in ms.
    pub timestamp: i64,
}

impl DataVersion {
    /// The version of a table nobody has changed since `now`.
    pub fn new(now: Millis) -> DataVersion {
        DataVersion { counter: 0, state_version: 0, timestamp: now.0 }
    }

    /// Notes a change.
    pub fn next(&mut self, now: Millis) {
        self.counter = self.counter.saturating_add(1);
        self.timestamp = now.0;
    }

    /// Another broker of the name keeps the table from now on: whatever the last one still says of it is older, however
    /// often it changes it or starts again. (In RocketMQ's controller mode this is the master's epoch.)
    pub fn promote(&mut self) {
        self.state_version = self.state_version.saturating_add(1);
    }

    /// As text, for the ext fields that carry a version.
    pub fn to_text(&self) -> String {
        format!(
            r#"{{"counter":{},"stateVersion":{},"timestamp":{}}}"#,
            self.counter, self.state_version, self.timestamp
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::body::{from_slice, to_vec};

    #[test]
    fn the_text_is_the_body() {
        let mut version = DataVersion::new(Millis(5));
        version.next(Millis(1_700_000_000_000));
        assert_eq!(version.to_text().as_bytes(), to_vec(&version));
        assert_eq!(from_slice(version.to_text().as_bytes()), Ok(version));
        assert_eq!(from_slice(br#"{"counter":3}"#), Ok(DataVersion { counter: 3, ..DataVersion::default() }));
    }
}
