//! What clients did and saw, in the order it happened.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A message of a run. Every attempt to send is a message of its own, so that a retry is no duplicate.
pub type Message = u64;

/// A queue of a broker.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// It began to send a message.
    Sending(Message),
    /// It was told that the message is stored, and where.
    Acknowledged(Message, Place),
    /// It was told that the message is stored and will be delivered after this time.
    Scheduled(Message, Duration),
    /// It was told that the message is stored and will be delivered in the second after this time.
    TimedFor(Message, Duration),
    /// It begins to take back a message that waits for its time.
    Recalling(Message),
    /// It was told that the message is taken back.
    Recalled(Message),
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
    /// A consumer of the group begins to read there: it asked for the committed offset, or was sent elsewhere.
    Began(Arc<str>, Place),
    /// A consumer of the group got bytes that are no whole message, or the message of another queue.
    Damaged(Arc<str>, Queue, String),
    /// A consumer of the group got a message that says it was handed back so many times before.
    Tried(Arc<str>, Message, u32),
    /// A consumer of the group begins to hand a message back.
    HandingBack(Arc<str>, Message),
    /// As [`Event::HandedBack`], for the last time that the group allows.
    GivenUp(Arc<str>, Message),
    /// The message lay among the dead letters of the group when all faults had ended.
    DeadLetter(Arc<str>, Message),
    /// A member of the group begins to commit an offset.
    Committing(Arc<str>, Place),
    /// It was told that the offset is committed.
    Committed(Arc<str>, Place),
    /// Somebody asked for the group's offset and was told.
    Offset(Arc<str>, Queue, Option<u64>),
    /// A member of the group, the first name, was granted a queue; it trusts in that until this time.
    Locked(Arc<str>, Arc<str>, Queue, Duration),
    /// A member gives a queue back, and has stopped to work on it.
    Unlocking(Arc<str>, Arc<str>, Queue),
    /// A client became a member of the group: its heartbeat was answered.
    Joined(Arc<str>, Arc<str>),
    /// A client is no member any more: it died, or said goodbye.
    Left(Arc<str>, Arc<str>),
    /// Somebody asked for the group's members and was told.
    Members(Arc<str>, Vec<Arc<str>>),
    /// A tool was told that a topic is made.
    TopicMade(Arc<str>),
    /// Somebody asked whether a topic is there and was told.
    TopicSeen(Arc<str>, bool),
    /// A NameServer, the first name, was asked for a topic's brokers, and said these.
    Route(Arc<str>, Vec<Arc<str>>),
    /// A broker serves from now on.
    Up(Arc<str>),
    /// A broker's process has ended, whatever way.
    Down(Arc<str>),
    /// Somebody asked, at that time, for the first offset of a queue and the one behind the last, and was told.
    Range(Queue, u64, u64, Duration),
    /// All faults have ended.
    Healed,
    /// It was told that the half message is stored.
    Prepared(Message),
    /// It begins to tell the broker that a transaction is committed, or rolled back.
    Deciding(Message, bool),
    /// It was told that this is done.
    Decided(Message, bool),
    /// The message lay in the topic for transactions that were given up when all faults had ended.
    KeptAside(Message),
    /// A client begins the operation of this number: it gives a register, that is something small that many clients
    /// share, a value, or takes its value away.
    Writing(u64, Arc<str>, Option<u64>),
    /// It was told whether that is done.
    Wrote(u64, bool),
    /// A client begins the operation of this number: it asks for the value of a register.
    Reading(u64, Arc<str>),
    /// It was told.
    Read(u64, Option<u64>),
}

impl Event {
    /// The message that it is about.
    pub fn message(&self) -> Option<Message> {
        // Through the same list as the other way round, so that no variant is forgotten in one of them.
        self.clone().message_mut().copied()
    }

    /// The same, to give it another number.
    pub fn message_mut(&mut self) -> Option<&mut Message> {
        match self {
            Event::Sending(message)
            | Event::Acknowledged(message, _)
            | Event::Scheduled(message, _)
            | Event::Refused(message)
            | Event::Unknown(message)
            | Event::Consumed(_, message, _)
            | Event::HandedBack(_, message)
            | Event::Found(message, _)
            | Event::Tried(_, message, _)
            | Event::HandingBack(_, message)
            | Event::GivenUp(_, message)
            | Event::DeadLetter(_, message)
            | Event::Prepared(message)
            | Event::Deciding(message, _)
            | Event::Decided(message, _)
            | Event::KeptAside(message) => Some(message),
            _ => None,
        }
    }

    /// Where it says that its message lies.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Event::Acknowledged(_, place) | Event::Consumed(_, _, place) | Event::Found(_, place) => Some(place),
            _ => None,
        }
    }
}

/// As a line for people: what happened, to which message, where, to whom.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Sending(message) => write!(f, "sending        {message}"),
            Event::Acknowledged(message, (queue, at)) => write!(f, "acknowledged   {message} at {at} of {queue}"),
            Event::Scheduled(message, delay) => write!(f, "scheduled      {message} in {delay:?}"),
            Event::Refused(message) => write!(f, "refused        {message}"),
            Event::Unknown(message) => write!(f, "unknown        {message}"),
            Event::Consumed(group, message, (queue, at)) => {
                write!(f, "consumed       {message} at {at} of {queue} by {group}")
            }
            Event::HandingBack(group, message) => write!(f, "handing back   {message} by {group}"),
            Event::HandedBack(group, message) => write!(f, "handed back    {message} by {group}"),
            Event::Found(message, (queue, at)) => write!(f, "found          {message} at {at} of {queue}"),
            Event::Tried(group, message, times) => write!(f, "tried          {message} {times} times by {group}"),
            Event::GivenUp(group, message) => write!(f, "given up       {message} by {group}"),
            Event::DeadLetter(group, message) => write!(f, "dead letter    {message} of {group}"),
            Event::Began(group, (queue, at)) => write!(f, "begins         {group} at {at} of {queue}"),
            Event::Committing(group, (queue, at)) => write!(f, "committing     {group} at {at} of {queue}"),
            Event::Committed(group, (queue, at)) => write!(f, "committed      {group} at {at} of {queue}"),
            Event::Offset(group, queue, at) => write!(f, "told           {group} is at {at:?} of {queue}"),
            Event::Damaged(group, queue, what) => write!(f, "damaged        {what}, in {queue}, to {group}"),
            Event::Up(broker) => write!(f, "up             {broker}"),
            Event::Down(broker) => write!(f, "down           {broker}"),
            Event::Healed => write!(f, "healed"),
            other => write!(f, "{other:?}"),
        }
    }
}

/// An event and the time of it, from a start that all events of a history share.
pub type Timed = (Duration, Event);
