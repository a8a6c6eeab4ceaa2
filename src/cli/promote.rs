//! `metaq broker promote`: a slave becomes the master.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

use super::cluster::size;
use super::connect::{run as run_on, Cluster, ClusterArgs};
use super::console::tell;
use super::fail::Failure;
use super::show::{confirmed, Cell, ConfirmArgs, ListArgs, Listing, Plan};
use crate::config::keys::nearest;
use crate::proto::body::{BrokerData, HaRuntimeInfo};

#[derive(Debug, Subcommand)]
pub enum BrokerCommand {
    /// Make a slave the master of its broker name, now that the master is gone
    ///
    /// Without --id it is the slave that has most of the master's log. The other slaves follow it by themselves; the old
    /// master must come back as a slave (metaq broker --broker-id).
    Promote(PromoteArgs),
}

/// Arguments of `metaq broker promote`.
#[derive(Debug, Args)]
pub struct PromoteArgs {
    /// The broker's name
    pub broker: String,
    /// The slave's id; else the one with the longest log
    #[arg(long, value_name = "ID")]
    pub id: Option<i64>,
    /// Although the master answers, or another slave does not or has more of its log
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub confirm: ConfirmArgs,
    #[command(flatten)]
    pub list: ListArgs,
}

/// Runs `metaq broker promote`.
pub fn run(command: BrokerCommand) -> Result<ExitCode> {
    let BrokerCommand::Promote(args) = command;
    run_on(&args.cluster.clone(), |cluster| promote(cluster, args))
}

/// How many slaves are asked to become the master, if another one turns out to have more of the log each time.
const TRIES: usize = 3;

/// A slave that answers.
#[derive(Clone)]
struct Slave {
    id: i64,
    address: String,
    state: HaRuntimeInfo,
}

impl Slave {
    fn end(&self) -> i64 {
        self.state.ha_client_runtime_info.max_offset.max(self.state.master_commit_log_max_offset)
    }
}

async fn promote(cluster: Cluster, args: PromoteArgs) -> Result<ExitCode> {
    let table = cluster.admin.clusters().await?.broker_addr_table;
    let Some(data) = table.get(&args.broker) else {
        let failure = Failure::refused(format!("broker `{}` is not registered", args.broker));
        let list = cluster.command("cluster list");
        let hint = match nearest(&args.broker, table.keys().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`? list all with {list}"),
            None => format!("list all with {list}"),
        };
        return Err(failure.hint(hint).into());
    };
    let master = data.broker_addrs.get(&0);
    if let Some(address) = master {
        if cluster.admin.replication(address).await.is_ok() && !args.force {
            let failure = Failure::refused(format!("the master of {} answers at {address}", args.broker));
            return Err(failure.hint("stop it first: two masters take messages of which each loses some").into());
        }
    }
    let slaves = slaves(&cluster, data).await;
    let mut chosen = choose(&slaves, &args)?.clone();
    let columns = [("broker", "BROKER"), ("id", "ID"), ("address", "ADDRESS"), ("logEnd", ""), ("log", "LOG ENDS AT")];
    let mut changes = Listing::new(&columns, "nothing");
    let (id, end) = (Cell::Number(chosen.id), Cell::Number(chosen.end()));
    changes.push(vec![Cell::text(&args.broker), id, Cell::text(&chosen.address), end, Cell::text(size(chosen.end()))]);
    let what = format!("make slave {} at {} the master of {}", chosen.id, chosen.address, args.broker);
    if !confirmed(&cluster.screen, &Plan { what, changes }, args.confirm, &args.list)? {
        return Ok(ExitCode::SUCCESS);
    }
    let mut tries = 1;
    loop {
        // The slave may not have heard yet that the master is gone; here it was looked at.
        let refused = match cluster.admin.promote(&chosen.address, true, args.force).await {
            Ok(end) => {
                let Slave { id, address, .. } = chosen;
                tell!("slave {id} at {address} is the master of {}; its log ended at {end}", args.broker);
                return Ok(ExitCode::SUCCESS);
            }
            Err(refused) => refused,
        };
        // Another one may have been writing what it had got of the master when it was asked where its log ends.
        let longest = choose(&self::slaves(&cluster, data).await, &args)?.clone();
        if longest.id == chosen.id || tries == TRIES {
            return Err(refused.into());
        }
        tell!("slave {} was not promoted, and slave {} has more of the log now: {refused}", chosen.id, longest.id);
        (chosen, tries) = (longest, tries + 1);
    }
}

/// The slaves that answer.
async fn slaves(cluster: &Cluster, data: &BrokerData) -> Vec<Slave> {
    let mut slaves = Vec::new();
    for (id, address) in data.broker_addrs.iter().filter(|(id, _)| **id > 0) {
        match cluster.admin.replication(address).await {
            Ok(state) => slaves.push(Slave { id: *id, address: address.clone(), state }),
            Err(error) => tell!("warning: slave {id} at {address} does not answer: {error}"),
        }
    }
    slaves
}

/// The slave asked for, or the one whose log is longest.
fn choose<'a>(slaves: &'a [Slave], args: &PromoteArgs) -> Result<&'a Slave> {
    let Some(longest) = slaves.iter().max_by_key(|slave| (slave.end(), -slave.id)) else {
        return Err(Failure::refused(format!("no slave of {} answers", args.broker)).into());
    };
    let Some(id) = args.id else { return Ok(longest) };
    let Some(chosen) = slaves.iter().find(|slave| slave.id == id) else {
        return Err(Failure::refused(format!("no slave {id} of {} answers", args.broker)).into());
    };
    if chosen.end() < longest.end() && !args.force {
        let more = size(longest.end() - chosen.end());
        let failure = Failure::refused(format!("slave {} has {more} more of the log than slave {id}", longest.id));
        return Err(failure.hint("promote that one, or lose what this one does not have with `--force`").into());
    }
    Ok(chosen)
}
