//! The store: commit log, consume queues, index, recovery, config files.
//!
//! ```text
//!            AppendBatch ─► LogWriter ─► segments ─┐            one writer, owned by one actor
//!                              │                   ├─► Store::read, record_at, offset_by_time
//!                              └─► ConsumeQueue ───┘            any number of readers, never waiting for it
//! ```
//! Reading order: `options`, [`batch`] and [`error`] (what goes in and what can go wrong), `segment` and
//! `commit_log`, [`consume_queue`], `derive` (what follows from a record), `writer`, `read` and
//! `time_search`, [`recovery`].

pub mod batch;
pub mod check;
pub mod checkpoint;
mod commit_log;
pub mod config_file;
pub mod config_journal;
pub mod consume_queue;
mod damage;
mod delete;
pub mod deduplication;
mod deleted_topics;
pub mod derive;
mod dispatcher;
pub mod epoch;
pub mod error;
mod expire;
mod handle;
pub mod index;
mod options;
pub(crate) mod paths;
mod query;
mod queue_table;
mod queues;
mod read;
pub mod recovery;
pub mod retention;
mod segment;
mod seldom;
pub mod snapshot;
mod state;
mod time_search;
pub mod timer;
mod transfer;
mod trouble;
mod writer;
pub use batch::{AppendBatch, AppendItem, AppendResult, GroupId, Stored, TagsCode};
pub use consume_queue::{ConsumeQueue, QueueEntry, Waiter, WaiterId, CQ_UNIT_SIZE};
pub use deduplication::{Deduplication, UniqueSend};
pub use dispatcher::{Dispatched, Dispatcher};
pub use error::{OpenError, Refusal, StoreError};
pub use handle::{Statistics, Store};
pub use index::{key_hashes, KeyHashes};
pub use options::{FlushMode, StoreOptions};
pub use query::QueryAnswer;
pub use read::{EntryForFilter, MessageFilter, Portion, ReadLimits, ReadOutcome, ReadStatus};
pub use recovery::{open, Opened, RecoveryReport, Repair};
pub use time_search::Boundary;
pub use trouble::Trouble;
pub use writer::{JobDone, LogWriter, Progress, ReplicateError, SyncDone};
