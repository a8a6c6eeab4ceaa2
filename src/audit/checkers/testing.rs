//! Histories in words: `send 1, ack 1 q0:5, unknown 2, at 30, got group 1 q0:5, found 1 q0:5, lock client q0 60, healed`;
//! times are seconds. [`parse`] knows the words.

use std::time::Duration;

use super::Violation;
use crate::audit::history::{Event, Place, Queue, Timed};

fn place(text: &str) -> Place {
    let (queue, offset) = text.strip_prefix('q').and_then(|rest| rest.split_once(':')).expect("a place is like q0:5");
    (Queue::new("broker", "topic", queue.parse().expect("a queue")), offset.parse().expect("an offset"))
}

fn queue(text: &str) -> Queue {
    let id = text.strip_prefix('q').and_then(|id| id.parse().ok()).expect("a queue is like q0");
    Queue::new("broker", "topic", id)
}

/// The events of a history in words.
pub(in crate::audit) fn parse(text: &str) -> Vec<Timed> {
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
            "timed" => Event::TimedFor(number(1), Duration::from_secs(number(2))),
            "recalling" => Event::Recalling(number(1)),
            "recalled" => Event::Recalled(number(1)),
            "refused" => Event::Refused(number(1)),
            "unknown" => Event::Unknown(number(1)),
            "got" => Event::Consumed(words[1].into(), number(2), place(words[3])),
            "back" => Event::HandedBack(words[1].into(), number(2)),
            "found" => Event::Found(number(1), place(words[2])),
            "begin" => Event::Began(words[1].into(), place(words[2])),
            "damaged" => Event::Damaged(words[1].into(), queue(words[2]), "torn".to_owned()),
            "tried" => Event::Tried(words[1].into(), number(2), number(3) as u32),
            "handing" => Event::HandingBack(words[1].into(), number(2)),
            "gave" => Event::GivenUp(words[1].into(), number(2)),
            "dead" => Event::DeadLetter(words[1].into(), number(2)),
            "committing" => Event::Committing(words[1].into(), place(words[2])),
            "committed" => Event::Committed(words[1].into(), place(words[2])),
            "offset" => Event::Offset(words[1].into(), queue(words[2]), words[3].parse().ok()),
            "lock" => Event::Locked("g".into(), words[1].into(), queue(words[2]), Duration::from_secs(number(3))),
            "unlock" => Event::Unlocking("g".into(), words[1].into(), queue(words[2])),
            "joined" => Event::Joined("g".into(), words[1].into()),
            "left" => Event::Left("g".into(), words[1].into()),
            "members" => Event::Members("g".into(), words[1..].iter().map(|name| (*name).into()).collect()),
            "made" => Event::TopicMade(words[1].into()),
            "seen" => Event::TopicSeen(words[1].into(), true),
            "missing" => Event::TopicSeen(words[1].into(), false),
            "route" => Event::Route(words[1].into(), words[2..].iter().map(|name| (*name).into()).collect()),
            "up" => Event::Up(words[1].into()),
            "down" => Event::Down(words[1].into()),
            "range" => {
                let asked = words.get(4).map_or(now, |_| Duration::from_secs(number(4)));
                Event::Range(queue(words[1]), number(2), number(3), asked)
            }
            "prepared" => Event::Prepared(number(1)),
            "commit" => Event::Deciding(number(1), true),
            "rollback" => Event::Deciding(number(1), false),
            "committed!" => Event::Decided(number(1), true),
            "rolledback" => Event::Decided(number(1), false),
            "aside" => Event::KeptAside(number(1)),
            "write" => Event::Writing(number(1), words[2].into(), words[3].parse().ok()),
            "wrote" => Event::Wrote(number(1), true),
            "refused!" => Event::Wrote(number(1), false),
            "read" => Event::Reading(number(1), words[2].into()),
            "told" => Event::Read(number(1), words[2].parse().ok()),
            "healed" => Event::Healed,
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
