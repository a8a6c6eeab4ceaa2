//! How replication stands at a broker: answer of GET_BROKER_HA_STATUS (907).

use serde::{Deserialize, Serialize};

/// Replication at a master, or at a slave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HaRuntimeInfo {
    /// Of a slave: how it follows its master.
    pub ha_client_runtime_info: HaClientRuntimeInfo,
    /// Of a master: its slaves.
    pub ha_connection_info: Vec<HaConnectionRuntimeInfo>,
    /// Slaves in sync; the master does not count.
    pub in_sync_slave_nums: i32,
    /// Whether it is a master.
    pub master: bool,
    /// Where the log ends.
    pub master_commit_log_max_offset: i64,
}

/// One slave as its master sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HaConnectionRuntimeInfo {
    /// Where it comes from.
    pub addr: String,
    /// metaq's own: for how long it has lacked any byte, in ms.
    pub behind_millis: Option<i64>,
    /// metaq's own: its broker id, if it said.
    pub broker_id: Option<i64>,
    /// Bytes it lacks; metaq says −1 while the slave has said nothing yet.
    pub diff: i64,
    /// Whether it counts for what is replicated.
    pub in_sync: bool,
    /// Up to where it has the log.
    pub slave_ack_offset: i64,
    /// Where its transfer began; metaq says 0.
    pub transfer_from_where: i64,
    /// Bytes a second it gets; metaq says 0.
    pub transferred_byte_in_second: i64,
}

/// A slave as it sees itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HaClientRuntimeInfo {
    /// Whether it follows a master at present.
    pub activated: bool,
    /// When it last read from the master, ms since 1970; metaq says 0.
    pub last_read_timestamp: i64,
    /// When it last wrote to the master, ms since 1970; metaq says 0.
    pub last_write_timestamp: i64,
    /// The master's address for replication.
    pub master_addr: Option<String>,
    /// What the master says is flushed, as Apache does; metaq: is confirmed.
    pub master_flush_offset: i64,
    /// Where its own log ends.
    pub max_offset: i64,
    /// metaq's own: why it will not follow its master.
    pub refusal: Option<String>,
    /// Bytes a second it gets; metaq says 0.
    pub transferred_byte_in_second: i64,
}
