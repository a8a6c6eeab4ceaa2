//! What a run tells those who did not watch it: a line for programs, a page of words for people.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::marks;
use crate::plan::Plan;
use crate::runner::Outcome;
use crate::trace::{Noted, Recording};

/// A run as its process reports it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// The line for people.
    pub line: String,
    /// Hash of all events, in hexadecimal digits.
    pub hash: String,
    /// Simulated time.
    pub simulated_us: u64,
    /// When the workload began.
    pub began_us: u64,
    /// The checker that found a broken promise.
    pub checker: Option<String>,
    /// What it found.
    pub finding: Option<String>,
    /// The events that matter for it, as lines.
    pub matters: Vec<String>,
    /// Marks that were reached and how often.
    pub marks: BTreeMap<String, u64>,
    /// Kinds of faults that were applied and how often.
    pub fired: BTreeMap<String, u64>,
    /// Kinds of faults that had an effect and how often.
    pub mattered: BTreeMap<String, u64>,
    /// Processor time of the process so far, in milliseconds.
    pub cpu_ms: u64,
}

impl Report {
    /// The report of a run that was made in this process.
    pub fn of(outcome: &Outcome) -> Report {
        let named = |map: BTreeMap<&'static str, u64>| map.into_iter().map(|(name, n)| (name.to_owned(), n)).collect();
        let violation = outcome.violation.as_ref();
        Report {
            line: outcome.to_string(),
            hash: format!("{:016x}", outcome.hash),
            simulated_us: outcome.simulated.as_micros() as u64,
            began_us: outcome.began.as_micros() as u64,
            checker: violation.map(|violation| violation.checker.to_owned()),
            finding: violation.map(|violation| violation.finding.clone()),
            matters: violation.map_or(Vec::new(), |violation| matters(&outcome.recording, &violation.finding)),
            marks: named(marks::reached()),
            fired: named(marks::all_fired()),
            mattered: named(marks::all_mattered()),
            cpu_ms: crate::files::cpu_ms(),
        }
    }
}

/// The commit of the sources, if they lie in a repository.
pub fn commit() -> String {
    let git = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).current_dir(sources()).output();
    match git {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}

/// Where the simulator's sources lie.
pub fn sources() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Everything a person needs about a failure: seed, commit, hash, the broken promise, what led to it, what to do next.
pub fn failure(plan: &Plan, report: &Report, which: &str) -> String {
    let mut text = String::new();
    let simulated = Duration::from_micros(report.simulated_us).as_secs_f64();
    let _ = writeln!(
        text,
        "FAIL {} seed {} commit {} hash {} after {simulated:.3} s simulated",
        plan.scenario,
        plan.seed,
        commit(),
        report.hash
    );
    let checker = report.checker.as_deref().unwrap_or("?");
    let _ = writeln!(text, "  broken: {checker}: {}", report.finding.as_deref().unwrap_or("?"));
    let _ = writeln!(text, "  what matters:");
    for line in &report.matters {
        let _ = writeln!(text, "  {line}");
    }
    let canaries: String = plan.canaries.iter().map(|canary| format!(" --canary {canary:?}")).collect();
    let canaries = if which.ends_with(".json") { String::new() } else { canaries };
    for (what, command) in [("replay", "replay"), ("shrink", "shrink"), ("why", "why"), ("look", "show")] {
        let _ = writeln!(text, "  {what:<7} cargo run -p sim -- {command} {which}{canaries}");
    }
    text
}

/// Events shown of a failure at most.
const MATTERS_MAX: usize = 10;
/// Things that happen to machines, as opposed to what programs do.
const TURNS: [&str; 5] = ["fault", "healing", "violated", "ended", "broker serves"];
/// What clients do with a message.
const LIFE: [&str; 8] =
    ["sending", "acknowledged", "scheduled", "refused", "unknown", "handed back", "consumed", "found"];

/// The handful of events that matter for a finding: the life of the messages it names, and the faults just before and
/// between them.
fn matters(recording: &Recording, finding: &str) -> Vec<String> {
    let events = &recording.events;
    let named = numbers(finding);
    let about = |event: &&Noted| LIFE.contains(&event.what) && event.numbers.first().is_some_and(|n| named.contains(n));
    let mut chosen: BTreeSet<usize> = BTreeSet::new();
    let lives: Vec<usize> = (0..events.len()).filter(|index| about(&&events[*index])).collect();
    chosen.extend(lives.iter().take(3));
    chosen.extend(lives.iter().rev().take(2));
    // Of the turns of fate those nearest to that life, or else the last ones.
    let until = events.len();
    let from = lives.first().copied().unwrap_or(until);
    let turns: Vec<usize> = (0..until).filter(|index| TURNS.contains(&events[*index].what)).collect();
    let (before, after): (Vec<usize>, Vec<usize>) = turns.into_iter().partition(|index| *index < from);
    chosen.extend(after.iter().rev().take(1));
    for index in after.into_iter().chain(before.into_iter().rev()) {
        if chosen.len() < MATTERS_MAX {
            chosen.insert(index);
        }
    }
    chosen.iter().map(|index| events[*index].line(&recording.names)).collect()
}

/// The numbers of messages in a text.
pub fn numbers(text: &str) -> BTreeSet<u64> {
    let words = text.split(|c: char| !c.is_ascii_digit());
    words.filter_map(|word| word.parse().ok()).filter(|number| *number >= 10_000).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::NodeId;

    fn noted(at: u64, what: &'static str, numbers: &[u64], words: &str) -> Noted {
        let at = Duration::from_millis(at);
        Noted { at, node: NodeId(1), what, numbers: numbers.into(), words: words.into() }
    }

    #[test]
    fn a_message_s_life_and_the_faults_around_it_matter() {
        let mut events = vec![noted(1, "fault", &[], "early"), noted(2, "sending", &[10_001], "")];
        events.extend((0..1_000).map(|number| noted(3, "net data", &[number], "")));
        events.push(noted(4, "acknowledged", &[10_001, 0], "broker-0/orders/1"));
        events.push(noted(5, "fault", &[], "late"));
        events.push(noted(6, "sending", &[10_002], ""));
        events.push(noted(7, "violated", &[], "10001 was acknowledged and is lost"));
        let recording = Recording { names: vec!["world".into(), "broker-0".into()], events };
        let lines = matters(&recording, "10001 was acknowledged at 0 of broker-0/orders/1 and is lost").join("\n");
        for needed in ["sending", "acknowledged", "early", "late", "violated"] {
            assert!(lines.contains(needed), "{needed} is missing in\n{lines}");
        }
        assert!(!lines.contains("net data") && !lines.contains("10002"), "{lines}");
    }

    #[test]
    fn many_events_become_a_handful() {
        let events = (0..5_000).map(|index| noted(index, "fault", &[], "x")).collect();
        let lines = matters(&Recording { names: Vec::new(), events }, "time limit: no end");
        assert_eq!(lines.len(), MATTERS_MAX);
    }
}
