//! Groups, administered.

use std::collections::{BTreeMap, BTreeSet};

use super::Admin;
use crate::client::error::Error;
use crate::client::nameservers::read_body;
use crate::client::MessageQueue;
use crate::proto::body::{
    to_vec, ConsumeStats, ConsumerConnection, GroupList, OffsetWrapper, ProducerConnection, SubscriptionGroupConfig,
    SubscriptionGroupWrapper, TopicList,
};
use crate::proto::message::names::retry_topic;
use crate::proto::remoting::requests::{
    DeleteSubscriptionGroup, GetConsumeStats, GetConsumerConnectionList, GetConsumerRunningInfo,
    GetProducerConnectionList, QueryTopicConsumeByWho, QueryTopicsByConsumer,
};
use crate::proto::remoting::{request, response, Command};

/// How far a group is, queue by queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupLag {
    /// End of the queue and the group's offsets.
    pub queues: BTreeMap<MessageQueue, OffsetWrapper>,
    /// Messages a second that the group consumes.
    pub consume_tps: f64,
}

impl GroupLag {
    /// Messages that wait.
    pub fn total(&self) -> i64 {
        self.queues.values().map(|queue| (queue.broker_offset - queue.consumer_offset).max(0)).sum()
    }
}

impl Admin {
    /// All groups that some broker keeps settings of.
    ///
    /// # Errors
    /// [`Error::NoNameServer`], [`Error::NoBroker`], or a broker does not answer.
    pub async fn groups(&self) -> Result<BTreeMap<String, SubscriptionGroupConfig>, Error> {
        let mut groups = BTreeMap::new();
        for (_, address) in self.masters().await? {
            groups.extend(self.groups_on(&address).await?);
        }
        Ok(groups)
    }

    /// Makes a group, or changes it to be as given, on every broker.
    ///
    /// # Errors
    /// [`Error::Refused`] for an illegal name.
    pub async fn put_group(&self, group: &SubscriptionGroupConfig) -> Result<(), Error> {
        self.tell_all(put_group_command(group)).await
    }

    /// Makes or changes a group on one broker, by its address.
    ///
    /// # Errors
    /// As [`Admin::put_group`].
    pub async fn put_group_on(&self, address: &str, group: &SubscriptionGroupConfig) -> Result<(), Error> {
        self.ask(address, put_group_command(group)).await.map(drop)
    }

    /// A group's settings by broker name; none where it is not known.
    ///
    /// # Errors
    /// As [`Admin::groups`].
    pub async fn group_configs(&self, group: &str) -> Result<BTreeMap<String, SubscriptionGroupConfig>, Error> {
        let mut configs = BTreeMap::new();
        for (broker, address) in self.masters().await? {
            let config = self.groups_on(&address).await?.remove(group);
            configs.extend(config.map(|config| (broker, config)));
        }
        Ok(configs)
    }

    async fn groups_on(&self, address: &str) -> Result<BTreeMap<String, SubscriptionGroupConfig>, Error> {
        let answer = self.ask(address, Command::request(request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).await?;
        Ok(read_body::<SubscriptionGroupWrapper>(&answer)?.subscription_group_table)
    }

    /// Deletes a group's settings on every broker and, if wanted, its offsets. Its retry and dead-letter topics stay.
    ///
    /// # Errors
    /// As [`Admin::groups`].
    pub async fn delete_group(&self, group: &str, with_offsets: bool) -> Result<(), Error> {
        let header = DeleteSubscriptionGroup { group_name: group.into(), clean_offset: with_offsets };
        self.tell_all(Command::request(request::DELETE_SUBSCRIPTIONGROUP).with_ext(&header)).await
    }

    /// The members of a group that are connected, and what they subscribe to; `None` if nobody is.
    ///
    /// # Errors
    /// As [`Admin::groups`].
    pub async fn consumers(&self, group: &str) -> Result<Option<ConsumerConnection>, Error> {
        let header = GetConsumerConnectionList { consumer_group: group.into() };
        let command = Command::request(request::GET_CONSUMER_CONNECTION_LIST).with_ext(&header);
        let mut all: Option<ConsumerConnection> = None;
        for (_, address) in self.masters().await? {
            let found: ConsumerConnection = match self.ask(&address, command.clone()).await {
                Ok(answer) => read_body(&answer)?,
                Err(error) if error.code() == Some(response::CONSUMER_NOT_ONLINE) => continue,
                Err(error) => return Err(error),
            };
            match &mut all {
                None => all = Some(found),
                Some(all) => {
                    for member in found.connection_set {
                        if !all.connection_set.iter().any(|known| known.client_id == member.client_id) {
                            all.connection_set.push(member);
                        }
                    }
                    all.subscription_table.extend(found.subscription_table);
                }
            }
        }
        Ok(all)
    }

    /// The producers of a group that are connected to the brokers of a topic.
    ///
    /// # Errors
    /// [`Error::NoRoute`] if there is no such topic.
    pub async fn producers(&self, group: &str, topic: &str) -> Result<ProducerConnection, Error> {
        let header = GetProducerConnectionList { producer_group: group.into() };
        let command = Command::request(request::GET_PRODUCER_CONNECTION_LIST).with_ext(&header);
        let mut all = ProducerConnection::default();
        for (_, address) in self.masters_of(topic).await? {
            match self.ask(&address, command.clone()).await {
                Ok(answer) => all.connection_set.extend(read_body::<ProducerConnection>(&answer)?.connection_set),
                // What brokers say when the group has no producer.
                Err(Error::Refused { code: response::SYSTEM_ERROR, .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// How far a group is in one topic, or in all topics it consumes. Its retry topic counts as one.
    ///
    /// # Errors
    /// As [`Admin::groups`].
    pub async fn lag(&self, group: &str, topic: Option<&str>) -> Result<GroupLag, Error> {
        let header = GetConsumeStats { consumer_group: group.into(), topic: topic.map(Into::into), topic_list: None };
        let command = Command::request(request::GET_CONSUME_STATS).with_ext(&header);
        let mut lag = GroupLag::default();
        for (_, address) in self.masters().await? {
            let stats: ConsumeStats = read_body(&self.ask(&address, command.clone()).await?)?;
            lag.queues.extend(stats.offset_table);
            lag.consume_tps += stats.consume_tps;
        }
        Ok(lag)
    }

    /// The groups that consume a topic.
    ///
    /// # Errors
    /// [`Error::NoRoute`] if there is no such topic.
    pub async fn groups_of_topic(&self, topic: &str) -> Result<BTreeSet<String>, Error> {
        let header = QueryTopicConsumeByWho { topic: topic.into() };
        let command = Command::request(request::QUERY_TOPIC_CONSUME_BY_WHO).with_ext(&header);
        let mut groups = BTreeSet::new();
        for (_, address) in self.masters_of(topic).await? {
            groups.extend(read_body::<GroupList>(&self.ask(&address, command.clone()).await?)?.group_list);
        }
        Ok(groups)
    }

    /// The topics that a group has offsets for, without its retry topic.
    ///
    /// # Errors
    /// As [`Admin::groups`].
    pub async fn topics_of_group(&self, group: &str) -> Result<BTreeSet<String>, Error> {
        let header = QueryTopicsByConsumer { group: group.into() };
        let command = Command::request(request::QUERY_TOPICS_BY_CONSUMER).with_ext(&header);
        let mut topics = BTreeSet::new();
        for (_, address) in self.masters().await? {
            topics.extend(read_body::<TopicList>(&self.ask(&address, command.clone()).await?)?.topic_list);
        }
        topics.remove(&retry_topic(group));
        Ok(topics)
    }

    /// What a member says of itself (ConsumerRunningInfo as JSON), relayed by a broker it is connected to.
    ///
    /// # Errors
    /// [`Error::Refused`] if no broker knows the member, or it does not answer.
    pub async fn running_info(&self, group: &str, client_id: &str) -> Result<Vec<u8>, Error> {
        let header =
            GetConsumerRunningInfo { consumer_group: group.into(), client_id: client_id.into(), jstack_enable: false };
        let command = Command::request(request::GET_CONSUMER_RUNNING_INFO).with_ext(&header);
        let mut last = Error::NoBroker { broker: "any".into() };
        for (_, address) in self.masters().await? {
            match self.ask(&address, command.clone()).await {
                Ok(answer) => return Ok(answer.body),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

fn put_group_command(group: &SubscriptionGroupConfig) -> Command {
    Command::request(request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP).with_body(to_vec(group))
}
