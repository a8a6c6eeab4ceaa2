//! `metaq offset`: places in queues.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

use super::connect::{run as run_on, Cluster, ClusterArgs};
use super::show::{Cell, ListArgs, Listing, When};

/// Arguments of `metaq offset`.
#[derive(Debug, Args)]
pub struct OffsetArgs {
    #[command(subcommand)]
    command: OffsetCommand,
}

#[derive(Debug, Subcommand)]
enum OffsetCommand {
    /// Find the offset of a time in each queue of a topic
    Search(SearchArgs),
}

/// Arguments of `metaq offset search`.
#[derive(Debug, Args)]
pub struct SearchArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Which topic
    pub topic: String,
    /// When: `5m` (ago), `12:30`, `2026-11-30`, `2026-11-30 12:30` or milliseconds since 1970
    #[arg(long, value_name = "TIME")]
    pub time: When,
    #[command(flatten)]
    pub list: ListArgs,
}

/// Runs `metaq offset`.
pub fn run(args: OffsetArgs) -> Result<ExitCode> {
    let OffsetCommand::Search(args) = args.command;
    run_on(&args.cluster.clone(), |cluster| search(cluster, args))
}

/// `metaq offset search`
pub async fn search(cluster: Cluster, args: SearchArgs) -> Result<ExitCode> {
    cluster.route(&args.topic).await?;
    let time = args.time.resolve(cluster.now(), cluster.screen.zone);
    let columns = [
        ("broker", "BROKER"),
        ("queue", "QUEUE"),
        ("begin", "BEGIN"),
        ("offset", "OFFSET"),
        ("end", "END"),
        ("since", "MESSAGES SINCE"),
    ];
    let mut listing = Listing::new(&columns, "the topic has no queues that can be read");
    for queue in cluster.admin.queues(&args.topic).await? {
        let (min, max) = (cluster.admin.min_offset(&queue).await?, cluster.admin.max_offset(&queue).await?);
        let offset = cluster.admin.search_offset(&queue, time).await?;
        listing.push(vec![
            Cell::text(&queue.broker_name),
            Cell::Number(i64::from(queue.queue_id)),
            Cell::Number(min),
            Cell::Number(offset),
            Cell::Number(max),
            Cell::Number(max - offset),
        ]);
    }
    cluster.screen.list(&listing, &args.list)?;
    Ok(ExitCode::SUCCESS)
}
