//! `metaq dlq redrive`: dead letters, consumed again.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;

use super::filter::FilterArgs;
use super::scan::scan;
use super::{queues, DeadQueue, MARKS};
use crate::cli::connect::{Cluster, ClusterArgs};
use crate::cli::console::{say, tell};
use crate::cli::message::{copy_of, list_of};
use crate::cli::show::{confirmed, count, ConfirmArgs, ListArgs, Plan};
use crate::client::{Producer, Received};
use crate::proto::message::names::retry_topic;
use crate::proto::message::properties;

/// The most dead letters that a plan lists.
const LISTED_MAX: usize = 20;

/// Have a group consume its dead letters again
///
/// They are sent to the group's retry topic, so nobody else gets them, with the retries of new
/// messages. What was redriven is marked: the next redrive goes on behind it, unless filters
/// or `--again` choose otherwise. The dead letters themselves stay until retention takes them.
///
/// While a group consumes in order, brokers put what is sent to its retry topic back among the
/// dead letters: stop its members first, or use `--to-topic`.
///
///   metaq dlq redrive billing --dry-run
///   metaq dlq redrive billing --topic Orders --from 2h --yes
///   metaq dlq redrive billing --to-topic Orders --yes        to everybody who consumes Orders
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct RedriveArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// Which group
    group: String,
    #[command(flatten)]
    filter: FilterArgs,
    /// Also those that were redriven before
    #[arg(long)]
    again: bool,
    /// Send them as new messages to this topic instead
    #[arg(long, value_name = "TOPIC")]
    to_topic: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N")]
    max: Option<usize>,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    list: ListArgs,
}

/// `metaq dlq redrive`
pub async fn redrive(cluster: Cluster, args: RedriveArgs) -> Result<ExitCode> {
    let mut queues = queues(&cluster, &args.group).await?;
    // With filters, some before the mark may not have been chosen.
    let from_mark = args.filter.is_empty() && !args.again;
    if from_mark {
        queues.iter_mut().for_each(|queue| queue.min = queue.redriven);
    }
    if let Some(topic) = &args.to_topic {
        cluster.route(topic).await?;
    } else {
        crate::cli::group::settings(&cluster, &args.group).await?;
    }
    let filter = args.filter.resolve(&cluster);
    let max = args.max.unwrap_or(usize::MAX);
    let (mut listed, mut found) = (Vec::new(), 0);
    scan(&cluster, &queues, &filter, async |message| {
        found += 1;
        if listed.len() < LISTED_MAX || args.confirm.dry_run {
            listed.push(message);
        }
        Ok(found < max)
    })
    .await?;
    if found == 0 {
        tell!("there is nothing to redrive");
        if from_mark && queues.iter().any(|queue| queue.redriven > 0) {
            tell!("hint: `--again` takes those that were redriven before");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let to = args.to_topic.as_ref().map_or_else(|| format!("group {}", args.group), |topic| format!("topic {topic}"));
    let mut changes = list_of(listed.iter().map(AsRef::as_ref), &args.list);
    changes.columns[0].title = "TOPIC";
    let plan = Plan { what: format!("send {} to {to}", count(found as i64, "dead letter")), changes };
    if !confirmed(&cluster.screen, &plan, args.confirm, &args.list)? {
        return Ok(ExitCode::SUCCESS);
    }
    let producer = cluster.client.producer("metaq-redrive").timeout(Duration::from_secs(5)).start()?;
    let mut marks = if from_mark { queues.clone() } else { Vec::new() };
    let mut sent = 0;
    let outcome = scan(&cluster, &queues, &filter, async |message| {
        send(&producer, &args, &message).await?;
        sent += 1;
        if let Some(mark) = marks.iter_mut().find(|mark| mark.queue == *message.queue) {
            mark.redriven = message.offset + 1;
        }
        Ok(sent < found)
    })
    .await;
    mark(&cluster, &marks).await?;
    if args.list.json.json {
        say!("{}", json!({ "redriven": sent, "to": to }));
    }
    outcome.with_context(|| format!("{sent} of {found} dead letters were sent to {to}"))?;
    tell!("sent {} to {to}", count(sent as i64, "dead letter"));
    if args.to_topic.is_none() {
        cluster.hint("see whether they are consumed with", &format!("group lag {}", args.group));
    }
    Ok(ExitCode::SUCCESS)
}

async fn send(producer: &Producer, args: &RedriveArgs, message: &Arc<Received>) -> Result<()> {
    let copy = match &args.to_topic {
        Some(topic) => copy_of(message, topic),
        None => {
            let copy = copy_of(message, &retry_topic(&args.group));
            // Consumers see the topic and the id of the message that failed.
            let copy = copy.property(properties::RETRY_TOPIC, &*message.topic);
            copy.property(properties::ORIGIN_MESSAGE_ID, message.message_id())
        }
    };
    producer.send(copy).await?;
    Ok(())
}

/// Says on the brokers what was redriven.
async fn mark(cluster: &Cluster, marks: &[DeadQueue]) -> Result<()> {
    for mark in marks {
        cluster.admin.commit(MARKS, &mark.queue, mark.redriven).await?;
    }
    Ok(())
}
