//! `metaq send`: messages from the command line, from standard input, from a file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use futures::stream::{self, StreamExt};
use serde_json::json;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, BufReader};

use super::connect::{run as run_on, Cluster, ClusterArgs};
use super::console::{say, tell};
use super::fail::Failure;
use super::show::{count, duration_of, JsonArg, Progress, When};
use crate::client::{CompressionType, Durability, Message, Producer, SendError, Sent};
use crate::env::OpenMode;
use crate::proto::message::DelayLevels;

/// Sends under way at once when lines come from standard input.
const IN_FLIGHT: usize = 64;
/// Results of so many messages are listed one by one.
const LISTED_MAX: u64 = 10;
/// The longest line, and the longest file: what brokers take is less.
const BODY_MAX: u64 = 128 * 1024 * 1024;

/// Send messages
///
/// With bodies on the command line, each is a message. Without, each line of standard input
/// is one; empty lines are left out. With `-f` the whole file is one.
///
///   metaq send Orders 'a book' 'a pen' --tag paid
///   metaq send Orders -k order-17 --ordered 'a book'     same key, same queue: in order
///   metaq send Orders --delay 10s 'a reminder'
///   metaq send Orders --at 18:30 'time to go'
///   metaq send Orders < lines.txt
///   seq 5 | sed 's/^/order-&:/' | metaq send Orders --split :
///
/// A topic that is not there is made by the first message, where brokers allow it.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct SendArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Where to
    pub topic: String,
    /// What to say; without it, one message a line from standard input
    #[arg(value_name = "BODY")]
    pub bodies: Vec<String>,
    /// Send this file as one message; `-` is standard input
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "bodies")]
    pub file: Option<PathBuf>,
    /// Tag, by which subscriptions can choose
    #[arg(short = 't', long)]
    pub tag: Option<String>,
    /// Key, by which messages can be found; as often as needed
    #[arg(short = 'k', long = "key", value_name = "KEY")]
    pub keys: Vec<String>,
    /// Property of your own, as often as needed
    #[arg(short = 'p', long = "property", value_name = "NAME=VALUE")]
    pub properties: Vec<String>,
    /// Deliver later: after a time (`10s`, `5m`, `36h`), or by the number of one of the broker's delays
    #[arg(long, value_name = "DELAY")]
    pub delay: Option<String>,
    /// Deliver at a time: `18:30`, `2026-12-24 18:00`, milliseconds since 1970
    #[arg(long, value_name = "TIME", conflicts_with = "delay")]
    pub at: Option<When>,
    /// Send in order to the queue of the (first) key
    #[arg(long)]
    pub ordered: bool,
    /// What stands before this in a line is its key
    #[arg(long, value_name = "SEPARATOR", conflicts_with_all = ["bodies", "file"])]
    pub split: Option<String>,
    /// How long a send may take with all its attempts
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    pub timeout: u64,
    /// How bodies of 4096 bytes and more are compressed
    #[arg(long, value_name = "HOW", default_value = "zlib")]
    pub compress: Compress,
    #[command(flatten)]
    pub json: JsonArg,
    /// Print nothing about messages that were sent
    #[arg(short = 'q', long)]
    pub quiet: bool,
}

/// What may be said of compression.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Compress {
    /// Every RocketMQ client reads it
    Zlib,
    /// Fast; Java clients from 4.9.4 on read it
    Lz4,
    /// Small; Java clients from 4.9.4 on read it
    Zstd,
    /// Send them as they are
    None,
}

/// A message, and the key it is ordered by.
struct Outgoing {
    message: Message,
    key: Option<String>,
}

/// Runs `metaq send`.
pub fn run(args: SendArgs) -> Result<ExitCode> {
    run_on(&args.cluster.clone(), |cluster| send(cluster, args))
}

async fn send(cluster: Cluster, args: SendArgs) -> Result<ExitCode> {
    let mut template = template(&args)?;
    if let Some(at) = args.at {
        template = template.deliver_at(at.resolve(cluster.now(), cluster.screen.zone));
    }
    let timeout = Duration::from_secs(args.timeout.max(1));
    let producer = cluster.client.producer("metaq-send").timeout(timeout);
    let producer = match args.compress {
        Compress::Zlib => producer.compress_with(CompressionType::Zlib),
        Compress::Lz4 => producer.compress_with(CompressionType::Lz4),
        Compress::Zstd => producer.compress_with(CompressionType::Zstd),
        Compress::None => producer.compress_above(None),
    };
    let producer = producer.start()?;
    let sender = Sender { producer, template, args: &args };
    let mut told = Told { cluster: &cluster, args: &args, sent: 0, progress: None };
    let outcome = sender.send_all(&cluster, &mut told).await;
    let sent = told.sent;
    drop(told);
    if let Err(error) = outcome {
        if sent > 0 {
            tell!("note: at least {} went before this", count(sent as i64, "message"));
        }
        return Err(explained(&cluster, &args.topic, error).await);
    }
    if sent == 0 {
        return Err(Failure::usage("there was nothing to send").hint("empty lines are left out").into());
    }
    if sent > LISTED_MAX && !args.quiet && !args.json.json {
        tell!("sent {} to {}", count(sent as i64, "message"), args.topic);
    }
    Ok(ExitCode::SUCCESS)
}

/// The message that all have in common.
fn template(args: &SendArgs) -> Result<Message> {
    let mut message = Message::new(&args.topic, "");
    if let Some(tag) = &args.tag {
        message = message.tag(tag);
    }
    for key in &args.keys {
        message = message.key(key);
    }
    for property in &args.properties {
        let Some((name, value)) = property.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(Failure::usage(format!("`--property {property}` is no NAME=VALUE")).into());
        };
        message = message.property(name, value);
    }
    if let Some(delay) = &args.delay {
        message = delayed(message, delay)?;
    }
    if args.ordered && args.keys.is_empty() && args.split.is_none() {
        return Err(Failure::usage("`--ordered` needs a key to order by")
            .hint("add `--key KEY` or `--split :`")
            .into());
    }
    Ok(message)
}

/// Delayed by a level if there is one, which every broker knows, else by a time of its own.
fn delayed(message: Message, text: &str) -> Result<Message> {
    let levels = DelayLevels::default();
    if let Ok(level @ 1..) = text.parse::<u8>() {
        return Ok(message.delay_level(level));
    }
    let Some(delay) = duration_of(text).and_then(|delay| u64::try_from(delay).ok()) else {
        let failure = Failure::usage(format!("`{text}` is no time to wait"));
        return Err(failure.hint("it is like `10s`, `5m` or `36h`, or the number of a broker's delay").into());
    };
    let level = (1..=levels.max()).find(|level| levels.delay_ms(*level).is_some_and(|ms| ms as u64 == delay));
    Ok(match level.and_then(|level| u8::try_from(level).ok()) {
        Some(level) => message.delay_level(level),
        None => message.delay(Duration::from_millis(delay)),
    })
}

struct Sender<'a> {
    producer: Producer,
    template: Message,
    args: &'a SendArgs,
}

impl Sender<'_> {
    async fn send_all(&self, cluster: &Cluster, told: &mut Told<'_>) -> Result<()> {
        if let Some(file) = &self.args.file {
            let message = self.message(read_file(cluster, file).await?, None);
            return told.sent(&self.send_one(message).await?);
        }
        if !self.args.bodies.is_empty() {
            for body in &self.args.bodies {
                let message = self.message(body.clone().into_bytes(), None);
                told.sent(&self.send_one(message).await?)?;
            }
            return Ok(());
        }
        let mut lines = Box::pin(lines(BufReader::new(tokio::io::stdin())));
        // The first may have to make the topic, and the others would overtake it.
        let Some(first) = lines.next().await else { return Ok(()) };
        told.sent(&self.send_one(self.line(first?)?).await?)?;
        // Ordered ones wait for each other: a failed one must not be overtaken.
        let in_flight = if self.args.ordered { 1 } else { IN_FLIGHT };
        let sends = lines.map(|line| async move { Ok(self.send_one(self.line(line?)?).await?) });
        let mut results = Box::pin(sends.buffered(in_flight));
        while let Some(result) = results.next().await {
            let result: Result<Sent> = result;
            told.sent(&result?)?;
        }
        Ok(())
    }

    fn message(&self, body: Vec<u8>, key: Option<String>) -> Outgoing {
        let mut message = self.template.clone().with_body(body);
        if let Some(key) = &key {
            message = message.key(key);
        }
        let key = key.or_else(|| self.args.keys.first().cloned());
        Outgoing { message, key }
    }

    fn line(&self, line: Vec<u8>) -> Result<Outgoing> {
        let Some(separator) = &self.args.split else { return Ok(self.message(line, None)) };
        let at = memchr::memmem::find(&line, separator.as_bytes()).filter(|at| *at > 0);
        let key = at.and_then(|at| std::str::from_utf8(&line[..at]).ok());
        let (Some(at), Some(key)) = (at, key) else {
            let text = String::from_utf8_lossy(&line).into_owned();
            return Err(Failure::usage(format!("the line `{text}` has no key before a `{separator}`")).into());
        };
        Ok(self.message(line[at + separator.len()..].to_vec(), Some(key.to_owned())))
    }

    async fn send_one(&self, outgoing: Outgoing) -> Result<Sent, SendError> {
        match &outgoing.key {
            Some(key) if self.args.ordered => self.producer.send_ordered(outgoing.message, key).await,
            _ => self.producer.send(outgoing.message).await,
        }
    }
}

/// What was said about messages that were sent.
struct Told<'a> {
    cluster: &'a Cluster,
    args: &'a SendArgs,
    sent: u64,
    progress: Option<Progress>,
}

impl Told<'_> {
    fn sent(&mut self, sent: &Sent) -> Result<()> {
        self.sent += 1;
        let queue = format!("{}/{}", sent.queue.broker_name, sent.queue.queue_id);
        let durability = durability(sent.durability);
        if self.args.json.json {
            let line = json!({
                "topic": sent.queue.topic,
                "broker": sent.queue.broker_name,
                "queue": sent.queue.queue_id,
                "offset": sent.offset,
                "id": sent.message_id,
                "offsetId": sent.offset_message_id,
                "recallHandle": sent.recall_handle,
                "durability": durability,
            });
            say!("{line}");
        } else if !self.args.quiet && self.sent <= LISTED_MAX {
            let warning = if sent.durability == Durability::AsAsked { "" } else { durability };
            say!("{}", format!("{queue}@{}  {}  {warning}", sent.offset, sent.message_id).trim_end());
        } else {
            let clock = &self.cluster.env.clock;
            self.progress.get_or_insert_with(|| Progress::new(clock, "sending", None)).at(self.sent);
        }
        Ok(())
    }
}

fn durability(durability: Durability) -> &'static str {
    match durability {
        Durability::AsAsked => "stored",
        Durability::NotFlushed => "stored, not flushed in time",
        Durability::NotReplicated => "stored, not replicated in time",
        Durability::NoReplica => "stored, no replica there",
    }
}

/// Lines that are not empty, without their ends.
fn lines(input: impl AsyncBufRead + Unpin) -> impl stream::Stream<Item = Result<Vec<u8>>> {
    stream::try_unfold(input, |mut input| async move {
        loop {
            let mut line = Vec::new();
            let read = (&mut input).take(BODY_MAX).read_until(b'\n', &mut line).await;
            if read.context("standard input cannot be read")? == 0 {
                return Ok(None);
            }
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            if !line.is_empty() {
                return Ok(Some((line, input)));
            }
        }
    })
}

async fn read_file(cluster: &Cluster, path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        tokio::io::stdin().take(BODY_MAX).read_to_end(&mut bytes).await.context("standard input cannot be read")?;
        return Ok(bytes);
    }
    let unreadable = || format!("{} cannot be read", path.display());
    let file = cluster.env.disk.open(path, OpenMode::Read).with_context(unreadable)?;
    bytes.resize(file.len().with_context(unreadable)?.min(BODY_MAX) as usize, 0);
    let read = file.read_at(0, &mut bytes).with_context(unreadable)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// With the name of the topic that was probably meant.
async fn explained(cluster: &Cluster, topic: &str, error: anyhow::Error) -> anyhow::Error {
    let no_route = error
        .downcast_ref::<SendError>()
        .is_some_and(|error| matches!(error.error, crate::client::Error::NoRoute { .. }));
    if no_route {
        return match cluster.admin.route(topic).await {
            Ok(_) => {
                let update = cluster.command(&format!("topic update {topic} --perm rw"));
                let failure = Failure::refused(format!("topic `{topic}` may not be written to"));
                failure.hint(format!("{update} allows it")).into()
            }
            Err(_) => cluster.no_topic(topic).await.into(),
        };
    }
    error
}
