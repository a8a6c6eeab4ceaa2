//! The key index: from `topic#key` to the records that have the key.
//!
//! Index files derive from the log and only from the log, so whatever is missing or doubtful is thrown away and built
//! again from [`IndexService::next`]. Bytes are RocketMQ's, see `layout`.
//!
//! New entries wait in memory and are brought into the file in batches, see `merge`. Files are sparse and written
//! with plain writes: a full disk is an error here, never a signal.
//!
//! A hash is not a key: candidates are checked against the record ([`IndexRecord::answers`]) while a query runs, so
//! that collisions do not use up the number of records asked for.

mod feed;
mod file;
mod keys;
mod layout;
mod load;
mod merge;
mod names;
mod query;
mod service;

pub(crate) use feed::Fed;
pub use file::{IndexFile, IndexFileError, IndexFull};
pub use keys::{key_hash, key_hashes, IndexRecord, KeyHashes};
pub use layout::{IndexEntry, IndexGeometry, IndexHeader, IndexHeaderError, ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE};
pub use load::IndexLoadReport;
pub use merge::Progress;
pub use query::{KeyAnswer, KeyQuery, QUERY_RECORDS_MAX};
pub use service::{IndexError, IndexOptions, IndexService};
