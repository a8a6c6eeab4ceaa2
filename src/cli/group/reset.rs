//! `metaq group reset`: having a group consume again, or skip.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::settings;
use crate::cli::connect::{Cluster, ClusterArgs};
use crate::cli::console::tell;
use crate::cli::fail::Failure;
use crate::cli::show::{confirmed, count, Cell, ConfirmArgs, ListArgs, Listing, Plan};
use crate::cli::tail::{is_queue, offset_at, From};
use crate::client::ResetTo;

/// Move a group in a topic: consume again, or skip
///
/// Members that run go on at the new place at once.
///
///   metaq group reset billing Orders --to begin --dry-run
///   metaq group reset billing Orders --to 2h --yes
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct ResetArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Which group
    pub group: String,
    /// In which topic
    pub topic: String,
    /// Where to: `begin`, `end`, an offset, or a time: `5m` (ago), `12:30`, `2026-11-30 12:30`
    #[arg(long, value_name = "PLACE")]
    pub to: From,
    /// Only in this queue: `BROKER/NUMBER` or, of all brokers, `NUMBER`
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<String>,
    #[command(flatten)]
    pub confirm: ConfirmArgs,
    #[command(flatten)]
    pub list: ListArgs,
}

/// `metaq group reset`
pub async fn reset(cluster: Cluster, args: ResetArgs) -> Result<ExitCode> {
    settings(&cluster, &args.group).await?;
    cluster.route(&args.topic).await?;
    let mut queues = cluster.admin.queues(&args.topic).await?;
    if let Some(wanted) = &args.queue {
        queues.retain(|queue| is_queue(queue, wanted));
        if queues.is_empty() {
            let failure = Failure::refused(format!("topic `{}` has no queue `{wanted}`", args.topic));
            return Err(failure.hint(cluster.command(&format!("topic show {}", args.topic)) + " lists them").into());
        }
    }
    let columns = [
        ("broker", "BROKER"),
        ("queue", "QUEUE"),
        ("begin", "BEGIN"),
        ("end", "END"),
        ("now", "NOW"),
        ("then", "THEN"),
        ("again", "AGAIN"),
    ];
    let mut changes = Listing::new(&columns, "nothing");
    let (mut targets, mut moved) = (Vec::new(), 0);
    for queue in queues {
        let (min, max) = (cluster.admin.min_offset(&queue).await?, cluster.admin.max_offset(&queue).await?);
        let then = offset_at(&cluster, &queue, args.to, (min, max)).await?.clamp(min, max);
        let now = cluster.admin.committed(&args.group, &queue).await?;
        let again = now.map_or(0, |now| now - then);
        moved += again;
        changes.push(vec![
            Cell::text(&queue.broker_name),
            Cell::Number(i64::from(queue.queue_id)),
            Cell::Number(min),
            Cell::Number(max),
            now.map_or(Cell::None, Cell::Number),
            Cell::Number(then),
            Cell::Number(again),
        ]);
        targets.push((queue, then));
    }
    let what = match moved {
        0 => format!("move group {} in topic {}", args.group, args.topic),
        1.. => format!("have group {} consume {} of topic {} again", args.group, count(moved, "message"), args.topic),
        _ => format!("have group {} skip {} of topic {}", args.group, count(-moved, "message"), args.topic),
    };
    let plan = Plan { what, changes };
    if !confirmed(&cluster.screen, &plan, args.confirm, &args.list)? {
        return Ok(ExitCode::SUCCESS);
    }
    let to = match args.to {
        From::Begin => Some(ResetTo::Begin),
        From::End => Some(ResetTo::End),
        From::Time(when) => Some(ResetTo::Time(when.resolve(cluster.now(), cluster.screen.zone))),
        From::Offset(_) => None,
    };
    match to {
        Some(to) if args.queue.is_none() => drop(cluster.admin.reset(&args.group, &args.topic, to).await?),
        _ => {
            for (queue, then) in &targets {
                cluster.admin.reset_queue(&args.group, queue, *then).await?;
            }
        }
    }
    // Who was asked has seen it.
    if args.confirm.yes {
        cluster.screen.list(&plan.changes, &args.list)?;
    }
    tell!("group {} was moved in topic {}", args.group, args.topic);
    cluster.hint("see how far it is with", &format!("group lag {}", args.group));
    Ok(ExitCode::SUCCESS)
}
