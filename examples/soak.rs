//! Plays plans of the simulator with real processes, for as long as is wanted:
//!
//! ```text
//! cargo build --workspace && cargo run --example soak -- --minutes 30
//! cargo run --example soak -- plan.json …
//! ```
//! Plans are those of the simulator's scenario `processes`, seed after seed; it prints a line for each. What a failed one
//! left (logs, stores, histories) stays, and the exit code is 1.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it is a test of real processes in the real world"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::Parser;

#[path = "../tests/real/mod.rs"]
mod real;

use real::plan::Plan;
use real::stage::play;

/// Play plans of the simulator with real processes
#[derive(Parser)]
struct Args {
    /// Plans; without one, plans of seeds
    plans: Vec<PathBuf>,
    /// How long to go on with further seeds
    #[arg(long, default_value_t = 5.0)]
    minutes: f64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The binary to test; else the one beside this one
    #[arg(long)]
    metaq: Option<PathBuf>,
    /// The simulator, which makes plans; else the one beside this one
    #[arg(long)]
    sim: Option<PathBuf>,
    /// Where runs are kept while they run, and when they fail
    #[arg(long, default_value = "soak")]
    folder: PathBuf,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let beside = |name: &str| {
        let own = std::env::current_exe().expect("the operating system knows it");
        own.parent().and_then(Path::parent).expect("it lies in target/…/examples").join(name)
    };
    let (metaq, sim) = (args.metaq.unwrap_or_else(|| beside("metaq")), args.sim.unwrap_or_else(|| beside("sim")));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("threads can be started");
    let end = Instant::now() + Duration::from_secs_f64(args.minutes * 60.0);
    let mut failed = 0;
    let mut check = |name: &str, text: &str| {
        let plan = Plan::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let folder = args.folder.join(name);
        std::fs::create_dir_all(&folder).expect("the folder can be made");
        let folder = std::path::absolute(folder).expect("there is a working directory");
        let began = Instant::now();
        let played = runtime.block_on(play(&metaq, &plan, &folder));
        let verdict = &played.verdict;
        let line = format!("{name}: {} messages, {:.1} s", verdict["messages"], began.elapsed().as_secs_f64());
        if played.is_good() {
            println!("ok   {line}");
            let _ = std::fs::remove_dir_all(&folder);
        } else {
            failed += 1;
            println!("FAIL {line}, see {}\n{}\n{verdict:#}", folder.display(), played.trouble.join("\n"));
        }
    };
    for path in &args.plans {
        let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        check(&name, &std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())));
    }
    let mut seed = args.seed;
    while args.plans.is_empty() && Instant::now() < end {
        let made = Command::new(&sim).args(["plan", "processes", &seed.to_string()]).output();
        let made =
            made.unwrap_or_else(|error| panic!("{}: {error}; `cargo build --workspace` makes it", sim.display()));
        check(&format!("seed-{seed}"), &String::from_utf8_lossy(&made.stdout));
        seed += 1;
    }
    ExitCode::from(u8::from(failed > 0))
}
