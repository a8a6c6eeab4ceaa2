//! Random numbers seeded by the operating system.

use std::sync::Mutex;

use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};

use crate::env::Rng;

/// Not for secrets: queue choice, message ids, jitter.
pub(super) struct SystemRng(Mutex<SmallRng>);

impl Default for SystemRng {
    fn default() -> Self {
        SystemRng(Mutex::new(SmallRng::from_os_rng()))
    }
}

impl Rng for SystemRng {
    fn next_u64(&self) -> u64 {
        self.0.lock().expect("no code panics while it holds this lock").next_u64()
    }
}
