//! The simulator's command line.

#[path = "cli/audit.rs"]
mod auditing;
#[path = "cli/explain.rs"]
mod explain;
#[path = "cli/sweep.rs"]
mod sweeping;

use std::io::Read;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{bail, Context};
use auditing::Audit;
use clap::{Parser, Subcommand};
use metaq::env::Canary;
use sim::canaries;
use sim::plan::Plan;
use sim::report::{failure, Report};
use sim::runner::{self, Watch};
use sim::scenarios::{self, Scenario};
use sim::shrink::Effort;
use sweeping::Sweep;

/// Runs metaq in simulated clusters. A plan, or a scenario and a seed, always gives the same run.
#[derive(Parser)]
#[command(name = "sim")]
struct Cli {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Names the scenarios.
    List,
    /// Prints the plan of a scenario and a seed: machines, settings, what clients do, what goes wrong.
    Plan(Which),
    /// Runs a plan and prints one line, or what a person needs to know about a failure.
    Run {
        #[command(flatten)]
        which: Which,
        /// Prints a report for programs.
        #[arg(long)]
        json: bool,
        /// Leaves the path: everything random after this time in microseconds comes from other streams of this number.
        #[arg(long, value_parser = branch, value_name = "AT:NUMBER")]
        branch: Option<(Duration, u64)>,
    },
    /// Runs a plan and prints every event: time, machine, event, numbers.
    Replay(Which),
    /// Makes a failing plan as small as possible and keeps it in sim/plans, where `cargo test -p sim` runs it.
    Shrink {
        #[command(flatten)]
        which: Which,
        /// Where to write the small plan, instead of sim/plans.
        #[arg(long)]
        out: Option<PathBuf>,
        /// Runs at the same time.
        #[arg(long, default_value_t = 2)]
        jobs: usize,
        /// Runs in all, about.
        #[arg(long, default_value_t = 2_000)]
        runs: usize,
        /// Seconds of processor time in all, about.
        #[arg(long, default_value_t = 60)]
        cpu: u64,
    },
    /// Writes a run as one page for a browser.
    Show {
        #[command(flatten)]
        which: Which,
        /// Where to write the page, instead of target/sim.
        #[arg(long)]
        out: Option<PathBuf>,
        /// Shows a run of the same plan that passes beside it, and where the two part.
        #[arg(long)]
        compare: bool,
    },
    /// Finds the moment from which a violation was inevitable, by going another way from many moments of the run.
    Why {
        #[command(flatten)]
        which: Which,
        /// Runs at the same time.
        #[arg(long, default_value_t = 2)]
        jobs: usize,
        /// Ways to go on that are tried from each moment.
        #[arg(long, default_value_t = 8)]
        branches: u64,
    },
    /// Switches every planted bug on, one after the other, and says which seed found it and by which checker.
    Canaries {
        /// Only those whose names contain this.
        #[arg(default_value = "")]
        only: String,
        /// Hunts at the same time.
        #[arg(long, default_value_t = 2)]
        jobs: usize,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
        /// Makes each plan that found a bug small too, and says how small.
        #[arg(long)]
        shrink: bool,
    },
    /// Runs a scenario, or all, with many seeds: for some minutes with seeds of the present commit, or a range of seeds.
    Sweep(Sweep),
    /// Makes runs twice, each in a process of its own, perhaps by another build, and compares all that they did.
    Audit(Audit),
    /// Names the kinds of faults and what each may cost.
    Faults,
}

/// A run: a scenario and a seed, or a plan.
#[derive(clap::Args)]
struct Which {
    /// A scenario's name, a plan file, or `-` for a plan on standard input.
    plan: String,
    /// The number that makes a plan of a scenario.
    seed: Option<u64>,
    /// Switches a planted bug on.
    #[arg(long, value_parser = canary)]
    canary: Vec<Canary>,
}

impl Which {
    fn plan(&self) -> anyhow::Result<Plan> {
        let mut plan = match (self.seed, self.plan.as_str()) {
            (Some(seed), name) => find(name)?.plan(seed),
            (None, "-") => {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text)?;
                Plan::parse(&text)?
            }
            (None, name) if scenarios::find(name).is_some() => bail!("`{name}` is a scenario and needs a seed"),
            (None, path) => sim::files::read_plan(path.as_ref())?,
        };
        plan.canaries.extend(&self.canary);
        Ok(plan)
    }

    /// As it stands on the command line.
    fn words(&self) -> String {
        self.seed.map_or(self.plan.clone(), |seed| format!("{} {seed}", self.plan))
    }
}

fn branch(text: &str) -> anyhow::Result<(Duration, u64)> {
    let (at, number) = text.split_once(':').context("a branch is written as 1500000:7")?;
    Ok((Duration::from_micros(at.parse()?), number.parse()?))
}

fn seeds(text: &str) -> anyhow::Result<Range<u64>> {
    let (from, to) = text.split_once("..").context("seeds are written as 0..100")?;
    Ok(from.parse()?..to.parse()?)
}

fn canary(text: &str) -> anyhow::Result<Canary> {
    serde_json::from_value(serde_json::Value::String(text.to_owned())).context("no planted bug has this name")
}

fn find(name: &str) -> anyhow::Result<&'static Scenario> {
    scenarios::find(name).with_context(|| format!("no scenario `{name}`; `sim list` names them"))
}

fn main() -> ExitCode {
    run(Cli::parse()).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(2)
    })
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Action::List => {
            for scenario in scenarios::ALL {
                println!("{:<24} {}", scenario.name, scenario.story);
            }
            Ok(ExitCode::SUCCESS)
        }
        Action::Plan(which) => {
            print!("{}", which.plan()?.text());
            Ok(ExitCode::SUCCESS)
        }
        Action::Canaries { only, jobs, json, shrink } => hunt_canaries(&only, jobs, json, shrink),
        Action::Run { which, json, branch } => play(&which, Watch { print: false, branch }, json),
        Action::Replay(which) => play(&which, Watch { print: true, branch: None }, false),
        Action::Shrink { which, out, jobs, runs, cpu } => {
            let (binary, cpu_ms_max) = (std::env::current_exe()?, cpu * 1_000);
            explain::shrink(&which.plan()?, out, Effort { binary, jobs, runs_max: runs, cpu_ms_max, schedules: 2 })
        }
        Action::Show { which, out, compare } => explain::show(&which.plan()?, &which.words(), out, compare),
        Action::Why { which, jobs, branches } => explain::why(&which.plan()?, jobs, branches),
        Action::Sweep(sweep) => sweep.run(),
        Action::Audit(audit) => audit.run(),
        Action::Faults => {
            for kind in sim::faults::kinds() {
                println!("{:<24} {:?}", kind.name, kind.harm);
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn play(which: &Which, watch: Watch, json: bool) -> anyhow::Result<ExitCode> {
    let plan = which.plan()?;
    let outcome = runner::run(&plan, watch);
    let report = Report::of(&outcome);
    if json {
        println!("{}", serde_json::to_string(&report)?);
    } else if outcome.violation.is_none() {
        println!("{}", report.line);
    } else {
        print!("{}", failure(&plan, &report, &which.words()));
    }
    Ok(if outcome.violation.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Hunts planted bugs and prints the table.
fn hunt_canaries(only: &str, jobs: usize, json: bool, shrink: bool) -> anyhow::Result<ExitCode> {
    let (binary, small) = (std::env::current_exe()?, Mutex::new(Vec::new()));
    let hunts = canaries::hunt_all(&binary, only, jobs, &|hunt| {
        let state = if hunt.found { "found" } else { "NOT FOUND" };
        eprintln!("{state} {} in {} after {} seeds", hunt.canary, hunt.scenario, hunt.seeds);
        if let Some(made) = shrink.then(|| canaries::make_small(&binary, hunt)).flatten() {
            small.lock().unwrap_or_else(PoisonError::into_inner).push(made);
        }
    });
    let small = small.into_inner().unwrap_or_else(PoisonError::into_inner);
    match (json, shrink) {
        (true, true) => println!("{}", serde_json::to_string_pretty(&small)?),
        (true, false) => println!("{}", serde_json::to_string_pretty(&hunts)?),
        (false, _) => print!("{}", canaries::table(&hunts)),
    }
    if shrink && !json {
        print!("\n{}", canaries::table_of_small(&small));
    }
    Ok(if hunts.iter().all(|hunt| hunt.found) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
