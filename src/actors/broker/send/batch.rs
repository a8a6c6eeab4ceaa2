//! Sends that are answered together: their encoded records, and what their answers need.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use super::{tags_code, Incoming};
use crate::actors::broker::errors::store_failure;
use crate::actors::broker::service::{QueueCache, QueueHandles, ReplyTo};
use crate::actors::broker::shared::{Settings, Shared};
use crate::broker::admin::statistics::TopicCounters;
use crate::broker::flow::Permit;
use crate::broker::send::{RetryFacts, Target};
use crate::broker::timer::DueSecond;
use crate::broker::topics::TopicView;
use crate::broker::BrokerError;
use crate::env::Millis;
use crate::proto::message::{batch, encode_record, names, NewRecord, RecallHandle};
use crate::store::{key_hashes, AppendBatch, AppendResult, UniqueSend};

/// Sends that are answered together.
#[derive(Default)]
pub(super) struct SendBatch {
    pub records: AppendBatch,
    pub answers: Vec<SendAnswer>,
    /// UNIQ_KEYs of all answers, one behind the other.
    pub unique_keys: String,
    /// Room for what became of the records.
    pub results: Vec<AppendResult>,
    pub permit: Option<Permit>,
}

/// Answered batches whose buffers wait for the next ones.
#[derive(Default)]
struct Spare {
    batches: Vec<SendBatch>,
    /// Room for records in all of them.
    bytes: usize,
}

/// Batches that are kept, at most.
const SPARE_BATCHES_MAX: usize = 256;
/// Bytes of their records' buffers, at most.
const SPARE_BYTES_MAX: usize = 1024 * 1024;

thread_local! {
    static SPARE: RefCell<Spare> = RefCell::default();
}

/// What a send's answer needs besides its offsets.
pub(super) struct SendAnswer {
    pub reply: ReplyTo,
    /// Its records in the batch: one, or those of a client batch.
    pub records: Range<usize>,
    pub queue_id: i32,
    /// Its topic's counters.
    pub counters: Arc<TopicCounters>,
    /// Its transaction id within `unique_keys`; empty if it has none.
    pub unique_key: Range<usize>,
    /// What takes the message back, if it waits for a time of its own.
    pub recall_handle: Option<Box<str>>,
}

/// A send whose records are in the batch.
struct Added {
    queue_id: i32,
    unique_key: Range<usize>,
    counters: Arc<TopicCounters>,
    recall_handle: Option<Box<str>>,
}

impl SendBatch {
    /// An empty batch, with the buffers of one that has been answered if there is one.
    pub(super) fn reused() -> SendBatch {
        SPARE.with_borrow_mut(|spare| {
            let batch = spare.batches.pop().unwrap_or_default();
            spare.bytes -= batch.records.bytes.capacity();
            batch
        })
    }

    /// Keeps the buffers of an answered batch for the next: growing them again costs more than filling them.
    pub(super) fn retire(mut self) {
        self.records.clear();
        self.answers.clear();
        self.unique_keys.clear();
        self.results.clear();
        self.permit = None;
        SPARE.with_borrow_mut(|spare| {
            let bytes = spare.bytes + self.records.bytes.capacity();
            if bytes <= SPARE_BYTES_MAX && spare.batches.len() < SPARE_BATCHES_MAX {
                spare.bytes = bytes;
                spare.batches.push(self);
            }
        });
    }

    /// Encodes a send's records. On an error the batch is as before.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn add(
        &mut self,
        shared: &Shared,
        settings: &Settings,
        queues: &mut QueueCache,
        incoming: &Incoming<'_>,
        topic: &TopicView,
        retry: Option<RetryFacts<'_>>,
        reply: ReplyTo,
    ) -> Result<(), BrokerError> {
        let (bytes, items) = (self.records.bytes.len(), self.records.items.len());
        let added = if incoming.header.batch {
            self.add_batch(shared, settings, queues, incoming, topic)
        } else {
            self.add_single(shared, settings, queues, incoming, topic, retry)
        };
        match added {
            Ok(Added { queue_id, unique_key, counters, recall_handle }) => {
                let records = items..self.records.items.len();
                self.answers.push(SendAnswer { reply, records, queue_id, counters, unique_key, recall_handle });
                Ok(())
            }
            Err(error) => {
                self.records.bytes.truncate(bytes);
                self.records.items.truncate(items);
                Err(error)
            }
        }
    }

    fn add_single(
        &mut self,
        shared: &Shared,
        settings: &Settings,
        queues: &mut QueueCache,
        incoming: &Incoming<'_>,
        topic: &TopicView,
        retry: Option<RetryFacts<'_>>,
    ) -> Result<Added, BrokerError> {
        let request = incoming.request();
        let random = if request.queue_id < 0 { shared.env.rng.next_u64() } else { 0 };
        let plan = settings.send.plan(&request, topic, retry, random, || shared.wall())?;
        if let Target::Timed { due, recalls: true } = &plan.target {
            shared.admit_recall(*due)?;
        }
        let unique_key = self.unique_key(shared, plan.unique_key);
        let made = &self.unique_keys[unique_key.clone()];
        let (target, queue_id) = plan.target.place();
        let QueueHandles { queue, counters } =
            queues.get(shared, target, queue_id as u32).map_err(|error| store_failure(&error))?;
        if plan.target == Target::Half {
            shared.half_messages.check_room(queue.max(), settings.config.half_messages_max)?;
        }
        let record = NewRecord {
            topic: target,
            queue_id,
            flag: incoming.header.flag,
            sys_flag: plan.sys_flag,
            born_timestamp: Millis(incoming.header.born_timestamp),
            born_host: incoming.peer,
            store_host: shared.advertised,
            reconsume_times: incoming.header.reconsume_times,
            prepared_transaction_offset: 0,
            body: incoming.body,
            properties: incoming.properties,
            edits: &plan.edits(&settings.send, made),
        };
        let start = self.records.bytes.len();
        encode_record(&mut self.records.bytes, &record).map_err(|_| settings.send.illegal())?;
        let item = self.records.push(start, queue, tags_code(plan.entry_code));
        item.keys = Some(key_hashes(target, Some(made), plan.keys));
        let window_ms = topic.deduplication_ms(settings.config.deduplication_window_ms as i64);
        if window_ms > 0 && request.reconsume_times == 0 && plan.can_repeat() {
            let key = plan.unique_key.unwrap_or_default();
            item.unique = UniqueSend::new(request.topic, key, window_ms, plan.reply_queue_id);
        }
        let recall_handle = match plan.target {
            Target::Timed { due, recalls: false } => recall_handle(settings, request.topic, due, made),
            _ => None,
        };
        Ok(Added { queue_id: plan.reply_queue_id, unique_key, counters, recall_handle })
    }

    /// A client batch: its records stay together, all or none.
    fn add_batch(
        &mut self,
        shared: &Shared,
        settings: &Settings,
        queues: &mut QueueCache,
        incoming: &Incoming<'_>,
        topic: &TopicView,
    ) -> Result<Added, BrokerError> {
        let request = incoming.request();
        let plan = settings.send.plan_batch(&request, topic, shared.env.rng.next_u64())?;
        batch::count(incoming.body).map_err(|error| BrokerError::BatchBody { what: error.to_string() })?;
        let QueueHandles { queue, counters } =
            queues.get(shared, plan.topic, plan.queue_id as u32).map_err(|error| store_failure(&error))?;
        let group = self.records.next_group();
        let window_ms = topic.deduplication_ms(settings.config.deduplication_window_ms as i64);
        for item in batch::items(incoming.body) {
            let item = item.map_err(|error| BrokerError::BatchBody { what: error.to_string() })?;
            settings.send.check_body(item.body)?;
            settings.send.check_properties(item.properties)?;
            let mut made = String::new();
            let made = &mut made;
            let planned = plan.item(&settings.send, item.properties, move || {
                *made = shared.unique_keys.next(shared.wall());
                made
            });
            let record = NewRecord {
                topic: plan.topic,
                queue_id: plan.queue_id,
                flag: item.flag,
                sys_flag: plan.sys_flag,
                born_timestamp: Millis(incoming.header.born_timestamp),
                born_host: incoming.peer,
                store_host: shared.advertised,
                reconsume_times: 0,
                prepared_transaction_offset: 0,
                body: item.body,
                properties: item.properties,
                edits: &planned.edits,
            };
            let unique = match window_ms > 0 && planned.has_own_key {
                true => UniqueSend::new(plan.topic, planned.unique_key, window_ms, plan.queue_id),
                false => None,
            };
            let start = self.records.bytes.len();
            encode_record(&mut self.records.bytes, &record).map_err(|_| settings.send.illegal())?;
            let item = self.records.push_to_group(start, Arc::clone(&queue), tags_code(planned.entry_code), group);
            (item.unique, item.keys) = (unique, Some(key_hashes(plan.topic, Some(planned.unique_key), planned.keys)));
        }
        let start = self.unique_keys.len();
        self.unique_keys.push_str(plan.unique_key.unwrap_or_default());
        let unique_key = start..self.unique_keys.len();
        Ok(Added { queue_id: plan.queue_id, unique_key, counters, recall_handle: None })
    }

    /// Remembers the message's own key, or makes one.
    fn unique_key(&mut self, shared: &Shared, own: Option<&str>) -> Range<usize> {
        let start = self.unique_keys.len();
        match own {
            Some(own) => self.unique_keys.push_str(own),
            None => self.unique_keys.push_str(&shared.unique_keys.next(shared.wall())),
        }
        start..self.unique_keys.len()
    }
}

/// What takes a message back that waits for `due`; `None` for one that a consumer tries again.
fn recall_handle(settings: &Settings, topic: &str, due: DueSecond, unique_key: &str) -> Option<Box<str>> {
    let handle = RecallHandle {
        topic: topic.to_owned(),
        broker: settings.config.broker_name.clone(),
        deliver_at: Millis(due.out_ms()).plus(1),
        unique_key: unique_key.to_owned(),
    };
    (!names::is_retry_topic(topic)).then(|| handle.encode().into())
}
