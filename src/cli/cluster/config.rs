//! `metaq cluster config`: what brokers are set to.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::master;
use crate::cli::connect::{Cluster, ClusterArgs};
use crate::cli::show::{Cell, ListArgs, Listing};

/// Show the settings of a master, as it runs with them
#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Which broker, by its name or address
    pub broker: String,
    /// Only keys that contain this
    #[arg(short = 'k', long, value_name = "TEXT")]
    pub key: Option<String>,
    #[command(flatten)]
    pub list: ListArgs,
}

/// `metaq cluster config`
pub async fn config(cluster: Cluster, args: ConfigArgs) -> Result<ExitCode> {
    let (_, address) = master(&cluster, &args.broker).await?;
    let text = cluster.admin.broker_settings(&address).await?;
    let mut settings: Vec<(&str, &str)> = text.lines().filter_map(|line| line.split_once('=')).collect();
    settings.sort_unstable();
    let wanted = args.key.unwrap_or_default().to_lowercase();
    let mut listing = Listing::new(&[("key", "KEY"), ("value", "VALUE")], "no such settings");
    for (key, value) in settings.into_iter().filter(|(key, _)| key.to_lowercase().contains(&wanted)) {
        listing.push(vec![Cell::text(key), Cell::text(value)]);
    }
    cluster.screen.list(&listing, &args.list)?;
    Ok(ExitCode::SUCCESS)
}
