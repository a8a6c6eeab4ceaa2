//! A stand-in for the broker's log writer, for scenarios that test the store alone: it appends batches, syncs them in
//! groups, acknowledges what is safe, consumes, and does the upkeep.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use metaq::env::{Canary, Env};
use metaq::proto::message::encode::{encode_record, NewRecord};
use metaq::store::{open, AppendBatch, FlushMode, JobDone, LogWriter, Progress, StoreOptions, Stored, SyncDone};

use crate::checkers::Violation;
use crate::client::{body_of, properties_of};
use crate::history::{Event, Message, Queue};
use crate::plan::Send;
use crate::scenarios::store_crash::{read_one, GROUP, QUEUES, TOPIC};
use crate::world::{NodeId, World};

/// Messages of one batch at most.
const BATCH_MAX: usize = 5;
/// How often the upkeep runs.
const UPKEEP: Duration = Duration::from_millis(100);

enum Done {
    Sync(SyncDone),
    Job(JobDone),
}

/// What is to be written, by all lives together. What a life died on is not written again.
#[derive(Clone)]
pub struct StoreWork(Arc<Mutex<VecDeque<Send>>>);

impl StoreWork {
    /// These messages in this order.
    pub fn new(sends: impl Iterator<Item = Send>) -> StoreWork {
        StoreWork(Arc::new(Mutex::new(sends.collect())))
    }

    /// True if all were taken.
    pub fn is_done(&self) -> bool {
        self.lock().is_empty()
    }

    /// The next messages without a pause between them, and the pause before them in microseconds.
    fn next(&self) -> Option<(u64, Vec<Send>)> {
        let mut queue = self.lock();
        let mut batch = vec![queue.pop_front()?];
        while batch.len() < BATCH_MAX && queue.front().is_some_and(|send| send.after_us < 300) {
            batch.extend(queue.pop_front());
        }
        Some((batch[0].after_us, batch))
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Send>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One life of the process.
pub struct StoreProcess {
    world: World,
    node: NodeId,
    env: Env,
    options: StoreOptions,
    work: StoreWork,
    /// Written, not yet acknowledged.
    waiting: VecDeque<(Message, Queue, Stored)>,
    consumed: BTreeMap<u32, u64>,
}

impl StoreProcess {
    /// A process on `node`.
    pub fn new(world: World, node: NodeId, options: StoreOptions, work: StoreWork) -> StoreProcess {
        let env = world.env(node);
        StoreProcess { world, node, env, options, work, waiting: VecDeque::new(), consumed: BTreeMap::new() }
    }

    /// Lives until it is killed.
    pub async fn run(mut self) {
        let mut writer = match open(&self.env, self.options.clone()).await {
            Ok(opened) => {
                for repair in &opened.report.repairs {
                    self.world.note(self.node, "repair", &[], &repair.to_string());
                }
                opened.writer
            }
            Err(error) => return self.world.violated(Violation::new("the store opens", error.to_string())),
        };
        let mut running: FuturesUnordered<BoxFuture<'static, Done>> = FuturesUnordered::new();
        let mut upkeep_at = self.env.clock.monotonic();
        loop {
            let next = self.work.next();
            let pause = next.as_ref().map_or(UPKEEP, |(pause, _)| Duration::from_micros(*pause));
            if let Some((_, batch)) = next {
                self.append(&mut writer, batch).await;
            }
            if let Some(sync) = writer.start_sync() {
                running.push(sync.map(Done::Sync).boxed());
            }
            if writer.wants_upkeep() || self.env.clock.monotonic() >= upkeep_at {
                upkeep_at = self.env.clock.monotonic() + UPKEEP;
                let now = self.env.clock.now();
                running.extend(writer.maintain(now).into_iter().map(|job| job.map(Done::Job).boxed()));
            }
            let mut pause = self.env.clock.sleep(pause).fuse();
            loop {
                futures::select_biased! {
                    done = running.select_next_some() => self.finish(&mut writer, done),
                    () = pause => break,
                }
            }
            self.consume(&writer);
        }
    }

    /// Appends a few messages.
    async fn append(&mut self, writer: &mut LogWriter, sends: Vec<Send>) {
        let mut batch = AppendBatch::default();
        let mut messages = Vec::new();
        for send in sends {
            let id = send.queue % QUEUES;
            self.add(&mut batch, writer, send, id);
            self.world.history().add(self.node, Event::Sending(send.message));
            messages.push((send.message, Queue::new("broker", TOPIC, id)));
        }
        let mut results = Vec::new();
        if writer.append(&mut batch, &mut results) == Progress::NeedsSegment {
            writer.finish_append(&mut batch, &mut results).await;
        }
        for ((message, queue), result) in messages.into_iter().zip(results) {
            match result {
                Ok(stored) => self.waiting.push_back((message, queue, stored)),
                Err(error) => self.world.violated(Violation::new("a good disk takes writes", error.to_string())),
            }
        }
        let at_once = self.options.flush == FlushMode::Async || self.env.canary(Canary::AcknowledgeBeforeSync);
        self.acknowledge(if at_once { writer.end().0 } else { writer.store().flushed().0 });
    }

    fn add(&mut self, batch: &mut AppendBatch, writer: &LogWriter, send: Send, id: u32) {
        let body = body_of(send.message, send.bytes as usize);
        // Of every third message they reach over sectors of their own.
        let most = 3_800_usize.saturating_sub(body.len()).min(1_200) * usize::from(send.message.is_multiple_of(3));
        let properties = properties_of(send.message, (send.message as usize * 397) % (most + 1));
        let start = batch.bytes.len();
        let record = NewRecord {
            topic: TOPIC,
            queue_id: id as i32,
            flag: 0,
            sys_flag: 0,
            born_timestamp: self.env.clock.now(),
            born_host: ([10, 0, 0, 9], 40_000).into(),
            store_host: ([10, 0, 0, 1], 10_911).into(),
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: &body,
            properties: &properties,
            edits: &[],
        };
        encode_record(&mut batch.bytes, &record).expect("a small message");
        let queue = writer.store().queue_or_create(TOPIC, id).expect("a good queue");
        batch.push(start, queue, writer.store().tags_code(TOPIC, ""));
    }

    fn finish(&mut self, writer: &mut LogWriter, done: Done) {
        match done {
            Done::Job(done) => writer.finish_job(done),
            Done::Sync(done) => match writer.finish_sync(done) {
                Ok(flushed) => self.acknowledge(flushed.0),
                Err(error) => self.world.violated(Violation::new("a good disk syncs", error.to_string())),
            },
        }
    }

    /// Tells the senders of everything that ends at or below `up_to`.
    fn acknowledge(&mut self, up_to: u64) {
        while self.waiting.front().is_some_and(|(_, _, stored)| stored.end.0 <= up_to) {
            let Some((message, queue, stored)) = self.waiting.pop_front() else { break };
            self.world.history().add(self.node, Event::Acknowledged(message, (queue, stored.queue_offset.0)));
        }
    }

    /// Reads one message of each queue, if there is a new one.
    fn consume(&mut self, writer: &LogWriter) {
        for id in 0..QUEUES {
            let next = self.consumed.entry(id).or_default();
            match read_one(writer.store(), id, *next) {
                Ok(None) => {}
                Ok(Some((offset, message))) => {
                    *next = offset + 1;
                    let place = (Queue::new("broker", TOPIC, id), offset);
                    self.world.history().add(self.node, Event::Consumed(GROUP.into(), message, place));
                }
                Err(violation) => self.world.violated(violation),
            }
        }
    }
}
