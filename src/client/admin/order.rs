//! Topics whose queues are fixed: RocketMQ's order configuration, kept by the NameServers.

use std::collections::BTreeMap;

use super::Admin;
use crate::client::error::Error;
use crate::proto::remoting::requests::{DeleteKvConfig, GetKvConfig, PutKvConfig};
use crate::proto::remoting::{request, response, Command};

/// The namespace of the NameServers' key-value table that holds the fixed queues of topics.
const NAMESPACE: &str = "ORDER_TOPIC_CONFIG";

impl Admin {
    /// How many queues of a topic are fixed on each broker; `None` if its queues are those of the brokers that are there.
    ///
    /// # Errors
    /// [`Error::NoNameServer`].
    pub async fn fixed_queues(&self, topic: &str) -> Result<Option<BTreeMap<String, i32>>, Error> {
        let header = GetKvConfig { namespace: NAMESPACE.into(), key: topic.into() };
        let command = Command::request(request::GET_KV_CONFIG).with_ext(&header);
        match self.client.ask_nameservers(command).await {
            Ok(answer) => Ok(answer.ext("value").map(parse)),
            Err(error) if error.code() == Some(response::QUERY_NOT_FOUND) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Fixes a topic's queues: clients are told these and no others, whether their broker is there or not, if the
    /// NameServers have `orderMessageEnable`. All NameServers are told.
    ///
    /// # Errors
    /// [`Error::NoNameServer`]; it may be told to some of them then.
    pub async fn fix_queues(&self, topic: &str, queues: &BTreeMap<String, i32>) -> Result<(), Error> {
        let value = print(queues);
        let header =
            PutKvConfig { namespace: Some(NAMESPACE.into()), key: Some(topic.into()), value: value.as_str().into() };
        self.tell_nameservers(Command::request(request::PUT_KV_CONFIG).with_ext(&header)).await
    }

    /// Lets a topic's queues be those of the brokers that are there.
    ///
    /// # Errors
    /// As [`Admin::fix_queues`].
    pub async fn unfix_queues(&self, topic: &str) -> Result<(), Error> {
        let header = DeleteKvConfig { namespace: NAMESPACE.into(), key: topic.into() };
        self.tell_nameservers(Command::request(request::DELETE_KV_CONFIG).with_ext(&header)).await
    }

    async fn tell_nameservers(&self, command: Command) -> Result<(), Error> {
        for address in self.client.nameservers.addresses() {
            self.ask(address, command.clone()).await?;
        }
        Ok(())
    }
}

/// `broker-a:8;broker-b:8`; what is none of it is passed over, as clients do.
fn parse(text: &str) -> BTreeMap<String, i32> {
    let entries = text.split(';').filter_map(|entry| entry.split_once(':'));
    entries.filter_map(|(broker, count)| Some((broker.trim().to_owned(), count.trim().parse().ok()?))).collect()
}

fn print(queues: &BTreeMap<String, i32>) -> String {
    queues.iter().map(|(broker, count)| format!("{broker}:{count}")).collect::<Vec<_>>().join(";")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_rocketmqs() {
        let queues = BTreeMap::from([("broker-a".to_owned(), 8), ("broker-b".to_owned(), 4)]);
        assert_eq!(print(&queues), "broker-a:8;broker-b:4");
        assert_eq!(parse("broker-a:8;broker-b:4"), queues);
        assert_eq!(parse("broker-a:8;;x;y:z; broker-b : 4 "), queues);
    }
}
