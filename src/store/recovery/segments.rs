//! The files of the commit log, as they were found.

use std::path::Path;
use std::sync::Arc;

use super::report::Repair;
use crate::env::{Disk, Env, OpenMode};
use crate::store::commit_log::Segments;
use crate::store::error::OpenError;
use crate::store::options::StoreOptions;
use crate::store::paths;
use crate::store::segment::Segment;

/// Opens all segments. A last file without content goes, one of another length is brought to the right one: a crash
/// came between making and sizing it. Anything else that does not belong into the directory is an error, as it is for
/// RocketMQ: guessing could lose messages.
pub(super) async fn load(env: &Env, options: &StoreOptions, repairs: &mut Vec<Repair>) -> Result<Segments, OpenError> {
    let directory = &options.commit_log_dir;
    let mut bases = file_bases(&*env.disk, directory)?;
    while let Some(last) = bases.last() {
        let path = directory.join(paths::file_name(*last));
        let metadata = env.disk.metadata(&path).map_err(OpenError::io("look at", &path))?;
        if metadata.len > 0 {
            break;
        }
        env.disk.remove_file(&path).map_err(OpenError::io("remove", &path))?;
        env.disk.sync_dir(directory).await.map_err(OpenError::io("sync", directory))?;
        repairs.push(Repair::EmptySegmentRemoved { path });
        bases.pop();
    }
    let mut segments = Segments::default();
    for (index, &base) in bases.iter().enumerate() {
        let expected = segments.last().map_or(base, |last: &Arc<Segment>| last.end());
        if base != expected || !base.is_multiple_of(options.segment_size) {
            return Err(misplaced(directory, base, expected, options.segment_size));
        }
        let path = directory.join(paths::file_name(base));
        size(&*env.disk, &path, options.segment_size, index + 1 == bases.len(), repairs)?;
        let segment = Segment::open(env, directory, base, options.segment_size);
        segments.push(Arc::new(segment.map_err(OpenError::io("open", &path))?));
    }
    Ok(segments)
}

/// Removes the segments behind the log's end, newest first and each for good before the next, so that a crash in between
/// leaves no gap.
pub(super) async fn remove_behind(
    env: &Env,
    options: &StoreOptions,
    segments: &mut Segments,
    end: u64,
    repairs: &mut Vec<Repair>,
) -> Result<(), OpenError> {
    let directory = &options.commit_log_dir;
    while segments.last().is_some_and(|last| last.base() > end || (last.base() == end && segments.len() > 1)) {
        let Some(last) = segments.pop_last() else { break };
        let path = last.path().to_owned();
        env.disk.remove_file(&path).map_err(OpenError::io("remove", &path))?;
        env.disk.sync_dir(directory).await.map_err(OpenError::io("sync", directory))?;
        repairs.push(Repair::SegmentRemoved { path });
    }
    Ok(())
}

fn file_bases(disk: &dyn Disk, directory: &Path) -> Result<Vec<u64>, OpenError> {
    let entries = disk.read_dir(directory).map_err(OpenError::io("list", directory))?;
    let files = entries.iter().filter(|entry| !entry.is_dir);
    let base = |name: &String| {
        let foreign = || OpenError::Foreign {
            path: directory.join(name),
            what: "is no file of the commit log: move it away".to_owned(),
        };
        paths::file_base(name).ok_or_else(foreign)
    };
    files.map(|entry| base(&entry.name)).collect()
}

fn misplaced(directory: &Path, base: u64, expected: u64, size: u64) -> OpenError {
    if base.is_multiple_of(size) && expected.is_multiple_of(size) {
        return OpenError::Gap { expected, found: base };
    }
    OpenError::Foreign {
        path: directory.join(paths::file_name(base)),
        what: format!("does not begin at a multiple of the configured file size {size} (mappedFileSizeCommitLog)"),
    }
}

/// Checks the length of a file and corrects that of the last one.
fn size(disk: &dyn Disk, path: &Path, size: u64, last: bool, repairs: &mut Vec<Repair>) -> Result<(), OpenError> {
    let was = disk.metadata(path).map_err(OpenError::io("look at", path))?.len;
    if was == size {
        return Ok(());
    }
    if !last || was > size {
        let what = format!("has {was} bytes, not the configured {size} (mappedFileSizeCommitLog)");
        return Err(OpenError::Foreign { path: path.to_owned(), what });
    }
    let file = disk.open(path, OpenMode::Write).map_err(OpenError::io("open", path))?;
    file.set_len(size).map_err(OpenError::io("size", path))?;
    repairs.push(Repair::SegmentSized { path: path.to_owned(), was, is: size });
    Ok(())
}
