//! Brokers, looked into.

use std::collections::BTreeMap;

use super::Admin;
use crate::client::error::Error;
use crate::client::nameservers::read_body;
use crate::proto::body::{BrokerStatsData, KvTable};
use crate::proto::remoting::requests::ViewBrokerStatsData;
use crate::proto::remoting::{request, Command};

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
}
