//! What the simulator promises, each run in a process of its own.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use sim::canaries;
use sim::scenarios;
use sim::sweep::{child, sweep, ChildRun};

const JOBS: usize = 2;

fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_sim"))
}

/// Runs a scenario with the seeds `0..count`; the runs in order of their seeds.
fn runs(scenario: &str, count: u64) -> Vec<ChildRun> {
    let runs = Mutex::new(Vec::new());
    sweep(binary(), &[scenario], 0..count, JOBS, &BTreeSet::new(), &|run| {
        runs.lock().expect("no report panics").push(run.clone());
    });
    let mut runs = runs.into_inner().expect("no report panics");
    runs.sort_by_key(|run| run.seed);
    runs
}

fn assert_passed(runs: &[ChildRun]) {
    let failed: Vec<_> = runs.iter().filter(|run| !run.passed).collect();
    assert!(failed.is_empty(), "cargo run -p sim -- replay <scenario> <seed>: {failed:#?}");
}

#[test]
fn every_seed_replays() {
    for (scenario, seeds) in [("ping", 20), ("store_power_cut", 20), ("broker_power_cut", 10)] {
        let (first, second) = (runs(scenario, seeds), runs(scenario, seeds));
        assert_passed(&first);
        for (a, b) in first.iter().zip(&second) {
            assert_eq!(a.line, b.line, "seed {} of {scenario} ran differently in two processes", a.seed);
        }
        let different: BTreeSet<_> = first.iter().map(|run| &run.line).collect();
        assert_eq!(different.len(), first.len(), "every seed of {scenario} is a run of its own");
    }
}

#[test]
fn an_unknown_scenario_is_refused() {
    let run = child(binary(), "no such story", 1, &BTreeSet::new());
    assert!(!run.passed, "{run:?}");
    assert!(scenarios::find("no such story").is_none());
}

#[test]
fn planted_bugs_are_found() {
    for planted in canaries::ALL {
        let run = planted.hunt(binary()).unwrap_or_else(|| panic!("nobody found {planted:?}"));
        assert!(planted.is_named_by(&run), "{planted:?} was reported by another checker: {run:?}");
    }
}

#[test]
fn a_cluster_keeps_its_promises() {
    for (scenario, seeds) in [
        ("calm", 12),
        ("broker_power_cut", 30),
        ("broker_kill", 20),
        ("heartbeat_time_out", 8),
        ("nameservers_disagree", 6),
        ("delayed_messages", 12),
        ("handed_back", 12),
        ("clean_stop", 10),
        ("broker_async_power_cut", 15),
        ("slow_disk", 20),
        ("failed_sync", 30),
        ("full_disk", 15),
        ("deleted_topic", 30),
    ] {
        assert_passed(&runs(scenario, seeds));
    }
}

#[test]
fn the_store_survives_crashes() {
    for scenario in ["store_power_cut", "store_kill", "store_async_power_cut"] {
        assert_passed(&runs(scenario, 60));
    }
}
