//! Replies that are waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::oneshot;

use super::instance::Shared;
use super::message::Received;
use crate::proto::message::properties;

/// Topics whose brokers are known to know this client; beyond, they are told again.
const INTRODUCED_MAX: usize = 1024;

/// The requests of one client.
#[derive(Default)]
pub(super) struct Requests {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// By correlation id.
    waiting: BTreeMap<String, oneshot::Sender<Received>>,
    introduced: BTreeSet<String>,
}

impl Requests {
    /// A reply came. Nobody may wait for it any more.
    pub fn replied(&self, reply: Received) {
        let waiting = reply.property(properties::CORRELATION_ID).and_then(|id| self.table().waiting.remove(id));
        match waiting {
            Some(waiting) => drop(waiting.send(reply)),
            None => tracing::debug!(message = reply.message_id(), "a reply came that nobody waits for"),
        }
    }

    /// Whether the topic's brokers were told of this client.
    pub fn is_introduced(&self, topic: &str) -> bool {
        self.table().introduced.contains(topic)
    }

    /// The topic's brokers were told of this client. Those that come later are when they are connected to.
    pub fn introduced(&self, topic: &str) {
        let mut table = self.table();
        if table.introduced.len() >= INTRODUCED_MAX {
            table.introduced.clear();
        }
        table.introduced.insert(topic.to_owned());
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("no holder panics")
    }
}

/// One request, which waits for its reply until this is dropped.
pub(super) struct Waiting {
    client: Arc<Shared>,
    id: String,
    reply: oneshot::Receiver<Received>,
}

impl Waiting {
    /// From now on a reply with this correlation id is expected.
    pub fn new(client: &Arc<Shared>, id: &str) -> Waiting {
        let (replies, reply) = oneshot::channel();
        client.requests.table().waiting.insert(id.to_owned(), replies);
        Waiting { client: Arc::clone(client), id: id.to_owned(), reply }
    }

    /// The reply.
    pub async fn reply(&mut self) -> Option<Received> {
        (&mut self.reply).await.ok()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.client.requests.table().waiting.remove(&self.id);
    }
}
