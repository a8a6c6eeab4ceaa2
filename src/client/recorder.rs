//! Keeps what producers and consumers did and saw in a history file, for `metaq audit`.
//!
//! Events gather in memory, at most [`GATHERED_MAX`] of them. A task writes them every 100 ms; whoever fills the buffer
//! writes it at once, and so does a commit, so that nobody's progress is known to a broker and not to the history.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use super::error::Error;
use super::message::{Message, Received};
use super::producer::{Durability, SendError, Sent};
use super::rules::retry::certainly_not_stored;
use super::{Client, MessageQueue};
use crate::audit::file::{encode, Block, Consumer, Entry, Zero, FILE_LEN_MAX};
use crate::audit::history::{Event, Place, Queue};
use crate::audit::mark::{number, Mark, FOREIGN, PROPERTY};
use crate::env::{Env, File, OpenMode};
use crate::proto::message::{delay_levels, properties, DelayLevels};

/// Events that wait to be written, at most.
const GATHERED_MAX: usize = 16 * 1024;
/// How often they are written.
const PERIOD: Duration = Duration::from_millis(100);

/// A history file of this process. Cheap to clone; one serves any number of clients.
///
/// Recorded messages get a property (`metaqAudit`) that says which one each is and what its body was; others are recorded
/// by their place when they are consumed.
///
/// ```
/// # use metaq::client::{Message, Recorder};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (env, data) = (metaq::env::real::env(), tempfile::tempdir()?);
/// # let cluster = metaq::Embedded::start(&env, data.path(), "").await?;
/// # let client = metaq::client::Client::new(&env, cluster.nameserver())?;
/// let history = data.path().join("orders.history");
/// let recorder = Recorder::create(client.env(), &history)?;
/// client.record(&recorder)?;
/// client.producer("order-service").start()?.send(Message::new("Orders", "a book")).await?;
/// recorder.close()?;
/// # assert!(std::fs::metadata(&history)?.len() > 0);
/// # client.close().await;
/// # cluster.stop().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Recorder {
    inner: Arc<Inner>,
}

struct Inner {
    env: Env,
    /// Tells histories apart, and their messages; not 0, which is no recorder's.
    id: u32,
    name: String,
    path: PathBuf,
    gathered: Mutex<Gathered>,
    /// Held while blocks are written, so that they come in order.
    file: Mutex<Output>,
}

#[derive(Default)]
struct Gathered {
    entries: Vec<Entry>,
    zero: Zero,
    messages: u32,
    closed: bool,
}

struct Output {
    file: Arc<dyn File>,
    len: u64,
    /// Why nothing is written any more.
    failed: Option<String>,
}

impl Client {
    /// Has everything recorded that this client's producers and consumers do from now on. Call it before they start, once.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the client is recorded already.
    pub fn record(&self, recorder: &Recorder) -> Result<(), Error> {
        let set = self.shared.recorder.set(recorder.clone());
        set.map_err(|_| Error::Invalid("the client is recorded already".into()))
    }
}

impl Recorder {
    /// Begins a history. The file must not be there; by custom its name ends in `.history`.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be made.
    pub fn create(env: &Env, path: impl AsRef<Path>) -> Result<Recorder, Error> {
        let path = path.as_ref().to_owned();
        let made = env.disk.open(&path, OpenMode::CreateNew);
        let file = made.map_err(|error| Error::File(format!("history {} cannot be made: {error}", path.display())))?;
        let id = env.rng.next_u64() as u32 | 1;
        let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let mut output = Output { file, len: 0, failed: None };
        // A history of nothing is a history too.
        let first = Block { recorder: id, name: name.clone(), zero_us: 0, entries: Vec::new() };
        output.write(&first).map_err(|error| Error::File(format!("history {}: {error}", path.display())))?;
        let inner =
            Arc::new(Inner { env: env.clone(), id, name, path, gathered: Mutex::default(), file: Mutex::new(output) });
        ractor::concurrency::spawn(write_now_and_then(Arc::downgrade(&inner), env.clone()));
        Ok(Recorder { inner })
    }

    /// Adds what somebody did or saw who is neither producer nor consumer of the library.
    pub fn add(&self, event: Event) {
        self.add_all([event]);
    }

    /// Adds all that lies in a queue at the end, as a reader gets it.
    pub fn found(&self, message: &Received) {
        self.add(Event::Found(number_of(message), place_of(message)));
    }

    /// Says that all messages of a topic were [`Recorder::found`] that are there.
    pub fn read(&self, topic: &str) {
        self.gather(|at_us| [Entry::Read(at_us, topic.into())]);
    }

    /// Writes what has gathered.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be written; the history ends there, and its verdict will say so.
    pub fn flush(&self) -> Result<(), Error> {
        self.inner.flush()
    }

    /// Ends the history: everything was told. What is added later is not.
    ///
    /// # Errors
    /// As [`Recorder::flush`].
    pub fn close(&self) -> Result<(), Error> {
        {
            let mut gathered = self.inner.gathered();
            if !gathered.closed {
                gathered.entries.push(Entry::End);
                gathered.closed = true;
            }
        }
        self.inner.flush()
    }

    pub(super) fn tell(&self, entry: Entry) {
        self.gather(|_| [entry]);
    }

    fn add_all(&self, events: impl IntoIterator<Item = Event>) {
        self.gather(|at_us| events.into_iter().map(move |event| Entry::Event(at_us, event)));
    }

    /// Adds entries made of the present time in microseconds.
    fn gather<I: IntoIterator<Item = Entry>>(&self, entries: impl FnOnce(u64) -> I) {
        let full = {
            let mut gathered = self.inner.gathered();
            if gathered.closed {
                return;
            }
            // Looked at with the lock held, so that times and order agree.
            let clock = &self.inner.env.clock;
            let (wall, monotonic) = (clock.now().0, clock.monotonic().as_micros() as u64);
            gathered.zero.look(wall, monotonic);
            gathered.entries.extend(entries(monotonic));
            gathered.entries.len() >= GATHERED_MAX
        };
        if full {
            // Why it failed is told by whoever closes it.
            let _ = self.inner.flush();
        }
    }

    /// Messages are about to be sent: marks them.
    pub(super) fn sending(&self, messages: &mut [Message]) -> Sending {
        let first = {
            let mut gathered = self.inner.gathered();
            let first = gathered.messages;
            gathered.messages = first.wrapping_add(messages.len() as u32);
            first
        };
        let mut under_way = Vec::with_capacity(messages.len());
        for (message, count) in messages.iter_mut().zip(0..) {
            let number = number(self.inner.id, first.wrapping_add(count));
            let mark = Mark::new(number, &message.body).encode();
            message.properties.insert(PROPERTY.to_owned(), mark);
            under_way.push((number, Promise::of(message)));
        }
        self.add_all(under_way.iter().map(|(number, _)| Event::Sending(*number)));
        Sending { recorder: self.clone(), messages: under_way }
    }

    /// A consumer of `group` is done with messages, or whoever asked for them has them.
    pub(super) fn consumed<'a>(&self, group: &str, messages: impl IntoIterator<Item = &'a Arc<Received>>) {
        let group: Arc<str> = group.into();
        let events = messages.into_iter().flat_map(|message| {
            let got = Event::Consumed(group.clone(), number_of(message), place_of(message));
            std::iter::once(got).chain(damage(message).map(|what| {
                tracing::error!(message = message.message_id(), what, "a message did not arrive whole");
                Event::Damaged(group.clone(), queue_of(&message.queue), what)
            }))
        });
        // Not within the lock: bodies are read.
        self.add_all(events.collect::<Vec<_>>());
    }

    pub(super) fn handing_back(&self, group: &str, message: &Received) {
        self.add(Event::HandingBack(group.into(), number_of(message)));
    }

    /// A broker took a message back; it comes again unless it is `hopeless`.
    pub(super) fn handed_back(&self, group: &str, message: &Received, hopeless: bool) {
        let event = if hopeless { Event::GivenUp } else { Event::HandedBack };
        self.add(event(group.into(), number_of(message)));
    }

    pub(super) fn began(&self, group: &str, queue: &MessageQueue, offset: i64) {
        self.add(Event::Began(group.into(), (queue_of(queue), offset.max(0) as u64)));
    }

    /// A broker told where a group is in a queue.
    pub(super) fn told_offset(&self, group: &str, queue: &MessageQueue, offset: Option<i64>) {
        let offset = offset.and_then(|offset| u64::try_from(offset).ok());
        self.add(Event::Offset(group.into(), queue_of(queue), offset));
    }

    /// An offset is about to be committed: everything before it must be in the file.
    pub(super) fn committing(&self, group: &str, queue: &MessageQueue, offset: i64) {
        self.add(Event::Committing(group.into(), (queue_of(queue), offset.max(0) as u64)));
        let _ = self.inner.flush();
    }

    pub(super) fn committed(&self, group: &str, queue: &MessageQueue, offset: i64) {
        self.add(Event::Committed(group.into(), (queue_of(queue), offset.max(0) as u64)));
    }

    pub(super) fn consumer(&self, consumer: Consumer) {
        self.tell(Entry::Consumer(consumer));
    }
}

impl Inner {
    fn gathered(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().expect("no holder panics")
    }

    fn flush(&self) -> Result<(), Error> {
        let mut output = self.file.lock().expect("no holder panics");
        let (entries, zero) = {
            let mut gathered = self.gathered();
            (std::mem::take(&mut gathered.entries), gathered.zero)
        };
        if output.failed.is_none() && !entries.is_empty() {
            let block = Block { recorder: self.id, name: self.name.clone(), zero_us: zero.at_us(), entries };
            if let Err(error) = output.write(&block) {
                tracing::error!(path = %self.path.display(), error, "the history ends here");
                output.failed = Some(error);
            }
        }
        match &output.failed {
            None => Ok(()),
            Some(error) => Err(Error::File(format!("history {} is not complete: {error}", self.path.display()))),
        }
    }
}

impl Output {
    fn write(&mut self, block: &Block) -> Result<(), String> {
        let bytes = encode(block).map_err(|error| error.to_string())?;
        if self.len + bytes.len() as u64 > FILE_LEN_MAX {
            return Err(format!("it has {FILE_LEN_MAX} bytes, the most there may be"));
        }
        self.file.write_at(self.len, &bytes).map_err(|error| error.to_string())?;
        self.len += bytes.len() as u64;
        Ok(())
    }
}

async fn write_now_and_then(inner: Weak<Inner>, env: Env) {
    loop {
        env.clock.sleep(PERIOD).await;
        let Some(inner) = inner.upgrade() else { return };
        let _ = inner.flush();
        if inner.gathered().closed {
            return;
        }
    }
}

impl Drop for Inner {
    /// Nobody closed it, so it does not end: but what is known is kept.
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

/// What a broker's answer to a send promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Promise {
    /// That the message is stored where the answer says.
    Stored,
    /// That it will be delivered after this time.
    Later(Duration),
    /// Nothing that could be asked for later.
    Nothing,
}

impl Promise {
    fn of(message: &Message) -> Promise {
        let property = |name: &str| message.properties.get(name).map(String::as_str);
        let moves = |name: &&String| name.starts_with("TIMER_") || *name == properties::TRANSACTION_PREPARED;
        if property(properties::WAIT) == Some("false") || message.properties.keys().any(|name| moves(&name)) {
            return Promise::Nothing;
        }
        let Some(level) = property(properties::DELAY) else { return Promise::Stored };
        match level.parse::<i32>().ok().and_then(delay_of) {
            Some(delay) => Promise::Later(delay),
            None => Promise::Nothing,
        }
    }
}

/// The delay of a level by RocketMQ's default table; a cluster that has another one is not to be recorded with delays.
fn delay_of(level: i32) -> Option<Duration> {
    let delay_ms = DelayLevels::parse(delay_levels::DEFAULT).ok()?.delay_ms(level)?;
    Some(Duration::from_millis(u64::try_from(delay_ms).ok()?))
}

/// Messages that are being sent. If nobody says how it ended, nobody knows.
pub(super) struct Sending {
    recorder: Recorder,
    messages: Vec<(u64, Promise)>,
}

impl Sending {
    /// What came of it.
    pub fn ended(mut self, result: &Result<Vec<Sent>, SendError>) {
        let messages = std::mem::take(&mut self.messages);
        let events: Vec<Event> = match result {
            Ok(sent) => messages.into_iter().zip(sent).map(|(message, sent)| told(message, sent)).collect(),
            Err(error) if may_be_stored(error) => unknown(messages).collect(),
            Err(_) => messages.into_iter().map(|(number, _)| Event::Refused(number)).collect(),
        };
        self.recorder.add_all(events);
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if !self.messages.is_empty() {
            let messages = std::mem::take(&mut self.messages);
            self.recorder.add_all(unknown(messages));
        }
    }
}

fn unknown(messages: Vec<(u64, Promise)>) -> impl Iterator<Item = Event> {
    messages.into_iter().map(|(number, _)| Event::Unknown(number))
}

fn told((number, promise): (u64, Promise), sent: &Sent) -> Event {
    match promise {
        // Stored, but not as safely as was asked for: nobody may rely on it.
        _ if sent.durability != Durability::AsAsked => Event::Unknown(number),
        Promise::Stored => Event::Acknowledged(number, (queue_of(&sent.queue), sent.offset.max(0) as u64)),
        Promise::Later(delay) => Event::Scheduled(number, delay),
        Promise::Nothing => Event::Unknown(number),
    }
}

/// Whether some attempt may have stored the message; unlike [`SendError::may_be_stored`] no refusal is trusted that RocketMQ
/// may give for a message that it stored.
fn may_be_stored(error: &SendError) -> bool {
    error.attempts.iter().any(|attempt| match &attempt.error {
        Error::Refused { code, .. } => !certainly_not_stored(*code),
        Error::Closed => true,
        other => other.outcome_unknown(),
    })
}

fn queue_of(queue: &MessageQueue) -> Queue {
    Queue::new(&queue.broker_name, &queue.topic, queue.queue_id.max(0) as u32)
}

fn place_of(message: &Received) -> Place {
    (queue_of(&message.queue), message.offset.max(0) as u64)
}

fn mark_of(message: &Received) -> Option<Mark> {
    message.property(PROPERTY).and_then(Mark::decode)
}

fn number_of(message: &Received) -> u64 {
    mark_of(message).map_or(FOREIGN, |mark| mark.message)
}

/// What is wrong with a message's body, if anything is and it can be told.
fn damage(message: &Received) -> Option<String> {
    if let Some(error) = &message.body_error {
        return Some(format!("the body at {} cannot be unpacked: {error}", message.offset));
    }
    let whole = mark_of(message).is_none_or(|mark| mark.fits(&message.body));
    (!whole).then(|| format!("the body at {} is not the one that was sent", message.offset))
}
