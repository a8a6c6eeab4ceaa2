//! NameServers, one by one.

use super::Admin;
use crate::client::error::Error;
use crate::client::nameservers::read_body;
use crate::client::remote::ANSWER_LIMIT;
use crate::proto::body::ClusterInfo;
use crate::proto::remoting::{request, Command};

impl Admin {
    /// What each of the client's NameServers says of the cluster. Healthy ones say the same.
    pub async fn each_nameserver(&self) -> Vec<(String, Result<ClusterInfo, Error>)> {
        let mut answers = Vec::new();
        for address in self.client.nameservers.addresses() {
            let command = Command::request(request::GET_BROKER_CLUSTER_INFO);
            let answer = self.client.ask(address, command, ANSWER_LIMIT).await;
            answers.push((address.clone(), answer.and_then(|answer| read_body(&answer))));
        }
        answers
    }
}
