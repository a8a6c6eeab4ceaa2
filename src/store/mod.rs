//! The store: commit log, consume queues, index, recovery, config files.
