//! Topics, administered.

use std::collections::BTreeMap;

use futures::future::join_all;

use super::Admin;
use crate::client::error::Error;
use crate::client::nameservers::read_body;
use crate::proto::body::{permission, TopicConfig, TopicConfigSerializeWrapper, TopicStatsTable};
use crate::proto::remoting::requests::{
    DeleteTopicInBroker, DeleteTopicInNamesrv, GetTopicStatsInfo, UpdateAndCreateTopic,
};
use crate::proto::remoting::{request, Command};

impl Admin {
    /// The names of all topics, RocketMQ's own among them, sorted.
    ///
    /// # Errors
    /// [`Error::NoNameServer`].
    pub async fn topics(&self) -> Result<Vec<String>, Error> {
        Ok(self.client.topic_list().await?.topic_list.into_iter().collect())
    }

    /// Makes a topic with so many queues on every broker, to be written and read.
    ///
    /// # Errors
    /// As [`Admin::put_topic`].
    pub async fn create_topic(&self, topic: &str, queues: i32) -> Result<(), Error> {
        self.put_topic(&TopicConfig::new(topic, queues, permission::READ | permission::WRITE)).await
    }

    /// Makes a topic, or changes it to be as given, on every broker. Routes show it within moments.
    ///
    /// # Errors
    /// [`Error::Refused`] for an illegal name, or of a system topic; [`Error::NoBroker`] of an empty cluster.
    pub async fn put_topic(&self, topic: &TopicConfig) -> Result<(), Error> {
        self.tell_all(put_topic_command(topic)).await
    }

    /// Makes or changes a topic on one broker, by its address.
    ///
    /// # Errors
    /// As [`Admin::put_topic`].
    pub async fn put_topic_on(&self, address: &str, topic: &TopicConfig) -> Result<(), Error> {
        self.ask(address, put_topic_command(topic)).await.map(drop)
    }

    /// A topic's settings by broker name.
    ///
    /// # Errors
    /// [`Error::NoRoute`] if there is no such topic.
    pub async fn topic_configs(&self, topic: &str) -> Result<BTreeMap<String, TopicConfig>, Error> {
        let mut configs = BTreeMap::new();
        for (broker, address) in self.masters_of(topic).await? {
            let config = self.topics_on(&address).await?.remove(topic);
            configs.extend(config.map(|config| (broker, config)));
        }
        Ok(configs)
    }

    /// The settings of all topics, by broker name and topic; of a broker that does not answer, why. All are asked at once.
    ///
    /// # Errors
    /// [`Error::NoNameServer`]; [`Error::NoBroker`] of an empty cluster.
    pub async fn all_topic_configs(
        &self,
    ) -> Result<BTreeMap<String, Result<BTreeMap<String, TopicConfig>, Error>>, Error> {
        let masters = self.masters().await?;
        let asked = masters.into_iter().map(|(broker, address)| async move {
            let topics = self.topics_on(&address).await;
            (broker, topics)
        });
        Ok(join_all(asked).await.into_iter().collect())
    }

    async fn topics_on(&self, address: &str) -> Result<BTreeMap<String, TopicConfig>, Error> {
        let answer = self.ask(address, Command::request(request::GET_ALL_TOPIC_CONFIG)).await?;
        Ok(read_body::<TopicConfigSerializeWrapper>(&answer)?.topic_config_table)
    }

    /// Deletes a topic and its messages on every broker, its routes and its fixed queues.
    ///
    /// # Errors
    /// [`Error::Refused`] of a system topic.
    pub async fn delete_topic(&self, topic: &str) -> Result<(), Error> {
        let header = DeleteTopicInBroker { topic: topic.into() };
        self.tell_all(Command::request(request::DELETE_TOPIC_IN_BROKER).with_ext(&header)).await?;
        let header = DeleteTopicInNamesrv { topic: topic.into(), cluster_name: None };
        let command = Command::request(request::DELETE_TOPIC_IN_NAMESRV).with_ext(&header);
        for address in self.client.nameservers.addresses() {
            self.ask(address, command.clone()).await?;
        }
        // A topic of that name that is made later begins without them.
        self.unfix_queues(topic).await
    }

    /// First and next offset of each queue, and when its newest message came.
    ///
    /// # Errors
    /// [`Error::NoRoute`] if there is no such topic.
    pub async fn topic_stats(&self, topic: &str) -> Result<TopicStatsTable, Error> {
        let mut all = TopicStatsTable::default();
        let header = GetTopicStatsInfo { topic: topic.into() };
        for (_, address) in self.masters_of(topic).await? {
            let command = Command::request(request::GET_TOPIC_STATS_INFO).with_ext(&header);
            let stats: TopicStatsTable = read_body(&self.ask(&address, command).await?)?;
            all.offset_table.extend(stats.offset_table);
            all.topic_put_tps += stats.topic_put_tps;
        }
        Ok(all)
    }
}

fn put_topic_command(topic: &TopicConfig) -> Command {
    let attributes: Vec<_> = topic.attributes.iter().map(|(name, value)| format!("+{name}={value}")).collect();
    let header = UpdateAndCreateTopic {
        topic: topic.topic_name.as_str().into(),
        default_topic: Some("TBW102".into()),
        read_queue_nums: topic.read_queue_nums,
        write_queue_nums: topic.write_queue_nums,
        perm: topic.perm,
        topic_filter_type: Some(topic.topic_filter_type.name().into()),
        topic_sys_flag: topic.topic_sys_flag,
        order: topic.order,
        attributes: (!attributes.is_empty()).then(|| attributes.join(",").into()),
        force: false,
    };
    Command::request(request::UPDATE_AND_CREATE_TOPIC).with_ext(&header)
}
