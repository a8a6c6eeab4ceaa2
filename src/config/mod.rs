//! One settings struct per role, with RocketMQ's keys.

pub mod nameserver;
