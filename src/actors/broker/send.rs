//! Sends: each is checked and encoded into its final record by the session; all sends of one read go to the log writer
//! in one message and are answered with one write.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use super::errors::{send_refusal, store_failure};
use super::service::{BrokerConnection, QueueCache, QueueHandles, ReplyTo};
use super::shared::{Settings, Shared};
use crate::actors::log_writer::{Appended, Durability};
use crate::actors::net::{Answer, Output};
use crate::broker::admin::statistics::TopicCounters;
use crate::broker::flow::{Permit, SessionFlow};
use crate::broker::send::{EntryCode, RetryFacts, SendRequest};
use crate::broker::topics::{FirstSend, TopicView};
use crate::broker::BrokerError;
use crate::env::Millis;
use crate::proto::message::{batch, encode_record, ids, names, properties, NewRecord};
use crate::proto::remoting::requests::SendHeader;
use crate::proto::remoting::{response, Command, ExtSink, Head, RawFrame, Response, ResponseFrame};
use crate::store::{AppendBatch, AppendResult, FlushMode, TagsCode};

/// The sends gathered from one read.
#[derive(Default)]
pub struct Gathered {
    /// Those whose answers wait for what the flush mode promises.
    waiting: SendBatch,
    /// Under SYNC_FLUSH those that do not want to wait for the disk (`WAIT` is `false`).
    hasty: SendBatch,
    settings: Option<Arc<Settings>>,
}

impl Gathered {
    /// Hands the gathered sends to the log writer.
    pub fn submit(&mut self, shared: &Arc<Shared>, output: &mut Output) {
        if let Some(settings) = self.settings.take() {
            self.waiting.submit(shared, &settings, true, output);
            self.hasty.submit(shared, &settings, false, output);
        }
    }
}

/// Sends that are answered together.
#[derive(Default)]
struct SendBatch {
    records: AppendBatch,
    answers: Vec<SendAnswer>,
    /// UNIQ_KEYs of all answers, one behind the other.
    unique_keys: String,
    permit: Option<Permit>,
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
    /// The properties of the send at hand, their JSON escapes undone.
    static UNESCAPED: RefCell<String> = const { RefCell::new(String::new()) };
}

/// What a send's answer needs besides its offsets.
struct SendAnswer {
    reply: ReplyTo,
    /// Its records in the batch: one, or those of a client batch.
    records: Range<usize>,
    queue_id: i32,
    /// Its topic's counters.
    counters: Arc<TopicCounters>,
    /// Its transaction id within `unique_keys`; empty if it has none.
    unique_key: Range<usize>,
}

/// A send whose records are in the batch.
struct Added {
    queue_id: i32,
    unique_key: Range<usize>,
    counters: Arc<TopicCounters>,
}

/// A send as it came.
struct Incoming<'a> {
    header: SendHeader<'a>,
    properties: &'a str,
    body: &'a [u8],
    client_version: i32,
    peer: SocketAddr,
}

impl Incoming<'_> {
    fn request(&self) -> SendRequest<'_> {
        SendRequest {
            topic: &self.header.topic,
            queue_id: self.header.queue_id,
            sys_flag: self.header.sys_flag,
            properties: self.properties,
            reconsume_times: self.header.reconsume_times,
            max_reconsume_times: self.header.max_reconsume_times,
            body: self.body,
            client_version: self.client_version,
            peer: self.peer,
        }
    }
}

/// Takes a send. It is answered when its batch is, or refused at once.
pub fn take(
    shared: &Arc<Shared>,
    connection: &mut BrokerConnection,
    head: &Head<'_>,
    frame: &RawFrame<'_>,
    reply: ReplyTo,
    output: &mut Output,
) {
    let header = match SendHeader::decode(head.code, &head.ext) {
        Ok(header) => header,
        Err(error) => return reply.write(&mut output.bytes, &Response::from(error)),
    };
    let settings = Arc::clone(connection.sends.settings.get_or_insert_with(|| shared.settings()));
    let taken = UNESCAPED.with_borrow_mut(|unescaped| {
        let properties = header.properties.str_in(unescaped);
        let (client_version, peer) = (head.version, connection.peer);
        let incoming = Incoming { header, properties, body: frame.body, client_version, peer };
        gather(shared, connection, &settings, &incoming, reply)
    });
    match taken {
        Ok(Taken::Yes) => {}
        Ok(Taken::NeedsTopic) => {
            // Rare: the topic or group has to be made and saved first, so the send goes its own way.
            let Ok(command) = Command::decode(frame) else { return };
            let (shared, peer, flow) = (Arc::clone(shared), connection.peer, connection.flow.clone());
            output.later(Box::pin(send_to_new_topic(shared, peer, flow, command, reply)));
        }
        Err(error) => reply.write(&mut output.bytes, &send_refusal(&settings.send, &error)),
    }
}

enum Taken {
    Yes,
    NeedsTopic,
}

fn gather(
    shared: &Shared,
    connection: &mut BrokerConnection,
    settings: &Settings,
    incoming: &Incoming<'_>,
    reply: ReplyTo,
) -> Result<Taken, BrokerError> {
    let request = incoming.request();
    settings.send.precheck(&request, || shared.wall())?;
    if names::is_retry_topic(request.topic) {
        return Ok(Taken::NeedsTopic);
    }
    let Some(topic) = connection.topics.get(&shared.topic_directory, request.topic) else {
        return Ok(Taken::NeedsTopic);
    };
    let hasty = shared.store.flush_mode() == FlushMode::Sync
        && properties::find(incoming.properties, properties::WAIT) == Some("false");
    let sends = if hasty { &mut connection.sends.hasty } else { &mut connection.sends.waiting };
    if sends.answers.capacity() == 0 {
        *sends = SendBatch::reused();
    }
    let bytes = incoming.body.len() + incoming.properties.len();
    match &mut sends.permit {
        Some(permit) => permit.grow(bytes)?,
        none => *none = Some(connection.flow.acquire(bytes)?),
    }
    let added = sends.add(shared, settings, &mut connection.queues, incoming, topic, None, reply);
    if let (Err(_), Some(permit)) = (&added, &mut sends.permit) {
        permit.shrink(bytes);
    }
    added.map(|()| Taken::Yes)
}

impl SendBatch {
    /// An empty batch, with the buffers of one that has been answered if there is one.
    fn reused() -> SendBatch {
        SPARE.with_borrow_mut(|spare| {
            let batch = spare.batches.pop().unwrap_or_default();
            spare.bytes -= batch.records.bytes.capacity();
            batch
        })
    }

    /// Keeps the buffers of an answered batch for the next: growing them again costs more than filling them.
    fn retire(mut self) {
        self.records.clear();
        self.answers.clear();
        self.unique_keys.clear();
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
    fn add(
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
            Ok(Added { queue_id, unique_key, counters }) => {
                let records = items..self.records.items.len();
                self.answers.push(SendAnswer { reply, records, queue_id, counters, unique_key });
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
        let plan = settings.send.plan(&request, topic, retry, random)?;
        let unique_key = self.unique_key(shared, plan.unique_key);
        let made = &self.unique_keys[unique_key.clone()];
        let (target, queue_id) = plan.target.place();
        let QueueHandles { queue, counters } =
            queues.get(shared, target, queue_id as u32).map_err(|error| store_failure(&error))?;
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
        self.records.push(start, queue, tags_code(plan.entry_code));
        Ok(Added { queue_id: plan.reply_queue_id, unique_key, counters })
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
        for item in batch::items(incoming.body) {
            let item = item.map_err(|error| BrokerError::BatchBody { what: error.to_string() })?;
            settings.send.check_body(item.body)?;
            let mut made = String::new();
            let made = &mut made;
            let (entry_code, edits) = plan.item(&settings.send, item.properties, move || {
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
                edits: &edits,
            };
            let start = self.records.bytes.len();
            encode_record(&mut self.records.bytes, &record).map_err(|_| settings.send.illegal())?;
            self.records.push_to_group(start, Arc::clone(&queue), tags_code(entry_code), group);
        }
        let start = self.unique_keys.len();
        self.unique_keys.push_str(plan.unique_key.unwrap_or_default());
        Ok(Added { queue_id: plan.queue_id, unique_key: start..self.unique_keys.len(), counters })
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

    fn submit(&mut self, shared: &Arc<Shared>, settings: &Arc<Settings>, wait: bool, output: &mut Output) {
        if self.answers.is_empty() {
            return;
        }
        let mut batch = std::mem::take(self);
        let appended = shared.writer.append(std::mem::take(&mut batch.records), wait);
        let (shared, settings) = (Arc::clone(shared), Arc::clone(settings));
        output.later(Box::pin(async move {
            let appended = appended.await.ok();
            Some(Box::new(move |out: &mut Vec<u8>| {
                write_answers(out, &shared, &settings, appended.as_ref(), &batch.answers, &batch.unique_keys);
                if let Some(appended) = appended {
                    batch.records = appended.batch;
                    batch.retire();
                }
            }) as Answer)
        }));
    }
}

/// Answers the sends of one batch. Without `appended` the log writer is gone and nothing is known about them.
fn write_answers(
    out: &mut Vec<u8>,
    shared: &Shared,
    settings: &Settings,
    appended: Option<&Appended>,
    answers: &[SendAnswer],
    unique_keys: &str,
) {
    let (mut puts, mut failed) = (0, 0);
    for answer in answers {
        let results = appended.and_then(|appended| appended.results.get(answer.records.clone())).unwrap_or_default();
        let stored = results.iter().flatten();
        let (count, bytes) =
            stored.fold((0, 0), |(count, bytes), one| (count + 1, bytes + (one.end.0 - one.physical.0)));
        puts += count;
        failed += answer.records.len() as u64 - count;
        answer.counters.puts.add(count);
        answer.counters.put_bytes.add(bytes);
        if answer.reply.oneway {
            continue;
        }
        let durability = appended.map_or(Durability::SyncFailed, |appended| appended.durability);
        let unique_key = &unique_keys[answer.unique_key.clone()];
        if let Err(error) = write_stored(out, shared, settings, answer, results, durability, unique_key) {
            answer.reply.write(out, &send_refusal(&settings.send, &error));
        }
    }
    shared.statistics.broker.puts.add(puts);
    shared.statistics.broker.failed_puts.add(failed);
}

fn write_stored(
    out: &mut Vec<u8>,
    shared: &Shared,
    settings: &Settings,
    answer: &SendAnswer,
    results: &[AppendResult],
    durability: Durability,
    unique_key: &str,
) -> Result<(), BrokerError> {
    let code = match durability {
        Durability::AsPromised => response::SUCCESS,
        Durability::SyncTimedOut => response::FLUSH_DISK_TIMEOUT,
        Durability::SyncFailed => {
            let what = "the log could not be synced: the message may or may not be stored".to_owned();
            return Err(BrokerError::StoreFailed { what });
        }
    };
    let mut message_ids = String::with_capacity(results.len() * (ids::OFFSET_ID_V4_LEN + 1));
    let mut first = None;
    for result in results {
        let stored = result.as_ref().map_err(store_failure)?;
        first.get_or_insert(stored.queue_offset);
        if !message_ids.is_empty() {
            message_ids.push(',');
        }
        ids::push_offset_message_id(&mut message_ids, shared.advertised, stored.physical);
    }
    let Some(first) = first else {
        let what = "the log writer has stopped: the message may or may not be stored".to_owned();
        return Err(BrokerError::StoreFailed { what });
    };
    let reply = answer.reply;
    let frame = ResponseFrame::begin(out, reply.serialization, reply.opaque, code, None, |ext| {
        ext.put_str("msgId", &message_ids);
        ext.put_i64("queueId", i64::from(answer.queue_id));
        ext.put_i64("queueOffset", first.0 as i64);
        if !unique_key.is_empty() {
            ext.put_str("transactionId", unique_key);
        }
        ext.put_str("MSG_REGION", &settings.send.region);
        ext.put_bool("TRACE_ON", settings.send.trace_on);
    });
    frame.finish(out);
    Ok(())
}

/// What the writer is told about the queue entry.
pub fn tags_code(entry_code: EntryCode) -> TagsCode {
    match entry_code {
        EntryCode::Tag(code) => TagsCode::Fixed(code),
        EntryCode::DeliverAfter(millis) => TagsCode::DeliverAfter(millis),
    }
}

/// A send whose topic is not there, or that goes to a retry topic.
async fn send_to_new_topic(
    shared: Arc<Shared>,
    peer: SocketAddr,
    flow: SessionFlow,
    command: Command,
    reply: ReplyTo,
) -> Option<Answer> {
    let settings = shared.settings();
    let mut sends = SendBatch::default();
    let permit = match prepare(&shared, &settings, peer, &flow, &command, &mut sends, reply).await {
        Ok(permit) => permit,
        Err(error) => return reply.answer(send_refusal(&settings.send, &error)),
    };
    let appended = shared.writer.append(std::mem::take(&mut sends.records), true).await.ok();
    Some(Box::new(move |out: &mut Vec<u8>| {
        write_answers(out, &shared, &settings, appended.as_ref(), &sends.answers, &sends.unique_keys);
        drop(permit);
    }) as Answer)
}

async fn prepare(
    shared: &Shared,
    settings: &Settings,
    peer: SocketAddr,
    flow: &SessionFlow,
    command: &Command,
    sends: &mut SendBatch,
    reply: ReplyTo,
) -> Result<Permit, BrokerError> {
    let malformed = |what: String| BrokerError::StoreFailed { what };
    let ext = command.ext_fields().map_err(|error| malformed(error.to_string()))?;
    let header = SendHeader::decode(command.code, &ext).map_err(|error| malformed(error.to_string()))?;
    let properties = header.properties.str();
    let incoming =
        Incoming { header, properties: &properties, body: &command.body, client_version: command.version, peer };
    let permit = flow.acquire(incoming.body.len() + incoming.properties.len())?;
    let request = incoming.request();

    let mut effects = Vec::new();
    let group = names::group_of_retry_topic(request.topic)
        .map(|name| (name, shared.groups().find_or_create(name, shared.wall(), &mut effects)));
    let first_send = FirstSend {
        topic: request.topic,
        default_topic: &incoming.header.default_topic,
        default_topic_queue_nums: incoming.header.default_topic_queue_nums,
        // Of a unit-mode producer: bit 0 marks a unit topic, bit 1 a retry topic of a unit's group.
        sys_flag: match (incoming.header.unit_mode, group.is_some()) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => 2,
        },
    };
    let topic = match &group {
        // A group that may not be made is the plan's refusal; no topic is left behind for it.
        Some((name, None)) => return Err(BrokerError::SendGroupNotExist { group: (*name).to_owned() }),
        _ => shared.topics().create_on_send(first_send, shared.wall(), &mut effects)?,
    };
    let retry = group.as_ref().map(|(name, view)| RetryFacts {
        group: view.as_deref(),
        holds_any_lock: shared.locks().holds_any(name, shared.now()),
    });
    let mut queues = QueueCache::default();
    sends.add(shared, settings, &mut queues, &incoming, &topic, retry, reply)?;
    ensure_dead_letter_topic(shared, sends, &mut effects)?;
    shared.carry_out_now(effects).await.map_err(|what| BrokerError::StoreFailed { what })?;
    Ok(permit)
}

/// A message that goes to the dead letters needs their topic in the routes.
fn ensure_dead_letter_topic(
    shared: &Shared,
    sends: &SendBatch,
    effects: &mut Vec<crate::broker::Effect>,
) -> Result<(), BrokerError> {
    for item in &sends.records.items {
        let topic = item.queue.topic();
        if names::is_dlq_topic(topic) {
            shared.topics().ensure(topic, 1, false, 0, shared.wall(), effects)?;
        }
    }
    Ok(())
}
