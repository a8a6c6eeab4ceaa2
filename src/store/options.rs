//! What a store is opened with.

use std::path::PathBuf;

use crate::proto::message::DelayLevels;

/// When a send counts as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushMode {
    /// Once a sync covers it (`SYNC_FLUSH`): it survives a power cut. Consumers see it only then.
    Sync,
    /// Once it is written (`ASYNC_FLUSH`): it survives the end of the process, and a power cut after the next sync.
    Async,
}

/// Everything that decides how a store lies on disk and what it promises. Sizes are in bytes.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// `storePathRootDir`.
    pub root: PathBuf,
    /// `storePathCommitLog`, by default `commitlog` below the root.
    pub commit_log_dir: PathBuf,
    /// `mappedFileSizeCommitLog`, by default 1 GiB. An existing log has to have the same.
    pub segment_size: u64,
    /// `mappedFileSizeConsumeQueue`, a multiple of 20, by default 6,000,000. An existing store has to have the same.
    pub queue_file_size: u64,
    /// `maxHashSlotNum`, by default 5,000,000.
    pub index_slots: u32,
    /// `maxIndexNum`, by default 20,000,000.
    pub index_entries: u32,
    /// `messageIndexEnable`.
    pub index_enabled: bool,
    /// `flushDiskType`.
    pub flush: FlushMode,
    /// `maxMessageSize`: the largest body; a record may have 64 KiB more.
    pub max_message_size: u32,
    /// `messageDelayLevel`: entries of the delay topic hold the time of delivery.
    pub delay_levels: DelayLevels,
    /// Records this close to the end of the log are read through the mapping and count as "in memory" for the limits
    /// of a read; older ones are read from the file. RocketMQ takes 40 % of the machine's memory.
    pub memory_window: u64,
    /// How far ahead of a writer of small records the pages of the log are made present. They are dirty: the next sync writes
    /// them.
    pub prefault_window: u64,
    /// Consume-queue files kept open at once.
    pub open_queue_files_max: usize,
    /// Queues a store may have.
    pub queues_max: usize,
}

impl StoreOptions {
    /// RocketMQ's defaults for a store below `root`.
    pub fn new(root: impl Into<PathBuf>) -> StoreOptions {
        let root = root.into();
        StoreOptions {
            commit_log_dir: root.join("commitlog"),
            root,
            segment_size: 1 << 30,
            queue_file_size: 6_000_000,
            index_slots: 5_000_000,
            index_entries: 20_000_000,
            index_enabled: true,
            flush: FlushMode::Async,
            max_message_size: 4 << 20,
            delay_levels: DelayLevels::default(),
            memory_window: 4 << 30,
            prefault_window: 2 << 20,
            open_queue_files_max: 1024,
            queues_max: 1_000_000,
        }
    }

    /// The largest record: body, properties and fixed fields.
    pub fn max_record_size(&self) -> u64 {
        u64::from(self.max_message_size) + 65_536
    }
}
