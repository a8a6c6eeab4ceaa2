//! Deciding in the place of a producer.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use super::scan::{Open, State};
use super::{find, listing_of};
use crate::cli::connect::{Cluster, ClusterArgs};
use crate::cli::console::tell;
use crate::cli::fail::Failure;
use crate::cli::show::{confirmed, ConfirmArgs, ListArgs, Plan};
use crate::client::LocalTransaction;

/// How long a transaction that was given up may take to be open again.
const RESUME_LIMIT: Duration = Duration::from_secs(5);

/// Arguments of `metaq txn commit` and `metaq txn rollback`.
#[derive(Debug, Args)]
pub struct EndArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// The transaction's id: its message's id
    id: String,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    list: ListArgs,
}

/// `metaq txn commit` and `metaq txn rollback`
pub async fn end(cluster: Cluster, args: EndArgs, state: LocalTransaction) -> Result<ExitCode> {
    let mut open = find(&cluster, &args.id).await?;
    let what = match state {
        LocalTransaction::Commit => "commit it: consumers get the message",
        _ => "roll it back: nobody ever sees the message",
    };
    let plan = Plan { what: what.to_owned(), changes: listing_of(std::iter::once(&open)) };
    if !confirmed(&cluster.screen, &plan, args.confirm, &args.list)? {
        return Ok(ExitCode::SUCCESS);
    }
    if open.state == State::GivenUp {
        open = resume(&cluster, &open, &args.id).await?;
    }
    cluster.admin.end_transaction(&open.message, state).await?;
    tell!("{} is {}", args.id, if state == LocalTransaction::Commit { "committed" } else { "rolled back" });
    Ok(ExitCode::SUCCESS)
}

/// Only an open transaction can be decided.
async fn resume(cluster: &Cluster, given_up: &Open, id: &str) -> Result<Open> {
    cluster.admin.resume_transaction(&given_up.message).await?;
    let mut open = None;
    let is_open = async || {
        open = find(cluster, id).await.ok().filter(|found| found.state == State::Open);
        open.is_some()
    };
    cluster.until(RESUME_LIMIT, is_open).await;
    open.ok_or_else(|| Failure::unreachable(format!("`{id}` is not open again yet: try once more")).into())
}
