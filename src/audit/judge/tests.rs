use super::super::checkers::testing::parse;
use super::super::file::{Consumer, Entry, Producer, Recorded};
use super::super::mark::number;
use super::super::merge::merge;
use super::*;

const SENDER: u32 = 7;

/// A whole history of one process: what it is, then its events in words.
fn history(about: &[Entry], words: &str) -> Merged {
    let events = parse(words).into_iter().map(|(at, mut event)| {
        if let Some(message) = event.message_mut() {
            *message = number(SENDER, *message as u32);
        }
        Entry::Event(at.as_micros() as u64, event)
    });
    let entries = about.iter().cloned().chain(events).chain([Entry::End]).collect();
    merge(&[Recorded { recorder: SENDER, name: "test".into(), zero_us: 0, entries, cut_bytes: 0 }])
}

fn read() -> Entry {
    Entry::Read(1 << 40, "topic".into())
}

fn group(in_order: bool) -> Entry {
    Entry::Consumer(Consumer { group: "g".into(), in_order, filtered: false, moved: false, from_first: true })
}

/// Promises that were broken.
fn broken(merged: &Merged, terms: Terms) -> Vec<&'static str> {
    let broken = |judged: Judged| match judged.outcome {
        Outcome::Broken(violation) => Some(violation.checker),
        _ => None,
    };
    judge(merged, terms).into_iter().filter_map(broken).collect()
}

fn reason(merged: &Merged, terms: Terms, promise: &str) -> Option<&'static str> {
    judge(merged, terms).into_iter().find(|judged| judged.promise.starts_with(promise)).and_then(|judged| match judged
        .outcome
    {
        Outcome::NotAsked(reason) => Some(reason),
        _ => None,
    })
}

#[test]
fn a_lost_message_is_found_once_the_topic_was_read() {
    let words = "send 1, ack 1 q0:0, send 2, ack 2 q0:1, found 1 q0:0";
    assert_eq!(broken(&history(&[], words), Terms::default()), [""; 0]);
    let told = broken(&history(&[read()], words), Terms::default());
    assert_eq!(told, ["acknowledged messages are kept", "one simple broker explains the history"]);
    let may_lose = Terms { may_lose: true, ..Terms::default() };
    assert_eq!(broken(&history(&[read()], words), may_lose), [""; 0]);
    // All of a topic that was read is gone.
    assert_eq!(broken(&history(&[read()], "send 1, ack 1 q0:0"), Terms::default())[0], told[0]);
}

#[test]
fn a_group_has_to_get_everything_unless_it_is_not_done_or_does_not_want_it() {
    let words = "send 1, ack 1 q0:0, send 2, ack 2 q0:1, begin g q0:0, got g 1 q0:0, found 1 q0:0, found 2 q0:1";
    let everything = ["consumers get everything"];
    assert_eq!(broken(&history(&[read(), group(true)], words), Terms::default()), everything);
    let unfinished = Terms { unfinished: true, ..Terms::default() };
    assert_eq!(broken(&history(&[read(), group(true)], words), unfinished), [""; 0]);
    let tags = Consumer { group: "g".into(), in_order: true, filtered: true, moved: false, from_first: true };
    assert_eq!(broken(&history(&[read(), Entry::Consumer(tags)], words), Terms::default()), [""; 0]);
    // The group had been there before.
    let words = "send 1, ack 1 q0:0, send 2, ack 2 q0:1, offset g q0 1, begin g q0:1, got g 2 q0:1, found 1 q0:0, \
                 found 2 q0:1";
    assert_eq!(broken(&history(&[read(), group(true)], words), Terms::default()), [""; 0]);
    // It gave one up.
    let words = "send 1, ack 1 q0:0, begin g q0:0, handing g 1, gave g 1, found 1 q0:0";
    assert_eq!(broken(&history(&[read(), group(false)], words), Terms::default()), [""; 0]);
}

#[test]
fn only_groups_that_read_in_order_skip_nothing() {
    let words = "send 1, send 2, send 3, begin g q0:0, got g 3 q0:2, got g 1 q0:0, got g 2 q0:1";
    assert_eq!(broken(&history(&[group(false)], words), Terms::default()), [""; 0]);
    assert_eq!(broken(&history(&[group(true)], words), Terms::default()), ["consumers skip nothing"]);
    // The first beginning: of a group that never was there, and of one that was.
    let words = "send 1, send 2, send 3, begin g q0:2, got g 3 q0:2, found 1 q0:0, found 2 q0:1, found 3 q0:2";
    let told = broken(&history(&[group(true), read()], words), Terms::default());
    assert_eq!(told, ["consumers get everything", "consumers skip nothing"]);
    let words = format!("offset g q0 2, {words}");
    assert_eq!(broken(&history(&[group(true), read()], &words), Terms::default()), [""; 0]);
}

#[test]
fn what_was_not_asked_says_why() {
    let producer = Entry::Producer(Producer { retries: 2, timeout_us: 3_000_000 });
    let merged = history(&[producer, read()], "send 1, ack 1 q0:0, found 1 q0:0, found 1 q1:0");
    assert_eq!(broken(&merged, Terms::default()), [""; 0]);
    let reason = |promise| reason(&merged, Terms::default(), promise);
    assert!(reason("messages are stored once").is_some_and(|reason| reason.contains("try again")));
    assert!(reason("consumers get everything").is_some_and(|reason| reason.contains("no group")));
    assert!(reason("offsets are what was committed").is_some_and(|reason| reason.contains("watched")));
    assert!(reason("delayed messages").is_some_and(|reason| reason.contains("nothing was delayed")));
    assert_eq!(reason("acknowledged messages"), None);
}

#[test]
fn whoever_does_not_tell_of_its_sends_is_not_asked_how_they_ended() {
    let sends = |name: &str, recorder| {
        let entries = vec![Entry::Event(0, Event::Sending(number(recorder, 0)))];
        Recorded { recorder, name: name.into(), zero_us: 0, entries, cut_bytes: 0 }
    };
    let got = |message, offset| Event::Consumed("g".into(), message, (Queue::new("b", "t", 0), offset));
    let seen = [got(number(7, 1), 1), got(0, 2)].map(|event| Entry::Event(5, event));
    let late = Entry::Event(60_000_000, Event::Healed);
    let entries = seen.into_iter().chain([late, Entry::End]).collect();
    let taker = Recorded { recorder: 9, name: "taker".into(), zero_us: 0, entries, cut_bytes: 0 };
    let merged = merge(&[sends("killed", 7), taker.clone()]);
    assert_eq!((broken(&merged, Terms::default()), merged.untold, merged.foreign), (vec![], 1, 1));
    // One that told everything has to tell that too.
    let mut ended = sends("ended", 8);
    ended.entries.extend([Entry::Event(60_000_000, Event::Healed), Entry::End]);
    assert_eq!(broken(&merge(&[ended, taker]), Terms::default()), ["sends end"]);
}

#[test]
fn a_commit_that_a_broker_s_death_overtook_is_not_counted_on() {
    let words = "up broker, committing g q0:5, down broker, at 9, committed g q0:5, up broker, at 20, offset g q0 -";
    assert_eq!(broken(&history(&[], words), Terms::default()), [""; 0]);
    let words = "up broker, committing g q0:5, committed g q0:5, at 9, down broker, up broker, at 20, offset g q0 -";
    assert_eq!(broken(&history(&[], words), Terms::default()), ["offsets are what was committed"]);
}

#[test]
fn each_promise_can_be_broken() {
    let end = "found 1 q0:0, found 2 q0:1";
    for (about, words, checker) in [
        (vec![], "got g 1 q0:0".to_owned(), "consumers get whole messages"),
        (vec![], "send 1, send 2, got g 1 q0:0, got g 2 q0:0".to_owned(), "offsets are dense and unique"),
        (vec![read()], "send 1, found 1 q0:0, found 1 q1:0".to_owned(), "messages are stored once"),
        (vec![read()], format!("send 1, send 2, got g 2 q0:2, {end}"), "nothing is read above the confirmed position"),
        (vec![], "send 1, ack 1 q0:1, send 2, ack 2 q0:0".to_owned(), "a queue keeps the order of its sends"),
        (vec![read()], format!("send 1, send 2, {end}, handing g 1, back g 1"), "handed back messages come again"),
        (
            vec![read()],
            "send 1, later 1 5, got g 1 q0:0, found 1 q0:0".to_owned(),
            "delayed messages are kept and on time",
        ),
        (
            vec![],
            "up b, committing g q0:5, committed g q0:5, offset g q0 3".to_owned(),
            "offsets are what was committed",
        ),
        (vec![], "send 1, at 60, ack 1 q0:0".to_owned(), "sends end"),
    ] {
        let told = broken(&history(&about, &words), Terms::default());
        assert!(told.contains(&checker), "{checker} is missing in {told:?} for: {words}");
    }
}
