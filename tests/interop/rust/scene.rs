//! The names, clients and waits that the checks share.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metaq::client::{
    Action, Client, ConsumeFrom, Durability, Message, Producer, PushConsumer, PushConsumerBuilder, Received, Sent,
};
use metaq::env::real;

pub const QUEUES: usize = 4;
/// Anything a check waits for comes within this.
pub const LIMIT: Duration = Duration::from_secs(90);

/// One check's names, and the clients it made.
pub struct Scene {
    prefix: String,
    clients: Mutex<Vec<Client>>,
}

impl Scene {
    pub fn new(driver: &str, check: &str) -> Scene {
        // The two halves of a check that spans a restart share their names.
        let shared = check.trim_end_matches("-before").trim_end_matches("-after");
        let run = std::env::var("INTEROP_RUN").unwrap_or_else(|_| "0".into());
        let legal = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
        let prefix = format!("{run}_{}_{shared}", driver.chars().map(legal).collect::<String>());
        Scene { prefix, clients: Mutex::default() }
    }

    /// A client of its own, as another process would have.
    pub fn client(&self) -> Client {
        let nameservers = std::env::var("NAMESRV_ADDR").expect("NAMESRV_ADDR");
        let client = Client::new(&real::env(), &nameservers).unwrap();
        self.clients.lock().unwrap().push(client.clone());
        client
    }

    pub fn topic_name(&self) -> String {
        format!("T_{}", self.prefix)
    }

    pub fn group(&self) -> String {
        format!("G_{}", self.prefix)
    }

    /// A topic of four queues that the NameServer already knows.
    pub async fn topic(&self) -> String {
        self.make_topic(&self.topic_name()).await
    }

    pub async fn make_topic(&self, topic: &str) -> String {
        let admin = self.client().admin();
        admin.create_topic(topic, QUEUES as i32).await.unwrap();
        until("the topic's route", async || admin.route(topic).await.is_ok()).await;
        topic.to_owned()
    }

    pub fn producer(&self) -> Producer {
        self.producer_of(&self.client())
    }

    pub fn producer_of(&self, client: &Client) -> Producer {
        client.producer(format!("P_{}", self.prefix)).timeout(Duration::from_secs(20)).start().unwrap()
    }

    /// A member of the check's group that begins with the first message.
    pub fn consumer(&self, topic: &str, tags: &str) -> PushConsumerBuilder {
        self.client().push_consumer(self.group()).subscribe(topic, tags).consume_from(ConsumeFrom::First)
    }

    /// Such a member that accepts everything.
    pub async fn consume(&self, topic: &str, tags: &str) -> (PushConsumer, Inbox) {
        let inbox = Inbox::default();
        (inbox.take(self.consumer(topic, tags)).await, inbox)
    }

    pub async fn close(&self) {
        let clients = std::mem::take(&mut *self.clients.lock().unwrap());
        for client in clients {
            client.close().await;
        }
    }
}

/// What consumers got, in the order in which they got it.
#[derive(Clone, Default)]
pub struct Inbox(Arc<Mutex<Vec<Arc<Received>>>>);

impl Inbox {
    pub fn add(&self, message: Arc<Received>) {
        self.0.lock().unwrap().push(message);
    }

    /// Starts a consumer that accepts everything.
    pub async fn take(&self, consumer: PushConsumerBuilder) -> PushConsumer {
        let inbox = self.clone();
        let listener = move |message| {
            inbox.add(message);
            async { Action::Done }
        };
        consumer.concurrently(listener).await.unwrap()
    }

    pub fn all(&self) -> Vec<Arc<Received>> {
        self.0.lock().unwrap().clone()
    }

    pub fn bodies(&self) -> Vec<String> {
        self.all().iter().map(body).collect()
    }

    pub fn count(&self, wanted: &str) -> usize {
        self.bodies().iter().filter(|body| *body == wanted).count()
    }

    /// Waits for these bodies, then insists that each came once and nothing else came.
    pub async fn await_exactly(&self, bodies: &[String]) {
        let wanted: BTreeSet<String> = bodies.iter().cloned().collect();
        let here = || self.bodies().into_iter().collect::<BTreeSet<_>>();
        until_else(
            async || wanted.is_subset(&here()),
            || {
                let missing: Vec<_> = wanted.difference(&here()).cloned().collect();
                format!("{} of {} messages, such as {}", missing.len(), wanted.len(), missing[0])
            },
        )
        .await;
        let (mut got, mut wanted) = (self.bodies(), bodies.to_vec());
        got.sort();
        wanted.sort();
        assert!(got == wanted, "wanted {} messages {wanted:?}, got {} {got:?}", wanted.len(), got.len());
    }
}

pub fn body(message: &Arc<Received>) -> String {
    String::from_utf8_lossy(&message.body).into_owned()
}

pub fn sent(result: Result<Sent, metaq::client::SendError>) -> Sent {
    let sent = result.unwrap();
    assert_eq!(sent.durability, Durability::AsAsked);
    sent
}

/// Sends `name0`, `name1`, … and returns these bodies.
pub async fn send_many(producer: &Producer, topic: &str, name: &str, count: usize) -> Vec<String> {
    let bodies: Vec<String> = (0..count).map(|number| format!("{name}{number}")).collect();
    for body in &bodies {
        sent(producer.send(Message::new(topic, body.as_str())).await);
    }
    bodies
}

/// One message of this body and tag into each queue: when they arrive, all before them have arrived.
pub async fn send_to_each_queue(producer: &Producer, message: Message) {
    let queues = producer.queues(message.topic()).await.unwrap();
    assert_eq!(queues.len(), QUEUES);
    for queue in queues {
        sent(producer.send_to(message.clone(), &queue).await);
    }
}

pub async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    until_else(condition, || what.to_owned()).await;
}

async fn until_else(condition: impl AsyncFn() -> bool, what: impl Fn() -> String) {
    let clock = real::env().clock;
    let end = clock.monotonic() + LIMIT;
    while !condition().await {
        assert!(clock.monotonic() < end, "waited {LIMIT:?} for {}", what());
        clock.sleep(Duration::from_millis(20)).await;
    }
}
