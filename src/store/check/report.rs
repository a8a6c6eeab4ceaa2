//! What a check found.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::proto::PhysicalOffset;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing, nothing is wrong.
    Note,
    /// Data that derives from the log is missing or wrong in a way that the next start repairs by itself.
    Repairable,
    /// Bytes are not what a store wrote, or something points to nothing.
    Damage,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The file or directory.
    pub file: PathBuf,
    /// Byte in the file where it starts.
    pub at: u64,
    /// What it is.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Note => "note",
            Severity::Repairable => "repaired at start",
            Severity::Damage => "damage",
        };
        write!(f, "{severity}: {} byte {}: {}", self.file.display(), self.at, self.what)
    }
}

/// Result of [`super::check_store`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Whether the store was closed; if not, the next start recovers first, and some of what is found is expected.
    pub closed: bool,
    /// Commit-log segments.
    pub segments: usize,
    /// First position of the log.
    pub log_min: PhysicalOffset,
    /// Position behind the last record.
    pub log_end: PhysicalOffset,
    /// Records in the log.
    pub records: u64,
    /// Fillers at the ends of segments.
    pub blanks: u64,
    /// Consume queues.
    pub queues: u64,
    /// Entries of consume queues that point to their record.
    pub queue_entries: u64,
    /// Index files.
    pub index_files: u64,
    /// Entries of index files that point to a record with that key.
    pub index_entries: u64,
    /// The first findings of each severity, in the order of the check.
    pub findings: Vec<Finding>,
    /// Findings by severity, those left out included: notes, repairable, damage.
    counts: [u64; 3],
    findings_max: usize,
}

/// A summary, one line per area; the findings are for the caller to list.
impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (min, end) = (self.log_min.0, self.log_end.0);
        writeln!(
            f,
            "commit log: {} segments from {min} to {end} with {} records and {} fillers",
            self.segments, self.records, self.blanks
        )?;
        writeln!(f, "consume queues: {} with {} entries", self.queues, self.queue_entries)?;
        writeln!(f, "index: {} files with {} entries", self.index_files, self.index_entries)?;
        let [notes, repairable, damage] = self.counts;
        let state = if self.closed { "closed" } else { "not closed" };
        write!(f, "{state}; {damage} damaged, {repairable} repaired at start, {notes} notes")
    }
}

impl CheckReport {
    pub(super) fn new(findings_max: usize) -> CheckReport {
        CheckReport { findings_max, ..CheckReport::default() }
    }

    /// Findings of a severity, those left out of the list included.
    pub fn count(&self, severity: Severity) -> u64 {
        self.counts[severity as usize]
    }

    /// True if every byte is what a store wrote; there may still be something for the next start to repair.
    pub fn is_sound(&self) -> bool {
        self.count(Severity::Damage) == 0
    }

    pub(super) fn add(&mut self, severity: Severity, file: &Path, at: u64, what: impl Into<String>) {
        let count = &mut self.counts[severity as usize];
        *count += 1;
        if *count <= self.findings_max as u64 {
            self.findings.push(Finding { severity, file: file.to_path_buf(), at, what: what.into() });
        }
    }

    pub(super) fn damage(&mut self, file: &Path, at: u64, what: impl Into<String>) {
        self.add(Severity::Damage, file, at, what);
    }

    /// Something that an unclosed store may well have and a closed one must not.
    pub(super) fn damage_if_closed(&mut self, file: &Path, at: u64, what: impl Into<String>) {
        let severity = if self.closed { Severity::Damage } else { Severity::Repairable };
        self.add(severity, file, at, what);
    }
}
