//! `metaq dlq`: messages that a group gave up on.

mod filter;
mod redrive;
mod scan;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

use self::filter::FilterArgs;
use self::redrive::{redrive, RedriveArgs};
use super::connect::{run as run_on, Cluster, ClusterArgs};
use super::fail::Failure;
use super::message::list_of;
use super::show::{Cell, ListArgs, Listing};
use crate::client::{Error, MessageQueue};
use crate::proto::message::names::{dlq_topic, group_of_dlq_topic};

/// In this group's name offsets of dead-letter topics say what was redriven. It exists on every broker.
const MARKS: &str = "TOOLS_CONSUMER";

/// Arguments of `metaq dlq`.
#[derive(Debug, Args)]
pub struct DlqArgs {
    #[command(subcommand)]
    command: DlqCommand,
}

#[derive(Debug, Subcommand)]
enum DlqCommand {
    /// List groups that have dead letters
    List(ListDeadLetters),
    /// Show a group's dead letters
    Show(ShowDeadLetters),
    Redrive(RedriveArgs),
}

#[derive(Debug, Args)]
struct ListDeadLetters {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Args)]
struct ShowDeadLetters {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Which group
    group: String,
    #[command(flatten)]
    filter: FilterArgs,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100)]
    max: usize,
    #[command(flatten)]
    list: ListArgs,
}

/// Runs `metaq dlq`.
pub fn run(args: DlqArgs) -> Result<ExitCode> {
    match args.command {
        DlqCommand::List(args) => run_on(&args.cluster.clone(), |cluster| list(cluster, args)),
        DlqCommand::Show(args) => run_on(&args.cluster.clone(), |cluster| show(cluster, args)),
        DlqCommand::Redrive(args) => run_on(&args.cluster.clone(), |cluster| redrive(cluster, args)),
    }
}

/// A queue of dead letters.
#[derive(Clone, Debug)]
struct DeadQueue {
    queue: MessageQueue,
    min: i64,
    max: i64,
    /// All before this were redriven.
    redriven: i64,
}

/// The queues of a group's dead letters.
///
/// # Errors
/// If there are none, or they cannot be read.
async fn queues(cluster: &Cluster, group: &str) -> Result<Vec<DeadQueue>> {
    let topic = dlq_topic(group);
    if let Err(Error::NoRoute { .. }) = cluster.admin.route(&topic).await {
        let failure = Failure::refused(format!("group `{group}` has no dead letters"));
        return Err(failure.hint(format!("{} shows who has some", cluster.command("dlq list"))).into());
    }
    let readable = cluster.admin.queues(&topic).await?;
    if readable.is_empty() {
        let update = cluster.command(&format!("topic update '{topic}' --perm rw"));
        let failure = Failure::refused(format!("the dead letters of group `{group}` may not be read"));
        return Err(failure.hint(format!("old brokers make them so; {update} allows it")).into());
    }
    let mut queues = Vec::new();
    for queue in readable {
        let (min, max) = (cluster.admin.min_offset(&queue).await?, cluster.admin.max_offset(&queue).await?);
        let redriven = cluster.admin.committed(MARKS, &queue).await?.unwrap_or(min).clamp(min, max);
        queues.push(DeadQueue { queue, min, max, redriven });
    }
    Ok(queues)
}

async fn list(cluster: Cluster, args: ListDeadLetters) -> Result<ExitCode> {
    let topics = cluster.admin.topics().await?;
    let columns = [("group", "GROUP"), ("messages", "MESSAGES"), ("new", "NOT REDRIVEN"), ("newest", "NEWEST")];
    let mut listing = Listing::new(&columns, "no dead letters");
    for group in topics.iter().filter_map(|topic| group_of_dlq_topic(topic)) {
        let stats = match cluster.admin.topic_stats(&dlq_topic(group)).await {
            Err(Error::NoRoute { .. }) => continue,
            other => other?,
        };
        let (mut messages, mut new, mut newest) = (0, 0, 0);
        for (queue, offsets) in &stats.offset_table {
            let redriven = cluster.admin.committed(MARKS, queue).await?.unwrap_or(offsets.min_offset);
            messages += offsets.max_offset - offsets.min_offset;
            new += (offsets.max_offset - redriven.max(offsets.min_offset)).max(0);
            newest = newest.max(offsets.last_update_timestamp);
        }
        listing.push(vec![Cell::text(group), Cell::Number(messages), Cell::Number(new), Cell::time(newest)]);
    }
    cluster.screen.list(&listing, &args.list)?;
    if let (Some(row), false) = (listing.rows.first(), args.list.json.json || args.list.format.is_some()) {
        let Cell::Text(group) = &row[0] else { return Ok(ExitCode::SUCCESS) };
        cluster.hint("see them with", &format!("dlq show {group}"));
    }
    Ok(ExitCode::SUCCESS)
}

async fn show(cluster: Cluster, args: ShowDeadLetters) -> Result<ExitCode> {
    let queues = queues(&cluster, &args.group).await?;
    let filter = args.filter.resolve(&cluster);
    let mut found = Vec::new();
    scan::scan(&cluster, &queues, &filter, async |message| {
        found.push(message);
        Ok(found.len() < args.max)
    })
    .await?;
    let mut listing = list_of(found.iter().map(AsRef::as_ref), &args.list);
    listing.empty = "no such dead letters";
    // Where they failed is what tells them apart.
    listing.columns[0].title = "TOPIC";
    cluster.screen.list(&listing, &args.list)?;
    if !args.list.json.json && args.list.format.is_none() && !listing.rows.is_empty() {
        if found.len() == args.max {
            super::console::tell!("note: there may be more; `--max N` shows them");
        }
        cluster.hint("have the group consume them again with", &format!("dlq redrive {} --dry-run", args.group));
    }
    Ok(ExitCode::SUCCESS)
}
