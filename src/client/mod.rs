//! The client library: producers, consumers and tools for a metaq or RocketMQ cluster.
//!
//! Everything starts with a [`Client`], which knows the NameServers and shares its connections:
//!
//! | to | use |
//! | --- | --- |
//! | send | [`Client::producer`], [`Producer`] |
//! | send together with a local transaction | [`ProducerBuilder::transactional`], [`TransactionProducer`] |
//! | have messages brought to a listener | [`Client::push_consumer`], [`PushConsumer`] |
//! | ask for messages, as a group or alone | [`Client::pull_consumer`], [`Client::reader`], [`PullConsumer`] |
//! | ask each queue when it suits the application | [`PullConsumerBuilder::scheduled`], [`ScheduledConsumer`] |
//! | look after the cluster | [`Client::admin`], [`Admin`] |
//! | have it proved that nothing went wrong | [`Client::record`], [`Recorder`] |

//!
//! Failures that it deals with itself are `tracing` events at debug, within spans: `send` for each send, `queue` for what
//! a consumer does in one, `rebalance`, and `request` for each question to a server.

mod admin;
mod compression;
mod connections;
mod consumer;
mod error;
mod instance;
mod keys;
mod members;
mod message;
mod nameservers;
mod producer;
mod recorder;
mod remote;
mod requests;
mod rules;
mod server_requests;
mod timing;
mod trace;

pub use crate::proto::body::MessageQueue;
pub use crate::proto::message::trace::{Trace, TraceKind};
pub use admin::{Admin, GroupLag, ResetTo, TopicTraffic};
pub use compression::{CompressionType, UnpackError};
pub use consumer::{
    Action, ConsumeFrom, NextPull, OrderlyAction, Position, PullConsumer, PullConsumerBuilder, PushConsumer,
    PushConsumerBuilder, ScheduledConsumer,
};
pub use error::Error;
pub use instance::Client;
pub use message::{Message, Received};
pub use producer::{
    Attempt, AutoBatch, Durability, LocalTransaction, Producer, ProducerBuilder, RequestError, SendError, Sent,
    Transacted, TransactionProducer,
};
pub use recorder::Recorder;
pub use rules::allocation::{Allocation, AllocationError, MachineRooms};
