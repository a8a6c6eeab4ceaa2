//! The registrar tells every NameServer what this broker has: at start, every 30 s, and at each change.
//!
//! The NameServers do not know each other, so each gets its own connection and an unreachable one delays nobody.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::sync::oneshot;

use super::shared::Shared;
use crate::actors::net::{connect, ConnectionHandle, NoRequests};
use crate::nameserver::COMPLETE_TOPIC_TABLE;
use crate::proto::body::{RegisterBrokerBody, TopicConfigSerializeWrapper};
use crate::proto::remoting::requests::{RegisterBroker, UnregisterBroker};
use crate::proto::remoting::{request, response, Command};

/// How long a connection attempt may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// How long the goodbye of a stopping broker may take.
const UNREGISTER_LIMIT: Duration = Duration::from_secs(3);
/// A NameServer that does not answer is asked again after this, sooner than at the next period.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// What the registrar is told.
pub enum RegistrarMessage {
    /// The topics changed.
    Register {
        /// Told once every NameServer has taken them or could not be reached.
        done: Option<oneshot::Sender<()>>,
    },
    /// The period has passed.
    Tick,
    /// A registration has ended; `connection` serves the next one.
    Registered {
        /// Which NameServer.
        index: usize,
        /// Up to which change it was told.
        change: u64,
        /// The connection, if it still works.
        connection: Option<ConnectionHandle>,
    },
    /// Say goodbye to all NameServers and answer.
    Unregister {
        /// Answered when all have been told, or could not be.
        reply: RpcReplyPort<()>,
    },
}

/// See the module's text.
pub struct Registrar;

#[doc(hidden)]
pub struct State {
    shared: Arc<Shared>,
    nameservers: Vec<NameServer>,
    period: Duration,
    /// Changes so far.
    change: u64,
    /// Who waits until every NameServer was told of a change.
    waiting: Vec<(u64, oneshot::Sender<()>)>,
}

struct NameServer {
    address: String,
    connection: Option<ConnectionHandle>,
    /// Up to which change it was told, or could not be.
    told: u64,
    /// A registration is under way; one more follows if something changed meanwhile.
    busy: bool,
    again: bool,
    /// The last attempt failed: said once, not every period.
    failing: bool,
}

impl Actor for Registrar {
    type Msg = RegistrarMessage;
    type State = State;
    type Arguments = Arc<Shared>;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        shared: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        let settings = shared.settings();
        let period = Duration::from_millis(settings.config.register_name_server_period.clamp(10_000, 60_000));
        let nameservers = settings.config.name_servers().map(|address| NameServer {
            address: address.to_owned(),
            connection: None,
            told: 0,
            busy: false,
            again: false,
            failing: false,
        });
        let nameservers = nameservers.collect();
        myself.send_interval(period, || RegistrarMessage::Tick);
        Ok(State { shared, nameservers, period, change: 0, waiting: Vec::new() })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            RegistrarMessage::Register { done } => {
                state.change += 1;
                state.waiting.extend(done.map(|done| (state.change, done)));
                state.register_all(&myself);
            }
            RegistrarMessage::Tick => state.register_all(&myself),
            RegistrarMessage::Registered { index, change, connection } => {
                state.registered(&myself, index, change, connection);
            }
            RegistrarMessage::Unregister { reply } => {
                state.unregister().await;
                let _ = reply.send(());
            }
        }
        Ok(())
    }
}

impl State {
    fn register_all(&mut self, myself: &ActorRef<RegistrarMessage>) {
        for index in 0..self.nameservers.len() {
            self.register(myself, index);
        }
        self.answer_told();
    }

    /// Answers those whose change every NameServer was told of.
    fn answer_told(&mut self) {
        let told = self.nameservers.iter().map(|nameserver| nameserver.told).min().unwrap_or(u64::MAX);
        for (_, done) in self.waiting.extract_if(.., |(change, _)| *change <= told) {
            let _ = done.send(());
        }
    }

    fn register(&mut self, myself: &ActorRef<RegistrarMessage>, index: usize) {
        let limit = Duration::from_millis(self.shared.settings().config.register_broker_timeout_ms).min(self.period);
        let nameserver = &mut self.nameservers[index];
        if std::mem::replace(&mut nameserver.busy, true) {
            nameserver.again = true;
            return;
        }
        let shared = Arc::clone(&self.shared);
        let address = nameserver.address.clone();
        let known = nameserver.connection.take();
        let myself = myself.clone();
        let change = self.change;
        ractor::concurrency::spawn(async move {
            let connection = match register_with(&shared, &address, known, limit).await {
                Ok(connection) => Some(connection),
                Err(error) => {
                    tracing::debug!(nameserver = address, error = format!("{error:#}"), "a registration failed");
                    None
                }
            };
            let _ = myself.cast(RegistrarMessage::Registered { index, change, connection });
        });
    }

    fn registered(
        &mut self,
        myself: &ActorRef<RegistrarMessage>,
        index: usize,
        change: u64,
        connection: Option<ConnectionHandle>,
    ) {
        let nameserver = &mut self.nameservers[index];
        nameserver.busy = false;
        nameserver.told = change;
        let failing = connection.is_none();
        nameserver.connection = connection;
        if failing != std::mem::replace(&mut nameserver.failing, failing) {
            match failing {
                true => tracing::warn!(
                    nameserver = nameserver.address,
                    "cannot register: clients that ask it do not find this broker; trying on"
                ),
                false => tracing::info!(nameserver = nameserver.address, "registered again"),
            }
        }
        if std::mem::take(&mut nameserver.again) {
            self.register(myself, index);
        } else if failing {
            myself.send_after(RETRY_AFTER, || RegistrarMessage::Tick);
        }
        self.answer_told();
    }

    async fn unregister(&self) {
        let config = &self.shared.settings().config;
        let goodbye = Command::request(request::UNREGISTER_BROKER).with_ext(&UnregisterBroker {
            broker_name: config.broker_name.as_str().into(),
            broker_addr: self.shared.advertised.to_string().into(),
            cluster_name: config.broker_cluster_name.as_str().into(),
            broker_id: config.broker_id as i64,
        });
        let clock = &*self.shared.env.clock;
        let calls = self.nameservers.iter().filter_map(|nameserver| nameserver.connection.as_ref()).map(|connection| {
            // A NameServer that does not hear it notices the closed connection.
            connection.call(clock, goodbye.clone(), UNREGISTER_LIMIT)
        });
        futures::future::join_all(calls).await;
    }
}

async fn register_with(
    shared: &Shared,
    address: &str,
    known: Option<ConnectionHandle>,
    limit: Duration,
) -> anyhow::Result<ConnectionHandle> {
    let connection = match known.filter(|connection| !connection.is_closed()) {
        Some(connection) => connection,
        None => connect(&shared.env, address, Arc::new(NoRequests), CONNECT_LIMIT).await?,
    };
    // Taken now, not when the registration was asked for: what arrives last is then the newest.
    let command = registration(shared);
    let answer = connection.call(&*shared.env.clock, command, limit).await?;
    anyhow::ensure!(
        answer.code == response::SUCCESS,
        "refused with code {}: {}",
        answer.code,
        answer.remark.unwrap_or_default()
    );
    Ok(connection)
}

fn registration(shared: &Shared) -> Command {
    let settings = shared.settings();
    let config = &settings.config;
    let topics: TopicConfigSerializeWrapper = shared.topics().snapshot();
    let body = RegisterBrokerBody::new(topics.clone(), topics.data_version);
    let body = if config.compressed_register { body.encode_compressed() } else { body.encode() };
    let ha_address = std::net::SocketAddr::new(shared.advertised.ip(), config.ha_port());
    Command::request(request::REGISTER_BROKER)
        .with_ext(&RegisterBroker {
            broker_name: config.broker_name.as_str().into(),
            broker_addr: shared.advertised.to_string().into(),
            cluster_name: config.broker_cluster_name.as_str().into(),
            ha_server_addr: ha_address.to_string().into(),
            broker_id: config.broker_id as i64,
            compressed: config.compressed_register,
            body_crc32: (crc32fast::hash(&body) & 0x7FFF_FFFF) as i32,
            heartbeat_timeout_millis: None,
            enable_acting_master: Some(false),
            zone_name: None,
        })
        .with(COMPLETE_TOPIC_TABLE, "true")
        .with_body(body)
}
