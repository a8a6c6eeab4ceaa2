//! The registrar tells every NameServer what this broker has: at start, every 30 s, and at each change.
//!
//! The NameServers do not know each other, so each gets its own connection and an unreachable one delays nobody. Each
//! has one registration under way at most, and whatever changes meanwhile goes into the next.
//!
//! A change is told by itself, as RocketMQ's brokers do: with thousands of topics the whole table costs more than all
//! the rest of making one. The whole table goes to a NameServer at first, every 30 s, under a new broker id, when a topic was
//! deleted, when too much changed, and after anything went wrong; it repairs whatever a NameServer has missed.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::sync::oneshot;

use super::shared::Shared;
use crate::actors::net::{connect, ConnectionHandle, Output, Service};
use crate::broker::role::MASTER_ID;
use crate::env::{LogLimit, Millis};
use crate::nameserver::{Master, COMPLETE_TOPIC_TABLE, DISPLACED_ADDRESS, OUTRANKED_BY};
use crate::proto::body::small::KvTable;
use crate::proto::body::{from_slice, RegisterBrokerBody};
use crate::proto::remoting::requests::{RegisterBroker, RegisterBrokerResponse, UnregisterBroker};
use crate::proto::remoting::{request, response, Command, Head, RawFrame};

/// How long a connection attempt may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// How long the goodbye of a stopping broker may take.
const UNREGISTER_LIMIT: Duration = Duration::from_secs(3);
/// A NameServer that does not answer is asked again after this, sooner than at the next period.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// A slave that no NameServer names a master asks again after this: the master may be about to come.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(2);

/// How often the same is said about another broker of this one's name.
const SAY_EVERY: Duration = Duration::from_secs(300);

/// What the registrar is told.
pub enum RegistrarMessage {
    /// The topics changed.
    Register {
        /// Told once every NameServer has taken them or could not be reached.
        done: Option<oneshot::Sender<()>>,
    },
    /// The period has passed.
    Tick,
    /// A slave's master is gone, or another one has come: ask who is the master now.
    LookForMaster,
    /// A promotion was given up: follow the master as before.
    FollowAgain,
    /// A registration has ended; `connection` serves the next one.
    Registered {
        /// Which NameServer.
        index: usize,
        /// Up to which change it was told.
        change: u64,
        /// How it ended, if it was taken.
        accepted: Option<Accepted>,
    },
    /// Say goodbye to all NameServers and answer.
    Unregister {
        /// Answered when all have been told, or could not be.
        reply: RpcReplyPort<()>,
    },
}

/// What a NameServer was told of topics.
#[derive(Clone, Copy)]
struct ToldTopics {
    /// As of this many changes.
    changes: u64,
    /// By the broker of this id: a NameServer takes what a slave says for read-only, so a master has to say it all again.
    broker_id: u64,
}

/// A registration that a NameServer has taken.
pub struct Accepted {
    /// Serves the next one.
    connection: ConnectionHandle,
    /// When it began.
    began: Millis,
    /// The topics that are known there.
    topics: ToldTopics,
    /// Another broker had this one's name and id until then.
    displaced: Option<String>,
    /// Another broker holds this one's name and id with a newer epoch.
    outranked_by: Option<String>,
    /// To a slave: the master of its name.
    master: Option<Master>,
    /// Topics with a fixed list of queues.
    ordered: KvTable,
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
    /// What was said of brokers with this one's name.
    said: LogLimit<String>,
    /// The master that this slave follows.
    followed: Option<Master>,
    /// It is arranged that this slave asks again who is the master.
    look_armed: bool,
}

struct NameServer {
    address: String,
    /// What it took last, if the connection still works.
    accepted: Option<Accepted>,
    /// The next registration brings the whole table.
    whole: bool,
    /// Up to which change it was told, or could not be.
    told: u64,
    /// A registration is under way; one more follows if something changed meanwhile.
    busy: bool,
    again: bool,
    /// The last attempt failed: said once, not every period.
    failing: bool,
    /// To a slave: the master that it named last.
    master: Option<Master>,
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
            accepted: None,
            whole: true,
            told: 0,
            busy: false,
            again: false,
            failing: false,
            master: None,
        });
        let nameservers = nameservers.collect();
        myself.send_interval(period, || RegistrarMessage::Tick);
        Ok(State {
            shared,
            nameservers,
            period,
            change: 0,
            waiting: Vec::new(),
            said: LogLimit::new(SAY_EVERY),
            followed: None,
            look_armed: false,
        })
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
            RegistrarMessage::Tick => {
                state.nameservers.iter_mut().for_each(|nameserver| nameserver.whole = true);
                state.said.on_tick(state.shared.now());
                state.register_all(&myself);
            }
            RegistrarMessage::LookForMaster => {
                state.look_armed = false;
                if state.shared.role.is_slave() {
                    state.change += 1;
                    state.register_all(&myself);
                }
            }
            RegistrarMessage::FollowAgain => {
                state.followed = None;
                state.follow();
            }
            RegistrarMessage::Registered { index, change, accepted } => {
                state.registered(&myself, index, change, accepted);
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
        let (known, whole) = (nameserver.accepted.take(), std::mem::take(&mut nameserver.whole));
        let myself = myself.clone();
        let change = self.change;
        ractor::concurrency::spawn(async move {
            let accepted = match register_with(&shared, &myself, &address, known, whole, limit).await {
                Ok(accepted) => Some(accepted),
                Err(error) => {
                    tracing::debug!(nameserver = address, error = format!("{error:#}"), "a registration failed");
                    None
                }
            };
            let _ = myself.cast(RegistrarMessage::Registered { index, change, accepted });
        });
    }

    fn registered(
        &mut self,
        myself: &ActorRef<RegistrarMessage>,
        index: usize,
        change: u64,
        accepted: Option<Accepted>,
    ) {
        self.say_displaced(accepted.as_ref());
        self.say_outranked(accepted.as_ref());
        let nameserver = &mut self.nameservers[index];
        nameserver.busy = false;
        nameserver.told = change;
        let failing = accepted.is_none();
        if let Some(accepted) = &accepted {
            nameserver.master.clone_from(&accepted.master);
            if accepted.outranked_by.is_none() {
                self.shared.named_master.fetch_max(accepted.began.0, Ordering::AcqRel);
            }
            let (ordered, mut effects) = (accepted.ordered.table.keys().map(String::as_str), Vec::new());
            self.shared.topics().set_ordered(ordered, self.shared.wall(), &mut effects);
            self.shared.carry_out(effects);
        }
        nameserver.accepted = accepted;
        if failing != std::mem::replace(&mut nameserver.failing, failing) {
            crate::sometimes!(failing, "a broker could not register");
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
        self.follow();
        let role = &self.shared.role;
        let alone = role.is_slave() && role.broker_id() != MASTER_ID && self.is_alone();
        if alone && !std::mem::replace(&mut self.look_armed, true) {
            myself.send_after(LOOK_AGAIN_AFTER, || RegistrarMessage::LookForMaster);
        }
    }

    /// A slave follows the master that NameServers name: the one it follows already as long as one of them names it. One
    /// that none names any more is followed on, until there is another.
    fn follow(&mut self) {
        if !self.shared.role.is_slave() || self.shared.role.is_changing() {
            return;
        }
        // The last word of one that does not answer counts only if nobody answers.
        let silent = self.nameservers.iter().all(|nameserver| nameserver.failing);
        let heard = self.nameservers.iter().filter(|nameserver| silent || !nameserver.failing);
        let mut named: Vec<&Master> = heard.filter_map(|nameserver| nameserver.master.as_ref()).collect();
        let registered = !named.is_empty();
        if let Some(shunned) = self.shared.shunned() {
            named.retain(|master| **master != shunned);
            self.followed = self.followed.take().filter(|followed| *followed != shunned);
        }
        let chosen = named.iter().find(|master| self.followed.as_ref() == Some(**master)).or(named.first());
        let chosen = chosen.map(|master| (*master).clone());
        if self.shared.role.set_master_registered(registered) {
            tracing::info!(registered, "the NameServers' word on this slave's master");
        }
        if let Some(master) = chosen.filter(|master| self.followed.as_ref() != Some(master)) {
            self.shared.follow(&master);
            self.followed = Some(master);
        }
    }

    /// Whether this slave has nobody to follow.
    fn is_alone(&self) -> bool {
        self.followed.is_none() || !self.shared.role.master_is_registered()
    }

    /// Another broker was promoted meanwhile, and clients are sent there: this one takes no messages any more, which nobody
    /// else would have. Only a promotion gives out epochs that NameServers compare, so it is no mistake in some setting.
    fn say_outranked(&mut self, accepted: Option<&Accepted>) {
        let Some(other) = accepted.and_then(|accepted| accepted.outranked_by.as_ref()) else { return };
        if !self.shared.superseded(other) && self.said.pass(other.clone(), self.shared.now()).is_some() {
            tracing::warn!(
                other,
                "another broker is the master of this name: this one takes no messages; start it as a slave"
            );
        }
    }

    /// Two brokers with one name and id take each other's place at the NameServers, and clients reach now one and now the
    /// other. A broker that was moved to another address says so once.
    fn say_displaced(&mut self, accepted: Option<&Accepted>) {
        let Some(other) = accepted.and_then(|accepted| accepted.displaced.as_ref()) else { return };
        if self.said.pass(other.clone(), self.shared.now()).is_some() {
            tracing::warn!(
                broker = self.shared.settings().config.broker_name,
                other,
                "this broker took the place of another that has its brokerName; if that one still runs, give each its own"
            );
        }
    }

    async fn unregister(&self) {
        let config = &self.shared.settings().config;
        let goodbye = Command::request(request::UNREGISTER_BROKER).with_ext(&UnregisterBroker {
            broker_name: config.broker_name.as_str().into(),
            broker_addr: self.shared.advertised.to_string().into(),
            cluster_name: config.broker_cluster_name.as_str().into(),
            broker_id: self.shared.role.broker_id() as i64,
        });
        let clock = &*self.shared.env.clock;
        let calls = self.nameservers.iter().filter_map(|nameserver| nameserver.accepted.as_ref()).map(|accepted| {
            // A NameServer that does not hear it notices the closed connection.
            accepted.connection.call(clock, goodbye.clone(), UNREGISTER_LIMIT)
        });
        futures::future::join_all(calls).await;
    }
}

async fn register_with(
    shared: &Shared,
    registrar: &ActorRef<RegistrarMessage>,
    address: &str,
    known: Option<Accepted>,
    whole: bool,
    limit: Duration,
) -> anyhow::Result<Accepted> {
    let (connection, told) = match known.filter(|known| !known.connection.is_closed()) {
        Some(known) => (known.connection, Some(known.topics).filter(|_| !whole)),
        None => {
            let notices = Arc::new(Notices { registrar: registrar.clone() });
            (connect(&shared.env, address, notices, CONNECT_LIMIT).await?, None)
        }
    };
    // Taken now, not when the registration was asked for: what arrives last is then the newest.
    let began = shared.now();
    let (command, topics) = registration(shared, told);
    let answer = connection.call(&*shared.env.clock, command, limit).await?;
    anyhow::ensure!(
        answer.code == response::SUCCESS,
        "refused with code {}: {}",
        answer.code,
        answer.remark.unwrap_or_default()
    );
    let displaced = answer.ext(DISPLACED_ADDRESS).map(str::to_owned);
    let outranked_by = answer.ext(OUTRANKED_BY).map(str::to_owned);
    let master = master_of(&answer)?;
    // A NameServer without such topics sends none. One that says something else is registered with all the same.
    let ordered = from_slice(&answer.body).unwrap_or_default();
    Ok(Accepted { connection, began, topics, displaced, outranked_by, master, ordered })
}

/// The master that an answer names, to a slave.
fn master_of(answer: &Command) -> anyhow::Result<Option<Master>> {
    let answer = RegisterBrokerResponse::decode(&answer.ext_fields()?)?;
    let address = answer.master_addr.filter(|address| !address.is_empty());
    Ok(address.map(|address| Master {
        address: address.into_owned(),
        ha_address: answer.ha_server_addr.unwrap_or_default().into_owned(),
    }))
}

/// What a NameServer tells by itself: that another broker of this name is the first one now.
struct Notices {
    registrar: ActorRef<RegistrarMessage>,
}

impl Service for Notices {
    type Connection = ();

    fn connected(&self, _: ConnectionHandle, _: SocketAddr) {}

    fn request(&self, (): &mut (), head: &Head<'_>, _: &RawFrame<'_>, _: &mut Output) -> Result<(), String> {
        if head.code == request::NOTIFY_MIN_BROKER_ID_CHANGE {
            // A registrar that is gone means that the broker is stopping.
            let _ = self.registrar.cast(RegistrarMessage::LookForMaster);
        }
        Ok(())
    }

    fn submit(&self, (): &mut (), _: &mut Output) {}

    fn disconnected(&self, (): ()) {}
}

/// The request, and which topics are known after it: it brings those that changed since what was `told` under the same
/// broker id, if a registration can say that much, else all.
fn registration(shared: &Shared, told: Option<ToldTopics>) -> (Command, ToldTopics) {
    let settings = shared.settings();
    let (config, broker_id) = (&settings.config, shared.role.broker_id());
    let (topics, complete, changes) = {
        let table = shared.topics();
        let told = told.filter(|told| told.broker_id == broker_id);
        let changed = told.and_then(|told| table.changed_since(told.changes));
        let complete = changed.is_none();
        (changed.unwrap_or_else(|| table.snapshot()), complete, table.changes())
    };
    let version = topics.data_version;
    let body = RegisterBrokerBody::new(topics, version);
    let body = if config.compressed_register { body.encode_compressed() } else { body.encode() };
    let command = Command::request(request::REGISTER_BROKER)
        .with_ext(&RegisterBroker {
            broker_name: config.broker_name.as_str().into(),
            broker_addr: shared.advertised.to_string().into(),
            cluster_name: config.broker_cluster_name.as_str().into(),
            ha_server_addr: shared.ha_address.to_string().into(),
            broker_id: broker_id as i64,
            compressed: config.compressed_register,
            body_crc32: (crc32fast::hash(&body) & 0x7FFF_FFFF) as i32,
            heartbeat_timeout_millis: None,
            enable_acting_master: Some(false),
            zone_name: None,
        })
        .with_body(body);
    let command = if complete { command.with(COMPLETE_TOPIC_TABLE, "true") } else { command };
    (command, ToldTopics { changes, broker_id })
}
