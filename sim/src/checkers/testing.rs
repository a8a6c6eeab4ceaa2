//! Histories in words: `send 1, ack 1 q0:5, unknown 2, refused 3, got group 1 q0:5, found 1 q0:5`.

use super::Violation;
use crate::history::{Event, Place, Queue};

fn place(text: &str) -> Place {
    let (queue, offset) = text.strip_prefix('q').and_then(|rest| rest.split_once(':')).expect("a place is like q0:5");
    (Queue::new("broker", "topic", queue.parse().expect("a queue")), offset.parse().expect("an offset"))
}

fn parse(text: &str) -> Vec<Event> {
    let event = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |index: usize| words[index].parse().expect("a message is a number");
        match words[0] {
            "send" => Event::Sending(number(1)),
            "ack" => Event::Acknowledged(number(1), place(words[2])),
            "refused" => Event::Refused(number(1)),
            "unknown" => Event::Unknown(number(1)),
            "got" => Event::Consumed(words[1].into(), number(2), place(words[3])),
            "found" => Event::Found(number(1), place(words[2])),
            other => panic!("no event is called {other}"),
        }
    };
    text.split(',').map(str::trim).filter(|line| !line.is_empty()).map(event).collect()
}

/// Asserts that each history is rejected.
pub(super) fn rejects(check: impl Fn(&[Event]) -> Result<(), Violation>, histories: &[(&str, &str)]) {
    assert!(histories.len() >= 5, "a checker is tested with five bad histories at least");
    for (history, why) in histories {
        assert!(check(&parse(history)).is_err(), "accepted although {why}: {history}");
    }
}

/// Asserts that each history is accepted.
pub(super) fn accepts(check: impl Fn(&[Event]) -> Result<(), Violation>, histories: &[(&str, &str)]) {
    assert!(histories.len() >= 5, "a checker is tested with five good histories at least");
    for (history, why) in histories {
        assert_eq!(check(&parse(history)), Ok(()), "rejected although {why}: {history}");
    }
}
