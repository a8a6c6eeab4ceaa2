//! The slave's side of [`metadata_sync`](crate::broker::metadata_sync): waits for changes at the master, copies the tables
//! that have changed, takes them over.
//!
//! One question is under way at a time, in a task of its own; what it brings is taken over here, one after the other with
//! [`MetadataSyncMessage::Stop`]: nothing of the old master counts after a promotion.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use super::delay::DelayMessage;
use super::registrar::RegistrarMessage;
use super::shared::Shared;
use super::timer::ApacheProgress;
use crate::actors::net::{connect, ConnectionHandle, NoRequests};
use crate::broker::metadata_sync::{rest_ms, Marks, Tables, ASK_EVERY_MS, HOLD_MS, RETRY_MS};
use crate::env::Canary;
use crate::proto::body::{
    from_slice, ConsumerOffsetSerializeWrapper, DelayOffsetSerializeWrapper, DeletedTopics, KvTable,
    SubscriptionGroupWrapper, TopicConfigSerializeWrapper,
};
use crate::proto::remoting::requests::MetadataMarks;
use crate::proto::remoting::{own_request, request, response, Command};
use crate::proto::PhysicalOffset;
use crate::store::Trouble;

/// How long a connection attempt may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// How long the answer to a question for changes may take, and how long a table.
const WAIT_LIMIT: Duration = Duration::from_millis(HOLD_MS as u64 + 5_000);
const TABLE_LIMIT: Duration = Duration::from_secs(10);

/// What the actor is told.
pub enum MetadataSyncMessage {
    /// Follow this master from now on.
    Follow {
        /// Its `ip:port`.
        address: String,
    },
    /// Ask the master again.
    Ask {
        /// Questions to former masters do not count.
        round: u64,
    },
    /// A question has ended.
    Asked {
        /// Which.
        round: u64,
        /// What it brought.
        outcome: anyhow::Result<Box<Copied>>,
    },
    /// Take nothing over any more, until there is another one to follow.
    Stop {
        /// Told when that is so.
        done: oneshot::Sender<()>,
    },
}

/// What a question brought.
pub struct Copied {
    /// Serves the next question.
    connection: ConnectionHandle,
    /// How far the master's tables were when it answered; `None` of an Apache master.
    marks: Option<Marks>,
    /// The connection was made for this question.
    connected: bool,
    /// How long the tables took.
    took: Duration,
    /// Where the master's log begins, if it says so.
    log_min: Option<PhysicalOffset>,
    topics: Option<TopicConfigSerializeWrapper>,
    deleted: Option<DeletedTopics>,
    groups: Option<SubscriptionGroupWrapper>,
    offsets: Option<ConsumerOffsetSerializeWrapper>,
    delays: Option<DelayOffsetSerializeWrapper>,
    timed: Option<ApacheProgress>,
}

/// See the module's text.
pub struct MetadataSync;

/// What it starts with.
pub struct MetadataSyncArguments {
    /// The broker's state.
    pub shared: Arc<Shared>,
    /// Looks who is the master when this one is gone.
    pub registrar: ActorRef<RegistrarMessage>,
    /// Saves the delay progress.
    pub delay: ActorRef<DelayMessage>,
}

#[doc(hidden)]
pub struct State {
    arguments: MetadataSyncArguments,
    master: Option<String>,
    round: u64,
    connection: Option<ConnectionHandle>,
    /// How far the tables are that were taken over last.
    seen: Option<Marks>,
    /// The process of the master that they came from.
    incarnation: Option<u64>,
    /// What an Apache master has delivered of timed messages; kept once the log is here that has the copies.
    timed: Option<ApacheProgress>,
    copying: Trouble,
}

impl Actor for MetadataSync {
    type Msg = MetadataSyncMessage;
    type State = State;
    type Arguments = MetadataSyncArguments;

    async fn pre_start(
        &self,
        _: ActorRef<Self::Msg>,
        arguments: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(State {
            arguments,
            master: None,
            round: 0,
            connection: None,
            seen: None,
            incarnation: None,
            timed: None,
            copying: Trouble::default(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            MetadataSyncMessage::Follow { address } => state.follow(&myself, address),
            MetadataSyncMessage::Ask { round } if round == state.round => state.ask(&myself),
            MetadataSyncMessage::Asked { round, outcome } if round == state.round => {
                state.keep_timed().await;
                state.asked(&myself, outcome).await;
            }
            MetadataSyncMessage::Ask { .. } | MetadataSyncMessage::Asked { .. } => {}
            MetadataSyncMessage::Stop { done } => {
                if !state.arguments.shared.env.canary(Canary::StaleOffsetsPushed) {
                    state.round += 1;
                }
                (state.master, state.connection, state.seen) = (None, None, None);
                state.keep_timed().await;
                let _ = done.send(());
            }
        }
        Ok(())
    }
}

impl State {
    fn follow(&mut self, myself: &ActorRef<MetadataSyncMessage>, address: String) {
        if self.master.as_ref() == Some(&address) {
            return;
        }
        tracing::info!(master = address, "this slave takes topics, groups and offsets from its master");
        self.master = Some(address);
        (self.connection, self.seen, self.timed) = (None, None, None);
        self.round += 1;
        self.ask(myself);
    }

    fn ask(&mut self, myself: &ActorRef<MetadataSyncMessage>) {
        let Some(address) = self.master.clone() else { return };
        let (shared, seen, round) = (Arc::clone(&self.arguments.shared), self.seen, self.round);
        let (connection, myself) = (self.connection.take(), myself.clone());
        ractor::concurrency::spawn(async move {
            let outcome = copy(&shared, &address, connection, seen).await.map(Box::new);
            // An actor that is gone means that the broker is stopping.
            let _ = myself.cast(MetadataSyncMessage::Asked { round, outcome });
        });
    }

    async fn asked(&mut self, myself: &ActorRef<MetadataSyncMessage>, outcome: anyhow::Result<Box<Copied>>) {
        self.copying.note("copy topics, groups and offsets from the master", &outcome);
        let pause = match outcome {
            Ok(copied) => self.take_over(*copied).await,
            Err(_) => {
                self.seen = None;
                let now = self.arguments.shared.now();
                self.arguments.shared.offsets().master_is_away(now);
                // Perhaps it is gone for good, and another one takes its place.
                let _ = self.arguments.registrar.cast(RegistrarMessage::LookForMaster);
                Duration::from_millis(RETRY_MS)
            }
        };
        let round = self.round;
        myself.send_after(pause, move || MetadataSyncMessage::Ask { round });
    }

    /// Before it is replaced, and before a promotion: what the copied log does not cover would be left out for good.
    async fn keep_timed(&mut self) {
        let store = &self.arguments.shared.store;
        let Some(timed) = self.timed.take_if(|timed| timed.is_covered(store)) else { return };
        if let Err(error) = timed.keep(store).await {
            tracing::warn!(%error, "what the master has delivered of timed messages is not kept");
        }
    }

    /// Returns how long to rest.
    async fn take_over(&mut self, copied: Copied) -> Duration {
        let Copied { connection, marks, connected, took, log_min, topics, deleted, groups, offsets, delays, timed } =
            copied;
        let incarnation = marks.map(|marks| marks.incarnation);
        // An Apache master does not say whether it was restarted: it may have been whenever its connection ended.
        let anew = if marks.is_some() { incarnation != self.incarnation } else { connected };
        let mut effects = Vec::new();
        self.keep_log(log_min);
        if let Some(deleted) = deleted {
            self.delete(deleted).await;
        }
        let shared = &self.arguments.shared;
        if let Some(topics) = topics {
            shared.topics().follow(topics, anew, &mut effects);
        }
        if let Some(groups) = groups {
            shared.groups().follow(groups, anew, &mut effects);
        }
        if let Some(offsets) = offsets {
            shared.offsets().follow(offsets, anew, shared.now(), &mut effects);
        }
        if delays.is_some_and(|delays| shared.delays().follow(delays)) {
            let _ = self.arguments.delay.cast(DelayMessage::Save);
        }
        if timed.is_some() {
            self.timed = timed;
        }
        shared.carry_out(effects);
        (self.seen, self.incarnation, self.connection) = (marks, incarnation, Some(connection));
        match marks {
            Some(_) => Duration::from_millis(rest_ms(took.as_millis() as u64)),
            None => Duration::from_millis(ASK_EVERY_MS),
        }
    }
}

impl State {
    /// What waits in the log for its time the master knows: what it still has stays here too.
    fn keep_log(&self, log_min: Option<PhysicalOffset>) {
        let shared = &self.arguments.shared;
        if log_min.is_some() && !shared.env.canary(Canary::SlaveDeletesFirst) {
            shared.store.pin(log_min);
        }
    }

    /// Messages of deleted topics go, and those of newer topics of the same names stay.
    async fn delete(&self, deleted: DeletedTopics) {
        let shared = &self.arguments.shared;
        shared.knows_deletions.store(true, Ordering::Release);
        for (topic, deleted_at) in deleted.deleted {
            if let Err(why) = shared.drop_queues_below(&topic, PhysicalOffset(deleted_at)).await {
                tracing::error!(why, "a topic that the master has deleted is still here");
            }
        }
    }
}

/// Waits for changes and copies the tables that have changed.
async fn copy(
    shared: &Shared,
    address: &str,
    connection: Option<ConnectionHandle>,
    seen: Option<Marks>,
) -> anyhow::Result<Copied> {
    let known = connection.filter(|connection| !connection.is_closed());
    let connected = known.is_none();
    let connection = match known {
        Some(connection) => connection,
        None => connect(&shared.env, address, Arc::new(NoRequests), CONNECT_LIMIT).await?,
    };
    let clock = &*shared.env.clock;
    let waiting = Command::request(own_request::WAIT_METADATA_CHANGE).with_ext(&header(seen));
    let answer = connection.call(clock, waiting, WAIT_LIMIT).await?;
    let marks = match answer.code {
        response::SUCCESS => Some(marks(&MetadataMarks::decode(&answer.ext_fields()?)?)),
        response::REQUEST_CODE_NOT_SUPPORTED => None,
        code => anyhow::bail!("{address} refuses with code {code}: {}", answer.remark.unwrap_or_default()),
    };
    let log_min = log_min(shared, &connection, &answer).await?;
    let wanted = marks.map_or(Tables::ALL, |marks| marks.since(seen.as_ref()));
    let begun = clock.monotonic();
    let (topics, groups, offsets, delays) = (
        table(shared, &connection, wanted.topics, request::GET_ALL_TOPIC_CONFIG).await?,
        table(shared, &connection, wanted.groups, request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG).await?,
        table(shared, &connection, wanted.offsets, request::GET_ALL_CONSUMER_OFFSET).await?,
        table(shared, &connection, wanted.delays, request::GET_ALL_DELAY_OFFSET).await?,
    );
    // A master of ours keeps it in its log.
    let timed = match marks {
        Some(_) => None,
        None => ApacheProgress::ask(&connection, clock, TABLE_LIMIT).await?,
    };
    // Behind the topics: whatever is missing among them has been noted as deleted.
    let deleted = table(shared, &connection, marks.is_some() && wanted.topics, own_request::GET_DELETED_TOPICS).await?;
    let took = clock.monotonic().saturating_sub(begun);
    Ok(Copied { connection, marks, connected, took, log_min, topics, deleted, groups, offsets, delays, timed })
}

/// Where the master's log begins, as its answer to the question for changes says; an Apache master is asked for it.
async fn log_min(
    shared: &Shared,
    connection: &ConnectionHandle,
    answer: &Command,
) -> anyhow::Result<Option<PhysicalOffset>> {
    if answer.code == response::SUCCESS {
        let told = MetadataMarks::decode(&answer.ext_fields()?)?.min_phy_offset;
        return Ok(u64::try_from(told).ok().map(PhysicalOffset));
    }
    let facts: Option<KvTable> = table(shared, connection, true, request::GET_BROKER_RUNTIME_INFO).await?;
    let told = facts.and_then(|facts| facts.table.get("commitLogMinOffset")?.parse().ok());
    Ok(told.map(PhysicalOffset))
}

/// Copies one table, if it is wanted. One that cannot be read is reported and keeps no other away (REP-6).
async fn table<T: serde::de::DeserializeOwned>(
    shared: &Shared,
    connection: &ConnectionHandle,
    wanted: bool,
    code: i32,
) -> anyhow::Result<Option<T>> {
    if !wanted {
        return Ok(None);
    }
    let answer = connection.call(&*shared.env.clock, Command::request(code), TABLE_LIMIT).await?;
    // An Apache master without delayed messages has no progress to tell.
    if answer.code != response::SUCCESS || answer.body.is_empty() {
        tracing::debug!(code, answer = answer.code, remark = answer.remark, "the master has no such table");
        return Ok(None);
    }
    match from_slice(&answer.body) {
        Ok(table) => Ok(Some(table)),
        Err(error) => {
            tracing::warn!(code, %error, "a table of the master cannot be read and is left out");
            Ok(None)
        }
    }
}

/// As it goes over the wire: the bits of each count.
pub fn header(marks: Option<Marks>) -> MetadataMarks {
    let Marks { incarnation, topics, groups, offsets, delays } = marks.unwrap_or_default();
    MetadataMarks {
        incarnation: incarnation as i64,
        topics: topics as i64,
        groups: groups as i64,
        offsets: offsets as i64,
        delays: delays as i64,
        min_phy_offset: 0,
    }
}

/// See [`header`].
pub fn marks(header: &MetadataMarks) -> Marks {
    Marks {
        incarnation: header.incarnation as u64,
        topics: header.topics as u64,
        groups: header.groups as u64,
        offsets: header.offsets as u64,
        delays: header.delays as u64,
    }
}
