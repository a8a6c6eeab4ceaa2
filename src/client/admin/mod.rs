//! Looking after a cluster: topics, groups, offsets, routes, messages, statistics.

mod groups;
mod members;
mod messages;
mod nameservers;
mod offsets;
mod order;
mod statistics;
mod topics;
mod transactions;

use std::sync::Arc;

use super::error::Error;
use super::instance::Shared;
use super::remote::ANSWER_LIMIT;
use super::{Client, MessageQueue};
use crate::proto::body::{ClusterInfo, TopicRouteData};
use crate::proto::remoting::Command;
pub use groups::GroupLag;
pub use offsets::ResetTo;
pub use statistics::TopicTraffic;

/// Asks and changes what tools do. Cheap to clone; made by [`Client::admin`].
///
/// Changes go to the master of every broker of the cluster, one after the other; the first refusal ends them and is the
/// error, so what was done before stays. All of them may be repeated.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (env, data) = (metaq::env::real::env(), tempfile::tempdir()?);
/// # let cluster = metaq::Embedded::start(&env, data.path(), "").await?;
/// # let client = metaq::client::Client::new(&env, cluster.nameserver())?;
/// let admin = client.admin();
/// admin.create_topic("Orders", 8).await?;
/// for queue in admin.queues("Orders").await? {
///     println!("{}/{} ends at {}", queue.broker_name, queue.queue_id, admin.max_offset(&queue).await?);
/// }
/// assert_eq!(admin.queues("Orders").await?.len(), 8);
/// assert_eq!(admin.lag("billing", None).await?.total(), 0);
/// # client.close().await;
/// # cluster.stop().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Admin {
    client: Arc<Shared>,
}

impl Client {
    /// The tools' view of the cluster.
    pub fn admin(&self) -> Admin {
        Admin { client: Arc::clone(&self.shared) }
    }
}

impl Admin {
    /// All clusters and brokers that the NameServers know.
    ///
    /// # Errors
    /// [`Error::NoNameServer`].
    pub async fn clusters(&self) -> Result<ClusterInfo, Error> {
        self.client.cluster_info().await
    }

    /// Where a topic's queues are, straight from a NameServer.
    ///
    /// # Errors
    /// [`Error::NoRoute`] if there is no such topic, or no NameServer answers.
    pub async fn route(&self, topic: &str) -> Result<TopicRouteData, Error> {
        self.client.fetch_route(topic).await
    }

    /// The queues of a topic that can be read, by broker name and number.
    ///
    /// # Errors
    /// As [`Admin::route`].
    pub async fn queues(&self, topic: &str) -> Result<Vec<MessageQueue>, Error> {
        Ok(self.client.fresh_route(topic).await?.readable.clone())
    }

    /// Addresses of all masters by broker name.
    async fn masters(&self) -> Result<Vec<(String, String)>, Error> {
        let brokers = self.clusters().await?.broker_addr_table;
        let master = |(name, broker): (String, crate::proto::body::BrokerData)| {
            broker.broker_addrs.into_iter().find(|(id, _)| *id == 0).map(|(_, address)| (name, address))
        };
        let masters: Vec<_> = brokers.into_iter().filter_map(master).collect();
        if masters.is_empty() {
            return Err(Error::NoBroker { broker: "any".into() });
        }
        Ok(masters)
    }

    /// Addresses of the masters that have a topic.
    async fn masters_of(&self, topic: &str) -> Result<Vec<(String, String)>, Error> {
        let brokers = self.client.fetch_route(topic).await?.broker_datas;
        let master = |broker: crate::proto::body::BrokerData| {
            let address = broker.broker_addrs.get(&0).cloned();
            address.map(|address| (broker.broker_name, address))
        };
        Ok(brokers.into_iter().filter_map(master).collect())
    }

    async fn ask(&self, address: &str, command: Command) -> Result<Command, Error> {
        self.client.ask(address, command, ANSWER_LIMIT).await
    }

    /// Tells every master the same.
    async fn tell_all(&self, command: Command) -> Result<(), Error> {
        for (_, address) in self.masters().await? {
            self.ask(&address, command.clone()).await?;
        }
        Ok(())
    }
}
