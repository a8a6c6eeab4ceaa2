//! The NameServer as an actor: it owns the rules, answers requests one after the other, and carries out their effects
//! before the answer goes out.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use super::net::{Answer, ConnectionHandle, ListenerHandle, ListenerOptions, Output, Service};
use super::settings_file::SettingsFile;
use crate::broker::flow::{ByteBudget, SessionFlow};
use crate::config::nameserver::NameServerSettings;
use crate::env::{ConnectionId, Env, Millis};
use crate::nameserver::{Effect, KvConfig, MinBrokerChange, NameServer};
use crate::proto::remoting::requests::NotifyMinBrokerIdChange;
use crate::proto::remoting::{encode_response, request, response, Command, Head, RawFrame, Response, Serialization};
use crate::store::config_file::{ConfigFile, Loaded};

/// The most bytes of the kv config.
const KV_CONFIG_BYTES_MAX: u64 = 64 << 20;
/// The most bytes of requests under way, and of one connection's: brokers register with all their topics at once.
const REQUEST_BYTES_MAX: usize = 256 << 20;
/// See [`REQUEST_BYTES_MAX`].
const REQUEST_BYTES_PER_CONNECTION_MAX: usize = 64 << 20;
/// What a request under way costs besides its frame, about.
const REQUEST_BYTES: usize = 256;
/// How long connections get to take their last answers.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);

/// A running NameServer.
pub struct NameServerHandle {
    actor: ActorRef<NameServerMessage>,
    listener: ListenerHandle,
}

impl NameServerHandle {
    /// Starts a NameServer that listens on `address` and keeps its kv config below `data`.
    ///
    /// # Errors
    /// If the address is taken or the kv config cannot be read.
    pub async fn start(env: &Env, settings: NameServerSettings, address: SocketAddr, data: &Path) -> Result<Self> {
        let path = data.join(&settings.kv_config_path);
        if let Some(directory) = path.parent() {
            env.disk.create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        }
        let parse = |bytes: &[u8]| -> Result<KvConfig> { Ok(KvConfig::parse(std::str::from_utf8(bytes)?)?) };
        let (kv_file, kv) = ConfigFile::open(Arc::clone(&env.disk), path, KV_CONFIG_BYTES_MAX, parse)?;
        if let Loaded::Backup { .. } = &kv {
            tracing::warn!("kvConfig.json cannot be read, its backup is used");
        }
        let settings_file = SettingsFile::new(Arc::clone(&env.disk), data.join(&settings.config_store_path));
        let scan_every = Duration::from_millis(settings.scan_not_active_broker_interval.max(100));
        let rules =
            NameServer::new(settings, kv.into_value().unwrap_or_default(), now(env)).with_canaries(env.canaries());
        let arguments = Arguments { env: env.clone(), rules, kv_file, settings_file, scan_every };
        let (actor, _) = Actor::spawn(None, NameServerActor, arguments).await?;
        let service = Arc::new(NameServerService { actor: actor.clone(), flow: ByteBudget::new(REQUEST_BYTES_MAX) });
        let listener = match ListenerHandle::start(env, address, service, ListenerOptions::default()).await {
            Ok(listener) => listener,
            Err(error) => {
                actor.stop(None);
                return Err(error);
            }
        };
        Ok(NameServerHandle { actor, listener })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Stops listening, lets connections take their last answers, ends.
    pub async fn stop(self) {
        self.listener.drain(DRAIN_LIMIT).await;
        self.actor.stop(None);
    }
}

/// Time-outs of brokers are measured in monotonic time: a corrected wall clock expires nobody.
fn now(env: &Env) -> Millis {
    Millis(env.clock.monotonic().as_millis() as i64)
}

/// What the NameServer is told.
pub enum NameServerMessage {
    /// A connection was accepted.
    Connected {
        /// How to reach its peer.
        handle: ConnectionHandle,
    },
    /// A request came.
    Request {
        /// Over which connection.
        connection: ConnectionId,
        /// The request as it came.
        frame: OwnedFrame,
        /// Gets the answer.
        reply: oneshot::Sender<Response>,
    },
    /// A connection is gone.
    Closed {
        /// Which.
        connection: ConnectionId,
    },
    /// Time to look for silent brokers.
    Scan,
}

/// A frame that outlives the read it came with.
pub struct OwnedFrame {
    serialization: Serialization,
    header: Vec<u8>,
    body: Vec<u8>,
}

struct NameServerActor;

struct Arguments {
    env: Env,
    rules: NameServer,
    kv_file: ConfigFile,
    settings_file: SettingsFile,
    scan_every: Duration,
}

struct State {
    env: Env,
    rules: NameServer,
    kv_file: ConfigFile,
    settings_file: SettingsFile,
    connections: BTreeMap<ConnectionId, ConnectionHandle>,
}

impl Actor for NameServerActor {
    type Msg = NameServerMessage;
    type State = State;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        arguments: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        let Arguments { env, rules, kv_file, settings_file, scan_every } = arguments;
        myself.send_interval(scan_every, || NameServerMessage::Scan);
        Ok(State { env, rules, kv_file, settings_file, connections: BTreeMap::new() })
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let mut effects = Vec::new();
        match message {
            NameServerMessage::Connected { handle } => {
                state.connections.insert(handle.id(), handle);
            }
            NameServerMessage::Request { connection, frame, reply } => {
                let mut answer = state.answer(connection, &frame, &mut effects);
                if let Err(remark) = state.carry_out(effects).await {
                    answer = Response::error(response::SYSTEM_ERROR, remark);
                }
                let _ = reply.send(answer);
            }
            NameServerMessage::Closed { connection } => {
                state.connections.remove(&connection);
                state.rules.connection_closed(connection, &mut effects);
                let _ = state.carry_out(effects).await;
            }
            NameServerMessage::Scan => {
                state.rules.tick(now(&state.env), &mut effects);
                let _ = state.carry_out(effects).await;
            }
        }
        Ok(())
    }
}

impl State {
    fn answer(&mut self, connection: ConnectionId, frame: &OwnedFrame, effects: &mut Vec<Effect>) -> Response {
        match Head::parse(frame.serialization, &frame.header) {
            Ok(head) => self.rules.handle(now(&self.env), connection, &head, &frame.body, effects),
            Err(error) => Response::error(response::SYSTEM_ERROR, error.to_string()),
        }
    }

    async fn carry_out(&mut self, effects: Vec<Effect>) -> Result<(), String> {
        let mut result = Ok(());
        for effect in effects {
            match effect {
                Effect::SaveKvConfig(text) => result = result.and(save(&mut self.kv_file, &text).await),
                Effect::SaveSettings(changes) => result = result.and(self.settings_file.save(&changes).await),
                Effect::Close(connection) => {
                    if let Some(handle) = self.connections.get(&connection) {
                        handle.close();
                    }
                }
                Effect::NotifyMinBroker { connection, change } => {
                    if let Some(handle) = self.connections.get(&connection) {
                        // A broker that misses it asks for its group itself.
                        let _ = handle.send_one_way(min_broker_changed(&change));
                    }
                }
            }
        }
        result
    }
}

async fn save(file: &mut ConfigFile, text: &str) -> Result<(), String> {
    file.save(text.as_bytes()).await.map_err(|error| {
        tracing::error!(%error, path = %file.path().display(), "a settings file was not saved");
        format!("cannot save {}: {error}", file.path().display())
    })
}

fn min_broker_changed(change: &MinBrokerChange) -> Command {
    Command::request(request::NOTIFY_MIN_BROKER_ID_CHANGE).oneway().with_ext(&NotifyMinBrokerIdChange {
        min_broker_id: Some(change.min_broker_id),
        broker_name: Some(change.broker_name.as_str().into()),
        min_broker_addr: Some(change.min_broker_address.as_str().into()),
        offline_broker_addr: change.offline_address.as_deref().map(Into::into),
        ha_broker_addr: change.ha_address.as_deref().map(Into::into),
    })
}

/// Hands requests of connections to the actor.
struct NameServerService {
    actor: ActorRef<NameServerMessage>,
    flow: ByteBudget,
}

/// One connection, and the bytes of its requests under way.
struct NameServerConnection {
    id: ConnectionId,
    flow: SessionFlow,
}

impl Service for NameServerService {
    type Connection = NameServerConnection;

    fn connected(&self, handle: ConnectionHandle, _: SocketAddr) -> NameServerConnection {
        let id = handle.id();
        let _ = self.actor.cast(NameServerMessage::Connected { handle });
        NameServerConnection { id, flow: SessionFlow::new(REQUEST_BYTES_PER_CONNECTION_MAX, self.flow.clone()) }
    }

    fn request(
        &self,
        connection: &mut NameServerConnection,
        head: &Head<'_>,
        frame: &RawFrame<'_>,
        output: &mut Output,
    ) -> Result<(), String> {
        let (serialization, opaque, oneway) = (frame.serialization, head.opaque, head.is_oneway());
        let permit = match connection.flow.acquire(frame.len + REQUEST_BYTES) {
            Ok(permit) => permit,
            Err(error) => {
                if !oneway {
                    let busy = Response::error(error.code(), error.to_string());
                    encode_response(&mut output.bytes, serialization, opaque, &busy);
                }
                return Ok(());
            }
        };
        let (reply, answered) = oneshot::channel();
        let frame =
            OwnedFrame { serialization: frame.serialization, header: frame.header.to_vec(), body: frame.body.to_vec() };
        let _ = self.actor.cast(NameServerMessage::Request { connection: connection.id, frame, reply });
        output.later(Box::pin(async move {
            let response = answered.await;
            drop(permit);
            let response = response.ok().filter(|_| !oneway)?;
            Some(Box::new(move |out: &mut Vec<u8>| encode_response(out, serialization, opaque, &response)) as Answer)
        }));
        Ok(())
    }

    fn submit(&self, _: &mut NameServerConnection, _: &mut Output) {}

    fn disconnected(&self, connection: NameServerConnection) {
        let _ = self.actor.cast(NameServerMessage::Closed { connection: connection.id });
    }
}
