//! Checking a store's files without changing them: what `metaq store check` does.
//!
//! Every record is parsed again and its CRC and position compared; every consume-queue entry must point to the record
//! of its number, topic and queue with the right size and tag hash; every index entry must point to a record that has
//! the key. Memory is bounded, whatever the size of the store: the log is read once from end to end, and each queue
//! only remembers how far it has come.

mod entry;
mod family;
mod geometry;
mod index;
mod log;
mod queues;
mod report;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::log::LogReader;
use self::queues::QueueChecker;
pub use self::report::{CheckReport, Finding, Severity};
use super::checkpoint::CHECKPOINT_LEN;
use super::index::IndexGeometry;
use crate::env::{DirEntry, Disk};
use crate::proto::message::DelayLevels;

/// What the check has to know about a store, since its files do not say.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// Directory of the commit log if it is not `commitlog` in the store (`storePathCommitLog`).
    pub commit_log_directory: Option<PathBuf>,
    /// `messageDelayLevel`.
    pub delay_levels: DelayLevels,
    /// `maxHashSlotNum` and `maxIndexNum`; `None`: as each file's length and content suggest.
    pub index_geometry: Option<IndexGeometry>,
    /// Whether each record has to end with its own CRC (`enabledAppendPropCRC`).
    pub property_crc: bool,
    /// How many findings of each severity are listed; all are counted.
    pub findings_max: usize,
}

impl CheckOptions {
    /// RocketMQ's defaults; the geometry of the index is detected.
    pub fn new(delay_levels: DelayLevels) -> CheckOptions {
        CheckOptions {
            commit_log_directory: None,
            delay_levels,
            index_geometry: None,
            property_crc: false,
            findings_max: 100,
        }
    }
}

/// Checks the store in `root`. Nobody may write to it meanwhile. Errors are those of the disk; everything that is
/// wrong with the content is in the report.
pub fn check_store(disk: &Arc<dyn Disk>, root: &Path, options: &CheckOptions) -> io::Result<CheckReport> {
    let mut report = CheckReport::new(options.findings_max);
    report.closed = !disk.exists(&root.join("abort"));
    let default_directory = root.join("commitlog");
    let log_directory = options.commit_log_directory.as_ref().unwrap_or(&default_directory);
    let mut log = LogReader::open(disk.clone(), log_directory, &mut report)?;
    let mut queues = QueueChecker::open(disk.clone(), root, &options.delay_levels, &mut report)?;
    log.walk(options.property_crc, &mut report, &mut |view, report| queues.on_record(view, report))?;
    queues.finish(&mut report)?;
    index::check(disk, &root.join("index"), options.index_geometry, &mut log, &mut report)?;
    check_checkpoint(&**disk, &root.join("checkpoint"), &mut report)?;
    Ok(report)
}

fn check_checkpoint(disk: &dyn Disk, path: &Path, report: &mut CheckReport) -> io::Result<()> {
    match disk.metadata(path) {
        Ok(metadata) if metadata.len != CHECKPOINT_LEN as u64 => {
            let what = format!("{} bytes, a checkpoint has {CHECKPOINT_LEN}", metadata.len);
            report.damage_if_closed(path, 0, what);
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            report.add(Severity::Note, path, 0, "there is none: after a crash recovery reads the whole log");
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Entries of a directory by name; none if there is no such directory.
fn list(disk: &dyn Disk, directory: &Path) -> io::Result<Vec<DirEntry>> {
    match disk.read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries,
    }
}

/// The position a file name stands for: 20 digits.
fn parse_base(name: &str) -> Option<u64> {
    (name.len() == 20 && name.bytes().all(|byte| byte.is_ascii_digit())).then(|| name.parse().ok())?
}
