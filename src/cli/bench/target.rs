//! Which server a bench talks to.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, Context, Result};

use super::frames::{Numbers, Template};
use crate::env::real::poll::{Poller, Socket};
use crate::env::real::process;
use crate::env::Clock;
use crate::proto::body::{self, TopicRouteData};
use crate::proto::remoting::requests::{GetMaxOffset, GetRouteInfoByTopic, OffsetResponse};
use crate::proto::remoting::{frame, request, response, Command, Serialization};

/// How long one question may take.
const LIMIT: Duration = Duration::from_secs(5);
/// The template of topics that are made when they are first sent to.
const DEFAULT_TOPIC: &str = "TBW102";

/// A server and the topic used there.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where it serves.
    pub address: SocketAddr,
    /// The broker's name.
    pub broker: String,
    /// The topic.
    pub topic: String,
    /// Its queues.
    pub queues: u32,
    /// The server's process, if it runs on this machine and is ours to see.
    pub process: Option<u32>,
}

impl Target {
    /// Asks NameServers, separated by `;`, for the topic's broker. A topic that is not there is made by a first
    /// message if `make` says so.
    ///
    /// # Errors
    /// If no NameServer answers, or none knows a broker.
    pub fn find(clock: &Arc<dyn Clock>, nameservers: &str, topic: &str, make: bool) -> Result<Target> {
        let route = match route(clock, nameservers, topic)? {
            Some(route) => route,
            None if make => {
                let default = route_of_default(clock, nameservers)?;
                make_topic(clock, &default, topic)?;
                route(clock, nameservers, topic)?.unwrap_or(default)
            }
            None => bail!("topic `{topic}` not found; `metaq bench produce` makes it and sends to it"),
        };
        let data = route.broker_datas.first().context("the route names no broker")?;
        let queues = route.queue_datas.iter().find(|queues| queues.broker_name == data.broker_name);
        let address = data.broker_addrs.get(&0).context("the broker has no master")?;
        let address = resolve(address)?;
        Ok(Target {
            address,
            broker: data.broker_name.clone(),
            topic: topic.to_owned(),
            queues: queues.map_or(4, |queues| queues.write_queue_nums.clamp(1, 4) as u32),
            process: address.ip().is_loopback().then(|| process::listening_on(address.port())).flatten(),
        })
    }

    /// Where each of its queues ends.
    pub fn ends(&self, clock: &Arc<dyn Clock>) -> Result<Vec<u64>> {
        (0..self.queues as i32)
            .map(|queue| {
                let ask = GetMaxOffset { topic: self.topic.as_str().into(), queue_id: queue, committed: true };
                let answer = call(clock, self.address, &Command::request(request::GET_MAX_OFFSET).with_ext(&ask))?;
                let ext = answer.ext_fields()?;
                Ok(OffsetResponse::decode(&ext)?.offset.max(0) as u64)
            })
            .collect()
    }
}

fn route_of_default(clock: &Arc<dyn Clock>, nameservers: &str) -> Result<TopicRouteData> {
    route(clock, nameservers, DEFAULT_TOPIC)?
        .with_context(|| format!("no broker with autoCreateTopicEnable is registered at {nameservers}"))
}

/// The route of a topic; `None` if there is none.
fn route(clock: &Arc<dyn Clock>, nameservers: &str, topic: &str) -> Result<Option<TopicRouteData>> {
    let ask = GetRouteInfoByTopic { topic: topic.into(), accept_standard_json_only: None };
    let command = Command::request(request::GET_ROUTEINFO_BY_TOPIC).with_ext(&ask);
    let mut failure = None;
    for nameserver in nameservers.split(';').filter(|address| !address.is_empty()) {
        let answer = resolve(nameserver).and_then(|address| call(clock, address, &command));
        match answer {
            Ok(answer) if answer.code == response::SUCCESS => {
                return body::from_slice(&answer.body).map(Some).context("the route cannot be read");
            }
            Ok(answer) if answer.code == response::TOPIC_NOT_EXIST => return Ok(None),
            Ok(answer) => bail!("{nameserver} answers {}: {}", answer.code, answer.remark.unwrap_or_default()),
            Err(error) => failure = Some(error.context(format!("NameServer {nameserver} does not answer"))),
        }
    }
    Err(failure.unwrap_or_else(|| anyhow::anyhow!("no NameServer is named; use -n HOST:PORT")))
}

/// Sends a first message: the broker makes the topic.
fn make_topic(clock: &Arc<dyn Clock>, route: &TopicRouteData, topic: &str) -> Result<()> {
    let data = route.broker_datas.first().context("the route names no broker")?;
    let address = resolve(data.broker_addrs.get(&0).context("the broker has no master")?)?;
    let mut frame = Vec::new();
    Template::send(topic, &data.broker_name, 16, 1).write(&mut frame, Numbers::default());
    let answer = exchange(clock, address, &frame)?;
    if answer.code != response::SUCCESS {
        bail!("topic `{topic}` was not made: code {}, {}", answer.code, answer.remark.unwrap_or_default());
    }
    Ok(())
}

/// The first address of `host:port`.
pub fn resolve(address: &str) -> Result<SocketAddr> {
    let mut addresses = address.to_socket_addrs().with_context(|| format!("`{address}` is no HOST:PORT"))?;
    addresses.next().with_context(|| format!("`{address}` has no address"))
}

/// Asks one question over a connection of its own.
pub(super) fn call(clock: &Arc<dyn Clock>, address: SocketAddr, command: &Command) -> Result<Command> {
    let mut request = Vec::new();
    command.encode(Serialization::Json, &mut request)?;
    exchange(clock, address, &request)
}

fn exchange(clock: &Arc<dyn Clock>, address: SocketAddr, request: &[u8]) -> Result<Command> {
    let end = clock.monotonic() + LIMIT;
    let mut poller = Poller::new()?;
    let mut socket = Socket::connect(address, LIMIT).with_context(|| format!("cannot connect to {address}"))?;
    poller.watch(&socket, 0)?;
    let (mut written, mut answer, mut tokens) = (0, Vec::new(), Vec::new());
    let mut buffer = [0; 16 * 1024];
    loop {
        while written < request.len() {
            let Some(bytes) = socket.write(&request[written..])? else { break };
            written += bytes;
        }
        while let Some(read) = socket.read(&mut buffer)? {
            anyhow::ensure!(read > 0, "{address} closed the connection");
            answer.extend_from_slice(&buffer[..read]);
        }
        if let Some(frame) = frame::next(&answer)? {
            return Ok(Command::decode(&frame)?);
        }
        let left = end.saturating_sub(clock.monotonic());
        anyhow::ensure!(!left.is_zero() && !process::interrupted(), "{address} did not answer in time");
        poller.wait(Some(left), &mut tokens)?;
    }
}
