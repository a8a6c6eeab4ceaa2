//! Which checkers judge a merged history: those whose promise holds for what was recorded and configured.
//!
//! A checker that is not asked is named with the reason, so that a verdict claims nothing that nobody looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::checkers::{
    acknowledged_kept, all_delivered, delayed_on_time, follow, handed_back_again, messages_intact, nothing_read_early,
    nothing_skipped, offsets_committed, offsets_dense, sends_end, stored_in_order, stored_once, Violation,
};
use super::history::{Event, Queue, Timed};
use super::merge::{is_foreign, Merged};
use crate::proto::message::names::is_retry_topic;

/// Brokers save committed offsets every 5 s; a busy machine may take a little longer.
const SAVED_WITHIN: Duration = Duration::from_secs(7);
/// What a busy machine may add to a send's time-out.
const SLACK: Duration = Duration::from_secs(10);

/// What the histories do not say of themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Acknowledged messages may be gone: a machine lost its power under ASYNC_FLUSH.
    pub may_lose: bool,
    /// Groups may not have come to the end of their queues when these were read.
    pub unfinished: bool,
}

/// What came of one promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was kept.
    Held,
    /// It was broken.
    Broken(Violation),
    /// It could not be judged, or does not hold, for this reason.
    NotAsked(&'static str),
}

/// A promise and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// What was promised.
    pub promise: &'static str,
    /// What came of it.
    pub outcome: Outcome,
}

const NOT_READ: &str = "no topic was read to its end";
const LOSSES: &str = "acknowledged messages may be lost";
const COPIES: &str = "a message that comes again lies in two places";

/// Asks every checker whose promise holds.
pub fn judge(merged: &Merged, terms: Terms) -> Vec<Judged> {
    let case = Case::new(merged, terms);
    let mut judged = Vec::new();
    let mut ask = |promise, reasons: &[Option<&'static str>], check: &dyn Fn() -> Result<(), Violation>| {
        let outcome = match reasons.iter().flatten().next() {
            Some(reason) => Outcome::NotAsked(reason),
            None => check().map_or_else(Outcome::Broken, |()| Outcome::Held),
        };
        judged.push(Judged { promise, outcome });
    };
    let (events, read) = (&case.events, &case.read);
    let unread = merged.read.is_empty().then_some(NOT_READ);
    let loses = terms.may_lose.then_some(LOSSES);
    let again = case.comes_again.then_some(COPIES);
    let tries = case.tries_again.then_some("producers try again, so a message may be stored twice");
    let early = terms.unfinished.then_some("groups may not have come to the end");
    let has = |is: fn(&Event) -> bool| events.iter().any(is);
    let kept = (!has(|event| matches!(event, Event::HandedBack(..)))).then_some("nothing was handed back");
    let prompt = (!has(|event| matches!(event, Event::Scheduled(..)))).then_some("nothing was delayed");
    let watched = case.is_watched();
    let moved = merged.consumers.iter().any(|one| one.moved).then_some("a group was told to go on elsewhere");

    ask("consumers get whole messages that somebody sent", &[], &|| messages_intact(events));
    ask("acknowledged messages are kept, refused ones are not stored", &[unread, loses], &|| acknowledged_kept(read));
    ask("offsets are dense and unique", &[], &|| offsets_dense(if terms.may_lose { &case.found } else { events }));
    ask("messages are stored once", &[unread, again, tries], &|| stored_once(&case.found));
    ask("one simple broker explains it all", &[unread, loses, again, tries], &|| follow(read));
    ask("nothing is read that is not safe", &[unread, loses], &|| nothing_read_early(read));
    ask("a queue keeps the order of each process's sends", &[loses], &|| {
        merged.of_each().iter().try_for_each(|events| stored_in_order(&untimed(events)))
    });
    let groups = case.groups();
    let whole = groups.is_empty().then_some("no group wants all messages");
    ask("consumers get everything", &[unread, whole, early], &|| {
        groups.iter().try_for_each(|group| all_delivered(&case.due_to(group), &[group]))
    });
    let in_order = case.reads_in_order();
    let none = in_order.is_empty().then_some("no group reads in order and without a filter");
    ask("consumers skip nothing", &[none, loses], &|| nothing_skipped(&case.reading(&in_order)));
    ask("what was handed back comes again", &[unread, early, kept], &|| handed_back_again(&case.not_given_up()));
    ask("delayed messages are kept and not early", &[unread, loses, prompt], &|| delayed_on_time(&case.timed));
    let shared = case.shares_queues().then_some("members may take a queue over at an older offset");
    ask("offsets are what was committed", &[watched, moved, shared], &|| {
        offsets_committed(&case.commits(), SAVED_WITHIN)
    });
    ask("sends end in time", &[], &|| {
        // A process that was killed does not tell how its last sends ended.
        let mut complete = merged.of_each().into_iter().zip(&merged.processes).filter(|(_, process)| process.complete);
        complete.try_for_each(|(events, _)| {
            let own = events.into_iter().filter(|(_, event)| !event.message().is_some_and(is_foreign));
            sends_end(&own.collect::<Vec<_>>(), case.send_limit + SLACK)
        })
    });
    judged
}

/// True if a promise was broken.
pub fn is_broken(judged: &[Judged]) -> bool {
    judged.iter().any(|judged| matches!(judged.outcome, Outcome::Broken(_)))
}

/// A merged history in the forms that checkers want.
struct Case<'a> {
    merged: &'a Merged,
    timed: Vec<Timed>,
    events: Vec<Event>,
    /// All but what lies in topics that nobody read to the end.
    read: Vec<Event>,
    found: Vec<Event>,
    /// A message may lie in two of the queues that were read: it was delayed, or a retry topic was read too.
    comes_again: bool,
    /// Some producer tries again by itself.
    tries_again: bool,
    /// The longest time-out of a producer.
    send_limit: Duration,
    /// Where each group began in each queue, the first time.
    began: BTreeMap<(Arc<str>, Queue), First>,
}

/// A group's first look at a queue.
struct First {
    offset: u64,
    /// The group was never there before, and begins with the queue's first message.
    fresh: bool,
}

impl<'a> Case<'a> {
    fn new(merged: &'a Merged, terms: Terms) -> Case<'a> {
        let timed = merged.events();
        let events = untimed(&timed);
        let is_read = |event: &&Event| event.place().is_none_or(|(queue, _)| merged.read.contains(&queue.topic));
        let producers = || merged.processes.iter().flat_map(|process| &process.producers);
        let again = |event: &Event| match event {
            Event::Scheduled(..) => true,
            Event::Found(_, (queue, _)) => is_retry_topic(&queue.topic),
            _ => false,
        };
        Case {
            merged,
            read: events.iter().filter(is_read).cloned().collect(),
            found: events.iter().filter(|event| matches!(event, Event::Found(..))).cloned().collect(),
            comes_again: events.iter().any(again),
            tries_again: producers().any(|producer| producer.retries > 0),
            send_limit: producers()
                .map(|producer| Duration::from_micros(producer.timeout_us))
                .max()
                .unwrap_or_default(),
            began: if terms.may_lose { BTreeMap::new() } else { first_looks(merged, &events) },
            timed,
            events,
        }
    }

    /// Groups that want every message of their topics.
    fn groups(&self) -> BTreeSet<&'a str> {
        let consumers = self.merged.consumers.iter();
        let partial: BTreeSet<&str> = consumers.clone().filter(|one| one.filtered).map(|one| &*one.group).collect();
        consumers.map(|one| &*one.group).filter(|group| !partial.contains(group)).collect()
    }

    fn reads_in_order(&self) -> BTreeSet<&'a str> {
        let mut groups = self.groups();
        for consumer in self.merged.consumers.iter().filter(|consumer| !consumer.in_order) {
            groups.remove(&*consumer.group);
        }
        groups
    }

    /// What a group got, and what it should have got: what lies behind its first beginning, is a recorded message, and was
    /// not given up by it.
    fn due_to(&self, group: &str) -> Vec<Event> {
        let given_up: BTreeSet<u64> =
            self.given_up().filter(|(by, _)| *by == group).map(|(_, message)| message).collect();
        let due = |event: &&Event| match event {
            Event::Consumed(by, ..) => **by == *group,
            Event::Found(message, (queue, offset)) => {
                let first = self.began.get(&(group.into(), queue.clone()));
                let before = first.is_some_and(|first| !first.fresh && *offset < first.offset);
                !before && !is_foreign(*message) && !given_up.contains(message)
            }
            _ => false,
        };
        self.events.iter().filter(due).cloned().collect()
    }

    /// What groups read; the first beginning of one that had been there before says nothing about what it left out.
    fn reading(&self, groups: &BTreeSet<&str>) -> Vec<Event> {
        let mut seen: BTreeSet<(&Arc<str>, &Queue)> = BTreeSet::new();
        let mut events = Vec::new();
        for event in &self.events {
            let wanted = match event {
                Event::Consumed(group, ..) => groups.contains(&**group),
                Event::Began(group, (queue, offset)) => {
                    let first = seen.insert((group, queue));
                    let fresh = self.began.get(&(group.clone(), queue.clone())).is_some_and(|first| first.fresh);
                    groups.contains(&**group) && (!first || fresh || *offset == 0)
                }
                Event::Found(..) => true,
                _ => false,
            };
            if wanted {
                events.push(event.clone());
            }
        }
        events
    }

    /// Everything but acknowledgements of commits that a broker's death overtook: it had forgotten when they arrived.
    fn commits(&self) -> Vec<Timed> {
        let mut deaths: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
        let mut begun: BTreeMap<(&Arc<str>, &Queue, u64), usize> = BTreeMap::new();
        let mut kept = Vec::with_capacity(self.timed.len());
        for timed in &self.timed {
            match &timed.1 {
                Event::Down(broker) => *deaths.entry(broker).or_default() += 1,
                Event::Committing(group, (queue, offset)) => {
                    begun.insert((group, queue, *offset), deaths.get(&queue.broker).copied().unwrap_or(0));
                }
                Event::Committed(group, (queue, offset)) => {
                    let then = begun.get(&(group, queue, *offset)).copied().unwrap_or(0);
                    if then != deaths.get(&queue.broker).copied().unwrap_or(0) {
                        continue;
                    }
                }
                _ => {}
            }
            kept.push(timed.clone());
        }
        kept
    }

    fn given_up(&self) -> impl Iterator<Item = (&str, u64)> {
        self.events.iter().filter_map(|event| match event {
            Event::GivenUp(group, message) => Some((&**group, *message)),
            _ => None,
        })
    }

    fn not_given_up(&self) -> Vec<Event> {
        let given_up: BTreeSet<(&str, u64)> = self.given_up().collect();
        let handed = |event: &&Event| match event {
            Event::HandedBack(group, message) => !given_up.contains(&(&**group, *message)),
            _ => true,
        };
        self.events.iter().filter(handed).cloned().collect()
    }

    /// Whether some group has several members. One that takes a queue over begins with the offset that it was told, though
    /// the last owner's commit is still on its way, and moves the group back to where it is: messages come twice.
    fn shares_queues(&self) -> bool {
        let mut groups = BTreeSet::new();
        self.merged.consumers.iter().any(|consumer| !groups.insert(&consumer.group))
    }

    /// Whether somebody told when brokers came and went: what they may forget depends on it.
    fn is_watched(&self) -> Option<&'static str> {
        let watched = self.events.iter().any(|event| matches!(event, Event::Up(_)));
        (!watched).then_some("nobody watched the brokers come and go")
    }
}

fn untimed(events: &[Timed]) -> Vec<Event> {
    events.iter().map(|(_, event)| event.clone()).collect()
}

fn first_looks(merged: &Merged, events: &[Event]) -> BTreeMap<(Arc<str>, Queue), First> {
    let from_first: BTreeSet<&str> =
        merged.consumers.iter().filter(|consumer| consumer.from_first).map(|consumer| &*consumer.group).collect();
    let mut told: BTreeSet<(&Arc<str>, &Queue)> = BTreeSet::new();
    let mut looks = BTreeMap::new();
    for event in events {
        match event {
            Event::Offset(group, queue, Some(_)) => drop(told.insert((group, queue))),
            Event::Began(group, (queue, offset)) => {
                let fresh = from_first.contains(&**group) && !told.contains(&(group, queue));
                looks.entry((group.clone(), queue.clone())).or_insert(First { offset: *offset, fresh });
            }
            _ => {}
        }
    }
    looks
}

#[cfg(test)]
mod tests;
