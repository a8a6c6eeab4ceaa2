//! The simulator's command line.

use std::collections::BTreeSet;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{bail, Context};
use clap::{Parser, Subcommand};
use metaq::env::Canary;
use sim::canaries;
use sim::runner;
use sim::scenarios::{self, Scenario};
use sim::sweep::sweep;
use sim::world::Options;

/// Runs metaq in simulated clusters. A scenario and a seed always give the same run.
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
    /// Runs a scenario with a seed and prints one line.
    Run(Which),
    /// Runs a scenario with a seed and prints every event: time, machine, event, numbers.
    Replay(Which),
    /// Switches every planted bug on, one after the other, and says which seed found it and by which checker.
    Canaries,
    /// Runs a scenario, or all, with many seeds.
    Sweep {
        /// A scenario's name, or `all`.
        scenario: String,
        /// Seeds, the last one not included.
        #[arg(long, default_value = "0..100", value_parser = seeds)]
        seeds: Range<u64>,
        /// Runs at the same time.
        #[arg(long, default_value_t = 2)]
        jobs: usize,
        /// Switches a planted bug on.
        #[arg(long, value_parser = canary)]
        canary: Vec<Canary>,
    },
}

/// Hunts every planted bug and prints the table.
fn hunt_canaries() -> anyhow::Result<ExitCode> {
    let binary = std::env::current_exe()?;
    let mut all_found = true;
    println!("{:<24} {:<18} {:>5}  found by", "planted bug", "scenario", "seed");
    for planted in canaries::ALL {
        let name = format!("{:?}", planted.canary);
        match planted.hunt(&binary) {
            Some(run) if planted.is_named_by(&run) => {
                let checker = planted.checkers.iter().find(|checker| run.line.contains(*checker)).unwrap_or(&"");
                println!("{name:<24} {:<18} {:>5}  {checker}", planted.scenario, run.seed);
            }
            Some(run) => {
                all_found = false;
                println!("{name:<24} {:<18} {:>5}  another checker: {}", planted.scenario, run.seed, run.line);
            }
            None => {
                all_found = false;
                println!("{name:<24} {:<18}     -  nobody", planted.scenario);
            }
        }
    }
    Ok(if all_found { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[derive(clap::Args)]
struct Which {
    /// A scenario's name.
    scenario: String,
    /// The number that fixes the run.
    seed: u64,
    /// Switches a planted bug on.
    #[arg(long, value_parser = canary)]
    canary: Vec<Canary>,
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

fn main() -> anyhow::Result<ExitCode> {
    match Cli::parse().command {
        Action::List => {
            for scenario in scenarios::ALL {
                println!("{:<24} {}", scenario.name, scenario.story);
            }
            Ok(ExitCode::SUCCESS)
        }
        Action::Canaries => hunt_canaries(),
        Action::Run(which) => play(which, false),
        Action::Replay(which) => play(which, true),
        Action::Sweep { scenario, seeds, jobs, canary } => {
            let names: Vec<&str> = match scenario.as_str() {
                "all" => scenarios::ALL.iter().map(|scenario| scenario.name).collect(),
                name => vec![find(name)?.name],
            };
            if seeds.is_empty() {
                bail!("no seeds in {}..{}", seeds.start, seeds.end);
            }
            Ok(run_many(&names, seeds, jobs, &canary.into_iter().collect())?)
        }
    }
}

fn play(which: Which, print: bool) -> anyhow::Result<ExitCode> {
    let scenario = find(&which.scenario)?;
    let canaries = which.canary.into_iter().collect();
    let outcome = runner::run(scenario, Options { seed: which.seed, print, canaries });
    println!("{outcome}");
    Ok(if outcome.violation.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_many(names: &[&str], seeds: Range<u64>, jobs: usize, canaries: &BTreeSet<Canary>) -> anyhow::Result<ExitCode> {
    let binary = std::env::current_exe()?;
    let (passed, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    sweep(&binary, names, seeds, jobs, canaries, &|run| {
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
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
