//! What the client decides, as plain structs: time comes in as a number, nothing here waits.

pub mod accumulator;
pub mod allocation;
pub mod backoff;
pub mod choice;
pub mod latency;
pub mod md5;
pub mod process_queue;
pub mod retry;
pub mod route;
pub mod start;
