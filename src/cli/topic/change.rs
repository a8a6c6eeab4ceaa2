//! Making, changing and deleting topics.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::groups_of;
use super::order::fix;
use super::shrink::Backlog;
use crate::cli::cluster::{master, master_if};
use crate::cli::connect::{Cluster, ClusterArgs};
use crate::cli::console::tell;
use crate::cli::fail::Failure;
use crate::cli::show::{confirmed, count, Cell, ConfirmArgs, ListArgs, Listing, Plan};
use crate::proto::body::{permission, QueueData, TopicConfig};
use crate::proto::message::system::is_system_topic;

/// How long NameServers may take to hear of a change.
const ROUTE_LIMIT: Duration = Duration::from_secs(10);

/// Arguments of `metaq topic create`.
#[derive(Debug, Args)]
pub struct CreateTopic {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Its name: letters, digits, `_`, `-`, `%`, `|`
    pub topic: String,
    /// Queues on each broker: as many consumers of a group can share the work
    #[arg(short = 'q', long, default_value_t = 8, value_parser = clap::value_parser!(i32).range(1..=65_536))]
    pub queues: i32,
    /// Queues that are read, if they are not as many as are written
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=65_536))]
    pub read_queues: Option<i32>,
    /// What clients may do
    #[arg(long, default_value = "rw")]
    pub perm: Permission,
    /// Its order counts more than its availability: its queues are fixed, see `metaq topic order`
    #[arg(short = 'o', long)]
    pub order: bool,
    /// An attribute; `deduplication.window=600000`, say, knows repeated sends for ten minutes
    #[arg(short = 'a', long = "attribute", value_name = "KEY=VALUE", value_delimiter = ',', value_parser = attribute)]
    pub attributes: Vec<(String, String)>,
    /// If it is there already, change it to be so
    #[arg(long)]
    pub replace: bool,
    /// Only on this broker
    #[arg(short = 'b', long, value_name = "NAME")]
    pub broker: Option<String>,
}

/// Arguments of `metaq topic update`.
#[derive(Debug, Args)]
pub struct UpdateTopic {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Which topic
    pub topic: String,
    /// Queues on each broker. Where messages still wait in queues that go, those are no longer written, and read until
    /// this is asked for again
    #[arg(short = 'q', long, value_parser = clap::value_parser!(i32).range(1..=65_536))]
    pub queues: Option<i32>,
    /// Queues that are read, if they are not as many as are written
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=65_536))]
    pub read_queues: Option<i32>,
    /// Give up messages that wait in queues that go
    #[arg(long)]
    pub force: bool,
    /// What clients may do
    #[arg(long)]
    pub perm: Option<Permission>,
    /// An attribute, new or with another value
    #[arg(short = 'a', long = "attribute", value_name = "KEY=VALUE", value_delimiter = ',', value_parser = attribute)]
    pub attributes: Vec<(String, String)>,
    /// Only on this broker
    #[arg(short = 'b', long, value_name = "NAME")]
    pub broker: Option<String>,
}

/// Arguments of `metaq topic delete`.
#[derive(Debug, Args)]
pub struct DeleteTopic {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Which topic
    pub topic: String,
    #[command(flatten)]
    pub confirm: ConfirmArgs,
    #[command(flatten)]
    pub list: ListArgs,
}

/// What clients may do with a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Permission {
    /// Read and write
    #[value(alias = "6")]
    Rw,
    /// Only read
    #[value(alias = "4")]
    R,
    /// Only write
    #[value(alias = "2")]
    W,
    /// Nothing
    #[value(alias = "0")]
    None,
}

fn attribute(text: &str) -> Result<(String, String), String> {
    let pair = text.strip_prefix('+').unwrap_or(text).split_once('=').ok_or("it has to be KEY=VALUE")?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}

impl Permission {
    fn bits(self) -> i32 {
        match self {
            Permission::Rw => permission::READ | permission::WRITE,
            Permission::R => permission::READ,
            Permission::W => permission::WRITE,
            Permission::None => 0,
        }
    }
}

/// `metaq topic create`
pub async fn create(cluster: Cluster, args: CreateTopic) -> Result<ExitCode> {
    if !args.replace && args.broker.is_none() && cluster.admin.route(&args.topic).await.is_ok() {
        let failure = Failure::refused(format!("topic `{}` is there already", args.topic));
        let update = cluster.command(&format!("topic update {}", args.topic));
        return Err(failure.hint(format!("{update} changes it")).into());
    }
    let mut config = TopicConfig::new(&args.topic, args.queues, args.perm.bits());
    config.read_queue_nums = args.read_queues.unwrap_or(args.queues);
    config.order = args.order;
    config.attributes.extend(args.attributes);
    put(&cluster, &config, args.broker.as_deref()).await?;
    if args.order {
        fix_queues(&cluster, &config, args.broker.as_deref()).await?;
    }
    tell!("made topic {} with {} on each broker", args.topic, count(args.queues.into(), "queue"));
    cluster.hint("send to it with", &format!("send {} 'a first message'", args.topic));
    Ok(ExitCode::SUCCESS)
}

/// Fixes the queues of a topic that was just made: on every broker, or on this one beside those fixed before.
async fn fix_queues(cluster: &Cluster, config: &TopicConfig, broker: Option<&str>) -> Result<()> {
    let (mut queues, brokers) = match broker {
        Some(broker) => {
            let before = cluster.admin.fixed_queues(&config.topic_name).await?.unwrap_or_default();
            (before, vec![master(cluster, broker).await?.0])
        }
        None => {
            let table = cluster.admin.clusters().await?.broker_addr_table;
            let masters = table.into_values().filter(|data| data.broker_addrs.contains_key(&0));
            (BTreeMap::new(), masters.map(|data| data.broker_name).collect())
        }
    };
    queues.extend(brokers.into_iter().map(|broker| (broker, config.write_queue_nums)));
    fix(cluster, &config.topic_name, &queues).await
}

/// `metaq topic update`
pub async fn update(cluster: Cluster, args: UpdateTopic) -> Result<ExitCode> {
    let nothing = args.queues.is_none() && args.read_queues.is_none() && args.perm.is_none();
    if nothing && args.attributes.is_empty() {
        return Err(Failure::usage("nothing is to be changed").hint("name `--queues N` or `--perm rw`").into());
    }
    cluster.route(&args.topic).await?;
    let configs = cluster.admin.topic_configs(&args.topic).await?;
    let only = master_if(&cluster, args.broker.as_deref()).await?;
    let wanted = |broker: &String| only.as_ref().is_none_or(|(only, _)| only == broker);
    let mut configs: Vec<_> = configs.into_iter().filter(|(broker, _)| wanted(broker)).collect();
    let kept = set_queues(&cluster, &args, &mut configs).await?;
    let mut changed = 0;
    let fixed = cluster.admin.fixed_queues(&args.topic).await?;
    let mut fixed_now = fixed.clone();
    for (broker, mut config) in configs {
        if let Some(perm) = args.perm {
            config.perm = config.perm & !(permission::READ | permission::WRITE) | perm.bits();
        }
        config.attributes.extend(args.attributes.iter().cloned());
        put(&cluster, &config, Some(&broker)).await?;
        if let Some(queues) = fixed_now.as_mut().and_then(|fixed| fixed.get_mut(&broker)) {
            *queues = config.write_queue_nums;
        }
        changed += 1;
    }
    if let Some(queues) = fixed_now.filter(|now| fixed.as_ref() != Some(now)) {
        fix(&cluster, &args.topic, &queues).await?;
    }
    if changed == 0 {
        let failure = Failure::refused(format!("topic `{}` is not on that broker", args.topic));
        return Err(failure.hint(cluster.command(&format!("topic show {}", args.topic)) + " shows where it is").into());
    }
    tell!("changed topic {} on {}", args.topic, count(changed, "broker"));
    if !kept.is_empty() {
        tell!("note: queues that go are no longer written but still read: {kept}");
        let again =
            args.queues.map_or_else(String::new, |queues| format!("topic update {} --queues {queues}", args.topic));
        cluster.hint("take them away, once that is consumed, with", &again);
    }
    Ok(ExitCode::SUCCESS)
}

/// Sets the numbers of queues. What waits in queues that would go keeps them readable, and is returned.
async fn set_queues(cluster: &Cluster, args: &UpdateTopic, configs: &mut [(String, TopicConfig)]) -> Result<Backlog> {
    let mut kept = Backlog::default();
    for (broker, config) in configs {
        let readable = config.read_queue_nums;
        config.write_queue_nums = args.queues.unwrap_or(config.write_queue_nums);
        config.read_queue_nums = args.read_queues.or(args.queues).unwrap_or(readable);
        if args.force || config.read_queue_nums >= readable {
            continue;
        }
        let backlog = Backlog::of(cluster, &args.topic, broker, config.read_queue_nums).await?;
        if backlog.is_empty() {
            continue;
        }
        if args.read_queues.is_some() {
            return Err(backlog.refusal().into());
        }
        config.read_queue_nums = readable;
        kept.extend(backlog);
    }
    Ok(kept)
}

/// Makes or changes a topic, and waits until NameServers tell clients so.
async fn put(cluster: &Cluster, config: &TopicConfig, broker: Option<&str>) -> Result<()> {
    let (only, brokers) = match master_if(cluster, broker).await? {
        Some((name, address)) => {
            cluster.admin.put_topic_on(&address, config).await?;
            (Some(name), 1)
        }
        None => {
            cluster.admin.put_topic(config).await?;
            let table = cluster.admin.clusters().await?.broker_addr_table;
            (None, table.values().filter(|data| data.broker_addrs.contains_key(&0)).count())
        }
    };
    let seen = cluster.until(ROUTE_LIMIT, async || {
        let Ok(route) = cluster.admin.route(&config.topic_name).await else { return false };
        let of_brokers =
            route.queue_datas.iter().filter(|data| only.as_ref().is_none_or(|only| *only == data.broker_name));
        let same = |data: &QueueData| {
            (data.read_queue_nums, data.write_queue_nums) == (config.read_queue_nums, config.write_queue_nums)
                && data.perm == config.perm
        };
        of_brokers.filter(|data| same(data)).count() >= brokers
    });
    if !seen.await {
        tell!("warning: brokers have it, but the NameServers do not tell of it yet");
    }
    Ok(())
}

/// `metaq topic delete`
pub async fn delete(cluster: Cluster, args: DeleteTopic) -> Result<ExitCode> {
    if is_system_topic(&args.topic) {
        return Err(Failure::refused(format!("`{}` is a topic of RocketMQ itself", args.topic)).into());
    }
    cluster.route(&args.topic).await?;
    let stats = cluster.admin.topic_stats(&args.topic).await?;
    let groups = groups_of(&cluster, &args.topic).await?;
    let mut of_brokers: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    for (queue, offsets) in &stats.offset_table {
        let of_broker = of_brokers.entry(&queue.broker_name).or_default();
        of_broker.0 += 1;
        of_broker.1 += offsets.max_offset - offsets.min_offset;
    }
    let columns = [("topic", "TOPIC"), ("broker", "BROKER"), ("queues", "QUEUES"), ("messages", "MESSAGES")];
    let mut changes = Listing::new(&columns, "nothing");
    for (broker, (queues, messages)) in &of_brokers {
        let (queues, messages) = (Cell::Number(*queues), Cell::Number(*messages));
        changes.push(vec![Cell::text(&args.topic), Cell::text(*broker), queues, messages]);
    }
    let messages: i64 = of_brokers.values().map(|(_, messages)| messages).sum();
    let consumed = if groups.is_empty() { String::new() } else { format!(", which {} consume", groups.join(", ")) };
    let plan =
        Plan { what: format!("delete topic {} with {}{consumed}", args.topic, count(messages, "message")), changes };
    if confirmed(&cluster.screen, &plan, args.confirm, &args.list)? {
        cluster.admin.delete_topic(&args.topic).await?;
        tell!("deleted topic {}", args.topic);
    }
    Ok(ExitCode::SUCCESS)
}
