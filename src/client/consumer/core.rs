//! What all parts of one consumer share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use ractor::ActorRef;
use tokio::sync::Notify;

use super::acquire::Leaving;
use super::concurrent::Row;
use super::info::Counters;
use super::life::Life;
use super::listener::Listener;
use super::offsets::Offsets;
use super::owned::OwnedQueue;
use super::rebalance::RebalanceMessage;
use super::scheduled::Task;
use crate::audit;
use crate::client::instance::Shared;
use crate::client::recorder::Recorder;
use crate::client::rules::allocation::Allocation;
use crate::client::rules::process_queue::Limits;
use crate::client::rules::start::ConsumeFrom;
use crate::client::MessageQueue;
use crate::env::{Canary, Millis};
use crate::proto::filter::SubscriptionData;
use crate::proto::message::names::retry_topic;

/// What a consumer does. The defaults are those of RocketMQ's clients.
#[derive(Clone)]
pub(super) struct Settings {
    pub consume_from: ConsumeFrom,
    pub allocation: Allocation,
    pub limits: Limits,
    /// Messages and bytes wanted of one pull.
    pub pull_batch: i32,
    pub pull_bytes: i32,
    /// How long a broker may hold a pull.
    pub hold: Duration,
    /// Messages of one call of the listener.
    pub consume_batch: usize,
    /// Calls of the listener at a time.
    pub concurrency: usize,
    pub consume_timeout: Duration,
    /// `None`: 16 times concurrently, without end in order.
    pub max_reconsume_times: Option<i32>,
    pub suspend: Duration,
    /// Whether offsets are committed every 5 s and at the end, without being asked.
    pub auto_commit: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            consume_from: ConsumeFrom::default(),
            allocation: Allocation::default(),
            limits: Limits { count: 1000, bytes: 100 * 1024 * 1024, span: Some(2000) },
            pull_batch: 32,
            pull_bytes: 256 * 1024,
            hold: Duration::from_secs(15),
            consume_batch: 1,
            concurrency: 20,
            consume_timeout: Duration::from_secs(15 * 60),
            max_reconsume_times: None,
            suspend: Duration::from_secs(1),
            auto_commit: true,
        }
    }
}

/// Who gets the messages.
pub(super) enum Handler {
    /// A listener, many calls at a time.
    Concurrent(Listener),
    /// A listener, one call at a time for each queue, in order.
    Orderly(Listener),
    /// Whoever polls; told that there is something.
    Poll(Notify),
    /// A task, called with what each pull of a queue brought; it says when the next one is.
    Scheduled(Task),
}

impl Handler {
    /// Whether the application asks for messages, instead of having them brought to a listener.
    pub fn asks(&self) -> bool {
        matches!(self, Handler::Poll(_) | Handler::Scheduled(_))
    }
}

/// One consumer.
pub(super) struct Core {
    pub client: Arc<Shared>,
    pub group: String,
    pub settings: Settings,
    pub handler: Handler,
    /// Whether members share the messages, or each gets all.
    pub broadcasting: bool,
    pub offsets: Offsets,
    pub subscriptions: Mutex<BTreeMap<String, SubscriptionData>>,
    /// Queues that were given by hand instead of shared among members.
    pub assigned: Mutex<Option<Vec<MessageQueue>>>,
    pub owned: Mutex<BTreeMap<MessageQueue, Arc<OwnedQueue>>>,
    /// Queues that were taken away while their listener still runs.
    pub leaving: Mutex<BTreeMap<MessageQueue, Leaving>>,
    pub life: Life,
    /// What waits for a concurrent listener.
    pub row: Row,
    pub actor: OnceLock<ActorRef<RebalanceMessage>>,
    /// A rebalance is asked for and has not begun.
    pub rebalance_pending: AtomicBool,
    pub counters: Counters,
    pub started_at: Millis,
}

impl Core {
    pub fn now(&self) -> Duration {
        self.client.env.clock.monotonic()
    }

    pub async fn sleep(&self, duration: Duration) {
        self.client.env.clock.sleep(duration).await;
    }

    pub fn owned(&self) -> MutexGuard<'_, BTreeMap<MessageQueue, Arc<OwnedQueue>>> {
        self.owned.lock().expect("no holder panics")
    }

    pub fn leaving(&self) -> MutexGuard<'_, BTreeMap<MessageQueue, Leaving>> {
        self.leaving.lock().expect("no holder panics")
    }

    pub fn subscriptions(&self) -> MutexGuard<'_, BTreeMap<String, SubscriptionData>> {
        self.subscriptions.lock().expect("no holder panics")
    }

    pub fn subscription(&self, topic: &str) -> Option<SubscriptionData> {
        self.subscriptions().get(topic).cloned()
    }

    pub fn retry_topic(&self) -> String {
        retry_topic(&self.group)
    }

    /// Whether queues are consumed in order, each under a lock of its broker.
    pub fn needs_locks(&self) -> bool {
        matches!(self.handler, Handler::Orderly(_)) && !self.broadcasting
    }

    pub fn max_reconsume_times(&self) -> i32 {
        let default = if matches!(self.handler, Handler::Orderly(_)) { i32::MAX } else { 16 };
        self.settings.max_reconsume_times.unwrap_or(default)
    }

    /// Told of what this consumer does and sees, if somebody wants to know and it shares its messages with a group: what one
    /// member of many gets says nothing about the others.
    pub fn recorder(&self) -> Option<&Recorder> {
        self.client.recorder.get().filter(|_| matches!(self.offsets, Offsets::Brokers))
    }

    /// Tells the recorder how it consumes; `moved` says that it was told to go on elsewhere.
    pub fn record_setup(&self, filtered: bool, moved: bool) {
        if let Some(recorder) = self.recorder() {
            recorder.consumer(audit::file::Consumer {
                group: self.group.as_str().into(),
                in_order: !matches!(self.handler, Handler::Concurrent(_)),
                filtered,
                moved,
                from_first: matches!(self.settings.consume_from, ConsumeFrom::First),
            });
        }
    }

    pub fn is_stopping(&self) -> bool {
        self.life.is_stopping()
    }

    /// Tells the rebalance actor; after its end, nobody.
    pub fn tell(&self, message: RebalanceMessage) {
        if let Some(actor) = self.actor.get() {
            let _ = actor.cast(message);
        }
    }

    /// Asks for a rebalance. Many asking at once get one.
    pub fn rebalance(&self) {
        if !self.rebalance_pending.swap(true, Ordering::AcqRel) {
            self.tell(RebalanceMessage::Rebalance);
        }
    }

    /// Asks for a rebalance after a pause.
    pub fn rebalance_after(self: &Arc<Self>, pause: Duration) {
        let core = Arc::downgrade(self);
        let clock = Arc::clone(&self.client.env.clock);
        ractor::concurrency::spawn(async move {
            clock.sleep(pause).await;
            if let Some(core) = core.upgrade() {
                core.rebalance();
            }
        });
    }

    /// Keeps how far a queue is; `to` instead, if given. Waits for an earlier commit of this queue, and skips one that
    /// would change nothing.
    pub async fn commit(&self, owned: &OwnedQueue, to: Option<i64>) -> Result<(), crate::client::Error> {
        let mut committed = owned.committed.lock().await;
        let offset = to.unwrap_or_else(|| {
            let process = owned.process();
            if self.client.env.canary(Canary::ClientCommitsPulled) {
                return process.pulled_to();
            }
            process.progress()
        });
        if *committed == Some(offset) {
            return Ok(());
        }
        self.write_offset(&owned.queue, offset).await?;
        *committed = Some(offset);
        Ok(())
    }

    /// Keeps an offset of the group.
    pub async fn write_offset(&self, queue: &MessageQueue, offset: i64) -> Result<(), crate::client::Error> {
        if let Some(recorder) = self.recorder() {
            recorder.committing(&self.group, queue, offset);
        }
        self.offsets.write(&self.client, &self.group, queue, offset).await?;
        if let Some(recorder) = self.recorder() {
            recorder.committed(&self.group, queue, offset);
        }
        Ok(())
    }
}
