//! Where brokers are: what the NameServers say.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use metaq::env::Env;
use metaq::proto::body::{json, TopicRouteData};
use metaq::proto::remoting::{request, response, Command};

use super::Remote;

/// How long a request to a server may take.
pub const CALL_LIMIT: Duration = Duration::from_secs(3);

/// Why a client could not do something.
#[derive(Debug)]
pub enum ClientError {
    /// The server did not answer, or the connection broke: whether it did what was asked is unknown.
    NoAnswer(io::Error),
    /// It answered with another code than success.
    Refused(Command),
    /// No NameServer knows a broker for the topic.
    NoRoute,
}

/// Routes and connections of one client.
pub struct Routes {
    env: Env,
    nameservers: Vec<Remote>,
    /// The NameServer asked last; the next one is tried when it fails.
    current: usize,
    brokers: BTreeMap<String, Remote>,
}

impl Routes {
    /// A client that asks these NameServers.
    pub fn new(env: Env, nameservers: &[String]) -> Routes {
        let nameservers = nameservers.iter().map(|address| Remote::new(env.clone(), address.clone())).collect();
        Routes { env, nameservers, current: 0, brokers: BTreeMap::new() }
    }

    /// The doors of the client's node.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// The route of a topic from the NameServer asked last, or from the next one that answers.
    pub async fn route(&mut self, topic: &str) -> Result<TopicRouteData, ClientError> {
        let mut error = ClientError::NoRoute;
        for _ in 0..self.nameservers.len() {
            let mut ask = Command::request(request::GET_ROUTEINFO_BY_TOPIC);
            ask.ext.push("topic", topic);
            match self.nameservers[self.current].call(ask, CALL_LIMIT).await {
                Ok(answer) if answer.code == response::SUCCESS => {
                    return json::from_slice(&answer.body)
                        .map_err(|error| ClientError::NoAnswer(io::Error::other(error)));
                }
                Ok(answer) if answer.code == response::TOPIC_NOT_EXIST => return Err(ClientError::NoRoute),
                Ok(answer) => error = ClientError::Refused(answer),
                Err(failure) => error = ClientError::NoAnswer(failure),
            }
            self.current = (self.current + 1) % self.nameservers.len();
        }
        Err(error)
    }

    /// Asks the master of a broker of `route`.
    pub async fn ask(
        &mut self,
        route: &TopicRouteData,
        broker: &str,
        request: Command,
        limit: Duration,
    ) -> Result<Command, ClientError> {
        let address = route.broker_datas.iter().find(|data| data.broker_name == broker);
        let address = address.and_then(|data| data.broker_addrs.get(&0)).ok_or(ClientError::NoRoute)?;
        let env = &self.env;
        let remote = self.brokers.entry(address.clone()).or_insert_with(|| Remote::new(env.clone(), address.clone()));
        remote.call(request, limit).await.map_err(ClientError::NoAnswer)
    }
}
