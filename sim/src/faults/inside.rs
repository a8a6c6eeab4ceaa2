//! Faults inside the product: planted bugs and rare but legal behaviour.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use metaq::env::{BuggifySite, Canary, Faults};

use crate::random::Stream;

/// Of 1,000 seeds, in how many a site is active.
const ACTIVE_PER_MILLE: u64 = 250;
/// Of 1,000 visits to an active site, how many misbehave.
const FIRE_PER_MILLE: u64 = 100;

/// Answers the product's questions in one run.
pub struct SimFaults {
    seed: u64,
    canaries: BTreeSet<Canary>,
    quirks: bool,
    sites: Mutex<BTreeMap<BuggifySite, Option<Stream>>>,
}

impl SimFaults {
    /// With these planted bugs on; rare behaviour happens only with `quirks`.
    pub fn new(seed: u64, canaries: BTreeSet<Canary>, quirks: bool) -> SimFaults {
        SimFaults { seed, canaries, quirks, sites: Mutex::default() }
    }
}

impl Faults for SimFaults {
    fn canary(&self, canary: Canary) -> bool {
        self.canaries.contains(&canary)
    }

    fn buggify(&self, site: BuggifySite) -> bool {
        if !self.quirks {
            return false;
        }
        let mut sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = sites.entry(site).or_insert_with(|| {
            let mut stream = Stream::new(self.seed, &format!("{site:?}"));
            stream.chance(ACTIVE_PER_MILLE).then_some(stream)
        });
        stream.as_mut().is_some_and(|stream| stream.chance(FIRE_PER_MILLE))
    }
}
