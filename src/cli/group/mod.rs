//! `metaq group`: consumer groups, how far they are, and moving them.

mod change;
mod reset;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

use self::change::{create, refuse_system_group, update, CreateGroup, UpdateGroup};
use self::reset::{reset, ResetArgs};
use super::connect::{run as run_on, Cluster, ClusterArgs};
use super::console::tell;
use super::show::{confirmed, count, span, Cell, ConfirmArgs, Details, JsonArg, ListArgs, Listing, Plan, Progress};
use crate::client::GroupLag;
use crate::proto::body::{Connection, ConsumerConnection, MessageModel, SubscriptionGroupConfig};
use crate::proto::message::system::is_system_group;
use crate::proto::remoting::version;

/// Arguments of `metaq group`.
#[derive(Debug, Args)]
pub struct GroupArgs {
    #[command(subcommand)]
    command: GroupCommand,
}

#[derive(Debug, Subcommand)]
enum GroupCommand {
    /// List consumer groups with their members and how many messages wait for them
    List(ListGroups),
    /// Show a group: settings, members, subscriptions
    Show(ShowGroup),
    /// Show how many messages wait for a group, queue by queue
    Lag(LagArgs),
    /// Make a group on every broker; without it, one is made when its first consumer comes
    Create(CreateGroup),
    /// Change a group's settings on every broker; what is not named stays
    Update(UpdateGroup),
    /// Show who sends as a producer group
    Producers(ProducersArgs),
    Reset(ResetArgs),
    /// Give a group the offsets of another; neither should run
    Clone(CloneArgs),
    /// Delete a group's settings and offsets
    Delete(DeleteGroup),
}

/// Arguments of `metaq group list`.
#[derive(Debug, Args)]
pub struct ListGroups {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Also those of RocketMQ itself
    #[arg(short = 'a', long)]
    pub all: bool,
    #[command(flatten)]
    pub list: ListArgs,
}

/// Arguments of `metaq group show`.
#[derive(Debug, Args)]
pub struct ShowGroup {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Which group
    pub group: String,
    #[command(flatten)]
    pub json: JsonArg,
}

/// Arguments of `metaq group lag`.
#[derive(Debug, Args)]
pub struct LagArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Which group
    pub group: String,
    /// Only in this topic
    #[arg(long)]
    pub topic: Option<String>,
    #[command(flatten)]
    pub list: ListArgs,
}

/// Arguments of `metaq group producers`.
#[derive(Debug, Args)]
pub struct ProducersArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Which group
    pub group: String,
    /// A topic that it sends to
    pub topic: String,
    #[command(flatten)]
    pub list: ListArgs,
}

/// Arguments of `metaq group clone`.
#[derive(Debug, Args)]
pub struct CloneArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Whose offsets
    pub from: String,
    /// Who gets them
    pub to: String,
    /// Only of this topic
    #[arg(long)]
    pub topic: Option<String>,
    #[command(flatten)]
    pub confirm: ConfirmArgs,
    #[command(flatten)]
    pub list: ListArgs,
}

/// Arguments of `metaq group delete`.
#[derive(Debug, Args)]
pub struct DeleteGroup {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Which group
    pub group: String,
    /// Keep its offsets, for a group that comes back under this name
    #[arg(long)]
    pub keep_offsets: bool,
    #[command(flatten)]
    pub confirm: ConfirmArgs,
    #[command(flatten)]
    pub list: ListArgs,
}

/// Runs `metaq group`.
pub fn run(args: GroupArgs) -> Result<ExitCode> {
    match args.command {
        GroupCommand::List(args) => run_on(&args.cluster.clone(), |cluster| list(cluster, args)),
        GroupCommand::Show(args) => run_on(&args.cluster.clone(), |cluster| show(cluster, args)),
        GroupCommand::Lag(args) => run_on(&args.cluster.clone(), |cluster| lag(cluster, args)),
        GroupCommand::Producers(args) => run_on(&args.cluster.clone(), |cluster| producers(cluster, args)),
        GroupCommand::Create(args) => run_on(&args.cluster.clone(), |cluster| create(cluster, args)),
        GroupCommand::Update(args) => run_on(&args.cluster.clone(), |cluster| update(cluster, args)),
        GroupCommand::Reset(args) => run_on(&args.cluster.clone(), |cluster| reset(cluster, args)),
        GroupCommand::Clone(args) => run_on(&args.cluster.clone(), |cluster| clone(cluster, args)),
        GroupCommand::Delete(args) => run_on(&args.cluster.clone(), |cluster| delete(cluster, args)),
    }
}

/// A group's settings; none if it has offsets only, which outlive settings.
///
/// # Errors
/// If there is no such group, with the name that was probably meant.
pub async fn settings(cluster: &Cluster, group: &str) -> Result<Option<SubscriptionGroupConfig>> {
    let settings = cluster.admin.groups().await?.remove(group);
    if settings.is_none() && cluster.admin.topics_of_group(group).await?.is_empty() {
        return Err(cluster.no_group(group).await.into());
    }
    Ok(settings)
}

/// `metaq group list`
pub async fn list(cluster: Cluster, args: ListGroups) -> Result<ExitCode> {
    let groups = cluster.admin.groups().await?;
    let groups: Vec<_> = groups.into_keys().filter(|group| args.all || !is_system_group(group)).collect();
    let columns = [
        ("group", "GROUP"),
        ("members", "MEMBERS"),
        ("model", "MODEL"),
        ("topics", "TOPICS"),
        ("perSecond", "PER SECOND"),
        ("lag", "LAG"),
    ];
    let mut listing = Listing::new(&columns, "no groups; one is made when its first consumer comes");
    let mut progress = Progress::new(&cluster.env.clock, "asking brokers", Some(groups.len() as u64));
    for (done, group) in groups.iter().enumerate() {
        progress.at(done as u64);
        let members = cluster.admin.consumers(group).await?;
        let topics = cluster.admin.topics_of_group(group).await?;
        let lag = cluster.admin.lag(group, None).await?;
        listing.push(vec![
            Cell::text(group),
            Cell::Number(members.as_ref().map_or(0, |members| members.connection_set.len() as i64)),
            members.as_ref().map_or(Cell::None, |members| Cell::text(model(members))),
            Cell::texts(topics),
            Cell::Rate(lag.consume_tps),
            Cell::Number(lag.total()),
        ]);
    }
    drop(progress);
    cluster.screen.list(&listing, &args.list)?;
    Ok(ExitCode::SUCCESS)
}

fn model(members: &ConsumerConnection) -> &'static str {
    match members.message_model {
        MessageModel::Broadcasting => "broadcasting",
        MessageModel::Clustering => "clustering",
    }
}

/// The members of a group as a list.
pub fn members_list<'a>(members: impl IntoIterator<Item = &'a Connection>) -> Listing {
    let columns = [("id", "CLIENT"), ("address", "ADDRESS"), ("language", "LANGUAGE"), ("version", "VERSION")];
    let mut listing = Listing::new(&columns, "nobody is connected");
    for member in members {
        listing.push(vec![
            Cell::text(&member.client_id),
            Cell::text(&member.client_addr),
            Cell::text(&member.language),
            Cell::text(version::name(member.version)),
        ]);
    }
    listing
}

/// `metaq group show`
pub async fn show(cluster: Cluster, args: ShowGroup) -> Result<ExitCode> {
    let settings = settings(&cluster, &args.group).await?;
    let members = cluster.admin.consumers(&args.group).await?;
    let lag = cluster.admin.lag(&args.group, None).await?;
    let topics = cluster.admin.topics_of_group(&args.group).await?;
    let mut subscriptions = Listing::new(&[("topic", "TOPIC"), ("tags", "TAGS"), ("kind", "KIND")], "none");
    for (topic, subscription) in members.iter().flat_map(|members| &members.subscription_table) {
        subscriptions.push(vec![
            Cell::text(topic),
            Cell::text(&subscription.sub_string),
            Cell::text(subscription.expression_type.name()),
        ]);
    }
    let set = |cell: fn(&SubscriptionGroupConfig) -> Cell| settings.as_ref().map_or(Cell::None, cell);
    let details = Details::default()
        .fact("group", "group", Cell::text(&args.group))
        .fact("lag", "lag", Cell::Number(lag.total()))
        .fact("perSecond", "per second", Cell::Rate(lag.consume_tps))
        .fact("topics", "topics", Cell::texts(topics))
        .fact("model", "model", members.as_ref().map_or(Cell::None, |members| Cell::text(model(members))))
        .fact("consumeEnabled", "may consume", set(|set| Cell::Flag(set.consume_enable)))
        .fact("broadcastEnabled", "may broadcast", set(|set| Cell::Flag(set.consume_broadcast_enable)))
        .fact("fromMinEnabled", "may begin at first", set(|set| Cell::Flag(set.consume_from_min_enable)))
        .fact("orderly", "orderly", set(|set| Cell::Flag(set.consume_message_orderly)))
        .fact("notifies", "members are told", set(|set| Cell::Flag(set.notify_consumer_ids_changed_enable)))
        .fact("readFrom", "reads from", set(|set| Cell::Number(set.broker_id)))
        .fact("readSlowlyFrom", "far behind from", set(|set| Cell::Number(set.which_broker_when_consume_slowly)))
        .fact("retriesMax", "retries", set(|set| Cell::Number(i64::from(set.retry_max_times))))
        .fact("retryQueues", "retry queues", set(|set| Cell::Number(i64::from(set.retry_queue_nums))))
        .list("members", "members", members_list(members.iter().flat_map(|members| &members.connection_set)))
        .list("subscriptions", "subscriptions", subscriptions);
    cluster.screen.details(&details, args.json);
    if !args.json.json && lag.total() > 0 {
        cluster.hint("see where messages wait with", &format!("group lag {}", args.group));
    }
    Ok(ExitCode::SUCCESS)
}

/// `metaq group lag`
pub async fn lag(cluster: Cluster, args: LagArgs) -> Result<ExitCode> {
    settings(&cluster, &args.group).await?;
    if let Some(topic) = &args.topic {
        cluster.route(topic).await?;
    }
    let lag = cluster.admin.lag(&args.group, args.topic.as_deref()).await?;
    cluster.screen.list(&lag_list(&cluster, &lag), &args.list)?;
    if !args.list.json.json && args.list.format.is_none() {
        let (total, tps) = (lag.total(), lag.consume_tps);
        tell!("{} {}, {tps:.1}/s are consumed", count(total, "message"), if total == 1 { "waits" } else { "wait" });
    }
    Ok(ExitCode::SUCCESS)
}

fn lag_list(cluster: &Cluster, lag: &GroupLag) -> Listing {
    let columns = [
        ("topic", "TOPIC"),
        ("broker", "BROKER"),
        ("queue", "QUEUE"),
        ("end", "END"),
        ("committed", "COMMITTED"),
        ("lag", "LAG"),
        ("lastConsumed", ""),
        ("behindMs", ""),
        ("behind", "BEHIND"),
    ];
    let mut listing = Listing::new(&columns, "the group has consumed nothing yet");
    for (queue, offsets) in &lag.queues {
        let waits = (offsets.broker_offset - offsets.consumer_offset).max(0);
        // Brokers tell when the last consumed message was stored.
        let behind = (waits > 0 && offsets.last_timestamp > 0).then(|| cluster.now().0 - offsets.last_timestamp);
        listing.push(vec![
            Cell::text(&queue.topic),
            Cell::text(&queue.broker_name),
            Cell::Number(i64::from(queue.queue_id)),
            Cell::Number(offsets.broker_offset),
            Cell::Number(offsets.consumer_offset),
            Cell::Number(waits),
            Cell::time(offsets.last_timestamp),
            behind.map_or(Cell::None, Cell::Number),
            behind.map_or(Cell::None, |behind| Cell::text(span(behind))),
        ]);
    }
    listing
}

/// `metaq group producers`
pub async fn producers(cluster: Cluster, args: ProducersArgs) -> Result<ExitCode> {
    cluster.route(&args.topic).await?;
    let members = cluster.admin.producers(&args.group, &args.topic).await?;
    cluster.screen.list(&members_list(&members.connection_set), &args.list)?;
    Ok(ExitCode::SUCCESS)
}

/// `metaq group clone`
pub async fn clone(cluster: Cluster, args: CloneArgs) -> Result<ExitCode> {
    settings(&cluster, &args.from).await?;
    let topics = match &args.topic {
        Some(topic) => vec![topic.clone()],
        None => cluster.admin.topics_of_group(&args.from).await?.into_iter().collect(),
    };
    let columns = [("topic", "TOPIC"), ("broker", "BROKER"), ("queue", "QUEUE"), ("now", "NOW"), ("then", "THEN")];
    let mut changes = Listing::new(&columns, "nothing");
    for topic in &topics {
        cluster.route(topic).await?;
        for queue in cluster.admin.queues(topic).await? {
            let Some(then) = cluster.admin.committed(&args.from, &queue).await? else { continue };
            let now = cluster.admin.committed(&args.to, &queue).await?;
            changes.push(vec![
                Cell::text(topic),
                Cell::text(&queue.broker_name),
                Cell::Number(i64::from(queue.queue_id)),
                now.map_or(Cell::None, Cell::Number),
                Cell::Number(then),
            ]);
        }
    }
    let plan = Plan { what: format!("give group {} the offsets of group {}", args.to, args.from), changes };
    if confirmed(&cluster.screen, &plan, args.confirm, &args.list)? {
        for topic in &topics {
            cluster.admin.clone_offsets(&args.from, &args.to, Some(topic)).await?;
        }
        tell!("group {} goes on where group {} is", args.to, args.from);
    }
    Ok(ExitCode::SUCCESS)
}

/// `metaq group delete`
pub async fn delete(cluster: Cluster, args: DeleteGroup) -> Result<ExitCode> {
    refuse_system_group(&args.group)?;
    settings(&cluster, &args.group).await?;
    let members = cluster.admin.consumers(&args.group).await?;
    let members_count = members.as_ref().map_or(0, |members| members.connection_set.len());
    let lag = cluster.admin.lag(&args.group, None).await?;
    let changes = lag_list(&cluster, &lag);
    let offsets = if args.keep_offsets { "" } else { " with its offsets" };
    let connected = if members_count > 0 { format!("; members are connected: {members_count}") } else { String::new() };
    let plan = Plan { what: format!("delete group {}{offsets}{connected}", args.group), changes };
    if confirmed(&cluster.screen, &plan, args.confirm, &args.list)? {
        cluster.admin.delete_group(&args.group, !args.keep_offsets).await?;
        tell!("deleted group {}", args.group);
        if members_count > 0 {
            tell!("note: members are still connected and may bring it back; stop them first");
        }
    }
    Ok(ExitCode::SUCCESS)
}
