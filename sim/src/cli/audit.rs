//! The command that compares runs with themselves.

use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;

use sim::audit;
use sim::scenarios;

use crate::{find, seeds};

/// The command's arguments.
#[derive(clap::Args)]
pub struct Audit {
    /// A scenario's name, or `all`.
    #[arg(default_value = "all")]
    scenario: String,
    /// Numbers of runs, the last one not included. With all scenarios they take turns.
    #[arg(long, default_value = "0..500", value_parser = seeds)]
    runs: Range<u64>,
    /// Another build of the simulator, which makes the second run of each pair.
    #[arg(long, value_name = "PROGRAM")]
    against: Option<PathBuf>,
    /// Pairs at the same time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

/// Runs between two lines of progress.
const TOLD_EVERY: u64 = 100;

impl Audit {
    /// Compares.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let scenarios = match self.scenario.as_str() {
            "all" => scenarios::ALL.iter().map(|scenario| scenario.name).collect(),
            name => vec![find(name)?.name],
        };
        let binary = std::env::current_exe()?;
        let other = self.against.unwrap_or_else(|| binary.clone());
        let audit = audit::Audit { binary, other, scenarios, runs: self.runs, jobs: self.jobs };
        let summary = audit.run(&|summary| {
            if summary.compared % TOLD_EVERY == 0 {
                eprintln!("{}", summary.text());
            }
        });
        for line in &summary.differed {
            println!("differs: {line}");
        }
        for line in &summary.failed {
            println!("fails: {line}");
        }
        println!("{}", summary.text());
        Ok(if summary.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
