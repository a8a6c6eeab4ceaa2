//! Many runs, each in a process of its own.

use std::collections::BTreeSet;
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use metaq::env::Canary;

use crate::plan::Plan;
use crate::report::Report;

/// A run that was made in a child process.
#[derive(Clone, Debug)]
pub struct ChildRun {
    /// The scenario's name.
    pub scenario: String,
    /// Its seed.
    pub seed: u64,
    /// Whether the process ended well.
    pub passed: bool,
    /// The line it printed, or what it said instead.
    pub line: String,
    /// What it reported.
    pub report: Report,
}

impl ChildRun {
    /// The checker that found a broken promise.
    pub fn checker(&self) -> Option<&str> {
        self.report.checker.as_deref()
    }
}

/// Runs a scenario and seed in a child process of the program at `binary`.
pub fn child(binary: &Path, scenario: &str, seed: u64, canaries: &BTreeSet<Canary>) -> ChildRun {
    let mut command = Command::new(binary);
    command.args(["run", "--json", scenario, &seed.to_string()]).stdin(Stdio::null());
    for canary in canaries {
        command.args(["--canary", &format!("{canary:?}")]);
    }
    heard(scenario, seed, command.output())
}

/// Runs a plan in a child process of the program at `binary`, from `branch` on with other random streams.
pub fn child_of_plan(binary: &Path, plan: &Plan, branch: Option<(u64, u64)>) -> ChildRun {
    let mut command = Command::new(binary);
    command.args(["run", "--json", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some((at_us, number)) = branch {
        command.args(["--branch", &format!("{at_us}:{number}")]);
    }
    let output = command.spawn().and_then(|mut child| {
        let written = child.stdin.take().map(|mut stdin| stdin.write_all(plan.text().as_bytes()));
        let output = child.wait_with_output()?;
        written.transpose()?;
        Ok(output)
    });
    heard(&plan.scenario, plan.seed, output)
}

fn heard(scenario: &str, seed: u64, output: std::io::Result<Output>) -> ChildRun {
    let (passed, report) = match output {
        Ok(output) => (output.status.success(), told(&output)),
        Err(error) => (false, unheard(format!("the simulation did not start: {error}"))),
    };
    ChildRun { scenario: scenario.to_owned(), seed, passed, line: report.line.clone(), report }
}

fn told(output: &Output) -> Report {
    let said = String::from_utf8_lossy(&output.stdout);
    let report = said.lines().last().and_then(|line| serde_json::from_str::<Report>(line).ok());
    report.unwrap_or_else(|| {
        let errors = String::from_utf8_lossy(&output.stderr).replace('\n', " ");
        unheard(format!("{} {errors}", output.status))
    })
}

/// A process that does not report has failed.
fn unheard(finding: String) -> Report {
    let line = format!("FAIL {finding}");
    Report { line, checker: Some("the simulator".to_owned()), finding: Some(finding), ..Report::default() }
}

/// Runs all `scenarios` with all `seeds`, `jobs` at a time, and hands each run to `report` as it ends.
pub fn sweep(
    binary: &Path,
    scenarios: &[&str],
    seeds: Range<u64>,
    jobs: usize,
    canaries: &BTreeSet<Canary>,
    report: &(dyn Fn(&ChildRun) + Sync),
) {
    let work: Vec<(&str, u64)> =
        seeds.flat_map(|seed| scenarios.iter().map(move |scenario| (*scenario, seed))).collect();
    let turn = Mutex::new(());
    in_parallel(jobs, work.len(), &|index| {
        let (scenario, seed) = work[index];
        let run = child(binary, scenario, seed, canaries);
        let _turn = turn.lock();
        report(&run);
        true
    });
}

/// Does up to `count` pieces of work, `jobs` at a time; a job that returns false does no more.
pub fn in_parallel(jobs: usize, count: usize, work: &(dyn Fn(usize) -> bool + Sync)) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, count.max(1)) {
            scope.spawn(|| loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count || !work(index) {
                    return;
                }
            });
        }
    });
}
