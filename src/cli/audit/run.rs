//! `metaq audit run`: load that is recorded, a reading of what lies there in the end, and the verdict.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use futures::future::{join_all, select, Either};

use super::load::{consume, produce, Load};
use super::reading::{queues_used, read_topic, settle};
use super::verdict::{read_all, verdict, TermsArgs};
use crate::audit::file::EXTENSION;
use crate::cli::connect::{run as run_on, Cluster, ClusterArgs};
use crate::cli::console::tell;
use crate::cli::fail::Failure;
use crate::cli::show::JsonArg;
use crate::cli::signals::stop_requested;
use crate::client::{Client, Error, MessageQueue, Recorder};

/// How long calls of the listener that run are waited for at the end.
const GRACE: Duration = Duration::from_secs(5);

/// Arguments of `metaq audit run`.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Topic; made if it is not there
    #[arg(long, value_name = "TOPIC")]
    topic: String,
    /// Folder for the history; made if missing. All histories in it are judged together
    #[arg(long, value_name = "DIR")]
    history: PathBuf,
    /// Producers, each of which sends one message after the other
    #[arg(long, value_name = "N", default_value_t = 4)]
    producers: usize,
    /// Consumers, all of one group
    #[arg(long, value_name = "N", default_value_t = 2)]
    consumers: usize,
    /// How long to send
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    seconds: f64,
    /// Messages a second of each producer at most
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Bytes of a body at most; each has between 1 and so many
    #[arg(long, value_name = "BYTES", default_value_t = 512)]
    size: usize,
    /// Queues that the topic gets on each broker if it is made
    #[arg(long, value_name = "N", default_value_t = 4)]
    queues: i32,
    /// The consumers' group
    #[arg(long, value_name = "GROUP", default_value = "metaq_audit")]
    group: String,
    /// Consume each queue in order
    #[arg(long)]
    orderly: bool,
    /// Of 1,000 messages so many fail at first and are handed back; not in order
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "orderly")]
    fail: u32,
    /// How often a producer tries again by itself; then a message may be stored twice, and that is not judged
    #[arg(long, value_name = "N", default_value_t = 0)]
    retries: u32,
    /// How long the group may take to come to the end after the last message
    #[arg(long, value_name = "N", default_value_t = 60.0)]
    settle: f64,
    /// Only record: somebody else reads and judges
    #[arg(long)]
    record_only: bool,
    #[command(flatten)]
    terms: TermsArgs,
    #[command(flatten)]
    json: JsonArg,
}

/// Runs `metaq audit run`.
pub fn run(args: RunArgs) -> Result<ExitCode> {
    run_on(&args.cluster.clone(), |cluster| audit(cluster, args))
}

async fn audit(cluster: Cluster, args: RunArgs) -> Result<ExitCode> {
    let seconds = |number: f64, what| {
        Duration::try_from_secs_f64(number).map_err(|_| Failure::usage(format!("{what} is no number of seconds")))
    };
    let (sending, settling) = (seconds(args.seconds, "--seconds")?, seconds(args.settle, "--settle")?);
    let env = &cluster.env;
    env.disk.create_dir_all(&args.history).context("the folder for the history cannot be made")?;
    let name = format!("run-{}-{:04x}", std::process::id(), env.rng.next_u64() as u16);
    let recorder = Recorder::create(env, args.history.join(format!("{name}.{EXTENSION}")))?;
    let works = args.producers + args.consumers > 0;
    let queues = if works { make_topic(&cluster, &args, settling).await? } else { BTreeSet::new() };

    let load = Arc::new(Load {
        topic: args.topic.clone(),
        group: args.group.clone(),
        size: args.size.max(1),
        pace: args.rate.map(|rate| Duration::from_secs_f64(1.0 / rate.max(0.001))),
        orderly: args.orderly,
        fail: args.fail,
        retries: args.retries,
        queues: Mutex::new(queues),
        stop: Default::default(),
        stored: Default::default(),
        failed: Default::default(),
        last_failure: Default::default(),
        waiting: Default::default(),
    });
    let client = || -> Result<Client> {
        let client = Client::new(env, args.cluster.nameservers())?;
        client.record(&recorder)?;
        Ok(client)
    };
    // Each is a client of its own, as it would be in a process of its own.
    let mut consumers = Vec::new();
    for _ in 0..args.consumers {
        let client = client()?;
        consumers.push((consume(&client, &load).await?, client));
    }
    tell!("{name}: {} producers and {} consumers at work", args.producers, args.consumers);
    let producers =
        (0..args.producers).map(|_| Ok(produce(client()?, Arc::clone(&load)))).collect::<Result<Vec<_>>>()?;
    let ended = Box::pin(async {
        let stop = Box::pin(select(env.clock.sleep(sending), Box::pin(stop_requested())));
        if let Either::Left(_) = select(stop, Box::pin(std::future::pending::<()>())).await {
            load.stop();
        }
    });
    let (sent, ()) = futures::join!(join_all(producers), ended);
    sent.into_iter().collect::<Result<Vec<()>, Error>>()?;
    tell!("{}", load.story());

    if args.consumers > 0 && !settle(&cluster, &load, settling).await {
        tell!("warning: the group has not come to the end after {} s", args.settle);
    }
    for (consumer, client) in consumers {
        consumer.stop(GRACE).await;
        client.close().await;
    }
    if args.record_only {
        recorder.close()?;
        return Ok(ExitCode::SUCCESS);
    }
    recorder.flush()?;
    let used = queues_used(&read_all(env, std::slice::from_ref(&args.history))?, &args.topic);
    let read = read_topic(&cluster, &args.topic, &used, &recorder, settling).await;
    recorder.close()?;
    tell!("{} messages lie in {}", read?, args.topic);
    verdict(env, &[args.history], args.terms, args.json)
}

/// Makes the topic unless it is there, and gives its queues. Servers that do not answer are waited for.
async fn make_topic(cluster: &Cluster, args: &RunArgs, limit: Duration) -> Result<BTreeSet<MessageQueue>> {
    let mut outcome = Err(Error::NoRoute { topic: args.topic.clone() });
    let known = async || {
        outcome = cluster.admin.queues(&args.topic).await;
        if let Err(Error::NoRoute { .. }) = &outcome {
            // Known to the NameServers in a moment.
            outcome = cluster.admin.create_topic(&args.topic, args.queues).await.map(|()| Vec::new());
        }
        match &outcome {
            Ok(queues) => !queues.is_empty(),
            Err(error) => !error.retryable(),
        }
    };
    cluster.until(limit, known).await;
    Ok(outcome?.into_iter().collect())
}
