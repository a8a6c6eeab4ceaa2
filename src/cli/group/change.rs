//! Making and changing groups.

use std::process::ExitCode;

use anyhow::Result;
use clap::{ArgAction, Args};

use crate::cli::cluster::{master, master_if};
use crate::cli::connect::{Cluster, ClusterArgs};
use crate::cli::console::tell;
use crate::cli::fail::Failure;
use crate::cli::show::count;
use crate::proto::body::SubscriptionGroupConfig;
use crate::proto::message::system::is_system_group;

/// Arguments of `metaq group create`.
#[derive(Debug, Args)]
pub struct CreateGroup {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Its name: letters, digits, `_`, `-`, `%`, `|`
    pub group: String,
    #[command(flatten)]
    pub settings: GroupSettings,
    /// If it is there already, change it to be so
    #[arg(long)]
    pub replace: bool,
    /// Only on this broker
    #[arg(short = 'b', long, value_name = "NAME")]
    pub broker: Option<String>,
}

/// Arguments of `metaq group update`.
#[derive(Debug, Args)]
pub struct UpdateGroup {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Which group
    pub group: String,
    #[command(flatten)]
    pub settings: GroupSettings,
    /// Only on this broker
    #[arg(short = 'b', long, value_name = "NAME")]
    pub broker: Option<String>,
}

/// What can be said of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct GroupSettings {
    /// How often a message that failed comes again before it goes to the dead letters
    #[arg(short = 'r', long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    pub retries: Option<i32>,
    /// Queues of its retry topic; with 0 a message that fails is dropped
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..=1024))]
    pub retry_queues: Option<i32>,
    /// Whether it may consume
    #[arg(long, value_name = "BOOL", action = ArgAction::Set)]
    pub consume: Option<bool>,
    /// Whether it may consume by broadcast
    #[arg(long, value_name = "BOOL", action = ArgAction::Set)]
    pub broadcast: Option<bool>,
    /// Whether it may begin at a queue's first message
    #[arg(long, value_name = "BOOL", action = ArgAction::Set)]
    pub from_min: Option<bool>,
    /// Whether it consumes in order (only POP consumers heed it)
    #[arg(long, value_name = "BOOL", action = ArgAction::Set)]
    pub orderly: Option<bool>,
    /// Whether members are told when another comes or goes
    #[arg(long, value_name = "BOOL", action = ArgAction::Set)]
    pub notify: Option<bool>,
    /// The broker to read from, by its id: 0 is the master
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(i64).range(0..))]
    pub read_from: Option<i64>,
    /// The broker to read from while it is far behind, by its id
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(i64).range(0..))]
    pub read_slowly_from: Option<i64>,
}

impl GroupSettings {
    /// Changes what is named.
    fn apply(&self, config: &mut SubscriptionGroupConfig) {
        fn set<T: Copy>(field: &mut T, named: Option<T>) {
            *field = named.unwrap_or(*field);
        }
        set(&mut config.retry_max_times, self.retries);
        set(&mut config.retry_queue_nums, self.retry_queues);
        set(&mut config.consume_enable, self.consume);
        set(&mut config.consume_broadcast_enable, self.broadcast);
        set(&mut config.consume_from_min_enable, self.from_min);
        set(&mut config.consume_message_orderly, self.orderly);
        set(&mut config.notify_consumer_ids_changed_enable, self.notify);
        set(&mut config.broker_id, self.read_from);
        set(&mut config.which_broker_when_consume_slowly, self.read_slowly_from);
    }
}

/// `metaq group create`
pub async fn create(cluster: Cluster, args: CreateGroup) -> Result<ExitCode> {
    refuse_system_group(&args.group)?;
    if !args.replace && !cluster.admin.group_configs(&args.group).await?.is_empty() {
        let failure = Failure::refused(format!("group `{}` is there already", args.group));
        let update = cluster.command(&format!("group update {}", args.group));
        return Err(failure.hint(format!("{update} changes it")).into());
    }
    let mut config = SubscriptionGroupConfig::new(&args.group);
    args.settings.apply(&mut config);
    match master_if(&cluster, args.broker.as_deref()).await? {
        Some((_, address)) => cluster.admin.put_group_on(&address, &config).await?,
        None => cluster.admin.put_group(&config).await?,
    }
    tell!("made group {}", args.group);
    cluster.hint("see its settings with", &format!("group show {}", args.group));
    Ok(ExitCode::SUCCESS)
}

/// `metaq group update`
pub async fn update(cluster: Cluster, args: UpdateGroup) -> Result<ExitCode> {
    refuse_system_group(&args.group)?;
    if args.settings == GroupSettings::default() {
        let failure = Failure::usage("nothing is to be changed");
        return Err(failure.hint("name `--retries N` or `--consume false`; `--help` lists all").into());
    }
    let only = master_if(&cluster, args.broker.as_deref()).await?;
    let configs = cluster.admin.group_configs(&args.group).await?;
    if configs.is_empty() {
        return Err(cluster.no_group(&args.group).await.into());
    }
    let mut changed = 0;
    for (broker, mut config) in
        configs.into_iter().filter(|(name, _)| only.as_ref().is_none_or(|(only, _)| only == name))
    {
        args.settings.apply(&mut config);
        cluster.admin.put_group_on(&master(&cluster, &broker).await?.1, &config).await?;
        changed += 1;
    }
    if changed == 0 {
        return Err(Failure::refused(format!("group `{}` is not on that broker", args.group)).into());
    }
    tell!("changed group {} on {}", args.group, count(changed, "broker"));
    Ok(ExitCode::SUCCESS)
}

/// Refuses to touch groups of RocketMQ itself.
pub fn refuse_system_group(group: &str) -> Result<()> {
    if is_system_group(group) {
        return Err(Failure::refused(format!("`{group}` is a group of RocketMQ itself")).into());
    }
    Ok(())
}
