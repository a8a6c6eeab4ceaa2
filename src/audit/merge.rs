//! Histories of several processes as one.
//!
//! Assumed is that their clocks agree well enough that nothing is seen before it was done: on one machine always, between
//! machines if their clocks are closer to each other than a message is fast. What hangs on the order of moments that
//! nothing connects is asked of each process's own history only ([`Merged::of_each`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::file::{Consumer, Entry, Producer, Recorded};
use super::history::{Event, Message, Place, Timed};
use super::mark::{parts, FOREIGN};

/// A message's number in the merged history is its process's place in the list, counted from 1, times this, and its number
/// there: people can read it.
pub const PROCESS_STEP: u64 = 10_000_000_000;
/// Messages of others have numbers from here on.
pub const FOREIGN_FROM: u64 = 1_000_000 * PROCESS_STEP;

/// One of the processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its name.
    pub name: String,
    /// Events that it told.
    pub events: usize,
    /// Whether it ended in order and told everything.
    pub complete: bool,
    /// Its producers.
    pub producers: Vec<Producer>,
}

/// Several histories as one.
#[derive(Clone, Debug, Default)]
pub struct Merged {
    /// Everything that happened, in the order of time, counted from the first event; and the process that told it.
    events: Vec<(usize, Timed)>,
    /// The processes.
    pub processes: Vec<Process>,
    /// Everybody who consumed.
    pub consumers: Vec<Consumer>,
    /// Topics that were read from end to end.
    pub read: BTreeSet<Arc<str>>,
    /// Messages of others that were seen.
    pub foreign: usize,
    /// Messages whose sender was killed before it could tell of them.
    pub untold: usize,
}

/// Merges what several processes told.
pub fn merge(histories: &[Recorded]) -> Merged {
    let first_us = histories.iter().filter_map(first_event_us).min().unwrap_or(0);
    let number = histories.iter().enumerate().map(|(index, history)| (history.recorder, index)).collect();
    let mut names = Names { number, places: BTreeMap::new(), told: told(histories), untold: BTreeSet::new() };
    let mut merged = Merged::default();
    let mut raw: Vec<(usize, i64, Event)> = Vec::new();
    for (index, history) in histories.iter().enumerate() {
        let before = raw.len();
        let mut process =
            Process { name: history.name.clone(), events: 0, complete: is_complete(history), producers: Vec::new() };
        for entry in &history.entries {
            match entry {
                Entry::Event(at_us, event) => {
                    raw.push((index, history.zero_us.saturating_add_unsigned(*at_us), event.clone()));
                }
                Entry::Producer(producer) => process.producers.push(producer.clone()),
                Entry::Consumer(consumer) => merged.consumers.push(consumer.clone()),
                Entry::Read(_, topic) => drop(merged.read.insert(topic.clone())),
                Entry::Lost(_) | Entry::End => {}
            }
        }
        process.events = raw.len() - before;
        merged.processes.push(process);
    }
    let readings = last_readings(histories);
    raw.retain(|(index, at_us, event)| match event {
        Event::Found(_, (queue, _)) => readings.get(&queue.topic).is_none_or(|last| last.holds(*index, *at_us)),
        _ => true,
    });
    // Stable: what one process told stays in its order.
    raw.sort_by_key(|(_, at_us, _)| *at_us);
    for (index, at_us, mut event) in raw {
        let at = Duration::from_micros(u64::try_from(at_us - first_us).unwrap_or(0));
        match names.rename(&mut event) {
            Renamed::Known => {}
            Renamed::New(message, sender) => {
                merged.events.push((sender.unwrap_or(index), (at, Event::Sending(message))));
            }
            Renamed::Nameless => continue,
        }
        merged.events.push((index, (at, event)));
    }
    (merged.foreign, merged.untold) = (names.places.len(), names.untold.len());
    merged
}

/// The last time that somebody read a topic from end to end: what earlier ones found says nothing about the end.
struct Reading {
    process: usize,
    /// It began after this, in microseconds since 1970.
    after_us: i64,
    until_us: i64,
}

impl Reading {
    fn holds(&self, process: usize, at_us: i64) -> bool {
        process == self.process && at_us > self.after_us && at_us <= self.until_us
    }
}

fn last_readings(histories: &[Recorded]) -> BTreeMap<Arc<str>, Reading> {
    let mut last: BTreeMap<Arc<str>, Reading> = BTreeMap::new();
    for (process, history) in histories.iter().enumerate() {
        let mut before: BTreeMap<&Arc<str>, i64> = BTreeMap::new();
        for entry in &history.entries {
            let Entry::Read(at_us, topic) = entry else { continue };
            let until_us = history.zero_us.saturating_add_unsigned(*at_us);
            let after_us = before.insert(topic, until_us).unwrap_or(i64::MIN);
            if last.get(topic).is_none_or(|last| last.until_us < until_us) {
                last.insert(topic.clone(), Reading { process, after_us, until_us });
            }
        }
    }
    last
}

fn first_event_us(history: &Recorded) -> Option<i64> {
    history.entries.iter().find_map(|entry| match entry {
        Entry::Event(at_us, _) => Some(history.zero_us.saturating_add_unsigned(*at_us)),
        _ => None,
    })
}

fn is_complete(history: &Recorded) -> bool {
    let lost = history.entries.iter().any(|entry| matches!(entry, Entry::Lost(_)));
    !lost && history.entries.last() == Some(&Entry::End)
}

/// Of each history that is not complete, the messages that it tells of: others may be its own as well.
fn told(histories: &[Recorded]) -> BTreeMap<u32, BTreeSet<Message>> {
    let sent = |history: &Recorded| {
        let sent = history.entries.iter().filter_map(|entry| match entry {
            Entry::Event(_, Event::Sending(message)) => Some(*message),
            _ => None,
        });
        sent.collect()
    };
    let cut = histories.iter().filter(|history| !is_complete(history));
    cut.map(|history| (history.recorder, sent(history))).collect()
}

/// Numbers of messages as the merged history has them.
struct Names {
    number: BTreeMap<u32, usize>,
    /// Messages of others by their place.
    places: BTreeMap<Place, Message>,
    /// Of histories that are not complete: what they tell of.
    told: BTreeMap<u32, BTreeSet<Message>>,
    /// Messages that they do not tell of.
    untold: BTreeSet<Message>,
}

/// What became of an event.
enum Renamed {
    /// It is about no message, or about one that is known.
    Known,
    /// It is the first one about a message that nobody told of having sent; its sender, if it records.
    New(Message, Option<usize>),
    /// It is about a message of others and does not say where it lies.
    Nameless,
}

impl Names {
    fn rename(&mut self, event: &mut Event) -> Renamed {
        let place = event.place().cloned();
        let Some(message) = event.message_mut() else { return Renamed::Known };
        let (recorder, count) = parts(*message);
        let Some(index) = self.number.get(&recorder).filter(|_| *message != FOREIGN) else {
            let Some(place) = place else { return Renamed::Nameless };
            let next = FOREIGN_FROM + self.places.len() as u64;
            *message = *self.places.entry(place).or_insert(next);
            return if *message == next { Renamed::New(next, None) } else { Renamed::Known };
        };
        let renamed = (*index as u64 + 1) * PROCESS_STEP + u64::from(count);
        let untold = self.told.get(&recorder).is_some_and(|told| !told.contains(message));
        *message = renamed;
        if untold && self.untold.insert(renamed) {
            return Renamed::New(renamed, Some(*index));
        }
        Renamed::Known
    }
}

impl Merged {
    /// All events in the order of time.
    pub fn events(&self) -> Vec<Timed> {
        self.events.iter().map(|(_, event)| event.clone()).collect()
    }

    /// All events with the number of the process that told them.
    pub fn with_processes(&self) -> impl Iterator<Item = (usize, &Timed)> {
        self.events.iter().map(|(process, event)| (*process, event))
    }

    /// The events of each process by themselves.
    pub fn of_each(&self) -> Vec<Vec<Timed>> {
        let mut each = vec![Vec::new(); self.processes.len()];
        for (process, event) in &self.events {
            each[*process].push(event.clone());
        }
        each
    }

    /// The process that sent a message; `None` for one of others.
    pub fn sender(&self, message: Message) -> Option<&Process> {
        let index = usize::try_from(message / PROCESS_STEP).ok()?.checked_sub(1)?;
        self.processes.get(index)
    }
}

/// True for a message of somebody who does not record.
pub fn is_foreign(message: Message) -> bool {
    message >= FOREIGN_FROM
}

#[cfg(test)]
mod tests {
    use super::super::history::Queue;
    use super::super::mark::number;
    use super::*;

    fn recorded(recorder: u32, zero_us: i64, entries: Vec<Entry>) -> Recorded {
        Recorded { recorder, name: format!("process {recorder}"), zero_us, entries, cut_bytes: 0 }
    }

    fn got(message: Message, offset: u64) -> Event {
        Event::Consumed("g".into(), message, (Queue::new("b", "t", 0), offset))
    }

    fn events(merged: &Merged) -> Vec<(u64, Event)> {
        merged.events().into_iter().map(|(at, event)| (at.as_micros() as u64, event)).collect()
    }

    #[test]
    fn clocks_are_put_together_and_messages_get_readable_numbers() {
        let sender = recorded(77, 1_000, vec![Entry::Event(5, Event::Sending(number(77, 3))), Entry::End]);
        let receiver = recorded(78, 2_000, vec![Entry::Event(1, got(number(77, 3), 0)), Entry::End]);
        let merged = merge(&[receiver, sender]);
        let message = 2 * PROCESS_STEP + 3;
        assert_eq!(events(&merged), [(0, Event::Sending(message)), (996, got(message, 0))]);
        assert_eq!(merged.sender(message).unwrap().name, "process 77");
    }

    #[test]
    fn messages_of_others_are_known_by_their_place() {
        let seen = [got(FOREIGN, 4), got(FOREIGN, 4), got(number(99, 1), 5), Event::HandedBack("g".into(), FOREIGN)];
        let entries = seen.into_iter().map(|event| Entry::Event(1, event)).collect();
        let merged = merge(&[recorded(1, 0, entries)]);
        let (one, other) = (FOREIGN_FROM, FOREIGN_FROM + 1);
        let expected = [Event::Sending(one), got(one, 4), got(one, 4), Event::Sending(other), got(other, 5)]
            .map(|event| (0, event));
        assert_eq!((events(&merged), merged.foreign), (expected.to_vec(), 2));
        assert!(is_foreign(one) && !is_foreign(PROCESS_STEP));
    }

    #[test]
    fn the_last_reading_of_a_topic_counts() {
        let found =
            |at_us: u64, offset| Entry::Event(at_us, Event::Found(number(1, 0), (Queue::new("b", "t", 0), offset)));
        let read = |at_us| Entry::Read(at_us, "t".into());
        let one = recorded(1, 0, vec![found(1, 0), read(2), found(5, 1), found(6, 2), read(7), Entry::End]);
        let two = recorded(2, 0, vec![found(3, 3), read(4), Entry::End]);
        let offsets = |merged: Merged| -> Vec<u64> {
            merged.events().iter().filter_map(|(_, event)| event.place().map(|place| place.1)).collect()
        };
        assert_eq!(offsets(merge(&[one.clone(), two.clone()])), [1, 2]);
        assert_eq!(offsets(merge(std::slice::from_ref(&two))), [3]);
        let nothing_left = recorded(3, 0, vec![read(9), Entry::End]);
        assert_eq!(offsets(merge(&[one, two, nothing_left])), [0; 0]);
    }

    #[test]
    fn a_killed_sender_need_not_have_told_of_what_it_sent() {
        let sent = Entry::Event(0, Event::Sending(number(7, 0)));
        let receiver = recorded(8, 0, vec![Entry::Event(9, got(number(7, 1), 1)), Entry::End]);
        let killed = merge(&[recorded(7, 0, vec![sent.clone()]), receiver.clone()]);
        assert_eq!((killed.untold, killed.processes[0].complete), (1, false));
        assert!(events(&killed).contains(&(9, Event::Sending(PROCESS_STEP + 1))));
        let ended = merge(&[recorded(7, 0, vec![sent, Entry::End]), receiver]);
        assert_eq!((ended.untold, ended.processes[0].complete), (0, true));
        assert_eq!(events(&ended).len(), 2, "nobody sent it, which a checker will say");
    }
}
