//! The actor that owns a listening socket and its sessions.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use ractor::concurrency::JoinHandle;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

use super::room::Room;
use super::session::{End, Malformed, Session};
use super::{ConnectionHandle, Service};
use crate::env::{ConnectionId, Env, Listener, LogLimit, Millis, Pass, Stream};

/// How often idle connections are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(10);
/// Pause after a failed accept: most likely too many files are open, and trying at once again would only burn CPU.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// How often the same is said about connections: anybody can open any number of them.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Numbers connections over all listeners of the process.
static NEXT_CONNECTION: AtomicU64 = AtomicU64::new(1);

/// A name no other connection of this process has had.
pub(super) fn next_connection_id() -> ConnectionId {
    ConnectionId(NEXT_CONNECTION.fetch_add(1, Ordering::Relaxed))
}

/// Limits of a listener.
#[derive(Clone, Copy, Debug)]
pub struct ListenerOptions {
    /// Connections at one time; more are closed as they come.
    pub connections_max: usize,
    /// Connections without a byte in either direction for this long are closed (RocketMQ:
    /// `serverChannelMaxIdleTimeSeconds`, 120 s).
    pub idle_max: Duration,
    /// Bytes of frames above 64 KiB that are coming in; more are not read until others are complete.
    pub large_frame_bytes_max: usize,
}

impl Default for ListenerOptions {
    fn default() -> Self {
        ListenerOptions {
            connections_max: 50_000,
            idle_max: Duration::from_secs(120),
            large_frame_bytes_max: 256 << 20,
        }
    }
}

/// What the listener is told.
pub enum ListenerMessage {
    /// A connection was accepted.
    Accepted {
        /// The connection.
        stream: Box<dyn Stream>,
        /// Its other end.
        peer: SocketAddr,
    },
    /// A session has ended.
    Ended {
        /// Its name.
        id: ConnectionId,
        /// Its other end.
        peer: SocketAddr,
        /// Its input, if that is why it was closed.
        malformed: Option<Malformed>,
    },
    /// Time to look for idle connections.
    Sweep,
    /// Accept no more, end all sessions after what they have to write, then answer.
    Drain {
        /// Answered once the last session has ended.
        reply: RpcReplyPort<()>,
    },
}

/// A running listener.
#[derive(Clone)]
pub struct ListenerHandle {
    actor: ActorRef<ListenerMessage>,
    address: SocketAddr,
}

impl ListenerHandle {
    /// Listens on `address` and serves what connects.
    ///
    /// # Errors
    /// If the address cannot be listened on; the text names it.
    pub async fn start<S: Service>(
        env: &Env,
        address: SocketAddr,
        service: Arc<S>,
        options: ListenerOptions,
    ) -> anyhow::Result<Self> {
        let listener = env.net.listen(address).await.with_context(|| format!("cannot listen on {address}"))?;
        Self::serve(env, listener, service, options).await
    }

    /// Serves what connects to a listener that is there already.
    ///
    /// # Errors
    /// If the listener has no address or the actor cannot be spawned.
    pub async fn serve<S: Service>(
        env: &Env,
        listener: Box<dyn Listener>,
        service: Arc<S>,
        options: ListenerOptions,
    ) -> anyhow::Result<Self> {
        let address = listener.local_addr()?;
        let arguments = Arguments { env: env.clone(), listener, service, options };
        let (actor, _) = Actor::spawn(None, ListenerActor::<S>::default(), arguments).await?;
        Ok(ListenerHandle { actor, address })
    }

    /// The address it listens on, with the real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts no more connections and ends the present ones after what they have to write; waits at most `limit`.
    pub async fn drain(&self, limit: Duration) {
        let _ = self.actor.call(|reply| ListenerMessage::Drain { reply }, Some(limit)).await;
        self.actor.stop(None);
    }
}

/// See the module's text.
pub struct ListenerActor<S>(std::marker::PhantomData<fn() -> S>);

impl<S> Default for ListenerActor<S> {
    fn default() -> Self {
        ListenerActor(std::marker::PhantomData)
    }
}

#[doc(hidden)]
pub struct Arguments<S> {
    env: Env,
    listener: Box<dyn Listener>,
    service: Arc<S>,
    options: ListenerOptions,
}

#[doc(hidden)]
pub struct State<S> {
    env: Env,
    service: Arc<S>,
    options: ListenerOptions,
    accepting: Option<JoinHandle<()>>,
    sessions: BTreeMap<ConnectionId, Watched>,
    draining: Vec<RpcReplyPort<()>>,
    said: LogLimit<&'static str>,
    room: Room,
}

struct Watched {
    handle: ConnectionHandle,
    last_active: Arc<AtomicU64>,
}

impl<S: Service> Actor for ListenerActor<S> {
    type Msg = ListenerMessage;
    type State = State<S>;
    type Arguments = Arguments<S>;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        arguments: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        let Arguments { env, listener, service, options } = arguments;
        let accepting = ractor::concurrency::spawn(accept(env.clone(), listener, myself.clone()));
        myself.send_interval(SWEEP_EVERY.min(options.idle_max / 4), || ListenerMessage::Sweep);
        Ok(State {
            env,
            service,
            options,
            accepting: Some(accepting),
            sessions: BTreeMap::new(),
            draining: Vec::new(),
            said: LogLimit::new(SAY_EVERY),
            room: Room::new(options.large_frame_bytes_max),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            ListenerMessage::Accepted { stream, peer } => state.accepted(&myself, stream, peer),
            ListenerMessage::Ended { id, peer, malformed } => {
                state.sessions.remove(&id);
                if let Some(Malformed { kind, what }) = malformed {
                    crate::sometimes!("a peer sent what is no frame");
                    if let Some(Pass { held_back }) = state.said.pass(kind, now(&state.env)) {
                        tracing::warn!(%peer, what, held_back, "closed a connection: malformed input");
                    }
                }
                state.answer_drained();
            }
            ListenerMessage::Sweep => {
                state.sweep();
                let over = state.said.on_tick(now(&state.env));
                say_held_back(over);
            }
            ListenerMessage::Drain { reply } => {
                state.stop_accepting();
                for session in state.sessions.values() {
                    session.handle.close();
                }
                state.draining.push(reply);
                state.answer_drained();
            }
        }
        Ok(())
    }

    async fn post_stop(&self, _: ActorRef<Self::Msg>, state: &mut Self::State) -> Result<(), ActorProcessingErr> {
        state.stop_accepting();
        for session in state.sessions.values() {
            session.handle.close();
        }
        say_held_back(state.said.finish());
        Ok(())
    }
}

impl<S: Service> State<S> {
    fn accepted(&mut self, myself: &ActorRef<ListenerMessage>, stream: Box<dyn Stream>, peer: SocketAddr) {
        if self.accepting.is_none() || self.sessions.len() >= self.options.connections_max {
            if let Some(Pass { held_back }) = self.said.pass("refused", now(&self.env)) {
                let connections = self.sessions.len();
                tracing::warn!(%peer, connections, held_back, "refused a connection: too many, or shutting down");
            }
            return;
        }
        let id = next_connection_id();
        let (handle, outbound) = ConnectionHandle::new(id);
        let last_active = Arc::new(AtomicU64::new(self.env.clock.monotonic().as_millis() as u64));
        let session = Session {
            stream,
            service: Arc::clone(&self.service),
            handle: handle.clone(),
            outbound,
            clock: Arc::clone(&self.env.clock),
            last_active: Arc::clone(&last_active),
            room: self.room.for_connection(),
        };
        self.sessions.insert(id, Watched { handle, last_active });
        let myself = myself.clone();
        ractor::concurrency::spawn(async move {
            let end = session.run().await;
            tracing::debug!(%peer, %end, "connection ended");
            let malformed = match end {
                End::Malformed(malformed) => Some(malformed),
                _ => None,
            };
            // The listener may be gone already: then nobody needs to know.
            let _ = myself.cast(ListenerMessage::Ended { id, peer, malformed });
        });
    }

    fn sweep(&self) {
        let now = self.env.clock.monotonic().as_millis() as u64;
        let idle_max = self.options.idle_max.as_millis() as u64;
        for session in self.sessions.values() {
            if now.saturating_sub(session.last_active.load(Ordering::Relaxed)) > idle_max {
                session.handle.close();
            }
        }
    }

    fn stop_accepting(&mut self) {
        // At its next await. By `&mut`, since ractor's two runtimes differ in what `abort` wants.
        if let Some(accepting) = &mut self.accepting {
            accepting.abort();
        }
        self.accepting = None;
    }

    fn answer_drained(&mut self) {
        if self.sessions.is_empty() {
            for reply in self.draining.drain(..) {
                let _ = reply.send(());
            }
        }
    }
}

/// Accepts until the actor is gone.
async fn accept(env: Env, mut listener: Box<dyn Listener>, to: ActorRef<ListenerMessage>) {
    let mut said = LogLimit::new(SAY_EVERY);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                if to.cast(ListenerMessage::Accepted { stream, peer }).is_err() {
                    return;
                }
            }
            Err(error) => {
                crate::sometimes!("a connection was not accepted");
                if let Some(Pass { held_back }) = said.pass(error.kind(), now(&env)) {
                    tracing::warn!(%error, held_back, "a connection was not accepted");
                }
                env.clock.sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

fn now(env: &Env) -> Millis {
    Millis(env.clock.monotonic().as_millis() as i64)
}

fn say_held_back(counts: Vec<(&'static str, u64)>) {
    for (kind, connections) in counts {
        tracing::warn!(connections, kind, "more connections were closed for the same reason");
    }
}
