//! Many runs, each in a process of its own.

use std::collections::BTreeSet;
use std::ops::Range;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use metaq::env::Canary;

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
}

/// Runs a scenario and seed in a child process of the program at `binary`.
pub fn child(binary: &std::path::Path, scenario: &str, seed: u64, canaries: &BTreeSet<Canary>) -> ChildRun {
    let mut command = Command::new(binary);
    command.args(["run", scenario, &seed.to_string()]).stdin(Stdio::null());
    for canary in canaries {
        command.args(["--canary", &format!("{canary:?}")]);
    }
    let (passed, line) = match command.output() {
        Ok(output) => (output.status.success(), told(&output)),
        Err(error) => (false, format!("FAIL the simulation did not start: {error}")),
    };
    ChildRun { scenario: scenario.to_owned(), seed, passed, line }
}

fn told(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stdout);
    match said.lines().last() {
        Some(line) if line.starts_with("ok ") || line.starts_with("FAIL ") => line.to_owned(),
        _ => format!("FAIL {} {}", output.status, String::from_utf8_lossy(&output.stderr).replace('\n', " ")),
    }
}

/// Runs all `scenarios` with all `seeds`, `jobs` at a time, and hands each run to `report` as it ends.
pub fn sweep(
    binary: &std::path::Path,
    scenarios: &[&str],
    seeds: Range<u64>,
    jobs: usize,
    canaries: &BTreeSet<Canary>,
    report: &(dyn Fn(&ChildRun) + Sync),
) {
    let work: Vec<(&str, u64)> =
        seeds.flat_map(|seed| scenarios.iter().map(move |scenario| (*scenario, seed))).collect();
    let next = AtomicUsize::new(0);
    let one_at_a_time = Mutex::new(());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some((scenario, seed)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let run = child(binary, scenario, *seed, canaries);
                    let _turn = one_at_a_time.lock();
                    report(&run);
                }
            });
        }
    });
}
