//! What is done while the history is recorded.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::client::{
    Action, Client, ConsumeFrom, Error, Message, MessageQueue, OrderlyAction, Producer, PushConsumer, Received,
    SendError, Sent,
};
use crate::env::Env;

/// The pause of a producer whose send failed.
const AFTER_FAILURE: Duration = Duration::from_millis(50);
/// Of 1,000 sends so many are batches, and so many go to the queue of a key.
const BATCHES: u64 = 100;
const ORDERED: u64 = 300;
/// The most messages of a batch.
const BATCH_MAX: u64 = 8;

/// What is wanted, and how far it is.
pub struct Load {
    pub topic: String,
    pub group: String,
    /// The longest body.
    pub size: usize,
    /// Between two sends of one producer at least.
    pub pace: Option<Duration>,
    pub orderly: bool,
    /// Of 1,000 messages so many fail at first.
    pub fail: u32,
    pub retries: u32,
    /// The topic's queues: those that it had at the beginning, and those that took messages.
    pub queues: Mutex<BTreeSet<MessageQueue>>,
    pub stop: AtomicBool,
    pub stored: AtomicU64,
    pub failed: AtomicU64,
    /// Why the last send failed.
    pub last_failure: Mutex<Option<String>>,
    /// Messages that failed and have not come again.
    pub waiting: Mutex<BTreeSet<String>>,
}

impl Load {
    /// Producers end after their present send.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// In words for people.
    pub fn story(&self) -> String {
        let failed = self.failed.load(Ordering::Relaxed);
        let last = self.last_failure.lock().expect("no holder panics").clone();
        let last = last.map_or_else(String::new, |error| format!(", the last one so: {error}"));
        format!("{} messages acknowledged, {failed} sends failed{last}", self.stored.load(Ordering::Relaxed))
    }

    /// Whether everything that failed has come again.
    pub fn came_again(&self) -> bool {
        self.waiting.lock().expect("no holder panics").is_empty()
    }

    fn took(&self, sent: &[Sent]) {
        self.stored.fetch_add(sent.len() as u64, Ordering::Relaxed);
        let mut queues = self.queues.lock().expect("no holder panics");
        if let Some(queue) = sent.first().map(|sent| &sent.queue).filter(|queue| !queues.contains(queue)) {
            queues.insert(queue.clone());
        }
    }

    /// Whether a message fails now: never twice.
    fn fails(&self, env: &Env, message: &Received) -> bool {
        let mut waiting = self.waiting.lock().expect("no holder panics");
        if message.reconsume_times > 0 {
            waiting.remove(&message.message_id());
            return false;
        }
        env.rng.below(1_000) < u64::from(self.fail) && waiting.insert(message.message_id())
    }
}

/// Sends one message after the other until it is told to stop: alone, in order of a key, in batches.
///
/// # Errors
/// If the producer cannot start.
pub async fn produce(client: Client, load: Arc<Load>) -> Result<(), Error> {
    let env = client.env().clone();
    let producer = client.producer(format!("{}_producers", load.group)).retries(load.retries).start()?;
    let mut due = env.clock.monotonic();
    while !load.stop.load(Ordering::Relaxed) {
        match send(&env, &producer, &load).await {
            Ok(sent) => load.took(&sent),
            Err(error) => {
                tracing::debug!(%error, "a send failed");
                load.failed.fetch_add(1, Ordering::Relaxed);
                *load.last_failure.lock().expect("no holder panics") = Some(error.to_string());
                env.clock.sleep(AFTER_FAILURE).await;
            }
        }
        if let Some(pace) = load.pace {
            // Behind the time it does not hurry: the rate is an upper bound.
            let now = env.clock.monotonic();
            due = (due + pace).max(now);
            env.clock.sleep(due - now).await;
        }
    }
    client.close().await;
    Ok(())
}

/// Sends once.
async fn send(env: &Env, producer: &Producer, load: &Load) -> Result<Vec<Sent>, SendError> {
    let message = || {
        let body: Vec<u8> = (0..=env.rng.below(load.size as u64)).map(|_| env.rng.next_u64() as u8).collect();
        Message::new(&load.topic, body)
    };
    let kind = env.rng.below(1_000);
    if kind < BATCHES {
        let batch: Vec<Message> = (0..=env.rng.below(BATCH_MAX)).map(|_| message()).collect();
        producer.send_batch(batch).await
    } else if kind < BATCHES + ORDERED {
        let key = env.rng.below(32).to_string();
        producer.send_ordered(message().key(&key), &key).await.map(|sent| vec![sent])
    } else {
        producer.send(message()).await.map(|sent| vec![sent])
    }
}

/// Consumes as a member of the group.
///
/// # Errors
/// If the consumer cannot start.
pub async fn consume(client: &Client, load: &Arc<Load>) -> Result<PushConsumer, Error> {
    let builder = client.push_consumer(&load.group).subscribe(&load.topic, "*").consume_from(ConsumeFrom::First);
    if load.orderly {
        return builder.orderly(|_| async { OrderlyAction::Done }).await;
    }
    let (load, env) = (Arc::clone(load), client.env().clone());
    let listener = move |message: Arc<Received>| {
        let fails = load.fails(&env, &message);
        async move {
            if fails {
                Action::RetryAtLevel(1)
            } else {
                Action::Done
            }
        }
    };
    builder.concurrently(listener).await
}
