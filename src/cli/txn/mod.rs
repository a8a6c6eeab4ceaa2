//! `metaq txn`: transactions that are not decided.

mod end;
mod scan;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

use self::end::{end, EndArgs};
use self::scan::{scan, Open, State};
use super::connect::{run as run_on, Cluster, ClusterArgs};
use super::fail::Failure;
use super::show::{message_details, Cell, JsonArg, ListArgs, Listing};
use crate::client::LocalTransaction;
use crate::proto::message::properties;

/// Arguments of `metaq txn`.
#[derive(Debug, Args)]
pub struct TxnArgs {
    #[command(subcommand)]
    command: TxnCommand,
}

#[derive(Debug, Subcommand)]
enum TxnCommand {
    /// List transactions that their producers have not decided, and those that brokers gave up
    List(ListTransactions),
    /// Show one with its message
    Show(ShowTransaction),
    /// Commit one in the place of its producer: consumers get the message
    Commit(EndArgs),
    /// Roll one back in the place of its producer: nobody sees the message
    Rollback(EndArgs),
}

#[derive(Debug, Args)]
struct ListTransactions {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Only those of this producer group
    #[arg(short = 'g', long)]
    group: Option<String>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Args)]
struct ShowTransaction {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The transaction's id: its message's id
    id: String,
    #[command(flatten)]
    json: JsonArg,
}

/// Runs `metaq txn`.
pub fn run(args: TxnArgs) -> Result<ExitCode> {
    match args.command {
        TxnCommand::List(args) => run_on(&args.cluster.clone(), |cluster| list(cluster, args)),
        TxnCommand::Show(args) => run_on(&args.cluster.clone(), |cluster| show(cluster, args)),
        TxnCommand::Commit(args) => {
            run_on(&args.cluster.clone(), |cluster| end(cluster, args, LocalTransaction::Commit))
        }
        TxnCommand::Rollback(args) => {
            run_on(&args.cluster.clone(), |cluster| end(cluster, args, LocalTransaction::Rollback))
        }
    }
}

/// Transactions as a list.
fn listing_of<'a>(transactions: impl Iterator<Item = &'a Open>) -> Listing {
    let columns = [
        ("state", "STATE"),
        ("group", "GROUP"),
        ("id", "ID"),
        ("topic", "TOPIC"),
        ("broker", "BROKER"),
        ("asked", "ASKED"),
        ("sent", "SENT"),
    ];
    let mut listing = Listing::new(&columns, "every transaction is decided");
    for Open { message, state } in transactions {
        let number = |name| message.property(name).and_then(|number| number.parse().ok()).unwrap_or(0);
        listing.push(vec![
            Cell::text(state.to_string()),
            Cell::maybe(message.property(properties::PRODUCER_GROUP)),
            Cell::text(message.message_id()),
            Cell::maybe(message.property(properties::REAL_TOPIC)),
            Cell::text(&message.queue.broker_name),
            Cell::Number(number(properties::TRANSACTION_CHECK_TIMES)),
            Cell::Time(message.born_at),
        ]);
    }
    listing
}

async fn list(cluster: Cluster, args: ListTransactions) -> Result<ExitCode> {
    let mut found = scan(&cluster).await?;
    found.retain(|open| {
        args.group.is_none() || open.message.property(properties::PRODUCER_GROUP) == args.group.as_deref()
    });
    let listing = listing_of(found.iter());
    cluster.screen.list(&listing, &args.list)?;
    if let (Some(first), false) = (found.first(), args.list.json.json || args.list.format.is_some()) {
        cluster.hint("see one with", &format!("txn show {}", first.message.message_id()));
    }
    Ok(ExitCode::SUCCESS)
}

/// The transaction of an id; open ones come first.
async fn find(cluster: &Cluster, id: &str) -> Result<Open> {
    let found = scan(cluster).await?.into_iter().find(|open| open.message.message_id() == id);
    found.ok_or_else(|| {
        let list = cluster.command("txn list");
        let what = format!("no transaction `{id}` is open or given up");
        Failure::refused(what).hint(format!("decided ones are not kept; {list} shows the others")).into()
    })
}

async fn show(cluster: Cluster, args: ShowTransaction) -> Result<ExitCode> {
    let Open { message, state } = find(&cluster, &args.id).await?;
    cluster.screen.details(&message_details(&message), args.json);
    if !args.json.json {
        let next = match state {
            State::Open => "its producer decides, or you with",
            State::GivenUp => "nobody decides any more but you, with",
        };
        cluster.hint(next, &format!("txn commit {}", args.id));
    }
    Ok(ExitCode::SUCCESS)
}
