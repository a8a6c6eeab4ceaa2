//! `metaq topic order`: the queues of a topic that stay listed whatever becomes of their brokers.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use crate::cli::connect::{Cluster, ClusterArgs};
use crate::cli::console::tell;
use crate::cli::fail::Failure;
use crate::cli::show::{Cell, ListArgs, Listing};

/// How long NameServers may take to show a change.
const ROUTE_LIMIT: Duration = Duration::from_secs(2);

/// Show or fix the queues of a topic for clients
///
/// A topic's keys are spread over its queues. While a broker is away its queues leave the route, and
/// keys move to others, out of order. Fixed queues stay: what belongs on a broker that is away is
/// refused until it is back. NameServers need `orderMessageEnable=true`.
///
///   metaq topic order Orders                                      show them
///   metaq topic order Orders --fix broker-a:8 --fix broker-b:8    these and no others
///   metaq topic order Orders --free                               as brokers come and go
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct OrderTopic {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Which topic
    pub topic: String,
    /// Fix so many queues on a broker; of several, each broker's
    #[arg(long, value_name = "BROKER:N", value_delimiter = ';', value_parser = broker_queues, conflicts_with = "free")]
    pub fix: Vec<(String, i32)>,
    /// Fix none any more
    #[arg(long)]
    pub free: bool,
    #[command(flatten)]
    pub list: ListArgs,
}

fn broker_queues(text: &str) -> Result<(String, i32), String> {
    let (broker, queues) = text.rsplit_once(':').ok_or("it has to be BROKER:N")?;
    let queues = queues.parse().ok().filter(|queues| (1..=65_536).contains(queues));
    Ok((broker.to_owned(), queues.ok_or("N has to be 1 to 65536")?))
}

/// Carries it out.
///
/// # Errors
/// What a NameServer refuses, or that there is none.
pub async fn order(cluster: Cluster, args: OrderTopic) -> Result<ExitCode> {
    if args.free {
        cluster.admin.unfix_queues(&args.topic).await?;
        tell!("the queues of topic {} are those of the brokers that are there", args.topic);
        return Ok(ExitCode::SUCCESS);
    }
    if !args.fix.is_empty() {
        fix(&cluster, &args.topic, &args.fix.into_iter().collect()).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(queues) = cluster.admin.fixed_queues(&args.topic).await? else {
        let failure = Failure::refused(format!("no queues of topic `{}` are fixed", args.topic));
        let fix = cluster.command(&format!("topic order {} --fix BROKER:N", args.topic));
        return Err(failure.hint(format!("{fix} fixes them")).into());
    };
    let mut list = Listing::new(&[("broker", "BROKER"), ("queues", "QUEUES")], "none");
    for (broker, queues) in queues {
        list.push(vec![Cell::text(broker), Cell::Number(queues.into())]);
    }
    cluster.screen.list(&list, &args.list)?;
    Ok(ExitCode::SUCCESS)
}

/// Fixes a topic's queues, and says if the NameServers keep that to themselves.
pub(super) async fn fix(cluster: &Cluster, topic: &str, queues: &BTreeMap<String, i32>) -> Result<()> {
    cluster.admin.fix_queues(topic, queues).await?;
    let seen = cluster.until(ROUTE_LIMIT, async || {
        cluster.admin.route(topic).await.is_ok_and(|route| route.order_topic_conf.is_some())
    });
    let total: i64 = queues.values().map(|queues| i64::from(*queues)).sum();
    tell!("fixed {total} queues of topic {topic}");
    if !seen.await {
        tell!("warning: clients are not told: the NameServers need orderMessageEnable=true");
    }
    Ok(())
}
