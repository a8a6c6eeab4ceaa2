//! Transactions: half message, local transaction that does nothing, commit, each answered before the next.

use std::cell::RefCell;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use futures::future::join_all;
use serde_json::json;

use super::measured::Measured;
use crate::cli::connect::{run as run_on, Cluster, ClusterArgs};
use crate::cli::console::{say, tell};
use crate::client::{LocalTransaction, Message, TransactionProducer};

/// Arguments of `metaq bench transactions`.
#[derive(Debug, Args)]
pub struct TransactionsArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Topic; made by the first message if it is not there
    #[arg(long, default_value = "metaq_bench")]
    topic: String,
    /// Bytes of a message's body
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    size: usize,
    /// Transactions that are under way at once
    #[arg(long, value_name = "N", default_value_t = 64)]
    in_flight: usize,
    /// How long to measure
    #[arg(long, value_name = "N", default_value_t = 5.0)]
    seconds: f64,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `metaq bench transactions`.
pub fn run(args: TransactionsArgs) -> Result<ExitCode> {
    run_on(&args.cluster.clone(), |cluster| measure(cluster, args))
}

async fn measure(cluster: Cluster, args: TransactionsArgs) -> Result<ExitCode> {
    let producer = cluster.client.producer("metaq_bench_transactions");
    let producer = producer.transactional(|_| async { LocalTransaction::Commit })?;
    // The topic is there, and connections are made, before anything counts.
    transact(&producer, &args).await?;
    let measured = RefCell::new(Measured::default());
    let clock = &cluster.env.clock;
    let (began, span) = (clock.monotonic(), Duration::from_secs_f64(args.seconds.clamp(0.1, 1e6)));
    let one_after_another = (0..args.in_flight.clamp(1, 1024)).map(|_| async {
        while clock.monotonic() < began + span {
            let since = clock.monotonic();
            let outcome = transact(&producer, &args).await;
            let nanos = (clock.monotonic() - since).as_nanos() as u64;
            let mut measured = measured.borrow_mut();
            match outcome {
                Ok(()) => {
                    measured.messages += 1;
                    measured.bytes += args.size as u64;
                    measured.latency.record(nanos, 1);
                }
                Err(error) => measured.error(-1, || error.to_string()),
            }
        }
    });
    join_all(one_after_another).await;
    let mut measured = measured.into_inner();
    measured.elapsed = clock.monotonic() - began;
    if args.json {
        say!("{}", json!({ "transactions": measured.to_json() }));
    } else {
        measured.print("transactions");
        tell!("note: each is a half message and its commit, both answered; the client is on one thread too");
    }
    Ok(ExitCode::SUCCESS)
}

async fn transact(producer: &TransactionProducer, args: &TransactionsArgs) -> Result<()> {
    let message = Message::new(&args.topic, vec![b'x'; args.size.max(1)]);
    let done = producer.send(message, |_| async { LocalTransaction::Commit }).await?;
    Ok(done.told?)
}
