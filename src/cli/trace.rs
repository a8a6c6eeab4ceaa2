//! `metaq message trace`: what clients noted about a message.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::connect::{Cluster, ClusterArgs};
use super::fail::Failure;
use super::show::{Cell, ListArgs, Listing};
use crate::client::{Trace, TraceKind};
use crate::env::Millis;
use crate::proto::message::system::TRACE_TOPIC;

const COLUMNS: [(&str, &str); 11] = [
    ("at", "TIME"),
    ("what", "WHAT"),
    ("group", "GROUP"),
    ("client", "CLIENT"),
    ("tookMs", "MS"),
    ("result", "RESULT"),
    ("retries", "RETRIES"),
    ("topic", "TOPIC"),
    ("broker", ""),
    ("id", ""),
    ("keys", ""),
];

/// Show who sent a message and who consumed it, as their clients noted it
///
/// Only clients that were told to write traces do (Java: `enableMsgTrace`), and only brokers
/// with `traceTopicEnable=true` have the topic for them.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct TraceMessage {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Its producer's id, the id of its place, or one of its keys
    pub id: String,
    /// Where clients write traces
    #[arg(long, value_name = "TOPIC", default_value = TRACE_TOPIC)]
    pub trace_topic: String,
    #[command(flatten)]
    pub list: ListArgs,
}

/// `metaq message trace`
pub async fn trace(cluster: Cluster, args: TraceMessage) -> Result<ExitCode> {
    if cluster.admin.route(&args.trace_topic).await.is_err() {
        let failure = Failure::refused(format!("there is no trace topic `{}`", args.trace_topic));
        return Err(failure.hint("brokers have it if `traceTopicEnable=true` stands in their broker.conf").into());
    }
    let traces = cluster.admin.traces(&args.trace_topic, &args.id).await?;
    if traces.is_empty() {
        let failure = Failure::refused(format!("no client noted anything about `{}`", args.id));
        return Err(failure
            .hint("clients write traces when told to, and a moment after; the id is the producer's")
            .into());
    }
    cluster.screen.list(&listing(&traces), &args.list)?;
    Ok(ExitCode::SUCCESS)
}

/// One row a send, and one a consumption, whose beginning and end come apart.
fn listing(traces: &[Trace]) -> Listing {
    let mut listing = Listing::new(&COLUMNS, "");
    for trace in traces {
        let end_of = |request: &str| {
            let is_end = |end: &&Trace| {
                matches!(&end.kind, TraceKind::Consumed { request_id, .. } if request_id == request)
                    && end.message_id == trace.message_id
            };
            traces.iter().find(is_end)
        };
        let row = match &trace.kind {
            TraceKind::Sent { topic, store_host, took_ms, success, client_host, message_type, .. } => Row {
                what: match message_type {
                    1 => "half message sent",
                    3 => "sent delayed",
                    _ => "sent",
                },
                client: client_host,
                took_ms: Some(*took_ms),
                result: if *success { "stored" } else { "failed" },
                topic,
                broker: store_host,
                retries: None,
            },
            TraceKind::Consuming { request_id, retry_times, client_host, .. } => {
                let end = end_of(request_id).map(|end| &end.kind);
                let (took_ms, result) = match end {
                    Some(TraceKind::Consumed { took_ms, success, code, .. }) => {
                        (Some(*took_ms), outcome(*success, *code))
                    }
                    _ => (None, "not ended"),
                };
                let retries = Some(i64::from(*retry_times));
                Row { what: "consumed", client: client_host, took_ms, result, retries, ..Row::default() }
            }
            // Its beginning may be lost.
            TraceKind::Consumed { request_id, took_ms, success, code } => {
                let begins = |other: &Trace| {
                    matches!(&other.kind, TraceKind::Consuming { request_id: begun, .. } if begun == request_id)
                        && other.message_id == trace.message_id
                };
                if traces.iter().any(begins) {
                    continue;
                }
                let result = outcome(*success, *code);
                Row { what: "consumed", took_ms: Some(*took_ms), result, ..Row::default() }
            }
            TraceKind::EndTransaction { topic, state, checked } => {
                let what = if *checked { "transaction ended when asked" } else { "transaction ended" };
                Row { what, result: state, topic, ..Row::default() }
            }
        };
        listing.push(row.cells(trace));
    }
    listing
}

fn outcome(success: bool, code: i32) -> &'static str {
    match (success, code) {
        (true, _) => "consumed",
        (false, 1) => "timed out",
        (false, _) => "failed",
    }
}

#[derive(Default)]
struct Row<'a> {
    what: &'a str,
    client: &'a str,
    took_ms: Option<i64>,
    result: &'a str,
    retries: Option<i64>,
    topic: &'a str,
    broker: &'a str,
}

impl Row<'_> {
    fn cells(&self, trace: &Trace) -> Vec<Cell> {
        let known = |text: &str| if text.is_empty() { Cell::None } else { Cell::text(text) };
        let number = |number: Option<i64>| number.map_or(Cell::None, Cell::Number);
        vec![
            if trace.at > 0 { Cell::Time(Millis(trace.at)) } else { Cell::None },
            Cell::text(self.what),
            known(&trace.group),
            known(self.client),
            number(self.took_ms),
            Cell::text(self.result),
            number(self.retries),
            known(self.topic),
            known(self.broker),
            known(&trace.message_id),
            known(&trace.keys),
        ]
    }
}
