//! `sim sweep`

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::bail;
use metaq::env::Canary;
use sim::campaign::{seed_of, Campaign, Summary};
use sim::files;
use sim::report::{commit, failure};
use sim::scenarios;
use sim::sweep::{sweep, ChildRun};

use crate::{canary, find, seeds};

/// The command's arguments.
#[derive(clap::Args)]
pub struct Sweep {
    /// A scenario's name, or `all`.
    #[arg(default_value = "all")]
    scenario: String,
    /// How long, in minutes of real time. Seeds then come from the commit.
    #[arg(long, conflicts_with = "seeds")]
    minutes: Option<f64>,
    /// Seeds, the last one not included.
    #[arg(long, default_value = "0..100", value_parser = seeds)]
    seeds: Range<u64>,
    /// Runs at the same time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Prints the summary as JSON. Progress and failures go to standard error.
    #[arg(long, requires = "minutes")]
    json: bool,
    /// Switches a planted bug on.
    #[arg(long, value_parser = canary)]
    canary: Vec<Canary>,
}

impl Sweep {
    /// Sweeps.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let scenarios: Vec<&'static str> = match self.scenario.as_str() {
            "all" => scenarios::ALL.iter().map(|scenario| scenario.name).collect(),
            name => vec![find(name)?.name],
        };
        let canaries: BTreeSet<Canary> = self.canary.iter().copied().collect();
        let good = match self.minutes {
            Some(minutes) => self.for_minutes(minutes, with_swarms(scenarios), canaries)?,
            None => self.for_seeds(&scenarios, &canaries)?,
        };
        Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn for_seeds(&self, scenarios: &[&str], canaries: &BTreeSet<Canary>) -> anyhow::Result<bool> {
        if self.seeds.is_empty() {
            bail!("no seeds in {}..{}", self.seeds.start, self.seeds.end);
        }
        let binary = std::env::current_exe()?;
        let (passed, failed) = (AtomicU64::new(0), AtomicU64::new(0));
        sweep(&binary, scenarios, self.seeds.clone(), self.jobs, canaries, &|run| {
            if run.passed {
                passed.fetch_add(1, Ordering::Relaxed);
            } else {
                failed.fetch_add(1, Ordering::Relaxed);
                println!("{} {}: {}", run.scenario, run.seed, run.line);
                println!("    cargo run -p sim -- replay {} {}", run.scenario, run.seed);
            }
        });
        let (passed, failed) = (passed.into_inner(), failed.into_inner());
        println!("{passed} passed, {failed} failed");
        Ok(failed == 0)
    }

    fn for_minutes(
        &self,
        minutes: f64,
        scenarios: Vec<&'static str>,
        canaries: BTreeSet<Canary>,
    ) -> anyhow::Result<bool> {
        let binary = std::env::current_exe()?;
        let (first_seed, lasts) = (seed_of(&commit()), Duration::try_from_secs_f64(minutes * 60.0)?);
        let campaign = Campaign { binary, scenarios, first_seed, lasts, jobs: self.jobs, canaries };
        let known = Mutex::new(BTreeSet::new());
        let summary = campaign.run(&|run| self.report(run, &known), &progress);
        if std::io::stderr().is_terminal() {
            eprintln!();
        }
        if self.json {
            println!("{}", serde_json::to_string_pretty(&summary)?);
        } else {
            print!("{}", summary.text());
        }
        Ok(summary.is_good())
    }

    /// Tells of a failure, and keeps the plan of the first one that a checker found.
    fn report(&self, run: &ChildRun, known: &Mutex<BTreeSet<String>>) {
        let Ok(scenario) = find(&run.scenario) else { return };
        let mut plan = scenario.plan(run.seed);
        plan.canaries = self.canary.iter().copied().collect();
        eprintln!("\n{}", failure(&plan, &run.report, &format!("{} {}", run.scenario, run.seed)));
        let checker = run.checker().unwrap_or_default().to_owned();
        let is_new = known.lock().is_ok_and(|mut known| known.insert(checker));
        if is_new && plan.canaries.is_empty() {
            let path = files::plans().join(format!("{}-{}.json", run.scenario, run.seed));
            match files::write(&path, &plan.text()) {
                Ok(()) => eprintln!("  kept as {}; shrink it", path.display()),
                Err(error) => eprintln!("  the plan could not be kept: {error:#}"),
            }
        }
    }
}

/// Every other turn is one of those stories in which anything can happen: kinds of faults come together only there.
fn with_swarms(scenarios: Vec<&'static str>) -> Vec<&'static str> {
    if scenarios.len() < 2 {
        return scenarios;
    }
    scenarios.into_iter().zip(["swarm", "everything"].into_iter().cycle()).flat_map(|(one, any)| [one, any]).collect()
}

fn progress(summary: &Summary) {
    if std::io::stderr().is_terminal() {
        eprint!("\r{}   ", summary.progress());
        let _ = std::io::stderr().flush();
    } else if (summary.wall_s as u64).is_multiple_of(10) {
        eprintln!("{}", summary.progress());
    }
}
