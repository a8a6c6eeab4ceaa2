//! The way from a directory to an open store.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::sync::{Arc, Mutex};

use super::plan::Exit;
use super::report::RecoveryReport;
use super::{segments, Recovered, Recovery};
use crate::env::{Canary, Env, FileLock, OpenMode};
use crate::proto::message::record::BLANK_SIZE;
use crate::proto::PhysicalOffset;
use crate::store::checkpoint::CheckpointFile;
use crate::store::commit_log::CommitLog;
use crate::store::config_file::ConfigFile;
use crate::store::consume_queue::{QueueFiles, CQ_UNIT_SIZE};
use crate::store::damage::Damage;
use crate::store::deleted_topics::{DeletedTopics, Ends};
use crate::store::dispatcher::Dispatcher;
use crate::store::error::OpenError;
use crate::store::handle::{Counters, Store};
use crate::store::options::StoreOptions;
use crate::store::paths;
use crate::store::queue_table::{QueueTable, TABLE_LEN_MAX};
use crate::store::queues::Queues;
use crate::store::seldom::Seldom;
use crate::store::state::WriteState;
use crate::store::writer::{LogWriter, StateFiles};

/// An open store.
pub struct Opened {
    /// For everybody.
    pub store: Arc<Store>,
    /// For the one who writes.
    pub writer: LogWriter,
    /// For the one who builds the index.
    pub dispatcher: Dispatcher,
    /// What was found and changed.
    pub report: RecoveryReport,
}

/// Opens the store at `options.root`, made if it is missing, and recovers it from whatever state it was left in.
///
/// When this returns, everything readable has survived a sync, and queues and log agree.
pub async fn open(env: &Env, options: StoreOptions) -> Result<Opened, OpenError> {
    check_options(&options)?;
    make_directories(env, &options).await?;
    let lock = lock(env, &options.root)?;
    let exit = mark_open(env, &options.root).await?;

    let path = paths::checkpoint(&options.root);
    let (checkpoint_file, checkpoint) =
        CheckpointFile::open(&*env.disk, &path).map_err(OpenError::io("open", &path))?;
    let (mut queue_table, table) = open_queue_table(env, &options.root)?;
    let mut deleted_topics = DeletedTopics::open(env, &options.root)?;
    let mut repairs = Vec::new();
    let segments = segments::load(env, &options, &mut repairs).await?;
    let (root, files_max) = (options.root.clone(), options.open_queue_files_max);
    let files = QueueFiles::new(Arc::clone(&env.disk), root, options.queue_file_size, files_max);
    let queues = Queues::new(usize::MAX);
    let deleted = match env.canary(Canary::ReviveDeletedTopics) {
        true => Ends::default(),
        false => deleted_topics.ends().clone(),
    };
    let mut recovery = Recovery { env, options: &options, exit, checkpoint, segments, files, queues, deleted };
    let recovered = match recovery.run(table).await? {
        // The table promised more than the files hold; the log has to tell.
        Recovered { incomplete: true, .. } => recovery.run(None).await?,
        recovered => recovered,
    };
    if recovered.table.is_none() {
        queue_table = forget_queue_table(env, &options.root).await?;
    }
    let (index, dispatch_from) = recovery.load_index(&recovered)?;
    let Recovery { segments, files, queues, .. } = recovery;
    queues.set_max(options.queues_max);
    repairs.extend(recovered.repairs);
    let log_end = recovered.end.at;
    deleted_topics.on_recovered(segments.first().map_or(0, |first| first.base()), log_end);
    match deleted_topics.save(0).await {
        // The store has to open for retention to make room; it is saved with the next queue table.
        Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
        saved => saved.map_err(OpenError::io("write", &paths::deleted_topics(&options.root)))?,
    }
    let in_table = recovered.table.as_ref().map(|table| (table.last_record, table.last_store_time));
    let last_record = recovered.end.last.or(in_table).unwrap_or_default();
    let report = RecoveryReport {
        exit,
        read_from: PhysicalOffset(recovered.plan.read_from),
        log_end: PhysicalOffset(log_end),
        records_read: recovered.end.records,
        repairs,
    };
    let store = Arc::new(Store {
        env: env.clone(),
        log: CommitLog::new(options.memory_window, segments, log_end),
        options,
        queues,
        files,
        index,
        index_synced: AtomicI64::new(checkpoint.index_msg_timestamp.0),
        dispatched: AtomicU64::new(dispatch_from),
        queues_synced: AtomicU64::new(recovered.table.map_or(0, |table| table.log_end)),
        queue_deleted: AtomicBool::new(false),
        deleted_topics: futures::lock::Mutex::new(deleted_topics),
        pinned: AtomicU64::new(u64::MAX),
        unwanted: AtomicU64::new(0),
        no_space: AtomicBool::new(false),
        damage: Damage::default(),
        written_from: log_end,
        damage_told: Seldom::default(),
        state: WriteState::default(),
        counters: Counters::default(),
        lock: Mutex::new(Some(lock)),
    });
    let state_files = StateFiles { checkpoint: checkpoint_file, queue_table };
    let writer = LogWriter::new(Arc::clone(&store), state_files, checkpoint, last_record, recovered.unwritten);
    let dispatcher = Dispatcher::new(Arc::clone(&store), dispatch_from);
    Ok(Opened { store, writer, dispatcher, report })
}

fn check_options(options: &StoreOptions) -> Result<(), OpenError> {
    let wrong = |what: &str| Err(OpenError::Options { what: what.to_owned() });
    if options.segment_size < 1024 || options.segment_size > i32::MAX as u64 {
        return wrong("mappedFileSizeCommitLog has to be between 1 KiB and 2 GiB");
    }
    if options.queue_file_size == 0 || !options.queue_file_size.is_multiple_of(CQ_UNIT_SIZE as u64) {
        return wrong("mappedFileSizeConsumeQueue has to be a multiple of 20");
    }
    if options.max_record_size() + BLANK_SIZE as u64 > options.segment_size {
        tracing::warn!(
            maxMessageSize = options.max_message_size,
            mappedFileSizeCommitLog = options.segment_size,
            "the largest messages do not fit a file of the commit log and will be refused"
        );
    }
    Ok(())
}

/// Makes the directories that are missing and sees that all their names, and those above them, survive a power cut: also
/// of those that were there, because an earlier start may have made them and died before its sync.
async fn make_directories(env: &Env, options: &StoreOptions) -> Result<(), OpenError> {
    let mut parents = BTreeSet::new();
    for directory in [&options.root, &options.commit_log_dir, &paths::consume_queue_dir(&options.root)] {
        env.disk.create_dir_all(directory).map_err(OpenError::io("make", directory))?;
        let above = directory.ancestors().skip(1).map(|path| if path == Path::new("") { Path::new(".") } else { path });
        parents.extend(above.map(Path::to_owned));
    }
    for parent in parents {
        match env.disk.sync_dir(&parent).await {
            // What we may not even list, we did not make.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            synced => synced.map_err(OpenError::io("sync", &parent))?,
        }
    }
    Ok(())
}

fn lock(env: &Env, root: &Path) -> Result<Box<dyn FileLock>, OpenError> {
    let path = paths::lock(root);
    // RocketMQ's content. Before the lock is taken: closing any handle of a file gives its locks up.
    let file = env.disk.open(&path, OpenMode::CreateOrOpen).map_err(OpenError::io("open", &path))?;
    if file.is_empty().map_err(OpenError::io("look at", &path))? {
        file.write_at(0, b"lock").map_err(OpenError::io("write", &path))?;
    }
    drop(file);
    match env.disk.lock(&path) {
        Ok(lock) => Ok(lock),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(OpenError::Locked { root: root.to_owned() }),
        Err(error) => Err(OpenError::io("lock", &path)(error)),
    }
}

/// Makes the marker that an unclean exit leaves, before anything changes. Tells whether one was there.
async fn mark_open(env: &Env, root: &Path) -> Result<Exit, OpenError> {
    let abort = paths::abort(root);
    let exit = if env.disk.exists(&abort) { Exit::Unclean } else { Exit::Clean };
    env.disk.open(&abort, OpenMode::CreateOrOpen).map_err(OpenError::io("make", &abort))?;
    env.disk.sync_dir(root).await.map_err(OpenError::io("sync", root))?;
    Ok(exit)
}

fn open_queue_table(env: &Env, root: &Path) -> Result<(ConfigFile, Option<QueueTable>), OpenError> {
    let path = paths::queue_table(root);
    let open = || ConfigFile::open(Arc::clone(&env.disk), path.clone(), TABLE_LEN_MAX, QueueTable::decode);
    let opened = open().or_else(|error| {
        // Both versions are unusable. The log knows everything the table does.
        tracing::warn!(%error, "the queue table is ignored");
        remove_queue_table(env, root);
        open()
    });
    let (file, loaded) = opened.map_err(|error| OpenError::io("read", &path)(io::Error::other(error)))?;
    Ok((file, loaded.into_value()))
}

/// Removes a table that does not belong to the log: when the log has grown it might look as if it did.
pub(in crate::store) async fn forget_queue_table(env: &Env, root: &Path) -> Result<ConfigFile, OpenError> {
    remove_queue_table(env, root);
    env.disk.sync_dir(root).await.map_err(OpenError::io("sync", root))?;
    open_queue_table(env, root).map(|(file, _)| file)
}

fn remove_queue_table(env: &Env, root: &Path) {
    let path = paths::queue_table(root);
    // What is missing needs no removal; what cannot be removed is not trusted either.
    let _ = env.disk.remove_file(&path);
    let _ = env.disk.remove_file(&path.with_extension("bak"));
}
