//! How a consumer is put together and started.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

use ractor::Actor;
use tokio::sync::oneshot;

use super::concurrent::Row;
use super::core::{Core, Handler, Settings};
use super::info::{Counters, Member};
use super::life::Life;
use super::locks;
use super::offsets::{LocalOffsets, Offsets};
use super::rebalance::{RebalanceActor, RebalanceMessage};
use super::stop::Held;
use crate::client::error::Error;
use crate::client::remote::ANSWER_LIMIT;
use crate::client::{Client, MessageQueue};
use crate::proto::body::{to_vec, CheckClientRequestBody};
use crate::proto::filter::{ExpressionType, SubscriptionData};
use crate::proto::message::names::{retry_topic, validate_group, validate_topic};
use crate::proto::remoting::{request, Command};

/// The group in whose name those read who are in none.
const NO_GROUP: &str = "TOOLS_CONSUMER";

/// What the builders of both consumers collect.
pub(super) struct Setup {
    pub client: Client,
    /// `None`: in no group, and no offset is kept.
    pub group: Option<String>,
    pub settings: Settings,
    pub subscriptions: Vec<(String, ExpressionType, String)>,
    pub assigned: Option<Vec<MessageQueue>>,
    pub broadcasting: bool,
    pub local_offsets: PathBuf,
}

impl Setup {
    pub fn new(client: Client, group: Option<String>) -> Setup {
        // As the Java client has it: of one machine's programs of a group only one should run.
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let address = client.env().net.own_address();
        Setup {
            client,
            group,
            settings: Settings::default(),
            subscriptions: Vec::new(),
            assigned: None,
            broadcasting: false,
            local_offsets: home.join(".rocketmq_offsets").join(format!("{address}@DEFAULT")),
        }
    }

    /// Starts the consumer; when it returns, brokers know of it and its first queues are taken.
    pub async fn start(self, handler: Handler) -> Result<Held, Error> {
        let group = self.group.clone().unwrap_or_else(|| NO_GROUP.to_owned());
        validate_group(&group).map_err(|error| Error::Invalid(error.to_string()))?;
        let mut subscriptions = self.compiled()?;
        let shared = &self.client.shared;
        for subscription in subscriptions.values() {
            self.check_expression(&group, subscription).await?;
        }
        let member = self.group.is_some() && self.assigned.is_none();
        let retries = member && !self.broadcasting && !handler.asks();
        if retries {
            let topic = retry_topic(&group);
            let subscription = self.subscription(&topic, ExpressionType::Tag, "*")?;
            subscriptions.insert(topic, subscription);
        }
        let offsets = match (&self.group, self.broadcasting) {
            (None, _) => Offsets::Nowhere,
            (Some(_), false) => Offsets::Brokers,
            (Some(group), true) => Offsets::Local(LocalOffsets::open(&shared.env, &self.local_offsets, group)?),
        };
        let topics: Vec<String> = subscriptions.keys().cloned().collect();
        let filtered = self.assigned.is_some() || subscriptions.values().any(|one| one.sub_string != "*");
        let mut settings = self.settings;
        if matches!(handler, Handler::Orderly(_)) {
            settings.limits.span = None;
        }
        let core = Arc::new(Core {
            client: Arc::clone(shared),
            group,
            handler,
            broadcasting: self.broadcasting,
            offsets,
            subscriptions: Mutex::new(subscriptions),
            assigned: Mutex::new(self.assigned),
            owned: Mutex::default(),
            leaving: Mutex::default(),
            life: Life::new(settings.concurrency),
            row: Row::default(),
            actor: OnceLock::new(),
            rebalance_pending: AtomicBool::new(false),
            counters: Counters::default(),
            started_at: shared.env.clock.now(),
            settings,
        });
        core.record_setup(filtered, false);
        if member {
            shared.join_consumers(&core.group, Arc::new(Member(Arc::downgrade(&core))))?;
        }
        core.begin(topics, member).await
    }

    fn compiled(&self) -> Result<BTreeMap<String, SubscriptionData>, Error> {
        let mut compiled = BTreeMap::new();
        for (topic, kind, expression) in &self.subscriptions {
            validate_topic(topic).map_err(|error| Error::Invalid(error.to_string()))?;
            compiled.insert(topic.clone(), self.subscription(topic, kind.clone(), expression)?);
        }
        for queue in self.assigned.iter().flatten() {
            if !compiled.contains_key(&queue.topic) {
                compiled.insert(queue.topic.clone(), self.subscription(&queue.topic, ExpressionType::Tag, "*")?);
            }
        }
        if compiled.is_empty() && self.assigned.is_none() {
            return Err(Error::Invalid("a consumer subscribes to at least one topic".into()));
        }
        Ok(compiled)
    }

    fn subscription(&self, topic: &str, kind: ExpressionType, expression: &str) -> Result<SubscriptionData, Error> {
        let version = self.client.env().clock.now().0;
        SubscriptionData::new(topic, kind, expression, version).map_err(|error| Error::Invalid(error.to_string()))
    }

    /// Has a broker check an expression that only brokers understand.
    async fn check_expression(&self, group: &str, subscription: &SubscriptionData) -> Result<(), Error> {
        if subscription.expression_type == ExpressionType::Tag {
            return Ok(());
        }
        let shared = &self.client.shared;
        let route = shared.fetch_route(&subscription.topic).await?;
        let address = route.broker_datas.iter().find_map(|broker| broker.broker_addrs.values().next());
        let address = address.ok_or_else(|| Error::NoRoute { topic: subscription.topic.clone() })?;
        let body = CheckClientRequestBody {
            client_id: shared.id.clone(),
            group: group.to_owned(),
            namespace: None,
            subscription_data: subscription.clone(),
        };
        let command = Command::request(request::CHECK_CLIENT_CONFIG).with_body(to_vec(&body));
        shared.ask(address, command, ANSWER_LIMIT).await.map(drop)
    }
}

impl Core {
    async fn begin(self: Arc<Core>, topics: Vec<String>, member: bool) -> Result<Held, Error> {
        let spawned = Actor::spawn(None, RebalanceActor, Arc::clone(&self)).await;
        let (actor, _) = spawned.map_err(|error| Error::Invalid(format!("the consumer cannot start: {error}")))?;
        let _ = self.actor.set(actor);
        if self.needs_locks() {
            ractor::concurrency::spawn(locks::keep(Arc::downgrade(&self), Arc::clone(&self.client.env.clock)));
        }
        for topic in &topics {
            // What has no route yet is looked for again.
            let _ = self.client.fresh_route(topic).await;
        }
        if member {
            self.client.heartbeat_all().await;
        }
        let (done, taken) = oneshot::channel();
        self.tell(RebalanceMessage::Assign { done });
        let _ = taken.await;
        Ok(Held(self))
    }

    /// Changes a subscription while the consumer runs, or with `None` ends it. When this returns, brokers have been told.
    pub async fn resubscribe(&self, topic: &str, tags: Option<&str>) -> Result<(), Error> {
        validate_topic(topic).map_err(|error| Error::Invalid(error.to_string()))?;
        {
            let mut subscriptions = self.subscriptions();
            match tags {
                Some(tags) => {
                    // Brokers take a change only if its version is larger, so it must be, whatever the clock says.
                    let before = subscriptions.get(topic).map_or(0, |subscription| subscription.sub_version);
                    let version = self.client.env.clock.now().0.max(before + 1);
                    let subscription = SubscriptionData::new(topic, ExpressionType::Tag, tags, version)
                        .map_err(|error| Error::Invalid(error.to_string()))?;
                    subscriptions.insert(topic.to_owned(), subscription);
                }
                None => drop(subscriptions.remove(topic)),
            }
        }
        self.record_setup(true, false);
        self.client.heartbeat_all().await;
        self.owned().values().filter(|owned| owned.queue.topic == topic).for_each(|owned| owned.room.notify_one());
        self.rebalance();
        Ok(())
    }

    /// Wants all messages of queues whose topic is not subscribed to.
    pub fn subscribe_to_all_of(&self, queues: &[MessageQueue]) {
        let mut subscriptions = self.subscriptions();
        for queue in queues.iter().filter(|queue| !queue.topic.is_empty()) {
            let all = SubscriptionData { topic: queue.topic.clone(), sub_string: "*".into(), ..Default::default() };
            subscriptions.entry(queue.topic.clone()).or_insert(all);
        }
    }

    /// Topics to have queues of.
    pub fn topics(&self) -> BTreeSet<String> {
        self.subscriptions().keys().cloned().collect()
    }

    /// Whether offsets are committed without being asked.
    pub fn commits(&self) -> bool {
        self.settings.auto_commit
    }
}
