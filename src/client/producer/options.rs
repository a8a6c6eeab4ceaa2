//! How a producer is set up.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::gather::Gathering;
use super::{Choices, Inner, Producer, SendError, Target};
use crate::audit::{self, file::Entry};
use crate::client::members::Checker;
use crate::client::{Client, CompressionType, Error, Message};
use crate::proto::message::names::validate_group;

/// What a producer does. The defaults are those of RocketMQ's clients.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub timeout: Duration,
    pub retries: u32,
    pub compress_above: Option<usize>,
    pub compress_with: CompressionType,
    pub body_max: usize,
    pub default_queues: i32,
    pub auto_batch: Option<AutoBatch>,
    pub in_flight_max: usize,
    pub in_flight_bytes_max: usize,
}

/// When a batch that gathers by itself is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoBatch {
    /// Bytes of bodies and properties that make it full; 32 KiB.
    pub bytes: usize,
    /// How long its first message waits for others; 10 ms.
    pub hold: Duration,
}

impl Default for AutoBatch {
    fn default() -> AutoBatch {
        AutoBatch { bytes: 32 * 1024, hold: Duration::from_millis(10) }
    }
}

/// Makes a [`Producer`].
#[must_use = "a producer begins with `start`"]
pub struct ProducerBuilder {
    client: Client,
    group: String,
    settings: Settings,
}

impl Client {
    /// A producer of a group, to be set up and started.
    pub fn producer(&self, group: impl Into<String>) -> ProducerBuilder {
        let settings = Settings {
            timeout: Duration::from_secs(3),
            retries: 2,
            compress_above: Some(4096),
            compress_with: CompressionType::Zlib,
            body_max: 4 * 1024 * 1024,
            default_queues: 4,
            auto_batch: None,
            in_flight_max: 1024,
            in_flight_bytes_max: 100 * 1024 * 1024,
        };
        ProducerBuilder { client: self.clone(), group: group.into(), settings }
    }
}

impl ProducerBuilder {
    /// How long a send may take with all its attempts; 3 s. A broker that flushes before it answers may take 5 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = timeout;
        self
    }

    /// How often a send that failed is tried again; twice.
    pub fn retries(mut self, retries: u32) -> Self {
        self.settings.retries = retries;
        self
    }

    /// Bodies from so many bytes on travel compressed, unless that makes them no smaller; 4096. `None`: none do.
    pub fn compress_above(mut self, bytes: Option<usize>) -> Self {
        self.settings.compress_above = bytes;
        self
    }

    /// How bodies are compressed; zlib. Consumers of other makes may not read the other ones.
    pub fn compress_with(mut self, kind: CompressionType) -> Self {
        self.settings.compress_with = kind;
        self
    }

    /// The longest body, and the longest batch, in bytes; 4 MiB, as brokers have it.
    pub fn body_max(mut self, bytes: usize) -> Self {
        self.settings.body_max = bytes;
        self
    }

    /// Queues that a topic gets on each broker if the first send creates it; 4.
    pub fn default_queues(mut self, queues: i32) -> Self {
        self.settings.default_queues = queues.max(1);
        self
    }

    /// [`Producer::send`] gathers messages of one topic and sends them together. Each waits for its batch.
    pub fn auto_batch(mut self, batch: AutoBatch) -> Self {
        self.settings.auto_batch = Some(batch);
        self
    }

    /// Messages, and bytes of their bodies, that may be under way; 1024 and 100 MiB. Further sends wait, within their
    /// time-out.
    pub fn in_flight_max(mut self, messages: usize, bytes: usize) -> Self {
        self.settings.in_flight_max = messages.clamp(1, Semaphore::MAX_PERMITS);
        self.settings.in_flight_bytes_max = bytes.clamp(1024, u32::MAX as usize);
        self
    }

    /// Joins the group. Brokers are told with the next heartbeat, and when they are connected to.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an illegal group name, or if this client has a producer of the group already.
    pub fn start(self) -> Result<Producer, Error> {
        self.join(None)
    }

    pub(super) fn join(self, checker: Option<Checker>) -> Result<Producer, Error> {
        validate_group(&self.group).map_err(|error| Error::Invalid(error.to_string()))?;
        let client = Arc::clone(&self.client.shared);
        client.join_producers(&self.group, checker)?;
        if let Some(recorder) = client.recorder.get() {
            let timeout_us = self.settings.timeout.as_micros() as u64;
            recorder.tell(Entry::Producer(audit::file::Producer { retries: self.settings.retries, timeout_us }));
        }
        Ok(self.build())
    }

    /// Sends a message of the library's own in the name of a group that nobody joins: no recorder and no trace is told.
    pub(in crate::client) async fn send_unnoticed(self, message: Message) -> Result<(), SendError> {
        let producer = self.build();
        producer.inner.send_unnoticed(message, Target::Any).await.map(drop)
    }

    fn build(self) -> Producer {
        let gathering = Gathering::new(self.settings.auto_batch.unwrap_or_default().bytes.min(self.settings.body_max));
        Producer {
            inner: Arc::new(Inner {
                client: self.client.shared,
                group: self.group,
                choices: Mutex::new(Choices::default()),
                gathering: Mutex::new(gathering),
                messages: Semaphore::new(self.settings.in_flight_max),
                kib: Semaphore::new(self.settings.in_flight_bytes_max / 1024),
                settings: self.settings,
            }),
        }
    }
}
