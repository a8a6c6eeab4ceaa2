//! Whether runs repeat themselves: each one is made twice, in two processes, by one or by two builds of the simulator.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::sweep::{child, in_parallel, ChildRun};

/// What to compare.
pub struct Audit {
    /// The simulator.
    pub binary: PathBuf,
    /// The simulator that makes the second run: the same one, or another build of the same sources.
    pub other: PathBuf,
    /// Scenarios, which take turns.
    pub scenarios: Vec<&'static str>,
    /// Numbers of runs; the run of a number has the next scenario, and the next seed after all scenarios.
    pub runs: Range<u64>,
    /// Pairs of runs at the same time.
    pub jobs: usize,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Runs that were made twice.
    pub compared: u64,
    /// Those that differed: scenario, seed and both lines.
    pub differed: Vec<String>,
    /// Those that broke a promise, in both processes alike.
    pub failed: Vec<String>,
    /// Simulated seconds, each run counted once.
    pub simulated_s: f64,
    /// Processor time of both runs of all, in milliseconds.
    pub cpu_ms: u64,
}

impl Summary {
    fn add(&mut self, first: &ChildRun, second: &ChildRun) {
        self.compared += 1;
        self.simulated_s += first.report.simulated_us as f64 / 1e6;
        self.cpu_ms += first.report.cpu_ms + second.report.cpu_ms;
        let name = format!("{} {}", first.scenario, first.seed);
        if first.line != second.line || first.report.marks != second.report.marks {
            self.differed.push(format!("{name}: {} | {}", first.line, second.line));
        } else if !first.passed {
            self.failed.push(format!("{name}: {}", first.line));
        }
    }

    /// True if every run repeated itself.
    pub fn is_good(&self) -> bool {
        self.differed.is_empty()
    }

    /// One line.
    pub fn text(&self) -> String {
        let (hours, cpu) = (self.simulated_s / 3_600.0, self.cpu_ms as f64 / 1e3);
        let (differed, failed) = (self.differed.len(), self.failed.len());
        format!(
            "{} runs made twice, {differed} differed, {failed} failed; {hours:.1} simulated hours, {cpu:.0} s of CPU",
            self.compared
        )
    }
}

impl Audit {
    /// Makes all runs; `tell` hears of the state after each.
    pub fn run(&self, tell: &(dyn Fn(&Summary) + Sync)) -> Summary {
        let summary = Mutex::new(Summary::default());
        let lock = || summary.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, scenarios) = (self.runs.end.saturating_sub(self.runs.start), self.scenarios.len() as u64);
        in_parallel(self.jobs, count as usize, &|index| {
            let number = self.runs.start + index as u64;
            let (scenario, seed) = (self.scenarios[(number % scenarios) as usize], number / scenarios);
            let runs = [&self.binary, &self.other].map(|binary| child(binary, scenario, seed, &Default::default()));
            let mut summary = lock();
            summary.add(&runs[0], &runs[1]);
            tell(&summary);
            true
        });
        summary.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Report;

    fn run(line: &str, mark: &str) -> ChildRun {
        let marks = [(mark.to_owned(), 1)].into();
        let report = Report { line: line.to_owned(), simulated_us: 1_800_000_000, marks, ..Report::default() };
        ChildRun { scenario: "s".to_owned(), seed: 1, passed: true, line: line.to_owned(), report }
    }

    #[test]
    fn lines_and_marks_are_compared() {
        let mut summary = Summary::default();
        summary.add(&run("ok 1", "a"), &run("ok 1", "a"));
        assert!(summary.is_good());
        summary.add(&run("ok 1", "a"), &run("ok 2", "a"));
        summary.add(&run("ok 1", "a"), &run("ok 1", "b"));
        assert_eq!((summary.compared, summary.differed.len()), (3, 2), "{}", summary.text());
    }
}
