//! Random streams: one per purpose, so that what one part draws never moves what another part gets.

use std::sync::Mutex;

use metaq::env::Rng;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::trace::Fnv;

/// One stream of random numbers.
#[derive(Clone, Debug)]
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// The stream of `seed` for `purpose`.
    pub fn new(seed: u64, purpose: &str) -> Stream {
        let mut hash = Fnv::EMPTY;
        hash.number(seed);
        hash.bytes(purpose.as_bytes());
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_be_bytes());
        key[8..16].copy_from_slice(&hash.0.to_be_bytes());
        let name = &purpose.as_bytes()[..purpose.len().min(16)];
        key[16..16 + name.len()].copy_from_slice(name);
        Stream(ChaCha8Rng::from_seed(key))
    }

    /// Any number.
    pub fn draw(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number in `0..bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "an empty range");
        low + self.below(high - low + 1)
    }

    /// True in `per_mille` of 1,000 cases.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }

    /// One of `choices`, which must not be empty.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }
}

/// The product's random numbers on one node.
pub struct SimRng(Mutex<Stream>);

impl SimRng {
    /// A source over `stream`.
    pub fn new(stream: Stream) -> SimRng {
        SimRng(Mutex::new(stream))
    }
}

impl Rng for SimRng {
    fn next_u64(&self) -> u64 {
        self.0.lock().expect("random stream").draw()
    }
}
