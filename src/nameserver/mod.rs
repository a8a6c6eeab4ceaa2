//! The NameServer: which brokers are there and which queues they hold, told to whoever asks.
//!
//! NameServers know nothing of each other. Each learns everything from the registrations that every broker sends to all of
//! them, forgets what is silent for too long, and starts empty; only the small kv config is kept in a file.
//!
//! [`NameServer`] answers requests; the rules are in [`RouteTable`] (brokers and topics) and [`KvConfig`]. Nothing here
//! waits: time comes in, and what is to be done outside comes out as [`Effect`]s.

mod brokers;
mod kv;
mod registration;
mod requests;
mod routes;
mod server;
mod topics;
mod views;

use crate::env::ConnectionId;

pub use brokers::{MinBrokerChange, MASTER_ID};
pub use kv::{KvConfig, KvError, KvTable, KV_TEXT_BYTES_MAX, ORDER_TOPIC_CONFIG};
pub use registration::{
    Master, RegisterError, Registered, Registration, BROKER_TIMEOUT_MS, FILTER_SERVERS_MAX, NAME_BYTES_MAX,
};
pub use requests::{body_checksum, COMPLETE_TOPIC_TABLE, DISPLACED_ADDRESS, OUTRANKED_BY};
pub use routes::RouteTable;
pub use server::NameServer;
pub use topics::{Queues, PERM_READ, PERM_WRITE};
pub use views::UnitList;

/// Something to be done outside. Effects are carried out before the answer they came with is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Write this text to `kvConfigPath`, atomically.
    SaveKvConfig(String),
    /// Write these keys with their values to `configStorePath`, atomically.
    SaveSettings(Vec<(String, String)>),
    /// Close a connection whose broker was silent for too long.
    Close(ConnectionId),
    /// Send NOTIFY_MIN_BROKER_ID_CHANGE, one-way, to the broker on this connection.
    NotifyMinBroker {
        /// Where to.
        connection: ConnectionId,
        /// What.
        change: MinBrokerChange,
    },
}
