//! `metaq topic`: what topics there are, and changing them.

mod change;
mod order;
mod shrink;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

use self::change::{create, delete, update, CreateTopic, DeleteTopic, UpdateTopic};
use self::order::{order, OrderTopic};
use super::connect::{run as run_on, Cluster, ClusterArgs};
use super::console::tell;
use super::show::{Cell, Details, JsonArg, ListArgs, Listing, Progress};
use crate::client::Error;
use crate::proto::body::{permission, TopicConfig};
use crate::proto::message::names::{is_dlq_topic, is_retry_topic, REPLY_SUFFIX};
use crate::proto::message::system::{is_system_group, is_system_topic};

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
    Order(OrderTopic),
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

/// Runs `metaq topic`.
pub fn run(args: TopicArgs) -> Result<ExitCode> {
    match args.command {
        TopicCommand::List(args) => run_on(&args.cluster.clone(), |cluster| list(cluster, args)),
        TopicCommand::Show(args) => run_on(&args.cluster.clone(), |cluster| show(cluster, args)),
        TopicCommand::Create(args) => run_on(&args.cluster.clone(), |cluster| create(cluster, args)),
        TopicCommand::Update(args) => run_on(&args.cluster.clone(), |cluster| update(cluster, args)),
        TopicCommand::Delete(args) => run_on(&args.cluster.clone(), |cluster| delete(cluster, args)),
        TopicCommand::Order(args) => run_on(&args.cluster.clone(), |cluster| order(cluster, args)),
        TopicCommand::Stats(args) => run_on(&args.cluster.clone(), |cluster| stats(cluster, args)),
    }
}

/// `metaq topic list`
pub async fn list(cluster: Cluster, args: ListTopics) -> Result<ExitCode> {
    let mut topics: BTreeMap<String, Vec<TopicConfig>> = BTreeMap::new();
    for (broker, configs) in answered(cluster.admin.all_topic_configs().await?)? {
        let Some(configs) = configs else {
            tell!("note: topics that only {broker} has are missing here");
            continue;
        };
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

/// What brokers said; of those that said nothing, a warning. If none did, the error of one.
fn answered<T>(answers: BTreeMap<String, Result<T, Error>>) -> Result<Vec<(String, Option<T>)>> {
    let mut all = Vec::with_capacity(answers.len());
    let mut last = None;
    for (broker, answer) in answers {
        match answer {
            Ok(answer) => all.push((broker, Some(answer))),
            Err(error) => {
                tell!("warning: {broker}: {error}");
                all.push((broker, None));
                last = Some(error);
            }
        }
    }
    match last {
        Some(error) if all.iter().all(|(_, answer)| answer.is_none()) => Err(error.into()),
        _ => Ok(all),
    }
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
