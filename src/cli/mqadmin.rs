//! `metaq mqadmin`: RocketMQ's names and short options for what both tools have. Each is put into our own words and run
//! as those, so there is one implementation of everything, and the hint teaches its name.

use anyhow::Result;
use clap::{Args, Subcommand};

use super::console::tell;
use super::fail::Failure;

/// RocketMQ's `mqadmin`: its names and short options for what both have
///
/// Nothing is asked before it is done, as there.
///
///   metaq mqadmin topicList -n 127.0.0.1:9876
///   metaq mqadmin updateTopic -c DefaultCluster -t Orders -r 8 -w 8
///   metaq mqadmin consumerProgress -g billing
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct MqadminArgs {
    /// NameServers, separated by `;`
    #[arg(short = 'n', long = "namesrvAddr", value_name = "HOST:PORT", global = true)]
    nameservers: Option<String>,
    #[command(subcommand)]
    command: Mqadmin,
}

#[derive(Debug, Subcommand)]
#[command(rename_all = "camelCase")]
enum Mqadmin {
    /// As `topic list --all`
    TopicList(Ignored),
    /// As `topic show`
    TopicRoute(OfTopic),
    /// As `topic show`
    TopicStatus(OfTopic),
    /// As `topic create --replace`
    UpdateTopic(UpdateTopic),
    /// As `topic update --perm`
    UpdateTopicPerm(UpdateTopic),
    /// As `topic delete --yes`
    DeleteTopic(OfTopic),
    /// As `topic stats`
    StatsAll(StatsAll),
    /// As `cluster list`, with -m `cluster stats`
    ClusterList(ClusterList),
    /// As `cluster stats`
    BrokerStatus(Ignored),
    /// As `group lag`, without -g `group list`
    ConsumerProgress(ConsumerProgress),
    /// As `group show`
    ConsumerConnection(OfGroup),
    /// As `group show`
    ConsumerStatus(OfGroup),
    /// As `group show`
    GetConsumerConfig(OfGroup),
    /// As `group delete --yes`
    DeleteSubGroup(DeleteSubGroup),
    /// As `group reset --yes`
    ResetOffsetByTime(ResetOffsetByTime),
    /// As `group reset --to end --yes`
    SkipAccumulatedMessage(ResetToEnd),
    /// As `group clone --yes`
    CloneGroupOffset(CloneGroupOffset),
    /// As `message show`, with -g and -d `message resend`
    QueryMsgById(QueryMsg),
    /// As `message show --topic`, with -g and -d `message resend`
    QueryMsgByUniqueKey(QueryMsg),
    /// As `message find`
    QueryMsgByKey(QueryMsgByKey),
    /// As `tail --queue --from --max 1`
    QueryMsgByOffset(QueryMsgByOffset),
    /// As `send`
    SendMessage(SendMessage),
    /// As `tail --from --to`
    PrintMsg(PrintMsg),
    /// As `tail --queue --from --max`
    ConsumeMessage(ConsumeMessage),
}

/// Options that hidden fields accept without effect: changes are always made in the whole cluster.
#[derive(Debug, Args)]
struct Ignored {
    #[arg(short = 'c', long = "clusterName", num_args = 0..=1, default_missing_value = "", hide = true)]
    _cluster: Option<String>,
    #[arg(short = 'b', long = "brokerAddr", hide = true)]
    _broker: Option<String>,
}

#[derive(Debug, Args)]
struct OfTopic {
    #[arg(short = 't', long = "topic")]
    topic: String,
    #[arg(short = 'c', long = "clusterName", hide = true)]
    _cluster: Option<String>,
}

#[derive(Debug, Args)]
struct OfGroup {
    #[arg(short = 'g', long = "consumerGroup", alias = "groupName")]
    group: String,
    #[arg(short = 'b', long = "brokerAddr", hide = true)]
    _broker: Option<String>,
}

#[derive(Debug, Args)]
struct UpdateTopic {
    #[arg(short = 't', long = "topic")]
    topic: String,
    #[arg(short = 'c', long = "clusterName", hide = true)]
    _cluster: Option<String>,
    #[arg(short = 'b', long = "brokerAddr")]
    broker: Option<String>,
    #[arg(short = 'r', long = "readQueueNums")]
    read: Option<i32>,
    #[arg(short = 'w', long = "writeQueueNums")]
    write: Option<i32>,
    #[arg(short = 'p', long = "perm")]
    perm: Option<String>,
}

#[derive(Debug, Args)]
struct StatsAll {
    #[arg(short = 't', long = "topic")]
    topic: Option<String>,
    #[arg(short = 'a', long = "activeTopic", hide = true)]
    _active: bool,
}

#[derive(Debug, Args)]
struct ClusterList {
    #[arg(short = 'm', long = "moreStats")]
    more: bool,
    #[arg(short = 'c', long = "clusterName", hide = true)]
    _cluster: Option<String>,
}

#[derive(Debug, Args)]
struct ConsumerProgress {
    #[arg(short = 'g', long = "groupName")]
    group: Option<String>,
    #[arg(short = 't', long = "topicName")]
    topic: Option<String>,
    #[arg(short = 's', long = "showClientIP", num_args = 0..=1, default_missing_value = "true", hide = true)]
    _show_client: Option<String>,
}

#[derive(Debug, Args)]
struct DeleteSubGroup {
    #[arg(short = 'g', long = "groupName")]
    group: String,
    #[arg(short = 'c', long = "clusterName", hide = true)]
    _cluster: Option<String>,
    #[arg(short = 'b', long = "brokerAddr", hide = true)]
    _broker: Option<String>,
    #[arg(short = 'r', long = "removeOffset", num_args = 0..=1, default_missing_value = "true")]
    remove_offset: Option<bool>,
}

#[derive(Debug, Args)]
struct ResetOffsetByTime {
    #[arg(short = 'g', long = "group")]
    group: String,
    #[arg(short = 't', long = "topic")]
    topic: String,
    /// `now`, `currentTimeMillis`, milliseconds, or `2026-11-30#12:30:05:123`
    #[arg(short = 's', long = "timestamp", allow_hyphen_values = true)]
    time: String,
    #[arg(short = 'f', long = "force", num_args = 0..=1, hide = true)]
    _force: Option<String>,
    #[arg(short = 'b', long = "broker")]
    broker: Option<String>,
    #[arg(short = 'q', long = "queue")]
    queue: Option<i32>,
    #[arg(short = 'o', long = "offset")]
    offset: Option<i64>,
}

#[derive(Debug, Args)]
struct ResetToEnd {
    #[arg(short = 'g', long = "group")]
    group: String,
    #[arg(short = 't', long = "topic")]
    topic: String,
    #[arg(short = 'f', long = "force", num_args = 0..=1, hide = true)]
    _force: Option<String>,
}

#[derive(Debug, Args)]
struct CloneGroupOffset {
    #[arg(short = 's', long = "srcGroup")]
    from: String,
    #[arg(short = 'd', long = "destGroup")]
    to: String,
    #[arg(short = 't', long = "topic")]
    topic: Option<String>,
    #[arg(short = 'o', long = "offline", num_args = 0..=1, hide = true)]
    _offline: Option<String>,
}

#[derive(Debug, Args)]
struct QueryMsg {
    #[arg(short = 'i', long = "msgId")]
    id: String,
    #[arg(short = 't', long = "topic")]
    topic: Option<String>,
    #[arg(short = 'g', long = "consumerGroup")]
    group: Option<String>,
    #[arg(short = 'd', long = "clientId")]
    client: Option<String>,
}

#[derive(Debug, Args)]
struct QueryMsgByKey {
    #[arg(short = 't', long = "topic")]
    topic: String,
    #[arg(short = 'k', long = "msgKey")]
    key: String,
    #[arg(short = 'b', long = "beginTimestamp")]
    begin: Option<String>,
    #[arg(short = 'e', long = "endTimestamp")]
    end: Option<String>,
    #[arg(short = 'm', long = "maxNum")]
    max: Option<u32>,
}

#[derive(Debug, Args)]
struct QueryMsgByOffset {
    #[arg(short = 't', long = "topic")]
    topic: String,
    #[arg(short = 'b', long = "brokerName")]
    broker: String,
    #[arg(short = 'i', long = "queueId")]
    queue: i32,
    #[arg(short = 'o', long = "offset")]
    offset: i64,
}

#[derive(Debug, Args)]
struct SendMessage {
    #[arg(short = 't', long = "topic")]
    topic: String,
    #[arg(short = 'p', long = "body", allow_hyphen_values = true)]
    body: String,
    #[arg(short = 'k', long = "key")]
    key: Option<String>,
    #[arg(short = 'c', long = "tags")]
    tags: Option<String>,
}

#[derive(Debug, Args)]
struct PrintMsg {
    #[arg(short = 't', long = "topic")]
    topic: String,
    #[arg(short = 's', long = "subExpression")]
    tags: Option<String>,
    #[arg(short = 'b', long = "beginTimestamp")]
    begin: Option<String>,
    #[arg(short = 'e', long = "endTimestamp")]
    end: Option<String>,
    #[arg(short = 'd', long = "printBody", num_args = 0..=1, hide = true)]
    _body: Option<String>,
}

#[derive(Debug, Args)]
struct ConsumeMessage {
    #[arg(short = 't', long = "topic")]
    topic: String,
    #[arg(short = 'b', long = "brokerName", requires = "queue")]
    broker: Option<String>,
    #[arg(short = 'i', long = "queueId")]
    queue: Option<i32>,
    #[arg(short = 'o', long = "offset")]
    offset: Option<i64>,
    #[arg(short = 'g', long = "consumerGroup")]
    group: Option<String>,
    #[arg(short = 'c', long = "MessageNumber")]
    max: Option<u64>,
    #[arg(short = 's', long = "beginTimestamp")]
    begin: Option<String>,
    #[arg(short = 'e', long = "endTimestamp")]
    end: Option<String>,
}

/// Our own words for a command of Apache's.
///
/// # Errors
/// A usage error for what cannot be said so.
pub fn translate(args: MqadminArgs) -> Result<Vec<String>> {
    let mut words = words(args.command)?;
    if let Some(nameservers) = args.nameservers {
        words = words.option("-n", Some(nameservers));
    }
    let words = words.finish();
    tell!("hint: here this is `metaq {}`", quoted(&words));
    Ok(words)
}

fn words(command: Mqadmin) -> Result<Words> {
    Ok(match command {
        Mqadmin::TopicList(_) => Words::new("topic list --all"),
        Mqadmin::TopicRoute(args) | Mqadmin::TopicStatus(args) => Words::new("topic show").name(args.topic),
        Mqadmin::UpdateTopic(args) => {
            let (read, write) = (args.read.unwrap_or(8), args.write.unwrap_or(8));
            let words = Words::new("topic create --replace").name(args.topic).option("--broker", args.broker);
            let words = words.option("--queues", Some(write));
            words.option("--read-queues", (read != write).then_some(read)).option("--perm", args.perm)
        }
        Mqadmin::UpdateTopicPerm(args) => {
            let words = Words::new("topic update").name(args.topic);
            words.option("--perm", args.perm).option("--broker", args.broker)
        }
        Mqadmin::DeleteTopic(args) => Words::new("topic delete --yes").name(args.topic),
        Mqadmin::StatsAll(args) => args.topic.into_iter().fold(Words::new("topic stats"), Words::name),
        Mqadmin::ClusterList(args) => Words::new(if args.more { "cluster stats" } else { "cluster list" }),
        Mqadmin::BrokerStatus(_) => Words::new("cluster stats"),
        Mqadmin::ConsumerProgress(args) => match args.group {
            Some(group) => Words::new("group lag").name(group).option("--topic", args.topic),
            None => Words::new("group list"),
        },
        Mqadmin::ConsumerConnection(args) | Mqadmin::ConsumerStatus(args) | Mqadmin::GetConsumerConfig(args) => {
            Words::new("group show").name(args.group)
        }
        Mqadmin::DeleteSubGroup(args) => {
            let keep = args.remove_offset != Some(true);
            Words::new("group delete --yes").flag("--keep-offsets", keep).name(args.group)
        }
        Mqadmin::ResetOffsetByTime(args) => reset(args)?,
        Mqadmin::SkipAccumulatedMessage(args) => {
            Words::new("group reset --to end --yes").name(args.group).name(args.topic)
        }
        Mqadmin::CloneGroupOffset(args) => {
            Words::new("group clone --yes").name(args.from).name(args.to).option("--topic", args.topic)
        }
        Mqadmin::QueryMsgById(args) if args.group.is_none() => Words::new("message show").name(args.id),
        Mqadmin::QueryMsgByUniqueKey(args) if args.group.is_none() => {
            Words::new("message show").name(args.id).option("--topic", args.topic)
        }
        Mqadmin::QueryMsgById(args) => resend(QueryMsg { topic: None, ..args }),
        Mqadmin::QueryMsgByUniqueKey(args) => resend(args),
        Mqadmin::QueryMsgByKey(args) => {
            let words = Words::new("message find").name(args.topic).option("--key", Some(args.key));
            words.option("--from", args.begin).option("--to", args.end).option("--max", args.max)
        }
        Mqadmin::QueryMsgByOffset(args) => {
            let queue = format!("{}/{}", args.broker, args.queue);
            let words = Words::new("tail --max 1").name(args.topic).option("--queue", Some(queue));
            words.option("--from", Some(args.offset))
        }
        Mqadmin::SendMessage(args) => {
            let words = Words::new("send").name(args.topic).name(args.body);
            words.option("--key", args.key).option("--tag", args.tags)
        }
        Mqadmin::PrintMsg(args) => {
            let begin = args.begin.unwrap_or_else(|| "begin".to_owned());
            let words = Words::new("tail").name(args.topic).option("--from", Some(begin));
            words.option("--to", args.end).option("--tag", args.tags)
        }
        Mqadmin::ConsumeMessage(args) => {
            let queue = args.queue.map(|queue| match &args.broker {
                Some(broker) => format!("{broker}/{queue}"),
                None => queue.to_string(),
            });
            let from =
                args.offset.map(|offset| offset.to_string()).or(args.begin).unwrap_or_else(|| "begin".to_owned());
            let words = Words::new("tail").name(args.topic).option("--queue", queue).option("--from", Some(from));
            words.option("--to", args.end).option("--max", args.max.or(Some(128))).option("--group", args.group)
        }
    })
}

fn reset(args: ResetOffsetByTime) -> Result<Words> {
    let to = match args.time.as_str() {
        _ if args.offset.is_some() => args.offset.unwrap_or_default().to_string(),
        "now" | "currentTimeMillis" | "-1" => "end".to_owned(),
        "0" => "begin".to_owned(),
        other => other.to_owned(),
    };
    let queue = match (&args.broker, args.queue) {
        (Some(broker), Some(queue)) => Some(format!("{broker}/{queue}")),
        (None, Some(queue)) => Some(queue.to_string()),
        (None, None) => None,
        (Some(_), None) => {
            return Err(Failure::usage("a broker is named but no queue").hint("add `-q QUEUE`").into());
        }
    };
    let words = Words::new("group reset --yes").name(args.group).name(args.topic);
    Ok(words.option("--to", Some(to)).option("--queue", queue))
}

fn resend(args: QueryMsg) -> Words {
    let words = Words::new("message resend --yes").name(args.id).option("--topic", args.topic);
    words.option("--group", args.group).option("--client", args.client)
}

/// A command line: options first, so that names may look like options.
struct Words {
    options: Vec<String>,
    names: Vec<String>,
}

impl Words {
    fn new(command: &str) -> Words {
        Words { options: command.split(' ').map(str::to_owned).collect(), names: Vec::new() }
    }

    fn name(mut self, name: String) -> Words {
        self.names.push(name);
        self
    }

    fn flag(mut self, flag: &str, is_set: bool) -> Words {
        self.options.extend(is_set.then(|| flag.to_owned()));
        self
    }

    fn option(mut self, option: &str, value: Option<impl ToString>) -> Words {
        if let Some(value) = value {
            self.options.extend([option.to_owned(), value.to_string()]);
        }
        self
    }

    fn finish(self) -> Vec<String> {
        let Words { mut options, names } = self;
        if names.iter().any(|name| name.starts_with('-')) {
            options.push("--".to_owned());
        }
        options.extend(names);
        options
    }
}

fn quoted(words: &[String]) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=@".contains(letter);
    let quote = |word: &String| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}
