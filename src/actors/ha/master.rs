//! The actor that owns the HA port.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{select, Either};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use super::session::{End, Session};
use super::HaState;
use crate::env::{Listener, LogLimit, Millis, Pass, Stream};
use crate::ha::link::Link;

/// Connections at one time; more are closed as they come. Slaves are few, and whoever is none is gone in seconds.
const CONNECTIONS_MAX: usize = 256;
/// Pause after a failed accept.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// How often the same is said about connections.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// How slaves are served.
#[derive(Clone, Copy, Debug)]
pub struct HaOptions {
    /// Most bytes of the log in a frame (`haTransferBatchSize`).
    pub batch_max: u32,
    /// Most bytes of the log that a slave gets in a second; `None`: any number.
    pub bytes_per_second: Option<u64>,
}

/// What the actor is told.
pub enum HaMasterMessage {
    /// A connection was accepted.
    Accepted {
        /// The connection.
        stream: Box<dyn Stream>,
        /// Its other end.
        peer: SocketAddr,
    },
    /// A connection has ended.
    Ended {
        /// Its number.
        number: u64,
        /// Its other end.
        peer: SocketAddr,
        /// Why, in words.
        why: String,
    },
    /// No slave is served any more, until one connects anew.
    Disconnect,
    /// No slave is served any more.
    Close {
        /// Told once the port is free.
        done: oneshot::Sender<()>,
    },
}

/// See the module's text.
pub struct HaMaster;

/// What the actor starts with.
pub struct HaMasterArguments {
    ha: HaState,
    listener: Box<dyn Listener>,
    options: HaOptions,
}

/// The running actor.
#[derive(Clone)]
pub struct HaMasterHandle {
    actor: ActorRef<HaMasterMessage>,
    address: SocketAddr,
}

#[doc(hidden)]
pub struct State {
    ha: HaState,
    options: HaOptions,
    /// Ends the task that accepts: by a message, or by being dropped.
    accepting: Option<oneshot::Sender<oneshot::Sender<()>>>,
    sessions: BTreeSet<u64>,
    /// For the sessions of now; each generation has its own.
    stopped: Arc<AtomicBool>,
    last_number: u64,
    said: LogLimit<String>,
}

impl HaMasterHandle {
    /// Serves slaves that connect to `listener`. Its end is reported to `supervisor`.
    ///
    /// # Errors
    /// If the listener has no address or the actor cannot be spawned.
    pub async fn start<M: ractor::Message>(
        ha: HaState,
        listener: Box<dyn Listener>,
        options: HaOptions,
        supervisor: &ActorRef<M>,
    ) -> anyhow::Result<HaMasterHandle> {
        let address = listener.local_addr()?;
        let arguments = HaMasterArguments { ha, listener, options };
        let (actor, _) = Actor::spawn_linked(None, HaMaster, arguments, supervisor.get_cell()).await?;
        Ok(HaMasterHandle { actor, address })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends all slaves' connections and gives the port back.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.actor.cast(HaMasterMessage::Close { done }).is_ok() {
            let _ = closed.await;
        }
    }

    /// Ends all slaves' connections: the broker has another role from now on.
    pub fn disconnect(&self) {
        // An actor that is gone serves nobody.
        let _ = self.actor.cast(HaMasterMessage::Disconnect);
    }
}

impl Actor for HaMaster {
    type Msg = HaMasterMessage;
    type State = State;
    type Arguments = HaMasterArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        arguments: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        let HaMasterArguments { ha, listener, options } = arguments;
        let (accepting, stop) = oneshot::channel();
        ractor::concurrency::spawn(accept(ha.clone(), listener, myself, stop));
        Ok(State {
            ha,
            options,
            accepting: Some(accepting),
            sessions: BTreeSet::new(),
            stopped: Arc::default(),
            last_number: 0,
            said: LogLimit::new(SAY_EVERY),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            HaMasterMessage::Accepted { stream, peer } => state.accepted(&myself, stream, peer),
            HaMasterMessage::Ended { number, peer, why } => {
                state.sessions.remove(&number);
                state.say(peer, &why);
            }
            HaMasterMessage::Disconnect => state.disconnect(),
            HaMasterMessage::Close { done } => {
                if let Some(accepting) = state.accepting.take() {
                    // A task that is gone has left the port: dropping `done` says so.
                    let _ = accepting.send(done);
                }
                state.disconnect();
            }
        }
        Ok(())
    }

    async fn post_stop(&self, _: ActorRef<Self::Msg>, state: &mut Self::State) -> Result<(), ActorProcessingErr> {
        state.disconnect();
        Ok(())
    }
}

impl State {
    fn disconnect(&mut self) {
        std::mem::take(&mut self.stopped).store(true, Ordering::Release);
        self.ha.signal().notify();
    }

    fn accepted(&mut self, myself: &ActorRef<HaMasterMessage>, stream: Box<dyn Stream>, peer: SocketAddr) {
        if self.accepting.is_none() || self.ha.is_slave() || self.sessions.len() >= CONNECTIONS_MAX {
            let why = match self.ha.is_slave() {
                true => "this broker is a slave itself",
                false => "too many connections",
            };
            return self.say(peer, why);
        }
        self.last_number += 1;
        let number = self.last_number;
        self.sessions.insert(number);
        let now = now(&self.ha);
        let session = Session {
            number,
            stream,
            peer,
            ha: self.ha.clone(),
            stopped: Arc::clone(&self.stopped),
            link: Link::new(self.options.batch_max, now)
                .with_pace(self.options.bytes_per_second)
                .with_canaries(self.ha.env().canaries()),
            reports: 0,
            looked: false,
            slave: None,
            out: Vec::new(),
            written: 0,
            seen: 0,
        };
        let myself = myself.clone();
        ractor::concurrency::spawn(async move {
            let end = session.run().await;
            let why = match end {
                // The numbers in it would make each one new.
                End::Expired { .. } => "what it needs is not in the log any more".to_owned(),
                end => end.to_string(),
            };
            // An actor that is gone needs no news.
            let _ = myself.cast(HaMasterMessage::Ended { number, peer, why });
        });
    }

    /// Anybody can connect as often as he likes, so the same is not said each time.
    fn say(&mut self, peer: SocketAddr, why: &str) {
        if let Some(Pass { held_back }) = self.said.pass(why.to_owned(), now(&self.ha)) {
            tracing::warn!(%peer, why, held_back, "a connection on the HA port was closed");
        }
    }
}

/// Accepts until it is told to stop, or the actor is gone.
async fn accept(
    ha: HaState,
    mut listener: Box<dyn Listener>,
    to: ActorRef<HaMasterMessage>,
    mut stop: oneshot::Receiver<oneshot::Sender<()>>,
) {
    loop {
        let accepted = match select(&mut stop, listener.accept()).await {
            Either::Left((done, _)) => Err(done),
            Either::Right((accepted, _)) => Ok(accepted),
        };
        match accepted {
            Err(done) => {
                drop(listener);
                // Dropping the other end means that nobody waits.
                let _ = done.map(|done| done.send(()));
                return;
            }
            Ok(Ok((stream, peer))) => {
                if to.cast(HaMasterMessage::Accepted { stream, peer }).is_err() {
                    return;
                }
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "a connection on the HA port was not accepted");
                ha.env().clock.sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

fn now(ha: &HaState) -> Millis {
    Millis(ha.env().clock.monotonic().as_millis() as i64)
}
