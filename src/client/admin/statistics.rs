//! Brokers, looked into.

use std::collections::BTreeMap;

use super::Admin;
use crate::client::error::Error;
use crate::client::nameservers::read_body;
use crate::proto::body::{BrokerStatsData, KvTable};
use crate::proto::remoting::requests::ViewBrokerStatsData;
use crate::proto::remoting::{request, Command};

/// Messages that come into a topic and go out of it, on all its brokers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TopicTraffic {
    /// Messages a second that were stored in the last minute.
    pub in_per_second: f64,
    /// Messages stored in the last 24 hours.
    pub in_day: i64,
    /// Messages a second that all groups together were given in the last minute.
    pub out_per_second: f64,
    /// Messages that all groups together were given in the last 24 hours.
    pub out_day: i64,
}

impl Admin {
    /// The state of a broker by its address: names and values, such as `putTps` and `commitLogDiskRatio`.
    ///
    /// # Errors
    /// If the broker does not answer.
    pub async fn broker_state(&self, address: &str) -> Result<BTreeMap<String, String>, Error> {
        let answer = self.ask(address, Command::request(request::GET_BROKER_RUNTIME_INFO)).await?;
        Ok(read_body::<KvTable>(&answer)?.table)
    }

    /// The settings of a broker by its address: `key=value` lines.
    ///
    /// # Errors
    /// If the broker does not answer.
    pub async fn broker_settings(&self, address: &str) -> Result<String, Error> {
        let answer = self.ask(address, Command::request(request::GET_BROKER_CONFIG)).await?;
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    }

    /// A number that a broker counts over minute, hour and day, such as `TOPIC_PUT_NUMS` of a topic.
    ///
    /// # Errors
    /// [`Error::Refused`] if it counts no such thing.
    pub async fn broker_stats(&self, address: &str, name: &str, key: &str) -> Result<BrokerStatsData, Error> {
        let header = ViewBrokerStatsData { stats_name: name.into(), stats_key: key.into() };
        let command = Command::request(request::VIEW_BROKER_STATS_DATA).with_ext(&header);
        read_body(&self.ask(address, command).await?)
    }
    /// What came into a topic and went out of it lately, as its brokers counted. What they never counted is 0.
    ///
    /// # Errors
    /// [`Error::NoRoute`] if there is no such topic, or a broker does not answer.
    pub async fn topic_traffic(&self, topic: &str) -> Result<TopicTraffic, Error> {
        let groups = self.groups_of_topic(topic).await?;
        let mut traffic = TopicTraffic::default();
        for (_, address) in self.masters_of(topic).await? {
            let stored = self.counted(&address, "TOPIC_PUT_NUMS", topic).await?;
            traffic.in_per_second += stored.stats_minute.tps;
            traffic.in_day += stored.stats_day.sum;
            for group in &groups {
                let given = self.counted(&address, "GROUP_GET_NUMS", &format!("{topic}@{group}")).await?;
                traffic.out_per_second += given.stats_minute.tps;
                traffic.out_day += given.stats_day.sum;
            }
        }
        Ok(traffic)
    }

    /// A number that a broker counts; zeros if it does not.
    async fn counted(&self, address: &str, name: &str, key: &str) -> Result<BrokerStatsData, Error> {
        match self.broker_stats(address, name, key).await {
            Err(Error::Refused { .. }) => Ok(BrokerStatsData::default()),
            other => other,
        }
    }
}
