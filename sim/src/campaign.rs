//! A sweep against the clock: new seeds for each commit, a part of them run twice, and an account of what was reached.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metaq::env::Canary;
use serde::Serialize;

use crate::faults;
use crate::files::Stopwatch;
use crate::marks;
use crate::report::commit;
use crate::sweep::{child, in_parallel, ChildRun};
use crate::trace::Fnv;

/// One run in so many is made twice and compared.
const AUDIT_EVERY: usize = 50;

/// What to sweep.
pub struct Campaign {
    /// The simulator.
    pub binary: PathBuf,
    /// Scenarios, which take turns. One may have many turns.
    pub scenarios: Vec<&'static str>,
    /// The first seed; every run has the next one.
    pub first_seed: u64,
    /// Runs begin until this much real time has passed.
    pub lasts: Duration,
    /// Runs at the same time.
    pub jobs: usize,
    /// Planted bugs that are on.
    pub canaries: BTreeSet<Canary>,
}

/// One scenario's part of a sweep.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Part {
    /// Runs.
    pub runs: u64,
    /// Runs that failed.
    pub failed: u64,
    /// Simulated seconds.
    pub simulated_s: f64,
}

/// A failed run.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// The scenario.
    pub scenario: String,
    /// Its seed.
    pub seed: u64,
    /// Hash of all events.
    pub hash: String,
    /// The checker.
    pub checker: String,
    /// What it found.
    pub finding: String,
}

/// How often a kind of fault came and did something.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Effect {
    /// Times it was applied.
    pub fired: u64,
    /// Times it had an effect.
    pub mattered: u64,
}

/// What a sweep found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// The commit of the sources.
    pub commit: String,
    /// The first seed.
    pub first_seed: u64,
    /// Real seconds.
    pub wall_s: f64,
    /// Simulated seconds, runs that were made twice counted once.
    pub simulated_s: f64,
    /// Runs.
    pub runs: u64,
    /// Runs that were made twice.
    pub audited: u64,
    /// Those of them that differed: a bug of the simulator.
    pub mismatched: Vec<String>,
    /// What failed.
    pub failures: Vec<Failure>,
    /// By scenario.
    pub scenarios: BTreeMap<String, Part>,
    /// Marks that were reached and in how many runs.
    pub marks: BTreeMap<String, u64>,
    /// Marks that were never reached.
    pub never_reached: Vec<String>,
    /// All kinds of faults.
    pub faults: BTreeMap<String, Effect>,
}

/// The first seed of a commit, short enough to be typed.
pub fn seed_of(commit: &str) -> u64 {
    let mut hash = Fnv::EMPTY;
    hash.bytes(commit.as_bytes());
    hash.0 >> 34
}

impl Campaign {
    /// Sweeps until the time is up. `failed` is told of each failure at once, `progress` about once a second.
    pub fn run(&self, failed: &(dyn Fn(&ChildRun) + Sync), progress: &(dyn Fn(&Summary) + Sync)) -> Summary {
        let stopwatch = Stopwatch::start();
        let summary = Mutex::new(Summary { commit: commit(), first_seed: self.first_seed, ..Summary::default() });
        let (told, over) = (Mutex::new(0), AtomicBool::new(false));
        in_parallel(self.jobs, usize::MAX, &|index| {
            if over.load(Ordering::Relaxed) || stopwatch.elapsed() >= self.lasts {
                over.store(true, Ordering::Relaxed);
                return false;
            }
            let scenario = self.scenarios[index % self.scenarios.len()];
            let seed = self.first_seed + index as u64;
            let run = child(&self.binary, scenario, seed, &self.canaries);
            let again = (index % AUDIT_EVERY == 0).then(|| child(&self.binary, scenario, seed, &self.canaries));
            if !run.passed {
                failed(&run);
            }
            let mut summary = lock(&summary);
            summary.add(&run, again.as_ref());
            summary.wall_s = stopwatch.elapsed().as_secs_f64();
            let second = stopwatch.elapsed().as_secs();
            if std::mem::replace(&mut *lock(&told), second) != second {
                progress(&summary);
            }
            true
        });
        let mut summary = summary.into_inner().unwrap_or_else(PoisonError::into_inner);
        summary.finish();
        summary
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Summary {
    fn add(&mut self, run: &ChildRun, again: Option<&ChildRun>) {
        let simulated_s = run.report.simulated_us as f64 / 1e6;
        self.runs += 1;
        self.simulated_s += simulated_s;
        let part = self.scenarios.entry(run.scenario.clone()).or_default();
        part.runs += 1;
        part.simulated_s += simulated_s;
        if !run.passed {
            part.failed += 1;
            self.failures.push(Failure {
                scenario: run.scenario.clone(),
                seed: run.seed,
                hash: run.report.hash.clone(),
                checker: run.checker().unwrap_or_default().to_owned(),
                finding: run.report.finding.clone().unwrap_or_default(),
            });
        }
        if let Some(again) = again {
            self.audited += 1;
            if again.line != run.line {
                self.mismatched.push(format!("{} {}: {} | {}", run.scenario, run.seed, run.line, again.line));
            }
        }
        for mark in run.report.marks.keys() {
            *self.marks.entry(mark.clone()).or_default() += 1;
        }
        for (kind, count) in &run.report.fired {
            self.faults.entry(kind.clone()).or_default().fired += count;
        }
        for (kind, count) in &run.report.mattered {
            self.faults.entry(kind.clone()).or_default().mattered += count;
        }
    }

    fn finish(&mut self) {
        let never = marks::all().filter(|mark| !self.marks.contains_key(*mark));
        self.never_reached = never.map(str::to_owned).collect();
        for kind in faults::kinds() {
            self.faults.entry(kind.name.to_owned()).or_default();
        }
    }

    /// True if nothing failed and every second run was the same as the first.
    pub fn is_good(&self) -> bool {
        self.failures.is_empty() && self.mismatched.is_empty()
    }

    /// One line for those who wait.
    pub fn progress(&self) -> String {
        let (hours, speed) = (self.simulated_s / 3_600.0, self.simulated_s / self.wall_s.max(0.001));
        let failed = self.failures.len();
        format!("{} runs, {failed} failed, {hours:.1} simulated hours, {speed:.0} times real time", self.runs)
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "commit {}, seeds from {} on, {:.0} s", self.commit, self.first_seed, self.wall_s);
        let _ = writeln!(text, "{}", self.progress());
        let _ = writeln!(text, "{} made twice, {} of them differed", self.audited, self.mismatched.len());
        for line in &self.mismatched {
            let _ = writeln!(text, "  differs: {line}");
        }
        let _ = writeln!(text, "\n{:<24} {:>7} {:>7} {:>12}", "scenario", "runs", "failed", "simulated h");
        for (name, part) in &self.scenarios {
            let hours = part.simulated_s / 3_600.0;
            let _ = writeln!(text, "{name:<24} {:>7} {:>7} {hours:>12.2}", part.runs, part.failed);
        }
        let _ = writeln!(text, "\n{:<24} {:>7} {:>9}", "fault", "fired", "mattered");
        for (name, effect) in &self.faults {
            let _ = writeln!(text, "{name:<24} {:>7} {:>9}", effect.fired, effect.mattered);
        }
        let _ = writeln!(text, "\n{} of {} marks reached", self.marks.len(), marks::all().count());
        for mark in &self.never_reached {
            let _ = writeln!(text, "  never: {mark}");
        }
        for failure in &self.failures {
            let Failure { scenario, seed, checker, finding, .. } = failure;
            let _ = writeln!(text, "\nFAIL {scenario} {seed}: {checker}: {finding}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Report;

    fn run(line: &str, passed: bool) -> ChildRun {
        let report = Report {
            line: line.to_owned(),
            simulated_us: 7_200_000_000,
            checker: (!passed).then(|| "c".to_owned()),
            marks: BTreeMap::from([(marks::ALL[0].to_owned(), 3)]),
            fired: BTreeMap::from([("kill".to_owned(), 2)]),
            ..Report::default()
        };
        ChildRun { scenario: "s".to_owned(), seed: 1, passed, line: line.to_owned(), report }
    }

    #[test]
    fn a_summary_counts_and_names_what_was_never_reached() {
        let mut summary = Summary::default();
        summary.add(&run("ok 1", true), Some(&run("ok 1", true)));
        summary.finish();
        assert!(summary.is_good());
        assert_eq!((summary.runs, summary.audited, summary.simulated_s), (1, 1, 7_200.0));
        assert_eq!(summary.never_reached.len(), marks::all().count() - 1);
        assert_eq!((summary.faults["kill"].fired, summary.faults["power_cut"].fired), (2, 0));
    }

    #[test]
    fn a_second_run_that_differs_is_a_failure() {
        let mut summary = Summary::default();
        summary.add(&run("ok 1", true), Some(&run("ok 2", true)));
        assert!(!summary.is_good());
        let mut summary = Summary::default();
        summary.add(&run("FAIL", false), None);
        assert!(!summary.is_good() && summary.text().contains("FAIL s 1"));
    }

    #[test]
    fn every_commit_has_seeds_of_its_own() {
        assert_ne!(seed_of("a320a33"), seed_of("a320a34"));
        assert!(seed_of("a320a33") < 1 << 30);
    }
}
