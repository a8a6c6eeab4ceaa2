//! `metaq message`: single messages, looked up and sent again.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};

use super::connect::{run as run_on, Cluster, ClusterArgs};
use super::console::{say, tell};
use super::fail::Failure;
use super::show::{
    body_of, confirmed, message_columns, message_details, message_row, ConfirmArgs, JsonArg, ListArgs, Listing, Plan,
    When,
};
use super::trace::{trace, TraceMessage};
use crate::client::{Error, Message, Received};
use crate::env::Millis;
use crate::proto::body::client::ConsumeResult;
use crate::proto::message::ids::parse_offset_message_id;

/// Arguments of `metaq message`.
#[derive(Debug, Args)]
pub struct MessageArgs {
    #[command(subcommand)]
    command: MessageCommand,
}

#[derive(Debug, Subcommand)]
enum MessageCommand {
    /// Show a message by its id, with all its properties
    Show(ShowMessage),
    /// Find the messages of a key
    Find(FindMessages),
    Trace(TraceMessage),
    Resend(ResendMessage),
}

/// Arguments of `metaq message show`.
#[derive(Debug, Args)]
pub struct ShowMessage {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// The id of its place, or its producer's id together with `--topic`
    pub id: String,
    /// Where a producer's id is looked for
    #[arg(long)]
    pub topic: Option<String>,
    #[command(flatten)]
    pub json: JsonArg,
}

/// Arguments of `metaq message find`.
#[derive(Debug, Args)]
pub struct FindMessages {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// In which topic
    pub topic: String,
    /// One of the messages' keys
    #[arg(short = 'k', long)]
    pub key: String,
    /// Stored at this time or later: `5m` (ago), `12:30`, `2026-11-30`, `2026-11-30 12:30`
    #[arg(long, value_name = "TIME")]
    pub from: Option<When>,
    /// Stored at this time or before
    #[arg(long, value_name = "TIME")]
    pub to: Option<When>,
    /// At most so many of each broker, which gives no more than 64
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub max: usize,
    #[command(flatten)]
    pub list: ListArgs,
}

/// Send a message again
///
/// As a new message to its topic, so all groups get it; or with `--group` and `--client` to
/// one member of one group, which consumes it now.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct ResendMessage {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The id of its place, or its producer's id together with `--topic`
    id: String,
    /// Where a producer's id is looked for
    #[arg(long)]
    topic: Option<String>,
    /// Send it to this topic instead
    #[arg(long, value_name = "TOPIC", conflicts_with = "group")]
    to: Option<String>,
    /// Have a member of this group consume it
    #[arg(short = 'g', long)]
    group: Option<String>,
    /// Which member; needed only if there are several
    #[arg(long, value_name = "CLIENT", requires = "group")]
    client: Option<String>,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    list: ListArgs,
}

/// Runs `metaq message`.
pub fn run(args: MessageArgs) -> Result<ExitCode> {
    match args.command {
        MessageCommand::Show(args) => run_on(&args.cluster.clone(), |cluster| show(cluster, args)),
        MessageCommand::Find(args) => run_on(&args.cluster.clone(), |cluster| find(cluster, args)),
        MessageCommand::Trace(args) => run_on(&args.cluster.clone(), |cluster| trace(cluster, args)),
        MessageCommand::Resend(args) => run_on(&args.cluster.clone(), |cluster| resend(cluster, args)),
    }
}

/// A message by either id; the newest if it was sent repeatedly.
async fn look_up(cluster: &Cluster, id: &str, topic: Option<&str>) -> Result<Received> {
    if let Some(topic) = topic {
        cluster.route(topic).await?;
        let found = cluster.admin.messages_by_unique_key(topic, id).await?;
        if found.len() > 1 {
            tell!("note: {} messages of {topic} have this id; this is the newest", found.len());
        }
        if let Some(newest) = found.into_iter().next_back() {
            return Ok(newest);
        }
    }
    if parse_offset_message_id(id).is_err() {
        return Err(match topic {
            Some(topic) => not_found(cluster, id).hint(format!("`{topic}` has no such message any more, or not yet")),
            None => Failure::usage(format!("`{id}` does not say where the message is"))
                .hint("a producer's id is looked for in a topic: add `--topic TOPIC`"),
        }
        .into());
    }
    match cluster.admin.message_by_id(id).await {
        Ok(message) => Ok(message),
        Err(Error::Refused { .. }) => Err(not_found(cluster, id).hint("it may have been deleted with its time").into()),
        // A producer's id looks like a place, too; whoever is there is no broker.
        Err(Error::Unreachable { .. } | Error::TimedOut { .. }) if topic.is_none() => {
            let failure = not_found(cluster, id).hint("the broker that this id names does not answer");
            Err(failure.hint("if it is a producer's id, add `--topic TOPIC`").into())
        }
        Err(error) => Err(error.into()),
    }
}

fn not_found(_cluster: &Cluster, id: &str) -> Failure {
    Failure::refused(format!("message `{id}` not found"))
}

/// `metaq message show`
pub async fn show(cluster: Cluster, args: ShowMessage) -> Result<ExitCode> {
    let message = look_up(&cluster, &args.id, args.topic.as_deref()).await?;
    cluster.screen.details(&message_details(&message), args.json);
    if let Some(error) = &message.body_error {
        tell!("warning: the body is shown as it came: {error}");
    }
    Ok(ExitCode::SUCCESS)
}

/// `metaq message find`
pub async fn find(cluster: Cluster, args: FindMessages) -> Result<ExitCode> {
    cluster.route(&args.topic).await?;
    let at = |when: Option<When>, else_at| {
        when.map_or(Millis(else_at), |when| when.resolve(cluster.now(), cluster.screen.zone))
    };
    let (from, to) = (at(args.from, 0), at(args.to, i64::MAX));
    let found = cluster.admin.messages_by_key(&args.topic, &args.key, from, to, args.max).await?;
    let listing = list_of(found.iter(), &args.list);
    cluster.screen.list(&listing, &args.list)?;
    if found.is_empty() {
        let what = format!("topic `{}` has no message with key `{}`", args.topic, args.key);
        return Err(Failure::refused(what)
            .hint("the index follows sends within moments; keys are compared whole")
            .into());
    }
    if !args.list.json.json && args.list.format.is_none() {
        let first = &found[0];
        let show = format!("message show {} --topic {}", first.message_id(), args.topic);
        cluster.hint("see all of one with", &show);
    }
    Ok(ExitCode::SUCCESS)
}

/// Messages as a list, with bodies cut for eyes.
pub fn list_of<'a>(messages: impl Iterator<Item = &'a Received>, args: &ListArgs) -> Listing {
    let mut listing = message_columns("");
    for message in messages {
        let mut row = message_row(message);
        if !args.json.json && args.format.is_none() {
            body_of(&mut row);
        }
        listing.push(row);
    }
    listing
}

/// A message with what its sender gave another, and nothing of what brokers wrote into it.
pub fn copy_of(message: &Received, topic: &str) -> Message {
    let own = message.all_properties().filter(|(name, _)| !is_brokers(name));
    let copy = Message::new(topic, message.body.clone()).flag(message.flag);
    own.fold(copy, |copy, (name, value)| copy.property(name, value))
}

/// Properties that say what happened to one message, so that no other has them.
fn is_brokers(name: &str) -> bool {
    use crate::proto::message::properties as p;
    const OF_ONE_MESSAGE: [&str; 22] = [
        p::UNIQ_KEY,
        p::CLUSTER,
        p::MSG_REGION,
        p::TRACE_ON,
        p::DELAY,
        p::WAIT,
        p::REAL_TOPIC,
        p::REAL_QUEUE_ID,
        p::RETRY_TOPIC,
        p::ORIGIN_MESSAGE_ID,
        p::RECONSUME_TIME,
        p::MAX_RECONSUME_TIMES,
        p::INNER_NUM,
        p::INNER_BASE,
        p::CRC32,
        p::POP_CHECK_POINT,
        p::FIRST_POP_TIME,
        p::TRANSACTION_PREPARED,
        p::TRANSACTION_ID,
        p::PRODUCER_GROUP,
        p::INNER_MULTI_DISPATCH,
        p::INNER_MULTI_QUEUE_OFFSET,
    ];
    OF_ONE_MESSAGE.contains(&name)
}

async fn resend(cluster: Cluster, args: ResendMessage) -> Result<ExitCode> {
    let message = look_up(&cluster, &args.id, args.topic.as_deref()).await?;
    let changes = list_of(std::iter::once(&message), &args.list);
    if let Some(group) = &args.group {
        let member = member(&cluster, group, args.client.as_deref()).await?;
        let plan = Plan { what: format!("have {member} of group {group} consume it now"), changes };
        if confirmed(&cluster.screen, &plan, args.confirm, &args.list)? {
            return consume(&cluster, group, &member, &message).await;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let topic = args.to.as_deref().unwrap_or(&message.topic).to_owned();
    cluster.route(&topic).await?;
    let plan = Plan { what: format!("send it as a new message to topic {topic}"), changes };
    if confirmed(&cluster.screen, &plan, args.confirm, &args.list)? {
        let producer = cluster.client.producer("metaq-resend").timeout(Duration::from_secs(5)).start()?;
        let sent = producer.send(copy_of(&message, &topic)).await?;
        if args.list.json.json {
            let (queue, id) = (&sent.queue, &sent.message_id);
            let line = serde_json::json!({
                "topic": queue.topic, "broker": queue.broker_name, "queue": queue.queue_id, "offset": sent.offset, "id": id,
            });
            say!("{line}");
        } else {
            say!("{}/{}@{}  {}", sent.queue.broker_name, sent.queue.queue_id, sent.offset, sent.message_id);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The member meant, or the only one.
async fn member(cluster: &Cluster, group: &str, named: Option<&str>) -> Result<String> {
    super::group::settings(cluster, group).await?;
    let members = cluster.admin.consumers(group).await?;
    let ids: Vec<_> = members.into_iter().flat_map(|members| members.connection_set).map(|m| m.client_id).collect();
    let show = cluster.command(&format!("group show {group}"));
    match (named, ids.as_slice()) {
        (Some(named), ids) if ids.iter().any(|id| id == named) => Ok(named.to_owned()),
        (Some(named), _) => {
            Err(Failure::refused(format!("group `{group}` has no member `{named}`")).hint(show + " lists them").into())
        }
        (None, []) => Err(Failure::refused(format!("nobody of group `{group}` is connected")).into()),
        (None, [only]) => Ok(only.clone()),
        (None, _) => {
            let failure = Failure::usage(format!("group `{group}` has {} members", ids.len()));
            Err(failure.hint(format!("choose one with `--client CLIENT`; {show} lists them")).into())
        }
    }
}

async fn consume(cluster: &Cluster, group: &str, member: &str, message: &Received) -> Result<ExitCode> {
    let result = cluster.admin.consume_directly(group, member, &message.offset_message_id()).await?;
    if result.consume_result == ConsumeResult::CrSuccess {
        tell!("{member} consumed it in {} ms", result.spent_time_mills);
        return Ok(ExitCode::SUCCESS);
    }
    let remark = result.remark.map_or_else(String::new, |remark| format!(": {remark}"));
    let what = format!("{member} did not consume it ({:?}){remark}", result.consume_result);
    Err(Failure::refused(what).into())
}
