//! When a violation became inevitable: the run is repeated up to some moment and goes another way from there, without
//! the faults that were still to come and with other latencies and another order of tasks.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use crate::plan::Plan;
use crate::runner::Outcome;
use crate::sweep::{child_of_plan, in_parallel};
use crate::trace::Noted;

/// How hard to try.
#[derive(Clone, Debug)]
pub struct Effort {
    /// The simulator.
    pub binary: PathBuf,
    /// Runs at the same time.
    pub jobs: usize,
    /// Ways to go on that are tried from each moment.
    pub branches: u64,
}

/// A moment and what became of the ways that leave from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Simulated time.
    pub at: Duration,
    /// How many of the branches failed, by the same checker.
    pub failed: u64,
}

/// The answer.
pub struct Answer {
    /// All moments that were tried, in the order of time.
    pub curve: Vec<Moment>,
    /// The last moment from which some branch still passes; `None` if the run was lost from the beginning.
    pub open: Option<Duration>,
    /// The first moment from which every branch fails; `None` if even the last moment leaves a way out.
    pub inevitable: Option<Duration>,
    /// What happened between the two.
    pub between: Vec<Noted>,
}

/// Finds out about a run of `plan` that failed with `outcome`.
pub fn why(plan: &Plan, outcome: &Outcome, effort: &Effort, progress: &dyn Fn(&Moment)) -> Option<Answer> {
    let checker = outcome.violation.as_ref()?.checker;
    let mut times: Vec<Duration> = outcome.recording.events.iter().map(|event| event.at).collect();
    times.retain(|at| *at >= outcome.began);
    times.dedup();
    let mut curve = Vec::new();
    let mut look = |at: Duration| {
        let failed = branches(plan, outcome.began, at, checker, effort);
        let moment = Moment { at, failed };
        progress(&moment);
        curve.push(moment);
        failed == effort.branches
    };
    // Bisection: `low` leaves a way out, `high` does not.
    let (mut low, mut high) = (0, times.len().checked_sub(1)?);
    let (lost_from_the_start, lost_at_the_end) = (look(times[low]), look(times[high]));
    if !lost_from_the_start && lost_at_the_end {
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if look(times[middle]) {
                high = middle;
            } else {
                low = middle;
            }
        }
    }
    curve.sort_by_key(|moment| moment.at);
    let (open, inevitable) = match (lost_from_the_start, lost_at_the_end) {
        (true, _) => (None, Some(times[0])),
        (false, false) => (times.last().copied(), None),
        (false, true) => (Some(times[low]), Some(times[high])),
    };
    // A branch leaves its moment before anything else happens in it: what decided came from the open moment on, and
    // before the lost one.
    let within = |event: &&Noted| open.is_some_and(|open| event.at >= open) && Some(event.at) < inevitable;
    let between = outcome.recording.events.iter().filter(within).take(20).cloned().collect();
    Some(Answer { curve, open, inevitable, between })
}

/// How many ways from this moment on fail.
fn branches(plan: &Plan, began: Duration, at: Duration, checker: &str, effort: &Effort) -> u64 {
    let mut plan = plan.clone();
    plan.faults.retain(|timed| began + Duration::from_micros(timed.at_us) <= at);
    plan.lasting.clear();
    let failed = Mutex::new(0);
    in_parallel(effort.jobs, effort.branches as usize, &|index| {
        let run = child_of_plan(&effort.binary, &plan, Some((at.as_micros() as u64, index as u64)));
        *failed.lock().expect("no run panics") += u64::from(run.checker() == Some(checker));
        true
    });
    failed.into_inner().expect("no run panics")
}
