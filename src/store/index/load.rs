//! Taking up the index files of an earlier run.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::file::{read_header, IndexFile, IndexFileError};
use super::layout::IndexHeader;
use super::names::is_index_name;
use super::service::{CurrentFile, FinishedFile, IndexError, IndexOptions, IndexService, State};
use crate::env::{Disk, Millis, OpenMode};

/// What [`IndexService::load`] did; for the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexLoadReport {
    /// Files in use.
    pub kept: usize,
    /// Files deleted, each with the reason. Their records have to be indexed again, from [`IndexService::next`] on.
    pub deleted: Vec<(String, String)>,
    /// Other files in the directory, left alone.
    pub ignored: Vec<String>,
}

impl IndexService {
    /// Takes up the files in the directory. After an abnormal end `synced_until` is the checkpoint's
    /// `indexMsgTimestamp`: files that end later may be half there and are deleted. So is a file that is not usable, and
    /// every file behind one that is deleted, since the index has to be complete up to [`IndexService::next`].
    pub fn load(
        disk: Arc<dyn Disk>,
        options: IndexOptions,
        synced_until: Option<Millis>,
    ) -> Result<(IndexService, IndexLoadReport), IndexError> {
        let mut service = IndexService::with_state(disk, options, State::default());
        let mut report = IndexLoadReport::default();
        let loaded = service.load_files(synced_until, &mut report).map_err(|error| service.failed("load", error))?;
        service.state = std::sync::Mutex::new(loaded);
        Ok((service, report))
    }

    fn load_files(&self, synced_until: Option<Millis>, report: &mut IndexLoadReport) -> io::Result<State> {
        let directory = &self.options.directory;
        let (mut good, unusable) = self.read_headers(report)?;
        // The order of the log counts: names may lie, local time is set back once a year.
        good.sort_by(|(a_name, a), (b_name, b)| (a.end_phy_offset, a_name).cmp(&(b.end_phy_offset, b_name)));
        let first_unusable = unusable.iter().map(|(name, _)| name.clone()).min();
        let reason = |name: &str, header: &IndexHeader| {
            if header.is_empty() {
                Some("it holds nothing".to_string())
            } else if synced_until.is_some_and(|synced| header.end_timestamp > synced) {
                Some("it is newer than the checkpoint and may be half there".to_string())
            } else if synced_until.is_some() && header.index_count < self.options.geometry.entries() {
                // Its last record may be of the same millisecond as that of the last finished file.
                Some("it was not finished and may be half there".to_string())
            } else {
                let lost = first_unusable.as_deref().filter(|lost| *lost < name)?;
                Some(format!("{lost} before it is lost"))
            }
        };
        let bad = good.iter().position(|(name, header)| reason(name, header).is_some()).unwrap_or(good.len());
        let behind = good.split_off(bad);
        report.deleted = unusable;
        for (name, header) in &behind {
            let why = reason(name, header).unwrap_or_else(|| "a file before it is lost".to_string());
            report.deleted.push((name.clone(), why));
        }
        // Newest first: if the power fails here, the next start must not find a file behind a gap.
        report.deleted.sort_by(|(a, _), (b, _)| b.cmp(a));
        for (name, _) in &report.deleted {
            self.disk.remove_file(&directory.join(name))?;
        }
        report.kept = good.len();
        self.take_up(good)
    }

    /// Headers of the files in the directory, and the files that are not usable.
    #[allow(clippy::type_complexity)] // two lists of named files; a type would say no more
    fn read_headers(
        &self,
        report: &mut IndexLoadReport,
    ) -> io::Result<(Vec<(String, IndexHeader)>, Vec<(String, String)>)> {
        let (mut good, mut unusable) = (Vec::new(), Vec::new());
        let entries = match self.disk.read_dir(&self.options.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            entries => entries?,
        };
        for entry in entries {
            if entry.is_dir || !is_index_name(&entry.name) {
                report.ignored.push(entry.name);
                continue;
            }
            match self.read_header_of(&self.options.directory.join(&entry.name)) {
                Ok(header) => good.push((entry.name, header)),
                Err(error) => unusable.push((entry.name, error.to_string())),
            }
        }
        Ok((good, unusable))
    }

    fn read_header_of(&self, path: &Path) -> Result<IndexHeader, IndexFileError> {
        let file = self.disk.open(path, OpenMode::Read)?;
        read_header(&*file, self.options.geometry)
    }

    fn take_up(&self, mut good: Vec<(String, IndexHeader)>) -> io::Result<State> {
        let mut state = State::default();
        let newest = good.pop_if(|(_, header)| header.index_count < self.options.geometry.entries());
        state.finished = good.into_iter().map(|(name, header)| Arc::new(FinishedFile { name, header })).collect();
        if let Some((name, _)) = newest {
            let file = self.disk.open(&self.options.directory.join(&name), OpenMode::Write)?;
            let file = IndexFile::open(file, self.options.geometry).map_err(io::Error::other)?;
            state.current = Some(CurrentFile { name, file });
        }
        Ok(state)
    }
}
