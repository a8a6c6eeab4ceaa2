//! `metaq tail`: the messages of a topic, as they are and as they come.

mod follow;
mod merge;
mod range;

use std::collections::VecDeque;
use std::future::Future;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use futures::future::{select, Either};

use self::follow::follow;
pub use self::merge::Merge;
use self::range::ranges;
pub use self::range::{is_queue, offset_at, From, Range};
use super::connect::{run as run_on, Cluster, ClusterArgs};
use super::console::tell;
use super::fail::Failure;
use super::show::{count, escaped, message_columns, message_row, Cell, Listing, Screen, Template};
use super::signals;
use crate::client::{ConsumeFrom, PullConsumerBuilder, Received};
use crate::proto::filter::{Sql, SqlError};

/// Messages shown of a topic if it is not said where to begin.
const LAST: u64 = 10;

/// Show the messages of a topic
///
/// Without `--group` nothing is changed: the messages are only looked at. The last ten are
/// shown, or those since `--from`; with `--follow` also all that come from then on.
///
///   metaq tail Orders --follow
///   metaq tail Orders --from begin --tag 'paid || shipped'
///   metaq tail Orders --sql "price > 10 AND region = 'eu'"
///   metaq tail Orders --from 10m --format '{stored} {key} {body}'
///   metaq tail Orders --from begin --json | jq .body
///
/// With `--group` it consumes as a member of that group: its queues are shared with other
/// members, and offsets are committed.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct TailArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Which topic
    topic: String,
    /// Where to begin: `begin`, `end`, an offset, or a time: `5m` (ago), `12:30`, `2026-11-30`, `2026-11-30 12:30`
    #[arg(long, value_name = "PLACE")]
    from: Option<From>,
    /// Where to end: as `--from`, this place excluded
    #[arg(long, value_name = "PLACE", conflicts_with_all = ["follow", "group"])]
    to: Option<From>,
    /// Show the last N messages
    #[arg(short = 'l', long, value_name = "N", conflicts_with_all = ["from", "group"])]
    last: Option<u64>,
    /// End after N messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max: Option<u64>,
    /// Wait for more messages until Ctrl-C
    #[arg(short = 'f', long)]
    follow: bool,
    /// Only messages with one of these tags: `a || b`
    #[arg(short = 't', long, value_name = "TAGS", default_value = "*")]
    tag: String,
    /// Only messages whose properties fit an SQL92 expression: `price > 10 AND region IN ('eu', 'us')`
    #[arg(long, value_name = "EXPRESSION", conflicts_with = "tag", value_parser = expression)]
    sql: Option<String>,
    /// Only this queue: `BROKER/NUMBER` or, of all brokers, `NUMBER`
    #[arg(long, value_name = "QUEUE", conflicts_with = "group")]
    queue: Option<String>,
    /// Consume as a member of this group
    #[arg(short = 'g', long)]
    group: Option<String>,
    /// Print a line of JSON for each message
    #[arg(long)]
    json: bool,
    /// Print a line like this for each message: `{topic} {queue} {offset} {key} {body}`; `\t` and `\n` are understood
    #[arg(long, value_name = "TEMPLATE", conflicts_with = "json")]
    format: Option<String>,
}

/// Checks an expression before a broker has to; what brokers are told is its text.
fn expression(text: &str) -> Result<String, SqlError> {
    Sql::compile(text).map(|_| text.to_owned())
}

impl TailArgs {
    /// Whether not all messages are wanted.
    fn chooses(&self) -> bool {
        self.sql.is_some() || self.tag != "*"
    }

    fn subscribe(&self, builder: PullConsumerBuilder) -> PullConsumerBuilder {
        match &self.sql {
            Some(expression) => builder.subscribe_sql(&self.topic, expression),
            None => builder.subscribe(&self.topic, &self.tag),
        }
    }
}

/// Runs `metaq tail`.
pub fn run(args: TailArgs) -> Result<ExitCode> {
    run_on(&args.cluster.clone(), |cluster| async move {
        let mut printer = Printer::new(cluster.screen, &args)?;
        cluster.route(&args.topic).await?;
        match &args.group {
            Some(group) => consume(&cluster, &args, group, &mut printer).await?,
            None => until_stopped(look(&cluster, &args, &mut printer)).await?.unwrap_or_default(),
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Does some work; `None` if Ctrl-C came before it was done.
async fn until_stopped<T>(work: impl Future<Output = Result<T>>) -> Result<Option<T>> {
    let stopped = signals::stop_requested();
    futures::pin_mut!(work, stopped);
    match select(work, stopped).await {
        Either::Left((done, _)) => done.map(Some),
        Either::Right(_) => Ok(None),
    }
}

/// In no group.
async fn look(cluster: &Cluster, args: &TailArgs, printer: &mut Printer) -> Result<()> {
    let ranges = ranges(cluster, args).await?;
    let waiting: i64 = ranges.iter().map(Range::len).sum();
    if waiting == 0 && !args.follow {
        tell!("there are no messages to show");
        let send = format!("send {} 'a first message'", args.topic);
        cluster.hint("`--from begin` shows all there are, `--follow` waits for more; send one with", &send);
        return Ok(());
    }
    let reader = args.subscribe(cluster.client.reader()).consume_from(ConsumeFrom::First);
    let queues = ranges.iter().map(|range| range.queue.clone()).collect();
    let mut reader = reader.assign(queues).flow_control(256, 16 << 20).start().await?;
    let mut merge = Merge::start(&mut reader, ranges).await?;
    let last = args.last.or_else(|| args.from.is_none().then_some(LAST));
    let mut newest = VecDeque::new();
    while let Some(message) = merge.next(&mut reader).await? {
        let Some(last) = last else {
            if printer.print(&message) != Printed::Fine {
                return Ok(());
            }
            continue;
        };
        newest.push_back(message);
        if newest.len() as u64 > last {
            newest.pop_front();
        }
    }
    for message in newest {
        if printer.print(&message) != Printed::Fine {
            return Ok(());
        }
    }
    if printer.printed == 0 && !args.follow {
        let lack = if args.sql.is_some() { "fits the expression" } else { "has such a tag" };
        tell!("none of the {} there {lack}", count(waiting, "message"));
    }
    if args.follow {
        for message in merge.behind() {
            if printer.print(&message) != Printed::Fine {
                return Ok(());
            }
        }
        follow(&mut reader, |message| printer.print(message)).await?;
    }
    Ok(())
}

/// As a member of a group: until nothing waits, or on and on.
async fn consume(cluster: &Cluster, args: &TailArgs, group: &str, printer: &mut Printer) -> Result<()> {
    let from = match args.from {
        None | Some(From::End) => ConsumeFrom::Last,
        Some(From::Begin) => ConsumeFrom::First,
        Some(From::Time(when)) => ConsumeFrom::Time(when.resolve(cluster.now(), cluster.screen.zone)),
        Some(From::Offset(_)) => {
            let failure = Failure::usage("a group does not begin at one offset in all its queues");
            let reset = cluster.command(&format!("group reset {group} {} --to PLACE", args.topic));
            return Err(failure.hint(format!("move it with {reset}")).into());
        }
    };
    // One at a time: what was polled counts as consumed, so nothing may be polled that is not printed.
    let builder = args.subscribe(cluster.client.pull_consumer(group)).consume_from(from).poll_max(1);
    let mut consumer = builder.start().await?;
    let work = follow::consume(cluster, &mut consumer, args.follow, |message| printer.print(message));
    let outcome = until_stopped(work).await;
    if matches!(outcome, Ok(Some(Printed::Unheard))) {
        drop(consumer);
    } else {
        consumer.close().await;
    }
    outcome.map(drop)
}

/// What came of printing a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Printed {
    /// There may be more.
    Fine,
    /// It was the last one wanted.
    Enough,
    /// Nobody reads any more.
    Unheard,
}

/// Prints messages one by one.
struct Printer {
    screen: Screen,
    columns: Listing,
    template: Option<Template>,
    json: bool,
    left: u64,
    printed: u64,
}

impl Printer {
    fn new(screen: Screen, args: &TailArgs) -> Result<Printer> {
        let columns = message_columns("");
        let template = args.format.as_deref().map(Template::parse).transpose()?;
        if let Some(template) = &template {
            template.check(columns.columns.iter().map(|column| column.key))?;
        }
        Ok(Printer { screen, columns, template, json: args.json, left: args.max.unwrap_or(u64::MAX), printed: 0 })
    }

    fn print(&mut self, message: &Received) -> Printed {
        let row = message_row(message);
        let line = match &self.template {
            Some(template) => template.fill(|name| self.columns.cell(&row, name), &self.screen),
            None if self.json => self.columns.object(&row).to_string().into_bytes(),
            None => self.for_eyes(message),
        };
        if !self.screen.line(&line) {
            return Printed::Unheard;
        }
        self.printed += 1;
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            Printed::Enough
        } else {
            Printed::Fine
        }
    }

    fn for_eyes(&self, message: &Received) -> Vec<u8> {
        let time = Cell::Time(message.stored_at).human(self.screen.zone);
        let place = format!("{}/{}@{}", message.queue.broker_name, message.queue.queue_id, message.offset);
        let mut line = format!("{time}  {place}  ");
        if let Some(tag) = message.tag() {
            line += &format!("[{}] ", escaped(tag.as_bytes()));
        }
        let keys: Vec<_> = message.keys().collect();
        if !keys.is_empty() {
            line += &format!("{}: ", escaped(keys.join(" ").as_bytes()));
        }
        line += &escaped(&message.body);
        line.into_bytes()
    }
}
