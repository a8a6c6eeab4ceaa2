//! One client: its connections, its routes and the groups it is a member of.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use super::connections::Connections;
use super::error::Error;
use super::keys::MessageKeys;
use super::members::Members;
use super::nameservers::NameServers;
use super::recorder::Recorder;
use super::requests::Requests;
use super::rules::route::{Route, RouteTable};
use super::trace::Tracer;
use crate::env::Env;
use crate::proto::remoting::{response, Command};

/// Routes are fetched anew this often, and brokers told of the client's groups.
const UPKEEP_PERIOD: Duration = Duration::from_secs(30);
/// A route younger than this is not fetched again because something failed.
const ROUTE_AGE_MIN: Duration = Duration::from_millis(500);

/// What every RocketMQ client program starts with: a connection to one cluster. Cheap to clone; producers, consumers and
/// tools made from it share its connections, routes and heartbeats.
///
/// There is no global state: two clients in one process may talk to two clusters.
///
/// ```
/// use metaq::client::{Client, Message};
/// use metaq::env::real;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (env, data) = (real::env(), tempfile::tempdir()?);
/// # let cluster = metaq::Embedded::start(&env, data.path(), "").await?;
/// # let nameservers = cluster.nameserver();
/// // As in `let nameservers = "10.0.0.1:9876;10.0.0.2:9876";`
/// let client = Client::new(&real::env(), nameservers)?;
/// let producer = client.producer("order-service").start()?;
/// producer.send(Message::new("Orders", "a book")).await?;
/// client.close().await;
/// # cluster.stop().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    pub(super) shared: Arc<Shared>,
}

/// What the parts of one client share.
pub(super) struct Shared {
    pub env: Env,
    /// Names this client among the members of its groups.
    pub id: String,
    pub connections: Connections,
    pub nameservers: NameServers,
    pub routes: Mutex<RouteTable>,
    /// Held while a topic's route is fetched, so that callers at the same time share the answer.
    fetching: Mutex<BTreeMap<String, Weak<tokio::sync::Mutex<()>>>>,
    pub members: Mutex<Members>,
    pub keys: MessageKeys,
    /// Replies that are waited for.
    pub requests: Requests,
    /// Notes what happens to messages, if that is wanted.
    pub tracer: OnceLock<Tracer>,
    /// Told of what producers and consumers do and see, if somebody wants to know.
    pub recorder: OnceLock<Recorder>,
    closed: AtomicBool,
}

impl Client {
    /// A client of the cluster whose NameServers are `HOST:PORT`, several with `;` between. Nothing is connected before
    /// it is needed.
    ///
    /// # Errors
    /// [`Error::Invalid`] if no NameServer is named.
    pub fn new(env: &Env, nameservers: &str) -> Result<Client, Error> {
        let nameservers = NameServers::parse(nameservers)?;
        let (address, instance) = (env.net.own_address(), env.rng.next_u64());
        // Two clients with one id would each be given the same queues: ids are random, so they cannot be configured
        // into a clash (REB-1).
        let id = format!("{address}@{instance:016x}");
        let shared = Arc::new_cyclic(|weak| Shared {
            connections: Connections::new(env, Weak::clone(weak)),
            nameservers,
            routes: Mutex::default(),
            fetching: Mutex::default(),
            members: Mutex::default(),
            keys: MessageKeys::new(address, instance),
            requests: Requests::default(),
            tracer: OnceLock::new(),
            recorder: OnceLock::new(),
            closed: AtomicBool::new(false),
            env: env.clone(),
            id,
        });
        ractor::concurrency::spawn(upkeep(Arc::downgrade(&shared), env.clone()));
        Ok(Client { shared })
    }

    /// The id by which brokers and tools know this client.
    pub fn id(&self) -> &str {
        &self.shared.id
    }

    /// The environment it lives in.
    pub fn env(&self) -> &Env {
        &self.shared.env
    }

    /// Leaves all groups and ends all connections. Consumers should be stopped before: what they hold is not committed
    /// here. Everything made from this client fails from now on with [`Error::Closed`].
    pub async fn close(&self) {
        if let Some(tracer) = self.shared.tracer.get() {
            tracer.flush(&*self.shared.env.clock).await;
        }
        self.shared.leave_all().await;
        self.shared.closed.store(true, Ordering::Release);
        self.shared.connections.close();
    }
}

impl Shared {
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Sends a request and waits for its answer, which has to be a success.
    pub async fn ask(&self, address: &str, command: Command, limit: Duration) -> Result<Command, Error> {
        let answer = self.connections.call(address, command, limit).await?;
        if answer.code == response::SUCCESS {
            return Ok(answer);
        }
        Err(refusal(address, answer))
    }

    /// The route of a topic: the one at hand, else fetched.
    pub async fn route(&self, topic: &str) -> Result<Arc<Route>, Error> {
        match self.known_route(topic) {
            Some(route) => Ok(route),
            None => self.fetch(topic, self.env.clock.monotonic(), None).await,
        }
    }

    /// The route to send by. If the topic does not exist, it is the one that the topic will have once a broker makes it
    /// with at most `queues` queues.
    pub async fn route_to_send(&self, topic: &str, queues: i32) -> Result<Arc<Route>, Error> {
        match self.known_route(topic) {
            Some(route) => Ok(route),
            None => self.fetch(topic, self.env.clock.monotonic(), Some(queues)).await,
        }
    }

    /// The route of a topic, fetched anew unless it is very young: something about the one at hand did not work.
    pub async fn fresh_route(&self, topic: &str) -> Result<Arc<Route>, Error> {
        let since = self.env.clock.monotonic().saturating_sub(ROUTE_AGE_MIN);
        self.fetch(topic, since, None).await
    }

    /// The route at hand.
    pub fn known_route(&self, topic: &str) -> Option<Arc<Route>> {
        self.routes().get(topic, self.env.clock.monotonic())
    }

    async fn fetch(&self, topic: &str, since: Duration, template: Option<i32>) -> Result<Arc<Route>, Error> {
        self.refresh(topic, since, template).await?;
        self.known_route(topic).ok_or_else(|| Error::NoRoute { topic: topic.to_owned() })
    }

    /// Fetches a topic's route, unless somebody else has since `since`; with `template`, for an unknown topic the route
    /// it will have with at most so many queues.
    async fn refresh(&self, topic: &str, since: Duration, template: Option<i32>) -> Result<(), Error> {
        let lock = self.fetching(topic);
        let _guard = lock.lock().await;
        if self.routes().fetched_at(topic).is_some_and(|fetched_at| fetched_at >= since) {
            return Ok(());
        }
        let fetched = match template {
            Some(queues) => self.fetch_route_or_template(topic, queues).await,
            None => self.fetch_route(topic).await.map(|data| Route::new(topic, data)),
        };
        let now = self.env.clock.monotonic();
        match fetched {
            Ok(route) => {
                if self.routes().put(topic, route, now) {
                    tracing::debug!(topic, "the route changed");
                    self.members().consumers.values().for_each(|consumer| consumer.members_changed());
                }
                Ok(())
            }
            Err(error) => {
                if matches!(error, Error::NoRoute { .. }) {
                    self.routes().remove(topic);
                }
                Err(error)
            }
        }
    }

    fn fetching(&self, topic: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut fetching = self.fetching.lock().expect("no holder panics");
        fetching.retain(|_, lock| lock.strong_count() > 0);
        if let Some(lock) = fetching.get(topic).and_then(Weak::upgrade) {
            return lock;
        }
        let lock = Arc::default();
        fetching.insert(topic.to_owned(), Arc::downgrade(&lock));
        lock
    }

    pub fn routes(&self) -> std::sync::MutexGuard<'_, RouteTable> {
        self.routes.lock().expect("no holder panics")
    }

    /// The address of a broker's master.
    pub fn master(&self, broker: &str) -> Result<String, Error> {
        let routes = self.routes();
        let address = routes.master(broker).map(str::to_owned);
        address.ok_or_else(|| Error::NoBroker { broker: broker.to_owned() })
    }

    /// Servers that may be connected to now.
    fn wanted_addresses(&self) -> BTreeSet<String> {
        let routes = self.routes();
        let brokers = routes.brokers().values().flat_map(|addresses| addresses.values().cloned());
        brokers.chain(self.nameservers.addresses().iter().cloned()).collect()
    }
}

/// The error of an answer that is no success.
pub(super) fn refusal(address: &str, answer: Command) -> Error {
    let remark = answer.remark.unwrap_or_default();
    Error::Refused { address: address.to_owned(), code: answer.code, remark }
}

/// Keeps routes, heartbeats and connections up to date for as long as the client lives.
async fn upkeep(client: Weak<Shared>, env: Env) {
    loop {
        env.clock.sleep(UPKEEP_PERIOD).await;
        let Some(client) = client.upgrade().filter(|client| !client.is_closed()) else { return };
        let now = env.clock.monotonic();
        let topics = client.routes().in_use(now);
        for topic in topics {
            if let Err(error) = client.refresh(&topic, now, None).await {
                tracing::debug!(topic, %error, "the route could not be fetched");
            }
        }
        client.heartbeat_all().await;
        client.connections.keep_only(&client.wanted_addresses());
    }
}
