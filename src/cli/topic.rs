//! `metaq topic`: what topics there are, and changing them.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};

use super::connect::{run as run_on, Cluster, ClusterArgs};
use super::console::tell;
use super::fail::Failure;
use super::show::{confirmed, count, Cell, ConfirmArgs, Details, JsonArg, ListArgs, Listing, Plan, Progress};
use crate::client::Error;
use crate::proto::body::{permission, TopicConfig};
use crate::proto::message::names::{is_dlq_topic, is_retry_topic, REPLY_SUFFIX};
use crate::proto::message::system::{is_system_group, is_system_topic};

/// How long NameServers may take to hear of a change.
const ROUTE_LIMIT: Duration = Duration::from_secs(10);

/// Arguments of `metaq topic`.
#[derive(Debug, Args)]
pub struct TopicArgs {
    #[command(subcommand)]
    command: TopicCommand,
}

#[derive(Debug, Subcommand)]
enum TopicCommand {
    /// List topics
    List(ListTopics),
    /// Show a topic: its queues, what is in them, and who consumes it
    Show(ShowTopic),
    /// Make a topic on every broker
    Create(CreateTopic),
    /// Change a topic's queues or permissions on every broker; what is not named stays
    Update(UpdateTopic),
    /// Delete a topic and its messages
    Delete(DeleteTopic),
    /// Show how much comes into topics and goes out of them
    Stats(StatsTopic),
}

/// Arguments of `metaq topic list`.
#[derive(Debug, Args)]
pub struct ListTopics {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Also those of RocketMQ itself, retries and dead letters
    #[arg(short = 'a', long)]
    pub all: bool,
    #[command(flatten)]
    pub list: ListArgs,
}

/// Arguments of `metaq topic show`.
#[derive(Debug, Args)]
pub struct ShowTopic {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Which topic
    pub topic: String,
    #[command(flatten)]
    pub json: JsonArg,
}

/// Arguments of `metaq topic create`.
#[derive(Debug, Args)]
struct CreateTopic {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Its name: letters, digits, `_`, `-`, `%`, `|`
    topic: String,
    /// Queues on each broker: as many consumers of a group can share the work
    #[arg(short = 'q', long, default_value_t = 8, value_parser = clap::value_parser!(i32).range(1..=65_536))]
    queues: i32,
    /// Queues that are read, if they are not as many as are written
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=65_536))]
    read_queues: Option<i32>,
    /// What clients may do
    #[arg(long, default_value = "rw")]
    perm: Permission,
    /// If it is there already, change it to be so
    #[arg(long)]
    replace: bool,
    /// Only on this broker
    #[arg(short = 'b', long, value_name = "NAME")]
    broker: Option<String>,
}

/// Arguments of `metaq topic update`.
#[derive(Debug, Args)]
struct UpdateTopic {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Which topic
    topic: String,
    /// Queues on each broker; messages in queues that go are lost to consumers
    #[arg(short = 'q', long, value_parser = clap::value_parser!(i32).range(1..=65_536))]
    queues: Option<i32>,
    /// Queues that are read, if they are not as many as are written
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=65_536))]
    read_queues: Option<i32>,
    /// What clients may do
    #[arg(long)]
    perm: Option<Permission>,
    /// Only on this broker
    #[arg(short = 'b', long, value_name = "NAME")]
    broker: Option<String>,
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

/// Arguments of `metaq topic stats`.
#[derive(Debug, Args)]
pub struct StatsTopic {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Which topic; else all
    pub topic: Option<String>,
    #[command(flatten)]
    pub list: ListArgs,
}

/// What clients may do with a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Permission {
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

/// Runs `metaq topic`.
pub fn run(args: TopicArgs) -> Result<ExitCode> {
    match args.command {
        TopicCommand::List(args) => run_on(&args.cluster.clone(), |cluster| list(cluster, args)),
        TopicCommand::Show(args) => run_on(&args.cluster.clone(), |cluster| show(cluster, args)),
        TopicCommand::Create(args) => run_on(&args.cluster.clone(), |cluster| create(cluster, args)),
        TopicCommand::Update(args) => run_on(&args.cluster.clone(), |cluster| update(cluster, args)),
        TopicCommand::Delete(args) => run_on(&args.cluster.clone(), |cluster| delete(cluster, args)),
        TopicCommand::Stats(args) => run_on(&args.cluster.clone(), |cluster| stats(cluster, args)),
    }
}

/// `metaq topic list`
pub async fn list(cluster: Cluster, args: ListTopics) -> Result<ExitCode> {
    let mut topics: BTreeMap<String, Vec<TopicConfig>> = BTreeMap::new();
    for configs in cluster.admin.all_topic_configs().await?.into_values() {
        for (topic, config) in configs {
            topics.entry(topic).or_default().push(config);
        }
    }
    let kinds = Kinds::of(&cluster).await?;
    let empty = if args.all { "no topics" } else { "no topics of applications; `--all` shows RocketMQ's own" };
    let columns =
        [("topic", "TOPIC"), ("kind", "KIND"), ("brokers", "BROKERS"), ("queues", "QUEUES"), ("perm", "PERM")];
    let mut listing = Listing::new(&columns, empty);
    for (topic, configs) in topics {
        let kind = kinds.kind(&topic);
        if kind != "normal" && !args.all {
            continue;
        }
        let queues: i32 = configs.iter().map(|config| config.read_queue_nums.max(config.write_queue_nums)).sum();
        let perms: BTreeSet<_> = configs.iter().map(|config| perm_text(config.perm)).collect();
        listing.push(vec![
            Cell::text(topic),
            Cell::text(kind),
            Cell::Number(configs.len() as i64),
            Cell::Number(i64::from(queues)),
            Cell::text(perms.into_iter().collect::<Vec<_>>().join(",")),
        ]);
    }
    cluster.screen.list(&listing, &args.list)?;
    if listing.rows.is_empty() && !args.list.json.json {
        cluster.hint("make one with", "topic create TOPIC");
    }
    Ok(ExitCode::SUCCESS)
}

/// Tells topics of applications from others.
struct Kinds {
    /// Topics that brokers make for themselves have their names and those of their clusters.
    own: BTreeSet<String>,
}

impl Kinds {
    async fn of(cluster: &Cluster) -> Result<Kinds> {
        let info = cluster.admin.clusters().await?;
        Ok(Kinds { own: info.broker_addr_table.into_keys().chain(info.cluster_addr_table.into_keys()).collect() })
    }

    fn kind(&self, topic: &str) -> &'static str {
        if is_retry_topic(topic) {
            "retry"
        } else if is_dlq_topic(topic) {
            "dlq"
        } else if is_system_topic(topic) || topic.ends_with(REPLY_SUFFIX) || self.own.contains(topic) {
            "system"
        } else {
            "normal"
        }
    }
}

fn perm_text(perm: i32) -> &'static str {
    match (permission::is_readable(perm), permission::is_writable(perm)) {
        (true, true) => "rw",
        (true, false) => "r",
        (false, true) => "w",
        (false, false) => "none",
    }
}

/// `metaq topic show`
pub async fn show(cluster: Cluster, args: ShowTopic) -> Result<ExitCode> {
    cluster.route(&args.topic).await?;
    let configs = cluster.admin.topic_configs(&args.topic).await?;
    let stats = cluster.admin.topic_stats(&args.topic).await?;
    let groups = groups_of(&cluster, &args.topic).await?;
    let kinds = Kinds::of(&cluster).await?;
    let mut brokers =
        Listing::new(&[("broker", "BROKER"), ("read", "READ"), ("write", "WRITE"), ("perm", "PERM")], "none");
    for (broker, config) in &configs {
        brokers.push(vec![
            Cell::text(broker),
            Cell::Number(i64::from(config.read_queue_nums)),
            Cell::Number(i64::from(config.write_queue_nums)),
            Cell::text(perm_text(config.perm)),
        ]);
    }
    let columns = [
        ("broker", "BROKER"),
        ("queue", "QUEUE"),
        ("begin", "BEGIN"),
        ("end", "END"),
        ("messages", "MESSAGES"),
        ("newest", "NEWEST"),
    ];
    let mut queues = Listing::new(&columns, "none");
    let mut messages = 0;
    for (queue, offsets) in &stats.offset_table {
        let held = offsets.max_offset - offsets.min_offset;
        messages += held;
        queues.push(vec![
            Cell::text(&queue.broker_name),
            Cell::Number(i64::from(queue.queue_id)),
            Cell::Number(offsets.min_offset),
            Cell::Number(offsets.max_offset),
            Cell::Number(held),
            Cell::time(offsets.last_update_timestamp),
        ]);
    }
    let details = Details::default()
        .fact("topic", "topic", Cell::text(&args.topic))
        .fact("kind", "kind", Cell::text(kinds.kind(&args.topic)))
        .fact("messages", "messages", Cell::Number(messages))
        .fact("groups", "groups", Cell::texts(groups))
        .list("brokers", "queues on each broker", brokers)
        .list("queues", "messages in each queue", queues);
    cluster.screen.details(&details, args.json);
    Ok(ExitCode::SUCCESS)
}

/// The groups of applications that consume a topic.
async fn groups_of(cluster: &Cluster, topic: &str) -> Result<Vec<String>> {
    let groups = cluster.admin.groups_of_topic(topic).await?;
    Ok(groups.into_iter().filter(|group| !is_system_group(group)).collect())
}

async fn create(cluster: Cluster, args: CreateTopic) -> Result<ExitCode> {
    if !args.replace && args.broker.is_none() && cluster.admin.route(&args.topic).await.is_ok() {
        let failure = Failure::refused(format!("topic `{}` is there already", args.topic));
        let update = cluster.command(&format!("topic update {}", args.topic));
        return Err(failure.hint(format!("{update} changes it")).into());
    }
    let mut config = TopicConfig::new(&args.topic, args.queues, args.perm.bits());
    config.read_queue_nums = args.read_queues.unwrap_or(args.queues);
    put(&cluster, &config, args.broker.as_deref()).await?;
    tell!("made topic {} with {} on each broker", args.topic, count(args.queues.into(), "queue"));
    cluster.hint("send to it with", &format!("send {} 'a first message'", args.topic));
    Ok(ExitCode::SUCCESS)
}

async fn update(cluster: Cluster, args: UpdateTopic) -> Result<ExitCode> {
    if args.queues.is_none() && args.read_queues.is_none() && args.perm.is_none() {
        return Err(Failure::usage("nothing is to be changed").hint("name `--queues N` or `--perm rw`").into());
    }
    cluster.route(&args.topic).await?;
    let configs = cluster.admin.topic_configs(&args.topic).await?;
    let wanted = |broker: &String| args.broker.as_ref().is_none_or(|only| only == broker);
    let mut changed = 0;
    for (broker, mut config) in configs.into_iter().filter(|(broker, _)| wanted(broker)) {
        if let Some(queues) = args.queues {
            (config.read_queue_nums, config.write_queue_nums) = (queues, queues);
        }
        if let Some(queues) = args.read_queues {
            config.read_queue_nums = queues;
        }
        if let Some(perm) = args.perm {
            config.perm = config.perm & !(permission::READ | permission::WRITE) | perm.bits();
        }
        put(&cluster, &config, Some(&broker)).await?;
        changed += 1;
    }
    if changed == 0 {
        let failure = Failure::refused(format!("topic `{}` is not on that broker", args.topic));
        return Err(failure.hint(cluster.command(&format!("topic show {}", args.topic)) + " shows where it is").into());
    }
    tell!("changed topic {} on {}", args.topic, count(changed, "broker"));
    Ok(ExitCode::SUCCESS)
}

/// Makes or changes a topic, and waits until NameServers tell clients so.
async fn put(cluster: &Cluster, config: &TopicConfig, broker: Option<&str>) -> Result<()> {
    match broker {
        None => cluster.admin.put_topic(config).await?,
        Some(broker) => {
            let address = super::cluster::master(cluster, broker).await?;
            cluster.admin.put_topic_on(&address, config).await?;
        }
    }
    let seen = cluster.until(ROUTE_LIMIT, async || {
        let Ok(route) = cluster.admin.route(&config.topic_name).await else { return false };
        let of_brokers = route.queue_datas.iter().filter(|data| broker.is_none_or(|broker| broker == data.broker_name));
        let same = |data: &crate::proto::body::QueueData| {
            (data.read_queue_nums, data.write_queue_nums) == (config.read_queue_nums, config.write_queue_nums)
                && data.perm == config.perm
        };
        let mut of_brokers = of_brokers.peekable();
        of_brokers.peek().is_some() && of_brokers.all(same)
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

/// `metaq topic stats`
pub async fn stats(cluster: Cluster, args: StatsTopic) -> Result<ExitCode> {
    let topics: Vec<String> = match &args.topic {
        Some(topic) => {
            cluster.route(topic).await?;
            vec![topic.clone()]
        }
        None => {
            let kinds = Kinds::of(&cluster).await?;
            cluster.admin.topics().await?.into_iter().filter(|topic| kinds.kind(topic) == "normal").collect()
        }
    };
    let columns = [
        ("topic", "TOPIC"),
        ("messages", "MESSAGES"),
        ("inPerSecond", "IN/S"),
        ("outPerSecond", "OUT/S"),
        ("inToday", "IN 24H"),
        ("outToday", "OUT 24H"),
        ("newest", "NEWEST"),
    ];
    let mut listing = Listing::new(&columns, "no topics");
    let mut progress = Progress::new(&cluster.env.clock, "asking brokers", Some(topics.len() as u64));
    for (done, topic) in topics.iter().enumerate() {
        progress.at(done as u64);
        let table = match cluster.admin.topic_stats(topic).await {
            Ok(table) => table,
            // It was deleted meanwhile.
            Err(Error::NoRoute { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let traffic = cluster.admin.topic_traffic(topic).await?;
        let newest = table.offset_table.values().map(|offsets| offsets.last_update_timestamp).max().unwrap_or(0);
        let messages = table.offset_table.values().map(|offsets| offsets.max_offset - offsets.min_offset).sum();
        listing.push(vec![
            Cell::text(topic),
            Cell::Number(messages),
            Cell::Rate(traffic.in_per_second),
            Cell::Rate(traffic.out_per_second),
            Cell::Number(traffic.in_day),
            Cell::Number(traffic.out_day),
            Cell::time(newest),
        ]);
    }
    drop(progress);
    cluster.screen.list(&listing, &args.list)?;
    Ok(ExitCode::SUCCESS)
}
