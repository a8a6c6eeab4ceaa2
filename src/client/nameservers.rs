//! What the client asks of NameServers.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::error::Error;
use super::instance::Shared;
use super::remote::ANSWER_LIMIT;
use super::rules::route::{Route, TEMPLATE_TOPIC};
use crate::proto::body::{from_slice, ClusterInfo, TopicList, TopicRouteData};
use crate::proto::remoting::requests::GetRouteInfoByTopic;
use crate::proto::remoting::{request, response, Command};

/// The NameServers of a cluster and the one that answered last.
pub(super) struct NameServers {
    addresses: Vec<String>,
    current: AtomicUsize,
}

impl NameServers {
    /// Reads a list like `10.0.0.1:9876;10.0.0.2:9876`. A missing port is 9876.
    pub fn parse(list: &str) -> Result<NameServers, Error> {
        let entries = list.split([';', ',']).map(str::trim).filter(|entry| !entry.is_empty());
        let entries = entries.map(|entry| entry.strip_prefix("http://").unwrap_or(entry));
        let addresses: Vec<String> =
            entries.map(|entry| if entry.contains(':') { entry.to_owned() } else { format!("{entry}:9876") }).collect();
        if addresses.is_empty() {
            return Err(Error::Invalid("no NameServer is named: write HOST:PORT, several with `;` between".into()));
        }
        Ok(NameServers { addresses, current: AtomicUsize::new(0) })
    }

    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }
}

impl Shared {
    /// Asks one NameServer after the other until one answers with success; a refusal counts only if none does better,
    /// as one that has just started may not know yet what the others do.
    pub async fn ask_nameservers(&self, command: Command) -> Result<Command, Error> {
        let servers = &self.nameservers;
        let first = servers.current.load(Ordering::Relaxed);
        let (mut refused, mut failed) = (None, None);
        for step in 0..servers.addresses.len() {
            let index = (first + step) % servers.addresses.len();
            match self.ask(&servers.addresses[index], command.clone(), ANSWER_LIMIT).await {
                Ok(answer) => {
                    servers.current.store(index, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(error @ Error::Refused { .. }) => refused = Some(error),
                Err(Error::Closed) => return Err(Error::Closed),
                Err(error) => failed = Some(error),
            }
        }
        Err(refused.unwrap_or_else(|| {
            let reason = failed.map_or_else(String::new, |error: Error| error.to_string());
            Error::NoNameServer { reason }
        }))
    }

    /// The route of a topic, straight from a NameServer.
    pub async fn fetch_route(&self, topic: &str) -> Result<TopicRouteData, Error> {
        let header = GetRouteInfoByTopic { topic: topic.into(), accept_standard_json_only: Some(true) };
        let command = Command::request(request::GET_ROUTEINFO_BY_TOPIC).with_ext(&header);
        let answer = self.ask_nameservers(command).await.map_err(|error| match error.code() {
            Some(response::TOPIC_NOT_EXIST) => Error::NoRoute { topic: topic.to_owned() },
            _ => error,
        })?;
        read_body(&answer)
    }

    /// As [`Shared::fetch_route`]; for a topic that does not exist, the route it will have once the broker makes it.
    pub async fn fetch_route_or_template(&self, topic: &str, queues: i32) -> Result<Route, Error> {
        match self.fetch_route(topic).await {
            Ok(data) => Ok(Route::new(topic, data)),
            Err(error @ Error::NoRoute { .. }) => match self.fetch_route(TEMPLATE_TOPIC).await {
                Ok(data) => Ok(Route::from_template(topic, data, queues)),
                Err(_) => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// All clusters and brokers.
    pub async fn cluster_info(&self) -> Result<ClusterInfo, Error> {
        read_body(&self.ask_nameservers(Command::request(request::GET_BROKER_CLUSTER_INFO)).await?)
    }

    /// All topics.
    pub async fn topic_list(&self) -> Result<TopicList, Error> {
        read_body(&self.ask_nameservers(Command::request(request::GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).await?)
    }
}

/// Reads the JSON body of an answer.
pub(super) fn read_body<T: serde::de::DeserializeOwned>(answer: &Command) -> Result<T, Error> {
    from_slice(&answer.body).map_err(|error| Error::Malformed { address: "the server".into(), what: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_nameservers() {
        let servers = NameServers::parse(" a:1 ; http://b:2,c;").unwrap();
        assert_eq!(servers.addresses(), ["a:1", "b:2", "c:9876"]);
        assert!(NameServers::parse(" ; ").is_err());
    }
}
