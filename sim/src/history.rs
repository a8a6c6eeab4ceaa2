//! Records what clients did and saw, in the order it happened.

use std::sync::{Arc, Mutex, PoisonError};

pub use metaq::audit::history::{Event, Message, Place, Queue, Timed};

use crate::trace::Trace;
use crate::world::NodeId;

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
            Event::Prepared(message) => self.trace.note(client, "prepared", &[*message], ""),
            Event::Deciding(message, commit) => {
                self.trace.note(client, "deciding", &[*message, u64::from(*commit)], "");
            }
            Event::Decided(message, commit) => {
                self.trace.note(client, "decided", &[*message, u64::from(*commit)], "");
            }
            Event::KeptAside(message) => self.trace.note(client, "kept aside", &[*message], ""),
            Event::HandedBack(_, message) => self.trace.note(client, "handed back", &[*message], ""),
            Event::Acknowledged(message, place) => self.note_place(client, "acknowledged", *message, place),
            Event::Consumed(_, message, place) => self.note_place(client, "consumed", *message, place),
            Event::Found(message, place) => self.note_place(client, "found", *message, place),
            other => self.trace.note(client, "history", &[], &format!("{other:?}")),
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
