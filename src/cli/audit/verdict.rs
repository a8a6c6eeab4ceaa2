//! Reading histories, judging them, telling the verdict.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{json, Value};

use crate::audit::file::{decode, Recorded, EXTENSION, FILE_LEN_MAX};
use crate::audit::judge::{is_broken, judge, Judged, Outcome, Terms};
use crate::audit::merge::{merge, Merged};
use crate::audit::report::matters;
use crate::cli::console::{say, tell};
use crate::cli::fail::Failure;
use crate::cli::show::JsonArg;
use crate::cli::EXIT_REFUSED;
use crate::env::{real, Env, OpenMode};

/// Which histories.
#[derive(Debug, Args)]
pub struct FilesArgs {
    /// History files, or folders of them
    #[arg(value_name = "FILE|DIR", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    terms: TermsArgs,
    #[command(flatten)]
    json: JsonArg,
}

/// What histories do not say of themselves.
#[derive(Clone, Copy, Debug, Args)]
pub struct TermsArgs {
    /// A machine lost its power under ASYNC_FLUSH: acknowledged messages may be gone
    #[arg(long)]
    may_lose: bool,
    /// Groups need not have come to the end of their queues
    #[arg(long)]
    unfinished: bool,
}

/// Runs `metaq audit FILE…`.
pub fn run(args: &FilesArgs) -> Result<ExitCode> {
    verdict(&real::env(), &args.files, args.terms, args.json)
}

/// Judges the histories of these files and folders, and tells.
///
/// # Errors
/// If a file cannot be read, or is none.
pub fn verdict(env: &Env, paths: &[PathBuf], terms: TermsArgs, json: JsonArg) -> Result<ExitCode> {
    let histories = read_all(env, paths)?;
    for history in histories.iter().filter(|history| history.cut_bytes > 0) {
        tell!("warning: the last {} bytes of {} are no whole block", history.cut_bytes, history.name);
    }
    let merged = merge(&histories);
    let judged = judge(&merged, Terms { may_lose: terms.may_lose, unfinished: terms.unfinished });
    if json.json {
        say!("{}", to_json(&merged, &judged));
    } else {
        print(&merged, &judged);
    }
    Ok(if is_broken(&judged) { ExitCode::from(EXIT_REFUSED) } else { ExitCode::SUCCESS })
}

/// Reads the histories of these files and folders.
///
/// # Errors
/// If a file cannot be read, or is none.
pub fn read_all(env: &Env, paths: &[PathBuf]) -> Result<Vec<Recorded>> {
    let read = |path: &PathBuf| read(env, path).with_context(|| format!("history {} cannot be read", path.display()));
    all_files(env, paths)?.iter().map(read).collect()
}

fn all_files(env: &Env, paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        let found = env.disk.metadata(path).with_context(|| format!("{} cannot be read", path.display()))?;
        if !found.is_dir {
            files.push(path.clone());
            continue;
        }
        let entries = env.disk.read_dir(path)?.into_iter().filter(|entry| !entry.is_dir);
        let histories = entries.map(|entry| path.join(entry.name));
        files.extend(histories.filter(|file| file.extension().is_some_and(|extension| extension == EXTENSION)));
    }
    if files.is_empty() {
        let hint = "`metaq audit run --history DIR` makes some";
        return Err(Failure::refused("there are no histories").hint(hint).into());
    }
    Ok(files)
}

fn read(env: &Env, path: &Path) -> Result<Recorded> {
    let file = env.disk.open(path, OpenMode::Read)?;
    let len = file.len()?;
    anyhow::ensure!(len <= FILE_LEN_MAX, "it has {len} bytes, more than {FILE_LEN_MAX}");
    let mut bytes = vec![0; len as usize];
    let read = file.read_at(0, &mut bytes)?;
    Ok(decode(&bytes[..read])?)
}

/// Numbers that tell what was looked at.
struct Counts {
    events: usize,
    messages: usize,
}

impl Counts {
    fn of(merged: &Merged) -> Counts {
        let sent = |event: &&crate::audit::history::Timed| matches!(event.1, crate::audit::history::Event::Sending(_));
        let all = merged.with_processes().map(|(_, event)| event);
        Counts {
            events: merged.processes.iter().map(|process| process.events).sum(),
            messages: all.filter(sent).count() - merged.foreign,
        }
    }
}

fn print(merged: &Merged, judged: &[Judged]) {
    let Counts { events, messages } = Counts::of(merged);
    for process in &merged.processes {
        let end = if process.complete { "" } else { ", ends early: what came after is not known" };
        say!("{}: {} events{end}", process.name, process.events);
    }
    say!("{messages} messages, {events} events, {} messages of others\n", merged.foreign);
    for Judged { promise, outcome } in judged {
        match outcome {
            Outcome::Held => say!("  held       {promise}"),
            Outcome::NotAsked(reason) => say!("  not asked  {promise}: {reason}"),
            Outcome::Broken(violation) => {
                say!("  BROKEN     {promise}\n             {}", violation.finding);
                say!("             what matters (seconds, who, what):");
                for line in matters(merged, violation) {
                    say!("    {line}");
                }
            }
        }
    }
    let broken = judged.iter().filter(|judged| matches!(judged.outcome, Outcome::Broken(_))).count();
    let held = judged.iter().filter(|judged| judged.outcome == Outcome::Held).count();
    match broken {
        0 => say!("\nok: {held} promises held"),
        broken => say!("\nBROKEN: {broken} of {} promises", broken + held),
    }
}

fn to_json(merged: &Merged, judged: &[Judged]) -> Value {
    let Counts { events, messages } = Counts::of(merged);
    let histories = merged
        .processes
        .iter()
        .map(|process| json!({ "name": process.name, "events": process.events, "complete": process.complete }));
    let promises = judged.iter().map(|Judged { promise, outcome }| match outcome {
        Outcome::Held => json!({ "promise": promise, "outcome": "held" }),
        Outcome::NotAsked(reason) => json!({ "promise": promise, "outcome": "not asked", "reason": reason }),
        Outcome::Broken(violation) => json!({
            "promise": promise,
            "outcome": "broken",
            "checker": violation.checker,
            "finding": violation.finding,
            "matters": matters(merged, violation),
        }),
    });
    json!({
        "ok": !is_broken(judged),
        "messages": messages,
        "events": events,
        "foreign": merged.foreign,
        "untold": merged.untold,
        "histories": histories.collect::<Vec<_>>(),
        "promises": promises.collect::<Vec<_>>(),
    })
}
