//! The real world: the only code that touches sockets, files, mappings and the operating system's clock.
//!
//! Needs a tokio runtime. Work that may wait for the device runs on tokio's blocking threads.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod clock;
mod disk;
mod front;
mod mapping;
mod net;
pub mod poll;
pub mod process;
mod rng;

use std::sync::Arc;

use super::Env;

/// The environment of this process.
pub fn env() -> Env {
    Env::new(
        Arc::new(clock::SystemClock::default()),
        Arc::new(net::TcpNet),
        Arc::new(disk::FileDisk),
        Arc::new(rng::SystemRng::default()),
    )
}
