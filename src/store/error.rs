//! What goes wrong in a store. Each text names its cause, so that it can stand alone in a log line or an answer; no error
//! gives that cause again as its source, for whoever prints the whole chain would print it twice.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::index::IndexError;
use crate::proto::PhysicalOffset;

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process, perhaps a Java broker, has it open.
    #[error("store {} is in use by another process", .root.display())]
    Locked {
        /// The store's root.
        root: PathBuf,
    },
    /// An option that no store can be opened with.
    #[error("{what}")]
    Options {
        /// What is wrong with which option.
        what: String,
    },
    /// A file that does not belong where it lies.
    #[error("{} {what}", .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A segment in the middle of the log is missing.
    #[error("the commit log has a gap: no file begins at {expected}, the next begins at {found}")]
    Gap {
        /// Where the missing segment begins.
        expected: u64,
        /// Where the next one does.
        found: u64,
    },
    /// The device cannot give back what was written.
    #[error("cannot read {} at byte {at}: {error}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Where the read began, in the file.
        at: u64,
        /// What the disk said.
        error: io::Error,
    },
    /// The disk refused.
    #[error("cannot {action} {}: {error}", .path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// What the disk said.
        error: io::Error,
    },
}

impl OpenError {
    /// For `map_err`: the disk refused to `action` the file at `path`, unless the error tells of a read elsewhere.
    pub(crate) fn io<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> OpenError + 'a {
        move |error| match error.downcast() {
            Ok(Unreadable { path, at, error }) => OpenError::Unreadable { path, at, error },
            Err(error) => OpenError::Io { action, path: path.to_owned(), error },
        }
    }

    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<&'static str> {
        let queue = |path: &Path| path.components().any(|part| part.as_os_str() == "consumequeue");
        match self {
            OpenError::Locked { .. } => Some("stop that broker, or choose another folder with --data DIR"),
            OpenError::Unreadable { path, .. } if queue(path) => {
                Some("move the file's folder away and start again: the queue is built again from the log")
            }
            OpenError::Unreadable { .. } => Some(
                "see the kernel's log for the device's fault; put a copy of what can be read in the file's place (`dd \
                 conv=noerror,sync bs=4096` fills the rest with zeros) and start again: what was there is lost, the \
                 messages around it stay",
            ),
            OpenError::Io { action: "open the index", .. } => {
                Some("move the folder away and start again: the index is built again from the log")
            }
            _ => None,
        }
    }
}

/// Carried in an [`io::Error`]: which file could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {} at byte {at}: {error}", .path.display())]
pub(crate) struct Unreadable {
    path: PathBuf,
    at: u64,
    error: io::Error,
}

impl Unreadable {
    /// For `map_err`: reading the file at `path` from byte `at` on failed.
    pub(crate) fn at(path: &Path, at: u64) -> impl FnOnce(io::Error) -> io::Error + '_ {
        move |error| io::Error::new(error.kind(), Unreadable { path: path.to_owned(), at, error })
    }
}

/// Why a running store does not do what it was asked to.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// It takes no writes at present; the text names the reason, the limit and the directory.
    #[error("{reason}")]
    Refused {
        /// Whether and when writes may work again.
        refusal: Refusal,
        /// The reason in words.
        reason: Arc<str>,
    },
    /// The record, or the client batch it is part of, can never be stored here.
    #[error("a message of {bytes} bytes cannot be stored, at most {limit} are possible")]
    TooLarge {
        /// Bytes of the record or of the whole batch.
        bytes: u64,
        /// The most that could be stored.
        limit: u64,
    },
    /// A record is not as it was written, and is being looked for elsewhere.
    #[error("the record at {} is damaged and is being looked for at other brokers", .at.0)]
    Damaged {
        /// Where it lies in the log.
        at: PhysicalOffset,
    },
    /// The bytes given for a record are not one.
    #[error("the bytes to append are not a record")]
    Malformed,
    /// The topic was deleted after the queue's handle was taken.
    #[error("queue {queue_id} of topic {topic} was deleted")]
    QueueDeleted {
        /// The topic.
        topic: Arc<str>,
        /// The queue.
        queue_id: u32,
    },
    /// The topic cannot be a directory's name, or the queue's number is above 2³¹ − 1.
    #[error("there can be no queue {queue_id} of topic `{topic}`")]
    NoSuchQueue {
        /// The topic.
        topic: Arc<str>,
        /// The queue.
        queue_id: u32,
    },
    /// More queues than `queues_max`.
    #[error("the store has {limit} queues and takes no more")]
    TooManyQueues {
        /// The limit.
        limit: usize,
    },
    /// Consumers may have read what was to be taken back.
    #[error("the log is confirmed up to {}, and nothing of that is taken back", .confirmed.0)]
    Confirmed {
        /// Up to where.
        confirmed: PhysicalOffset,
    },
    /// Nothing readable lies at this position.
    #[error("no message begins at position {} of the commit log", .at.0)]
    NoRecord {
        /// The position asked for.
        at: PhysicalOffset,
    },
    /// The disk refused to read or to write.
    #[error("cannot {action}: {error}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// What the disk said.
        error: Arc<io::Error>,
    },
}

impl StoreError {
    pub(crate) fn io(action: &'static str) -> impl FnOnce(io::Error) -> StoreError {
        move |error| StoreError::Io { action, error: Arc::new(error) }
    }

    pub(crate) fn index(error: IndexError) -> StoreError {
        StoreError::Io { action: "use the index", error: Arc::new(io::Error::other(error)) }
    }

    /// Whether the same request may succeed later without anybody changing it.
    pub fn retryable(&self) -> bool {
        matches!(self, StoreError::Refused { refusal: Refusal::DiskFull | Refusal::NoSegment, .. })
    }
}

/// Why a store takes no writes. Reads go on in every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Refusal {
    /// A write or sync of the log failed: what is on disk is uncertain until the store is opened again.
    Poisoned,
    /// The partition is fuller than `diskSpaceWarningLevelRatio`; ends when there is space again.
    DiskFull,
    /// The next segment cannot be made; tried again with the next message.
    NoSegment,
    /// Consume-queue files cannot be written; ends when they can.
    QueueFiles,
    /// The store is closing.
    Closing,
    /// Too few slaves have what is there already.
    NotReplicated,
    /// The log is a copy of a master's: only what the master has is appended.
    Following,
}
