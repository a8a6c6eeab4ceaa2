//! What a plan's history must satisfy in the end.

use std::time::Duration;

use metaq::env::Canary;

use crate::checkers::{
    acknowledged_kept, all_delivered, delayed_on_time, follow, handed_back_again, messages_intact, nothing_read_early,
    nothing_skipped, offsets_dense, stored_in_order, stored_once, synced_kept, timed_kept, timed_on_time, Violation,
};
use crate::history::Event;
use crate::plan::{Client, Expect, Plan};
use crate::random::Stream;
use crate::scenarios::Verdict;
use crate::world::World;

/// Under ASYNC_FLUSH the log is synced every 2 s at most, and a disk may take a while for it.
const UNSYNCED_FOR: Duration = Duration::from_secs(6);

/// Runs every checker whose promise the configuration and the faults of the plan leave standing.
pub fn judge(plan: &Plan, world: &World, acknowledged: u64) -> Verdict {
    let timed = world.history().timed();
    let events: Vec<Event> = timed.iter().map(|(_, event)| event.clone()).collect();
    let groups: Vec<&str> = plan.clients.iter().filter_map(group).collect();
    if plan.canaries.contains(&Canary::FailOnPurpose) && Stream::new(plan.seed, "on purpose").chance(100) {
        return Err(Violation::new("the pipeline canary", "this run fails on purpose"));
    }
    messages_intact(&events)?;
    timed_kept(&timed, if plan.may_lose() { UNSYNCED_FOR } else { Duration::ZERO })?;
    if !plan.moves_clocks() {
        timed_on_time(&timed, None)?;
    }
    if plan.may_lose() {
        // What was not synced may be gone and its offsets be given out again; what is there must be whole.
        let found: Vec<Event> = events.iter().filter(|event| matches!(event, Event::Found(..))).cloned().collect();
        offsets_dense(&found)?;
        if !delays(&events) {
            stored_once(&as_sent(&found))?;
        }
        if plan.syncs_go_on() {
            synced_kept(&timed, UNSYNCED_FOR)?;
        }
        return all_delivered(&events, &groups);
    }
    if !plan.moves_clocks() {
        delayed_on_time(&timed)?;
    }
    acknowledged_kept(&events)?;
    offsets_dense(&events)?;
    handed_back_again(&events)?;
    if !delays(&events) {
        let sent = as_sent(&events);
        stored_once(&sent)?;
        follow(&sent)?;
    }
    nothing_read_early(&events)?;
    stored_in_order(&events)?;
    nothing_skipped(&events)?;
    all_delivered(&events, &groups)?;
    plan.expect.iter().try_for_each(|expect| expected(*expect, plan, world, &events, acknowledged))
}

fn group(client: &Client) -> Option<&str> {
    match client {
        Client::Consumer { group, .. } => Some(group),
        Client::Producer { .. } => None,
    }
}

/// Whether some message was delivered after a delay, which is repeated after a crash.
fn delays(events: &[Event]) -> bool {
    events.iter().any(|event| matches!(event, Event::Scheduled(..)))
}

/// What is said of messages where they were sent to. One that was handed back lies in its group's retry queue as well, also
/// if its consumer was told of an error: a failed sync says nothing about what it was to cover.
fn as_sent(events: &[Event]) -> Vec<Event> {
    let handed_back = |event: &&Event| event.place().is_some_and(|(queue, _)| queue.topic.starts_with("%RETRY%"));
    events.iter().filter(|event| !handed_back(event)).cloned().collect()
}

fn expected(expect: Expect, plan: &Plan, world: &World, events: &[Event], acknowledged: u64) -> Verdict {
    let sends = plan.operations() as u64;
    match expect {
        Expect::NoFailures if acknowledged < sends => {
            Err(Violation::new("a calm run has no failures", format!("{acknowledged} of {sends} acknowledged")))
        }
        Expect::NoDuplicates => {
            let mut seen = std::collections::BTreeSet::new();
            let twice = events.iter().find_map(|event| match event {
                Event::Consumed(group, message, _) if !seen.insert((group.clone(), *message)) => Some(*message),
                _ => None,
            });
            twice.map_or(Ok(()), |message| {
                Err(Violation::new("a calm run has no duplicates", format!("{message} was delivered twice")))
            })
        }
        Expect::TimedWithin(millis) => timed_on_time(&world.history().timed(), Some(Duration::from_millis(millis))),
        Expect::AcknowledgedPerMille(share) if acknowledged * 1_000 < sends * share => {
            Err(Violation::new("clients go on", format!("only {acknowledged} of {sends} sends were acknowledged")))
        }
        Expect::NoFailures | Expect::AcknowledgedPerMille(_) => Ok(()),
    }
}
