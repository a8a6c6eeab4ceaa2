//! What the simulator promises, each run in a process of its own.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use metaq::env::Canary;
use sim::canaries;
use sim::files;
use sim::plan::Plan;
use sim::scenarios;
use sim::shrink::{shrink, Effort};
use sim::sweep::{child, child_of_plan, sweep, ChildRun};

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
    let hunts = canaries::hunt_all(binary(), "", JOBS, &|_| {});
    assert!(hunts.iter().all(|hunt| hunt.found), "{}", canaries::table(&hunts));
}

#[test]
fn a_cluster_keeps_its_promises() {
    for (scenario, seeds) in [
        ("calm", 6),
        ("broker_power_cut", 15),
        ("broker_kill", 8),
        ("heartbeat_time_out", 8),
        ("nameservers_disagree", 6),
        ("minority_lost", 6),
        ("delayed_messages", 8),
        ("handed_back", 8),
        ("clean_stop", 10),
        ("broker_async_power_cut", 10),
        ("slow_disk", 8),
        ("failed_sync", 10),
        ("full_disk", 10),
        ("swizzle", 8),
        ("swarm", 14),
        ("everything", 14),
        ("model", 8),
    ] {
        assert_passed(&runs(scenario, seeds));
    }
}

/// A planted bug that is found proves nothing unless the same story holds without it.
#[test]
fn replicas_timers_transactions_and_clients_keep_theirs() {
    for scenario in [
        "slave_metadata",
        "promotion",
        "replication",
        "replication_lagging",
        "replication_master_lost",
        "replication_master_lost_unsynced",
        "replication_expired",
        "replication_all_cut",
        "replication_slave_cut",
        "master_cut_unsynced",
        "superseded_master",
        "promotion_waiting",
        "promotion_retention",
        "clock_jumps",
        "bit_rot",
        "bit_rot_last",
        "disk_swap",
        "slave_reads",
        "slave_topics_again",
        "timers_calm",
        "timers_power_cut",
        "timers_async_power_cut",
        "timers_full_disk",
        "timers_retention",
        "transactions",
        "transactions_async",
        "transactions_cut",
        "transactions_group_gone",
        "filters",
        "requests",
        "many_topics",
        "client_rebalance_storm",
        "client_ordered",
        "fenced_owners",
        "ordered_promotion",
        "late_commits",
        "retried_sends",
        "retried_sends_promoted",
        "client_retries",
        "client_scheduled",
        "client_lock_lost",
        "client_stale_routes",
        "client_late_answers",
        "client_waiting",
        "promotion_clients",
        "registers",
        "derived_lost",
        "slave_disk_lost",
        "deleted_topic",
    ] {
        assert_passed(&runs(scenario, 3));
    }
}

#[test]
fn the_store_survives_crashes() {
    for scenario in ["store_power_cut", "store_kill", "store_async_power_cut"] {
        assert_passed(&runs(scenario, 60));
    }
}

/// Plans that once failed: those of planted bugs must go on failing, all others must pass.
#[test]
fn kept_plans_end_as_they_say() {
    let kept = files::kept_plans().expect("the directory can be read");
    assert!(!kept.is_empty(), "there are kept plans");
    for path in kept {
        let plan = files::read_plan(&path).expect("a kept plan can be read");
        let run = child_of_plan(binary(), &plan, None);
        assert_eq!(
            run.checker(),
            plan.violates.as_deref(),
            "cargo run -p sim -- replay {}: {}",
            path.display(),
            run.line
        );
    }
}

#[test]
fn a_plan_and_its_seed_are_the_same_run() {
    let seed = 3;
    // Every third: what they share makes plans.
    for scenario in scenarios::ALL.iter().step_by(3) {
        let (run, replayed) = (
            child(binary(), scenario.name, seed, &BTreeSet::new()),
            child_of_plan(binary(), &scenario.plan(seed), None),
        );
        assert_eq!(run.line, replayed.line, "{}", scenario.name);
    }
}

/// The events of a replay.
fn events(plan: &Plan) -> Vec<String> {
    let file = std::env::temp_dir().join(format!("sim-test-{}-{}.json", plan.scenario, std::process::id()));
    files::write(&file, &plan.text()).expect("a temporary file");
    let output = Command::new(binary()).arg("replay").arg(&file).output().expect("the simulator starts");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn without_its_last_fault_a_run_is_the_same_up_to_it() {
    let plan = scenarios::find("swizzle").expect("a scenario").plan(5);
    let mut shorter = plan.clone();
    let last = shorter.faults.pop().expect("a fault");
    let (with, without) = (events(&plan), events(&shorter));
    let differs = with.iter().zip(&without).position(|(a, b)| a != b).expect("the fault is missing");
    let text = serde_json::to_string(&last.fault).expect("a fault");
    assert!(with[differs].contains(&text), "the first difference is {} against {}", with[differs], without[differs]);
    assert!(differs > 100, "the runs have a long beginning in common: {differs}");
}

/// A name that was not synced is lost in the power cut: until then the run can end well, afterwards it cannot.
#[test]
fn a_failure_is_traced_to_the_moment_that_decided_it() {
    let plan = files::plans().join("broker_power_cut-2.json");
    let output = Command::new(binary()).arg("why").arg(plan).args(["--branches", "3"]).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let (_, decided) = text.split_once("it could not:").unwrap_or_else(|| panic!("{text}"));
    assert!(decided.lines().any(|line| line.contains("broker-0") && line.contains("power cut")), "{text}");
}

#[test]
fn a_failure_becomes_a_small_plan() {
    let canaries = BTreeSet::from([Canary::NoDirectorySync]);
    let fails = |seed: &u64| !child(binary(), "broker_power_cut", *seed, &canaries).passed;
    let seed = (0..50).find(fails).expect("a planted bug is found");
    let mut plan = scenarios::find("broker_power_cut").expect("a scenario").plan(seed);
    plan.canaries = canaries;
    let effort = Effort { binary: binary().to_owned(), jobs: JOBS, runs_max: 300, cpu_ms_max: 120_000, schedules: 2 };
    let small = shrink(&plan, &effort, &|_, _| {}).expect("this plan fails");
    assert!(small.plan.faults.len() <= 5 && small.plan.operations() <= 20, "{}", small.plan.text());
    assert_eq!(small.run.checker(), Some("acknowledged messages are kept"));
    let good = scenarios::find("calm").expect("a scenario").plan(2);
    assert!(shrink(&good, &effort, &|_, _| {}).is_none(), "a plan that passes cannot be shrunk");
}
