//! The actor that decides which queues this consumer has.
//!
//! It runs at start, every 20 s, when a broker tells of members that came or went, when a route changed, and a second after
//! something could not be done. Members that see the same queues and the same members come to shares without overlap.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;
use tracing::Instrument;

use super::core::Core;
use super::owned::OwnedQueue;
use crate::client::error::Error;
use crate::client::nameservers::read_body;
use crate::client::remote::ANSWER_LIMIT;
use crate::client::MessageQueue;
use crate::proto::body::small::GetConsumerListByGroupResponseBody;
use crate::proto::body::TopicRouteData;
use crate::proto::remoting::requests::GetConsumerListByGroup;
use crate::proto::remoting::{request, Command};

/// How often shares are computed anew without a reason.
const PERIOD: Duration = Duration::from_secs(20);
/// How often offsets are committed.
const COMMIT_PERIOD: Duration = Duration::from_secs(5);
/// How soon what could not be done is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What the actor is told.
pub(super) enum RebalanceMessage {
    /// Compute the shares anew.
    Rebalance,
    /// 20 s have passed.
    Tick,
    /// Commit how far all queues are.
    Commit,
    /// A queue goes on at another offset: the broker says so.
    Moved { owned: Arc<OwnedQueue>, next: i64 },
    /// A tool has set offsets.
    Reset { offsets: BTreeMap<MessageQueue, i64> },
    /// The lock of a queue is lost.
    LockLost { owned: Arc<OwnedQueue> },
    /// Read a queue from another offset.
    Seek { queue: MessageQueue, offset: i64, done: oneshot::Sender<()> },
    /// Other queues are assigned by hand, or topics subscribed to: take them up.
    Assign { done: oneshot::Sender<()> },
    /// Give back all queues, waiting for calls of the listener that run.
    Stop { grace: Duration, done: oneshot::Sender<()> },
}

/// See the module's text.
pub(super) struct RebalanceActor;

pub(super) struct State {
    pub core: Arc<Core>,
    began: Duration,
    /// Where the application wants to go on.
    pub seeks: BTreeMap<MessageQueue, i64>,
}

impl Actor for RebalanceActor {
    type Msg = RebalanceMessage;
    type State = State;
    type Arguments = Arc<Core>;

    async fn pre_start(&self, myself: ActorRef<Self::Msg>, core: Arc<Core>) -> Result<State, ActorProcessingErr> {
        myself.send_interval(PERIOD, || RebalanceMessage::Tick);
        myself.send_interval(COMMIT_PERIOD, || RebalanceMessage::Commit);
        let began = core.now();
        Ok(State { core, began, seeks: BTreeMap::new() })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            RebalanceMessage::Rebalance => {
                state.core.rebalance_pending.store(false, Ordering::Release);
                state.rebalance().await;
            }
            RebalanceMessage::Tick => state.rebalance().await,
            RebalanceMessage::Commit => state.commit_all(),
            RebalanceMessage::Moved { owned, next } => {
                tracing::info!(queue = ?owned.queue, next, "the broker moves the group in a queue");
                state.release(vec![(owned, Some(next))]).await;
                state.rebalance().await;
            }
            RebalanceMessage::Reset { offsets } => {
                state.core.record_setup(true, true);
                let owned = state.core.owned().clone();
                let moved = offsets.into_iter().filter_map(|(queue, to)| Some((owned.get(&queue)?.clone(), Some(to))));
                state.release(moved.collect()).await;
                state.rebalance().await;
            }
            RebalanceMessage::LockLost { owned } => {
                state.release(vec![(owned, None)]).await;
                state.core.rebalance_after(AGAIN_AFTER);
            }
            RebalanceMessage::Seek { queue, offset, done } => {
                state.core.record_setup(true, true);
                let owned = state.core.owned().get(&queue).cloned();
                state.seeks.insert(queue, offset);
                state.release(owned.map(|owned| (owned, Some(offset))).into_iter().collect()).await;
                state.rebalance().await;
                let _ = done.send(());
            }
            RebalanceMessage::Assign { done } => {
                state.rebalance().await;
                let _ = done.send(());
            }
            RebalanceMessage::Stop { grace, done } => {
                state.stop(grace).await;
                let _ = done.send(());
                myself.stop(None);
            }
        }
        Ok(())
    }
}

impl State {
    /// Computes the share of each topic and makes it so.
    async fn rebalance(&mut self) {
        let span = tracing::debug_span!("rebalance", group = self.core.group);
        self.share_anew().instrument(span).await;
    }

    async fn share_anew(&mut self) {
        if self.core.is_stopping() || self.core.client.is_closed() {
            return;
        }
        let mut complete = self.finish_leaving().await;
        let topics: BTreeSet<String> = self.core.topics();
        let gone: Vec<_> = self.core.owned().values().filter(|o| !topics.contains(&o.queue.topic)).cloned().collect();
        self.release(gone.into_iter().map(|owned| (owned, None)).collect()).await;
        for topic in topics {
            match self.share(&topic).await {
                Ok(share) => complete &= self.apply(&topic, share).await,
                // A topic may come to be later; that is looked for every period.
                Err(Error::NoRoute { .. }) if topic != self.core.retry_topic() || self.is_old() => {}
                Err(error) => {
                    tracing::debug!(topic, %error, "the share of a topic could not be computed");
                    complete = false;
                }
            }
        }
        if !complete {
            self.core.rebalance_after(AGAIN_AFTER);
        }
    }

    /// Whether the broker has had its time to make the group's retry topic; a group may be set to have none.
    fn is_old(&self) -> bool {
        self.core.now().saturating_sub(self.began) > PERIOD
    }

    /// The queues of a topic that are this consumer's.
    async fn share(&self, topic: &str) -> Result<Vec<MessageQueue>, Error> {
        let core = &self.core;
        let assigned = core.assigned.lock().expect("no holder panics").clone();
        if let Some(assigned) = assigned {
            core.client.route(topic).await?;
            return Ok(assigned.into_iter().filter(|queue| queue.topic == topic).collect());
        }
        let route = core.client.route(topic).await?;
        if core.broadcasting {
            return Ok(route.readable.clone());
        }
        let members = self.members(&route.data).await?;
        if !members.contains(&core.client.id) {
            // The broker has not heard of this client yet, or not again after a restart: that says nothing about others.
            core.client.heartbeat_all().await;
            return Err(Error::Invalid("the broker does not list this client as a member yet".into()));
        }
        let share = core.settings.allocation.allocate(&core.client.id, &route.readable, &members);
        share.map_err(|error| Error::Invalid(error.to_string()))
    }

    /// The members of the group, as the first broker says that answers; which one is asked first is random.
    async fn members(&self, route: &TopicRouteData) -> Result<Vec<String>, Error> {
        let addresses: Vec<&String> =
            route.broker_datas.iter().filter_map(|broker| broker.broker_addrs.values().next()).collect();
        let first = self.core.client.env.rng.below(addresses.len() as u64) as usize;
        let header = GetConsumerListByGroup { consumer_group: self.core.group.as_str().into() };
        let command = Command::request(request::GET_CONSUMER_LIST_BY_GROUP).with_ext(&header);
        let mut last = Error::NoBroker { broker: "any".into() };
        for address in addresses.iter().cycle().skip(first).take(addresses.len()) {
            match self.core.client.ask(address, command.clone(), ANSWER_LIMIT).await {
                Ok(answer) => return Ok(read_body::<GetConsumerListByGroupResponseBody>(&answer)?.consumer_id_list),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Gives back what is not in the share, takes what is new; false if not all of it could be done yet.
    async fn apply(&mut self, topic: &str, share: Vec<MessageQueue>) -> bool {
        let share: BTreeSet<MessageQueue> = share.into_iter().collect();
        let owned = self.core.owned().clone();
        let lost: Vec<_> = owned.values().filter(|o| o.queue.topic == topic && !share.contains(&o.queue)).collect();
        let new: Vec<_> = share.iter().filter(|queue| !owned.contains_key(*queue)).cloned().collect();
        if !lost.is_empty() || !new.is_empty() {
            tracing::info!(group = self.core.group, topic, lost = lost.len(), new = new.len(), "queues change hands");
        }
        self.release(lost.into_iter().map(|owned| (Arc::clone(owned), None)).collect()).await;
        let (leaving, new): (Vec<_>, _) = new.into_iter().partition(|queue| self.core.leaving().contains_key(queue));
        self.acquire(new).await && leaving.is_empty()
    }

    /// Commits in a task of its own: a broker that does not answer holds up nothing else.
    fn commit_all(&self) {
        let core = Arc::clone(&self.core);
        ractor::concurrency::spawn(async move { core.commit_owned().await });
    }
}
