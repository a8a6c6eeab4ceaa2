//! One settings struct per role, with RocketMQ's keys.

pub mod broker;
pub mod keys;
pub mod nameserver;
pub mod properties;
