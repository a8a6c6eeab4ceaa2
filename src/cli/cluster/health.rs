//! `metaq cluster health`: what is well, and what is not.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use super::{brokers, Broker};
use crate::cli::connect::{Cluster, ClusterArgs};
use crate::cli::console::tell;
use crate::cli::fail::Failure;
use crate::cli::show::{Cell, ListArgs, Listing};
use crate::cli::EXIT_REFUSED;

/// Disks fuller than this are worth a word: cleaning begins there.
const DISK_WARNS: f64 = 0.75;
/// Writes stop at 0.9.
const DISK_FAILS: f64 = 0.88;
/// An index that is so far behind does not catch up.
const BEHIND_WARNS: f64 = 64.0 * 1024.0 * 1024.0;
/// Pause between looks.
const PAUSE: Duration = Duration::from_secs(1);

/// Check that NameServers and brokers are well; exit code 1 if one is not
///
///   metaq cluster health --watch --exit-when-healthy     wait for a cluster that starts
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct HealthArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Look again and again, and print what changes
    #[arg(long)]
    pub watch: bool,
    /// With `--watch`, end as soon as all is well
    #[arg(long, requires = "watch")]
    pub exit_when_healthy: bool,
    /// With `--watch`, end after so long
    #[arg(long, value_name = "SECONDS", requires = "watch")]
    pub timeout: Option<u64>,
    #[command(flatten)]
    pub list: ListArgs,
}

/// How one thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ok,
    Warning,
    Failed,
}

/// `metaq cluster health`
pub async fn health(cluster: Cluster, args: HealthArgs) -> Result<ExitCode> {
    let limit = args.timeout.or(args.exit_when_healthy.then_some(60)).map(Duration::from_secs);
    let deadline = limit.map(|limit| cluster.env.clock.monotonic() + limit);
    let mut shown = None;
    loop {
        let (listing, healthy) = look(&cluster).await;
        if shown.as_ref() != Some(&listing.rows) {
            cluster.screen.list(&listing, &args.list)?;
            shown = Some(listing.rows);
        }
        if !args.watch || healthy && args.exit_when_healthy {
            return Ok(verdict(&args, healthy));
        }
        if deadline.is_some_and(|deadline| cluster.env.clock.monotonic() >= deadline) {
            if healthy {
                return Ok(ExitCode::SUCCESS);
            }
            return Err(Failure::unreachable("the cluster did not become healthy in time").into());
        }
        cluster.env.clock.sleep(PAUSE).await;
    }
}

fn verdict(args: &HealthArgs, healthy: bool) -> ExitCode {
    if !args.list.json.json {
        tell!("{}", if healthy { "healthy" } else { "NOT HEALTHY" });
    }
    if healthy {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(EXIT_REFUSED)
    }
}

async fn look(cluster: &Cluster) -> (Listing, bool) {
    let columns = [("state", "STATE"), ("kind", "KIND"), ("name", "NAME"), ("address", "ADDRESS"), ("what", "WHAT")];
    let mut listing = Listing::new(&columns, "");
    let mut healthy = true;
    let mut put = |kind: &str, name: Cell, address: &str, state: State, what: String| {
        healthy &= state != State::Failed;
        let state = match state {
            State::Ok => "ok",
            State::Warning => "warning",
            State::Failed => "FAILED",
        };
        listing.push(vec![Cell::text(state), Cell::text(kind), name, Cell::text(address), Cell::text(what)]);
    };
    let mut first = None;
    for (address, answer) in cluster.admin.each_nameserver().await {
        let (state, what) = match answer {
            Err(error) => (State::Failed, error.to_string()),
            Ok(info) => {
                let agrees = *first.get_or_insert_with(|| info.clone()) == info;
                let brokers = info.broker_addr_table.len();
                match (brokers, agrees) {
                    (0, _) => (State::Failed, "knows no broker".to_owned()),
                    (_, false) => (State::Warning, format!("knows {brokers} brokers, but not the same as others")),
                    (1, true) => (State::Ok, "knows 1 broker".to_owned()),
                    (_, true) => (State::Ok, format!("knows {brokers} brokers")),
                }
            }
        };
        put("nameserver", Cell::None, &address, state, what);
    }
    let all = brokers(cluster).await.unwrap_or_default();
    for broker in &all {
        let (state, what) = judge(broker, &all);
        put("broker", Cell::text(&broker.name), &broker.address, state, what);
    }
    (listing, healthy)
}

fn judge(broker: &Broker, all: &[Broker]) -> (State, String) {
    if let Err(error) = &broker.state {
        return (State::Failed, error.to_string());
    }
    let disk = broker.number("commitLogDiskRatio").unwrap_or(0.0);
    let behind = broker.number("dispatchBehindBytes").unwrap_or(0.0);
    let percent = format!("disk {:.0}% full", disk * 100.0);
    if broker.text("brokerActive") == Some("false") {
        (State::Failed, "takes no messages".to_owned())
    } else if disk >= DISK_FAILS {
        (State::Failed, format!("{percent}: writes stop soon, or have stopped"))
    } else if disk >= DISK_WARNS {
        (State::Warning, format!("{percent}: old messages are deleted early"))
    } else if behind >= BEHIND_WARNS {
        (State::Warning, format!("the index is {behind:.0} bytes behind"))
    } else {
        replication(broker, all).unwrap_or((State::Ok, percent))
    }
}

/// What is not well about a master's slaves, or about a slave.
fn replication(broker: &Broker, all: &[Broker]) -> Option<(State, String)> {
    if broker.id == 0 {
        let (needed, in_sync) = (broker.number("haNodesNeeded")?, broker.number("haNodesInSync")?);
        let what = format!("sends wait for {needed:.0} nodes, and {in_sync:.0} are in sync");
        return (needed > in_sync).then_some((State::Failed, what));
    }
    if let Some(why) = broker.replication.as_ref().and_then(|state| state.ha_client_runtime_info.refusal.clone()) {
        return Some((State::Failed, why));
    }
    let master = all.iter().find(|other| other.id == 0 && other.name == broker.name);
    // What an Apache master tells of its slaves names none.
    master.and_then(|master| master.number("haNodesInSync"))?;
    match broker.at_master(all) {
        None => Some((State::Failed, "does not copy its master's log".to_owned())),
        Some(slave) if !slave.in_sync => Some((State::Warning, format!("{} bytes behind its master", slave.diff))),
        Some(_) => None,
    }
}
