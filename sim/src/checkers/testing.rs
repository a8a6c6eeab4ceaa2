//! Histories in words: `send 1, ack 1 q0:5, unknown 2, refused 3, later 4 30, at 30, back group 4, got group 1 q0:5, found 1 q0:5`;
//! times are seconds.

use std::time::Duration;

use super::Violation;
use crate::history::{Event, Place, Queue, Timed};

fn place(text: &str) -> Place {
    let (queue, offset) = text.strip_prefix('q').and_then(|rest| rest.split_once(':')).expect("a place is like q0:5");
    (Queue::new("broker", "topic", queue.parse().expect("a queue")), offset.parse().expect("an offset"))
}

fn parse(text: &str) -> Vec<Timed> {
    let (mut now, mut events) = (Duration::ZERO, Vec::new());
    for line in text.split(',').map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |index: usize| words[index].parse::<u64>().expect("a number");
        let event = match words[0] {
            "at" => {
                now = Duration::from_secs(number(1));
                continue;
            }
            "send" => Event::Sending(number(1)),
            "ack" => Event::Acknowledged(number(1), place(words[2])),
            "later" => Event::Scheduled(number(1), Duration::from_secs(number(2))),
            "refused" => Event::Refused(number(1)),
            "unknown" => Event::Unknown(number(1)),
            "got" => Event::Consumed(words[1].into(), number(2), place(words[3])),
            "back" => Event::HandedBack(words[1].into(), number(2)),
            "found" => Event::Found(number(1), place(words[2])),
            other => panic!("no event is called {other}"),
        };
        events.push((now, event));
    }
    events
}

/// A checker that does not look at times.
pub(super) fn untimed(check: impl Fn(&[Event]) -> Result<(), Violation>) -> impl Fn(&[Timed]) -> Result<(), Violation> {
    move |history| check(&history.iter().map(|(_, event)| event.clone()).collect::<Vec<_>>())
}

/// Asserts that each history is rejected.
pub(super) fn rejects(check: impl Fn(&[Timed]) -> Result<(), Violation>, histories: &[(&str, &str)]) {
    assert!(histories.len() >= 5, "a checker is tested with five bad histories at least");
    for (history, why) in histories {
        assert!(check(&parse(history)).is_err(), "accepted although {why}: {history}");
    }
}

/// Asserts that each history is accepted.
pub(super) fn accepts(check: impl Fn(&[Timed]) -> Result<(), Violation>, histories: &[(&str, &str)]) {
    assert!(histories.len() >= 5, "a checker is tested with five good histories at least");
    for (history, why) in histories {
        assert_eq!(check(&parse(history)), Ok(()), "rejected although {why}: {history}");
    }
}
