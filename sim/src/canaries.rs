//! Planted bugs, the scenarios that must find them, and the checkers that must name them.
//!
//! Two of them prove the simulator rather than a checker: the pipeline canary is a run that fails by design and must be
//! reported as failed, the determinism canary lets a run draw real entropy, which a second run must show.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use metaq::env::Canary;
use serde::Serialize;

use crate::scenarios;
use crate::shrink::{shrink, Effort, Shrunk};
use crate::sweep::{child, in_parallel, ChildRun};

/// Seeds within which a planted bug has to be found.
pub const SEEDS_MAX: u64 = 50;

/// One planted bug.
#[derive(Clone, Copy, Debug)]
pub struct Planted {
    /// The switch.
    pub canary: Canary,
    /// The scenario that finds it.
    pub scenario: &'static str,
    /// The checkers that may report it.
    pub checkers: &'static [&'static str],
}

const KEPT: &str = "acknowledged messages are kept";
const EARLY: &str = "nothing is read above the confirmed position";
const DELIVERED: &str = "consumers get everything";
const HOLDER: &str = "a lock has one holder";
const OFFSETS: &str = "offsets are what was committed";
const LETTERS: &str = "failed messages end as dead letters";
const ON_TIME: &str = "delayed messages are kept and on time";
const WHOLE: &str = "reads give what was written";
const DENSE: &str = "offsets are dense and unique";
const AGREE: &str = "queues and log agree";
const AGAIN: &str = "handed back messages come again";
const FREED: &str = "a freed disk takes messages again";
const AS_DECIDED: &str = "a transaction takes effect exactly as first decided";
const MATCHES: &str = "a filtered group gets exactly what matches";
const STAYS: &str = "a route stays while its broker registers";

const SKIPPED: &str = "consumers skip nothing";
const SHOWN: &str = "slaves show what their master shows";
const COPIED: &str = "slaves get their master's log";

const fn row(canary: Canary, scenario: &'static str, checkers: &'static [&'static str]) -> Planted {
    Planted { canary, scenario, checkers }
}

const COMMITTED: &str = "only what is consumed is committed";
const CONSUMED: &str = "a group consumes everything";

/// All planted bugs. One that two scenarios must find has two rows.
pub const ALL: &[Planted] = &[
    row(Canary::AcknowledgeBeforeSync, "store_power_cut", &[KEPT]),
    row(Canary::AcknowledgeBeforeSync, "broker_power_cut", &[KEPT]),
    row(Canary::NoDirectorySync, "store_power_cut", &[KEPT, "the store opens"]),
    row(Canary::NoDirectorySync, "broker_power_cut", &[KEPT, "a broker starts"]),
    row(Canary::TrustFileLength, "store_power_cut", &[KEPT]),
    row(Canary::TrustFileLength, "broker_power_cut", &[KEPT, DENSE, "consumers get whole messages"]),
    row(Canary::IgnoreSyncError, "failed_sync_power_cut", &[KEPT, EARLY, DENSE]),
    row(Canary::NeverSynced, "broker_async_power_cut", &["what is old enough to be synced is kept"]),
    row(Canary::SkipChecksums, "store_torn", &[WHOLE, KEPT]),
    // Damage, promotion, and what slaves keep.
    row(Canary::TornPropertiesKept, "store_torn", &[WHOLE]),
    row(Canary::CutOffMasterLocks, "ordered_promotion", &[HOLDER, "a queue has one owner"]),
    row(Canary::OldMasterNotTold, "superseded_master", &[KEPT]),
    row(Canary::SlaveDeletesFirst, "promotion_retention", &["timed messages are kept"]),
    row(Canary::PromotedForgetsHalves, "promotion_waiting", &[AS_DECIDED]),
    row(Canary::DamageSkipped, "bit_rot", &[KEPT, DELIVERED, SKIPPED, COPIED, "consumers get whole messages"]),
    row(Canary::SlaveStopsAtDamage, "bit_rot_last", &[COPIED]),
    row(Canary::LostMasterGoesOn, "disk_swap", &[KEPT, EARLY, DENSE, DELIVERED, COPIED]),
    row(Canary::SlaveDeletesByItsOwnEnd, "slave_topics_again", &[SHOWN]),
    row(Canary::KeptOffsetsForgotten, "slave_reads", &["what is committed at a slave stays"]),
    row(Canary::TimerTooEarly, "clock_jumps", &["timed messages are not early by their broker's clock"]),
    row(Canary::TimerForgetsCopies, "promotion_waiting", &["timed messages come once"]),
    // The product's own assertions may see it first.
    row(Canary::QueuesAheadOfLog, "store_stalled", &[AGREE, WHOLE, KEPT, DENSE, "panic"]),
    row(Canary::ShowUnsynced, "stalled_power_cut", &[EARLY, DENSE]),
    row(Canary::AcknowledgeOnTimeOut, "stalled_power_cut", &[KEPT, DENSE]),
    row(Canary::RewriteBatch, "store_power_cut", &["messages are stored once", KEPT]),
    row(Canary::DeleteYoungFiles, "members", &[KEPT]),
    row(Canary::FullForEver, "freed_disk", &[FREED]),
    row(Canary::LostWakeUp, "long_poll", &["who waits is told"]),
    row(Canary::LateCommitCounts, "members", &[OFFSETS]),
    // Filters.
    row(Canary::UnmatchedSkipsAhead, "filters", &[MATCHES]),
    row(Canary::WokenUnfiltered, "filters", &[MATCHES]),
    row(Canary::ReplyGoesBack, "requests", &["requests are answered"]),
    row(Canary::OffsetsNotSaved, "members", &[OFFSETS]),
    row(Canary::PullsForCommits, "registers", &["registers are linearizable"]),
    row(Canary::OffsetsAboveEnd, "broker_async_power_cut", &[DELIVERED]),
    row(Canary::NewGroupAtEnd, "members", &["consumers skip nothing", DELIVERED]),
    row(Canary::TopicNotSaved, "members", &["topics are kept"]),
    row(Canary::TopicChangesForgotten, "many_topics", &["topics are kept"]),
    row(Canary::LateGoodbye, "late_goodbyes", &[STAYS]),
    row(Canary::OldConnectionCounts, "late_goodbyes", &[STAYS]),
    row(Canary::LivingBrokerExpires, "heartbeat_time_out", &[STAYS, "routes become true"]),
    row(Canary::HandBackErrorIgnored, "handed_back_failing", &[AGAIN]),
    row(Canary::RetryForEver, "dead_letters", &[LETTERS, AGAIN]),
    row(Canary::NoDeadLetter, "dead_letters", &[LETTERS]),
    row(Canary::DelayedTooEarly, "delayed_messages", &[ON_TIME]),
    row(Canary::DelayForgotten, "delayed_messages", &[ON_TIME]),
    row(Canary::TimerTooEarly, "timers_calm", &["timed messages are not early"]),
    row(Canary::TimerForgetsRecalls, "timers_calm", &["what is taken back does not come"]),
    row(Canary::TimerForgetsCopies, "timers_power_cut", &["timed messages come once"]),
    row(Canary::TimerGivesUp, "timers_full_disk", &["timed messages are kept"]),
    row(Canary::RetentionTakesTimers, "timers_retention", &["timed messages are kept"]),
    row(Canary::LockNotExclusive, "locks", &[HOLDER]),
    row(Canary::LockNotRenewed, "locks", &[HOLDER]),
    row(Canary::LockForEver, "locks", &["locks come free"]),
    row(Canary::AnybodyUnlocks, "locks", &[HOLDER]),
    row(Canary::LockEndsWithConnection, "locks", &[HOLDER]),
    // Order.
    row(Canary::LocksNotSaved, "locks", &[HOLDER]),
    row(Canary::LocksNotSaved, "client_ordered", &["a queue has one owner"]),
    row(Canary::PromotedLocksAtOnce, "ordered_promotion", &["a queue has one owner", HOLDER]),
    row(Canary::DuplicatesForgotten, "retried_sends", &["messages are stored once"]),
    row(Canary::ResetsForgotten, "late_commits", &["a reset is not undone"]),
    row(Canary::FencingOff, "fenced_owners", &[OFFSETS]),
    row(Canary::StaleOffsetsPushed, "promotion", &["no offset goes back at a slave", OFFSETS]),
    row(Canary::SlaveMissesChanges, "slave_metadata", &["slaves have their master's tables"]),
    row(Canary::DeadMemberStays, "members", &["members are who is there"]),
    row(Canary::ReviveDeletedTopics, "deleted_topic", &["what was deleted does not come back"]),
    row(Canary::ReviveDeletedTopics, "model", &["answers are those of the reference model"]),
    row(Canary::SlaveOffsetTrusted, "replication_master_lost", &[KEPT, EARLY, DENSE]),
    row(Canary::AbsentSlaveCounts, "replication_master_lost", &[KEPT, EARLY, DENSE]),
    row(Canary::AcknowledgeBeforeSlaves, "replication_master_lost", &[KEPT, EARLY, DENSE]),
    row(Canary::ShowUnreplicated, "replication_master_lost", &[EARLY, DENSE]),
    row(Canary::SlaveReportsUnsynced, "replication_master_lost", &[KEPT, EARLY, DENSE]),
    row(Canary::NoNewEpoch, "replication", &[COPIED, KEPT, DENSE]),
    row(Canary::CommitAfterRollback, "transactions", &[AS_DECIDED]),
    row(Canary::CommitAgain, "transactions", &[AS_DECIDED]),
    row(Canary::HalvesApart, "transactions", &[AS_DECIDED]),
    row(Canary::NoGivenUpTopic, "transactions", &[AS_DECIDED]),
    row(Canary::UnaskedCounts, "transactions_group_gone", &[AS_DECIDED]),
    row(Canary::FailOnPurpose, "calm", &["the pipeline canary"]),
    row(Canary::RealEntropy, "calm", &[REPLAY]),
    row(Canary::ClientCommitsPulled, "client_rebalance_storm", &[COMMITTED, CONSUMED]),
    row(
        Canary::ClientOutlivesLock,
        "client_lock_lost",
        &["no call outlives its lock", "a dropped call comes again, and not as a failure"],
    ),
    row(Canary::ClientOutlivesLock, "client_ordered", &["a queue has one owner"]),
    row(Canary::ClientForgetsFailures, "client_retries", &[CONSUMED]),
    row(Canary::ClientCallsOneByOne, "client_waiting", &["who waits is told"]),
    row(Canary::StaleRouteKept, "promotion_clients", &["a healed cluster works"]),
];

/// What reports a run that differs from itself.
pub const REPLAY: &str = "a run repeats itself";

/// What became of the hunt for a planted bug.
#[derive(Clone, Debug, Serialize)]
pub struct Hunt {
    /// The planted bug.
    pub canary: String,
    /// The scenario.
    pub scenario: &'static str,
    /// Whether the right checker reported it.
    pub found: bool,
    /// How many seeds were run.
    pub seeds: u64,
    /// Processor time of all of them, in milliseconds.
    pub cpu_ms: u64,
    /// The checker that reported it, or what another one said.
    pub by: String,
}

impl Planted {
    /// Runs seed after seed with the bug on until one fails, [`SEEDS_MAX`] at most. `binary` is the simulator.
    pub fn hunt(&self, binary: &Path) -> Hunt {
        let on = BTreeSet::from([self.canary]);
        let mut hunt = Hunt {
            canary: format!("{:?}", self.canary),
            scenario: self.scenario,
            found: false,
            seeds: 0,
            cpu_ms: 0,
            by: "nobody".to_owned(),
        };
        for seed in 0..SEEDS_MAX {
            let run = child(binary, self.scenario, seed, &on);
            hunt.seeds += 1;
            hunt.cpu_ms += run.report.cpu_ms;
            let reported = if self.checkers == [REPLAY] {
                let again = child(binary, self.scenario, seed, &on);
                hunt.cpu_ms += again.report.cpu_ms;
                (again.line != run.line).then(|| REPLAY.to_owned())
            } else {
                reported(&run)
            };
            if let Some(by) = reported {
                hunt.found = self.checkers.contains(&by.as_str());
                hunt.by = if hunt.found { by } else { run.line };
                break;
            }
        }
        hunt
    }
}

fn reported(run: &ChildRun) -> Option<String> {
    (!run.passed).then(|| run.checker().unwrap_or("no checker").to_owned())
}

/// Hunts all planted bugs, or those whose names contain `only`, `jobs` at a time. `tell` hears of each as it ends; they
/// are returned in the order of [`ALL`].
pub fn hunt_all(binary: &Path, only: &str, jobs: usize, tell: &(dyn Fn(&Hunt) + Sync)) -> Vec<Hunt> {
    let wanted: Vec<&Planted> = ALL.iter().filter(|planted| format!("{:?}", planted.canary).contains(only)).collect();
    let hunts = Mutex::new(vec![None; wanted.len()]);
    in_parallel(jobs, wanted.len(), &|index| {
        let hunt = wanted[index].hunt(binary);
        tell(&hunt);
        hunts.lock().unwrap_or_else(std::sync::PoisonError::into_inner)[index] = Some(hunt);
        true
    });
    hunts.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).into_iter().flatten().collect()
}

/// What was made of the plan in which a planted bug was found.
#[derive(Clone, Debug, Serialize)]
pub struct Small {
    /// The planted bug.
    pub canary: String,
    /// The scenario.
    pub scenario: &'static str,
    /// Faults in the small plan, and in the one that the seed gave.
    pub faults: [usize; 2],
    /// Operations of clients that the plan holds, before and after as well.
    pub operations: [usize; 2],
    /// Runs it took.
    pub runs: usize,
    /// Processor time of them, in milliseconds.
    pub cpu_ms: u64,
}

/// Processor time for one plan, in milliseconds.
const SHRINK_CPU_MS: u64 = 60_000;

/// Makes the plan small in which `hunt` found its bug; `None` if it found nothing, or its plan does not fail by itself.
pub fn make_small(binary: &Path, hunt: &Hunt) -> Option<Small> {
    let planted = ALL.iter().find(|planted| {
        hunt.found && planted.scenario == hunt.scenario && format!("{:?}", planted.canary) == hunt.canary
    })?;
    let mut plan = scenarios::find(hunt.scenario)?.plan(hunt.seeds - 1);
    plan.canaries.insert(planted.canary);
    let (binary, runs_max, cpu_ms_max) = (binary.to_owned(), usize::MAX, SHRINK_CPU_MS);
    let effort = Effort { binary, jobs: 1, runs_max, cpu_ms_max, schedules: 2 };
    let Shrunk { plan: small, runs, cpu_ms, .. } = shrink(&plan, &effort, &|_, _| {})?;
    let faults = [&small, &plan].map(|plan| plan.faults.len() + plan.lasting.len());
    let operations = [small.operations(), plan.operations()];
    Some(Small { canary: hunt.canary.clone(), scenario: hunt.scenario, faults, operations, runs, cpu_ms })
}

/// The table of all small plans, with a line of medians below it.
pub fn table_of_small(all: &[Small]) -> String {
    let mut text = format!(
        "{:<24} {:<24} {:>9} {:>14} {:>6} {:>8}\n",
        "planted bug", "scenario", "faults", "operations", "runs", "cpu ms"
    );
    for Small { canary, scenario, faults, operations, runs, cpu_ms } in all {
        let faults = format!("{} of {}", faults[0], faults[1]);
        let operations = format!("{} of {}", operations[0], operations[1]);
        text += &format!("{canary:<24} {scenario:<24} {faults:>9} {operations:>14} {runs:>6} {cpu_ms:>8}\n");
    }
    let median = |numbers: &mut dyn Iterator<Item = u64>| {
        let mut numbers: Vec<u64> = numbers.collect();
        numbers.sort_unstable();
        numbers.get(numbers.len() / 2).copied().unwrap_or(0)
    };
    text + &format!(
        "{} plans; medians: {} faults, {} operations, {:.1} s of CPU\n",
        all.len(),
        median(&mut all.iter().map(|small| small.faults[0] as u64)),
        median(&mut all.iter().map(|small| small.operations[0] as u64)),
        median(&mut all.iter().map(|small| small.cpu_ms)) as f64 / 1e3
    )
}

/// The table of all hunts, with a line of sums below it.
pub fn table(hunts: &[Hunt]) -> String {
    let mut text = format!("{:<24} {:<24} {:>5} {:>8}  found by\n", "planted bug", "scenario", "seeds", "cpu ms");
    for Hunt { canary, scenario, found, seeds, cpu_ms, by } in hunts {
        let by = if *found { by.clone() } else { format!("NOT FOUND: {by}") };
        text += &format!("{canary:<24} {scenario:<24} {seeds:>5} {cpu_ms:>8}  {by}\n");
    }
    let mut seeds: Vec<u64> = hunts.iter().map(|hunt| hunt.seeds).collect();
    seeds.sort_unstable();
    let (found, cpu) =
        (hunts.iter().filter(|hunt| hunt.found).count(), hunts.iter().map(|hunt| hunt.cpu_ms).sum::<u64>());
    let (median, most) = (seeds.get(seeds.len() / 2).unwrap_or(&0), seeds.last().unwrap_or(&0));
    text + &format!(
        "{found} of {} found; seeds: median {median}, most {most}; {:.1} s of CPU\n",
        hunts.len(),
        cpu as f64 / 1e3
    )
}
