//! `metaq store check`: every byte of a store that nobody writes to, ours or Apache's.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{bail, Context, Result};
use clap::{Args, Subcommand};
use serde_json::json;

use super::console::{say, tell};
use super::EXIT_REFUSED;
use crate::env::{real, Disk};
use crate::proto::message::DelayLevels;
use crate::store::check::{check_store, CheckOptions, CheckReport, Severity};

/// Arguments of `metaq store`.
#[derive(Debug, Args)]
pub struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// Check every record, queue entry and index entry of a stopped broker's store; exit code 1 if one is damaged
    ///
    /// Nothing is changed. Each finding is one of three:
    ///
    ///   damage            bytes are not what a broker wrote, or point to nothing
    ///   repaired at start what derives from the log is missing: the next start builds it
    ///   note              worth knowing, nothing is wrong
    ///
    /// In a store that was not closed a torn end of the log is no damage: the next start ends
    /// the log before it. In one that was closed whole records were there, so it is damage; the
    /// start ends the log there all the same.
    ///
    /// With damage, copy the folder first. Then, if it is
    ///
    ///   in commitlog      start the broker: it keeps every message that it can read
    ///   in consumequeue   move `queueTable` and `queueTable.bak` away and start the broker:
    ///                     it compares every entry with the log
    ///   in index          move the folder away and start the broker: it is built again
    ///
    /// Whatever keeps a broker from starting it says itself, with the file's name.
    #[command(verbatim_doc_comment)]
    Check(CheckArgs),
}

#[derive(Debug, Args)]
struct CheckArgs {
    /// The broker's data folder (storePathRootDir), with `commitlog` and `consumequeue` in it
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Folder of the commit log, if it lies elsewhere (storePathCommitLog)
    #[arg(long, value_name = "DIR")]
    commit_log: Option<PathBuf>,
    /// The broker's delay levels (messageDelayLevel), if they were changed
    #[arg(long, value_name = "LEVELS")]
    delay_levels: Option<String>,
    /// Each record has to end with its own checksum (enabledAppendPropCRC)
    #[arg(long)]
    property_crc: bool,
    /// Findings of each kind that are listed; all are counted
    #[arg(long, value_name = "N", default_value_t = 100)]
    max: usize,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `metaq store`.
pub fn run(args: StoreArgs) -> Result<ExitCode> {
    let StoreCommand::Check(args) = args.command;
    let disk = real::env().disk;
    let directory = args.directory.as_path();
    let log_directory = args.commit_log.clone().unwrap_or_else(|| directory.join("commitlog"));
    if !disk.exists(&log_directory) && !disk.exists(&directory.join("consumequeue")) {
        bail!("there is no store in {}: neither `commitlog` nor `consumequeue`", directory.display());
    }
    let _lock = lock(&*disk, directory)?;

    let delay_levels = match &args.delay_levels {
        Some(levels) => DelayLevels::parse(levels).with_context(|| format!("`--delay-levels {levels}`"))?,
        None => DelayLevels::default(),
    };
    let options = CheckOptions {
        commit_log_directory: args.commit_log,
        property_crc: args.property_crc,
        findings_max: args.max,
        ..CheckOptions::new(delay_levels)
    };
    let disk: Arc<dyn Disk> = disk;
    let report = check_store(&disk, directory, &options)
        .with_context(|| format!("the store in {} cannot be read", directory.display()))?;
    if args.json {
        say!("{}", to_json(&report));
    } else {
        print(&report, directory);
    }
    Ok(if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_REFUSED) })
}

/// Keeps a broker from starting meanwhile. A folder that cannot be written to, or that never was a broker's, needs none.
fn lock(disk: &dyn Disk, directory: &Path) -> Result<Option<Box<dyn crate::env::FileLock>>> {
    let path = directory.join("lock");
    if !disk.exists(&path) {
        return Ok(None);
    }
    match disk.lock(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            bail!("a broker is running on {}: stop it first", directory.display())
        }
        other => Ok(other.ok()),
    }
}

fn print(report: &CheckReport, directory: &Path) {
    let closed = if report.closed { "cleanly closed" } else { "not closed: the next start recovers it" };
    say!("store     {}, {closed}", directory.display());
    say!(
        "log       {}, {}, bytes {} to {}",
        count(report.segments as u64, "segment", "segments"),
        count(report.records, "record", "records"),
        report.log_min.0,
        report.log_end.0
    );
    say!("queues    {}, {}", count(report.queues, "queue", "queues"), count(report.queue_entries, "entry", "entries"));
    say!(
        "index     {}, {}",
        count(report.index_files, "file", "files"),
        count(report.index_entries, "entry", "entries")
    );
    for finding in &report.findings {
        say!("{finding}");
    }
    let listed = report.findings.len() as u64;
    let found = SEVERITIES.iter().map(|severity| report.count(*severity)).sum::<u64>();
    if listed < found {
        say!("          {} more are not listed (--max)", found - listed);
    }
    let repairs = match report.count(Severity::Repairable) {
        0 => String::new(),
        repairs => format!(", {repairs} to be repaired at the next start"),
    };
    match report.count(Severity::Damage) {
        0 => say!("ok        no damage{repairs}"),
        damages => {
            say!("DAMAGED   {}{repairs}", count(damages, "damage", "damages"));
            tell!("{WHAT_NOW}");
        }
    }
}

const WHAT_NOW: &str = "\
hint: copy the folder before anything else
hint: in commitlog: start the broker; it keeps every message that it can read and says what is lost
hint: in consumequeue: move `queueTable` and `queueTable.bak` away and start the broker; it puts every entry right
hint: in index: move the folder away and start the broker; it builds the index again from the log
hint: `metaq store check --help` says what the findings mean";

const SEVERITIES: [Severity; 3] = [Severity::Note, Severity::Repairable, Severity::Damage];

fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn to_json(report: &CheckReport) -> serde_json::Value {
    let findings = report.findings.iter().map(|finding| {
        json!({
            "severity": match finding.severity {
                Severity::Note => "note",
                Severity::Repairable => "repairable",
                Severity::Damage => "damage",
            },
            "file": finding.file.display().to_string(),
            "byte": finding.at,
            "what": finding.what,
        })
    });
    json!({
        "sound": report.is_sound(),
        "closed": report.closed,
        "segments": report.segments,
        "logMin": report.log_min.0,
        "logEnd": report.log_end.0,
        "records": report.records,
        "blanks": report.blanks,
        "queues": report.queues,
        "queueEntries": report.queue_entries,
        "indexFiles": report.index_files,
        "indexEntries": report.index_entries,
        "notes": report.count(Severity::Note),
        "repairable": report.count(Severity::Repairable),
        "damage": report.count(Severity::Damage),
        "findings": findings.collect::<Vec<_>>(),
    })
}
