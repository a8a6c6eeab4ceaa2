//! Messages that are handed back come as often as the group allows, then lie among the dead letters.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Violation;
use crate::audit::history::Event;

const NAME: &str = "failed messages end as dead letters";

#[derive(Default)]
struct Fate {
    given_up: bool,
    attempts: usize,
    dead: usize,
    tried: u32,
}

/// Every message that was handed back for the last time lies among its group's dead letters; none lies there more often
/// than it was handed back, or without having been tried `times` times; none comes with more than `times` tries.
pub fn dead_letters(history: &[Event], times: u32) -> Result<(), Violation> {
    let mut fates: BTreeMap<(&Arc<str>, u64), Fate> = BTreeMap::new();
    for event in history {
        match event {
            Event::Tried(group, message, tried) => {
                let fate = fates.entry((group, *message)).or_default();
                fate.tried = fate.tried.max(*tried);
            }
            Event::HandingBack(group, message) => fates.entry((group, *message)).or_default().attempts += 1,
            Event::GivenUp(group, message) => fates.entry((group, *message)).or_default().given_up = true,
            Event::DeadLetter(group, message) => fates.entry((group, *message)).or_default().dead += 1,
            _ => {}
        }
    }
    for ((group, message), Fate { given_up, attempts, dead, tried }) in fates {
        let wrong = if given_up && dead == 0 {
            "was handed back for the last time and is lost".to_owned()
        } else if dead > attempts {
            format!("was handed back {attempts} times and lies {dead} times among the dead letters")
        } else if dead > 0 && tried < times {
            format!("is a dead letter after {tried} of {times} tries")
        } else if tried > times {
            format!("came with {tried} tries, {times} are allowed")
        } else {
            continue;
        };
        return Err(Violation::new(NAME, format!("{message} of {group} {wrong}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, rejects, untimed};
    use super::*;

    fn check(history: &[Event]) -> Result<(), Violation> {
        dead_letters(history, 2)
    }

    #[test]
    fn rejects_wrong_fates() {
        rejects(
            untimed(check),
            &[
                ("tried g 1 2, handing g 1, gave g 1", "lost at the end"),
                ("tried g 1 2, handing g 1, gave g 1, dead g 1, dead g 1", "two letters"),
                ("tried g 1 0, handing g 1, dead g 1", "too early"),
                ("tried g 1 1, tried g 1 2, tried g 1 3", "once too often"),
                ("tried g 1 2, dead g 1", "never handed back"),
                (
                    "tried g 1 2, handing g 1, gave g 1, tried h 1 2, handing h 1, gave h 1, dead h 1",
                    "one of two groups",
                ),
            ],
        );
    }

    #[test]
    fn accepts_right_fates() {
        accepts(
            untimed(check),
            &[
                ("", "nothing happened"),
                ("tried g 1 0, got g 1 q0:0", "consumed at once"),
                (
                    "tried g 1 0, handing g 1, back g 1, tried g 1 1, handing g 1, back g 1, tried g 1 2",
                    "consumed at last",
                ),
                ("tried g 1 2, handing g 1, gave g 1, dead g 1", "a dead letter"),
                ("tried g 1 2, handing g 1, handing g 1, gave g 1, dead g 1, dead g 1", "handed back twice"),
                ("tried g 1 2, handing g 1, dead g 1", "nobody was told"),
                ("tried g 1 2, handing g 1", "the request was lost"),
            ],
        );
    }
}
