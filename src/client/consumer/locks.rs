//! Locks of queues that are consumed in order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::join_all;

use super::core::Core;
use super::owned::OwnedQueue;
use super::rebalance::RebalanceMessage;
use crate::client::error::Error;
use crate::client::nameservers::read_body;
use crate::client::MessageQueue;
use crate::env::Clock;
use crate::proto::body::{to_vec, LockBatchRequestBody, LockBatchResponseBody};
use crate::proto::remoting::{request, Command};

/// How long a granted lock is relied on; the broker keeps it twice as long.
const LEASE: Duration = Duration::from_secs(30);
/// How often locks are renewed.
const RENEWAL: Duration = Duration::from_secs(10);
/// How long a broker may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// Keeps the locks of a consumer for as long as it has calls that need them. A task of its own: whatever holds up a
/// rebalance must not cost locks.
pub(super) async fn keep(core: Weak<Core>, clock: Arc<dyn Clock>) {
    loop {
        clock.sleep(RENEWAL).await;
        let Some(core) = core.upgrade().filter(|core| !core.life.has_ended()) else { return };
        let owned: Vec<_> = core.owned().values().cloned().collect();
        let leaving: Vec<_> = core.leaving().values().map(|leaving| Arc::clone(&leaving.owned)).collect();
        core.renew(owned.into_iter().chain(leaving).collect()).await;
    }
}

impl Core {
    /// Asks for the locks of queues; returns those granted and until when they may be relied on. An error stands for the
    /// queues of its broker.
    pub async fn lock(&self, queues: &[MessageQueue]) -> Vec<(BTreeSet<MessageQueue>, Result<Granted, Error>)> {
        let mut by_broker: BTreeMap<&str, BTreeSet<MessageQueue>> = BTreeMap::new();
        for queue in queues {
            by_broker.entry(&queue.broker_name).or_default().insert(queue.clone());
        }
        let asked = by_broker.into_iter().map(|(broker, queues)| async move {
            let answer = self.lock_at(broker, &queues).await;
            (queues, answer)
        });
        join_all(asked).await
    }

    async fn lock_at(&self, broker: &str, queues: &BTreeSet<MessageQueue>) -> Result<Granted, Error> {
        let address = self.client.master(broker)?;
        let asked_at = self.now();
        let command = Command::request(request::LOCK_BATCH_MQ).with_body(self.lock_body(queues.clone()));
        let answer = self.client.ask(&address, command, ANSWER_LIMIT).await?;
        let granted = read_body::<LockBatchResponseBody>(&answer)?.lock_ok_mq_set;
        Ok(Granted { queues: granted, until: asked_at + LEASE })
    }

    /// Gives locks back.
    pub async fn unlock(&self, queues: &[MessageQueue]) {
        let mut by_broker: BTreeMap<&str, BTreeSet<MessageQueue>> = BTreeMap::new();
        for queue in queues {
            by_broker.entry(&queue.broker_name).or_default().insert(queue.clone());
        }
        let told = by_broker.into_iter().map(|(broker, queues)| async move {
            let address = self.client.master(broker)?;
            let command = Command::request(request::UNLOCK_BATCH_MQ).with_body(self.lock_body(queues));
            self.client.ask(&address, command, ANSWER_LIMIT).await
        });
        for error in join_all(told).await.into_iter().filter_map(Result::err) {
            tracing::debug!(%error, "locks were not given back; they expire");
        }
    }

    fn lock_body(&self, mq_set: BTreeSet<MessageQueue>) -> Vec<u8> {
        to_vec(&LockBatchRequestBody {
            client_id: self.client.id.clone(),
            consumer_group: self.group.clone(),
            mq_set,
            only_this_broker: false,
        })
    }

    /// Renews the locks of all these queues. One that is refused is lost at once; a broker that does not answer changes
    /// nothing: the lease runs on, and out.
    pub async fn renew(&self, owned: Vec<Arc<OwnedQueue>>) {
        let queues: Vec<_> = owned.iter().map(|owned| owned.queue.clone()).collect();
        for (asked, answer) in self.lock(&queues).await {
            let granted = match answer {
                Ok(granted) => granted,
                Err(error) => {
                    tracing::debug!(%error, "locks were not renewed");
                    continue;
                }
            };
            for owned in owned.iter().filter(|owned| asked.contains(&owned.queue)) {
                // A lease that ran out is not taken up again: somebody else may have had the queue in between.
                if granted.queues.contains(&owned.queue) && owned.is_locked(self.now()) {
                    owned.set_locked(Some(granted.until));
                } else {
                    crate::sometimes!("a client lost the lock of a queue");
                    tracing::warn!(queue = ?owned.queue, "the lock of a queue was lost");
                    owned.set_locked(None);
                    self.tell(RebalanceMessage::LockLost { owned: Arc::clone(owned) });
                }
            }
        }
    }
}

/// Locks that a broker has given.
pub(super) struct Granted {
    pub queues: BTreeSet<MessageQueue>,
    pub until: Duration,
}
