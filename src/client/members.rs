//! The groups a client is a member of, and how brokers learn of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::join_all;

use super::error::Error;
use super::instance::Shared;
use super::message::Received;
use super::remote::ANSWER_LIMIT;
use crate::env::BoxFuture;
use crate::proto::body::{
    to_vec, ConsumeMessageDirectlyResult, ConsumerData, HeartbeatData, MessageQueue, ProducerData,
};
use crate::proto::remoting::requests::UnregisterClient;
use crate::proto::remoting::{request, Command};

/// The groups of one client.
#[derive(Default)]
pub(super) struct Members {
    pub producers: BTreeMap<String, Option<Checker>>,
    pub consumers: BTreeMap<String, Arc<dyn GroupMember>>,
}

/// Answers what became of the transaction of a message, as END_TRANSACTION says it.
pub(super) type Checker = Arc<dyn Fn(Received) -> BoxFuture<'static, i32> + Send + Sync>;

/// A consumer, as brokers and tools reach it. None of the calls may wait.
pub(super) trait GroupMember: Send + Sync {
    /// What heartbeats say about it.
    fn heartbeat(&self) -> ConsumerData;
    /// Members came or went.
    fn members_changed(&self);
    /// A tool has set offsets.
    fn reset(&self, topic: &str, offsets: BTreeMap<MessageQueue, i64>);
    /// How far it is in its queues of a topic.
    fn progress(&self, topic: &str) -> BTreeMap<MessageQueue, i64>;
    /// What tools show about it, as JSON.
    fn running_info(&self) -> Vec<u8>;
    /// Consumes a message out of order, because a tool asks for it.
    fn consume_directly(&self, message: Received) -> BoxFuture<'static, ConsumeMessageDirectlyResult>;
}

impl Shared {
    /// Adds a producer group, with who answers questions about its transactions.
    pub fn join_producers(&self, group: &str, checker: Option<Checker>) -> Result<(), Error> {
        let mut members = self.members();
        if members.producers.contains_key(group) {
            return Err(Error::Invalid(format!("this client has a producer of the group `{group}` already")));
        }
        members.producers.insert(group.to_owned(), checker);
        Ok(())
    }

    /// Who answers questions about transactions of a producer group.
    pub fn checker(&self, group: &str) -> Option<Checker> {
        self.members().producers.get(group).cloned().flatten()
    }

    /// Adds a consumer group.
    pub fn join_consumers(&self, group: &str, member: Arc<dyn GroupMember>) -> Result<(), Error> {
        let mut members = self.members();
        if members.consumers.contains_key(group) {
            return Err(Error::Invalid(format!("this client has a consumer of the group `{group}` already")));
        }
        members.consumers.insert(group.to_owned(), member);
        Ok(())
    }

    /// The consumer of a group.
    pub fn consumer(&self, group: &str) -> Option<Arc<dyn GroupMember>> {
        self.members().consumers.get(group).cloned()
    }

    /// Leaves a producer group and tells the brokers.
    pub async fn leave_producers(&self, group: &str) {
        if self.members().producers.remove(group).is_some() {
            self.say_goodbye(Some(group), None).await;
        }
    }

    /// Leaves a consumer group and tells the brokers.
    pub async fn leave_consumers(&self, group: &str) {
        if self.members().consumers.remove(group).is_some() {
            self.say_goodbye(None, Some(group)).await;
        }
    }

    /// Leaves all groups.
    pub async fn leave_all(&self) {
        let (producers, consumers) = {
            let mut members = self.members();
            (std::mem::take(&mut members.producers), std::mem::take(&mut members.consumers))
        };
        for group in producers.keys() {
            self.say_goodbye(Some(group), None).await;
        }
        for group in consumers.keys() {
            self.say_goodbye(None, Some(group)).await;
        }
    }

    /// Tells every broker which groups this client is in.
    pub async fn heartbeat_all(&self) {
        let Some(body) = self.heartbeat_body() else { return };
        let beats = self.member_brokers().into_iter().map(|address| self.heartbeat_to(address, body.clone()));
        join_all(beats).await;
    }

    /// A connection was made: a broker that has lost the last one has forgotten this client.
    pub fn on_connected(self: &Arc<Self>, address: &str) {
        if !self.member_brokers().contains(address) {
            return;
        }
        let (client, address) = (Arc::clone(self), address.to_owned());
        ractor::concurrency::spawn(async move {
            if let Some(body) = client.heartbeat_body() {
                client.heartbeat_to(address, body).await;
            }
        });
    }

    async fn heartbeat_to(&self, address: String, body: Vec<u8>) {
        let command = Command::request(request::HEART_BEAT).with_body(body);
        if let Err(error) = self.ask(&address, command, ANSWER_LIMIT).await {
            tracing::debug!(address, %error, "a broker took no heartbeat");
        }
    }

    /// `None` while this client is in no group.
    fn heartbeat_body(&self) -> Option<Vec<u8>> {
        let members = self.members();
        if members.producers.is_empty() && members.consumers.is_empty() {
            return None;
        }
        let producers = members.producers.keys().map(|group| ProducerData { group_name: group.clone() });
        Some(to_vec(&HeartbeatData {
            client_id: self.id.clone(),
            consumer_data_set: members.consumers.values().map(|consumer| consumer.heartbeat()).collect(),
            producer_data_set: producers.collect(),
            ..HeartbeatData::default()
        }))
    }

    /// Addresses that want heartbeats: all masters, and slaves only where this client may read.
    fn member_brokers(&self) -> BTreeSet<String> {
        let consumes = !self.members().consumers.is_empty();
        let routes = self.routes();
        let addresses = routes.brokers().values().flat_map(|addresses| addresses.iter());
        addresses.filter(|(id, _)| **id == 0 || consumes).map(|(_, address)| address.clone()).collect()
    }

    async fn say_goodbye(&self, producer: Option<&str>, consumer: Option<&str>) {
        let header = UnregisterClient {
            client_id: self.id.as_str().into(),
            producer_group: producer.map(Into::into),
            consumer_group: consumer.map(Into::into),
        };
        let command = Command::request(request::UNREGISTER_CLIENT).with_ext(&header);
        let brokers = self.member_brokers();
        let goodbyes = brokers.iter().map(|address| self.ask(address, command.clone(), ANSWER_LIMIT));
        for error in join_all(goodbyes).await.into_iter().filter_map(Result::err) {
            tracing::debug!(%error, "a broker took no goodbye");
        }
    }

    pub fn members(&self) -> std::sync::MutexGuard<'_, Members> {
        self.members.lock().expect("no holder panics")
    }
}
