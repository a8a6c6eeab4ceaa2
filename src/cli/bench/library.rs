//! What the client library costs: CPU time for a message, beside the bench's own loop, which does as little as can be.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::join_all;
use serde_json::{json, Value};

use super::consume::AtEnd;
use super::measured::{grouped, Measured};
use super::target::Target;
use super::work::{Bench, Extent, Pulls, Sends};
use crate::cli::console::{say, tell};
use crate::client::{Action, AutoBatch, Client, ConsumeFrom, Message, OrderlyAction};
use crate::env::real::{self, process};
use crate::env::Clock;

/// Sends under way at once, in the library and in the loop.
const IN_FLIGHT: usize = 64;
/// Sends under way where messages gather into batches.
const GATHERING: usize = 512;
/// Messages of one pull.
const RECORDS: u32 = 32;
/// How long the first message may take.
const FIRST_LIMIT: Duration = Duration::from_secs(20);

/// One kind of work, done both ways.
pub struct Row {
    name: &'static str,
    bare: Measured,
    library: Measured,
}

impl Row {
    fn nanos(measured: &Measured) -> f64 {
        measured.client_cpu.as_secs_f64() * 1e9 / measured.messages.max(1) as f64
    }

    fn print(&self) {
        let (bare, library) = (Row::nanos(&self.bare), Row::nanos(&self.library));
        let rate = grouped(self.library.rate() as u64);
        say!("{:<16} {rate:>12} {library:>12.0} {bare:>12.0} {:>12.0}", self.name, library - bare);
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        json!({
            "work": self.name,
            "messagesPerSecond": self.library.rate(),
            "clientNanosPerMessage": Row::nanos(&self.library),
            "bareNanosPerMessage": Row::nanos(&self.bare),
        })
    }
}

/// Measures sends and consumption with the library and without it, against a broker whose topic may be filled.
///
/// # Errors
/// If either cannot do its work.
pub fn measure(bench: &Bench, target: &Target, nameservers: &str, size: usize, extent: Extent) -> Result<Vec<Row>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let work = Work { clock: &bench.clock, nameservers, topic: &target.topic, size, extent };
    let sends = |in_flight, batch| Sends { connections: 1, in_flight, size, batch, rate: None };
    let pulls = Pulls { connections: 1, in_flight: 4, groups: 1, records: RECORDS, at_end: AtEnd::Again };
    let mut rows = Vec::new();
    let mut add = |name, bare: Measured, library: Result<Measured>| -> Result<()> {
        rows.push(Row { name, bare, library: library.context(name)? });
        Ok(())
    };
    let bare = bench.produce(target, sends(IN_FLIGHT, 1), extent)?;
    add("send", bare, runtime.block_on(work.send(None)))?;
    let bare = bench.produce(target, sends(IN_FLIGHT / 32, 32), extent)?;
    add("send, gathered", bare, runtime.block_on(work.send(Some(AutoBatch::default()))))?;
    let bare = bench.consume(target, pulls, extent)?;
    add("push", bare.clone(), runtime.block_on(work.push("concurrently")))?;
    add("push, in order", bare.clone(), runtime.block_on(work.push("orderly")))?;
    add("poll", bare, runtime.block_on(work.poll()))?;
    Ok(rows)
}

/// For people.
pub fn print(rows: &[Row]) {
    tell!("note: CPU time of the client's process in ns a message; sends of 64 at once, pulls of {RECORDS}");
    say!("{:<16} {:>12} {:>12} {:>12} {:>12}", "WORK", "MSG/S", "LIBRARY", "BARE LOOP", "OVER IT");
    rows.iter().for_each(Row::print);
}

struct Work<'a> {
    clock: &'a Arc<dyn Clock>,
    nameservers: &'a str,
    topic: &'a str,
    size: usize,
    extent: Extent,
}

impl Work<'_> {
    fn client(&self) -> Result<Client> {
        Ok(Client::new(&real::env(), self.nameservers)?)
    }

    async fn send(&self, gathers: Option<AutoBatch>) -> Result<Measured> {
        let client = self.client()?;
        let producer = client.producer("metaq_bench_producer");
        let (producer, at_once) = match gathers {
            Some(batch) => (producer.auto_batch(batch).start()?, GATHERING),
            None => (producer.start()?, IN_FLIGHT),
        };
        let sent = AtomicU64::new(0);
        let send_until = async |end: Duration| -> Result<()> {
            let sends = (0..at_once).map(|_| async {
                while self.clock.monotonic() < end {
                    producer.send(Message::new(self.topic, vec![b'x'; self.size.max(1)])).await?;
                    sent.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            });
            join_all(sends).await.into_iter().collect()
        };
        send_until(self.clock.monotonic() + self.extent.warmup).await?;
        let measured = self.counted(&sent, send_until(self.clock.monotonic() + self.extent.span)).await;
        client.close().await;
        measured
    }

    /// A listener that does nothing but count.
    async fn push(&self, kind: &str) -> Result<Measured> {
        let client = self.client()?;
        let consumed = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&consumed);
        let builder = client.push_consumer(format!("metaq_bench_{kind}")).subscribe(self.topic, "*");
        let builder = builder.consume_from(ConsumeFrom::First);
        let consumer = if kind == "orderly" {
            let listener = move |_| {
                counter.fetch_add(1, Ordering::Relaxed);
                async { OrderlyAction::Done }
            };
            builder.orderly(listener).await?
        } else {
            let listener = move |_| {
                counter.fetch_add(1, Ordering::Relaxed);
                async { Action::Done }
            };
            builder.concurrently(listener).await?
        };
        let total = self.stored(&client).await?;
        let measured = self.counted(&consumed, self.until(&consumed, total)).await;
        consumer.stop(Duration::from_secs(1)).await;
        client.close().await;
        measured
    }

    async fn poll(&self) -> Result<Measured> {
        let client = self.client()?;
        let builder = client.pull_consumer("metaq_bench_poll").subscribe(self.topic, "*");
        let mut consumer = builder.consume_from(ConsumeFrom::First).start().await?;
        let (consumed, total) = (AtomicU64::new(0), self.stored(&client).await?);
        let end = self.clock.monotonic() + self.extent.span;
        let polls = async {
            while consumed.load(Ordering::Relaxed) < total && self.clock.monotonic() < end {
                let messages = consumer.poll(FIRST_LIMIT).await?;
                consumed.fetch_add(messages.len() as u64, Ordering::Relaxed);
            }
            Ok(())
        };
        let measured = self.counted(&consumed, polls).await;
        consumer.close().await;
        client.close().await;
        measured
    }

    /// How many messages there are to consume.
    async fn stored(&self, client: &Client) -> Result<u64> {
        let stats = client.admin().topic_stats(self.topic).await?;
        Ok(stats.offset_table.values().map(|offsets| (offsets.max_offset - offsets.min_offset) as u64).sum())
    }

    /// Waits until so many have come, or the time is over.
    async fn until(&self, consumed: &AtomicU64, total: u64) -> Result<()> {
        let end = self.clock.monotonic() + self.extent.span;
        while consumed.load(Ordering::Relaxed) < total && self.clock.monotonic() < end {
            self.clock.sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    /// What the counter has gained while something ran, and what that cost.
    async fn counted(&self, counter: &AtomicU64, work: impl Future<Output = Result<()>>) -> Result<Measured> {
        let cpu = || process::cpu_time(std::process::id()).context("the CPU time of this process");
        let (began, before, used) = (self.clock.monotonic(), counter.load(Ordering::Relaxed), cpu()?);
        work.await?;
        Ok(Measured {
            messages: counter.load(Ordering::Relaxed) - before,
            elapsed: self.clock.monotonic() - began,
            client_cpu: cpu()?.saturating_sub(used),
            ..Measured::default()
        })
    }
}
