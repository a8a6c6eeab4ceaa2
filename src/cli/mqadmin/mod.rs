//! `metaq mqadmin`: RocketMQ's names and short options for what both tools have. Each is put into our own words and run
//! as those, so there is one implementation of everything, and the hint teaches its name.

mod options;

use anyhow::Result;
use clap::{Args, Subcommand};

use self::options::*;
use super::console::tell;
use super::fail::Failure;

/// RocketMQ's `mqadmin`: its names and short options for what both have
///
/// Nothing is asked before it is done, as there. `-c` is taken but chooses nothing: changes go
/// to every broker that the NameServers know, or to the one that `-b` names.
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
    /// As `topic order`
    UpdateOrderConf(UpdateOrderConf),
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
    /// As `group create --replace`
    UpdateSubGroup(UpdateSubGroup),
    /// As `group producers`
    ProducerConnection(ProducerConnection),
    /// As `cluster config`
    GetBrokerConfig(OfBroker),
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
            let words = words.option("--read-queues", (read != write).then_some(read)).option("--perm", args.perm);
            words.flag("--order", args.order == Some(true)).option("--attribute", args.attributes)
        }
        Mqadmin::UpdateOrderConf(args) => {
            let words = Words::new("topic order").name(args.topic);
            match (args.method.as_str(), args.value) {
                ("put", Some(value)) => words.option("--fix", Some(value.trim_end_matches(';'))),
                ("get", _) => words,
                ("delete", _) => words.flag("--free", true),
                _ => return Err(Failure::usage("-m is put, get or delete; put wants -v").into()),
            }
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
        Mqadmin::UpdateSubGroup(args) => {
            // What is not named there is false, not what it was.
            let words = Words::new("group create --replace").name(args.group).option("--broker", args.broker);
            let words = words.option("--consume", args.consume).option("--from-min", Some(args.from_min == Some(true)));
            let words = words.option("--broadcast", Some(args.broadcast == Some(true)));
            let words = words.option("--orderly", args.orderly).option("--notify", args.notify);
            let words = words.option("--retries", args.retries).option("--retry-queues", args.retry_queues);
            words.option("--read-from", args.read_from).option("--read-slowly-from", args.read_slowly_from)
        }
        Mqadmin::ProducerConnection(args) => Words::new("group producers").name(args.group).name(args.topic),
        Mqadmin::GetBrokerConfig(args) => Words::new("cluster config").name(args.broker),
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
