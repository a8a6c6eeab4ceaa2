//! The handful of events that matter for a finding.

use std::collections::BTreeSet;

use super::checkers::Violation;
use super::history::{Event, Message};
use super::merge::{Merged, PROCESS_STEP};

/// Events shown of a violation at most.
const MATTERS_MAX: usize = 12;

/// The life of the messages that a finding names, and what befell brokers around it, as lines: time in seconds, process,
/// event.
pub fn matters(merged: &Merged, violation: &Violation) -> Vec<String> {
    let named = numbers(&violation.finding);
    let events: Vec<_> = merged.with_processes().collect();
    let about = |event: &Event| event.message().is_some_and(|message| named.contains(&message));
    let is_turn = |event: &Event| matches!(event, Event::Up(_) | Event::Down(_) | Event::Healed);
    let lives: Vec<usize> = (0..events.len()).filter(|at| about(&events[*at].1 .1)).collect();
    let mut chosen: BTreeSet<usize> = BTreeSet::new();
    chosen.extend(lives.iter().take(6));
    chosen.extend(lives.iter().rev().take(3));
    // Of the turns of fate those nearest to that life, or else the last ones.
    let from = lives.first().copied().unwrap_or(events.len());
    let turns = (0..events.len()).filter(|at| is_turn(&events[*at].1 .1));
    let (before, after): (Vec<usize>, Vec<usize>) = turns.partition(|at| *at < from);
    for at in after.into_iter().chain(before.into_iter().rev()) {
        if chosen.len() < MATTERS_MAX {
            chosen.insert(at);
        }
    }
    let line = |at: &usize| {
        let (process, (when, event)) = events[*at];
        format!("{:>12.6} {:<20} {event}", when.as_secs_f64(), merged.processes[process].name)
    };
    chosen.iter().map(line).collect()
}

/// The numbers of recorded messages in a text.
fn numbers(text: &str) -> BTreeSet<Message> {
    let words = text.split(|c: char| !c.is_ascii_digit());
    words.filter_map(|word| word.parse().ok()).filter(|number| *number >= PROCESS_STEP).collect()
}

#[cfg(test)]
mod tests {
    use super::super::file::{Entry, Recorded};
    use super::super::history::Queue;
    use super::super::mark::number;
    use super::super::merge::merge;
    use super::*;

    #[test]
    fn a_message_s_life_and_what_befell_brokers_matter() {
        let mut told = vec![Event::Up("b".into()), Event::Sending(number(7, 1)), Event::Sending(number(7, 2))];
        told.extend((3..1_000).map(|count| Event::Unknown(number(7, count))));
        told.push(Event::Down("b".into()));
        told.push(Event::Acknowledged(number(7, 1), (Queue::new("b", "t", 0), 5)));
        let entries = told.into_iter().zip(0..).map(|(event, at)| Entry::Event(at, event)).collect();
        let recorded = Recorded { recorder: 7, name: "orders".into(), zero_us: 0, entries, cut_bytes: 0 };
        let merged = merge(&[recorded]);
        let lines = matters(&merged, &Violation::new("x", "10000000001 was acknowledged at 5 of b/t/0 and is lost"));
        let text = lines.join("\n");
        for needed in ["sending", "acknowledged", "up ", "down"] {
            assert!(text.contains(needed), "{needed} is missing in\n{text}");
        }
        assert!(!text.contains("unknown") && !text.contains("10000000002") && lines.len() == 4, "{text}");
    }
}
