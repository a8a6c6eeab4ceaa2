//! Kinds of work and how each is run and measured once.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, Result};

use super::client::{Client, Load};
use super::consume::{AtEnd, Consume, Mixed};
use super::frames::Template;
use super::measured::Measured;
use super::produce::Produce;
use super::roundtrip::Roundtrip;
use super::target::Target;
use crate::env::real::process;
use crate::env::Clock;

/// The group of a reader whose progress nobody needs.
pub const GROUP: &str = "metaq_bench_consumer";
/// Requests of one connection at a fixed rate that may wait for answers; beyond, they wait to be sent.
const OPEN_LOOP_IN_FLIGHT: usize = 4096;

/// How long a measurement goes on: until one of the two is reached.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Before it, without being counted.
    pub warmup: Duration,
    /// The span.
    pub span: Duration,
    /// Messages.
    pub messages: Option<u64>,
}

/// Sends.
#[derive(Clone, Copy, Debug)]
pub struct Sends {
    /// Connections.
    pub connections: usize,
    /// Requests of each that wait for answers.
    pub in_flight: usize,
    /// Bytes of a body.
    pub size: usize,
    /// Messages of a request.
    pub batch: u32,
    /// Messages per second; as many as the answers allow if absent.
    pub rate: Option<f64>,
}

/// Pulls.
#[derive(Clone, Copy, Debug)]
pub struct Pulls {
    /// Connections; they take turns in the groups.
    pub connections: usize,
    /// Pulls of each that wait for answers, one per queue.
    pub in_flight: usize,
    /// Groups that read everything, each for itself.
    pub groups: usize,
    /// Messages of one pull, at most.
    pub records: u32,
    /// What happens at the end of a queue.
    pub at_end: AtEnd,
}

/// What a roundtrip run found.
pub struct Delivered {
    /// From send to delivery.
    pub delivery: Measured,
    /// From send to acknowledgement.
    pub acknowledged: Measured,
    /// Messages that were not delivered within a second.
    pub missed: u64,
}

/// Runs work against targets.
pub struct Bench {
    /// The clock that times are measured by.
    pub clock: Arc<dyn Clock>,
}

impl Bench {
    /// Measures sends.
    pub fn produce(&self, target: &Target, sends: Sends, extent: Extent) -> Result<Measured> {
        let mut client = Client::connect(&self.clock, target.address, sends.connections, in_flight(sends))?;
        let mut load = producer(target, sends, extent.messages);
        let (elapsed, server_cpu, client_cpu) = self.measure(&mut client, &mut load, target, extent)?;
        Ok(Measured { elapsed, server_cpu, client_cpu, ..load.measured })
    }

    /// Measures pulls.
    pub fn consume(&self, target: &Target, pulls: Pulls, extent: Extent) -> Result<Measured> {
        let mut client = Client::connect(&self.clock, target.address, pulls.connections, pulls.in_flight)?;
        let mut load = consumer(target, pulls, vec![0; target.queues as usize], extent.messages);
        let (elapsed, server_cpu, client_cpu) = self.measure(&mut client, &mut load, target, extent)?;
        Ok(Measured { elapsed, server_cpu, client_cpu, ..load.measured })
    }

    /// Measures sends to many topics in turn; `target` tells the server and the queues of each.
    pub fn produce_to(&self, target: &Target, topics: &[String], sends: Sends, extent: Extent) -> Result<Measured> {
        let mut client = Client::connect(&self.clock, target.address, sends.connections, in_flight(sends))?;
        let template = |topic: &String| Template::send(topic, &target.broker, sends.size, sends.batch);
        let templates = topics.iter().map(template).collect();
        let mut load = Produce::new(templates, target.queues, sends.rate, extent.messages);
        let (elapsed, server_cpu, client_cpu) = self.measure(&mut client, &mut load, target, extent)?;
        Ok(Measured { elapsed, server_cpu, client_cpu, ..load.measured })
    }

    /// Measures pulls that begin at given places, one for each queue, and begin there again at the end.
    pub fn consume_from(&self, target: &Target, starts: Vec<u64>, extent: Extent) -> Result<Measured> {
        let mut client = Client::connect(&self.clock, target.address, 1, starts.len())?;
        let template = Template::pull(&target.topic, &target.broker, GROUP, 32, false);
        let mut load = Consume::new(vec![template], starts, AtEnd::Again, extent.messages);
        let (elapsed, server_cpu, client_cpu) = self.measure(&mut client, &mut load, target, extent)?;
        Ok(Measured { elapsed, server_cpu, client_cpu, ..load.measured })
    }

    /// Runs any load to its end or for `span`.
    pub fn run(&self, target: &Target, in_flight: usize, load: &mut dyn Load, span: Duration) -> Result<Duration> {
        let mut client = Client::connect(&self.clock, target.address, 1, in_flight)?;
        let start = client.now();
        client.run(load, span)?;
        let elapsed = Duration::from_nanos(client.now() - start);
        client.drain(load)?;
        Ok(elapsed)
    }

    /// Measures both at once; the server's CPU time is that of both. What the topic holds already is not pulled.
    pub fn mixed(&self, target: &Target, sends: Sends, pulls: Pulls, extent: Extent) -> Result<(Measured, Measured)> {
        let in_flight = in_flight(sends).max(pulls.in_flight);
        let connections = sends.connections + pulls.connections;
        let mut client = Client::connect(&self.clock, target.address, connections, in_flight)?;
        let ends = target.ends(&self.clock)?;
        let (mut produce, mut consume) =
            (producer(target, sends, extent.messages), consumer(target, pulls, ends, None));
        let mut load = Mixed { produce: &mut produce, consume: &mut consume, producers: sends.connections };
        let (elapsed, server_cpu, client_cpu) = self.measure(&mut client, &mut load, target, extent)?;
        let counted = |measured| Measured { elapsed, server_cpu, client_cpu, ..measured };
        Ok((counted(produce.measured), counted(consume.measured)))
    }

    /// Measures the way from a send to its delivery, `rate` times a second.
    pub fn roundtrip(&self, target: &Target, size: usize, rate: f64, extent: Extent) -> Result<Delivered> {
        if size < size_of::<u64>() {
            bail!("a body of a roundtrip needs {} bytes at least", size_of::<u64>());
        }
        let mut client = Client::connect(&self.clock, target.address, 2, 4)?;
        let send = Template::send(&target.topic, &target.broker, size, 1);
        let pull = Template::pull(&target.topic, &target.broker, GROUP, 32, true);
        let mut load = Roundtrip::new(send, pull, rate, extent.messages);
        client.run(&mut load, extent.warmup)?;
        load.begin();
        let start = client.now();
        client.run(&mut load, extent.span)?;
        let elapsed = Duration::from_nanos(client.now() - start);
        let Roundtrip { delivery, acknowledged, missed, .. } = load;
        let spanned = |measured| Measured { elapsed, ..measured };
        Ok(Delivered { delivery: spanned(delivery), acknowledged: spanned(acknowledged), missed })
    }

    /// Warms up, measures, and waits for what is still on its way.
    fn measure(
        &self,
        client: &mut Client,
        load: &mut dyn Load,
        target: &Target,
        extent: Extent,
    ) -> Result<(Duration, Option<Duration>, Duration)> {
        client.run(load, extent.warmup)?;
        let cpu = |process: Option<u32>| process.and_then(|process| process::cpu_time(process).ok());
        let (server, own) = (cpu(target.process), cpu(Some(std::process::id())));
        load.begin();
        let start = client.now();
        client.run(load, extent.span)?;
        let elapsed = Duration::from_nanos(client.now() - start);
        let used = |before: Option<Duration>, after: Option<Duration>| Some(after?.saturating_sub(before?));
        let server_cpu = used(server, cpu(target.process));
        let client_cpu = used(own, cpu(Some(std::process::id()))).unwrap_or_default();
        client.drain(load)?;
        Ok((elapsed, server_cpu, client_cpu))
    }
}

fn in_flight(sends: Sends) -> usize {
    if sends.rate.is_some() {
        OPEN_LOOP_IN_FLIGHT
    } else {
        sends.in_flight
    }
}

fn producer(target: &Target, sends: Sends, messages: Option<u64>) -> Produce {
    let template = Template::send(&target.topic, &target.broker, sends.size, sends.batch);
    Produce::new(vec![template], target.queues, sends.rate, messages)
}

fn consumer(target: &Target, pulls: Pulls, starts: Vec<u64>, messages: Option<u64>) -> Consume {
    let template = |group: usize| {
        let name = format!("{GROUP}_{group}");
        Template::pull(&target.topic, &target.broker, &name, pulls.records, pulls.at_end == AtEnd::Wait)
    };
    let groups = (0..pulls.groups.max(1)).map(template).collect();
    Consume::new(groups, starts, pulls.at_end, messages)
}
