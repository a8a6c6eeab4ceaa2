//! What clients did and saw, in the order it happened.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::trace::Trace;
use crate::world::NodeId;

/// A message of a run. Every attempt to send is a message of its own, so that a retry is no duplicate.
pub type Message = u64;

/// A queue of a broker.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Queue {
    /// The broker's name.
    pub broker: Arc<str>,
    /// The topic.
    pub topic: Arc<str>,
    /// Its number in the topic.
    pub id: u32,
}

impl Queue {
    /// Queue `id` of `topic` at `broker`.
    pub fn new(broker: &str, topic: &str, id: u32) -> Queue {
        Queue { broker: broker.into(), topic: topic.into(), id }
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.broker, self.topic, self.id)
    }
}

/// Where a message lies.
pub type Place = (Queue, u64);

/// One thing that a client did or saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It began to send a message.
    Sending(Message),
    /// It was told that the message is stored, and where.
    Acknowledged(Message, Place),
    /// It was told that the message is stored and will be delivered after this time.
    Scheduled(Message, Duration),
    /// It was told that the message is not stored.
    Refused(Message),
    /// It was told nothing, or something that leaves it open.
    Unknown(Message),
    /// A consumer of the group got a message.
    Consumed(Arc<str>, Message, Place),
    /// A consumer of the group handed a message back, to get it again later, and was told that this is done.
    HandedBack(Arc<str>, Message),
    /// The message lay there when all faults had ended.
    Found(Message, Place),
}

/// An event and the simulated time of it.
pub type Timed = (Duration, Event);

/// The history of one run.
pub struct History {
    trace: Arc<Trace>,
    events: Mutex<Vec<Timed>>,
}

impl History {
    /// An empty history; what is added goes to `trace` too.
    pub fn new(trace: Arc<Trace>) -> History {
        History { trace, events: Mutex::default() }
    }

    /// Adds what `client` did or saw.
    pub fn add(&self, client: NodeId, event: Event) {
        match &event {
            Event::Sending(message) => self.trace.note(client, "sending", &[*message], ""),
            Event::Refused(message) => self.trace.note(client, "refused", &[*message], ""),
            Event::Scheduled(message, delay) => {
                self.trace.note(client, "scheduled", &[*message, delay.as_millis() as u64], "");
            }
            Event::Unknown(message) => self.trace.note(client, "unknown", &[*message], ""),
            Event::HandedBack(_, message) => self.trace.note(client, "handed back", &[*message], ""),
            Event::Acknowledged(message, place) => self.note_place(client, "acknowledged", *message, place),
            Event::Consumed(_, message, place) => self.note_place(client, "consumed", *message, place),
            Event::Found(message, place) => self.note_place(client, "found", *message, place),
        }
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push((self.trace.now(), event));
    }

    /// Everything so far.
    pub fn events(&self) -> Vec<Event> {
        self.timed().into_iter().map(|(_, event)| event).collect()
    }

    /// Everything so far with its times.
    pub fn timed(&self) -> Vec<Timed> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_place(&self, client: NodeId, what: &'static str, message: Message, (queue, offset): &Place) {
        self.trace.note(client, what, &[message, *offset], &queue.to_string());
    }
}
