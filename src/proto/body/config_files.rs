//! The files in `config/`: the same types as on the wire, printed as fastjson's pretty format prints them.
//!
//! Whoever keeps the files writes them atomically; here are only bytes and values. Integer keys are quoted, which
//! RocketMQ reads as well as its own unquoted ones.

use serde::de::DeserializeOwned;
use serde::Serialize;

use super::json::{from_slice, to_vec_pretty, JsonError};
use super::{
    ConsumerOffsetSerializeWrapper, DelayOffsetSerializeWrapper, SubscriptionGroupWrapper, TopicConfigSerializeWrapper,
};

/// The content of one of the files.
pub trait ConfigFile: DeserializeOwned + Serialize {
    /// The file's name within `config/`.
    const NAME: &'static str;

    /// Reads the file's bytes. An empty file is an error: RocketMQ goes on to the `.bak` file then.
    fn parse(bytes: &[u8]) -> Result<Self, JsonError> {
        from_slice(bytes)
    }

    /// The file's bytes.
    fn print(&self) -> Vec<u8> {
        to_vec_pretty(self)
    }
}

impl ConfigFile for TopicConfigSerializeWrapper {
    const NAME: &'static str = "topics.json";
}

impl ConfigFile for SubscriptionGroupWrapper {
    const NAME: &'static str = "subscriptionGroup.json";
}

impl ConfigFile for ConsumerOffsetSerializeWrapper {
    const NAME: &'static str = "consumerOffset.json";
}

impl ConfigFile for DelayOffsetSerializeWrapper {
    const NAME: &'static str = "delayOffset.json";
}
