//! What to store for a send, and how its property text changes.

use smallvec::{smallvec, SmallVec};

use crate::broker::timer::record::TIMER_QUEUE;
use crate::broker::timer::DueSecond;
use crate::proto::message::properties::{self, Edit};
use crate::proto::message::system;

use super::scan::{Found, TIMERS};
use super::SendRules;

/// What a consume-queue entry holds besides the position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryCode {
    /// The hash of the tag.
    Tag(i64),
    /// The time of delivery: store time and this many milliseconds.
    DeliverAfter(i64),
}

/// What to store for a send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendPlan<'a> {
    /// Where.
    pub target: Target<'a>,
    /// The queue that the answer names.
    pub reply_queue_id: i32,
    /// The sysFlag to store. The encoder sets its address bits.
    pub sys_flag: i32,
    /// For the consume queue.
    pub entry_code: EntryCode,
    /// Whether the answer waits for disk and replicas.
    pub wait_store: bool,
    /// The client's own UNIQ_KEY; if there is none the session makes one.
    pub unique_key: Option<&'a str>,
    /// KEYS as the client sent it.
    pub keys: Option<&'a str>,
    pub(super) delay: Option<Delay<'a>>,
    pub(super) half: Option<Half<'a>>,
    pub(super) dead_letter: bool,
    pub(super) drop_timers: bool,
    pub(super) drop_pop: bool,
    pub(super) stamped: bool,
}

/// The topic and queue a record is stored in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// As the request says.
    Asked {
        /// The topic.
        topic: &'a str,
        /// The queue.
        queue_id: i32,
    },
    /// The dead letters of a group: one queue, to be created if it is not there.
    DeadLetters {
        /// The topic.
        topic: String,
    },
    /// The delay topic, until it is due.
    Delayed {
        /// The level's queue.
        queue_id: i32,
    },
    /// The half topic, until its transaction is committed.
    Half,
    /// The timer topic, until its second begins.
    Timed {
        /// The second.
        due: DueSecond,
        /// It takes another message back.
        recalls: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Half<'a> {
    pub(super) real_topic: &'a str,
    pub(super) real_queue_id: String,
    /// A half message with a level would wait where no transaction finds it.
    pub(super) drop_level: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Delay<'a> {
    pub(super) real_topic: &'a str,
    pub(super) real_queue_id: String,
    pub(super) clamped_level: Option<String>,
    pub(super) out_ms: Option<String>,
}

impl Target<'_> {
    /// The topic and queue.
    pub fn place(&self) -> (&str, i32) {
        match self {
            Target::Asked { topic, queue_id } => (topic, *queue_id),
            Target::DeadLetters { topic } => (topic, 0),
            Target::Delayed { queue_id } => (system::SCHEDULE_TOPIC, *queue_id),
            Target::Half => (system::TRANS_HALF_TOPIC, 0),
            Target::Timed { .. } => (system::TIMER_TOPIC, TIMER_QUEUE as i32),
        }
    }
}

/// Changes that need no allocation: those of nearly all messages.
const EDITS_INLINE: usize = 4;
/// The most properties a batch's header may have for all its items. Clients send one to three.
pub(super) const SHARED_MAX: usize = 16;

impl<'a> SendPlan<'a> {
    /// Whether a send of the same key may be this one once more. Half messages are one transaction however many they are; a
    /// message with a time of its own is answered with what takes it back, which another attempt would not be told.
    pub fn can_repeat(&self) -> bool {
        self.unique_key.is_some() && matches!(self.target, Target::Asked { .. } | Target::Delayed { .. })
    }

    /// The changes to the message's property text, for the record encoder. `unique_key` is used if the client sent
    /// none.
    pub fn edits<'e>(&'e self, rules: &'e SendRules, unique_key: &'e str) -> Edits<'e> {
        let mut edits = Edits::stamps(rules, self.stamped);
        if self.unique_key.is_none() {
            edits.push(Edit::Set(properties::UNIQ_KEY, unique_key));
        }
        if self.drop_pop {
            edits.push(Edit::Remove(properties::POP_CHECK_POINT));
        }
        if self.dead_letter {
            edits.push(Edit::Set(properties::DELAY, "-1"));
        }
        if self.drop_timers {
            TIMERS.iter().for_each(|name| edits.push(Edit::Remove(name)));
        }
        if let Some(delay) = &self.delay {
            edits.push(Edit::Set(properties::REAL_TOPIC, delay.real_topic));
            edits.push(Edit::Set(properties::REAL_QUEUE_ID, &delay.real_queue_id));
            if let Some(out_ms) = &delay.out_ms {
                edits.push(Edit::Set(properties::TIMER_OUT_MS, out_ms));
            }
            if let Some(level) = &delay.clamped_level {
                edits.push(Edit::Set(properties::DELAY, level));
            }
        }
        if let Some(half) = &self.half {
            if half.drop_level {
                edits.push(Edit::Remove(properties::DELAY));
            }
            edits.push(Edit::Set(properties::TRANSACTION_ID, self.unique_key.unwrap_or(unique_key)));
            edits.push(Edit::Set(properties::REAL_TOPIC, half.real_topic));
            edits.push(Edit::Set(properties::REAL_QUEUE_ID, &half.real_queue_id));
        }
        edits
    }
}

/// What to store for a batch: all of it or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchPlan<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The queue of all items.
    pub queue_id: i32,
    /// The sysFlag to store with each item. The encoder sets its address bits.
    pub sys_flag: i32,
    /// Whether the answer waits for disk and replicas.
    pub wait_store: bool,
    /// The UNIQ_KEY of the batch as a whole, for the answer's transaction id.
    pub unique_key: Option<&'a str>,
    pub(super) shared: Vec<(&'a str, &'a str)>,
    /// What an item gets that holds none of it: stamps and shared properties, as text.
    pub(super) appended: String,
}

impl BatchPlan<'_> {
    /// One item. It gets the header's properties that
    /// it does not have itself. It keeps its own UNIQ_KEY, whatever the header says; `unique_key` makes one for an
    /// item without.
    /// A delay level in an item has no effect, as in RocketMQ.
    pub fn item<'e>(
        &'e self,
        rules: &'e SendRules,
        item_properties: &'e str,
        unique_key: impl FnOnce() -> &'e str,
    ) -> BatchItem<'e> {
        let found = Found::scan_for(&self.shared, item_properties);
        let mut edits = if found.stamped || found.shared {
            let mut edits = Edits::stamps(rules, found.stamped);
            self.shared.iter().for_each(|(name, value)| edits.push(Edit::SetIfAbsent(name, value)));
            edits
        } else {
            Edits { list: smallvec![Edit::Append(&self.appended)] }
        };
        let shared_keys = || self.shared.iter().find(|(name, _)| *name == properties::KEYS).map(|(_, value)| *value);
        let keys = found.keys.or_else(shared_keys);
        let has_own_key = found.unique_key.is_some();
        let unique_key = found.unique_key.unwrap_or_else(|| {
            let made = unique_key();
            edits.push(Edit::Set(properties::UNIQ_KEY, made));
            made
        });
        if found.has_pop {
            edits.push(Edit::Remove(properties::POP_CHECK_POINT));
        }
        BatchItem { entry_code: EntryCode::Tag(found.tags_code), edits, unique_key, has_own_key, keys }
    }
}

/// What to store for an item of a batch.
#[derive(Clone, Debug)]
pub struct BatchItem<'e> {
    /// What its queue entry holds.
    pub entry_code: EntryCode,
    /// The changes to its property text.
    pub edits: Edits<'e>,
    /// Its UNIQ_KEY.
    pub unique_key: &'e str,
    /// Whether its client made that.
    pub has_own_key: bool,
    /// Its KEYS.
    pub keys: Option<&'e str>,
}

/// What the broker adds to every message's property text.
pub fn stamps(region: &str, trace_on: bool, cluster: &str) -> String {
    let mut text = String::new();
    properties::append(&mut text, properties::MSG_REGION, region);
    properties::append(&mut text, properties::TRACE_ON, trace(trace_on));
    properties::append(&mut text, properties::CLUSTER, cluster);
    text
}

fn trace(on: bool) -> &'static str {
    if on {
        "true"
    } else {
        "false"
    }
}

/// Changes to one property text, on the stack unless they are very many.
#[derive(Clone, Debug)]
pub struct Edits<'a> {
    list: SmallVec<[Edit<'a>; EDITS_INLINE]>,
}

impl<'a> Edits<'a> {
    /// `stamped` says that the text holds a stamp already, which a client may copy from a message it received.
    fn stamps(rules: &'a SendRules, stamped: bool) -> Edits<'a> {
        let mut edits = Edits { list: SmallVec::new() };
        if stamped {
            edits.push(Edit::Set(properties::MSG_REGION, &rules.region));
            edits.push(Edit::Set(properties::TRACE_ON, trace(rules.trace_on)));
            edits.push(Edit::Set(properties::CLUSTER, &rules.cluster));
        } else {
            edits.push(Edit::Append(&rules.stamps));
        }
        edits
    }

    fn push(&mut self, edit: Edit<'a>) {
        self.list.push(edit);
    }
}

impl<'a> std::ops::Deref for Edits<'a> {
    type Target = [Edit<'a>];

    fn deref(&self) -> &[Edit<'a>] {
        &self.list
    }
}
